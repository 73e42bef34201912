//! The trainer of generators against probabilistic PCA, whose fixed points at finite h are known in closed form.

use motes::Flow;
use motes::noise::{Noise, Purpose};
use motes_models::data::ImageSet;
use motes_models::generator::{
    Algorithm, BatchNorm, Decoder, Encoder, Inference, LinearDecoder, Network, Search, Settings, Targets,
    Tensor, ThetaRule, Trainer, TrainingError, inpaint, load_weights, save_weights,
};

const D_Y: usize = 3;
const D_X: usize = 2;
/// The eigenvalues of the data's covariance; the noise has variance 1.
const EIGENVALUES: [f64; D_Y] = [4.0, 2.5, 0.5];
const H: f64 = 0.1;
const CHAIN: usize = 6;

struct Rows(Vec<f32>);

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
fn data(count: usize) -> Rows {
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

/// The time average of u_i^T W W^T u_j after burn-in.
fn mean_gram(trainer: &mut Trainer<'_>, steps: u64) -> [[f64; D_Y]; D_Y] {
    let mut gram = [[0.0; D_Y]; D_Y];
    let u = directions();
    let burn_in = steps / 5;
    for k in 0..steps {
        trainer.step().unwrap();
        if k < burn_in {
            continue;
        }
        let w = trainer.decoder().parameters();
        let mut projected = [[0.0; D_X]; D_Y];
        for (p, u) in projected.iter_mut().zip(&u) {
            for (a, p) in p.iter_mut().enumerate() {
                *p = (0..D_Y).map(|i| u[i] * f64::from(w[i * D_X + a])).sum();
            }
        }
        for i in 0..D_Y {
            for j in 0..D_Y {
                gram[i][j] += projected[i].iter().zip(&projected[j]).map(|(a, b)| a * b).sum::<f64>();
            }
        }
    }
    gram.map(|row| row.map(|v| v / (steps - burn_in) as f64))
}

/// Mean and standard error over replicates.
fn replicate(count: u64, run: impl Fn(u64) -> [[f64; D_Y]; D_Y]) -> [[(f64, f64); D_Y]; D_Y] {
    let all: Vec<_> = (0..count).map(run).collect();
    let n = count as f64;
    std::array::from_fn(|i| {
        std::array::from_fn(|j| {
            let mean = all.iter().map(|g| g[i][j]).sum::<f64>() / n;
            let variance = all.iter().map(|g| (g[i][j] - mean).powi(2)).sum::<f64>() / (n - 1.0);
            (mean, (variance / n).sqrt())
        })
    })
}

fn settings(algorithm: Algorithm, seed: u64) -> Settings {
    Settings {
        algorithm,
        particles: if algorithm == Algorithm::Pgd { 4 } else { 1 },
        chain: CHAIN,
        batch: 64,
        step_size: H,
        theta_rate: 0.02,
        encoder_rate: 0.005,
        sigma: 1.0,
        theta_rule: ThetaRule::Plain,
        seed,
        ..Settings::default()
    }
}

/// w^2 in the direction of eigenvalue s at a fixed point of PGD and ABP.
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

/// Two principal directions are found, the third is not, and W W^T is diagonal in them.
fn check(name: &str, got: [[(f64, f64); D_Y]; D_Y], expected: impl Fn(f64) -> f64) {
    let want = [expected(EIGENVALUES[0]), expected(EIGENVALUES[1]), 0.0];
    println!("{name}: {got:?}, expected {want:?}");
    for i in 0..D_Y {
        for j in 0..D_Y {
            let (mean, error) = got[i][j];
            let truth = if i == j { want[i] } else { 0.0 };
            let scale = (want[i].max(0.1) * want[j].max(0.1)).sqrt();
            assert!(error < 0.02 * scale, "{name}: the standard error {error} says nothing");
            assert!(
                (mean - truth).abs() < 4.0 * error + 0.01 * scale,
                "{name} [{i}][{j}]: {mean} +/- {error}, not {truth}"
            );
        }
    }
}

#[test]
fn pgd_and_abp_rest_at_the_fixed_point_of_finite_h() {
    let data = data(256);
    for (algorithm, steps) in [(Algorithm::Pgd, 20_000), (Algorithm::Abp, 8_000)] {
        let got = replicate(6, |seed| {
            let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, seed);
            let mut trainer = Trainer::new(settings(algorithm, seed), &data, &mut decoder, None).unwrap();
            mean_gram(&mut trainer, steps)
        });
        check(&algorithm.to_string(), got, langevin_fixed_point);
        // The tolerances are fine enough to tell it from PPCA's solution.
        for (i, s) in EIGENVALUES[..D_X].iter().enumerate() {
            assert!((got[i][i].0 - (s - 1.0)).abs() > 8.0 * (4.0 * got[i][i].1 + 0.01 * s));
        }
    }
}

