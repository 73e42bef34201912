//! The values that settings take, written as words on the command line and in files alike.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::algorithms::Algorithm;
use crate::error::did_you_mean;
use crate::sentence::foreign;
use crate::{Model, Real};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All values, as they are written.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($name::$variant => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err(unknown($what, word, Self::WORDS)),
                }
            }
        }

        string_serde!($name);
    };
}

/// Lets a type that is a word on the command line be the same word in files.
macro_rules! string_serde {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(word: String) -> Result<Self, String> {
                word.parse()
            }
        }
        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    };
}

/// The sentence for a word that is not on the list.
pub fn unknown(what: &str, word: &str, words: &[&str]) -> String {
    let guess =
        did_you_mean(word, words.iter().copied()).map(|w| format!("did you mean {w}? ")).unwrap_or_default();
    format!("there is no {what} '{}'; {guess}choose one of {}", foreign(word), words.join(", "))
}

words! {
    /// What multiplies the theta-gradient.
    Preconditioner, "preconditioner",
    /// Nothing (Alg. 1).
    None = "none",
    /// One over the number of terms (eq. 16).
    Diagonal = "diagonal",
    /// One over the root of the sum of squared gradients.
    Adagrad = "adagrad",
    /// One over the root of a running mean of squared gradients.
    Rmsprop = "rmsprop",
    /// Running means of gradients and of their squares, bias-corrected.
    Adam = "adam",
}

words! {
    /// The theta-update of joint-mh.
    JointUpdate, "joint update",
    /// The gradient step of PGD.
    Pgd = "pgd",
    /// The quasi-Newton step of PQN.
    Pqn = "pqn",
}

/// h_k = H (1 + k/k0)^-p.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepDecay {
    /// The power p.
    pub power: f64,
    /// The scale k0 in steps.
    pub scale: f64,
}

impl FromStr for StepDecay {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let decay =
            text.split_once(',').and_then(|(p, k0)| Some((p.trim().parse().ok()?, k0.trim().parse().ok()?)));
        match decay {
            Some((power, scale)) if (StepDecay { power, scale }).is_sound() => Ok(StepDecay { power, scale }),
            _ => Err(format!(
                "step decay '{}' is not p,k0 with 0 <= p <= 10 and k0 > 0; write for example 0.6,100",
                foreign(text)
            )),
        }
    }
}

impl StepDecay {
    pub(super) fn is_sound(self) -> bool {
        (0.0..=10.0).contains(&self.power) && self.scale > 0.0 && self.scale.is_finite()
    }
}

impl fmt::Display for StepDecay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.power, self.scale)
    }
}

string_serde!(StepDecay);

/// From step k on there are N particles, for each pair (k, N); both rise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Growth(pub Vec<(u64, usize)>);

impl FromStr for Growth {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |item: &str| {
            let (k, n) = item.split_once(':')?;
            Some((k.trim().parse().ok()?, n.trim().parse().ok()?))
        };
        let items = text.split(',').filter(|item| !item.trim().is_empty());
        let pairs: Option<Vec<(u64, usize)>> = items.map(pair).collect();
        match pairs {
            Some(p) if Growth(p.clone()).is_sound() => Ok(Growth(p)),
            _ => Err(format!(
                "growth '{}' is not k:N,... with rising steps and rising particle numbers; write for example 100:50,200:500",
                foreign(text)
            )),
        }
    }
}

impl Growth {
    pub(super) fn is_sound(&self) -> bool {
        self.0.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1)
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<_> = self.0.iter().map(|(k, n)| format!("{k}:{n}")).collect();
        f.write_str(&items.join(","))
    }
}

string_serde!(Growth);

/// K single-particle steps of an algorithm (the run's own if none is named) before the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WarmStart {
    /// Which algorithm.
    pub algorithm: Option<&'static Algorithm>,
    /// The number of steps K.
    pub steps: u64,
}

impl FromStr for WarmStart {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (algorithm, length) = match text.split_once(':') {
            Some((a, length)) => (Some(a.parse()?), length),
            None => (None, text),
        };
        match length.strip_prefix("1x").map(str::parse) {
            Some(Ok(steps)) if steps > 0 => Ok(WarmStart { algorithm, steps }),
            _ => Err(format!(
                "warm start '{}' is not [ALGORITHM:]1xK with K > 0; write for example pmgd:1x400",
                foreign(text)
            )),
        }
    }
}

impl fmt::Display for WarmStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(a) = self.algorithm {
            write!(f, "{a}:")?;
        }
        write!(f, "1x{}", self.steps)
    }
}

string_serde!(WarmStart);

/// Where particles start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum InitParticles {
    /// Every coordinate at this value.
    Value(f64),
    /// Independent draws from the prior at the initial theta.
    Prior,
    /// Independent standard normals.
    Normal,
}

impl InitParticles {
    /// Where auto starts them: at the prior, if the model has one.
    pub fn unless_told(has_prior: bool) -> Self {
        if has_prior { InitParticles::Prior } else { InitParticles::Normal }
    }
}

impl FromStr for InitParticles {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            _ if text == "prior" => Ok(InitParticles::Prior),
            _ if text == "normal" => Ok(InitParticles::Normal),
            Ok(v) if v.is_finite() => Ok(InitParticles::Value(v)),
            _ => Err(format!(
                "'{}' is neither a finite number nor prior nor normal; write for example `init-particles=0`",
                foreign(text)
            )),
        }
    }
}

impl fmt::Display for InitParticles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InitParticles::Value(v) => crate::printable::Number(*v).fmt(f),
            InitParticles::Prior => f.write_str("prior"),
            InitParticles::Normal => f.write_str("normal"),
        }
    }
}

string_serde!(InitParticles);

/// Where theta starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InitTheta {
    /// Every component at this value.
    Value(f64),
    /// A value for each component.
    Vector(Vec<f64>),
    /// Where the model says.
    #[default]
    Model,
}

impl From<f64> for InitTheta {
    fn from(value: f64) -> Self {
        InitTheta::Value(value)
    }
}

impl InitTheta {
    /// The values that were given.
    pub fn values(&self) -> &[f64] {
        match self {
            InitTheta::Value(value) => std::slice::from_ref(value),
            InitTheta::Vector(values) => values,
            InitTheta::Model => &[],
        }
    }

    /// theta_0 of a model and its first buffers, for a run with this seed.
    pub fn of_model<F: Real>(&self, model: &dyn Model<F>, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let (mut theta, mut buffers) = (vec![0.0; model.d_theta()], vec![0.0; model.buffers()]);
        model.start(seed, &mut theta, &mut buffers);
        match self {
            InitTheta::Value(value) => theta.fill(*value),
            // Of another length it is refused before a run begins.
            InitTheta::Vector(values) if values.len() == theta.len() => theta.copy_from_slice(values),
            InitTheta::Vector(_) | InitTheta::Model => {}
        }
        (theta, buffers)
    }
}
