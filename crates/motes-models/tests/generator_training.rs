//! The generator as a model: the network learns one batch by heart, threads, breaks and stops change no bit. Where it comes to
//! rest is in the regression table (closed_forms.rs).

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::noise::{Noise, Purpose};
use motes::settings::{InitParticles, Preconditioner};
use motes::{Algorithm, Ended, Error, Flow, Model, Settings, State, StepInfo, Stop};
use motes_models::data::ImageSet;
use motes_models::generator::{
    BatchNorm, Decoder, Encoder, Generator, ImageLoss, LinearDecoder, Make, Mode, Network, Search, Tensor,
    Wanted, inpaint, load_weights, save_weights,
};
use motes_models::options::Table;
use motes_models::registry::{self, Given};

static ALL: [&Algorithm; 4] = [&PGD, &ABP, &SHORT_RUN, &VAE];

fn model(images: usize, algorithm: &Algorithm, batchnorm: BatchNorm, make: Make<dyn Decoder>) -> Generator {
    let images = Arc::new(ImageSet::mnist(1, Some(images)).unwrap());
    let model = Generator::new(images, make, 0.01, batchnorm).unwrap();
    match algorithm == &VAE {
        true => model.with_inference(Box::new(|seed| Box::new(Encoder::new(1, seed)))),
        false => model,
    }
}

fn network() -> Make<dyn Decoder> {
    Box::new(|seed| Box::new(Network::new(1, seed)))
}

/// Steps that take little time.
fn short_steps(algorithm: &'static Algorithm, steps: u64) -> Settings {
    Settings {
        algorithm,
        particles: if algorithm == &PGD { 4 } else { 1 },
        transitions: 2,
        batch: Some(8),
        steps,
        burn_in: 0,
        step_size: 1e-4,
        theta_rate: Some(1e-3),
        preconditioner: Preconditioner::Rmsprop,
        init_particles: InitParticles::Prior,
        keep_clouds: 0,
        seed: 1,
        ..Settings::default()
    }
}

#[test]
fn the_network_learns_a_batch_by_heart() {
    for batchnorm in [BatchNorm::TwoPass, BatchNorm::OnePass] {
        let model = model(8, &PGD, batchnorm, network());
        let settings = Settings { particles: 2, step_size: 1e-7, ..short_steps(&PGD, 80) };
        let mut losses = Vec::new();
        common::on(2, || {
            let mut watch = |info: &StepInfo<'_, f32>| {
                losses.extend(info.scalars.first());
                Flow::Continue
            };
            let mut state = motes::start(&model, &settings).unwrap();
            motes::run(&model, &settings, &mut state, None, &mut [&mut watch]).unwrap();
        });
        let means: Vec<f64> = losses.chunks(20).map(|c| c.iter().sum::<f64>() / 20.0).collect();
        println!("{batchnorm:?}: {means:?}");
        assert!(means.len() == 4 && means.windows(2).all(|w| w[1] < w[0]), "{means:?}");
        assert!(means[3] < means[0] / 3.0, "{means:?}");
    }
}

