//! Whether our numbers agree with the paper's within Monte Carlo error.

use serde::{Deserialize, Serialize};

/// Standard errors within which two means agree.
const ERRORS: f64 = 4.0;
/// With fewer replicates our own scatter is known too poorly to be believed when it is small.
const FEW: usize = 10;

/// Mean and standard deviation over replicates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    pub mean: f64,
    pub sd: f64,
    pub n: usize,
    /// Whether a replicate scatters as one of the paper's does, because it is the same estimate from as long a run.
    pub alike: bool,
}

impl Stats {
    /// `None` without values. The standard deviation has the divisor n, as NumPy's and so the authors'.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len();
        if n == 0 || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let sd = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64).sqrt();
        Some(Stats { mean, sd, n, alike: true })
    }

    pub fn scaled(self, factor: f64) -> Self {
        Stats { mean: self.mean * factor, sd: self.sd * factor.abs(), ..self }
    }
}

/// A number as the paper prints it: mean ± sd over n replicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    pub text: (&'static str, &'static str),
    pub n: usize,
}

impl Printed {
    pub const fn new(mean: &'static str, sd: &'static str, n: usize) -> Self {
        Printed { text: (mean, sd), n }
    }

    pub fn stats(&self) -> Stats {
        let number = |text: &str| text.parse().expect("the paper's numbers are numbers");
        Stats { mean: number(self.text.0), sd: number(self.text.1), n: self.n, alike: true }
    }

    /// How many decimals are printed.
    pub fn decimals(&self) -> usize {
        self.text.0.split_once('.').map_or(0, |(_, d)| d.len())
    }

    pub fn shown(&self) -> String {
        format!("{} ± {}", self.text.0.replace('-', "−"), self.text.1)
    }
}

/// What is made of a difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    Agrees,
    /// How many standard errors lie between the two, and the reason as far as it is known.
    Differs {
        errors: f64,
        why: String,
    },
    /// One replicate has no scatter.
    TooFew,
    /// The paper's number is of another scale.
    AnotherScale,
}

impl Verdict {
    /// Agrees if |difference| <= 4 standard errors of both means together + half a unit of the paper's last digit.
    pub fn of(ours: Stats, paper: Printed, why: &str) -> Self {
        if ours.n < 2 {
            return Verdict::TooFew;
        }
        let theirs = paper.stats();
        let scatter = if ours.n < FEW && ours.alike { ours.sd.max(theirs.sd) } else { ours.sd };
        // The divisor n makes the scatter too small by (n - 1) / n on average.
        let error = |sd: f64, n: usize| sd * sd / (n as f64 - 1.0);
        let error = (error(scatter, ours.n) + error(theirs.sd, theirs.n)).sqrt();
        let rounding = 0.5 * 10f64.powi(-(paper.decimals() as i32));
        let difference = (ours.mean - theirs.mean).abs();
        if difference <= ERRORS * error + rounding {
            return Verdict::Agrees;
        }
        Verdict::Differs { errors: (difference - rounding) / error, why: why.into() }
    }

    pub fn words(&self) -> String {
        match self {
            Verdict::Agrees => "agrees".into(),
            Verdict::Differs { why, .. } => format!("differs: {why}"),
            Verdict::TooFew => "one replicate, no verdict".into(),
            Verdict::AnotherScale => "another scale".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Printed = Printed::new("3.58", "0.78", 100);

    fn ours(mean: f64, sd: f64, n: usize) -> Stats {
        Stats { mean, sd, n, alike: true }
    }

    #[test]
    fn the_paper_prints_its_own_precision() {
        assert_eq!(PAPER.stats(), ours(3.58, 0.78, 100));
        assert_eq!((PAPER.decimals(), Printed::new("106", "36.7", 100).decimals()), (2, 0));
        assert_eq!(Printed::new("-9.73", "1.04", 100).shown(), "−9.73 ± 1.04");
    }

    #[test]
    fn means_agree_within_four_standard_errors_and_the_rounding() {
        // One standard error of the two: sqrt(0.78^2 / 99 + 0.5^2 / 99) = 0.0931.
        let at = |errors: f64| ours(3.58 + 0.005 + errors * 0.09311, 0.5, 100);
        assert_eq!(Verdict::of(at(3.95), PAPER, "x"), Verdict::Agrees);
        let Verdict::Differs { errors, why } = Verdict::of(at(4.05), PAPER, "x") else { panic!() };
        assert!((errors - 4.05).abs() < 0.01 && why == "x");
        assert!(matches!(Verdict::of(ours(3.58 - 0.5, 0.5, 100), PAPER, "x"), Verdict::Differs { .. }));
    }

    #[test]
    fn few_replicates_borrow_the_papers_scatter() {
        // Three equal values have no scatter, but that is chance.
        assert_eq!(Verdict::of(ours(4.5, 0.0, 3), PAPER, ""), Verdict::Agrees);
        assert!(matches!(Verdict::of(ours(4.5, 0.0, 30), PAPER, ""), Verdict::Differs { .. }));
        assert_eq!(Verdict::of(ours(3.58, 0.0, 1), PAPER, ""), Verdict::TooFew);
        // A long run scatters less than the paper's windows, and that is no chance.
        let long = Stats { alike: false, ..ours(4.5, 0.0, 3) };
        assert!(matches!(Verdict::of(long, PAPER, ""), Verdict::Differs { .. }));
    }

    #[test]
    fn statistics_are_numpys() {
        let s = Stats::of([1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((s.mean - 2.5).abs() < 1e-15 && (s.sd - 1.25f64.sqrt()).abs() < 1e-15 && s.n == 4);
        assert_eq!(Stats::of([]), None);
        assert_eq!(Stats::of([f64::NAN]), None);
    }
}
