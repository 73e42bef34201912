//! Latents to make images from: the prior, or Gaussians and mixtures of them fitted to the particles (App. E.4).

use linfa::DatasetBase;
use linfa::traits::Fit;
use linfa_clustering::GaussianMixtureModel;
use motes::noise::{Noise, Purpose};
use ndarray::Array2;
use rand_xoshiro_06::Xoshiro256Plus;
use rand_xoshiro_06::rand_core::SeedableRng;

/// What is added to the diagonal of a mixture's covariances, and of any that is singular.
const RIDGE: f64 = 1e-4;
/// Particles that a mixture is fitted to at most, evenly spread over all.
const MIXTURE_PARTICLES: usize = 20_000;
/// Distances between particles and components in a step of k-means, of which there are hundreds to thousands.
const DISTANCES: usize = 2_000_000;
/// Particles for each component that are used nevertheless, if there are as many.
const LEAST: usize = 8;

/// The mean log density of a particle need not grow by more in an iteration. linfa takes a mixture that has not settled within
/// the iterations for a failure, so this must be met by any: the density grows by a few units in all, and ever slower.
const TOLERANCE: f64 = 0.02;
const ITERATIONS: u64 = 200;

/// A Gaussian with its covariance as a lower triangle times its transpose.
#[derive(Clone, Debug, PartialEq)]
struct Gaussian {
    mean: Vec<f64>,
    root: Vec<f64>,
}

/// A mixture of Gaussians over the latents of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    weights: Vec<f64>,
    parts: Vec<Gaussian>,
}

impl Mixture {
    /// The prior N(0, I).
    pub fn prior(d_x: usize) -> Self {
        let identity = (0..d_x * d_x).map(|i| if i % (d_x + 1) == 0 { 1.0 } else { 0.0 }).collect();
        Mixture { weights: vec![1.0], parts: vec![Gaussian { mean: vec![0.0; d_x], root: identity }] }
    }

    /// One Gaussian with the particles' mean and covariance.
    pub fn gaussian(particles: &[f32], d_x: usize) -> Result<Self, String> {
        let rows: Vec<&[f32]> = particles.chunks_exact(d_x).collect();
        Ok(Mixture { weights: vec![1.0], parts: vec![Gaussian::of(&rows, d_x)?] })
    }

    /// One Gaussian for each label, mixed by their frequency. Particle i belongs to label i modulo their number.
    pub fn by_label(particles: &[f32], d_x: usize, labels: &[u8]) -> Result<Self, String> {
        let mut kinds = labels.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        let mut mixture = Mixture { weights: Vec::new(), parts: Vec::new() };
        for kind in kinds {
            let of_kind = |i: &usize| labels[i % labels.len()] == kind;
            let rows: Vec<&[f32]> = (0..particles.len() / d_x)
                .filter(of_kind)
                .map(|i| &particles[i * d_x..(i + 1) * d_x])
                .collect();
            mixture.weights.push(rows.len() as f64 * d_x as f64 / particles.len() as f64);
            mixture.parts.push(Gaussian::of(&rows, d_x).map_err(|e| format!("label {kind}: {e}"))?);
        }
        Ok(mixture)
    }

    /// A mixture of full covariances by expectation-maximisation from k-means.
    pub fn fitted(particles: &[f32], d_x: usize, components: usize, seed: u64) -> Result<Self, String> {
        let every = Self::every(particles.len() / d_x, components);
        let values: Vec<f64> = particles
            .chunks_exact(d_x)
            .step_by(every)
            .flat_map(|row| row.iter().map(|v| f64::from(*v)))
            .collect();
        let count = values.len() / d_x;
        if components == 0 || components * 2 > count {
            return Err(format!(
                "{components} components cannot be fitted to {count} particles; choose from 1 to {}",
                count / 2
            ));
        }
        let rows = Array2::from_shape_vec((count, d_x), values).map_err(|e| e.to_string())?;
        let rng = Xoshiro256Plus::seed_from_u64(seed);
        let model = GaussianMixtureModel::params_with_rng(components, rng)
            .n_runs(1)
            .reg_covariance(RIDGE)
            .tolerance(TOLERANCE)
            .max_n_iterations(ITERATIONS)
            .fit(&DatasetBase::from(rows))
            .map_err(|e| format!("the mixture could not be fitted ({e}); choose fewer `components`"))?;
        let mut parts = Vec::new();
        for (mean, covariance) in model.means().outer_iter().zip(model.covariances().outer_iter()) {
            let covariance: Vec<f64> = covariance.iter().copied().collect();
            parts.push(Gaussian { mean: mean.to_vec(), root: root(&covariance, d_x)? });
        }
        Ok(Mixture { weights: model.weights().to_vec(), parts })
    }

    /// How many of so many particles [`Mixture::fitted`] looks at.
    pub fn looked_at(particles: usize, components: usize) -> usize {
        particles.div_ceil(Self::every(particles, components))
    }

    fn every(particles: usize, components: usize) -> usize {
        let most = (DISTANCES / components.max(1)).min(MIXTURE_PARTICLES).max(LEAST * components).max(1);
        particles.div_ceil(most).max(1)
    }

