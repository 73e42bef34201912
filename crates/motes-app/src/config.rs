//! The settings of a run as flags and as `config.toml`: one structure for both, so that neither can know what the other does not.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use motes::algorithms::{Algorithm, PGD};
use motes::record::Recording;
use motes::settings::{
    Growth, InitParticles, InitTheta, JointUpdate, Preconditioner, Settings, StepDecay, WarmStart, unknown,
};
use motes_models::Products;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The version of the file format; newer ones are refused.
const VERSION: u32 = 1;

/// Declares choices that are flags and settings of a config file alike, and how those of two places are joined.
macro_rules! config {
    ($(#[$about:meta])* $name:ident { $($(#[doc = $doc:literal])+ #[arg($($arg:tt)*)] $field:ident: $ty:ty,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            /// The version of this format.
            #[cfg_attr(feature = "clap", arg(skip))]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub version: Option<u32>,
            /// The model.
            #[cfg_attr(feature = "clap", arg(skip))]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub model: Option<String>,
            /// The SHA-256 of the data.
            #[cfg_attr(feature = "clap", arg(skip))]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub data_sha256: Option<String>,
            $(
                $(#[doc = $doc])+
                #[cfg_attr(feature = "clap", arg($($arg)*))]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$ty>,
            )+
        }

        impl $name {
            /// All keys that a file may have.
            pub(crate) fn keys() -> Vec<String> {
                ["version", "model", "data_sha256", $(stringify!($field)),+].map(|key| key.replace('_', "-")).to_vec()
            }

            /// These choices, and the other's where there are none.
            pub fn or(self, other: $name) -> $name {
                $name {
                    version: self.version.or(other.version),
                    model: self.model.or(other.model),
                    data_sha256: self.data_sha256.or(other.data_sha256),
                    $($field: self.$field.or(other.$field),)+
                }
            }

            /// The choices that were not made before.
            pub fn added_since(self, before: &$name) -> $name {
                $name {
                    version: None,
                    model: None,
                    data_sha256: None,
                    $($field: self.$field.filter(|_| before.$field.is_none()),)+
                }
            }
        }
    };
}

pub(crate) use config;

config! {
    /// Everything that determines a run. A field that is `None` was not chosen.
    Config {
        /// Read the data from a CSV file with a header, or images from an IDX file, gzipped or not (bnn) [default: generated or
        /// embedded data]
        #[arg(long, value_name = "FILE", help_heading = "Data")]
        data: PathBuf,
        /// The column to explain [default: the last]
        #[arg(long, value_name = "COL", help_heading = "Data")]
        target: String,
        /// Columns to leave out (logistic, bnn) [default: id, of the embedded data]
        #[arg(long, value_name = "COL,...", value_delimiter = ',', help_heading = "Data")]
        drop: Vec<String>,
        /// A CSV file to test on, standardised with the training moments (logistic, bnn)
        #[arg(long, value_name = "FILE", help_heading = "Data")]
        test: PathBuf,
        /// The fraction of rows to test on; 0 trains on everything (logistic, bnn) [default: 0.2]
        #[arg(long, value_name = "F", help_heading = "Data")]
        test_fraction: f64,
        /// The seed of that split, equal to scikit-learn's (logistic, bnn) [default: 0]
        #[arg(long, value_name = "S", help_heading = "Data")]
        split_seed: u32,
        /// Take features as they are (logistic, bnn)
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", help_heading = "Data")]
        no_standardize: bool,
        /// V of the prior N(theta 1, V I) of the weights (logistic) [default: 5]
        #[arg(long, value_name = "V", allow_negative_numbers = true, help_heading = "Data")]
        prior_variance: f64,
        /// Add an intercept with its own prior N(0, V), not tied to theta (logistic)
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", help_heading = "Data")]
        intercept: bool,
        /// The labels of --data, where those are images in the IDX format (bnn)
        #[arg(long, value_name = "FILE", help_heading = "Data")]
        labels: PathBuf,
        /// The labels to tell apart, for images (bnn) [default: 4,9]
        #[arg(long, value_name = "L,...", value_delimiter = ',', help_heading = "Data")]
        classes: Vec<u8>,
        /// How many of these images to draw, by --data-seed; 0 for all (bnn) [default: 1000]
        #[arg(long, value_name = "M", help_heading = "Data")]
        subsample: usize,
        /// The number of hidden units (bnn) [default: 40]
        #[arg(long, value_name = "H", help_heading = "Data")]
        hidden: usize,
        /// How products with the features are computed: auto, dense, sparse or full; all agree up to rounding, and --batch
        /// always computes densely (bnn) [default: auto]
        #[arg(long, value_name = "WAY", help_heading = "Data")]
        products: Products,
        /// The number of generated observations D_x (hierarchical) [default: 100]
        #[arg(long, value_name = "D", help_heading = "Data")]
        dim: usize,
        /// The theta that data are generated with (hierarchical) [default: 1]
        #[arg(long, value_name = "T", allow_hyphen_values = true, help_heading = "Data")]
        true_theta: f64,
        /// The seed that data are generated or drawn with (hierarchical, bnn) [default: 0]
        #[arg(long, value_name = "S", help_heading = "Data")]
        data_seed: u64,
        /// pgd, pqn, pmgd, soul, em, mean-field, marginal-mh or joint-mh [default: pgd]
        #[arg(long, value_name = "NAME", help_heading = "Algorithm")]
        algorithm: &'static Algorithm,
        /// The number of particles N [default: by model]
        #[arg(long, value_name = "N", help_heading = "Algorithm")]
        particles: usize,
        /// The number of steps K [default: by model]
        #[arg(long, value_name = "K", help_heading = "Algorithm")]
        steps: u64,
        /// Steps left out of the averages [default: K/2]
        #[arg(long, value_name = "B", help_heading = "Algorithm")]
        burn_in: u64,
        /// The step size h, or auto: at most the model's default and half of 1 over the largest curvature [default: auto]
        #[arg(long, value_name = "H", allow_hyphen_values = true, help_heading = "Algorithm")]
        step_size: StepSize,
        /// Let the step size decay as H (1 + k/k0)^-p
        #[arg(long, value_name = "p,k0", help_heading = "Algorithm")]
        step_decay: StepDecay,
        /// Let there be N particles from step k on; new ones copy old ones chosen by the seed
        #[arg(long, value_name = "k:N,...", help_heading = "Algorithm")]
        grow: Growth,
        /// What multiplies the theta-gradient: none, diagonal, adagrad, rmsprop or adam [default: by model]
        #[arg(long, value_name = "NAME", help_heading = "Algorithm")]
        preconditioner: Preconditioner,
        /// Accept or reject each particle's move (MALA; pgd, pqn, pmgd)
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", help_heading = "Algorithm")]
        adjust: bool,
        /// Unadjusted steps before any accept-reject begins [default: half the burn-in]
        #[arg(long, value_name = "A", help_heading = "Algorithm")]
        adjust_after: u64,
        /// The theta-update of joint-mh: pgd or pqn [default: pgd]
        #[arg(long, value_name = "NAME", help_heading = "Algorithm")]
        joint_update: JointUpdate,
        /// Make K steps with a single particle first, and start from where it ends
        #[arg(long, value_name = "[ALG:]1xK", help_heading = "Algorithm")]
        warm_start: WarmStart,
        /// Take gradients over mini-batches of B data terms, rescaled by M/B
        #[arg(long, value_name = "B", help_heading = "Algorithm")]
        batch: usize,
        /// The initial value of theta [default: 0]
        #[arg(long, value_name = "X", allow_hyphen_values = true, help_heading = "Algorithm")]
        init_theta: f64,
        /// The initial value of all particles, or prior [default: by model]
        #[arg(long, value_name = "X|prior", allow_hyphen_values = true, help_heading = "Algorithm")]
        init_particles: InitParticles,
        /// The seed of all randomness [default: 0]
        #[arg(long, value_name = "S", help_heading = "Algorithm")]
        seed: u64,
        /// The precision of particles, f32 or f64 [default: by model]
        #[arg(long, value_name = "P", help_heading = "Algorithm")]
        precision: Precision,
        /// Steps between rows of trace.csv [default: 1]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        trace_every: u64,
        /// Steps between rows of trace.csv that have test metrics of the cloud [default: none]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        metrics_every: u64,
        /// Keep clouds only from steps divisible by n; 0 keeps none [default: 1, thinned to 10,000 particles]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        keep_clouds: u64,
        /// Steps between checkpoints [default: every ten seconds or so]
        #[arg(long, value_name = "n", help_heading = "Recording")]
        checkpoint_every: u64,
    }
}

/// A step size as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrWord", into = "NumberOrWord")]
pub enum StepSize {
    /// As chosen.
    Value(f64),
    /// From the model and its curvature.
    Auto,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrWord {
    Number(f64),
    Word(String),
}

impl FromStr for StepSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(h) => Ok(StepSize::Value(h)),
            Err(_) if text == "auto" => Ok(StepSize::Auto),
            Err(_) => Err(format!("'{text}' is neither a number nor auto; write for example 0.01")),
        }
    }
}

