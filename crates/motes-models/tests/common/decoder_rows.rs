//! The linear decoder's rows of the regression table: y = W x + N(0, I) is probabilistic PCA, and where a generator comes to
//! rest at finite h is known in closed form.

use std::sync::Arc;

use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::noise::{Noise, Purpose};
use motes::settings::InitParticles;
use motes::{Algorithm, Flow, Settings, StepInfo};
use motes_models::generator::{BatchNorm, Generator, Inference, LinearDecoder, Targets, Tensor};

use super::table::Verdict;
use super::z_scores::{average, standard_error};

pub const D_Y: usize = 3;
pub const D_X: usize = 2;
/// The eigenvalues of the data's covariance; the noise has variance 1.
const EIGENVALUES: [f64; D_Y] = [4.0, 2.5, 0.5];
const H: f64 = 0.1;
const CHAIN: u32 = 6;
const REPLICATES: u64 = 6;
const IMAGES: usize = 256;

/// Data in memory.
pub struct Rows(Vec<f32>);

impl Targets for Rows {
    fn count(&self) -> usize {
        self.0.len() / D_Y
    }
    fn d_y(&self) -> usize {
        D_Y
    }
    fn write(&self, m: usize, image: &mut [f32]) {
        image.copy_from_slice(&self.0[m * D_Y..(m + 1) * D_Y]);
    }
}

/// The principal directions: the columns of a rotation.
fn directions() -> [[f64; D_Y]; D_Y] {
    let (a, b) = (0.6f64, 1.1f64);
    let (c1, s1, c2, s2) = (a.cos(), a.sin(), b.cos(), b.sin());
    [[c1, s1 * c2, s1 * s2], [-s1, c1 * c2, c1 * s2], [0.0, -s2, c2]]
}

/// Centred data whose sample covariance has exactly the eigenvalues above.
pub fn data(count: usize) -> Rows {
    let mut columns = vec![vec![0f64; count]; D_Y];
    for j in 0..D_Y {
        Noise::new(1, Purpose::Data).normals_f64(j as u64, 0, &mut columns[j]);
        let mean = columns[j].iter().sum::<f64>() / count as f64;
        columns[j].iter_mut().for_each(|v| *v -= mean);
        for i in 0..j {
            let (done, rest) = columns.split_at_mut(j);
            let overlap = done[i].iter().zip(&rest[0]).map(|(a, b)| a * b).sum::<f64>() / count as f64;
            rest[0].iter_mut().zip(&done[i]).for_each(|(b, a)| *b -= overlap * a);
        }
        let size = (columns[j].iter().map(|v| v * v).sum::<f64>() / count as f64).sqrt();
        columns[j].iter_mut().for_each(|v| *v /= size);
    }
    let u = directions();
    let value = |m: usize, i: usize| {
        (0..D_Y).map(|j| u[j][i] * EIGENVALUES[j].sqrt() * columns[j][m]).sum::<f64>() as f32
    };
    Rows((0..count).flat_map(|m| (0..D_Y).map(move |i| (m, i))).map(|(m, i)| value(m, i)).collect())
}

/// Plain steps, for which closed forms are known.
pub fn settings(algorithm: &'static Algorithm, images: usize, seed: u64) -> Settings {
    Settings {
        algorithm,
        particles: if algorithm == &PGD { 4 } else { 1 },
        transitions: CHAIN,
        batch: Some(64),
        step_size: H,
        // Of the gradient's mean over the images.
        theta_rate: Some(0.02 / images as f64),
        encoder_rate: 0.005,
        init_particles: InitParticles::Prior,
        keep_clouds: 0,
        seed,
        ..Settings::default()
    }
}

/// The linear decoder as a model, with a linear inference network for the VAE.
pub fn model(data: Rows, algorithm: &'static Algorithm) -> Generator {
    let make = |seed| -> Box<dyn motes_models::generator::Decoder> {
        Box::new(LinearDecoder::new(D_X, D_Y, 0.3, seed))
    };
    let model = Generator::new(Arc::new(data), Box::new(make), 1.0, BatchNorm::TwoPass).expect("a model");
    match algorithm == &VAE {
        true => model.with_inference(Box::new(|_| Box::new(LinearInference::new()))),
        false => model,
    }
}

