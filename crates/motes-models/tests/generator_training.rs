//! The trainer of generators: exact resume, refusals, divergence, and the network learning one batch by heart. Where it comes
//! to rest is in the regression table (closed_forms.rs).

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::decoder_rows::{D_X, D_Y, LinearInference, data, settings};
use motes::Flow;
use motes::noise::{Noise, Purpose};
use motes_models::data::ImageSet;
use motes_models::generator::{
    Algorithm, BatchNorm, Decoder, Encoder, ImageLoss, Inference, LinearDecoder, Mode, Network, Search,
    Settings, Stop, Tensor, ThetaRule, Trainer, TrainingError, Wanted, inpaint, load_weights, save_weights,
};

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
    assert!(matches!(x, TrainingError::Diverged { .. }) && x.to_string().contains("`step-size=5e0`"), "{x}");
    let theta = step_until_error(Settings { theta_rate: 1e9, step_size: 1e-9, ..base });
    assert!(theta.to_string().contains("`theta-rate=1e8`"), "{theta}");
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
        ("`step-size=-1`", Settings { step_size: -1.0, ..base.clone() }),
        ("`step-size=NaN`", Settings { step_size: f64::NAN, ..base.clone() }),
        ("`theta-rate=0`", Settings { theta_rate: 0.0, ..base.clone() }),
        ("`sigma=inf`", Settings { sigma: f64::INFINITY, ..base.clone() }),
        ("`particles=0`", Settings { particles: 0, ..base.clone() }),
        ("`batch=0`", Settings { batch: 0, ..base.clone() }),
        ("`chain=0`", Settings { chain: 0, ..base.clone() }),
        ("leave `particles` out", Settings { algorithm: Algorithm::Abp, ..base.clone() }),
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

/// Steps of the network that take little time.
fn short_steps(algorithm: Algorithm) -> Settings {
    let particles = if algorithm == Algorithm::Pgd { 4 } else { 1 };
    Settings { algorithm, batch: 8, chain: 2, particles, ..Settings::default() }
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
                    let mut trainer =
                        Trainer::new(short_steps(algorithm), &images, &mut network, encoder).unwrap();
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

/// A network in whose pass number `at` somebody sets the flag while the loss is computed.
struct Disturbed<'a> {
    network: Network,
    at: usize,
    flag: &'a AtomicBool,
}

impl Decoder for Disturbed<'_> {
    fn d_x(&self) -> usize {
        self.network.d_x()
    }
    fn d_y(&self) -> usize {
        self.network.d_y()
    }
    fn tensors(&self) -> &[Tensor] {
        self.network.tensors()
    }
    fn parameters(&self) -> &[f32] {
        self.network.parameters()
    }
    fn parameters_mut(&mut self) -> &mut [f32] {
        self.network.parameters_mut()
    }
    fn statistics_tensors(&self) -> &[Tensor] {
        self.network.statistics_tensors()
    }
    fn statistics(&self) -> &[f32] {
        self.network.statistics()
    }
    fn statistics_mut(&mut self) -> &mut [f32] {
        self.network.statistics_mut()
    }
    fn decode(&mut self, x: &[f32], images: &mut [f32]) {
        self.network.decode(x, images);
    }
    fn backward(&mut self, mode: Mode, x: &[f32], loss: &ImageLoss<'_>, wanted: Wanted<'_>) -> f64 {
        let now = self.at == 0;
        self.at = self.at.wrapping_sub(1);
        let disturbed = |i: usize, image: &[f32], gradient: &mut [f32]| {
            if now {
                self.flag.store(true, Ordering::Relaxed);
            }
            loss(i, image, gradient)
        };
        self.network.backward(mode, x, &disturbed, wanted)
    }
}

#[test]
fn a_stopped_step_leaves_no_trace() {
    let images = mnist(20);
    for algorithm in ALL {
        let run = |at: usize| {
            let flag = AtomicBool::new(false);
            let mut network = Disturbed { network: Network::new(1, 1), at, flag: &flag };
            let mut encoder = Encoder::new(1, 1);
            let encoder = (algorithm == Algorithm::Vae).then_some(&mut encoder as &mut dyn Inference);
            let mut trainer = Trainer::new(short_steps(algorithm), &images, &mut network, encoder).unwrap();
            trainer.stop_when(Stop(Some(&flag)));
            let mut stops = 0;
            while trainer.state().k < 2 {
                match trainer.step() {
                    Err(TrainingError::Stopped) => {
                        flag.store(false, Ordering::Relaxed);
                        stops += 1;
                    }
                    seen => assert_eq!(seen.unwrap().k, trainer.state().k),
                }
            }
            (saved(&trainer), stops)
        };
        let passes = match algorithm {
            Algorithm::Pgd => 2,
            Algorithm::Abp | Algorithm::ShortRun => 3,
            Algorithm::Vae => 1,
        };
        let (whole, stops) = run(usize::MAX);
        assert_eq!(stops, 0);
        for at in 0..2 * passes {
            assert!(run(at) == (whole.clone(), 1), "{algorithm}, stopped in pass {at}");
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
    let mut goes_on = |done| {
        told.push(done);
        Flow::Continue
    };
    let found = inpaint(&mut decoder, &spoilt, &seen, &Search::default(), &mut goes_on).unwrap();
    assert!(told.is_sorted() && told[0] == 0 && told.last() == Some(&5), "{told:?}");
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
    assert!(refusal.contains("3 channels") && refusal.contains("`channels=3`"), "{refusal}");
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
