//! The generator as a model: each image is a group, its latents are N(0, I), and its pixels N(f_theta(x), sigma^2 I).

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use motes::model::{Draws, Scalar};
use motes::settings::unknown;
use motes::{At, Gives, Model, ModelError, Want};
use serde::{Deserialize, Serialize};

use super::vae::Recognition;
use super::{Decoder, Inference, Mode, Stop, Tensor, Wanted};

/// The images y^1, ..., y^M that a generator is trained on.
pub trait Targets: Send + Sync {
    /// M.
    fn count(&self) -> usize;
    /// The number of values of an image.
    fn d_y(&self) -> usize;
    /// Writes the values of image m.
    fn write(&self, m: usize, image: &mut [f32]);
}

/// Which statistics normalise when PGD differentiates with respect to the particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchNorm {
    /// The running ones, in a pass of its own, as the authors.
    TwoPass,
    /// The batch's, in the same pass as theta's gradient: cheaper, and another algorithm.
    OnePass,
}

impl FromStr for BatchNorm {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "two-pass" => Ok(BatchNorm::TwoPass),
            "one-pass" => Ok(BatchNorm::OnePass),
            _ => Err(unknown("way to normalise", word, &["two-pass", "one-pass"])),
        }
    }
}

/// Makes a network whose weights are drawn by a seed.
pub type Make<N> = Box<dyn Fn(u64) -> Box<N> + Send + Sync>;

/// So many weights of a network are traced: enough to see whether they still move.
const TRACED: usize = 8;
/// So many images are decoded at a time where nothing is differentiated.
const PART: usize = 128;
/// A rough cost of both gradients of an image.
const NANOSECONDS: f64 = 3e6;

/// What a generator shows of a step, at the weights before it.
pub(super) const SCALARS: [Scalar; 3] = [
    Scalar {
        name: "loss",
        title: "Loss",
        meaning: "-log p(x, y) of an image without its constants (of a VAE, the negative bound)",
    },
    Scalar {
        name: "error",
        title: "Squared error",
        meaning: "mean squared error of a pixel, with values in [-1, 1]",
    },
    Scalar { name: "x_rms", title: "Latents", meaning: "root mean square of the latents" },
];

/// A decoder with the images it is fitted to, and with an inference network if it is to be fitted as a VAE.
///
/// Asked for the theta-gradient and for what it remembers, it normalises by the batch at hand and moves the running
/// statistics; else it normalises by those and moves nothing. The x-gradient of such a question is taken afterwards, by the
/// moved statistics (two passes, as the authors), or with the theta-gradient in one pass by those of the batch.
pub struct Generator {
    targets: Arc<dyn Targets>,
    make: Make<dyn Decoder>,
    pub(super) inference: Option<Make<dyn Inference>>,
    sigma: f64,
    batchnorm: BatchNorm,
    /// D_theta without the inference network.
    pub(super) weights: usize,
    /// Of the inference network.
    pub(super) phi: usize,
    statistics: usize,
    d_x: usize,
    traced: Vec<String>,
    room: Mutex<Room>,
}

/// Networks and memory to work with. Nothing in it is the truth: weights and statistics come with each question.
pub(super) struct Room {
    decoder: Box<dyn Decoder>,
    pub(super) recognition: Option<Recognition>,
    /// The images at hand, and their values.
    chosen: Vec<u32>,
    pub(super) y: Vec<f32>,
    gradient: Vec<f32>,
    pub(super) latents: Vec<f32>,
    /// The loss of each row.
    losses: Vec<AtomicU64>,
}

