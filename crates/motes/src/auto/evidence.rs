//! The log-likelihood log p_theta(y) by bridge sampling, group by group: between the posterior's draws and a Gaussian that was
//! fitted to others of them.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::anneal::anneal;
use super::gaussian::Gaussian;
use crate::noise::{Noise, Purpose};
use crate::rows::evaluate_rows;
use crate::vmath::exp_f64;
use crate::{At, KeptClouds, Model, Real, State};

/// In more dimensions than this, a Gaussian and a posterior hardly overlap.
const MOST_DIMENSIONS: usize = 50;
/// And beyond this many annealing takes longer than a fit, and seldom arrives.
const MOST_ANNEALED: usize = 2000;
/// Draws for each dimension that a Gaussian must be fitted to.
const DRAWS_PER_DIMENSION: usize = 5;
/// Proposals of a group at the most.
const PROPOSALS: usize = 2000;
/// Steps of the iteration for the bridge.
const ITERATIONS: usize = 100;

/// log p_theta(y) with its Monte Carlo error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogLikelihood {
    /// The value.
    pub value: f64,
    /// Its Monte Carlo error.
    pub mc_error: f64,
    /// How it was computed.
    pub method: String,
    /// Whether the density has all its constants; if not, the value is up to one, the same for all theta.
    pub complete: bool,
}

/// The log-likelihood at the estimate of a fit by `auto`, from draws of the posterior there; else why it is not to be had.
/// Must be called inside [`crate::Pool::install`].
pub fn log_likelihood<F: Real>(
    model: &dyn Model<F>,
    state: &State<F>,
    seed: u64,
) -> Result<LogLikelihood, String> {
    let memory = state.auto.as_ref().ok_or("only fits by auto have draws of the posterior at one theta")?;
    let (theta, draws) = (&state.theta[..], &state.kept);
    let (groups, d) = (model.groups(), model.d_x());
    let n = draws.sizes.first().map_or(0, |[_, n]| *n as usize);
    let clouds = draws.sizes.len();
    let answer = |value: f64, variance: f64, method: &str| {
        let constant = model.left_out();
        LogLikelihood {
            value: value + constant.unwrap_or(0.0),
            mc_error: variance.sqrt(),
            method: method.into(),
            complete: constant.is_some(),
        }
    };
    let enough = n / 2 * clouds >= DRAWS_PER_DIMENSION * d;
    if n < 4 || n / 2 * clouds < 8 {
        return Err("too few draws of the posterior are kept to fit a Gaussian to".into());
    }
    if d > MOST_ANNEALED {
        return Err(format!(
            "a group has {d} latent variables, and annealed importance sampling reaches no further than {MOST_ANNEALED}"
        ));
    }
    if d > MOST_DIMENSIONS || !enough {
        let (value, variance) = anneal(model, theta, draws, memory, n, seed)?;
        return Ok(answer(value, variance, "annealing"));
    }
    let noise = Noise::new(seed, Purpose::Evidence);
    // As many groups as the model takes in one call: asking may cost more than the answer.
    let rows = (n - n / 2) * clouds;
    let at_once = (model.rows_per_block(n) / rows).clamp(1, groups);
    let of_groups: Vec<Result<Vec<(f64, f64)>, String>> = (0..groups.div_ceil(at_once))
        .into_par_iter()
        .with_min_len(16usize.div_ceil(at_once))
        .map(|i| {
            let range = i * at_once..groups.min((i + 1) * at_once);
            let integrals = Integrals { model, theta, range, n, noise: &noise };
            integrals.groups(draws)
        })
        .collect();
    let (mut value, mut variance) = (0.0, 0.0);
    for groups in of_groups {
        for (log, error) in groups? {
            value += log;
            variance += error;
        }
    }
    Ok(answer(value, variance, "bridge"))
}

