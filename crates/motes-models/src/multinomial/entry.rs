//! Multinomial regression as one of the models that are built in.

use std::path::PathBuf;
use std::sync::Arc;

use motes::algorithms::AUTO;
use motes::printable::Number;
use motes::sentence::foreign;
use motes::settings::InitParticles;
use motes::{Model, Settings};
use serde_json::Value;

use super::kernel::Contrasts;
use super::predict::NewRows;
use super::{INTERCEPT_VARIANCE, Multinomial, names};
use crate::data::remember::{Remember, class_rows_of};
use crate::data::rows::{self, Origin, RowOptions, Source, prepare};
use crate::data::{Classification, MOST_CLASSES, quoted};
use crate::options::{Flag, Table};
use crate::registry::{self, Defaults, Error, Given, Linear, Predicted, Predictor, Problem, read};
use crate::tally::predicted;

/// The model's line in the table.
pub struct Entry;

const NAME: &str = "multinomial";

crate::options! {
    /// The data and the prior.
    pub struct Options {
        + rows: RowOptions,
        "Data" {
            /// Read the data from a CSV file with a header
            data: PathBuf => "FILE";
            /// A column that says how often each training row counts [default: once]
            weights: String => "COL";
        }
        "Model" {
            /// Leave the intercepts out
            no_intercept: bool => "BOOL";
        }
    }
}

impl registry::Entry for Entry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Empirical-Bayes regression for several classes: softmax, weights ~ N(0, V), V learnt"
    }

    fn flags(&self) -> &'static [Flag] {
        Options::flags()
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            algorithm: &AUTO,
            steps: 1000,
            // Weights that are all 0 would have no variance to learn.
            init_particles: InitParticles::Prior,
            ..Defaults::default()
        }
    }

    fn names_data(&self) -> &'static [&'static str] {
        &["data", "test", "test-fraction", "split-seed"]
    }

    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        rows::GIVES_WAY
    }

    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error> {
        let options = Options::of(&options)?;
        Ok(Arc::new(match given {
            Given::Options => {
                let Some(path) = &options.data else {
                    return Err(
                        "multinomial regression has no data of its own; name a CSV file with `data`".into()
                    );
                };
                let weights = options.weights.as_deref();
                let source = Source::of_table(path, read(path)?, &options.rows, weights, MOST_CLASSES)?;
                Regression::of(source, options)?
            }
            Given::Rows(rows) => {
                let given = Some(rows.clone());
                let mut regression = Regression::of(Source::given(rows), options)?;
                regression.origin.given = given;
                regression
            }
            _ => return Err("multinomial regression takes rows with labels; give X and y".into()),
        }))
    }

    fn predictor(&self, data: &Value) -> Result<Option<Box<dyn Predictor>>, String> {
        let remember = Remember::read(NAME, data, 2..=MOST_CLASSES)?;
        if remember.features.is_empty() || remember.hidden > 0 {
            return Err("data does not describe the rows of a regression".into());
        }
        Ok(Some(Box::new(NewData(remember))))
    }
}

/// The model with its rows.
struct Regression {
    train: Classification,
    test: Classification,
    options: Options,
    origin: Origin,
    /// What is known of a maximum on the boundary.
    boundary: Option<String>,
}

