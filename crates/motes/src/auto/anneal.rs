//! Annealed importance sampling both ways, for the log-likelihood where a Gaussian alone is too far from the posterior: chains are
//! carried from the Gaussian to the posterior, others from the posterior's draws back to the Gaussian, and a bridge joins the
//! weights of the two (Bennett's acceptance ratio on Crooks's identity).

use super::evidence::bridge;
use super::gaussian::Gaussian;
use super::memory::Memory;
use super::sweep::{Collect, Kernel, Sweeper};
use crate::noise::{Noise, Purpose};
use crate::{At, KeptClouds, Model, ModelError, Real, Team, Want};

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
    /// q, group by group.
    gaussians: Vec<Gaussian>,
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
        let d = model.d_x();
        let fitted = |g| Gaussian::independent(&first_half(draws, (model.groups(), n, d), g), d);
        Path { model, chains: n & !1, gaussians: (0..model.groups()).map(fitted).collect() }
    }

    /// The same with the draws' correlations, if there are enough of them.
    fn correlated(&self, draws: &KeptClouds<F>, n: usize) -> Option<Self> {
        let Path { model, chains, ref gaussians } = *self;
        let (groups, d) = (model.groups(), model.d_x());
        if groups * d * d > MOST_CORRELATIONS || n / 2 * draws.sizes.len() < DRAWS_PER_DIMENSION * d {
            return None;
        }
        let with = |(g, gaussian): (usize, &Gaussian)| {
            gaussian.clone().correlated(&first_half(draws, (groups, n, d), g), SHRINKAGE)
        };
        let gaussians = gaussians.iter().enumerate().map(with).collect::<Option<_>>()?;
        Some(Path { model, chains, gaussians })
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
        let mut sweeper = Sweeper::with_noise(self, n, noise, Team::default());
        let mut at = theta.to_vec();
        at.push(0.0);
        let last = theta.len();
        let share = |t: u64| t as f64 / temperatures as f64;
        let mut weights = Weights { groups, there: vec![0.0; ROUNDS * rows], back: vec![0.0; ROUNDS * rows] };
        let (mut x, mut z) = (vec![F::of(0.0); rows * d], vec![0.0; d]);
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
            for (row, x) in x.chunks_exact_mut(d).enumerate() {
                z.iter_mut().zip(&*x).for_each(|(z, x)| *z = x.f64());
                self.gaussians[row / n].draw(&mut z);
                x.iter_mut().zip(&z).for_each(|(x, z)| *x = F::of(*z));
            }
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

/// A group's draws of the first half of the particles, cloud after cloud.
fn first_half<F: Real>(draws: &KeptClouds<F>, (groups, n, d): (usize, usize, usize), g: usize) -> Vec<f64> {
    let clouds = draws.data.chunks_exact(groups * n * d);
    clouds.flat_map(|cloud| &cloud[g * n * d..][..n / 2 * d]).map(|v| v.f64()).collect()
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
        let (mut slope, mut whitened) = (vec![0.0; d], vec![0.0; d]);
        for (i, x) in x.chunks_exact(d).enumerate() {
            let group = groups[i * groups.len() / rows] as usize;
            slope.iter_mut().zip(x).for_each(|(slope, x)| *slope = x.f64());
            let density = self.gaussians[group].log_density(&mut slope, &mut whitened);
            if let Some(grad) = grad_x.as_deref_mut() {
                let row = grad[i * d..(i + 1) * d].iter_mut();
                row.zip(&slope).for_each(|(grad, s)| *grad = F::of(share * grad.f64() + rest * s));
            }
            if let Some(l) = log_density.as_deref_mut() {
                l[i] = if *share > 0.0 { share * l[i] + rest * density } else { density };
            }
        }
        Ok(())
    }
}