/// q(x|y) = N(A y, diag(exp l)): it holds the exact posterior of a linear decoder with orthogonal columns.
pub struct LinearInference {
    tensors: [Tensor; 1],
    parameters: Vec<f32>,
    images: Vec<f32>,
}

impl LinearInference {
    pub fn new() -> Self {
        let mut parameters = vec![0.0; D_X * D_Y + D_X];
        Noise::new(3, Purpose::Check).normals_f32(0, 0, &mut parameters[..D_X * D_Y]);
        let shape = vec![parameters.len()];
        let tensors = [Tensor { name: "phi".into(), shape, offset: 0 }];
        LinearInference { tensors, parameters, images: Vec::new() }
    }
}

impl Inference for LinearInference {
    fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
    fn parameters(&self) -> &[f32] {
        &self.parameters
    }
    fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }
    fn forward(&mut self, images: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        self.images = images.to_vec();
        let (a, l) = self.parameters.split_at(D_X * D_Y);
        for (i, y) in images.chunks_exact(D_Y).enumerate() {
            for j in 0..D_X {
                mean[i * D_X + j] = (0..D_Y).map(|c| a[j * D_Y + c] * y[c]).sum();
                variance[i * D_X + j] = l[j].exp();
            }
        }
    }
    fn backward(&mut self, d_mean: &[f32], d_variance: &[f32], gradient: &mut [f32]) {
        gradient.fill(0.0);
        for (i, y) in self.images.chunks_exact(D_Y).enumerate() {
            for j in 0..D_X {
                (0..D_Y).for_each(|c| gradient[j * D_Y + c] += d_mean[i * D_X + j] * y[c]);
                gradient[D_X * D_Y + j] += d_variance[i * D_X + j] * self.parameters[D_X * D_Y + j].exp();
            }
        }
    }
}

/// Adds up u_i^T W W^T u_j.
fn add_gram(gram: &mut [[f64; D_Y]; D_Y], w: &[f64]) {
    let u = directions();
    let mut projected = [[0.0; D_X]; D_Y];
    for (p, u) in projected.iter_mut().zip(&u) {
        for (a, p) in p.iter_mut().enumerate() {
            *p = (0..D_Y).map(|i| u[i] * w[i * D_X + a]).sum();
        }
    }
    for i in 0..D_Y {
        for j in 0..D_Y {
            gram[i][j] += projected[i].iter().zip(&projected[j]).map(|(a, b)| a * b).sum::<f64>();
        }
    }
}

/// PPCA's solution, where h tends to 0.
fn ppca(s: f64) -> f64 {
    s - 1.0
}

/// w^2 in the direction of eigenvalue s where PGD and ABP rest.
fn langevin_fixed_point(s: f64) -> f64 {
    s / (1.0 + H * s / 2.0) - 1.0
}

