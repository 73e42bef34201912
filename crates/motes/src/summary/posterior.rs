//! What stands for the posterior of a run: its moments, its particles and their quantiles.

use crate::algorithms::VARIATIONAL;
use crate::kept::{MAX_BYTES, MAX_PARTICLES};
use crate::moves::{draw, softplus};
use crate::noise::{Noise, Purpose};
use crate::settings::Settings;
use crate::{Model, Real, State};

/// A name for each coordinate of each group: that of the coordinate alone where there is one group.
pub fn names_of_groups(x_names: Vec<String>, groups: Option<&[String]>) -> Vec<String> {
    match groups {
        None => x_names,
        Some(groups) => {
            groups.iter().flat_map(|g| x_names.iter().map(move |x| format!("{x}[{g}]"))).collect()
        }
    }
}

/// Mean and variance of each latent coordinate: of the averaged clouds, of the variational Gaussian, or exact.
pub fn posterior_moments<F: Real>(model: &dyn Model<F>, state: &State<F>) -> Option<(Vec<f64>, Vec<f64>)> {
    let gaussian = state.remembered(VARIATIONAL);
    if !gaussian.is_empty() {
        let (mu, s) = gaussian.split_at(gaussian.len() / 2);
        return Some((mu.to_vec(), s.iter().map(|s| softplus(*s)).collect()));
    }
    if state.cloud.n() > 0 {
        return state.averages.posterior();
    }
    model.exact_em().map(|em| {
        let d = model.groups() * model.d_x();
        let (mut mean, mut variance) = (vec![0.0; d], vec![0.0; d]);
        em.posterior(&state.theta, &mut mean, &mut variance);
        (mean, variance)
    })
}

/// The particles that posterior.npz has, one after the other: those kept, draws from the variational Gaussian, or the last cloud.
pub fn particles<F: Real>(settings: &Settings, state: &State<F>) -> Vec<f64> {
    let mut particles: Vec<f64> = Vec::new();
    if !state.remembered(VARIATIONAL).is_empty() {
        variational_draws(settings, state, kept_draws(state), |x| {
            particles.extend(x.iter().map(|v| v.f64()))
        });
    } else if state.kept.rows() > 0 {
        particles.extend(state.kept.by_particle().map(|v| v.f64()));
    } else {
        particles.extend(state.cloud.by_particle().map(|v| v.f64()));
    }
    particles
}

/// Quantiles of each latent coordinate, of these particles.
pub(super) fn quantiles<F: Real>(settings: &Settings, state: &State<F>) -> Option<Vec<[Option<f64>; 3]>> {
    let width = state.cloud.width();
    let particles = particles(settings, state);
    let mut column = Vec::with_capacity(particles.len() / width.max(1));
    let of = |i: usize| {
        column.clear();
        column.extend(particles.iter().skip(i).step_by(width));
        column.sort_unstable_by(f64::total_cmp);
        [0.05, 0.5, 0.95].map(|level| quantile(&column, level))
    };
    (!particles.is_empty()).then(|| (0..width).map(of).collect())
}

/// A quantile of sorted values, interpolated between order statistics as NumPy does by default; none if some are not finite.
pub fn quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let [first, .., last] = sorted else { return sorted.first().copied().filter(|v| v.is_finite()) };
    let place = level * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    (first.is_finite() && last.is_finite()).then_some(below + place.fract() * (above - below))
}

/// The paper draws this many times from the variational Gaussian to predict.
pub(super) const VARIATIONAL_DRAWS: usize = 20_100;

/// How many draws from the variational Gaussian are kept as its clouds.
pub(crate) fn kept_draws<F: Real>(state: &State<F>) -> usize {
    MAX_PARTICLES.min(MAX_BYTES / (state.cloud.width() * size_of::<F>()).max(1)).max(1)
}

/// Hands out draws from the variational Gaussian, a few at a time.
pub(crate) fn variational_draws<F: Real>(
    settings: &Settings,
    state: &State<F>,
    count: usize,
    mut take: impl FnMut(&[F]),
) {
    const CHUNK: usize = 100;
    let d = state.cloud.width();
    let (mu, s) = state.remembered(VARIATIONAL).split_at(d);
    let noise = Noise::new(settings.seed, Purpose::Variational);
    let mut x = vec![F::of(0.0); CHUNK.min(count) * d];
    for (step, first) in (0..count).step_by(CHUNK).enumerate() {
        let x = &mut x[..CHUNK.min(count - first) * d];
        draw(&noise, step as u64, mu, s, x);
        take(x);
    }
}
