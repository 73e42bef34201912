//! Training of a generator by PGD, ABP, short-run MCMC or as a VAE (Sec. gen), one step at a time.

mod checkpoint;
mod optimisers;
mod settings;

use motes::batches::Batches;
use motes::noise::{Noise, Purpose};

pub use self::checkpoint::{About, Damage, load_weights, save_weights};
pub(crate) use self::optimisers::adam;
use self::optimisers::plain;
pub use self::optimisers::rmsprop;
pub use self::settings::{Algorithm, BatchNorm, Rate, Settings, ThetaRule, TrainingError};
use super::{Decoder, Inference, Mode, Stop, Targets, Wanted};

/// Beyond this a single-precision run has diverged.
const LIMIT: f32 = 1e8;
/// Draws of each image's latents that stand for a VAE's posterior.
pub const POSTERIOR_DRAWS: usize = 10;

/// Where a training stands after k steps, besides the weights and running statistics, which live in the networks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps made so far.
    pub k: u64,
    /// The persistent clouds X^{n,m}, `[N][M][d_x]`; empty for short-run MCMC and the VAE.
    pub cloud: Vec<f32>,
    /// What RMSProp remembers.
    pub theta_memory: Vec<f32>,
    /// What Adam remembers of the inference network.
    pub encoder_memory: Vec<f32>,
}

/// What a step has seen, at the weights before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Steps made so far, this one included.
    pub k: u64,
    /// -log p(x, y) per image without its constants, or the negative ELBO of a VAE.
    pub loss: f64,
    /// The mean squared error of a pixel.
    pub error: f64,
    /// The root mean square of the latents.
    pub x_rms: f64,
}

/// A training in progress. Everything happens on the current thread pool.
pub struct Trainer<'a> {
    settings: Settings,
    targets: &'a dyn Targets,
    decoder: &'a mut dyn Decoder,
    encoder: Option<&'a mut dyn Inference>,
    state: State,
    batches: Batches,
    batch: Batch,
    /// The gradient with respect to theta.
    gradient: Vec<f32>,
    encoder_gradient: Vec<f32>,
    /// The running statistics before the step at hand.
    statistics: Vec<f32>,
    stop: Stop<'a>,
}

/// What belongs to the images of one batch.
#[derive(Default)]
struct Batch {
    chosen: Vec<u32>,
    y: Vec<f32>,
    x: Vec<f32>,
    x_gradient: Vec<f32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    d_mean: Vec<f32>,
    d_variance: Vec<f32>,
}

impl<'a> Trainer<'a> {
    /// A training before its first step: particles are drawn from the prior. Settings are validated here.
    pub fn new(
        settings: Settings,
        targets: &'a dyn Targets,
        decoder: &'a mut dyn Decoder,
        encoder: Option<&'a mut dyn Inference>,
    ) -> Result<Self, TrainingError> {
        settings.validate(targets.count(), !decoder.statistics().is_empty())?;
        if targets.d_y() != decoder.d_y() {
            return Err(TrainingError::Settings(format!(
                "the images have {} values and the network makes {}; choose the network's channels by the images'",
                targets.d_y(),
                decoder.d_y()
            )));
        }
        if (settings.algorithm == Algorithm::Vae) != encoder.is_some() {
            return Err(TrainingError::Settings(format!(
                "{} is trained {} inference network; give one to vae alone",
                settings.algorithm,
                if encoder.is_some() { "without an" } else { "with an" }
            )));
        }
        let (m, parameters) = (targets.count(), decoder.parameters().len());
        let encoder_parameters = encoder.as_ref().map_or(0, |e| e.parameters().len());
        let persistent = matches!(settings.algorithm, Algorithm::Pgd | Algorithm::Abp);
        let mut cloud = vec![0.0; if persistent { settings.particles * m * decoder.d_x() } else { 0 }];
        Noise::new(settings.seed, Purpose::Prior).normals_f32(0, 0, &mut cloud);
        let theta_memory = if settings.theta_rule == ThetaRule::RmsProp { parameters } else { 0 };
        Ok(Trainer {
            batches: Batches::new(settings.seed, m, settings.batch.min(m)),
            batch: Batch::default(),
            gradient: vec![0.0; parameters],
            encoder_gradient: vec![0.0; encoder_parameters],
            statistics: Vec::new(),
            stop: Stop::default(),
            state: State {
                k: 0,
                cloud,
                theta_memory: vec![0.0; theta_memory],
                encoder_memory: vec![0.0; 2 * encoder_parameters],
            },
            settings,
            targets,
            decoder,
            encoder,
        })
    }

