//! The prior of the weights: what of it is learnt, and what theta then is.

use std::str::FromStr;

use motes::settings::unknown;
use serde::{Deserialize, Serialize};

use crate::data::DataError;

/// What of the prior N(m 1, V I) is learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learn {
    /// theta = m, as in the paper.
    #[default]
    Mean,
    /// theta = log V, and m is 0: a ridge that chooses itself.
    Variance,
    /// theta = (m, log V).
    Both,
}

impl FromStr for Learn {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "mean" => Ok(Learn::Mean),
            "variance" => Ok(Learn::Variance),
            "both" => Ok(Learn::Both),
            _ => Err(unknown("part of the prior", word, &["mean", "variance", "both"])),
        }
    }
}

crate::settings!(Learn: Text of ["mean", "variance", "both"]);

/// What can be chosen besides the data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// V, the prior variance of each weight, where it is not learnt.
    pub prior_variance: f64,
    /// Whether a last coordinate b with feature 1 is added.
    pub intercept: bool,
    /// W of its prior N(0, W), which is its own.
    pub intercept_variance: f64,
    /// What of the prior is learnt.
    pub learn: Learn,
}

/// The prior at some theta.
#[derive(Clone, Copy)]
pub(crate) struct Prior {
    pub mean: f64,
    pub variance: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { prior_variance: 5.0, intercept: false, intercept_variance: 100.0, learn: Learn::Mean }
    }
}

impl Options {
    /// Refuses a prior that is none.
    pub(crate) fn check(self) -> Result<(), DataError> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let v = self.prior_variance;
        if positive(v) && positive(self.intercept_variance) {
            return Ok(());
        }
        Err(DataError::new(format!("`prior-variance={v}` is not a positive number; use for example 5")))
    }

    /// The prior of the weights at theta.
    pub(crate) fn at(&self, theta: &[f64]) -> Prior {
        match (self.learn, theta) {
            (Learn::Variance, [log, ..]) => Prior { mean: 0.0, variance: libm::exp(*log) },
            (Learn::Both, [mean, log, ..]) => Prior { mean: *mean, variance: libm::exp(*log) },
            (_, theta) => {
                Prior { mean: theta.first().copied().unwrap_or(0.0), variance: self.prior_variance }
            }
        }
    }
}

/// Sums over weights of m - x and (m - x)^2.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moments {
    excess: f64,
    squares: f64,
}

impl Moments {
    /// Takes m - x of one more weight into account.
    pub fn add(&mut self, away: f64) {
        self.excess -= away;
        self.squares += away * away;
    }
}

impl Learn {
    /// The names of theta's components.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Learn::Mean => &["theta"],
            Learn::Variance => &["log_variance"],
            Learn::Both => &["mean", "log_variance"],
        }
    }

    /// Whether V is learnt.
    pub(crate) fn variance(self) -> bool {
        self != Learn::Mean
    }

    /// The theta-gradient for so many weights with these moments.
    pub(crate) fn score(self, moments: Moments, count: f64, precision: f64, out: &mut [f64]) {
        let of_log = 0.5 * (precision * moments.squares - count);
        match (self, out) {
            (Learn::Mean, [m, ..]) => *m = precision * moments.excess,
            (Learn::Variance, [v, ..]) => *v = of_log,
            (Learn::Both, [m, v, ..]) => (*m, *v) = (precision * moments.excess, of_log),
            _ => {}
        }
    }

    /// The theta-Hessian for so many weights with these moments.
    pub(crate) fn hessian(self, moments: Moments, count: f64, variance: f64, out: &mut [f64]) {
        let of_log = -moments.squares / (2.0 * variance);
        match (self, out) {
            (Learn::Mean, [m, ..]) => *m = -count / variance,
            (Learn::Variance, [v, ..]) => *v = of_log,
            (Learn::Both, [m, mv, vm, v, ..]) => {
                (*m, *v) = (-count / variance, of_log);
                (*mv, *vm) = (-moments.excess / variance, -moments.excess / variance);
            }
            _ => {}
        }
    }
}
