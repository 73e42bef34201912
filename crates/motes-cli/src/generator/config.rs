//! The settings of a generator's training as flags and as `config.toml`.

use std::path::{Path, PathBuf};

use clap::Args;
use motes_models::generator::{Algorithm, BatchNorm, Settings};
use serde::{Deserialize, Serialize};

use crate::config::one_line;

/// The model's name in a config.
pub const MODEL: &str = "generator";
/// The version of the file format; newer ones are refused.
const VERSION: u32 = 1;
/// Epochs where nobody chooses: those of the authors' notebook.
const EPOCHS: u64 = 100;

/// Everything that determines a training. A field that is `None` was not chosen.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GeneratorConfig {
    /// The version of this format.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The model.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The SHA-256 of the images' pixels.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_sha256: Option<String>,
    /// A folder of JPEG or PNG images (shorter side to 32, centre crop), or an IDX file [default: embedded MNIST]
    #[arg(long, value_name = "DIR|IDX", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The labels of an IDX file of images, for `motes synthesize --from labels`
    #[arg(long, value_name = "IDX", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// 1 for grey images, 3 for coloured ones [default: 1, or 3 for a folder]
    #[arg(long, value_name = "1|3", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// The number of images M, the first of those there are [default: all]
    #[arg(long, value_name = "M", help_heading = "Data")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
    /// pgd, abp, short-run or vae [default: pgd]
    #[arg(long, value_name = "NAME", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// The number of particles N of each image (pgd) [default: 10]
    #[arg(long, value_name = "N", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub particles: Option<usize>,
    /// Transitions of the chain in each step (abp, short-run) [default: 10]
    #[arg(long, value_name = "n", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<usize>,
    /// Images in a batch; each epoch visits every image once [default: 128]
    #[arg(long, value_name = "B", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Epochs [default: 100]
    #[arg(long, value_name = "E", help_heading = "Algorithm", conflicts_with = "steps")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Steps K, instead of epochs
    #[arg(long, value_name = "K", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// The step size h of the particles; the paper's for MNIST is 1e-3, its notebook's 1e-4 [default: 1e-4]
    #[arg(long, value_name = "H", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_size: Option<f64>,
    /// The learning rate of theta (RMSProp) [default: 1e-3]
    #[arg(long, value_name = "R", help_heading = "Algorithm", conflicts_with = "lambda")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta_rate: Option<f64>,
    /// The paper's lambda instead: the learning rate of theta is h lambda M
    #[arg(long, value_name = "L", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// The standard deviation of the observation noise [default: 0.01]
    #[arg(long, value_name = "S", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigma: Option<f64>,
    /// two-pass: running statistics for the particles' gradient, as the authors; one-pass: the batch's, cheaper, another
    /// algorithm (pgd) [default: two-pass]
    #[arg(long, value_name = "HOW", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batchnorm: Option<BatchNorm>,
    /// The seed of all randomness [default: 0]
    #[arg(long, value_name = "S", help_heading = "Algorithm")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Steps between checkpoints [default: every half minute or so]
    #[arg(long, value_name = "n", help_heading = "Recording")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<u64>,
    /// Steps between pictures of reconstructions and samples; 0 for none but the last [default: an epoch]
    #[arg(long, value_name = "n", help_heading = "Recording")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures_every: Option<u64>,
}

