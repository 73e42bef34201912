//! The rounding of Winograd's convolutions at trained weights, beside the model's noise level.

use crate::common::plain_networks;

use motes::noise::{Noise, Purpose};
use motes_models::data::read_images;
use motes_models::generator::{Decoder, Mode, Network, Wanted};
use plain_networks::PlainNetwork;

const SIGMA: f32 = 0.01;
const BATCH: usize = 24;

/// The first digits with a frame of two pixels, in [-1, 1].
fn digits() -> Vec<f32> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/mnist/train-images-10k-idx3-ubyte.gz");
    let images = read_images(&std::fs::read(path).expect("the embedded digits"), path).expect("digits");
    let mut y = vec![-1.0; BATCH * 1024];
    for (i, y) in y.chunks_exact_mut(1024).enumerate() {
        for pixel in 0..784 {
            y[(pixel / 28 + 2) * 32 + pixel % 28 + 2] =
                f32::from(images.pixels[i * 784 + pixel]) / 127.5 - 1.0;
        }
    }
    y
}

/// PGD with one particle for each image; the loss of each step.
fn train(network: &mut Network, y: &[f32], x: &mut [f32], steps: u64) -> Vec<f64> {
    let mut squares = vec![0.0f32; network.parameters().len()];
    let (mut gradient, mut latents) = (squares.clone(), vec![0.0; x.len()]);
    let loss = |i: usize, image: &[f32], d: &mut [f32]| {
        let mut loss = 0.0;
        for ((d, f), y) in d.iter_mut().zip(image).zip(&y[i * 1024..]) {
            *d = (f - y) / (SIGMA * SIGMA);
            loss += f64::from(0.5 * (f - y) * *d);
        }
        loss
    };
    let mut losses = vec![];
    for k in 0..steps {
        let wanted = Wanted { parameters: Some(&mut gradient), ..Wanted::default() };
        losses.push(network.backward(Mode::Train, x, &loss, wanted));
        let wanted = Wanted { latents: Some(&mut latents), ..Wanted::default() };
        network.backward(Mode::Eval, x, &loss, wanted);
        latents.iter_mut().zip(&*x).for_each(|(d, x)| *d = -(*d + x));
        Noise::new(0, Purpose::Particles).langevin_f32(k, 0, x, &latents, 1e-4, f32::INFINITY);
        for ((p, s), g) in network.parameters_mut().iter_mut().zip(&mut squares).zip(&gradient) {
            let g = g / BATCH as f32;
            *s = 0.99 * *s + 0.01 * g * g;
            *p -= 1e-3 * g / (s.sqrt() + 1e-8);
        }
    }
    losses
}

#[test]
fn rounding_is_far_below_the_noise_level() {
    // More steps train further and take longer: bench/README.md has figures.
    let steps = std::env::var("MOTES_ERROR_STEPS").map_or(15, |s| s.parse().expect("a number of steps"));
    let mut network = Network::new(1, 0);
    let y = digits();
    let mut x = vec![0.0; BATCH * 64];
    Noise::new(0, Purpose::Prior).normals_f32(0, 0, &mut x);
    let report = |network: &mut Network, x: &[f32], name: &str| {
        let few = 2;
        let (x, y) = (&x[..few * 64], &y[..few * 1024]);
        let mut decoded = vec![0.0; few * 1024];
        network.decode(x, &mut decoded);
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let truth = PlainNetwork::new(1, network).run(Mode::Eval, &wide(x), &wide(y));
        let off = |i: usize| (f64::from(decoded[i]) - truth.images[i]).abs();
        let most = (0..decoded.len()).map(off).fold(0.0, f64::max);
        let rms = ((0..decoded.len()).map(|i| off(i).powi(2)).sum::<f64>() / decoded.len() as f64).sqrt();
        let spread = (truth.images.iter().map(|f| f * f).sum::<f64>() / decoded.len() as f64).sqrt();
        println!(
            "{name}: pixels are off by {rms:.1e} rms, {most:.1e} at most (pixels {spread:.2} rms, sigma {SIGMA})"
        );
        assert!(most < 0.02 * f64::from(SIGMA), "{name}: {most:e}");
    };
    report(&mut network, &x, "initial weights");
    let losses = train(&mut network, &y, &mut x, steps);
    println!(
        "loss per image: {:.0} at first, {:.0} at last",
        losses[0] / 24.0,
        losses[losses.len() - 1] / 24.0
    );
    assert!(losses[losses.len() - 1] < 0.7 * losses[0]);
    report(&mut network, &x, "trained weights");
}
