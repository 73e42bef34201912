//! What a run remembers of its rows for later predictions: part of summary.json, and checked by everyone who reads it.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use motes::sentence::foreign;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Classification, Coding, Moments};
use crate::registry::Linear;

/// How new rows become features of a fitted classifier; part of summary.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remember {
    /// The model's name.
    pub model: String,
    /// The column that is explained.
    pub target: String,
    /// In the order of their labels.
    pub classes: Vec<String>,
    /// The names of the features; images have none.
    pub features: Vec<String>,
    /// The columns that they come from, with the levels of categories.
    pub columns: Coding,
    /// The training moments; `None` if features are taken as they are.
    pub moments: Option<Moments>,
    /// Whether a feature of ones is added.
    pub intercept: bool,
    /// Features, without that one.
    pub inputs: usize,
    /// Hidden units of a network.
    pub hidden: usize,
    /// Rows that were trained on.
    pub train_rows: usize,
    /// How many of these there are of each class.
    pub class_rows: Vec<usize>,
    /// The column of weights, and their sum over these rows.
    #[serde(default)]
    pub weights: Option<(String, f64)>,
    /// Rows that were tested on.
    pub test_rows: usize,
    /// Rows that were left out for missing values.
    pub rows_dropped: usize,
}

/// How many labels there are of each class.
pub fn class_rows(labels: impl Iterator<Item = u8>, classes: usize) -> Vec<usize> {
    let mut rows = vec![0; classes];
    labels.for_each(|label| rows[usize::from(label)] += 1);
    rows
}

/// How many rows that count there are of each class.
pub fn class_rows_of(rows: &Classification) -> Vec<usize> {
    let counts = |i: usize| rows.weights.as_ref().is_none_or(|weights| weights[i] > 0.0);
    let labels = rows.labels.iter().enumerate().filter(|(i, _)| counts(*i)).map(|(_, label)| *label);
    class_rows(labels, rows.classes.len())
}

/// What the intercept is called beside these features.
pub fn intercept_name(features: &[String]) -> String {
    let mut name = String::from("intercept");
    while features.contains(&name) {
        name = format!("({name})");
    }
    name
}

impl Remember {
    /// Reads what a run of a model with so many classes has kept. A file that was damaged or edited must not lead to
    /// probabilities of something else: whatever contradicts the rest is named in a clause.
    pub fn read(model: &str, data: &Value, classes: RangeInclusive<usize>) -> Result<Self, String> {
        let it = Remember::deserialize(data).map_err(|e| format!("data: {}", foreign(e)))?;
        it.check(model, classes)?;
        Ok(it)
    }

    /// The coefficients of weights that are the first coordinates, on the scale of the columns; the intercept follows them.
    pub fn coefficients(&self) -> Vec<Linear> {
        let (mean, std) = match &self.moments {
            Some(moments) => (moments.mean.clone(), moments.std.clone()),
            None => (vec![0.0; self.inputs], vec![1.0; self.inputs]),
        };
        let linear = |name: &str, coordinate: usize, original| Linear {
            class: None,
            name: name.into(),
            original,
            standardised: vec![(coordinate, 1.0)],
        };
        let slope = |(i, name): (usize, &String)| linear(name, i, vec![(i, 1.0 / std[i])]);
        let mut all: Vec<Linear> = self.features.iter().enumerate().map(slope).collect();
        if self.intercept {
            let shifts = mean.iter().zip(&std).enumerate().filter(|(_, (mean, _))| **mean != 0.0);
            let mut terms = vec![(self.inputs, 1.0)];
            terms.extend(shifts.map(|(i, (mean, std))| (i, -mean / std)));
            all.push(linear(&intercept_name(&self.features), self.inputs, terms));
        }
        all
    }

