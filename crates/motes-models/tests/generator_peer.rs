//! The generator network and the encoder against PyTorch. `make test-peers` runs this with PyTorch's results; without them it is skipped.

use motes::rules::precondition;
use motes::settings::Preconditioner;
use motes_models::generator::{Decoder, Encoder, Mode, Network, Tensor, Wanted};
use std::path::PathBuf;

/// Where `check_generator.py` has put its files.
fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os("MOTES_PEERS").expect("run `make test-peers`, which sets MOTES_PEERS"))
}

fn read(name: &str) -> Vec<f32> {
    let path = folder().join(format!("{name}.bin"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.to_string_lossy()));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The error's root mean square relative to that of the truth.
fn error(value: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(value.len(), truth.len());
    let (mut off, mut squares) = (0.0, 0.0);
    for (&v, &t) in value.iter().zip(truth) {
        off += (f64::from(v) - f64::from(t)).powi(2);
        squares += f64::from(t).powi(2);
    }
    if off == 0.0 { 0.0 } else { (off / squares).sqrt() }
}

fn agree(what: &str, value: &[f32], truth: &[f32]) {
    let off = error(value, truth);
    println!("{what:40} {off:.1e}");
    assert!(off < 1e-4, "{what} is off by {off:e}");
}

fn agree_by_tensor(what: &str, tensors: &[Tensor], value: &[f32], truth: &[f32]) {
    assert_eq!(value.len(), truth.len());
    for tensor in tensors {
        let range = tensor.offset..tensor.offset + tensor.shape.iter().product::<usize>();
        agree(&format!("{what} {}", tensor.name), &value[range.clone()], &truth[range]);
    }
}

#[test]
#[ignore = "needs PyTorch: make test-peers"]
fn the_network_trains_as_pytorchs() {
    for channels in [1, 3] {
        let tag = format!("decoder{channels}");
        let (x, y) = (read(&format!("{tag}-x")), read(&format!("{tag}-y")));
        let images = x.len() / 64;
        let mut network = Network::new(channels, 0);
        network.parameters_mut().copy_from_slice(&read(&format!("{tag}-parameters")));
        let d_y = network.d_y();
        let loss = |scale: f32| {
            let y = &y;
            move |i: usize, image: &[f32], d: &mut [f32]| {
                let mut loss = 0.0;
                for ((d, f), t) in d.iter_mut().zip(image).zip(&y[i * d_y..]) {
                    *d = scale * (f - t);
                    loss += 0.5 * f64::from(scale) * f64::from(f - t).powi(2);
                }
                loss
            }
        };
        let mut squares = vec![0.0; network.parameters().len()];
        let (mut gradient, mut latents) = (vec![0.0f32; squares.len()], vec![0.0; x.len()]);
        let mut decoded = vec![0.0; images * d_y];
        let moving = read(&format!("{tag}-moving"));
        assert!(moving.iter().filter(|&&m| m == 0.0).count() < moving.len() / 50, "too many are frozen");
        for step in 0..3 {
            let at = |what: &str| read(&format!("{tag}-{what}{step}"));
            let title = |what: &str| format!("{tag} step {step} {what}");
            let wanted =
                Wanted { parameters: Some(&mut gradient), latents: Some(&mut latents), ..Wanted::default() };
            let value = network.backward(Mode::Train, &x, &loss(1.0 / images as f32), wanted);
            agree(&title("loss"), &[value as f32], &at("loss"));
            if step == 0 {
                agree_by_tensor(&title("d"), network.tensors(), &gradient, &at("train-gradient"));
                agree(&title("latents, train"), &latents, &at("train-latents"));
            }
            agree_by_tensor(
                &title("statistics"),
                network.statistics_tensors(),
                network.statistics(),
                &at("statistics"),
            );
            network.decode(&x, &mut decoded);
            agree(&title("images"), &decoded, &at("images"));
            let wanted = Wanted { latents: Some(&mut latents), ..Wanted::default() };
            network.backward(Mode::Eval, &x, &loss(1.0), wanted);
            if step == 0 {
                agree(&title("latents, eval"), &latents, &at("eval-latents"));
            }
            // Upwards along the direction, as the core goes.
            let mut up: Vec<f64> = gradient.iter().zip(&moving).map(|(g, m)| -f64::from(g * m)).collect();
            precondition(Preconditioner::Rmsprop, None, step, &mut up, &mut squares);
            let weights = network.parameters_mut().iter_mut().zip(up);
            weights.for_each(|(w, d)| *w = (f64::from(*w) + 1e-3 * d) as f32);
            agree_by_tensor(&title("stepped"), network.tensors(), network.parameters(), &at("stepped"));
        }
    }
}

#[test]
#[ignore = "needs PyTorch: make test-peers"]
fn the_encoder_agrees_with_pytorchs() {
    for channels in [1, 3] {
        let tag = format!("encoder{channels}");
        let at = |what: &str| read(&format!("{tag}-{what}"));
        let mut encoder = Encoder::new(channels, 0);
        encoder.parameters_mut().copy_from_slice(&at("parameters"));
        let (mut mean, mut variance) = (vec![0.0; at("mean").len()], vec![0.0; at("mean").len()]);
        encoder.forward(&read(&format!("decoder{channels}-y")), &mut mean, &mut variance);
        agree(&format!("{tag} mean"), &mean, &at("mean"));
        agree(&format!("{tag} variance"), &variance, &at("variance"));
        let mut gradient = vec![0.0; encoder.parameters().len()];
        encoder.backward(&at("d-mean"), &at("d-variance"), &mut gradient);
        agree_by_tensor(&tag, encoder.tensors(), &gradient, &at("gradient"));
    }
}
