//! The network as one of the models that are built in: digits, images of one's own, or rows of a table.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motes::memory::{self, Shape};
use motes::sentence::{foreign, foreign_path};
use motes::settings::{InitParticles, Preconditioner, Settings};
use motes::{Model, Real};
use serde_json::Value;

use super::{Bnn, Labelled, Products};
use crate::data::remember::{Remember, class_rows};
use crate::data::rows::{self, Kept, Origin, RowOptions, Source, prepare};
use crate::data::{self, Coding, ImageTask, MOST_CLASSES, Moments, Split, TaskOptions, mnist};
use crate::options::{Flag, Table};
use crate::registry::{self, Defaults, Error, Given, Precision, Predicted, Predictor, Problem, read};

/// The model's line in the table.
pub struct Entry;

const NAME: &str = "bnn";
const HIDDEN: usize = 40;
/// What a coordinate's name takes: summaries and Python ask for all of them.
const NAME_BYTES: u128 = 64;

crate::settings!(Products: Text of ["auto", "dense", "sparse", "full"]);

crate::options! {
    /// The data and the network.
    pub struct Options {
        + rows: RowOptions,
        "Data" {
            /// Read images from an IDX file, gzipped or not, or rows from a CSV file with a header [default: built-in images]
            data: PathBuf => "FILE";
            /// The labels of `data`, where those are images in the IDX format
            labels: PathBuf => "FILE";
            /// The labels to tell apart, for images [default: 4,9]
            classes: Vec<u8> => "L,...";
            /// How many of these images to draw, by `data-seed`; 0 for all [default: 1000]
            subsample: usize => "M";
            /// The seed that images are drawn with [default: 0]
            data_seed: u64 => "S";
        }
        "Model" {
            /// The number of hidden units [default: 40]
            hidden: usize => "H";
            /// How products with the features are computed: auto, dense, sparse or full; all agree up to rounding, and `batch`
            /// always computes densely [default: auto]
            products: Products => "WAY";
        }
    }
}

impl registry::Entry for Entry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "A Bayesian neural network with one hidden layer"
    }

    fn flags(&self) -> &'static [Flag] {
        Options::flags()
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            particles: 100,
            steps: 500,
            step_size: 0.1,
            precision: Precision::F32,
            preconditioner: Preconditioner::Diagonal,
            init_particles: InitParticles::Prior,
            variational_adam: true,
            ..Defaults::default()
        }
    }

    fn names_data(&self) -> &'static [&'static str] {
        &["data", "labels", "test", "test-fraction", "split-seed"]
    }

    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        rows::GIVES_WAY
    }

    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error> {
        let options = Options::of(&options)?;
        Ok(Arc::new(match given {
            Given::Options => Network::read(options)?,
            Given::Rows(rows) => {
                refuse_options_of_images(&options)?;
                let given = Some(rows.clone());
                let mut network = Network::of_rows(Source::given(rows), options)?;
                network.origin.given = given;
                network
            }
            _ => return Err("a network takes rows with labels; give X and y".into()),
        }))
    }

    fn predictor(&self, data: &Value) -> Result<Option<Box<dyn Predictor>>, String> {
        let remember = Remember::read(NAME, data, 2..=MOST_CLASSES)?;
        let width = (remember.inputs.checked_add(remember.classes.len()))
            .and_then(|w| w.checked_mul(remember.hidden))
            .filter(|width| *width > 0);
        if width.is_none() || remember.intercept {
            return Err(format!("data.hidden is {}, which describes no network", remember.hidden));
        }
        Ok(Some(Box::new(Inputs(remember))))
    }
}

/// The model with its data.
struct Network {
    task: ImageTask,
    hidden: usize,
    products: Products,
    options: Options,
    origin: Origin,
}

/// Where a network's inputs and labels come from.
struct Columns {
    target: String,
    classes: Vec<String>,
    features: Vec<String>,
    coding: Coding,
    /// Rows that were left out.
    dropped: usize,
}