/// The integrals of some groups, and what their computation needs.
struct Integrals<'a, F: Real> {
    model: &'a dyn Model<F>,
    theta: &'a [f64],
    range: Range<usize>,
    n: usize,
    noise: &'a Noise,
}

impl<F: Real> Integrals<'_, F> {
    /// The logarithm of each group's integral, and the variance of that.
    fn groups(&self, draws: &KeptClouds<F>) -> Result<Vec<(f64, f64)>, String> {
        let (n, d, clouds) = (self.n, self.model.d_x(), draws.sizes.len());
        let len = self.model.groups() * n * d;
        // By particles, which know nothing of each other: halves in time would share what both remember of their middle.
        let half = n / 2;
        let part = |particles: Range<usize>| -> Vec<F> {
            let row = particles.start * d..particles.end * d;
            let cloud = |g: usize, c: usize| &draws.data[c * len + g * n * d..c * len + (g + 1) * n * d];
            let of_range = self.range.clone().flat_map(|g| (0..clouds).map(move |c| cloud(g, c)));
            of_range.flat_map(|cloud| &cloud[row.clone()]).copied().collect()
        };
        // Either half has its turn: the mean is better than each, and the error that of one.
        let (first, second) = (part(0..half), part(half..n));
        let there = self.halves((&first, &second), n - half, 0)?;
        let back = self.halves((&second, &first), half, 1)?;
        let mean =
            |(there, back): ((f64, f64), (f64, f64))| (0.5 * (there.0 + back.0), 0.5 * (there.1 + back.1));
        Ok(there.into_iter().zip(back).map(mean).collect())
    }

    /// The same by Gaussians that are fitted to some draws and bridges to others, of n particles in turn.
    fn halves(&self, (fitted, rest): (&[F], &[F]), n: usize, turn: u64) -> Result<Vec<(f64, f64)>, String> {
        let (count, d) = (self.range.len(), self.model.d_x());
        let name = |g: usize| match self.model.groups() > 1 {
            true => format!(" of group {}", self.model.group_names()[g]),
            false => String::new(),
        };
        let gaussian = |(g, fitted): (usize, &[F])| {
            let fitted: Vec<f64> = fitted.iter().map(|v| v.f64()).collect();
            Gaussian::independent(&fitted, d).correlated(&fitted, 0.0).ok_or_else(|| {
                format!("the draws of the posterior{} do not span all its dimensions", name(g))
            })
        };
        let each = self.range.clone().zip(fitted.chunks_exact(fitted.len() / count));
        let gaussians = each.map(gaussian).collect::<Result<Vec<Gaussian>, String>>()?;
        let proposed = (rest.len() / count / d).min(PROPOSALS);
        let mut normals = vec![0.0; count * proposed * d];
        for ((g, gaussian), normals) in
            self.range.clone().zip(&gaussians).zip(normals.chunks_exact_mut(proposed * d))
        {
            self.noise.normals_f64(turn, (g * PROPOSALS * d) as u64, normals);
            normals.chunks_exact_mut(d).for_each(|row| gaussian.draw(row));
        }
        let proposals: Vec<F> = normals.iter().map(|v| F::of(*v)).collect();
        let at_draws = self.ratios(rest, &gaussians)?;
        let at_proposals = self.ratios(&proposals, &gaussians)?;
        let both = at_draws.chunks_exact(at_draws.len() / count).zip(at_proposals.chunks_exact(proposed));
        let bridged = |(g, (at_draws, at_proposals)): (usize, (&[f64], &[f64]))| {
            if at_draws.iter().any(|v| !v.is_finite())
                || at_proposals.iter().any(|v| v.is_nan() || *v == f64::INFINITY)
            {
                return Err(format!("the log density{} is not finite at draws of the posterior", name(g)));
            }
            Ok(bridge(at_draws, at_proposals, n))
        };
        self.range.clone().zip(both).map(bridged).collect()
    }

    /// The logarithm of the model's density beside that of each group's Gaussian, at as many rows of each group.
    fn ratios(&self, rows: &[F], gaussians: &[Gaussian]) -> Result<Vec<f64>, String> {
        let (model, d) = (self.model, self.model.d_x());
        let groups: Vec<u32> = self.range.clone().map(|g| g as u32).collect();
        let rows_per_call = model.rows_per_block(self.n).max(1);
        let mut scratch = vec![F::of(0.0); model.scratch_len(rows_per_call)];
        let mut out = vec![0.0; rows.len() / d];
        // Several groups fit into one call; the rows of a single one may not.
        for (rows, out) in rows.chunks(rows_per_call * d).zip(out.chunks_mut(rows_per_call)) {
            let at = At { groups: &groups, ..At::new(self.theta, rows) };
            evaluate_rows(model, at, None, Some(out), &mut scratch, |_| {}).map_err(|e| e.to_string())?;
        }
        let (mut x, mut whitened) = (vec![0.0; d], vec![0.0; d]);
        let each = out.len() / gaussians.len();
        for ((gaussian, rows), out) in
            gaussians.iter().zip(rows.chunks_exact(each * d)).zip(out.chunks_exact_mut(each))
        {
            for (row, out) in rows.chunks_exact(d).zip(out) {
                x.iter_mut().zip(row).for_each(|(x, v)| *x = v.f64());
                *out -= gaussian.log_density(&mut x, &mut whitened);
            }
        }
        Ok(out)
    }
}

