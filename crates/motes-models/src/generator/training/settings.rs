//! How a generator is trained, and what can be wrong with that.

use std::fmt;
use std::str::FromStr;

use motes::settings::unknown;
use serde::{Deserialize, Serialize};

/// The four algorithms of Sec. gen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Particle gradient descent.
    Pgd,
    /// Alternating back-propagation: a persistent chain for each image.
    Abp,
    /// Short-run MCMC: a chain from the prior at each step.
    ShortRun,
    /// A variational autoencoder.
    Vae,
}

const ALGORITHMS: [(&str, Algorithm); 4] = [
    ("pgd", Algorithm::Pgd),
    ("abp", Algorithm::Abp),
    ("short-run", Algorithm::ShortRun),
    ("vae", Algorithm::Vae),
];

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALGORITHMS.iter().find(|(_, a)| a == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for Algorithm {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = ALGORITHMS.iter().find(|(name, _)| *name == word);
        found
            .map(|(_, a)| *a)
            .ok_or_else(|| unknown("algorithm of the generator", word, &ALGORITHMS.map(|(name, _)| name)))
    }
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

/// How theta follows its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThetaRule {
    /// RMSProp, as in the paper.
    RmsProp,
    /// Plain steps, for which closed forms are known.
    Plain,
}

/// Everything that determines a training besides its data and initial weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// N; 1 for all but PGD.
    pub particles: usize,
    /// The transitions n of ABP's and short-run MCMC's chains.
    pub chain: usize,
    /// Images in a batch.
    pub batch: usize,
    /// h, the step size of the particles.
    pub step_size: f64,
    /// The learning rate of theta: h lambda M in the paper's terms.
    pub theta_rate: f64,
    /// The learning rate of a VAE's inference network.
    pub encoder_rate: f64,
    /// The standard deviation of the observation noise.
    pub sigma: f64,
    /// How PGD normalises.
    pub batchnorm: BatchNorm,
    /// How theta follows its gradient.
    pub theta_rule: ThetaRule,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Default for Settings {
    /// The authors' notebook.
    fn default() -> Self {
        Settings {
            algorithm: Algorithm::Pgd,
            particles: 10,
            chain: 10,
            batch: 128,
            step_size: 1e-4,
            theta_rate: 1e-3,
            encoder_rate: 1e-3,
            sigma: 0.01,
            batchnorm: BatchNorm::TwoPass,
            theta_rule: ThetaRule::RmsProp,
            seed: 0,
        }
    }
}

impl Settings {
    /// The number of steps that visit each of M images once.
    pub fn steps_per_epoch(&self, images: usize) -> u64 {
        images.div_ceil(self.batch.clamp(1, images.max(1))) as u64
    }

    /// Refuses what cannot be trained with. Networks that normalise need two images in each batch.
    pub fn validate(&self, images: usize, normalises: bool) -> Result<(), TrainingError> {
        let refuse = |sentence: String| Err(TrainingError::Settings(sentence));
        if images == 0 {
            return refuse("there are no images to train on; give at least one".into());
        }
        if u32::try_from(images).is_err() {
            return refuse(format!("{images} images are more than 2^32; use fewer with `images`"));
        }
        for (name, value, example) in [
            ("step-size", self.step_size, 1e-4),
            ("theta-rate", self.theta_rate, 1e-3),
            ("sigma", self.sigma, 0.01),
        ] {
            let single = value as f32;
            if !(single > 0.0 && single.is_finite()) {
                return refuse(format!(
                    "`{name}={value}` is not a positive number of single precision; use for example {example}"
                ));
            }
        }
        // Outside of this, losses and errors leave the range of numbers.
        if !(1e-9..=1e9).contains(&self.sigma) {
            return refuse(format!("`sigma={}` is not within 1e-9 to 1e9; use for example 0.01", self.sigma));
        }
        if normalises && images == 1 {
            return refuse("a single image has no variance to normalise by; train on two or more".into());
        }
        for (name, value) in [("particles", self.particles), ("chain", self.chain), ("batch", self.batch)] {
            if value == 0 {
                return refuse(format!("`{name}=0` leaves nothing to do; use 1 or more"));
            }
        }
        if self.algorithm != Algorithm::Pgd && self.particles != 1 {
            return refuse(format!(
                "{} keeps one particle for each image, not {}; leave `particles` out or use `algorithm=pgd`",
                self.algorithm, self.particles
            ));
        }
        if self.algorithm != Algorithm::Pgd && self.batchnorm == BatchNorm::OnePass {
            return refuse(format!(
                "`batchnorm=one-pass` is a variant of pgd, which {} has no use for; leave it out",
                self.algorithm
            ));
        }
        let batch = self.batch.min(images);
        if normalises && self.particles == 1 && (images % batch == 1 || batch == 1) {
            return refuse(format!(
                "with `batch={}` the last batch of {images} images holds a single one, over which batch normalisation has no variance; choose another `batch`",
                self.batch
            ));
        }
        Ok(())
    }

    /// What is too large when the particles run away.
    pub(super) fn rate_of_particles(&self) -> Rate {
        match self.algorithm {
            Algorithm::Vae => self.rate_of_theta(),
            _ => Rate { setting: "step-size", value: self.step_size },
        }
    }

    /// What is too large when the weights run away.
    pub(super) fn rate_of_theta(&self) -> Rate {
        Rate { setting: "theta-rate", value: self.theta_rate }
    }
}

/// A step size or a learning rate that was too large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// The setting that chooses it.
    pub setting: &'static str,
    /// What it was.
    pub value: f64,
}

impl Rate {
    /// One that is worth trying.
    pub fn smaller(&self) -> f64 {
        self.value / 10.0
    }
}

/// Why a training cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// A setting that cannot be used; the sentence says why and what to do instead.
    #[error("{0}")]
    Settings(String),
    /// The iterates left every reasonable range.
    #[error(
        "the training diverged at step {step} with `{}={:e}`: {what} = {value:.3e}; try `{}={:e}` (earlier checkpoints are kept)",
        rate.setting,
        rate.value,
        rate.setting,
        rate.smaller()
    )]
    Diverged {
        /// The step that could not be completed.
        step: u64,
        /// What left the range.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What to make smaller.
        rate: Rate,
    },
    /// The flag of `Trainer::stop_when` was set.
    #[error("the training was stopped; it can go on from where it stands")]
    Stopped,
}
