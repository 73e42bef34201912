//! Logistic regression as one of the models that are built in.

use std::path::PathBuf;
use std::sync::Arc;

use motes::algorithms::AUTO;
use motes::printable::Number;
use motes::sentence::foreign;
use motes::settings::InitParticles;
use motes::{Model, Real, Settings};
use serde_json::Value;

use super::rows::Rows as Packed;
use super::{Learn, Logistic, Options as Prior, mode, predict};
use crate::data::remember::{Remember, class_rows_of, intercept_name};
use crate::data::rows::{self, Origin, RowOptions, Source, prepare};
use crate::data::{Classification, quoted, wisconsin};
use crate::multinomial::has_signal;
use crate::options::{Flag, Table};
use crate::registry::{self, Defaults, Error, Given, Linear, Predicted, Predictor, Problem, read};

/// The model's line in the table.
pub struct Entry;

const NAME: &str = "logistic";
/// Numbers up to which it is worth the time to look for weights that separate the classes.
const SEPARATION: usize = 1 << 22;

crate::options! {
    /// The data and the prior.
    pub struct Options {
        + rows: RowOptions,
        "Data" {
            /// Read the data from a CSV file with a header [default: built-in data]
            data: PathBuf => "FILE";
            /// A column that says how often each training row counts [default: once]
            weights: String => "COL";
        }
        "Model" {
            /// What to learn of the weights' prior N(m 1, V I): mean, variance or both; theta is m, log V or both, and m is
            /// 0 where it is not learnt [default: variance; mean with the built-in data]
            learn: Learn => "PART";
            /// V where it is not learnt [default: 5]
            prior_variance: f64 => "V";
            /// Add an intercept with its own prior N(0, 100) [default: added, but not with the built-in data]
            intercept: bool => "BOOL";
            /// Leave the intercept out
            no_intercept: bool => "BOOL";
        }
    }
}

impl registry::Entry for Entry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Empirical-Bayes logistic regression: weights x ~ N(m 1, V I), m or V or both learnt"
    }

    fn flags(&self) -> &'static [Flag] {
        Options::flags()
    }

    fn defaults(&self) -> Defaults {
        Defaults { algorithm: &AUTO, steps: 1000, ..Defaults::default() }
    }

    fn names_data(&self) -> &'static [&'static str] {
        &["data", "test", "test-fraction", "split-seed"]
    }

    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        const OWN: &[(&[&str], &[&str])] = &[
            rows::GIVES_WAY[0],
            rows::GIVES_WAY[1],
            (&["no-intercept"], &["intercept"]),
            (&["learn"], &["prior-variance"]),
        ];
        OWN
    }

    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error> {
        let options = Options::of(&options)?;
        Ok(Arc::new(match given {
            Given::Options => Regression::read(options)?,
            Given::Rows(rows) => {
                let given = Some(rows.clone());
                let mut regression = Regression::of(Source::given(rows), options)?;
                regression.origin.given = given;
                regression
            }
            _ => {
                return Err("logistic regression takes rows with labels; give X and y".into());
            }
        }))
    }

    fn predictor(&self, data: &Value) -> Result<Option<Box<dyn Predictor>>, String> {
        let remember = Remember::read(NAME, data, 2..=2)?;
        if remember.features.is_empty() || remember.hidden > 0 {
            return Err("data does not describe the rows of a regression".into());
        }
        Ok(Some(Box::new(Rows(remember))))
    }
}

/// The model with its rows.
struct Regression {
    train: Classification,
    test: Option<Classification>,
    prior: Prior,
    options: Options,
    origin: Origin,
    /// What is known of a maximum on the boundary.
    boundary: Option<String>,
}

impl Regression {
    fn read(options: Options) -> Result<Self, Error> {
        let mut options = options;
        let source = match &options.data {
            Some(path) => Source::of_table(path, read(path)?, &options.rows, options.weights.as_deref(), 2)?,
            None if options.weights.is_some() => {
                return Err("`weights` names a column of your own data; give these with `data`".into());
            }
            None => {
                let drop = || wisconsin::DROP.iter().map(|s| s.to_string()).collect();
                options.rows.drop = Some(options.rows.drop.unwrap_or_else(drop));
                Source::embedded(wisconsin::BYTES, wisconsin::NAME, &options.rows)?
            }
        };
        Regression::of(source, options)
    }

