//! Seconds of a PGD step of the generator network and of decoding, as lines of JSON beside `bench/peers/peer_generator.py`.
//!
//! `cargo bench -p motes-models --bench generator -- [two-pass|one-pass|decode] [--reps n] [--batch B] [--particles N]`

#![allow(clippy::disallowed_methods)]

use motes::Pool;
use motes::noise::{Noise, Purpose};
use motes_models::generator::{Decoder, Mode, Network, Wanted};
use std::time::Instant;

const SIGMA: f32 = 0.01;
const H: f64 = 1e-4;
const RATE: f32 = 1e-3;

/// The value behind a flag.
fn flag(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|a| a != name);
    let value =
        arguments.nth(1).map(|v| v.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {v:?}")));
    value.unwrap_or(default)
}

/// Processor seconds of this process, where /proc tells.
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<_> = stat.rsplit(')').next()?.split_whitespace().collect();
    // Ticks of a hundredth of a second in user and system mode.
    Some((fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?) / 100.0)
}

/// The largest memory so far, in MB.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// A network, its optimiser, a batch of images and the particles of each.
struct Step {
    network: Network,
    squares: Vec<f32>,
    gradient: Vec<f32>,
    latents: Vec<f32>,
    y: Vec<f32>,
    x: Vec<f32>,
    particles: usize,
    k: u64,
}

impl Step {
    fn new(batch: usize, particles: usize) -> Self {
        let network = Network::new(1, 0);
        let noise = Noise::new(0, Purpose::Check);
        let mut y = vec![0.0; batch * network.d_y()];
        noise.normals_f32(0, 0, &mut y);
        y.iter_mut().for_each(|y| *y = y.clamp(-1.0, 1.0));
        let mut x = vec![0.0; batch * particles * network.d_x()];
        noise.normals_f32(1, 0, &mut x);
        let squares = vec![0.0; network.parameters().len()];
        Self { gradient: squares.clone(), latents: x.clone(), squares, network, y, x, particles, k: 0 }
    }

    /// A PGD step: theta by RMSProp at train statistics; x by Langevin at the running ones, or in one pass at the same.
    fn pgd(&mut self, two_passes: bool) {
        let Self { network, squares, gradient, latents, y, x, particles, .. } = self;
        let (d_y, scale) = (network.d_y(), 1.0 / (x.len() / network.d_x()) as f32);
        let loss = |i: usize, image: &[f32], d: &mut [f32]| {
            let mut loss = 0.0;
            for ((d, f), y) in d.iter_mut().zip(image).zip(&y[i / *particles * d_y..]) {
                *d = (f - y) / (SIGMA * SIGMA);
                loss += 0.5 * (f - y) * *d;
            }
            f64::from(loss)
        };
        if two_passes {
            network.backward(
                Mode::Train,
                x,
                &loss,
                Wanted { parameters: Some(gradient), ..Wanted::default() },
            );
            network.backward(Mode::Eval, x, &loss, Wanted { latents: Some(latents), ..Wanted::default() });
        } else {
            network.backward(
                Mode::Train,
                x,
                &loss,
                Wanted { parameters: Some(gradient), latents: Some(latents), ..Wanted::default() },
            );
        }
        latents.iter_mut().zip(&*x).for_each(|(d, x)| *d = -(*d + x));
        Noise::new(0, Purpose::Particles).langevin_f32(self.k, 0, x, latents, H, f32::INFINITY);
        for ((p, s), g) in network.parameters_mut().iter_mut().zip(squares).zip(gradient) {
            let g = *g * scale;
            *s = 0.99 * *s + 0.01 * g * g;
            *p -= RATE * g / (s.sqrt() + 1e-8);
        }
        self.k += 1;
    }
}

fn main() {
    let known = ["two-pass", "one-pass", "decode"];
    let asked: Vec<_> = std::env::args().filter(|a| known.contains(&a.as_str())).collect();
    let cases = if asked.is_empty() { known.map(String::from).to_vec() } else { asked };
    let (reps, batch, particles) = (flag("--reps", 3), flag("--batch", 128), flag("--particles", 10));
    let threads = flag("--threads", 2);
    Pool::new(Some(threads)).expect("threads").install(|| {
        for case in cases {
            let mut step = Step::new(batch, particles);
            let images = batch * particles;
            let mut decoded = vec![0.0; images * step.network.d_y()];
            let (mut least, mut least_processor) = (f64::INFINITY, f64::INFINITY);
            for rep in 0..=reps {
                let (began, processor) = (Instant::now(), processor_seconds());
                match case.as_str() {
                    "decode" => step.network.decode(&step.x, &mut decoded),
                    _ => step.pgd(case == "two-pass"),
                }
                // The first touches memory for the first time.
                if rep > 0 {
                    least = least.min(began.elapsed().as_secs_f64());
                    let used = processor_seconds().zip(processor).map_or(f64::NAN, |(after, before)| after - before);
                    least_processor = least_processor.min(used);
                }
            }
            println!(
                "{{\"case\": \"{case}\", \"images\": {images}, \"threads\": {threads}, \"s_min\": {least:.4}, \
                 \"processor_s_min\": {least_processor:.2}, \"images_per_s\": {:.1}, \"peak_mb\": {:.0}}}",
                images as f64 / least,
                peak_mb().unwrap_or(f64::NAN)
            );
        }
    });
}
