//! Annealed importance sampling both ways, for the log-likelihood where a Gaussian alone is too far from the posterior: chains are
//! carried from the Gaussian to the posterior, others from the posterior's draws back to the Gaussian, and a bridge joins the
//! weights of the two (Bennett's acceptance ratio on Crooks's identity).

use nalgebra::{Cholesky, DMatrix};

use super::evidence::bridge;
use super::memory::Memory;
use super::sweep::{Collect, Kernel, Sweeper};
use crate::noise::{Noise, Purpose};
use crate::{At, KeptClouds, Model, ModelError, Real, Stop, Want};

/// Temperatures of the first attempt; they are doubled until both ways agree.
const TEMPERATURES: u64 = 32;
/// Evaluations for each chain that the attempts may take together.
const EVALUATIONS: f64 = 16_000.0;
/// Correlations enter the Gaussian if there are so many draws for each dimension ...
const DRAWS_PER_DIMENSION: usize = 5;
/// ... and their matrices have at most so many numbers; they are shrunk by this much.
const MOST_CORRELATIONS: usize = 1 << 20;
const SHRINKAGE: f64 = 0.05;
/// Clouds of chains in either direction.
const ROUNDS: usize = 2;
/// The mean weights of the two ways may differ by so much in a group, as a logarithm, for an answer that needs no doubling ...
const NEAR: f64 = 2.0;
/// ... and for any answer at all: beyond that the weights hardly overlap.
const FAR: f64 = 8.0;
/// The error that is aimed at.
const GOAL: f64 = 0.1;

/// The sum over groups of log integrals, and the variance of that; else why there is none.
pub(super) fn anneal<F: Real>(
    model: &dyn Model<F>,
    theta: &[f64],
    draws: &KeptClouds<F>,
    memory: &Memory,
    n: usize,
    seed: u64,
) -> Result<(f64, f64), String> {
    let mut paths = vec![Path::new(model, draws, n)];
    paths.extend(paths[0].correlated(draws, n));
    let (mut temperatures, mut spent) = (TEMPERATURES, 0.0);
    loop {
        let mut tried = Vec::new();
        for path in paths {
            let weights = path.weights(theta, draws, memory, temperatures, seed);
            let found = weights.map_err(|e: ModelError| e.to_string())?.join(path.chains / 2);
            spent += (2 * ROUNDS) as f64 * temperatures as f64 * f64::from(memory.progress.leaps + 1);
            tried.push((path, found));
        }
        // The Gaussian that is nearer goes on.
        let nearer = tried.into_iter().min_by(|(_, a), (_, b)| a.gap.total_cmp(&b.gap));
        let (path, found) = nearer.expect("at least one");
        if found.gap <= NEAR && found.variance.sqrt() <= GOAL {
            return Ok((found.value, found.variance));
        }
        // The next attempt takes twice as much.
        if spent + 2.0 * spent > EVALUATIONS {
            return match found.gap <= FAR {
                true => Ok((found.value, found.variance)),
                false => Err(format!(
                    "annealed importance sampling with {temperatures} temperatures does not lead from a Gaussian to the posterior: the two ways differ by {:.0} in logarithms",
                    found.gap
                )),
            };
        }
        temperatures *= 2;
        paths = vec![path];
    }
}

/// The way between a Gaussian q and the posterior p: q^(1 - b) p^b, where b is the last component of theta.
struct Path<'m, F: Real> {
    model: &'m dyn Model<F>,
    /// Chains of a group, in each round.
    chains: usize,
    /// Means and standard deviations of q, group by group.
    mean: Vec<f64>,
    sd: Vec<f64>,
    /// Where correlations are known, those of each group.
    correlations: Vec<Correlations>,
}

/// Of standardised coordinates: the root of their matrix, its inverse, and the logarithm of the root's determinant.
struct Correlations {
    root: DMatrix<f64>,
    inverse: DMatrix<f64>,
    log_determinant: f64,
}

impl Correlations {
    /// Of rows of d standardised coordinates.
    fn of(rows: &[f64], d: usize) -> Option<Self> {
        let rows = DMatrix::from_column_slice(d, rows.len() / d, rows);
        let mut matrix = &rows * rows.transpose() * ((1.0 - SHRINKAGE) / (rows.ncols() as f64 - 1.0));
        (0..d).for_each(|i| matrix[(i, i)] = 1.0);
        let factors = Cholesky::new(matrix)?;
        let (inverse, root) = (factors.inverse(), factors.l());
        let log_determinant = root.diagonal().iter().map(|v| v.ln()).sum();
        Some(Correlations { root, inverse, log_determinant })
    }
}

/// The logarithms of weights, `[round][group][chain]`: of chains that begin at q, and of those that begin at the posterior.
struct Weights {
    groups: usize,
    there: Vec<f64>,
    back: Vec<f64>,
}

struct Joined {
    value: f64,
    variance: f64,
    gap: f64,
}