impl Generator {
    /// A model of these images with pixel noise of standard deviation sigma.
    pub fn new(
        targets: Arc<dyn Targets>,
        make: Make<dyn Decoder>,
        sigma: f64,
        batchnorm: BatchNorm,
    ) -> Result<Self, ModelError> {
        let decoder = make(0);
        if targets.d_y() != decoder.d_y() {
            return Err(ModelError::Reject(format!(
                "the images have {} values and the network makes {}; choose the network's channels by the images'",
                targets.d_y(),
                decoder.d_y()
            )));
        }
        let (weights, statistics, d_x) =
            (decoder.parameters().len(), decoder.statistics().len(), decoder.d_x());
        let traced = names(decoder.tensors(), TRACED);
        let room = Mutex::new(Room {
            decoder,
            recognition: None,
            chosen: Vec::new(),
            y: Vec::new(),
            gradient: vec![0.0; weights],
            latents: Vec::new(),
            losses: Vec::new(),
        });
        Ok(Generator {
            targets,
            make,
            inference: None,
            sigma,
            batchnorm,
            weights,
            phi: 0,
            statistics,
            d_x,
            traced,
            room,
        })
    }

    /// The same with an inference network, whose parameters come last in theta: theta's gradient is then that of the
    /// evidence lower bound, with one draw for each row.
    pub fn with_inference(mut self, make: Make<dyn Inference>) -> Self {
        let recognition = Recognition::new(make(0));
        self.phi = recognition.parameters();
        self.room().recognition = Some(recognition);
        self.inference = Some(make);
        self
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        // Whoever panicked has left nothing but workspace behind.
        self.room.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The room, with the images of these groups.
    pub(super) fn room_for(&self, groups: &[u32]) -> MutexGuard<'_, Room> {
        let mut guard = self.room();
        let room = &mut *guard;
        if room.chosen != groups {
            room.chosen.clear();
            room.chosen.extend_from_slice(groups);
            let d_y = self.targets.d_y();
            room.y.resize(groups.len() * d_y, 0.0);
            for (m, image) in groups.iter().zip(room.y.chunks_exact_mut(d_y)) {
                self.targets.write(*m as usize, image);
            }
            room.recognition.iter_mut().for_each(Recognition::forget);
        }
        guard
    }
}

/// Whether a network has other numbers than these.
pub(super) fn differ(have: &[f32], want: &[f64]) -> bool {
    have.iter().zip(want).any(|(have, want)| *have != *want as f32)
}

pub(super) fn write(to: &mut [f32], from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
}

impl Room {
    fn set(&mut self, weights: &[f64], statistics: &[f64]) {
        if differ(self.decoder.parameters(), weights) {
            write(self.decoder.parameters_mut(), weights);
        }
        if differ(self.decoder.statistics(), statistics) {
            write(self.decoder.statistics_mut(), statistics);
        }
    }

    /// Differentiates -log p(y|x), summed over the rows, with respect to theta, to the latents, or to both.
    fn backward(&mut self, question: &Question<'_>, mode: Mode, theta: bool) -> Result<f64, ModelError> {
        let Question { x, latents, stop, .. } = *question;
        self.latents.resize(x.len(), 0.0);
        let wanted = Wanted {
            parameters: theta.then_some(&mut self.gradient[..]),
            latents: latents.then_some(&mut self.latents[..]),
            stop,
        };
        let loss = question.loss(&self.y, &self.losses);
        let loss = self.decoder.backward(mode, x, &loss, wanted);
        if stop.is_set() { Err(ModelError::Stopped) } else { Ok(loss) }
    }

    /// log p(x, y) of each row without its constants, by the losses that were noted.
    fn densities(&self, x: &[f32], d_x: usize) -> Vec<f64> {
        let of_row = |(loss, x): (&AtomicU64, &[f32])| {
            -f64::from_bits(loss.load(Ordering::Relaxed)) - 0.5 * sum_of_squares(x)
        };
        self.losses.iter().zip(x.chunks_exact(d_x)).map(of_row).collect()
    }

