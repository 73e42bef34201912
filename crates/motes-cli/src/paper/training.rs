//! A generator trained in a run directory of its own and tried on test images: what Tab. 4 is made of.

use std::path::Path;

use motes::algorithms::{PGD, VAE};
use motes::sentence::Face;
use motes::{Ended, Flow, Observer, Settings, StepInfo, Summary};
use motes_app::carry::{self, Start, Watch};
use motes_app::config::Config;
use motes_app::generator;
use motes_app::generator::tasks::{Filled, HOLE, hole};
use motes_app::job::Job;
use motes_models::data::{self, ImageSet, byte_of, mnist};
use motes_models::generator::{Search, bytes_of_a_step};
use motes_models::registry::Defaults;
use serde::{Deserialize, Serialize, Serializer};

use super::task::Outcome;
use super::verdict::Stats;
use crate::fit::load;
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
    #[serde(serialize_with = "flat")]
    pub config: Config,
    /// Test images to inpaint, the first of those that there are.
    pub inpainted: usize,
}

fn flat<S: Serializer>(config: &Config, to: S) -> Result<S::Ok, S::Error> {
    config.flat().serialize(to)
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
        self.config.run.settings(&Defaults::default()).expect("a plan's settings are sound")
    }

    fn images(&self) -> usize {
        self.config.options["images"].as_u64().expect("a plan says how many images there are") as usize
    }

    /// Everything that determines the outcome, as text.
    pub fn identity(&self) -> String {
        let training = serde_json::to_string(self).expect("a training is plain data");
        format!("{training} {} {}", data::sha256(mnist::IMAGES), data::sha256(mnist::TEST_IMAGES))
    }

    /// Roughly how long training and trial take on one core, in seconds.
    fn parts(&self) -> [f64; 2] {
        let s = self.settings();
        let one_pass = self.config.options.get("batchnorm").is_some_and(|how| how == "one-pass");
        let of_image = match s.algorithm {
            a if a == &PGD && one_pass => BOTH_GRADIENTS,
            a if a == &PGD => THETA_GRADIENT + LATENT_GRADIENT,
            a if a == &VAE => BOTH_GRADIENTS + INFERENCE_GRADIENT,
            _ => THETA_GRADIENT + f64::from(s.transitions) * LATENT_GRADIENT,
        };
        // The last batch of an epoch may be short.
        let per_epoch = self.images().div_ceil(s.batch.unwrap_or(self.images()));
        let epochs = s.steps as f64 / per_epoch as f64;
        let searched = (self.inpainted * Search::default().starts) as f64;
        [epochs * (self.images() * s.particles) as f64 * of_image, searched * SEARCH_STEPS * LATENT_GRADIENT]
    }

    pub fn seconds(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// The memory that it needs.
    pub fn bytes(&self) -> u128 {
        bytes_of_a_step(&self.settings(), self.images())
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
        let (share, steps) = (training / (training + trial), self.settings().steps as f64);
        let step_done = |k: u64| told(share * k as f64 / steps);
        if train(&self.config, dir, interrupt, &step_done)? == Ended::Early {
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
        let summary = Summary::read(dir).map_err(|e| e.to_string())?.ok_or("the training left no summary")?;
        let mean = |name: &str| summary.scalars.as_ref().and_then(|s| s.get(name)).unwrap_or(f64::NAN);
        let mse_error = standard_error(&original, &images, self.inpainted);
        let shown = images.len().min(SHOWN * images.len() / self.inpainted);
        let images = images[..shown].iter().map(|v| byte_of(*v)).collect();
        let trained =
            Some(Trained { loss: mean("loss"), error: mean("error"), mse, mse_hole, mse_error, images });
        Ok(Some(Outcome { seconds: summary.time.seconds, trained, ..Outcome::default() }))
    }
}

/// Trains quietly into a directory, or goes on with what is there, on the current thread pool; `told` hears of each step.
fn train(config: &Config, dir: &Path, interrupt: &Interrupt, told: &dyn Fn(u64)) -> Result<Ended, String> {
    if dir.join("summary.json").exists() {
        return Ok(Ended::Complete);
    }
    let (config, start) = match dir.join("config.toml") {
        file if file.exists() => (Config::read(&file)?, Start::Directory(dir.to_path_buf())),
        _ => (config.clone(), Start::New(dir.to_path_buf())),
    };
    let job = Job::new(config.clone(), load(&config)?, None)?;
    let model = job.model::<f32>()?;
    let mut watch = Quiet { interrupt, told };
    let done = carry::carry_out(job, &*model, start, Some(Face::Shell), &mut watch, interrupt.stop());
    done.map(|done| done.ended).map_err(|e| e.to_string())
}

/// Passes on how far a training is.
struct Quiet<'a> {
    interrupt: &'a Interrupt,
    told: &'a dyn Fn(u64),
}

impl Observer<f32> for Quiet<'_> {
    fn observe(&mut self, info: &StepInfo<'_, f32>) -> Flow {
        (self.told)(info.k);
        self.interrupt.flow()
    }
}

impl Watch<f32> for Quiet<'_> {
    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }
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