impl Regression {
    fn of(source: Source, options: Options) -> Result<Self, Error> {
        let intercept = !options.no_intercept.unwrap_or(false);
        let mut notes = Vec::new();
        let counted_by = source.all.weights.as_ref().map(|(column, _)| column.clone());
        let prepared = prepare(source, options.rows, &mut notes)?;
        let (train, test) = (prepared.train, prepared.test);
        let (inputs, classes) = (train.feature_names.len(), train.classes.len());
        notes.push(format!(
            "{} rows to train on, {} to test on, {inputs} features, {classes} classes",
            train.rows(),
            test.rows()
        ));
        let remember = Remember {
            model: NAME.into(),
            inputs,
            hidden: 0,
            target: train.target.clone(),
            classes: train.classes.clone(),
            features: train.feature_names.clone(),
            columns: prepared.coding,
            moments: prepared.moments,
            intercept,
            train_rows: train.rows(),
            class_rows: class_rows_of(&train),
            weights: counted_by.zip(train.weights.as_ref().map(|weights| weights.iter().sum())),
            test_rows: test.rows(),
            rows_dropped: train.rows_dropped,
        };
        let absent = train.classes.iter().zip(&remember.class_rows).filter(|(_, rows)| **rows == 0);
        for (class, _) in absent {
            notes.push(format!(
                "no training row has class {}, so only the prior says anything about it",
                quoted(class)
            ));
        }
        let mut boundary = None;
        if separated(&train, intercept) {
            notes.push("the classes are separated: some weights classify every training row correctly, so larger ones always fit better".into());
            boundary = Some("the classes are separated, so larger weights always fit better and the likelihood hardly changes as log_variance goes to infinity; predictions can be used: give more rows, or leave features out".into());
        } else if remember.moments.is_some() && intercept && !has_signal(&train) {
            notes.push("the features tell the classes apart no better than chance: the likelihood falls as the variance of the weights leaves 0, so log_variance may have no maximum".into());
            boundary = Some("the features tell the classes apart no better than chance, so the likelihood has its maximum at a variance of 0 and log_variance goes to minus infinity; predictions can be used: give other features".into());
        }
        let options = Options {
            rows: prepared.options,
            data: options.data,
            weights: options.weights,
            no_intercept: Some(!intercept),
        };
        let (sha256, kept) = (prepared.sha256, prepared.kept);
        let origin = Origin { notes, remember, sha256, kept, given: None };
        Ok(Regression { train, test, options, origin, boundary })
    }

    fn build(&self) -> Result<Multinomial, Error> {
        let model = Multinomial::new(&self.train, Some(&self.test), self.origin.remember.intercept)?;
        Ok(model.with_boundary(self.boundary.clone()))
    }
}

/// Products up to which it is worth the time to look for weights that separate the classes.
const SEPARATION: usize = 200_000_000;

/// Whether weights are found that give every row its own class: the perceptron, which ends if there are any, has so much time.
fn separated(train: &Classification, intercept: bool) -> bool {
    let (d, classes) = (train.feature_names.len(), train.classes.len());
    let columns = d + usize::from(intercept);
    let passes = (SEPARATION / (train.rows() * columns * classes).max(1)).min(1000);
    let mut weights = vec![0.0; classes * columns];
    for _ in 0..passes {
        let mut wrong = 0;
        for (f, label) in train.features.chunks_exact(d).zip(&train.labels) {
            let logit = |k: usize| {
                let w = &weights[k * columns..(k + 1) * columns];
                f.iter().zip(w).map(|(f, w)| f * w).sum::<f64>() + if intercept { w[d] } else { 0.0 }
            };
            let own = usize::from(*label);
            let rival = (0..classes).filter(|k| *k != own).max_by(|a, b| logit(*a).total_cmp(&logit(*b)));
            let Some(rival) = rival.filter(|rival| logit(*rival) >= logit(own)) else { continue };
            wrong += 1;
            for (k, sign) in [(own, 1.0), (rival, -1.0)] {
                let w = &mut weights[k * columns..(k + 1) * columns];
                w.iter_mut().zip(f).for_each(|(w, f)| *w += sign * f);
                w[d..].iter_mut().for_each(|w| *w += sign);
            }
        }
        if wrong == 0 {
            return true;
        }
    }
    false
}