    /// -log p(y|x) of each row by the running statistics, with nothing differentiated.
    fn forward(&mut self, question: &Question<'_>) -> Result<f64, ModelError> {
        let (d_x, d_y) = (self.decoder.d_x(), self.decoder.d_y());
        let rows = question.x.len() / d_x;
        let mut images = vec![0.0; rows.min(PART) * d_y];
        let mut unused = vec![0.0; d_y];
        let mut total = 0.0;
        for first in (0..rows).step_by(PART) {
            if question.stop.is_set() {
                return Err(ModelError::Stopped);
            }
            let part = (rows - first).min(PART);
            let images = &mut images[..part * d_y];
            self.decoder.decode(&question.x[first * d_x..(first + part) * d_x], images);
            let loss = question.loss(&self.y, &self.losses);
            total += (0..part)
                .zip(images.chunks_exact(d_y))
                .map(|(i, f)| loss(first + i, f, &mut unused))
                .sum::<f64>();
        }
        Ok(total)
    }
}

/// Where a network is asked.
#[derive(Clone, Copy)]
struct Question<'a> {
    x: &'a [f32],
    /// Rows to an image.
    particles: usize,
    latents: bool,
    sigma: f64,
    stop: Stop<'a>,
}

impl Question<'_> {
    /// -log p(y|x) of a row without its constant, which is remembered too where there is room for it.
    fn loss<'a>(
        &self,
        y: &'a [f32],
        losses: &'a [AtomicU64],
    ) -> impl Fn(usize, &[f32], &mut [f32]) -> f64 + Sync + use<'a> {
        let (precision, particles) = (1.0 / (self.sigma * self.sigma), self.particles);
        move |i, image, gradient| {
            let y = &y[i / particles * image.len()..][..image.len()];
            let mut sum = 0.0;
            for ((f, y), g) in image.iter().zip(y).zip(gradient) {
                let difference = f - y;
                *g = precision as f32 * difference;
                sum += f64::from(difference * difference);
            }
            let loss = 0.5 * precision * sum;
            if let Some(slot) = losses.get(i) {
                slot.store(loss.to_bits(), Ordering::Relaxed);
            }
            loss
        }
    }
}

impl Model<f32> for Generator {
    fn name(&self) -> &str {
        "generator"
    }

    fn d_theta(&self) -> usize {
        self.weights + self.phi
    }

    fn d_x(&self) -> usize {
        self.d_x
    }

    fn groups(&self) -> usize {
        self.targets.count()
    }

    fn buffers(&self) -> usize {
        self.statistics
    }

    fn theta_names(&self) -> Vec<String> {
        self.traced.clone()
    }

    fn listed(&self) -> usize {
        self.traced.len()
    }

    fn whole_batch(&self) -> bool {
        true
    }

    fn nanoseconds_per_row(&self) -> f64 {
        NANOSECONDS
    }

    fn gives(&self) -> Gives {
        Gives { log_density: self.inference.is_none(), ..Gives::default() }
    }

    fn default_step_size(&self) -> f64 {
        1e-4
    }

    fn start(&self, seed: u64, theta: &mut [f64], buffers: &mut [f64]) {
        let decoder = (self.make)(seed);
        let encoder = self.inference.as_ref().map(|make| make(seed));
        let phi = encoder.iter().flat_map(|e| e.parameters());
        let weights = decoder.parameters().iter().chain(phi);
        theta.iter_mut().zip(weights).for_each(|(t, w)| *t = f64::from(*w));
        buffers.iter_mut().zip(decoder.statistics()).for_each(|(b, s)| *b = f64::from(*s));
    }

    fn prior(&self) -> Option<&dyn Draws<f32>> {
        Some(&StandardNormal)
    }

    fn encoder(&self) -> Option<&dyn motes::model::Encoder<f32>> {
        self.inference.is_some().then_some(self)
    }

    fn scalars(&self) -> &[Scalar] {
        &SCALARS
    }

    fn finish_scalars(&self, rows: usize, sums: &mut [f64]) {
        sums.iter_mut().for_each(|s| *s /= rows as f64);
        sums[2] = sums[2].sqrt();
    }

