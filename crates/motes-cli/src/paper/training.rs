//! A generator trained in a run directory of its own and tried on test images: what Tab. 4 is made of.

use std::path::Path;

use motes::Ended;
use motes_app::generator::open::UNTOLD;
use motes_app::generator::run::{From, Plan};
use motes_app::generator::tasks::{Filled, HOLE, hole};
use motes_app::generator::{self, GeneratorConfig, Summary};
use motes_models::data::{self, ImageSet, byte_of, mnist};
use motes_models::generator::{Algorithm, BatchNorm, Search, Seen, Settings};
use serde::{Deserialize, Serialize};

use super::task::Outcome;
use super::verdict::Stats;
use crate::progress::Interrupt;

/// Inpainted images that are kept to be shown.
pub const SHOWN: usize = 16;

// Seconds of one core for an image: both gradients by themselves, the two together, and those of the inference network.
const THETA_GRADIENT: f64 = 1.7e-3;
const LATENT_GRADIENT: f64 = 1.1e-3;
const BOTH_GRADIENTS: f64 = 1.8e-3;
const INFERENCE_GRADIENT: f64 = 1.3e-3;
/// Steps that the search for the latents of an image takes, roughly.
const SEARCH_STEPS: f64 = 900.0;

/// A training and its trial, described completely. The data are embedded.
#[derive(Clone, Debug, Serialize)]
pub struct Training {
    pub config: GeneratorConfig,
    /// Test images to inpaint, the first of those that there are.
    pub inpainted: usize,
}

/// What is left of it, besides the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trained {
    /// The loss, and the mean squared error of a pixel: means over the last epoch.
    pub loss: f64,
    pub error: f64,
    /// The mean squared error of inpainted images, over all pixels and over the hole.
    pub mse: f64,
    pub mse_hole: f64,
    /// The standard error of the former over images.
    pub mse_error: f64,
    /// The pixels of the first inpainted images.
    pub images: Vec<u8>,
}

impl Training {
    fn settings(&self) -> Settings {
        self.config.settings(self.images()).expect("a plan's settings are sound")
    }

    fn images(&self) -> usize {
        self.config.images.expect("a plan says how many images there are")
    }

    fn steps(&self) -> u64 {
        self.config.total_steps(&self.settings(), self.images())
    }

    /// Everything that determines the outcome, as text.
    pub fn identity(&self) -> String {
        let training = serde_json::to_string(self).expect("a training is plain data");
        format!("{training} {} {}", data::sha256(mnist::IMAGES), data::sha256(mnist::TEST_IMAGES))
    }

    /// Roughly how long training and trial take on one core, in seconds.
    fn parts(&self) -> [f64; 2] {
        let s = self.settings();
        let of_image = match (s.algorithm, s.batchnorm) {
            (Algorithm::Pgd, BatchNorm::TwoPass) => THETA_GRADIENT + LATENT_GRADIENT,
            (Algorithm::Pgd, BatchNorm::OnePass) => BOTH_GRADIENTS,
            (Algorithm::Abp | Algorithm::ShortRun, _) => THETA_GRADIENT + s.chain as f64 * LATENT_GRADIENT,
            (Algorithm::Vae, _) => BOTH_GRADIENTS + INFERENCE_GRADIENT,
        };
        // The last batch of an epoch may be short.
        let epochs = self.steps() as f64 / s.steps_per_epoch(self.images()) as f64;
        let searched = (self.inpainted * Search::default().starts) as f64;
        [epochs * (self.images() * s.particles) as f64 * of_image, searched * SEARCH_STEPS * LATENT_GRADIENT]
    }

    pub fn seconds(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// The memory that it needs.
    pub fn bytes(&self) -> u128 {
        generator::memory_estimate(&self.settings(), self.images(), 1).total
    }

    /// Trains in the pool of the calling thread, or goes on with the training in `dir`, and inpaints. `told` hears which
    /// part of all is done. `None` if it was interrupted.
    pub fn carry_out(
        &self,
        dir: &Path,
        interrupt: &Interrupt,
        told: &dyn Fn(f64),
    ) -> Result<Option<Outcome>, String> {
        let [training, trial] = self.parts();
        let (share, steps) = (training / (training + trial), self.steps() as f64);
        let step_done = |k: u64| told(share * k as f64 / steps);
        if train(self.config.clone(), dir, interrupt, &step_done)? == Ended::Early {
            return Ok(None);
        }
        let mut run = generator::Trained::open(dir)?;
        let test = ImageSet::mnist_test(1).map_err(|e| e.to_string())?;
        let original = test.values(0..self.inpainted);
        let search = Search { seed: self.settings().seed, ..Search::default() };
        let hole = hole(HOLE)?;
        let filled = Filled::of(&mut *run.decoder, &original, &hole, &search, &mut |done| {
            told(share + (1.0 - share) * done as f64 / self.inpainted as f64);
            interrupt.flow()
        });
        let Some(Filled { images, mse, mse_hole, .. }) = filled else { return Ok(None) };
        let Summary { metrics, time, .. } = Summary::read(dir)?;
        let mse_error = standard_error(&original, &images, self.inpainted);
        let shown = images.len().min(SHOWN * images.len() / self.inpainted);
        let images = images[..shown].iter().map(|v| byte_of(*v)).collect();
        let trained =
            Some(Trained { loss: metrics.loss, error: metrics.error, mse, mse_hole, mse_error, images });
        Ok(Some(Outcome { seconds: time.seconds, trained, ..Outcome::default() }))
    }
}

/// Trains quietly into a directory, or goes on with what is there, on the current thread pool; `told` hears of each step.
fn train(
    config: GeneratorConfig,
    dir: &Path,
    interrupt: &Interrupt,
    told: &dyn Fn(u64),
) -> Result<Ended, String> {
    if dir.join("summary.json").exists() {
        return Ok(Ended::Complete);
    }
    let from = if dir.join("config.toml").exists() {
        From::Directory(dir.to_path_buf())
    } else {
        From::Scratch { out: Some(dir.to_path_buf()), files: Vec::new() }
    };
    let mut watch = |seen: &Seen| {
        told(seen.k);
        interrupt.flow()
    };
    let done = Plan::new(config, None, UNTOLD)?.carry_out(from, interrupt.stop(), &mut watch);
    done.map(|done| done.ended).map_err(|e| e.to_string())
}

/// The standard error of the mean over images of their mean squared errors; 0 for a single one.
fn standard_error(a: &[f32], b: &[f32], images: usize) -> f64 {
    let values = a.len() / images;
    let of_one = |(a, b): (&[f32], &[f32])| {
        a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / values as f64
    };
    let errors = a.chunks_exact(values).zip(b.chunks_exact(values)).map(of_one);
    // The divisor n of the scatter.
    Stats::of(errors).map_or(0.0, |s| s.sd / ((s.n - 1).max(1) as f64).sqrt())
}