impl<'m, F: Real> Path<'m, F> {
    /// q is fitted to the first half of the particles; the others are where chains begin.
    fn new(model: &'m dyn Model<F>, draws: &KeptClouds<F>, n: usize) -> Self {
        let (width, d) = (model.groups() * model.d_x(), model.d_x());
        let (mut mean, mut sd) = (vec![0.0; width], vec![0.0; width]);
        for g in 0..model.groups() {
            for j in 0..d {
                let values = draws
                    .data
                    .chunks_exact(width * n)
                    .flat_map(|cloud| cloud[g * n * d + j..].iter().step_by(d).take(n / 2).map(|v| v.f64()));
                let count = values.clone().count() as f64;
                let middle = values.clone().sum::<f64>() / count;
                let scatter = values.map(|v| (v - middle) * (v - middle)).sum::<f64>();
                mean[g * d + j] = middle;
                sd[g * d + j] = (scatter / (count - 1.0)).sqrt();
            }
        }
        Path { model, chains: n & !1, mean, sd, correlations: Vec::new() }
    }

    /// The same with the draws' correlations, if there are enough of them.
    fn correlated(&self, draws: &KeptClouds<F>, n: usize) -> Option<Self> {
        let (width, d) = (self.mean.len(), self.model.d_x());
        if width * d > MOST_CORRELATIONS || n / 2 * draws.sizes.len() < DRAWS_PER_DIMENSION * d {
            return None;
        }
        let of = |g: usize| {
            let mut rows = Vec::new();
            for cloud in draws.data.chunks_exact(width * n) {
                for x in cloud[g * n * d..].chunks_exact(d).take(n / 2) {
                    let own = self.mean[g * d..].iter().zip(&self.sd[g * d..]);
                    rows.extend(x.iter().zip(own).map(|(x, (mean, sd))| (x.f64() - mean) / sd));
                }
            }
            Correlations::of(&rows, d)
        };
        let correlations = (0..self.model.groups()).map(of).collect::<Option<_>>()?;
        let Path { model, chains, ref mean, ref sd, .. } = *self;
        Some(Path { model, chains, mean: mean.clone(), sd: sd.clone(), correlations })
    }

    fn weights(
        &self,
        theta: &[f64],
        draws: &KeptClouds<F>,
        memory: &Memory,
        temperatures: u64,
        seed: u64,
    ) -> Result<Weights, ModelError> {
        let (groups, d, n) = (self.model.groups(), self.model.d_x(), self.chains);
        let rows = groups * n;
        let normals = Noise::new(seed, Purpose::Evidence);
        let noise = [Purpose::Annealing, Purpose::AnnealingAccept].map(|p| Noise::new(seed, p));
        let mut sweeper = Sweeper::with_noise(self, n, noise, Stop::default());
        let mut at = theta.to_vec();
        at.push(0.0);
        let last = theta.len();
        let share = |t: u64| t as f64 / temperatures as f64;
        let mut weights = Weights { groups, there: vec![0.0; ROUNDS * rows], back: vec![0.0; ROUNDS * rows] };
        let mut x = vec![F::of(0.0); rows * d];
        for round in 0..ROUNDS {
            // Each sweep of each attempt has draws of its own.
            let number =
                |direction: u64, t: u64| ((4 * temperatures + 2 * round as u64 + direction) << 32) | t;
            let kernel = |k: u64| Kernel {
                k,
                scale: &memory.scale,
                step: &memory.step,
                leaps: memory.progress.leaps,
                jitter: 1.0,
            };
            F::normals(&normals, number(0, 0), 0, &mut x);
            x.chunks_exact_mut(d).enumerate().for_each(|(row, x)| self.draw(row / n, x));
            let there = &mut weights.there[round * rows..(round + 1) * rows];
            at[last] = 0.0;
            sweeper.forget();
            sweeper.know(&at, &x)?;
            for t in 1..=temperatures {
                at[last] = share(t);
                sweeper.evaluate(&at, &x)?;
                sweeper.add_differences(1.0, there);
                sweeper.adopt();
                sweeper.sweep(&at, &mut x, kernel(number(0, t)), Collect::Nothing)?;
            }
            self.draws(draws, round, &mut x);
            let back = &mut weights.back[round * rows..(round + 1) * rows];
            at[last] = 1.0;
            sweeper.forget();
            for t in (1..=temperatures).rev() {
                sweeper.sweep(&at, &mut x, kernel(number(1, t)), Collect::Nothing)?;
                at[last] = share(t - 1);
                sweeper.evaluate(&at, &x)?;
                sweeper.add_differences(-1.0, back);
                sweeper.adopt();
            }
        }
        Ok(weights)
    }

    /// Turns standard normals into a draw of q.
    fn draw(&self, g: usize, x: &mut [F]) {
        let d = x.len();
        for i in (0..d).rev() {
            let z = match self.correlations.get(g) {
                None => x[i].f64(),
                Some(c) => (0..=i).map(|j| c.root[(i, j)] * x[j].f64()).sum(),
            };
            x[i] = F::of(self.mean[g * d + i] + self.sd[g * d + i] * z);
        }
    }