#[test]
fn short_run_rests_at_the_fixed_point_of_its_chain() {
    let data = data(256);
    let got = replicate(6, |seed| {
        let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, seed);
        let settings = settings(Algorithm::ShortRun, seed);
        let mut trainer = Trainer::new(settings, &data, &mut decoder, None).unwrap();
        mean_gram(&mut trainer, 8_000)
    });
    check("short-run", got, short_run_fixed_point);
    let other = langevin_fixed_point(EIGENVALUES[1]);
    assert!((got[1][1].0 - other).abs() > 4.0 * got[1][1].1 + 0.05, "{got:?} could be {other} too");
}

/// q(x|y) = N(A y, diag(exp l)): it holds the exact posterior of a linear decoder with orthogonal columns.
struct LinearInference {
    tensors: [Tensor; 1],
    parameters: Vec<f32>,
    images: Vec<f32>,
}

impl LinearInference {
    fn new() -> Self {
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

#[test]
fn the_vae_maximises_the_right_bound() {
    // The exact posterior is within the family, so that the bound's maximum is the likelihood's.
    let data = data(256);
    let got = replicate(6, |seed| {
        let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, seed);
        let mut encoder = LinearInference::new();
        let settings = settings(Algorithm::Vae, seed);
        let mut trainer = Trainer::new(settings, &data, &mut decoder, Some(&mut encoder)).unwrap();
        mean_gram(&mut trainer, 30_000)
    });
    check("vae", got, |s| s - 1.0);
}

/// The bits of a training after some steps: all of its checkpoint.
fn saved(trainer: &Trainer<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    trainer.save(7, 0, 0.0, &mut bytes).unwrap();
    bytes
}

const ALL: [Algorithm; 4] = [Algorithm::Pgd, Algorithm::Abp, Algorithm::ShortRun, Algorithm::Vae];

#[test]
fn a_resumed_training_equals_one_without_a_break() {
    let data = data(50);
    for algorithm in ALL {
        let rmsprop =
            |seed| Settings { theta_rule: ThetaRule::RmsProp, batch: 16, ..settings(algorithm, seed) };
        let run = |breaks: &[u64], steps: u64| {
            let mut checkpoint: Option<Vec<u8>> = None;
            for end in breaks.iter().copied().chain([steps]) {
                let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, 5);
                let mut encoder = LinearInference::new();
                let vae = algorithm == Algorithm::Vae;
                let encoder = vae.then_some(&mut encoder as &mut dyn Inference);
                let mut trainer = Trainer::new(rmsprop(5), &data, &mut decoder, encoder).unwrap();
                if let Some(bytes) = &checkpoint {
                    let about = trainer.load(bytes).unwrap();
                    assert_eq!((about.settings, about.k), (7, trainer.state().k));
                }
                while trainer.state().k < end {
                    trainer.step().unwrap();
                }
                checkpoint = Some(saved(&trainer));
            }
            checkpoint.unwrap()
        };
        assert!(run(&[], 11) == run(&[1, 4, 10], 11), "{algorithm}");
        assert!(run(&[], 11) != run(&[], 10), "{algorithm}");
    }
}

#[test]
fn damaged_checkpoints_are_refused_and_change_nothing() {
    let data = data(20);
    let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, 5);
    let mut trainer = Trainer::new(settings(Algorithm::Pgd, 5), &data, &mut decoder, None).unwrap();
    trainer.step().unwrap();
    let good = saved(&trainer);
    trainer.step().unwrap();
    let before = saved(&trainer);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(trainer.load(&bad).is_err(), "byte {at} can be anything");
    }
    for length in [0, 7, 8, 100, good.len() - 1] {
        assert!(trainer.load(&good[..length]).is_err());
    }
    assert!(saved(&trainer) == before);
    trainer.load(&good).unwrap();
    assert!(saved(&trainer) == good);
}