impl Network {
    fn read(options: Options) -> Result<Self, Error> {
        let bytes = options.data.as_deref().map(read).transpose()?;
        match bytes {
            Some(bytes) if !data::looks_like_idx(&bytes) => {
                refuse_options_of_images(&options)?;
                let path = options.data.as_deref().unwrap_or(Path::new(""));
                Network::of_rows(Source::of_table(path, bytes, &options.rows, None, MOST_CLASSES)?, options)
            }
            images => Network::of_images(images, options),
        }
    }

    fn of_images(bytes: Option<Vec<u8>>, options: Options) -> Result<Self, Error> {
        let RowOptions { target, drop, reference, test, no_standardize, .. } = &options.rows;
        let lists = drop.is_some() || reference.is_some();
        if target.is_some() || lists || no_standardize.is_some() || test.is_some() {
            return Err(
                "`target`, `drop`, `reference`, `no-standardize` and `test` are for CSV files; leave them out with images"
                    .into(),
            );
        }
        let test_fraction = options.rows.test_fraction.unwrap_or(0.2);
        let split_seed = options.rows.split_seed.unwrap_or(0);
        let classes = options.classes.clone().unwrap_or_else(|| vec![4, 9]);
        let subsample = options.subsample.unwrap_or(1000);
        let data_seed = options.data_seed.unwrap_or(0);
        let seed = u32::try_from(data_seed)
            .map_err(|_| format!("`data-seed={data_seed}` is beyond 2^32; choose a smaller one"))?;
        let drawn = Some(subsample).filter(|m| *m > 0);
        let chosen =
            TaskOptions { classes: classes.clone(), subsample: drawn, seed, test_fraction, split_seed };
        let (task, sha256) = match (bytes, &options.data, &options.labels) {
            (Some(bytes), Some(path), Some(labels)) => {
                let images = data::read_images(&bytes, &foreign_path(path))?;
                let label_bytes = read(labels)?;
                let labels = data::read_labels(&label_bytes, &foreign_path(labels))?;
                let digest = format!("{}{}", data::sha256(&bytes), data::sha256(&label_bytes));
                (ImageTask::new(&images, &labels, &chosen)?, data::sha256(digest.as_bytes()))
            }
            (Some(_), ..) => {
                return Err("images need their labels; name the IDX file of the labels with `labels`".into());
            }
            (None, _, Some(_)) => return Err("`labels` belong to images; name those with `data`".into()),
            (None, ..) => (ImageTask::mnist(&chosen)?, data::sha256(mnist::IMAGES)),
        };
        let names: Vec<String> = classes.iter().map(u8::to_string).collect();
        let notes = vec![format!("images of {} as classes 0 to {}", names.join(", "), names.len() - 1)];
        let columns = Columns {
            target: "label".into(),
            classes: names,
            features: Vec::new(),
            coding: Coding::default(),
            dropped: 0,
        };
        let rows = RowOptions {
            test_fraction: Some(test_fraction),
            split_seed: Some(split_seed),
            ..options.rows.clone()
        };
        let options = Options {
            rows,
            classes: Some(classes),
            subsample: Some(subsample),
            data_seed: Some(data_seed),
            ..options
        };
        Network::of(task, columns, options, notes, sha256)
    }

    fn of_rows(source: Source, options: Options) -> Result<Self, Error> {
        let mut notes = Vec::new();
        let prepared = prepare(source, options.rows.clone(), &mut notes)?;
        let (train, test) = (prepared.train, prepared.test);
        let inputs = train.feature_names.len();
        let as_they_are = || Moments { mean: vec![0.0; inputs], std: vec![1.0; inputs] };
        let moments = prepared.moments.unwrap_or_else(as_they_are);
        let (to_train, rows) = (train.rows(), train.rows() + test.rows());
        let task = ImageTask {
            inputs,
            classes: train.classes.len(),
            images: (0..rows).collect(),
            features: [train.features, test.features].concat(),
            labels: [train.labels, test.labels].concat(),
            mean: moments.mean,
            std: moments.std,
            split: Split { train: (0..to_train).collect(), test: (to_train..rows).collect() },
        };
        let columns = Columns {
            target: train.target,
            classes: train.classes,
            features: train.feature_names,
            coding: prepared.coding,
            dropped: train.rows_dropped,
        };
        let options = Options { rows: prepared.options, ..options };
        let mut network = Network::of(task, columns, options, notes, prepared.sha256)?;
        network.origin.kept = prepared.kept;
        Ok(network)
    }