/// The logarithm of the ratio of normalising constants, and its variance: Meng and Wong's optimal bridge, with the logarithms of
/// density ratios at the draws (of n particles in turn, which are replicates) and at the proposals.
pub(super) fn bridge(at_draws: &[f64], at_proposals: &[f64], n: usize) -> (f64, f64) {
    let shift = {
        let mut sorted = at_draws.to_vec();
        let middle = sorted.len() / 2;
        *sorted.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    let [draws, proposals] = [at_draws.len() as f64, at_proposals.len() as f64];
    let (of_draws, of_proposals) = (draws / (draws + proposals), proposals / (draws + proposals));
    // l = p / q, shifted, of which p / (s1 p + s2 r q) is taken at proposals and q / (s1 p + s2 r q) at draws.
    let exponentials = |logs: &[f64]| {
        let mut values: Vec<f64> = logs.iter().map(|l| l - shift).collect();
        exp_f64(&mut values);
        values
    };
    let (at_draws, at_proposals) = (exponentials(at_draws), exponentials(at_proposals));
    let up = |l: f64, r: f64| {
        if l == f64::INFINITY { 1.0 / of_draws } else { l / (of_draws * l + of_proposals * r) }
    };
    let down = |l: f64, r: f64| 1.0 / (of_draws * l + of_proposals * r);
    let mean = |values: &mut dyn Iterator<Item = f64>, count: f64| values.sum::<f64>() / count;
    let mut r = 1.0f64;
    for _ in 0..ITERATIONS {
        let above = mean(&mut at_proposals.iter().map(|l| up(*l, r)), proposals);
        let below = mean(&mut at_draws.iter().map(|l| down(*l, r)), draws);
        let next = above / below;
        let done = (next / r - 1.0).abs() < 1e-10;
        r = next;
        if done || !r.is_finite() || r <= 0.0 {
            break;
        }
    }
    let above: Vec<f64> = at_proposals.iter().map(|l| up(*l, r)).collect();
    let mut by_particle = vec![0.0; n];
    at_draws.iter().enumerate().for_each(|(i, l)| by_particle[i % n] += down(*l, r));
    let (first, second) = (relative_variance(&above), relative_variance(&by_particle));
    // The logarithm of a noisy mean lies below that of the mean.
    (shift + libm::log(r) + 0.5 * (first - second), first + second)
}

/// The variance of the mean of some values, relative to its square.
fn relative_variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let scatter = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
    scatter / (n - 1.0) / n / (mean * mean)
}
