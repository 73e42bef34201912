//! Predictive probabilities on test rows, streamed over particles.

use motes::Real;
use motes::blocks::for_each;
use motes::model::Predictive;

use super::design::Design;
use super::network::Pass;
use super::{Labelled, Products};
use crate::data::METRICS;

/// Particles whose probabilities are computed together before they are added up in order.
const GROUP: usize = 16;

/// Rows to predict. Their columns are their own: some may be zero in training but not here.
#[derive(Clone, Debug)]
pub(super) struct TestSet<F> {
    design: Design<F>,
    labels: Vec<u8>,
    inputs: usize,
    classes: usize,
}

impl<F: Real> TestSet<F> {
    pub fn new(rows: Labelled<'_>, [inputs, hidden, classes]: [usize; 3]) -> Self {
        let design = Design::new(rows.features, inputs, hidden, Products::Dense);
        TestSet { design, labels: rows.labels.to_vec(), inputs, classes }
    }

    fn d_x(&self) -> usize {
        self.design.layout.hidden * (self.inputs + self.classes)
    }

    /// log sum_n p(l | f, x^n) for each row and class, from the running maxima and scaled sums.
    fn logarithms<'a>(&self, state: &'a [f64]) -> impl Iterator<Item = Vec<f64>> + 'a {
        let row = |row: &[f64]| row.as_chunks::<2>().0.iter().map(|[most, sum]| most + sum.ln()).collect();
        state.chunks_exact(2 * self.classes).map(row)
    }

    /// The mean probability of each class, row by row. As those of one particle add up to 1, the sums over particles
    /// add up to their number, which is thus known.
    pub fn probabilities(&self, state: &[f64]) -> Vec<f64> {
        self.logarithms(state)
            .flat_map(|logs| {
                let all = log_sum_exp(&logs);
                logs.into_iter().map(move |l| (l - all).exp())
            })
            .collect()
    }
}

fn log_sum_exp(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|l| (l - most).exp()).sum::<f64>().ln()
}

/// Adds e^log s to a sum that is kept as its largest logarithm and what remains.
#[inline]
fn add([log, s]: [f64; 2], [most, sum]: &mut [f64; 2]) {
    if *sum == 0.0 {
        (*most, *sum) = (log, s);
    } else if log > *most {
        (*most, *sum) = (log, *sum * (*most - log).exp() + s);
    } else {
        *sum += s * (log - *most).exp();
    }
}

impl<F: Real> Predictive<F> for TestSet<F> {
    fn names(&self) -> Vec<String> {
        METRICS.map(String::from).to_vec()
    }

    fn state_len(&self) -> usize {
        2 * self.classes * self.labels.len()
    }

    fn accumulate(&self, x: &[F], state: &mut [f64]) {
        let (d, width) = (self.d_x(), self.classes * self.labels.len());
        let pass = Pass { design: &self.design, inputs: self.inputs, classes: self.classes };
        let mut logs = vec![0.0; width * GROUP.min(x.len() / d)];
        for x in x.chunks(GROUP * d) {
            let logs = &mut logs[..x.len() / d * width];
            let of_particle = |n: usize, logs: &mut [f64]| {
                let mut scratch = vec![F::default(); pass.scratch_len()];
                pass.logits(&x[n * d..(n + 1) * d], None, false, &mut scratch, |place, logits| {
                    let (row, all) = (self.design.order[place] as usize, logits.log_sum_exp());
                    let logs = &mut logs[row * self.classes..(row + 1) * self.classes];
                    logs.iter_mut().enumerate().for_each(|(l, log)| *log = logits.get(l) - all);
                });
                Ok::<(), std::convert::Infallible>(())
            };
            let Ok(()) = for_each(true, (&mut *logs, width), of_particle);
            for logs in logs.chunks_exact(width) {
                for (sum, log) in state.as_chunks_mut::<2>().0.iter_mut().zip(logs) {
                    add([*log, 1.0], sum);
                }
            }
        }
    }

    fn merge(&self, from: &[f64], into: &mut [f64]) {
        for (from, into) in from.as_chunks::<2>().0.iter().zip(into.as_chunks_mut::<2>().0) {
            add(*from, into);
        }
    }

    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        let (mut wrong, mut lppd) = (0, 0.0);
        for (logs, label) in self.logarithms(state).zip(&self.labels) {
            let label = usize::from(*label);
            let best = (0..logs.len()).fold(0, |best, l| if logs[l] > logs[best] { l } else { best });
            wrong += usize::from(best != label);
            lppd += logs[label] - log_sum_exp(&logs);
        }
        let n = self.labels.len() as f64;
        out.copy_from_slice(&[wrong as f64 / n, lppd / n]);
    }
}