    fn of(source: Source, options: Options) -> Result<Self, Error> {
        let prior = prior(&options, source.whole)?;
        let mut notes = Vec::new();
        let counted_by = source.all.weights.as_ref().map(|(column, _)| column.clone());
        let prepared = prepare(source, options.rows, &mut notes)?;
        let train = prepared.train;
        let test = (prepared.test.rows() > 0).then_some(prepared.test);
        let (train_rows, test_rows) = (train.rows(), test.as_ref().map_or(0, |t| t.rows()));
        let inputs = train.feature_names.len();
        notes.push(format!("{train_rows} rows to train on, {test_rows} to test on, {inputs} features"));
        let mut boundary = None;
        if train_rows * inputs <= SEPARATION && separated(&train, prior.intercept) {
            let [a, b] = [0, 1].map(|label| quoted(train.classes.get(label).map_or("", |c| c)));
            notes.push(format!(
                "the classes {a} and {b} are separated: some weights classify every training row correctly, so larger ones always fit better"
            ));
            boundary = Some(format!(
                "the classes {a} and {b} are separated, so larger weights always fit better and the likelihood hardly changes as log_variance goes to infinity; predictions can be used: fix the variance with `learn=mean` and `prior-variance`, or give more rows"
            ));
        }
        let centred = prepared.moments.is_some() && prior.intercept;
        if centred && prior.learn != Learn::Mean && train.weights.is_none() && !has_signal(&train) {
            notes.push(
                "the features tell the classes apart no better than chance: the likelihood falls as the variance of the weights leaves 0, so log_variance may have no maximum"
                    .into(),
            );
            boundary = Some(
                "the features tell the classes apart no better than chance, so the likelihood has its maximum at a variance of 0 and log_variance goes to minus infinity; predictions can be used, and are those of an intercept alone: give other features"
                    .into(),
            );
        }
        let boundary = boundary.filter(|_| prior.learn != Learn::Mean);
        let remember = Remember {
            model: NAME.into(),
            inputs,
            hidden: 0,
            target: train.target.clone(),
            classes: train.classes.clone(),
            features: train.feature_names.clone(),
            columns: prepared.coding,
            moments: prepared.moments,
            intercept: prior.intercept,
            train_rows,
            class_rows: class_rows_of(&train),
            weights: counted_by.zip(train.weights.as_ref().map(|weights| weights.iter().sum())),
            test_rows,
            rows_dropped: train.rows_dropped,
        };
        let options = Options {
            rows: prepared.options,
            data: options.data,
            weights: options.weights,
            prior_variance: (prior.learn == Learn::Mean).then_some(prior.prior_variance),
            intercept: Some(prior.intercept),
            no_intercept: None,
            learn: Some(prior.learn),
        };
        let (sha256, kept) = (prepared.sha256, prepared.kept);
        let origin = Origin { notes, remember, sha256, kept, given: None };
        Ok(Regression { train, test, prior, options, origin, boundary })
    }

    fn build<F: Real>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        let model = Logistic::new(&self.train, self.test.as_ref(), self.prior)?;
        Ok(Arc::new(model.with_boundary(self.boundary.clone())))
    }
}

/// Whether some weights classify all rows correctly.
fn separated(train: &Classification, intercept: bool) -> bool {
    mode::separated(&Packed::<f64>::new(&train.features, &train.labels, None, intercept))
}

/// The prior that was chosen: for the embedded data that of the paper, unless something else is said.
fn prior(options: &Options, embedded: bool) -> Result<Prior, Error> {
    let learn = options.learn.unwrap_or(if embedded { Learn::Mean } else { Learn::Variance });
    if let (Some(v), true) = (options.prior_variance, learn != Learn::Mean) {
        return Err(format!(
            "`prior-variance={v}` fixes what is learnt here; leave it out, or learn the mean instead with `learn=mean`"
        )
        .into());
    }
    let intercept = match (options.intercept, options.no_intercept) {
        (Some(true), Some(true)) => {
            return Err("`intercept` and `no-intercept` contradict each other; leave one of them out".into());
        }
        (Some(intercept), _) => intercept,
        (None, Some(none)) => !none,
        (None, None) => !embedded,
    };
    let standard = Prior::default();
    let prior_variance = options.prior_variance.unwrap_or(standard.prior_variance);
    let prior = Prior { prior_variance, intercept, learn, ..standard };
    prior.check()?;
    Ok(prior)
}

impl Problem for Regression {
    fn name(&self) -> &str {
        NAME
    }

    /// Particles that are all 0 would have no variance to learn, so that they start from the prior.
    fn defaults(&self) -> Defaults {
        let usual = registry::Entry::defaults(&Entry);
        match self.prior.learn {
            Learn::Mean => usual,
            Learn::Variance | Learn::Both => Defaults { init_particles: InitParticles::Prior, ..usual },
        }
    }

    fn options(&self) -> Table {
        self.options.table()
    }

    fn rows(&self) -> Option<&Origin> {
        Some(&self.origin)
    }

    fn formula(&self) -> Vec<String> {
        let Remember { target, classes, moments, intercept, inputs, .. } = &self.origin.remember;
        let standardised = if moments.is_some() { "standardised features" } else { "features as they are" };
        let sum = if *intercept { "b + sum_d w_d f_d" } else { "sum_d w_d f_d" };
        let (mean, variance) = match self.prior.learn {
            Learn::Mean => ("theta".into(), Number(self.prior.prior_variance).to_string()),
            Learn::Variance => ("0".to_string(), "exp(log_variance)".into()),
            Learn::Both => ("mean".into(), "exp(log_variance)".into()),
        };
        let mut lines = vec![
            format!("logit P({} = {}) = {sum}, f: {standardised}", foreign(target), foreign(&classes[1])),
            format!("w_d ~ N({mean}, {variance}), d = 1, ..., {inputs}"),
        ];
        if *intercept {
            lines.push(format!("b ~ N(0, {})", Number(self.prior.intercept_variance)));
        }
        lines
    }

    fn single(&self, _: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build()
    }

    fn double(&self, _: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build()
    }
}

/// Predictions from what a summary remembers.
struct Rows(Remember);

impl Predictor for Rows {
    fn width(&self) -> usize {
        self.0.inputs + usize::from(self.0.intercept)
    }

    fn remember(&self) -> &Remember {
        &self.0
    }

    fn coordinates(&self) -> Option<Vec<String>> {
        let intercept = self.0.intercept.then(|| intercept_name(&self.0.features));
        Some(self.0.features.iter().cloned().chain(intercept).collect())
    }

    fn predict(&self, particles: &[f64], rows: &[f64], level: f64) -> Result<Predicted, Error> {
        Ok(predict(particles, rows, self.0.inputs, self.0.intercept, level))
    }

    fn coefficients(&self) -> Option<Vec<Linear>> {
        Some(self.0.coefficients())
    }
}