impl TryFrom<NumberOrWord> for StepSize {
    type Error = String;
    fn try_from(raw: NumberOrWord) -> Result<Self, String> {
        match raw {
            NumberOrWord::Number(h) => Ok(StepSize::Value(h)),
            NumberOrWord::Word(word) => word.parse(),
        }
    }
}

impl From<StepSize> for NumberOrWord {
    fn from(step: StepSize) -> Self {
        match step {
            StepSize::Value(h) => NumberOrWord::Number(h),
            StepSize::Auto => NumberOrWord::Word("auto".into()),
        }
    }
}

/// The precision of particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single.
    F32,
    /// Double.
    F64,
}

impl FromStr for Precision {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "f32" => Ok(Precision::F32),
            "f64" => Ok(Precision::F64),
            _ => Err(unknown("precision", word, &["f32", "f64"])),
        }
    }
}

impl Config {
    /// Reads a config file.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let bytes = std::fs::read(path)
            .map_err(|e| format!("cannot read the config {}: {e}; check the path", path.display()))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{} is not a text file; give the config.toml of a run", path.display()))?;
        let mut config = Config::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))?;
        if let (Some(data), Some(dir)) = (&mut config.data, path.parent()) {
            find_beside(data, dir);
        }
        Ok(config)
    }

    /// Parses the text of a config file.
    pub fn parse(text: &str) -> Result<Config, Error> {
        // Not a TOML table, which cannot hold whole numbers beyond 2^63.
        let table: serde_json::Map<String, serde_json::Value> = toml::from_str(text).map_err(|e| {
            let before = e.span().and_then(|span| text.as_bytes().get(..span.start)).unwrap_or_default();
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            format!("line {line}: {}; correct it or write a new one with `motes fit`", one_line(e.message()))
        })?;
        match table.get("version").and_then(|v| v.as_i64()) {
            Some(v) if v == i64::from(VERSION) => {}
            Some(v) if v > i64::from(VERSION) => {
                return Err(format!(
                    "it has format version {v} and this motes reads version {VERSION}; use a newer motes"
                )
                .into());
            }
            _ => return Err(format!("it lacks a valid version; begin it with version = {VERSION}").into()),
        }
        refuse_unknown(&table, &Config::keys())?;
        toml::from_str(text).map_err(|e| wrong_setting::<Config>(&table, e.message()))
    }

    /// The choices in a table of settings, named as in a config file.
    pub fn from_table(table: serde_json::Map<String, serde_json::Value>) -> Result<Config, Error> {
        refuse_unknown(&table, &Config::keys())?;
        serde_json::from_value(table.clone().into())
            .map_err(|e| wrong_setting::<Config>(&table, &e.to_string()))
    }

    /// The text of a config file.
    pub fn to_toml(&self) -> Result<String, Error> {
        refuse_other_names([&self.data, &self.test, &self.labels].into_iter().flatten())?;
        let body = toml::to_string(self).expect("a config is plain data");
        Ok(format!("# Replay with: motes fit --config <this file>\n{body}"))
    }

    /// Sets aside what this config says about its data or algorithm where the flags choose others.
    pub fn make_way_for(&mut self, flags: &Config) {
        let toy = self.model.as_deref() == Some("hierarchical");
        let generated =
            toy && (flags.dim.is_some() || flags.true_theta.is_some() || flags.data_seed.is_some());
        if flags.data.is_some() && !generated {
            (self.dim, self.true_theta, self.data_seed) = (None, None, None);
        } else if generated && flags.data.is_none() {
            (self.data, self.target) = (None, None);
        }
        let split = flags.test_fraction.is_some() || flags.split_seed.is_some();
        if flags.test.is_some() {
            (self.test_fraction, self.split_seed) = (None, None);
        } else if split {
            self.test = None;
        }
        if flags.data.is_some() || flags.labels.is_some() || flags.test.is_some() || split || generated {
            self.data_sha256 = None;
        }
        // What was written out for another algorithm need not suit this one.
        if flags.algorithm.is_some() && flags.algorithm != self.algorithm {
            (self.preconditioner, self.adjust, self.adjust_after) = (None, None, None);
            (self.joint_update, self.init_theta) = (None, None);
            if flags.algorithm.is_some_and(|a| !a.takes("particles", &Settings::default())) {
                (self.particles, self.step_size, self.step_decay) = (None, None, None);
                (self.init_particles, self.grow, self.warm_start, self.batch) = (None, None, None, None);
            }
        }
    }

    /// Leaves out what an algorithm has no use for, so that one set of choices serves several.
    pub fn leave_to(&mut self, algorithm: &'static Algorithm) {
        let joint_update = self.joint_update.unwrap_or(JointUpdate::Pgd);
        let named = Settings { algorithm, joint_update, ..Settings::default() };
        if !named.takes("preconditioner") {
            self.preconditioner = None;
        }
        if !named.takes("init-theta") {
            self.init_theta = None;
        }
        if !named.takes("particles") {
            (self.particles, self.step_size, self.step_decay) = (None, None, None);
            (self.init_particles, self.grow, self.warm_start) = (None, None, None);
        }
    }

    /// The settings that the choices amount to; `h` resolves auto once the model is known.
    pub fn settings(&self, defaults: &Defaults) -> Result<Settings, Error> {
        let algorithm = self.algorithm.unwrap_or(&PGD);
        let joint_update = self.joint_update.unwrap_or(JointUpdate::Pgd);
        let named = Settings { algorithm, joint_update, ..Settings::default() };
        let takes = |setting: &str| named.takes(setting);
        let accepts = named.accepts();
        if !takes("particles") {
            let refused = [
                ("--particles", self.particles.is_some()),
                ("--step-size", self.step_size.is_some()),
                ("--step-decay", self.step_decay.is_some()),
                ("--adjust", self.adjust == Some(true)),
                ("--preconditioner", self.preconditioner.is_some_and(|p| p != Preconditioner::None)),
                ("--init-particles", self.init_particles.is_some()),
            ];
            if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
                return Err(format!(
                    "em is exact and has no particles, so {flag} has no meaning; leave it out"
                )
                .into());
            }
        }
        let steps = self.steps.unwrap_or(defaults.steps);
        let burn_in = self.burn_in.unwrap_or(steps / 2);
        let settings = Settings {
            algorithm,
            particles: self.particles.unwrap_or(defaults.particles),
            steps,
            burn_in,
            step_size: match self.step_size {
                Some(StepSize::Value(h)) => h,
                _ => defaults.step_size,
            },
            step_decay: self.step_decay,
            grow: self.grow.clone().unwrap_or_default(),
            preconditioner: self.preconditioner.unwrap_or(match takes("preconditioner") && !accepts {
                true => defaults.preconditioner,
                false => Preconditioner::None,
            }),
            adjust: self.adjust.unwrap_or(false),
            adjust_after: self.adjust_after.unwrap_or(burn_in / 2),
            joint_update,
            variational_adam: defaults.variational_adam,
            warm_start: self.warm_start,
            theta_rate: None,
            init_theta: self.init_theta.map_or(InitTheta::Model, InitTheta::Value),
            init_particles: self.init_particles.unwrap_or(match takes("grow") {
                true => defaults.init_particles,
                false => InitParticles::Value(0.0),
            }),
            seed: self.seed.unwrap_or(0),
            batch: self.batch,
            metrics_every: self.metrics_every.unwrap_or(0),
            keep_clouds: self.keep_clouds.unwrap_or(1),
        };
        if settings.theta_is_computed() && self.init_theta.is_some() {
            return Err(format!(
                "{algorithm} computes theta from the particles; leave --init-theta out and use --init-particles"
            ).into());
        }
        for (flag, value) in
            [("--trace-every", self.trace_every), ("--checkpoint-every", self.checkpoint_every)]
        {
            if value == Some(0) {
                return Err(format!("{flag} 0 is not a number of steps; use 1 or more").into());
            }
        }
        Ok(settings)
    }

    /// The choices with every default written out, so that a replay does not depend on them.
    pub fn resolved(&self, settings: &Settings, precision: Precision) -> Config {
        let cloud = settings.has_cloud();
        let mut full = self.clone();
        full.version = Some(VERSION);
        full.algorithm = Some(settings.algorithm);
        full.steps = Some(settings.steps);
        full.burn_in = Some(settings.burn_in);
        full.seed = Some(settings.seed);
        full.precision = Some(precision);
        full.trace_every.get_or_insert(1);
        if !settings.theta_is_computed() {
            if let InitTheta::Value(value) = settings.init_theta {
                full.init_theta = Some(value);
            }
        }
        if cloud {
            full.particles = Some(settings.particles);
            full.step_size = Some(StepSize::Value(settings.step_size));
            full.preconditioner = Some(settings.preconditioner);
            full.adjust = Some(settings.adjust);
            full.init_particles = Some(settings.init_particles);
            full.keep_clouds = Some(settings.keep_clouds);
        }
        if settings.accepts() {
            full.adjust_after = Some(settings.adjust_after);
        }
        if settings.takes("joint-update") {
            full.joint_update = Some(settings.joint_update);
        }
        full
    }

    /// How densely the run is recorded.
    pub fn recording(&self) -> Recording {
        Recording { trace_every: self.trace_every.unwrap_or(1), checkpoint_every: self.checkpoint_every }
    }
}

