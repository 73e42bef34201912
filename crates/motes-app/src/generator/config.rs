//! The settings of a generator's training as flags and as `config.toml`.

use std::path::{Path, PathBuf};

use motes_models::generator::{Algorithm, BatchNorm, Settings};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::config::{config, find_beside, one_line, refuse_other_names, refuse_unknown, wrong_setting};
use crate::job::fewer_steps;

/// The model's name in a config.
pub const MODEL: &str = "generator";
/// The version of the file format; newer ones are refused.
const VERSION: u32 = 1;
/// Epochs where nobody chooses: those of the authors' notebook.
const EPOCHS: u64 = 100;

config! {
    /// Everything that determines a training. A field that is `None` was not chosen.
    GeneratorConfig {
        /// A folder of JPEG or PNG images (shorter side to 32, centre crop), or an IDX file [default: embedded MNIST]
        #[arg(long, value_name = "DIR|IDX", help_heading = "Data")]
        data: PathBuf,
        /// The labels of an IDX file of images, for `motes synthesize --from labels`
        #[arg(long, value_name = "IDX", help_heading = "Data")]
        labels: PathBuf,
        /// 1 for grey images, 3 for coloured ones [default: 1, or 3 for a folder]
        #[arg(long, value_name = "1|3", help_heading = "Data")]
        channels: usize,
        /// The number of images M, the first of those there are [default: all]
        #[arg(long, value_name = "M", help_heading = "Data")]
        images: usize,
        /// pgd, abp, short-run or vae [default: pgd]
        #[arg(long, value_name = "NAME", help_heading = "Algorithm")]
        algorithm: Algorithm,
        /// The number of particles N of each image (pgd) [default: 10]
        #[arg(long, value_name = "N", help_heading = "Algorithm")]
        particles: usize,
        /// Transitions of the chain in each step (abp, short-run) [default: 10]
        #[arg(long, value_name = "n", help_heading = "Algorithm")]
        chain: usize,
        /// Images in a batch; each epoch visits every image once [default: 128]
        #[arg(long, value_name = "B", help_heading = "Algorithm")]
        batch: usize,
        /// Epochs [default: 100]
        #[arg(long, value_name = "E", help_heading = "Algorithm", conflicts_with = "steps")]
        epochs: u64,
        /// Steps K, instead of epochs
        #[arg(long, value_name = "K", help_heading = "Algorithm")]
        steps: u64,
        /// The step size h of the particles; the paper's for MNIST is 1e-3, its notebook's 1e-4 [default: 1e-4]
        #[arg(long, value_name = "H", help_heading = "Algorithm")]
        step_size: f64,
        /// The learning rate of theta (RMSProp) [default: 1e-3]
        #[arg(long, value_name = "R", help_heading = "Algorithm", conflicts_with = "lambda")]
        theta_rate: f64,
        /// The paper's lambda instead: the learning rate of theta is h lambda M
        #[arg(long, value_name = "L", help_heading = "Algorithm")]
        lambda: f64,
        /// The standard deviation of the observation noise [default: 0.01]
        #[arg(long, value_name = "S", help_heading = "Algorithm")]
        sigma: f64,
        /// two-pass: running statistics for the particles' gradient, as the authors; one-pass: the batch's, cheaper, another
        /// algorithm (pgd) [default: two-pass]
        #[arg(long, value_name = "HOW", help_heading = "Algorithm")]
        batchnorm: BatchNorm,
        /// The seed of all randomness [default: 0]
        #[arg(long, value_name = "S", help_heading = "Algorithm")]
        seed: u64,
        /// Steps between checkpoints [default: every half minute or so]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        checkpoint_every: u64,
        /// Steps between pictures of reconstructions and samples; 0 for none but the last [default: an epoch]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        pictures_every: u64,
    }
}

impl GeneratorConfig {
    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the config {shown}: {e}; check the path"))?;
        let table =
            toml::from_str(&text).map_err(|e| format!("{shown}: {}; correct it", one_line(e.message())))?;
        refuse_unknown(&table, &Self::keys()).map_err(|problem| format!("{shown}: {problem}"))?;
        let mut config: GeneratorConfig = toml::from_str(&text)
            .map_err(|e| format!("{shown}: {}; correct that setting", one_line(e.message())))?;
        if config.version != Some(VERSION) || config.model.as_deref() != Some(MODEL) {
            return Err(format!(
                "{shown} is not the config of a generator in format version {VERSION}; give the config.toml of a run"
            ).into());
        }
        if let Some(dir) = path.parent() {
            [&mut config.data, &mut config.labels].into_iter().flatten().for_each(|f| find_beside(f, dir));
        }
        Ok(config)
    }

    /// The choices in a table of settings, named as in a config file.
    pub fn from_table(table: serde_json::Map<String, serde_json::Value>) -> Result<Self, Error> {
        refuse_unknown(&table, &Self::keys())?;
        serde_json::from_value(table.clone().into())
            .map_err(|e| wrong_setting::<Self>(&table, &e.to_string()))
    }

    /// Asks for a new total of steps.
    pub fn go_on_to(&mut self, steps: u64) -> Result<(), Error> {
        let images = self.images.unwrap_or(0);
        let before = self.total_steps(&self.settings(images)?, images);
        if steps < before {
            return Err(fewer_steps(steps, before));
        }
        (self.epochs, self.steps) = (None, Some(steps));
        Ok(())
    }

    /// Sets aside what this config says where the flags say the same in other words, or choose other data or another
    /// algorithm.
    pub fn make_way_for(&mut self, flags: &GeneratorConfig) {
        if flags.epochs.is_some() || flags.steps.is_some() {
            (self.epochs, self.steps) = (None, None);
        }
        if flags.theta_rate.is_some() || flags.lambda.is_some() {
            (self.theta_rate, self.lambda) = (None, None);
        }
        if flags.data.is_some() || flags.images.is_some() || flags.channels.is_some() {
            self.data_sha256 = None;
        }
        if flags.algorithm.is_some() && flags.algorithm != self.algorithm {
            (self.particles, self.chain, self.batchnorm) = (None, None, None);
        }
    }

    /// The text of a config file.
    pub fn to_toml(&self) -> Result<String, Error> {
        refuse_other_names([&self.data, &self.labels].into_iter().flatten())?;
        let body = toml::to_string(self).expect("a config is plain data");
        Ok(format!("# Replay with: motes fit generator --config <this file>\n{body}"))
    }

    /// The settings that the choices amount to for M images.
    pub fn settings(&self, images: usize) -> Result<Settings, Error> {
        let base = Settings::default();
        let algorithm = self.algorithm.unwrap_or(base.algorithm);
        let chains = matches!(algorithm, Algorithm::Abp | Algorithm::ShortRun);
        if self.chain.is_some() && !chains {
            return Err(
                format!("--chain belongs to abp and short-run, not to {algorithm}; leave it out").into()
            );
        }
        let step_size = self.step_size.unwrap_or(base.step_size);
        if self.lambda.is_some_and(|l| !(l > 0.0 && l.is_finite())) {
            return Err(format!(
                "--lambda {} is not a positive number; use for example 1e-4",
                self.lambda.unwrap_or_default()
            )
            .into());
        }
        for (flag, value) in [("--checkpoint-every", self.checkpoint_every), ("--epochs", self.epochs)] {
            if value == Some(0) {
                return Err(format!("{flag} 0 leaves nothing to do; use 1 or more").into());
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
