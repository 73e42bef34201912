//! Named algorithms: each is a composition of a theta-rule, a particle move and their order, in a file of its own and a
//! line of [`ALGORITHMS`].

mod abp;
mod auto;
mod composition;
mod em;
mod ipla;
mod joint_mh;
mod kiplmc;
mod marginal_mh;
mod mean_field;
mod pgd;
mod pmgd;
mod pqn;
mod short_run;
mod soul;
mod vae;

pub use abp::ABP;
pub use auto::AUTO;
pub(crate) use composition::{
    Collect, PRECONDITIONER, THETA_VELOCITY, VARIATIONAL, VARIATIONAL_ADAM, VELOCITY,
};
pub use composition::{Composition, Order};
pub use em::EM;
pub use ipla::IPLA;
pub use joint_mh::JOINT_MH;
pub use kiplmc::KIPLMC;
pub use marginal_mh::MARGINAL_MH;
pub use mean_field::MEAN_FIELD;
pub use pgd::PGD;
pub use pmgd::PMGD;
pub use pqn::PQN;
pub use short_run::SHORT_RUN;
pub use soul::SOUL;
pub use vae::VAE;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::settings::{Settings, unknown};

/// All algorithms, in the order in which people are told of them.
pub static ALGORITHMS: &[&Algorithm] = &[
    &AUTO,
    &PGD,
    &IPLA,
    &KIPLMC,
    &PQN,
    &PMGD,
    &SOUL,
    &EM,
    &MEAN_FIELD,
    &MARGINAL_MH,
    &JOINT_MH,
    &ABP,
    &SHORT_RUN,
    &VAE,
];

/// An algorithm by name: what it is, and what it is made of.
pub struct Algorithm {
    /// The word that names it everywhere.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What it is made of. Settings that leave this and the [`Composition`]'s own properties as they are mean nothing to the
    /// algorithm, and are refused.
    pub compose: fn(&Settings) -> Composition,
}

impl Algorithm {
    /// The names of all algorithms.
    pub fn names() -> Vec<&'static str> {
        ALGORITHMS.iter().map(|a| a.name).collect()
    }

    /// Whether it finds its own length.
    pub fn ends_itself(&self) -> bool {
        (self.compose)(&Settings::default()).ends_itself()
    }

    /// Whether a setting, named as in files, means anything to the algorithm with these settings.
    pub fn takes(&'static self, setting: &str, settings: &Settings) -> bool {
        Settings { algorithm: self, ..settings.clone() }.takes(setting)
    }

    /// Whether it has an accept-reject step with these settings.
    pub fn accepts(&'static self, settings: &Settings) -> bool {
        (self.compose)(settings).accepts()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for &'static Algorithm {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = ALGORITHMS.iter().find(|a| a.name == word);
        found.copied().ok_or_else(|| unknown("algorithm", word, &Algorithm::names()))
    }
}

impl Serialize for Algorithm {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for &'static Algorithm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}