    /// The log density of q, and its gradient in standardised coordinates.
    fn gaussian(&self, g: usize, x: &[F], z: &mut [f64], grad: &mut [f64]) -> f64 {
        let d = x.len();
        let (mean, sd) = (&self.mean[g * d..(g + 1) * d], &self.sd[g * d..(g + 1) * d]);
        for (i, z) in z.iter_mut().enumerate() {
            *z = (x[i].f64() - mean[i]) / sd[i];
        }
        let mut log = -0.5 * d as f64 * std::f64::consts::TAU.ln() - sd.iter().map(|s| s.ln()).sum::<f64>();
        match self.correlations.get(g) {
            None => grad.iter_mut().zip(&*z).for_each(|(grad, z)| *grad = -z),
            Some(c) => {
                log -= c.log_determinant;
                for (grad, column) in grad.iter_mut().zip(c.inverse.as_slice().chunks_exact(d)) {
                    *grad = -column.iter().zip(&*z).map(|(c, z)| c * z).sum::<f64>();
                }
            }
        }
        log + 0.5 * z.iter().zip(&*grad).map(|(z, g)| z * g).sum::<f64>()
    }

    /// Draws of the posterior for a round: the second half of the particles of two clouds.
    fn draws(&self, draws: &KeptClouds<F>, round: usize, x: &mut [F]) {
        let (groups, d, half) = (self.model.groups(), self.model.d_x(), self.chains / 2);
        let (clouds, n) = (draws.sizes.len(), draws.sizes[0][1] as usize);
        for (row, to) in x.chunks_exact_mut(d).enumerate() {
            let (g, chain) = (row / self.chains, row % self.chains);
            let cloud = (2 * round + chain / half) * clouds / (2 * ROUNDS);
            let from = ((cloud * groups + g) * n + n - half + chain % half) * d;
            to.copy_from_slice(&draws.data[from..from + d]);
        }
    }
}

impl Weights {
    /// Joins the two ways, with draws of so many particles in turn.
    fn join(&self, particles: usize) -> Joined {
        let chains = self.there.len() / ROUNDS / self.groups;
        let of = |all: &[f64], g: usize| -> Vec<f64> {
            let rounds = all.chunks_exact(self.groups * chains);
            rounds.flat_map(|round| &round[g * chains..(g + 1) * chains]).copied().collect()
        };
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let mut joined = Joined { value: 0.0, variance: 0.0, gap: 0.0 };
        for g in 0..self.groups {
            let (there, back) = (of(&self.there, g), of(&self.back, g));
            let (value, variance) = bridge(&back, &there, particles);
            joined.value += value;
            joined.variance += variance;
            let gap = mean(&back) - mean(&there);
            joined.gap = if gap.is_nan() { f64::INFINITY } else { joined.gap.max(gap) };
        }
        joined
    }
}

impl<F: Real> Model<F> for Path<'_, F> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn d_theta(&self) -> usize {
        self.model.d_theta() + 1
    }

    fn d_x(&self) -> usize {
        self.model.d_x()
    }

    fn groups(&self) -> usize {
        self.model.groups()
    }

    fn rows_per_block(&self, n: usize) -> usize {
        self.model.rows_per_block(n)
    }

    fn whole_batch(&self) -> bool {
        self.model.whole_batch()
    }

    fn nanoseconds_per_row(&self) -> f64 {
        self.model.nanoseconds_per_row()
    }

    fn scratch_len(&self, rows: usize) -> usize {
        self.model.scratch_len(rows)
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        let (share, theta) = at.theta.split_last().expect("theta and the share of the posterior");
        let (x, groups, d) = (at.x, at.groups, self.model.d_x());
        let Want { mut log_density, mut grad_x, scratch, .. } = want;
        if *share > 0.0 {
            let asked = Want {
                log_density: log_density.as_deref_mut(),
                grad_x: grad_x.as_deref_mut(),
                ..Want::nothing(scratch)
            };
            self.model.evaluate(At { theta, ..at }, asked)?;
        } else {
            // A Gaussian reaches where the model has no value.
            log_density.iter_mut().for_each(|l| l.fill(0.0));
            grad_x.iter_mut().for_each(|g| g.fill(F::of(0.0)));
        }
        let rows = x.len() / d;
        let rest = 1.0 - share;
        let (mut z, mut slope) = (vec![0.0; d], vec![0.0; d]);
        for (i, x) in x.chunks_exact(d).enumerate() {
            let group = groups[i * groups.len() / rows] as usize;
            let density = self.gaussian(group, x, &mut z, &mut slope);
            if let Some(grad) = grad_x.as_deref_mut() {
                let row = grad[i * d..(i + 1) * d].iter_mut();
                for ((grad, slope), sd) in row.zip(&slope).zip(&self.sd[group * d..]) {
                    *grad = F::of(share * grad.f64() + rest * slope / sd);
                }
            }
            if let Some(l) = log_density.as_deref_mut() {
                l[i] = if *share > 0.0 { share * l[i] + rest * density } else { density };
            }
        }
        Ok(())
    }
}