    fn check(&self, model: &str, classes: RangeInclusive<usize>) -> Result<(), String> {
        let inputs = self.inputs;
        if self.model != model {
            return Err(format!(
                "data.model is {} and the run is one of {model}",
                foreign(format_args!("{:?}", self.model))
            ));
        }
        if !classes.contains(&self.classes.len()) {
            let (least, most) = classes.into_inner();
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err(format!("data.classes has {} entries and {wanted} are expected", self.classes.len()));
        }
        for (name, list) in [("classes", &self.classes), ("features", &self.features)] {
            let mut seen = HashSet::new();
            if let Some(twice) = list.iter().find(|value| !seen.insert(*value)) {
                return Err(format!("data.{name} has {} twice", foreign(format_args!("{twice:?}"))));
            }
        }
        for column in self.columns.columns.iter().filter(|column| !column.constant) {
            let Some(levels) = &column.levels else { continue };
            let mut seen = HashSet::new();
            if levels.len() < 2 || !levels.iter().all(|level| seen.insert(level)) {
                return Err(format!(
                    "data.columns has {} without two different levels",
                    foreign(format_args!("{:?}", column.name))
                ));
            }
        }
        if self.columns.names() != self.features {
            return Err("data.columns and data.features disagree".into());
        }
        if self.class_rows.len() != self.classes.len() {
            return Err("data.class_rows and data.classes disagree".into());
        }
        if inputs == 0 {
            return Err("data.inputs is 0".into());
        }
        // Images have no columns.
        let mut lists = vec![("features", self.features.len(), !self.features.is_empty())];
        if let Some(Moments { mean, std }) = &self.moments {
            lists.extend([("moments.mean", mean.len(), true), ("moments.std", std.len(), true)]);
            if let Some(wrong) = std.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
                return Err(format!("data.moments.std has {wrong:e}, which is not a standard deviation"));
            }
        }
        match lists.into_iter().find(|(_, length, there)| *there && *length != inputs) {
            Some((name, length, _)) => {
                Err(format!("data.{name} has {length} entries and data.inputs is {inputs}"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "model": "logistic", "target": "y", "classes": ["0", "1"], "features": ["a", "b=y"],
            "columns": [{"name": "a"}, {"name": "b", "levels": ["x", "y"]}],
            "moments": {"mean": [1.0, 2.0], "std": [0.5, 4.0]}, "intercept": true, "inputs": 2, "hidden": 0,
            "train_rows": 8, "class_rows": [5, 3], "test_rows": 2, "rows_dropped": 0
        })
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let read = |data: &Value| Remember::read("logistic", data, 2..=2);
        assert!(read(&good()).is_ok());
        for (place, value, said) in [
            ("/model", json!("bnn"), "data.model is \"bnn\""),
            ("/classes", json!(["0"]), "data.classes has 1 entries and 2 are expected"),
            ("/classes", json!([]), "data.classes has 0 entries"),
            ("/classes", json!(["0", "0"]), "data.classes has \"0\" twice"),
            ("/features", json!(["a"]), "data.columns and data.features disagree"),
            ("/columns", json!([{"name": "a"}]), "data.columns and data.features disagree"),
            ("/columns/1/levels", json!(["x", "x"]), "data.columns has \"b\" without two different levels"),
            ("/columns/1/levels", json!([]), "data.columns has \"b\" without two different levels"),
            ("/features", json!(["a", "a"]), "data.features has \"a\" twice"),
            ("/class_rows", json!([8]), "data.class_rows and data.classes disagree"),
            ("/inputs", json!(0), "data.inputs is 0"),
            ("/inputs", json!(u64::MAX), "data.inputs is 18446744073709551615"),
            ("/moments/mean", json!([1.0]), "data.moments.mean has 1 entries"),
            ("/moments/std", json!([1.0, 2.0, 3.0]), "data.moments.std has 3 entries"),
            (
                "/moments/std",
                json!([1.0, -2.0]),
                "data.moments.std has -2e0, which is not a standard deviation",
            ),
            ("/moments/std", json!([0.0, 1.0]), "which is not a standard deviation"),
            ("/intercept", json!(3), "data: invalid type"),
        ] {
            let mut data = good();
            *data.pointer_mut(place).unwrap() = value;
            let refused = read(&data).expect_err(said);
            assert!(refused.contains(said), "{refused}");
        }
        assert!(Remember::read("logistic", &Value::Null, 2..=2).is_err());
    }
}