impl GeneratorConfig {
    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the config {shown}: {e}; check the path"))?;
        let config: GeneratorConfig = toml::from_str(&text)
            .map_err(|e| format!("{shown}: {}; correct that setting", one_line(e.message())))?;
        if config.version != Some(VERSION) || config.model.as_deref() != Some(MODEL) {
            return Err(format!(
                "{shown} is not the config of a generator in format version {VERSION}; give the config.toml of a run"
            ));
        }
        Ok(config)
    }

    /// These choices, and the file's where there are none.
    pub fn or(self, mut file: GeneratorConfig) -> Self {
        // One choice replaces another that says the same in other words.
        if self.epochs.is_some() || self.steps.is_some() {
            (file.epochs, file.steps) = (None, None);
        }
        if self.theta_rate.is_some() || self.lambda.is_some() {
            (file.theta_rate, file.lambda) = (None, None);
        }
        if self.data.is_some() || self.images.is_some() || self.channels.is_some() {
            file.data_sha256 = None;
        }
        if self.algorithm.is_some() && self.algorithm != file.algorithm {
            (file.particles, file.chain, file.batchnorm) = (None, None, None);
        }
        macro_rules! chosen {
            ($($field:ident),+) => { GeneratorConfig { $($field: self.$field.or(file.$field)),+ } };
        }
        chosen!(
            version,
            model,
            data_sha256,
            data,
            labels,
            channels,
            images,
            algorithm,
            particles,
            chain,
            batch,
            epochs,
            steps,
            step_size,
            theta_rate,
            lambda,
            sigma,
            batchnorm,
            seed,
            checkpoint_every,
            pictures_every
        )
    }

    /// The text of a config file.
    pub fn to_toml(&self) -> Result<String, String> {
        if let Some(path) = [&self.data, &self.labels].into_iter().flatten().find(|p| p.to_str().is_none()) {
            return Err(format!(
                "the name of {} is not UTF-8 and cannot be kept in config.toml; rename it",
                path.display()
            ));
        }
        let body = toml::to_string(self).map_err(|e| e.to_string())?;
        Ok(format!("# Replay with: motes fit generator --config <this file>\n{body}"))
    }

    /// The settings that the choices amount to for M images.
    pub fn settings(&self, images: usize) -> Result<Settings, String> {
        let base = Settings::default();
        let algorithm = self.algorithm.unwrap_or(base.algorithm);
        let chains = matches!(algorithm, Algorithm::Abp | Algorithm::ShortRun);
        if self.chain.is_some() && !chains {
            return Err(format!("--chain belongs to abp and short-run, not to {algorithm}; leave it out"));
        }
        let step_size = self.step_size.unwrap_or(base.step_size);
        if self.lambda.is_some_and(|l| !(l > 0.0 && l.is_finite())) {
            return Err(format!(
                "--lambda {} is not a positive number; use for example 1e-4",
                self.lambda.unwrap_or_default()
            ));
        }
        for (flag, value) in [("--checkpoint-every", self.checkpoint_every), ("--epochs", self.epochs)] {
            if value == Some(0) {
                return Err(format!("{flag} 0 leaves nothing to do; use 1 or more"));
            }
        }
        Ok(Settings {
            algorithm,
            particles: self.particles.unwrap_or(if algorithm == Algorithm::Pgd { base.particles } else { 1 }),
            chain: self.chain.unwrap_or(base.chain),
            batch: self.batch.unwrap_or(base.batch),
            step_size,
            theta_rate: match self.lambda {
                Some(lambda) => step_size * lambda * images as f64,
                None => self.theta_rate.unwrap_or(base.theta_rate),
            },
            sigma: self.sigma.unwrap_or(base.sigma),
            batchnorm: self.batchnorm.unwrap_or(base.batchnorm),
            seed: self.seed.unwrap_or(base.seed),
            ..base
        })
    }

    /// The total number of steps.
    pub fn total_steps(&self, settings: &Settings, images: usize) -> u64 {
        let epochs = || self.epochs.unwrap_or(EPOCHS).saturating_mul(settings.steps_per_epoch(images));
        self.steps.unwrap_or_else(epochs)
    }

    /// The choices with every default written out, so that a replay does not depend on them.
    pub fn resolved(&self, settings: &Settings, images: usize, channels: usize) -> Self {
        let chains = matches!(settings.algorithm, Algorithm::Abp | Algorithm::ShortRun);
        let mut full = self.clone();
        (full.version, full.model) = (Some(VERSION), Some(MODEL.into()));
        (full.images, full.channels) = (Some(images), Some(channels));
        full.algorithm = Some(settings.algorithm);
        full.particles = Some(settings.particles);
        full.chain = chains.then_some(settings.chain);
        full.batch = Some(settings.batch);
        if full.steps.is_none() {
            full.epochs.get_or_insert(EPOCHS);
        }
        if full.lambda.is_none() {
            full.theta_rate = Some(settings.theta_rate);
        }
        full.step_size = Some(settings.step_size);
        full.sigma = Some(settings.sigma);
        full.batchnorm = (settings.algorithm == Algorithm::Pgd).then_some(settings.batchnorm);
        full.seed = Some(settings.seed);
        full
    }
}
