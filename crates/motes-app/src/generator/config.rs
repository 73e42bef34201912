//! The settings of a generator's training as flags and as `config.toml`.

use std::path::{Path, PathBuf};

use motes_models::generator::{Algorithm, BatchNorm, Settings};
use motes_models::options::{Flag, Table, refuse_unknown};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::Error;
use crate::config::VERSION;
use crate::job::fewer_steps;
use crate::text;

/// The model's name in a config.
pub const MODEL: &str = "generator";
/// Epochs where nobody chooses: those of the authors' notebook.
const EPOCHS: u64 = 100;

motes_models::options! {
    /// Everything that determines a training. A field that is `None` was not chosen.
    pub struct GeneratorConfig {
        "Data" {
            /// The SHA-256 of the images
            data_sha256: String => "";
            /// A folder of JPEG or PNG images (shorter side to 32, centre crop), or an IDX file [default: embedded MNIST]
            data: PathBuf => "DIR|IDX";
            /// The labels of an IDX file of images, for `motes synthesize --from labels`
            labels: PathBuf => "IDX";
            /// 1 for grey images, 3 for coloured ones [default: 1, or 3 for a folder]
            channels: usize => "1|3";
            /// The number of images M, the first of those there are [default: all]
            images: usize => "M";
        }
        "Algorithm" {
            /// pgd, abp, short-run or vae [default: pgd]
            algorithm: Algorithm => "NAME";
            /// The number of particles N of each image (pgd) [default: 10]
            particles: usize => "N";
            /// Transitions of the chain in each step (abp, short-run) [default: 10]
            chain: usize => "n";
            /// Images in a batch; each epoch visits every image once [default: 128]
            batch: usize => "B";
            /// Epochs [default: 100]
            epochs: u64 => "E" [instead of "steps"];
            /// Steps K, instead of epochs
            steps: u64 => "K";
            /// The step size h of the particles; the paper's for MNIST is 1e-3, its notebook's 1e-4 [default: 1e-4]
            step_size: f64 => "H";
            /// The learning rate of theta (RMSProp) [default: 1e-3]
            theta_rate: f64 => "R" [instead of "lambda"];
            /// The paper's lambda instead: the learning rate of theta is h lambda M
            lambda: f64 => "L";
            /// The standard deviation of the observation noise [default: 0.01]
            sigma: f64 => "S";
            /// two-pass: running statistics for the particles' gradient, as the authors; one-pass: the batch's, cheaper, another
            /// algorithm (pgd) [default: two-pass]
            batchnorm: BatchNorm => "HOW";
            /// The seed of all randomness [default: 0]
            seed: u64 => "S";
        }
        "Recording" {
            /// Steps between checkpoints [default: every half minute or so]
            checkpoint_every: u64 => "n";
            /// Steps between pictures of reconstructions and samples; 0 for none but the last [default: an epoch]
            pictures_every: u64 => "n";
        }
    }
}

impl Serialize for GeneratorConfig {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.flat().serialize(to)
    }
}

impl GeneratorConfig {
    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut config = Self::parse(&text::read(path)?).map_err(|e| e.within(path.display()))?;
        if let Some(dir) = path.parent() {
            let files = [&mut config.data, &mut config.labels];
            files.into_iter().flatten().for_each(|f| text::find_beside(f, dir));
        }
        Ok(config)
    }

    fn parse(file: &str) -> Result<Self, Error> {
        let mut table = text::parse(file)?;
        text::check_version(&table, VERSION)?;
        table.remove("version");
        if table.remove("model").is_none_or(|model| model != MODEL) {
            return Err("it is not the config of a generator; give the config.toml of a run".into());
        }
        let sha256 = table.remove("data-sha256").map(|sha256| ("data-sha256".to_string(), sha256));
        let mut options = match table.remove(MODEL) {
            Some(Value::Object(options)) => options,
            _ => Table::new(),
        };
        refuse_unknown(&table, ["version", "model", "data-sha256", MODEL])?;
        options.extend(sha256);
        Self::of_table(options)
    }

    /// The choices in a table of settings, named as in a config file.
    pub fn of_table(table: Table) -> Result<Self, Error> {
        refuse_unknown(&table, Self::flags().iter().map(|flag| flag.name))?;
        Ok(Self::of(&table)?)
    }

    /// These choices, and the other's where there are none.
    pub fn or(self, other: Self) -> Self {
        let mut table = other.table();
        table.extend(self.table());
        Self::of(&table).expect("choices that were made before")
    }

    /// All settings in one table, for summaries.
    pub fn flat(&self) -> Table {
        let mut table = self.table();
        table.insert("version".into(), VERSION.into());
        table.insert("model".into(), MODEL.into());
        table
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
    pub fn to_toml(&self) -> String {
        let mut out =
            format!("# Replay with: motes fit generator --config <this file>\nversion = {VERSION}\n");
        out += &text::line("model", &MODEL.into());
        if let Some(sha256) = &self.data_sha256 {
            out += &text::line("data-sha256", &sha256.as_str().into());
        }
        let own: Vec<Flag> = Self::flags().iter().filter(|flag| !flag.value.is_empty()).copied().collect();
        out + &text::section(MODEL, &self.table(), &own)
    }

    /// The settings that the choices amount to for M images.
    pub fn settings(&self, images: usize) -> Result<Settings, Error> {
        let base = Settings::default();
        let algorithm = self.algorithm.unwrap_or(base.algorithm);
        let chains = matches!(algorithm, Algorithm::Abp | Algorithm::ShortRun);
        if self.chain.is_some() && !chains {
            return Err(
                format!("`chain` belongs to abp and short-run, not to {algorithm}; leave it out").into()
            );
        }
        let step_size = self.step_size.unwrap_or(base.step_size);
        if self.lambda.is_some_and(|l| !(l > 0.0 && l.is_finite())) {
            return Err(format!(
                "`lambda={}` is not a positive number; use for example 1e-4",
                self.lambda.unwrap_or_default()
            )
            .into());
        }
        for (flag, value) in [("checkpoint-every", self.checkpoint_every), ("epochs", self.epochs)] {
            if value == Some(0) {
                return Err(format!("`{flag}=0` leaves nothing to do; use 1 or more").into());
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