    /// Steps, and the drawing of a posterior, end with [`TrainingError::Stopped`] soon after the flag is set.
    pub fn stop_when(&mut self, stop: Stop<'a>) {
        self.stop = stop;
    }

    /// Where the training stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The settings it runs with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The network in training.
    pub fn decoder(&mut self) -> &mut dyn Decoder {
        self.decoder
    }

    /// The images and latents of the last batch, in the same order; the latents of its first particle.
    pub fn last_batch(&self) -> (&[f32], &[f32]) {
        let b = self.batch.chosen.len();
        (&self.batch.y, &self.batch.x[..(b * self.decoder.d_x()).min(self.batch.x.len())])
    }

    /// One step of the chosen algorithm. A step that is stopped leaves no trace; after other errors the training
    /// cannot go on.
    pub fn step(&mut self) -> Result<Seen, TrainingError> {
        self.batches.seek(self.state.k);
        self.batch.choose(self.batches.current(), self.targets);
        self.statistics.clear();
        self.statistics.extend_from_slice(self.decoder.statistics());
        let seen = match self.settings.algorithm {
            Algorithm::Pgd => self.pgd(),
            Algorithm::Abp | Algorithm::ShortRun => self.chain_then_theta(),
            Algorithm::Vae => self.vae(),
        };
        if let Err(TrainingError::Stopped) = seen {
            self.decoder.statistics_mut().copy_from_slice(&self.statistics);
        }
        let seen = seen?;
        self.state.k += 1;
        Ok(seen)
    }

    /// Eqs. genthetaupdate and genxupdate: both gradients at (theta_k, X_k).
    fn pgd(&mut self) -> Result<Seen, TrainingError> {
        self.gather();
        let one_pass = self.settings.batchnorm == BatchNorm::OnePass;
        let data_loss = self.backward(Mode::Train, true, one_pass)?;
        if !one_pass {
            self.backward(Mode::Eval, false, true)?;
        }
        let seen = self.seen(data_loss, self.prior_loss())?;
        let b = self.batch.chosen.len();
        for particle in 0..self.settings.particles {
            self.langevin(self.state.k, particle, particle * b)?;
        }
        self.scatter();
        self.theta_step()?;
        Ok(seen)
    }

    /// Eqs. genxupdate2 and genthetaupdate2: a chain at theta_k, then theta at the chain's last state.
    fn chain_then_theta(&mut self) -> Result<Seen, TrainingError> {
        self.run_chain()?;
        let data_loss = self.backward(Mode::Train, true, false)?;
        let seen = self.seen(data_loss, self.prior_loss())?;
        if self.settings.algorithm == Algorithm::Abp {
            self.scatter();
        }
        self.theta_step()?;
        Ok(seen)
    }

    /// The n transitions of one particle for each image of the batch, from where it was (ABP) or from the prior.
    fn run_chain(&mut self) -> Result<(), TrainingError> {
        let (d_x, k, length) = (self.decoder.d_x(), self.state.k, self.settings.chain as u64);
        if self.settings.algorithm == Algorithm::Abp {
            self.gather();
        } else {
            let prior = Noise::new(self.settings.seed, Purpose::Prior);
            let Batch { chosen, x, .. } = &mut self.batch;
            x.resize(chosen.len() * d_x, 0.0);
            for (m, row) in chosen.iter().zip(x.chunks_exact_mut(d_x)) {
                prior.normals_f32(k + 1, u64::from(*m) * d_x as u64, row);
            }
        }
        for transition in 0..length {
            self.backward(Mode::Eval, false, true)?;
            self.langevin(k * length + transition, 0, 0)?;
        }
        Ok(())
    }

    /// The right ELBO, with one draw for each image: log p(y|x) at x ~ q(.|y), less KL(q || p).
    fn vae(&mut self) -> Result<Seen, TrainingError> {
        let noise = Noise::new(self.settings.seed, Purpose::Variational);
        self.encode(&noise, self.state.k);
        let data_loss = self.backward(Mode::Train, true, true)?;
        let Batch { chosen, x, x_gradient, mean, variance, d_mean, d_variance, .. } = &mut self.batch;
        let mut divergence = 0.0;
        let share = 1.0 / chosen.len() as f32;
        for i in 0..x.len() {
            let (m, v) = (mean[i], variance[i]);
            divergence += 0.5 * (f64::from(m * m + v) - 1.0 - f64::from(v).ln());
            // x = m + sqrt(v) eps, hence dx/dv = eps / (2 sqrt(v)) = (x - m) / (2 v).
            d_mean[i] = share * (x_gradient[i] + m);
            d_variance[i] = share * (x_gradient[i] * (x[i] - m) / (2.0 * v) + 0.5 * (1.0 - 1.0 / v));
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.backward(d_mean, d_variance, &mut self.encoder_gradient);
            let rate = self.settings.encoder_rate as f32;
            let weights = encoder.parameters_mut();
            adam(weights, &self.encoder_gradient, &mut self.state.encoder_memory, self.state.k, rate);
            finite(weights, "|phi|", self.state.k, self.settings.rate_of_theta())?;
        }
        let seen = self.seen(data_loss, divergence)?;
        self.theta_step()?;
        Ok(seen)
    }