#[test]
fn a_step_that_is_too_large_is_a_divergence_with_a_remedy() {
    let data = data(50);
    let step_until_error = |settings: Settings| {
        let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, 5);
        let mut trainer = Trainer::new(settings, &data, &mut decoder, None).unwrap();
        (0..2000).find_map(|_| trainer.step().err()).expect("it diverges")
    };
    let base = settings(Algorithm::Pgd, 0);
    let x = step_until_error(Settings { step_size: 50.0, ..base.clone() });
    assert!(matches!(x, TrainingError::Diverged { .. }) && x.to_string().contains("--step-size 5e0"), "{x}");
    let theta = step_until_error(Settings { theta_rate: 1e9, step_size: 1e-9, ..base });
    assert!(theta.to_string().contains("--theta-rate 1e8"), "{theta}");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let data = data(50);
    let refusal = |settings: Settings| {
        let mut decoder = LinearDecoder::new(D_X, D_Y, 0.3, 5);
        Trainer::new(settings, &data, &mut decoder, None).err().expect("a refusal").to_string()
    };
    let base = settings(Algorithm::Pgd, 0);
    for (flag, settings) in [
        ("--step-size -1", Settings { step_size: -1.0, ..base.clone() }),
        ("--step-size NaN", Settings { step_size: f64::NAN, ..base.clone() }),
        ("--theta-rate 0", Settings { theta_rate: 0.0, ..base.clone() }),
        ("--sigma inf", Settings { sigma: f64::INFINITY, ..base.clone() }),
        ("--particles 0", Settings { particles: 0, ..base.clone() }),
        ("--batch 0", Settings { batch: 0, ..base.clone() }),
        ("--chain 0", Settings { chain: 0, ..base.clone() }),
        ("leave --particles out", Settings { algorithm: Algorithm::Abp, ..base.clone() }),
        ("inference network", settings(Algorithm::Vae, 0)),
    ] {
        let sentence = refusal(settings);
        assert!(sentence.contains(flag) && sentence.contains(';'), "{sentence}");
    }
    // A single image has no variance to normalise by.
    assert!(Settings { batch: 7, particles: 1, ..base.clone() }.validate(50, true).is_err());
    assert!(Settings { batch: 7, particles: 2, ..base.clone() }.validate(50, true).is_ok());
    assert!(Settings { batch: 7, particles: 1, ..base }.validate(50, false).is_ok());
}

/// The first images of MNIST.
fn mnist(count: usize) -> ImageSet {
    ImageSet::mnist(1, Some(count)).unwrap()
}

#[test]
fn one_batch_is_learnt_by_heart() {
    let images = mnist(8);
    for batchnorm in [BatchNorm::TwoPass, BatchNorm::OnePass] {
        let mut network = Network::new(1, 0);
        let settings = Settings { particles: 2, batch: 8, step_size: 1e-7, batchnorm, ..Settings::default() };
        let mut trainer = Trainer::new(settings, &images, &mut network, None).unwrap();
        let means: Vec<f64> =
            (0..4).map(|_| (0..20).map(|_| trainer.step().unwrap().loss).sum::<f64>() / 20.0).collect();
        println!("{batchnorm:?}: {means:?}");
        assert!(means.windows(2).all(|w| w[1] < w[0]), "{means:?}");
        assert!(means[3] < means[0] / 3.0, "{means:?}");
    }
}

#[test]
fn threads_and_breaks_change_no_bit_of_the_network() {
    let images = mnist(20);
    for algorithm in ALL {
        let run = |threads: usize, breaks: &[u64]| {
            let pool = motes::Pool::new(Some(threads)).unwrap();
            pool.install(|| {
                let mut checkpoint: Option<Vec<u8>> = None;
                for end in breaks.iter().copied().chain([3]) {
                    let (mut network, mut encoder) = (Network::new(1, 1), Encoder::new(1, 1));
                    let vae = algorithm == Algorithm::Vae;
                    let encoder = vae.then_some(&mut encoder as &mut dyn Inference);
                    let settings = Settings {
                        algorithm,
                        batch: 8,
                        chain: 2,
                        particles: if algorithm == Algorithm::Pgd { 4 } else { 1 },
                        ..Settings::default()
                    };
                    let mut trainer = Trainer::new(settings, &images, &mut network, encoder).unwrap();
                    if let Some(bytes) = &checkpoint {
                        trainer.load(bytes).unwrap();
                    }
                    while trainer.state().k < end {
                        trainer.step().unwrap();
                    }
                    checkpoint = Some(saved(&trainer));
                }
                checkpoint.unwrap()
            })
        };
        let alone = run(1, &[]);
        for (threads, breaks) in [(2, &[][..]), (3, &[1]), (1, &[1, 2])] {
            assert!(
                run(threads, breaks) == alone,
                "{algorithm} with {threads} threads and breaks {breaks:?}"
            );
        }
    }
}