#[test]
fn threads_and_breaks_change_no_bit_of_the_network() {
    for algorithm in ALL {
        let run = |threads: usize, breaks: &[u64]| {
            common::on(threads, || {
                let settings = short_steps(algorithm, 3);
                let mut state: Option<State<f32>> = None;
                for end in breaks.iter().copied().chain([3]) {
                    let model = model(20, algorithm, BatchNorm::TwoPass, network());
                    let mut state_now = state.unwrap_or_else(|| motes::start(&model, &settings).unwrap());
                    let mut stop = |info: &StepInfo<'_, f32>| {
                        if info.k == end { Flow::Stop } else { Flow::Continue }
                    };
                    motes::run(&model, &settings, &mut state_now, None, &mut [&mut stop]).unwrap();
                    state = Some(state_now);
                }
                state.unwrap()
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
struct Disturbed {
    network: Network,
    at: usize,
    flag: &'static AtomicBool,
}

impl Decoder for Disturbed {
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
    for algorithm in ALL {
        let run = |at: usize| {
            let flag: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let make = move |seed| -> Box<dyn Decoder> {
                Box::new(Disturbed { network: Network::new(1, seed), at, flag })
            };
            let model = model(20, algorithm, BatchNorm::TwoPass, Box::new(make));
            let settings = short_steps(algorithm, 2);
            let mut state = motes::start(&model, &settings).unwrap();
            let mut stops = 0;
            let stop = Stop(Some(flag));
            // What comes after the last step, the drawing of a posterior, is stopped like a step.
            while let (Ended::Early, _) =
                motes::run_unless(&model, &settings, &mut state, None, &mut [], stop).unwrap()
            {
                flag.store(false, Ordering::Relaxed);
                stops += 1;
            }
            (state, stops)
        };
        let passes = match algorithm.name {
            "pgd" => 2,
            "vae" => 1,
            _ => 3,
        };
        let (whole, stops) = common::on(2, || run(usize::MAX));
        assert_eq!(stops, 0);
        for at in 0..2 * passes {
            let (state, stops) = common::on(2, || run(at));
            assert!(state == whole && stops == 1, "{algorithm}, stopped in pass {at}");
        }
    }
}

#[test]
fn the_density_is_the_one_that_the_gradients_are_of() {
    let model = model(3, &PGD, BatchNorm::TwoPass, network());
    let (mut theta, mut buffers) = (vec![0.0; model.d_theta()], vec![0.0; model.buffers()]);
    model.start(3, &mut theta, &mut buffers);
    let mut x = vec![0f32; 2 * 64];
    Noise::new(4, Purpose::Check).normals_f32(0, 0, &mut x);
    let (mut l, mut grad_x, mut grad_theta) = ([0.0; 2], vec![0f32; x.len()], vec![0.0; theta.len()]);
    let ask = |theta: &[f64], x: &[f32], want: motes::Want<'_, f32>| {
        let at = motes::At { buffers: &buffers, groups: &[2], parallel: true, ..motes::At::new(theta, x) };
        model.evaluate(at, want).unwrap();
    };
    let density = |theta: &[f64], x: &[f32]| {
        let mut l = [0.0; 2];
        ask(theta, x, motes::Want { log_density: Some(&mut l), ..motes::Want::nothing(&mut []) });
        l.iter().sum::<f64>()
    };
    let want = motes::Want {
        log_density: Some(&mut l),
        ..motes::Want::gradients(&mut grad_theta, &mut grad_x, &mut [])
    };
    ask(&theta, &x, want);
    assert!((l.iter().sum::<f64>() / density(&theta, &x) - 1.0).abs() < 1e-6);
    // Along the gradient, which single precision resolves well.
    let norm = grad_x.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    let moved = |by: f64| -> Vec<f32> {
        x.iter().zip(&grad_x).map(|(x, g)| (f64::from(*x) + by * f64::from(*g) / norm) as f32).collect()
    };
    let slope = (density(&theta, &moved(1e-2)) - density(&theta, &moved(-1e-2))) / 2e-2;
    assert!((slope / norm - 1.0).abs() < 1e-2, "{slope} {norm}");
    let norm = grad_theta.iter().map(|g| g * g).sum::<f64>().sqrt();
    let moved =
        |by: f64| -> Vec<f64> { theta.iter().zip(&grad_theta).map(|(t, g)| t + by * g / norm).collect() };
    let slope = (density(&moved(1e-3), &x) - density(&moved(-1e-3), &x)) / 2e-3;
    assert!((slope / norm - 1.0).abs() < 1e-2, "{slope} {norm}");
}

#[test]
fn a_step_that_is_too_large_is_a_divergence() {
    use common::decoder_rows::{data, model, settings};
    let step_until_error = |settings: Settings| {
        let model = model(data(50), &PGD);
        let settings = Settings { batch: Some(50), steps: 2000, burn_in: 0, ..settings };
        let mut state = motes::start(&model, &settings).unwrap();
        motes::run(&model, &settings, &mut state, None, &mut []).expect_err("it diverges")
    };
    let base = settings(&PGD, 50, 0);
    for settings in [
        Settings { step_size: 50.0, ..base.clone() },
        Settings { theta_rate: Some(1e9), step_size: 1e-9, ..base },
    ] {
        assert!(matches!(step_until_error(settings), Error::Diverged { .. }));
    }
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let entry = registry::find("generator").unwrap();
    let load = |key: &str, value: serde_json::Value| {
        let options = Table::from_iter([("images".to_string(), 9.into()), (key.to_string(), value)]);
        entry.load(options, Given::Options)
    };
    for (key, value, words) in [
        ("sigma", 1e10.into(), "`sigma=10000000000` is not within"),
        ("sigma", (-1.0).into(), "`sigma=-1` is not within"),
        ("lambda", 0.0.into(), "`lambda=0` is not a positive"),
        ("epochs", 0.into(), "`epochs=0` leaves nothing"),
        ("channels", 2.into(), "`channels=2` is not possible"),
        ("images", 20_000.into(), "cannot take 20000 images"),
    ] {
        let refusal = load(key, value).err().expect("a refusal").to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
    let refusal = |settings: Settings, key: &str, value: serde_json::Value| {
        load(key, value).unwrap().single(&settings).err().expect("a refusal").to_string()
    };
    let base = short_steps(&ABP, 1);
    for (words, said) in [
        ("holds a single one", refusal(base.clone(), "images", 9.into())),
        ("train on two or more", refusal(base.clone(), "images", 1.into())),
        ("variant of pgd", refusal(base.clone(), "batchnorm", "one-pass".into())),
        (
            "algorithm of the generator",
            refusal(Settings { algorithm: &motes::algorithms::SOUL, ..base }, "images", 8.into()),
        ),
    ] {
        assert!(said.contains(words), "{said}");
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
