//! Metrics as people read them; those without an entry here are shown by their own names.

use motes::printable::Number;

use crate::report::words::significant;

/// How a metric is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// What it is called.
    pub title: String,
    /// What it is called where it is clear that it is a test's.
    pub short: String,
    /// What it is, in a clause.
    pub meaning: String,
    /// A fraction, to be shown in percent.
    percent: bool,
    /// Digits after the point; `None` for as many as the value needs.
    decimals: Option<usize>,
}

/// Metrics that models give, by their names in files.
const KNOWN: [(&str, &str, &str, &str, bool, usize); 5] = [
    ("test_error", "test error", "error", "test error", true, 2),
    ("lppd", "LPPD", "LPPD", "log pointwise predictive density", false, 4),
    (
        "baseline_error",
        "baseline error",
        "baseline",
        "the error of always naming the commonest class",
        true,
        2,
    ),
    ("brier", "Brier score", "Brier", "the mean squared error of the probabilities", false, 4),
    ("auc", "AUC", "AUC", "the area under the ROC curve", false, 4),
];

/// Metrics that stand beside the others in a run's own report, and would only widen a table of several runs.
pub const BESIDE: [&str; 3] = ["baseline_error", "brier", "auc"];

/// The names that have an entry.
pub fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.0)
}

/// How the metric of that name is shown.
pub fn shown(name: &str) -> Shown {
    match KNOWN.iter().find(|known| known.0 == name) {
        Some(&(_, title, short, meaning, percent, decimals)) => Shown {
            title: title.into(),
            short: short.into(),
            meaning: meaning.into(),
            percent,
            decimals: Some(decimals),
        },
        None => {
            let title = name.replace('_', " ");
            Shown { short: title.clone(), meaning: title.clone(), title, percent: false, decimals: None }
        }
    }
}

impl Shown {
    /// The head of its column in a table of plain text.
    pub fn head(&self) -> String {
        if self.percent { format!("{} %", self.short) } else { self.short.clone() }
    }

    /// A value without its unit.
    pub fn number(&self, value: f64) -> String {
        let value = if self.percent { 100.0 * value } else { value };
        match self.decimals {
            Some(decimals) => Number(value).with_decimals(decimals),
            None => significant(value, 5).replace('\u{2212}', "-"),
        }
    }

    /// A value with its unit.
    pub fn text(&self, value: f64) -> String {
        let number = self.number(value);
        if self.percent { format!("{number} %") } else { number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_metric_can_be_shown() {
        let error = shown("test_error");
        assert_eq!((error.head().as_str(), error.text(0.03126).as_str()), ("error %", "3.13 %"));
        assert_eq!(shown("lppd").text(-0.094), "-0.0940");
        let own = shown("mean_deviance");
        assert_eq!((own.title.as_str(), own.text(-1234.5678).as_str()), ("mean deviance", "-1234.6"));
        assert_eq!(own.number(1.5e-9), "1.5000e-9");
    }
}