    /// Draws latents.
    pub fn draw(&self, count: usize, seed: u64) -> Vec<f32> {
        let d_x = self.parts[0].mean.len();
        let noise = Noise::new(seed, Purpose::Synthesis);
        let mut out = Vec::with_capacity(count * d_x);
        let mut z = vec![0.0; d_x];
        for i in 0..count {
            // Uniforms and normals from steps of their own.
            let mut left = noise.uniform(1, i as u64) * self.weights.iter().sum::<f64>();
            let part = self.weights.iter().position(|w| {
                left -= w;
                left < 0.0
            });
            let Gaussian { mean, root } = &self.parts[part.unwrap_or(self.parts.len() - 1)];
            noise.normals_f64(0, (i * d_x) as u64, &mut z);
            for (m, row) in mean.iter().zip(root.chunks_exact(d_x)) {
                out.push((m + row.iter().zip(&z).map(|(r, z)| r * z).sum::<f64>()) as f32);
            }
        }
        out
    }
}

impl Gaussian {
    fn of(rows: &[&[f32]], d_x: usize) -> Result<Self, String> {
        if rows.len() < 2 {
            return Err(format!("a Gaussian needs 2 particles or more, not {}; use more images", rows.len()));
        }
        let n = rows.len() as f64;
        let mut mean = vec![0.0; d_x];
        for row in rows {
            mean.iter_mut().zip(*row).for_each(|(m, v)| *m += f64::from(*v) / n);
        }
        let mut covariance = vec![0.0; d_x * d_x];
        let mut centred = vec![0.0; d_x];
        for row in rows {
            centred.iter_mut().zip(*row).zip(&mean).for_each(|((c, v), m)| *c = f64::from(*v) - m);
            for (line, a) in covariance.chunks_exact_mut(d_x).zip(&centred) {
                line.iter_mut().zip(&centred).for_each(|(c, b)| *c += a * b / (n - 1.0));
            }
        }
        Ok(Gaussian { mean, root: root(&covariance, d_x)? })
    }
}

/// Cholesky's lower triangle; a ridge is added where there is none.
fn root(covariance: &[f64], d: usize) -> Result<Vec<f64>, String> {
    let try_with = |ridge: f64| {
        let mut l = vec![0.0; d * d];
        for i in 0..d {
            for j in 0..=i {
                let dot: f64 = (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum();
                let rest = covariance[i * d + j] - dot;
                if i == j {
                    let pivot = rest + ridge;
                    if pivot.is_nan() || pivot <= 1e-12 {
                        return None;
                    }
                    l[i * d + i] = pivot.sqrt();
                } else {
                    l[i * d + j] = rest / l[j * d + j];
                }
            }
        }
        Some(l)
    };
    try_with(0.0)
        .or_else(|| try_with(RIDGE))
        .ok_or_else(|| "the particles' covariance is not positive definite; train with more images".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws of a fitted Gaussian have the moments of what it was fitted to.
    #[test]
    fn draws_have_the_moments_of_the_particles() {
        let mut z = vec![0.0; 2 * 4000];
        Noise::new(0, Purpose::Check).normals_f32(0, 0, &mut z);
        let particles: Vec<f32> =
            z.chunks_exact(2).flat_map(|z| [1.0 + 2.0 * z[0], z[0] + 0.5 * z[1]]).collect();
        let moments = |x: &[f32]| {
            let n = x.len() as f64 / 2.0;
            let mean = |f: &dyn Fn(f64, f64) -> f64| {
                x.chunks_exact(2).map(|p| f(p[0].into(), p[1].into())).sum::<f64>() / n
            };
            [mean(&|a, _| a), mean(&|_, b| b), mean(&|a, _| a * a), mean(&|a, b| a * b), mean(&|_, b| b * b)]
        };
        let want = moments(&particles);
        for mixture in [
            Mixture::gaussian(&particles, 2).unwrap(),
            Mixture::by_label(&particles, 2, &[0, 1, 1, 2]).unwrap(),
            Mixture::fitted(&particles, 2, 3, 0).unwrap(),
        ] {
            let got = moments(&mixture.draw(100_000, 5));
            // Standard errors are below 0.02 here.
            assert!((0..5).all(|i| (got[i] - want[i]).abs() < 0.08), "{got:?} {want:?}");
        }
        let prior = moments(&Mixture::prior(2).draw(100_000, 5));
        assert!(prior[0].abs() < 0.02 && (prior[2] - 1.0).abs() < 0.02 && prior[3].abs() < 0.02, "{prior:?}");
    }

    #[test]
    fn many_components_are_fitted_to_fewer_particles() {
        let looked_at = [1, 100, 500, 2000].map(|components| Mixture::looked_at(100_000, components));
        assert_eq!(looked_at, [20_000, 20_000, 4000, 14_286]);
        assert_eq!(Mixture::looked_at(300, 20), 300);
    }

    #[test]
    fn singular_clouds_get_a_ridge_and_single_particles_a_refusal() {
        let same = [1.0f32, 2.0, 1.0, 2.0, 1.0, 2.0];
        let draw = Mixture::gaussian(&same, 2).unwrap().draw(1, 0);
        assert!((draw[0] - 1.0).abs() < 0.1 && (draw[1] - 2.0).abs() < 0.1);
        assert!(Mixture::gaussian(&same[..2], 2).is_err());
        assert!(Mixture::fitted(&same, 2, 2, 0).is_err());
    }
}