    fn of(
        task: ImageTask,
        columns: Columns,
        options: Options,
        mut notes: Vec<String>,
        sha256: String,
    ) -> Result<Self, Error> {
        let hidden = options.hidden.unwrap_or(HIDDEN);
        let products = options.products.unwrap_or_default();
        let (train, test) = (task.split.train.len(), task.split.test.len());
        notes.push(format!(
            "{train} rows to train on, {test} to test on, {} inputs, {hidden} hidden units",
            task.inputs
        ));
        let Columns { target, classes, features, coding, dropped } = columns;
        refuse_too_large(hidden, task.inputs, classes.len())?;
        let (of_training, count) = (task.split.train.iter().map(|i| task.labels[*i]), classes.len());
        let remember = Remember {
            model: NAME.into(),
            target,
            classes,
            features,
            columns: coding,
            moments: Some(Moments { mean: task.mean.clone(), std: task.std.clone() }),
            intercept: false,
            inputs: task.inputs,
            hidden,
            train_rows: train,
            weights: None,
            class_rows: class_rows(of_training, count),
            test_rows: test,
            rows_dropped: dropped,
        };
        let options = Options { hidden: Some(hidden), products: Some(products), ..options };
        let origin = Origin { notes, remember, sha256, kept: Kept::new(), given: None };
        Ok(Network { task, hidden, products, options, origin })
    }

    fn build<F: Real>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        Ok(Arc::new(Bnn::of_task(&self.task, self.hidden, self.products)?))
    }
}

fn refuse_options_of_images(options: &Options) -> Result<(), Error> {
    match options.classes.is_some() || options.subsample.is_some() || options.labels.is_some() {
        true => Err("`classes`, `subsample` and `labels` are for images in the IDX format; leave them out with a CSV file".into()),
        false => Ok(()),
    }
}

/// A network of which not even one particle fits into memory is refused before it is built.
fn refuse_too_large(hidden: usize, inputs: usize, classes: usize) -> Result<(), Error> {
    let d_x = hidden.saturating_mul(inputs + classes);
    let shape = Shape {
        d_theta: 2,
        d_x,
        groups: 1,
        buffers: 0,
        numerical_m_step: false,
        data_bytes: NAME_BYTES * d_x as u128,
        real_bytes: 8,
    };
    let one = Settings { particles: 1, ..Settings::default() };
    match memory::shortage(shape, &one) {
        Some(shortage) => Err(format!("hidden is {hidden}: {shortage}; use fewer hidden units").into()),
        None => Ok(()),
    }
}

impl Problem for Network {
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
        vec![
            format!(
                "P({} = l) = softmax_l(sum_j v_lj tanh(sum_i w_ji f_i)), j = 1, ..., {}, i = 1, ..., {}",
                foreign(&self.origin.remember.target),
                self.hidden,
                self.origin.remember.inputs
            ),
            "w_ji ~ N(0, exp(2 alpha)), v_lj ~ N(0, exp(2 beta))".into(),
        ]
    }

    fn single(&self, _: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build()
    }

    fn double(&self, _: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build()
    }
}

/// Predictions from what a summary remembers.
struct Inputs(Remember);

impl Predictor for Inputs {
    fn width(&self) -> usize {
        (self.0.inputs + self.0.classes.len()) * self.0.hidden
    }

    fn remember(&self) -> &Remember {
        &self.0
    }

    fn predict(&self, particles: &[f64], rows: &[f64], level: f64) -> Result<Predicted, Error> {
        let (inputs, hidden, classes) = (self.0.inputs, self.0.hidden, self.0.classes.len());
        // The network's data do not matter for predictions: its shape does.
        let blank = Labelled { features: &vec![0.0; inputs], labels: &[0] };
        let network = Bnn::<f64>::new(blank, None, inputs, hidden, classes)?;
        Ok(network.predict(rows, particles, level))
    }
}