/// A config is text, and so are the names of files in it.
pub fn refuse_other_names<'a>(mut paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), Error> {
    match paths.find(|p| p.to_str().is_none()) {
        None => Ok(()),
        Some(path) => Err(format!(
            "the name of {} is not UTF-8 and cannot be kept in config.toml; rename it",
            path.display()
        )
        .into()),
    }
}

/// Refuses a setting that is none of those known, with a guess at what was meant.
pub(crate) fn refuse_unknown(
    table: &serde_json::Map<String, serde_json::Value>,
    known: &[String],
) -> Result<(), Error> {
    match table.keys().find(|k| !known.contains(k)) {
        None => Ok(()),
        Some(key) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let guess = motes::did_you_mean(key, known)
                .map(|k| format!("did you mean {k}?"))
                .unwrap_or("remove it".into());
            Err(format!("there is no setting '{key}'; {guess}").into())
        }
    }
}

/// Data that are kept in the run directory move with it.
pub fn find_beside(data: &mut PathBuf, dir: &Path) {
    if let Some(beside) = data.file_name().map(|name| dir.join(name))
        && !data.exists()
        && beside.exists()
    {
        *data = std::path::absolute(&beside).unwrap_or(beside);
    }
}

/// Blames the first setting of a config that cannot be read by itself.
pub(crate) fn wrong_setting<C: serde::de::DeserializeOwned>(
    table: &serde_json::Map<String, serde_json::Value>,
    problem: &str,
) -> Error {
    let wrong = |(key, value): &(&String, &serde_json::Value)| {
        serde_json::from_value::<C>(serde_json::json!({ key.as_str(): value })).is_err()
    };
    let key = table.iter().find(wrong).map_or("a setting", |(key, _)| key).to_string();
    Error::Setting { key, problem: one_line(problem) }
}

/// What a model suggests where nothing was chosen.
pub struct Defaults {
    /// N.
    pub particles: usize,
    /// K.
    pub steps: u64,
    /// h, where auto finds no smaller one.
    pub step_size: f64,
    /// Of the particles.
    pub precision: Precision,
    /// For algorithms whose theta takes gradient steps.
    pub preconditioner: Preconditioner,
    /// Where particles begin, for algorithms that have any.
    pub init_particles: InitParticles,
    /// Whether mean-field moves its Gaussian by Adam.
    pub variational_adam: bool,
}

/// A message of several lines as one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