/// Whether the likelihood of V rises at V = 0, beside intercepts and for centred features: the score test of a variance, by half
/// the squared gradient at u = 0 plus the trace of the Hessian.
pub(crate) fn has_signal(train: &Classification) -> bool {
    let (d, classes) = (train.feature_names.len(), train.classes.len());
    let contrasts = Contrasts::new(classes);
    let weight = |i: usize| train.weights.as_ref().map_or(1.0, |weights| weights[i]);
    let mut share = vec![0.0; classes];
    train.labels.iter().enumerate().for_each(|(i, label)| share[usize::from(*label)] += weight(i));
    let total: f64 = share.iter().sum();
    share.iter_mut().for_each(|p| *p /= total);
    // The mean and the variance of each contrast over the classes.
    let moment =
        |j: usize, power: i32| (0..classes).map(|k| share[k] * contrasts.of(k)[j].powi(power)).sum::<f64>();
    let mean: Vec<f64> = (0..contrasts.count()).map(|j| moment(j, 1)).collect();
    let variance: f64 = (0..contrasts.count()).map(|j| moment(j, 2) - mean[j] * mean[j]).sum();
    let mut gradient = vec![0.0; contrasts.count() * d];
    let mut squares = 0.0;
    for (i, (f, label)) in train.features.chunks_exact(d).zip(&train.labels).enumerate() {
        let h = contrasts.of(usize::from(*label));
        for (j, gradient) in gradient.chunks_exact_mut(d).enumerate() {
            gradient.iter_mut().zip(f).for_each(|(g, f)| *g += weight(i) * (h[j] - mean[j]) * f);
        }
        squares += weight(i) * f.iter().map(|f| f * f).sum::<f64>();
    }
    gradient.iter().map(|g| g * g).sum::<f64>() > variance * squares
}

impl Problem for Regression {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> Table {
        self.options.table()
    }

    fn rows(&self) -> Option<&Origin> {
        Some(&self.origin)
    }

    fn formula(&self) -> Vec<String> {
        let Remember { target, moments, intercept, inputs, .. } = &self.origin.remember;
        let standardised = if moments.is_some() { "standardised features" } else { "features as they are" };
        let sum = if *intercept { "b_k + sum_d w_kd f_d" } else { "sum_d w_kd f_d" };
        let mut lines = vec![
            format!("P({} = k) = softmax_k({sum}), f: {standardised}", foreign(target)),
            format!("w_kd ~ N(0, exp(log_variance)) about their mean over k, d = 1, ..., {inputs}"),
        ];
        if *intercept {
            lines.push(format!("b_k ~ N(0, {}) about their mean", Number(INTERCEPT_VARIANCE)));
        }
        lines
    }

    fn single(&self, _: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        Ok(Arc::new(self.build()?))
    }

    fn double(&self, _: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        Ok(Arc::new(self.build()?))
    }
}

/// Predictions from what a summary remembers.
struct NewData(Remember);

impl NewData {
    /// The features with the intercept, if there is one.
    fn per_contrast(&self) -> usize {
        self.0.inputs + usize::from(self.0.intercept)
    }
}

impl Predictor for NewData {
    fn width(&self) -> usize {
        self.per_contrast() * (self.0.classes.len() - 1)
    }

    fn remember(&self) -> &Remember {
        &self.0
    }

    fn coordinates(&self) -> Option<Vec<String>> {
        Some(names(&self.0.features, self.0.intercept, self.0.classes.len()))
    }

    fn predict(&self, particles: &[f64], rows: &[f64], level: f64) -> Result<Predicted, Error> {
        let (inputs, intercept, classes) = (self.0.inputs, self.0.intercept, self.0.classes.len());
        let packed = |features: &[f64]| NewRows::new(features, inputs, intercept, classes);
        Ok(predicted((rows, inputs), (particles, particles.len() / self.width()), classes, level, packed))
    }

    /// Those of each class are sums over its contrasts.
    fn coefficients(&self) -> Option<Vec<Linear>> {
        let (columns, classes) = (self.per_contrast(), self.0.classes.len());
        let contrasts = Contrasts::new(classes);
        let spread = |terms: &[(usize, f64)], k: usize| -> Vec<(usize, f64)> {
            let of_contrast = |(j, h): (usize, &f64)| {
                terms.iter().map(|(i, by)| (j * columns + i, h * by)).collect::<Vec<_>>()
            };
            let weights = contrasts.of(k).iter().enumerate().filter(|(_, h)| **h != 0.0);
            weights.flat_map(of_contrast).collect()
        };
        let of_class =
            |k: usize| self.0.coefficients().into_iter().map(move |linear| (k, linear)).collect::<Vec<_>>();
        let all = (0..classes).flat_map(of_class);
        Some(
            all.map(|(k, linear)| Linear {
                class: Some(self.0.classes[k].clone()),
                original: spread(&linear.original, k),
                standardised: spread(&linear.standardised, k),
                ..linear
            })
            .collect(),
        )
    }
}