    /// Draws the latents of the batch from the inference network's Gaussians.
    fn encode(&mut self, noise: &Noise, step: u64) {
        let d_x = self.decoder.d_x();
        let Batch { chosen, y, x, mean, variance, d_mean, d_variance, .. } = &mut self.batch;
        for buffer in [&mut *x, mean, variance, d_mean, d_variance] {
            buffer.resize(chosen.len() * d_x, 0.0);
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.forward(y, mean, variance);
        }
        for (i, m) in chosen.iter().enumerate() {
            let row = i * d_x..(i + 1) * d_x;
            noise.normals_f32(step, u64::from(*m) * d_x as u64, &mut x[row.clone()]);
            for j in row {
                x[j] = mean[j] + variance[j].sqrt() * x[j];
            }
        }
    }

    /// The particles that stand for the posterior after the last step, `[n][M][d_x]`: the clouds of PGD and ABP, a
    /// chain over the whole set at the last theta for short-run MCMC, draws from the VAE's Gaussians.
    pub fn posterior(&mut self) -> Result<Vec<f32>, TrainingError> {
        let (m, d_x) = (self.targets.count(), self.decoder.d_x());
        let draws = match self.settings.algorithm {
            Algorithm::Pgd | Algorithm::Abp => return Ok(self.state.cloud.clone()),
            Algorithm::ShortRun => 1,
            Algorithm::Vae => POSTERIOR_DRAWS,
        };
        let noise = Noise::new(self.settings.seed, Purpose::Encoder);
        let mut particles = vec![0.0; draws * m * d_x];
        let all: Vec<u32> = (0..m as u32).collect();
        for chosen in all.chunks(self.settings.batch) {
            self.batch.choose(chosen, self.targets);
            for draw in 0..draws {
                match self.settings.algorithm {
                    Algorithm::Vae => self.encode(&noise, draw as u64),
                    _ => self.run_chain()?,
                }
                let at = (draw * m + chosen[0] as usize) * d_x;
                particles[at..at + self.batch.x.len()].copy_from_slice(&self.batch.x);
            }
        }
        Ok(particles)
    }

    /// Differentiates -log p(y|x), summed over the batch, with respect to theta, to the latents, or to both.
    fn backward(&mut self, mode: Mode, theta: bool, latents: bool) -> Result<f64, TrainingError> {
        let Batch { chosen, y, x, x_gradient, .. } = &mut self.batch;
        x_gradient.resize(x.len(), 0.0);
        let wanted = Wanted {
            parameters: theta.then_some(&mut self.gradient[..]),
            latents: latents.then_some(&mut x_gradient[..]),
            stop: self.stop,
        };
        let loss = image_loss(y, chosen.len(), self.settings.sigma);
        let loss = self.decoder.backward(mode, x, &loss, wanted);
        if self.stop.is_set() { Err(TrainingError::Stopped) } else { Ok(loss) }
    }

    /// Copies the batch's particles out of the clouds, particle after particle.
    fn gather(&mut self) {
        let (d_x, m) = (self.decoder.d_x(), self.targets.count());
        let Batch { chosen, x, .. } = &mut self.batch;
        x.clear();
        for cloud in self.state.cloud.chunks_exact(m * d_x) {
            chosen.iter().for_each(|m| x.extend_from_slice(&cloud[*m as usize * d_x..][..d_x]));
        }
    }

    /// Copies them back.
    fn scatter(&mut self) {
        let (d_x, m) = (self.decoder.d_x(), self.targets.count());
        let mut rows = self.batch.x.chunks_exact(d_x);
        for cloud in self.state.cloud.chunks_exact_mut(m * d_x) {
            for (m, row) in self.batch.chosen.iter().zip(&mut rows) {
                cloud[*m as usize * d_x..][..d_x].copy_from_slice(row);
            }
        }
    }

