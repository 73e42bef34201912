//! A model written row by row, made into a `Model`: the wrapper sums, zeroes and mirrors, so that a model is its formulas alone.

use motes::{At, Gives, Model, ModelError, Want};

/// What is asked of one row. The slices come zeroed, but for the Hessian, to whose lower triangle a row adds its own.
pub struct Ask<'a> {
    pub value: bool,
    pub grad_x: Option<&'a mut [f64]>,
    pub score: Option<&'a mut [f64]>,
    pub hessian: Option<&'a mut [f64]>,
}

/// A model by its rows: log p_theta(x, y) of one particle of one group, with every constant.
pub trait Rows: Send + Sync {
    fn name(&self) -> &'static str;
    fn d_theta(&self) -> usize;
    fn d_x(&self) -> usize;
    fn groups(&self) -> usize;
    /// How many numbers [`Rows::prepare`] writes.
    fn cache_len(&self) -> usize {
        0
    }
    /// Writes what all rows of a group have in common at theta.
    fn prepare(&self, _theta: &[f64], _group: usize, _cache: &mut [f64]) {}
    /// The log density of a row; anything if its value is not asked for.
    fn row(&self, theta: &[f64], cache: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64;
    /// What a row's gradients take, roughly.
    fn nanoseconds(&self) -> f64 {
        20.0 * self.d_x() as f64
    }
    /// Where a run starts; zero unless the model says otherwise.
    fn start(&self, _theta: &mut [f64]) {}
    /// Whether rows know their Hessian.
    fn hessian(&self) -> bool {
        true
    }
}

/// The model that rows make.
pub struct Of<R>(pub R);

impl<R: Rows> Model<f64> for Of<R> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn d_theta(&self) -> usize {
        self.0.d_theta()
    }

    fn d_x(&self) -> usize {
        self.0.d_x()
    }

    fn groups(&self) -> usize {
        self.0.groups()
    }

    fn scratch_len(&self, _rows: usize) -> usize {
        self.0.cache_len() + self.0.d_theta()
    }

    fn nanoseconds_per_row(&self) -> f64 {
        self.0.nanoseconds()
    }

    fn rows_per_block(&self, _n: usize) -> usize {
        (100_000.0 / self.0.nanoseconds()).ceil() as usize
    }

    fn gives(&self) -> Gives {
        Gives { hessian: self.0.hessian(), ..Gives::ALL }
    }

    fn start(&self, _seed: u64, theta: &mut [f64], _buffers: &mut [f64]) {
        self.0.start(theta);
    }

    fn evaluate(&self, at: At<'_, f64>, mut want: Want<'_, f64>) -> Result<(), ModelError> {
        let (d, d_x) = (self.0.d_theta(), self.0.d_x());
        let (cache, rest) = want.scratch.split_at_mut(self.0.cache_len());
        // A row's score is always taken by itself first: the sum then has the same bits whether or not scores are asked for.
        let mut own = Some(&mut rest[..d]).filter(|_| want.grad_theta.is_some());
        for sum in [&mut want.grad_theta, &mut want.hessian, &mut want.scores, &mut want.grad_x] {
            sum.iter_mut().for_each(|sum| sum.fill(0.0));
        }
        let mut i = 0;
        for (group, rows) in at.by_group() {
            self.0.prepare(at.theta, group, cache);
            for x in rows.chunks_exact(d_x) {
                let mut score = match want.scores.as_deref_mut() {
                    Some(scores) => Some(&mut scores[i * d..(i + 1) * d]),
                    None => own.as_deref_mut(),
                };
                if let Some(score) = score.as_deref_mut() {
                    score.fill(0.0);
                }
                let ask = Ask {
                    value: want.log_density.is_some(),
                    grad_x: want.grad_x.as_deref_mut().map(|g| &mut g[i * d_x..(i + 1) * d_x]),
                    score: score.as_deref_mut(),
                    hessian: want.hessian.as_deref_mut(),
                };
                let value = self.0.row(at.theta, cache, group, x, ask);
                if let Some(out) = want.log_density.as_deref_mut() {
                    out[i] = value;
                }
                if let (Some(sum), Some(score)) = (want.grad_theta.as_deref_mut(), score) {
                    sum.iter_mut().zip(score).for_each(|(sum, s)| *sum += *s);
                }
                i += 1;
            }
        }
        if let Some(h) = want.hessian {
            for a in 0..d {
                for b in 0..a {
                    h[b * d + a] = h[a * d + b];
                }
            }
        }
        Ok(())
    }
}