/// The same for short-run MCMC: the root of c s = v + c^2 w^2 s.
fn short_run_fixed_point(s: f64) -> f64 {
    let excess = |w2: f64| {
        let p = 1.0 + w2;
        let r = 1.0 - H * p;
        let rn = r.powi(CHAIN as i32);
        let c = (1.0 - rn) / p;
        let v = rn * rn + 2.0 * H * (1.0 - rn * rn) / (1.0 - r * r);
        c * s - v - c * c * w2 * s
    };
    let (mut low, mut high) = (0.0, 2.0 * s);
    assert!(excess(low) > 0.0 && excess(high) < 0.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if excess(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

/// An algorithm, and w^2 in the direction of an eigenvalue where it must rest.
#[derive(Clone, Copy)]
pub struct Decoder {
    algorithm: &'static Algorithm,
    steps: u64,
    expected: fn(f64) -> f64,
    /// Where it would rest if it were another algorithm, to see that this would be noticed.
    other: fn(f64) -> f64,
}

impl std::fmt::Display for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { algorithm, particles, transitions, .. } = settings(self.algorithm, 1, 0);
        let size = match algorithm.name {
            "pgd" => format!(" N={particles} h={H}"),
            "vae" => String::new(),
            _ => format!(" n={transitions} h={H}"),
        };
        f.pad(&format!("{algorithm}, linear decoder{size} f32"))
    }
}

/// All rows.
pub fn table() -> [Decoder; 4] {
    let row = |algorithm, steps, expected, other| Decoder { algorithm, steps, expected, other };
    [
        row(&PGD, 20_000, langevin_fixed_point, ppca),
        row(&ABP, 8_000, langevin_fixed_point, ppca),
        row(&SHORT_RUN, 8_000, short_run_fixed_point, langevin_fixed_point),
        // The exact posterior is within the family, so that the bound's maximum is the likelihood's.
        row(&VAE, 30_000, ppca, langevin_fixed_point),
    ]
}

impl Decoder {
    /// The time average of u_i^T W W^T u_j after burn-in, in one replicate.
    fn measure(&self, seed: u64) -> [[f64; D_Y]; D_Y] {
        let model = model(data(IMAGES), self.algorithm);
        let burn_in = self.steps / 5;
        let settings = Settings { steps: self.steps, burn_in, ..settings(self.algorithm, IMAGES, seed) };
        let mut gram = [[0.0; D_Y]; D_Y];
        let mut watch = |info: &StepInfo<'_, f32>| {
            if info.k > burn_in {
                add_gram(&mut gram, info.theta);
            }
            Flow::Continue
        };
        let mut state = motes::start(&model, &settings).expect("a start");
        motes::run(&model, &settings, &mut state, None, &mut [&mut watch]).expect("a run");
        gram.map(|row| row.map(|v| v / (self.steps - burn_in) as f64))
    }

    /// Two principal directions are found, the third is not, and W W^T is diagonal in them: all within 4 standard errors
    /// and 1 %.
    pub fn judge(&self) -> Verdict {
        let measured: Vec<_> = (0..REPLICATES).map(|seed| self.measure(seed)).collect();
        let want = [(self.expected)(EIGENVALUES[0]), (self.expected)(EIGENVALUES[1]), 0.0];
        let (mut wrong, mut words, mut clearest) = (Vec::new(), Vec::new(), 0.0f64);
        for i in 0..D_Y {
            for j in 0..D_Y {
                let values: Vec<f64> = measured.iter().map(|gram| gram[i][j]).collect();
                let (mean, error) = (average(&values), standard_error(&values));
                let truth = if i == j { want[i] } else { 0.0 };
                let scale = (want[i].max(0.1) * want[j].max(0.1)).sqrt();
                let tolerance = 4.0 * error + 0.01 * scale;
                if error.is_nan() || error >= 0.02 * scale {
                    wrong.push(format!("[{i}][{j}] has a standard error of {error:.4}, which says nothing"));
                }
                if mean.is_nan() || (mean - truth).abs() >= tolerance {
                    wrong.push(format!("[{i}][{j}] is {mean:.4} +/- {error:.4}, not {truth:.4}"));
                }
                if i == j {
                    words.push(format!("{mean:.4} +/- {error:.4} ({truth:.4})"));
                }
                if i == j && i < D_X {
                    clearest = clearest.max((mean - (self.other)(EIGENVALUES[i])).abs() / tolerance);
                }
            }
        }
        if clearest < 2.0 {
            wrong.push(format!("it cannot fail: another fixed point is {clearest:.1} tolerances off"));
        }
        let line = format!("{self:40} w^2 {} | other {clearest:.1} tolerances off", words.join(", "));
        // 1 % is allowed for: scores would say nothing about standard errors.
        Verdict { line, scores: Vec::new(), wrong }
    }
}