    fn evaluate(&self, at: At<'_, f32>, want: Want<'_, f32>) -> Result<(), ModelError> {
        let Want { log_density, grad_x, grad_theta, buffers, scalars, .. } = want;
        let (x, rows) = (at.x, at.x.len() / self.d_x);
        let mut guard = self.room_for(at.groups);
        let room = &mut *guard;
        room.set(&at.theta[..self.weights], at.buffers);
        room.losses.clear();
        if log_density.is_some() {
            room.losses.resize_with(rows, Default::default);
        }
        let question = Question {
            x,
            particles: (rows / at.groups.len().max(1)).max(1),
            latents: grad_x.is_some(),
            sigma: self.sigma,
            stop: at.stop,
        };
        let mode = if buffers.is_some() && grad_theta.is_some() { Mode::Train } else { Mode::Eval };
        let differentiates = grad_theta.is_some() || grad_x.is_some();
        let mut data_loss = 0.0;
        if !differentiates || (log_density.is_some() && mode == Mode::Train) {
            data_loss = room.forward(&question)?;
        }
        let densities: Vec<f64> = match &log_density {
            Some(_) if mode == Mode::Train => room.densities(x, self.d_x),
            _ => Vec::new(),
        };
        let mut other_loss = 0.5 * sum_of_squares(x);
        if let Some(gradient) = grad_theta {
            let together = mode == Mode::Eval || self.batchnorm == BatchNorm::OnePass;
            let latents = self.inference.is_some() || (question.latents && together);
            data_loss = room.backward(&Question { latents, ..question }, mode, true)?;
            let (weights, phi) = gradient.split_at_mut(self.weights);
            weights.iter_mut().zip(&room.gradient).for_each(|(to, g)| *to = -f64::from(*g));
            if question.latents && !latents {
                room.backward(&question, Mode::Eval, false)?;
            }
            let Room { recognition, y, latents, .. } = room;
            if let Some(recognition) = recognition {
                recognition.encode(&at.theta[self.weights..], y, at.groups.len() * self.d_x);
                other_loss = recognition.gradient(x, latents, self.d_x, question.particles, phi);
            }
        } else if grad_x.is_some() {
            data_loss = room.backward(&question, Mode::Eval, false)?;
        }
        if let Some(out) = grad_x {
            for ((to, g), x) in out.iter_mut().zip(&room.latents).zip(x) {
                *to = -g - x;
            }
        }
        if let Some(out) = log_density {
            let densities = if densities.is_empty() { room.densities(x, self.d_x) } else { densities };
            out.copy_from_slice(&densities);
        }
        if let Some(out) = buffers {
            out.iter_mut().zip(room.decoder.statistics()).for_each(|(to, s)| *to = f64::from(*s));
        }
        if let Some(out) = scalars {
            let of_pixel = 2.0 * self.sigma * self.sigma / self.targets.d_y() as f64;
            let squares = sum_of_squares(x) / self.d_x as f64;
            out.copy_from_slice(&[data_loss + other_loss, of_pixel * data_loss, squares]);
        }
        Ok(())
    }
}

fn sum_of_squares(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v).powi(2)).sum()
}

/// The prior of the latents.
struct StandardNormal;

impl Draws<f32> for StandardNormal {
    fn map_normals(&self, _theta: &[f64], _groups: &[u32], _x: &mut [f32]) {}
}

/// Names of the first weights, by their arrays.
fn names(tensors: &[Tensor], most: usize) -> Vec<String> {
    let of = |t: &Tensor| {
        let len: usize = t.shape.iter().product();
        let name = t.name.clone();
        (0..len.min(most)).map(move |i| if len == 1 { name.clone() } else { format!("{name}[{i}]") })
    };
    tensors.iter().flat_map(of).take(most).collect()
}