    /// Moves one particle of each image of the batch, whose rows begin at `first`, by
    /// X + h grad log p(X, y) + sqrt(2h) W. The noise belongs to (step, particle, image, coordinate).
    fn langevin(&mut self, step: u64, particle: usize, first: usize) -> Result<(), TrainingError> {
        let (d_x, m) = (self.decoder.d_x(), self.targets.count());
        let noise = Noise::new(self.settings.seed, Purpose::Particles);
        let h = self.settings.step_size;
        let Batch { chosen, x, x_gradient, .. } = &mut self.batch;
        for (i, image) in chosen.iter().enumerate() {
            let row = (first + i) * d_x..(first + i + 1) * d_x;
            let (x, gradient) = (&mut x[row.clone()], &mut x_gradient[row]);
            gradient.iter_mut().zip(&*x).for_each(|(g, x)| *g = -*g - x);
            let address = (particle * m + *image as usize) * d_x;
            if !noise.langevin_f32(step, address as u64, x, gradient, h, LIMIT) {
                let norm = x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
                return Err(TrainingError::Diverged {
                    step: self.state.k + 1,
                    what: "|x|",
                    value: norm,
                    rate: self.settings.rate_of_particles(),
                });
            }
        }
        Ok(())
    }

    fn prior_loss(&self) -> f64 {
        0.5 * sum_of_squares(&self.batch.x)
    }

    /// What a step has seen, unless that is not finite.
    fn seen(&self, data_loss: f64, other_loss: f64) -> Result<Seen, TrainingError> {
        let images = (self.batch.x.len() / self.decoder.d_x()) as f64;
        let loss = (data_loss + other_loss) / images;
        if !loss.is_finite() {
            return Err(TrainingError::Diverged {
                step: self.state.k + 1,
                what: "the loss",
                value: loss,
                rate: self.settings.rate_of_particles(),
            });
        }
        let values = images * self.decoder.d_y() as f64;
        Ok(Seen {
            k: self.state.k + 1,
            loss,
            error: 2.0 * self.settings.sigma.powi(2) * data_loss / values,
            x_rms: (sum_of_squares(&self.batch.x) / self.batch.x.len() as f64).sqrt(),
        })
    }

    /// theta against the mean gradient over the batch's images and particles.
    fn theta_step(&mut self) -> Result<(), TrainingError> {
        let images = self.batch.x.len() / self.decoder.d_x();
        let share = 1.0 / images as f32;
        self.gradient.iter_mut().for_each(|g| *g *= share);
        let rate = self.settings.theta_rate as f32;
        let weights = self.decoder.parameters_mut();
        match self.settings.theta_rule {
            ThetaRule::RmsProp => rmsprop(weights, &self.gradient, &mut self.state.theta_memory, rate),
            ThetaRule::Plain => plain(weights, &self.gradient, rate),
        }
        finite(weights, "|theta|", self.state.k, self.settings.rate_of_theta())
    }
}

impl Batch {
    fn choose(&mut self, chosen: &[u32], targets: &dyn Targets) {
        self.chosen.clear();
        self.chosen.extend_from_slice(chosen);
        self.y.resize(chosen.len() * targets.d_y(), 0.0);
        for (m, image) in chosen.iter().zip(self.y.chunks_exact_mut(targets.d_y())) {
            targets.write(*m as usize, image);
        }
    }
}

/// -log p(y|x) without its constant, where decoded image i belongs to target i modulo `images`.
fn image_loss(y: &[f32], images: usize, sigma: f64) -> impl Fn(usize, &[f32], &mut [f32]) -> f64 + Sync {
    let precision = 1.0 / (sigma * sigma);
    let d_y = y.len() / images;
    move |i, image, gradient| {
        let y = &y[i % images * d_y..][..d_y];
        let mut sum = 0.0;
        for ((f, y), g) in image.iter().zip(y).zip(gradient) {
            let difference = f - y;
            *g = precision as f32 * difference;
            sum += f64::from(difference * difference);
        }
        0.5 * precision * sum
    }
}

fn sum_of_squares(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(*v).powi(2)).sum()
}

/// Refuses weights that have left every reasonable range.
fn finite(weights: &[f32], what: &'static str, k: u64, rate: Rate) -> Result<(), TrainingError> {
    if weights.iter().all(|w| w.abs() <= LIMIT) {
        return Ok(());
    }
    let value = sum_of_squares(weights).sqrt();
    Err(TrainingError::Diverged { step: k + 1, what, value, rate })
}