#[test]
fn a_hole_is_filled_by_the_latents_that_made_the_image() {
    // With more seen values than latents, a linear decoder's latents are found again.
    let (d_x, d_y) = (4, 40);
    let mut decoder = LinearDecoder::new(d_x, d_y, 1.0, 3);
    let mut x = vec![0.0; 5 * d_x];
    Noise::new(9, Purpose::Data).normals_f32(0, 0, &mut x);
    let mut images = vec![0.0; 5 * d_y];
    decoder.decode(&x, &mut images);
    let seen: Vec<bool> = (0..d_y).map(|i| i % 4 != 0).collect();
    let mut spoilt = images.clone();
    spoilt.iter_mut().step_by(4).for_each(|v| *v = 7.0);
    let mut told = Vec::new();
    let mut go_on = |done| {
        told.push(done);
        Flow::Continue
    };
    let found = inpaint(&mut decoder, &spoilt, &seen, &Search::default(), &mut go_on).unwrap();
    assert!(told.starts_with(&[0, 0]) && told.ends_with(&[0, 5]));
    assert!(found.losses.iter().all(|l| *l < 0.01), "{:?}", found.losses);
    let worst = found.images.iter().zip(&images).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 0.05, "{worst}");
    // Each image is searched for on its own.
    let alone = inpaint(&mut decoder, &spoilt[..d_y], &seen, &Search::default(), &mut |_| Flow::Continue);
    assert_eq!(alone.unwrap().x, found.x[..d_x]);
    // A search that is stopped has found nothing.
    let mut steps = 0;
    let mut stop = |_| {
        steps += 1;
        if steps == 3 { Flow::Stop } else { Flow::Continue }
    };
    assert_eq!(inpaint(&mut decoder, &spoilt, &seen, &Search::default(), &mut stop), None);
    assert_eq!(steps, 3);
}

#[test]
fn images_come_back_from_an_idx_file() {
    for channels in [1, 3] {
        let set = ImageSet::mnist(channels, Some(7)).unwrap();
        assert_eq!(ImageSet::from_idx(&set.to_idx(), "a file", channels, None).unwrap(), set);
    }
    // Coloured planes stay apart, and grey images of four dimensions become coloured ones.
    let mut idx = vec![0, 0, 8, 4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2];
    idx.extend([0, 0, 0, 0, 255, 255, 255, 255, 51, 51, 51, 51]);
    let values = ImageSet::from_idx(&idx, "a file", 3, None).unwrap().values(0..1);
    assert_eq!([values[0], values[1024], values[3071]], [-1.0, 1.0, -0.6]);
    let refusal = ImageSet::from_idx(&idx, "a file", 1, None).unwrap_err().to_string();
    assert!(refusal.contains("3 channels") && refusal.contains("--channels 3"), "{refusal}");
    let grey = ImageSet::mnist(1, Some(2)).unwrap();
    assert_eq!(ImageSet::from_idx(&grey.to_idx(), "", 3, None), Ok(ImageSet::mnist(3, Some(2)).unwrap()));
}

#[test]
fn weights_come_back_and_others_are_refused() {
    let network = Network::new(3, 1);
    let mut bytes = Vec::new();
    save_weights(&network, &mut bytes).unwrap();
    let mut other = Network::new(3, 2);
    assert_ne!(other.parameters(), network.parameters());
    load_weights(&mut other, &bytes).unwrap();
    assert_eq!(other.parameters(), network.parameters());
    assert!(load_weights(&mut Network::new(1, 1), &bytes).unwrap_err().contains("another type or size"));
    assert!(
        load_weights(&mut LinearDecoder::new(2, 2, 1.0, 0), &bytes).unwrap_err().contains("no array 'w'")
    );
    assert!(load_weights(&mut other, &bytes[..100]).is_err());
}
