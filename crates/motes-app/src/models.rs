//! Which models there are, and how flags become one of them.

use std::path::Path;
use std::sync::Arc;

use motes::memory::Shape;
use motes::settings::{InitParticles, Preconditioner, unknown};
use motes::{Model, Real};
use motes_models::data::{self, Classification, ImageTask, Moments, Split, TaskOptions, wisconsin};
use motes_models::logistic::Options;
use motes_models::{Bnn, Hierarchical, Logistic, Products};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::config::{Config, Defaults, Precision};
use crate::job::Problem;

const MODELS: &[&str] = &["hierarchical", "logistic", "bnn"];

/// A model with its data read, in no precision yet.
enum Spec {
    Hierarchical { y: Vec<f64> },
    Logistic { train: Box<Classification>, test: Option<Box<Classification>>, options: Options },
    Bnn { task: Box<ImageTask>, hidden: usize, products: Products },
}

/// A model's data and what a run must remember of them.
pub struct Source {
    spec: Spec,
    /// The digest of everything that was read or generated.
    pub sha256: String,
    /// What people should know about the data, in a line each.
    pub notes: Vec<String>,
    /// What predictions need later.
    pub remember: Option<Remember>,
}

/// How new rows become features of a fitted classifier; part of summary.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remember {
    /// The model's name.
    pub model: String,
    /// The column that is explained.
    pub target: String,
    /// In the order of their labels.
    pub classes: Vec<String>,
    /// The columns that features come from; images have none.
    pub features: Vec<String>,
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
    /// Rows that were tested on.
    pub test_rows: usize,
    /// Rows that were left out for missing values.
    pub rows_dropped: usize,
}

/// The model's name, from the command line or the config.
pub fn name(argument: Option<&str>, config: Option<&str>) -> Result<String, Error> {
    let name = match (argument, config) {
        (Some(a), Some(b)) if a != b => {
            return Err(format!("the config is for the model {b}, not {a}; leave one of them out").into());
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(format!("no model is named; give one of {}", MODELS.join(", ")).into()),
    };
    if name == "generator" {
        return Err(
            "the model generator has flags of its own and stands alone; see motes fit generator --help"
                .into(),
        );
    }
    if !MODELS.contains(&name) {
        return Err(unknown("model", name, &[MODELS, &["generator"]].concat()).into());
    }
    Ok(name.to_string())
}

/// What the model suggests where nothing was chosen.
pub fn defaults(name: &str) -> Defaults {
    let plain = Defaults {
        particles: 10,
        steps: 5000,
        step_size: 0.02,
        precision: Precision::F64,
        preconditioner: Preconditioner::None,
        init_particles: InitParticles::Value(0.0),
        variational_adam: false,
    };
    match name {
        "logistic" => Defaults { particles: 100, steps: 1000, step_size: 0.01, ..plain },
        "bnn" => Defaults {
            particles: 100,
            steps: 500,
            step_size: 0.1,
            precision: Precision::F32,
            preconditioner: Preconditioner::Diagonal,
            init_particles: InitParticles::Prior,
            variational_adam: true,
        },
        _ => plain,
    }
}

/// The sizes of a run, as far as they are known before any data are read or made.
pub fn shape_before_data(name: &str, config: &Config, real_bytes: usize) -> Shape {
    let d = if name == "hierarchical" && config.data.is_none() { config.dim.unwrap_or(100) } else { 1 };
    Shape { d_theta: 1, d_x: d, data_bytes: (8 + 8 + real_bytes as u128) * d as u128, real_bytes }
}

impl Source {
    /// Reads or generates the data.
    pub fn load(config: &mut Config) -> Result<Source, Error> {
        let model = config.model.clone().unwrap_or_default();
        refuse_foreign_flags(&model, config)?;
        match model.as_str() {
            "logistic" => logistic(config),
            "bnn" => bnn(config),
            _ => hierarchical(config),
        }
    }

    /// The source for rows that are in memory already, as if they had been read from a file without name.
    pub fn of_rows(config: &mut Config, rows: Classification, sha256: String) -> Result<Source, Error> {
        let model = config.model.clone().unwrap_or_default();
        refuse_foreign_flags(&model, config)?;
        match model.as_str() {
            "bnn" => network_of(config, rows, "the data", sha256),
            _ => logistic_of(config, rows, "the data", sha256),
        }
    }

    /// The source for observations of the hierarchical model that are in memory already.
    pub fn of_observations(config: &Config, y: Vec<f64>, sha256: String) -> Result<Source, Error> {
        refuse_foreign_flags("hierarchical", config)?;
        Ok(Source { spec: Spec::Hierarchical { y }, sha256, notes: Vec::new(), remember: None })
    }

    fn build<F: Real>(&self) -> Result<Arc<dyn Model<F>>, Error> {
        Ok(match &self.spec {
            Spec::Hierarchical { y } => Arc::new(Hierarchical::new(y)),
            Spec::Bnn { task, hidden, products } => Arc::new(Bnn::of_task(task, *hidden, *products)?),
            Spec::Logistic { train, test, options } => {
                Arc::new(Logistic::new(train, test.as_deref(), *options)?)
            }
        })
    }
}

impl Problem for Source {
    fn defaults(&self) -> Defaults {
        defaults(match &self.spec {
            Spec::Hierarchical { .. } => "hierarchical",
            Spec::Logistic { .. } => "logistic",
            Spec::Bnn { .. } => "bnn",
        })
    }

    fn sha256(&self) -> Option<&str> {
        Some(&self.sha256)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn remember(&self) -> Option<serde_json::Value> {
        self.remember.as_ref().map(|r| serde_json::to_value(r).expect("plain data"))
    }

    fn single(&self) -> Result<Arc<dyn Model<f32>>, Error> {
        self.build()
    }

    fn double(&self) -> Result<Arc<dyn Model<f64>>, Error> {
        self.build()
    }
}

/// A flag of one model means nothing to another.
fn refuse_foreign_flags(model: &str, config: &Config) -> Result<(), Error> {
    let toy: &[&str] = &["hierarchical"];
    let regression: &[&str] = &["logistic"];
    let network: &[&str] = &["bnn"];
    let classifiers: &[&str] = &["logistic", "bnn"];
    let flags = [
        (toy, "--dim", config.dim.is_some()),
        (toy, "--true-theta", config.true_theta.is_some()),
        (&["hierarchical", "bnn"], "--data-seed", config.data_seed.is_some()),
        (classifiers, "--drop", config.drop.is_some()),
        (classifiers, "--test", config.test.is_some()),
        (classifiers, "--test-fraction", config.test_fraction.is_some()),
        (classifiers, "--split-seed", config.split_seed.is_some()),
        (classifiers, "--no-standardize", config.no_standardize.is_some()),
        (regression, "--prior-variance", config.prior_variance.is_some()),
        (regression, "--intercept", config.intercept.is_some()),
        (network, "--labels", config.labels.is_some()),
        (network, "--classes", config.classes.is_some()),
        (network, "--subsample", config.subsample.is_some()),
        (network, "--hidden", config.hidden.is_some()),
        (network, "--products", config.products.is_some()),
    ];
    match flags.iter().find(|(owners, _, given)| *given && !owners.contains(&model)) {
        Some((owners, flag, _)) => {
            let owners = owners.join(" and ");
            Err(format!("{flag} belongs to the model {owners}, not to {model}; leave it out").into())
        }
        None => Ok(()),
    }
}

fn hierarchical(config: &mut Config) -> Result<Source, Error> {
    let mut notes = Vec::new();
    let (y, sha256) = match &config.data {
        Some(path) => {
            let generated = [config.dim.is_some(), config.true_theta.is_some(), config.data_seed.is_some()];
            if generated.contains(&true) {
                return Err(
                    "--dim, --true-theta and --data-seed are for generated data; leave them or --data out"
                        .into(),
                );
            }
            let bytes = read(path)?;
            let table = data::read_table(&bytes, &path.display().to_string())?;
            let (y, dropped) = data::column(&table, config.target.as_deref())?;
            note_dropped(&mut notes, path, dropped);
            (y, data::sha256(&bytes))
        }
        None => {
            if config.target.is_some() {
                return Err("--target names a column of --data; give a file or leave it out".into());
            }
            let dim = *config.dim.get_or_insert(100);
            let theta = *config.true_theta.get_or_insert(1.0);
            let seed = *config.data_seed.get_or_insert(0);
            if dim == 0 {
                return Err("--dim 0 leaves no data; ask for at least 1".into());
            }
            if !theta.is_finite() {
                return Err(format!("--true-theta {theta} is not finite; choose a number").into());
            }
            let y = Hierarchical::<f64>::generate(dim, theta, seed);
            let bytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
            (y, data::sha256(&bytes))
        }
    };
    Ok(Source { spec: Spec::Hierarchical { y }, sha256, notes, remember: None })
}

fn logistic(config: &mut Config) -> Result<Source, Error> {
    let (bytes, name) = match &config.data {
        Some(path) => (read(path)?, path.display().to_string()),
        None => {
            config.drop.get_or_insert_with(|| wisconsin::DROP.iter().map(|s| s.to_string()).collect());
            (wisconsin::BYTES.to_vec(), wisconsin::NAME.to_string())
        }
    };
    let drop = config.drop.get_or_insert_default();
    let table = data::read_table(&bytes, &name)?;
    let all = data::classification(&table, config.target.as_deref(), drop)?;
    logistic_of(config, all, &name, data::sha256(&bytes))
}

fn logistic_of(
    config: &mut Config,
    mut all: Classification,
    name: &str,
    mut digest: String,
) -> Result<Source, Error> {
    let mut notes = Vec::new();
    let prior_variance = *config.prior_variance.get_or_insert(5.0);
    if !(prior_variance > 0.0 && prior_variance.is_finite()) {
        return Err(
            format!("--prior-variance {prior_variance} is not a positive number; use for example 5").into()
        );
    }
    let intercept = *config.intercept.get_or_insert(false);
    let standardize = !*config.no_standardize.get_or_insert(false);
    config.target = Some(all.target.clone());
    note_dropped(&mut notes, Path::new(name), all.rows_dropped);
    notes.push(format!("{}: '{}' is 0 and '{}' is 1", all.target, all.classes[0], all.classes[1]));
    let moments = standardize.then(|| Moments::of(&all.features, &all.feature_names)).transpose()?;
    if let Some(moments) = &moments {
        moments.apply(&mut all.features);
    }
    let (train, test) = match test_set(config, &all, moments.as_ref(), &mut notes, &mut digest)? {
        Some(test) => (all, Some(test)),
        None => {
            let fraction = *config.test_fraction.get_or_insert(0.2);
            let seed = *config.split_seed.get_or_insert(0);
            let split = data::train_test_split(all.rows(), fraction, seed)?;
            let test = (!split.test.is_empty()).then(|| all.select(&split.test));
            (all.select(&split.train), test)
        }
    };
    notes.push(format!(
        "{} rows to train on, {} to test on, {} features",
        train.rows(),
        test.as_ref().map_or(0, |t| t.rows()),
        train.feature_names.len()
    ));
    let remember = Remember {
        model: "logistic".into(),
        inputs: train.feature_names.len(),
        hidden: 0,
        target: train.target.clone(),
        classes: train.classes.clone(),
        features: train.feature_names.clone(),
        moments,
        intercept,
        train_rows: train.rows(),
        test_rows: test.as_ref().map_or(0, |t| t.rows()),
        rows_dropped: train.rows_dropped,
    };
    let (train, test) = (Box::new(train), test.map(Box::new));
    let spec = Spec::Logistic { train, test, options: Options { prior_variance, intercept } };
    Ok(Source { spec, sha256: digest, notes, remember: Some(remember) })
}

/// The rows of --test, prepared as those to train on were; `digest` then stands for both files.
fn test_set(
    config: &Config,
    train: &Classification,
    moments: Option<&Moments>,
    notes: &mut Vec<String>,
    digest: &mut String,
) -> Result<Option<Classification>, Error> {
    let Some(path) = &config.test else { return Ok(None) };
    if config.test_fraction.is_some_and(|f| f != 0.0) || config.split_seed.is_some() {
        return Err("--test names a test set, so there is nothing to split; leave --test-fraction and --split-seed out".into());
    }
    let bytes = read(path)?;
    let table = data::read_table(&bytes, &path.display().to_string())?;
    let mut test = data::classification_like(&table, train)?;
    note_dropped(notes, path, test.rows_dropped);
    if let Some(moments) = moments {
        moments.apply(&mut test.features);
    }
    *digest = data::sha256(format!("{digest}{}", data::sha256(&bytes)).as_bytes());
    Ok(Some(test))
}

fn bnn(config: &mut Config) -> Result<Source, Error> {
    let bytes = config.data.as_deref().map(read).transpose()?;
    let images = bytes.as_deref().is_none_or(data::looks_like_idx);
    if images {
        let of_tables = [
            config.target.is_some(),
            config.drop.is_some(),
            config.no_standardize.is_some(),
            config.test.is_some(),
        ];
        if of_tables.contains(&true) {
            return Err(
                "--target, --drop, --no-standardize and --test are for CSV files; leave them out with images"
                    .into(),
            );
        }
        let test_fraction = *config.test_fraction.get_or_insert(0.2);
        let split_seed = *config.split_seed.get_or_insert(0);
        let seed = *config.data_seed.get_or_insert(0);
        let classes = config.classes.get_or_insert_with(|| vec![4, 9]).clone();
        let subsample = Some(*config.subsample.get_or_insert(1000)).filter(|m| *m > 0);
        let seed = u32::try_from(seed)
            .map_err(|_| format!("--data-seed {seed} is beyond 2^32; choose a smaller one"))?;
        let options = TaskOptions { classes: classes.clone(), subsample, seed, test_fraction, split_seed };
        let (task, sha256) = match (bytes, &config.data, &config.labels) {
            (Some(bytes), Some(path), Some(labels)) => {
                let images = data::read_images(&bytes, &path.display().to_string())?;
                let label_bytes = read(labels)?;
                let labels = data::read_labels(&label_bytes, &labels.display().to_string())?;
                let digest = format!("{}{}", data::sha256(&bytes), data::sha256(&label_bytes));
                (ImageTask::new(&images, &labels, &options)?, data::sha256(digest.as_bytes()))
            }
            (Some(_), ..) => {
                return Err("images need their labels; name the IDX file of the labels with --labels".into());
            }
            (None, _, Some(_)) => return Err("--labels belong to images; name those with --data".into()),
            (None, ..) => (ImageTask::mnist(&options)?, data::sha256(data::mnist::IMAGES)),
        };
        let names: Vec<String> = classes.iter().map(u8::to_string).collect();
        let notes = vec![format!("images of {} as classes 0 to {}", names.join(", "), names.len() - 1)];
        let columns = Columns { target: "label".into(), classes: names, features: Vec::new(), dropped: 0 };
        Ok(network(config, task, columns, notes, sha256))
    } else {
        if config.classes.is_some() || config.subsample.is_some() || config.labels.is_some() {
            return Err("--classes, --subsample and --labels are for images in the IDX format; leave them out with a CSV file".into());
        }
        let (bytes, name) =
            (bytes.unwrap_or_default(), config.data.clone().unwrap_or_default().display().to_string());
        let table = data::read_table(&bytes, &name)?;
        let all = data::multiclass(&table, config.target.as_deref(), config.drop.get_or_insert_default())?;
        network_of(config, all, &name, data::sha256(&bytes))
    }
}

fn network_of(
    config: &mut Config,
    mut all: Classification,
    name: &str,
    mut digest: String,
) -> Result<Source, Error> {
    let mut notes = Vec::new();
    config.target = Some(all.target.clone());
    note_dropped(&mut notes, Path::new(name), all.rows_dropped);
    let labelled: Vec<String> =
        all.classes.iter().enumerate().map(|(l, c)| format!("'{c}' is {l}")).collect();
    notes.push(format!("{}: {}", all.target, labelled.join(", ")));
    let inputs = all.feature_names.len();
    let mut moments = Moments { mean: vec![0.0; inputs], std: vec![1.0; inputs] };
    if !*config.no_standardize.get_or_insert(false) {
        moments = Moments::of(&all.features, &all.feature_names)?;
        moments.apply(&mut all.features);
    }
    let rows = all.rows();
    let split = match test_set(config, &all, Some(&moments), &mut notes, &mut digest)? {
        Some(test) => {
            all.features.extend(test.features);
            all.labels.extend(test.labels);
            Split { train: (0..rows).collect(), test: (rows..all.labels.len()).collect() }
        }
        None => {
            let fraction = *config.test_fraction.get_or_insert(0.2);
            data::train_test_split(rows, fraction, *config.split_seed.get_or_insert(0))?
        }
    };
    let task = ImageTask {
        inputs,
        classes: all.classes.len(),
        images: (0..all.labels.len()).collect(),
        features: all.features,
        labels: all.labels,
        mean: moments.mean,
        std: moments.std,
        split,
    };
    let columns = Columns {
        target: all.target,
        classes: all.classes,
        features: all.feature_names,
        dropped: all.rows_dropped,
    };
    Ok(network(config, task, columns, notes, digest))
}

/// Where a network's inputs and labels come from.
struct Columns {
    target: String,
    classes: Vec<String>,
    features: Vec<String>,
    /// Rows that were left out.
    dropped: usize,
}

/// The network for a task.
fn network(
    config: &mut Config,
    task: ImageTask,
    columns: Columns,
    mut notes: Vec<String>,
    sha256: String,
) -> Source {
    let hidden = *config.hidden.get_or_insert(40);
    let products = *config.products.get_or_insert_default();
    let (train, test) = (task.split.train.len(), task.split.test.len());
    notes.push(format!(
        "{train} rows to train on, {test} to test on, {} inputs, {hidden} hidden units",
        task.inputs
    ));
    let Columns { target, classes, features, dropped } = columns;
    let remember = Remember {
        model: "bnn".into(),
        target,
        classes,
        features,
        moments: Some(Moments { mean: task.mean.clone(), std: task.std.clone() }),
        intercept: false,
        inputs: task.inputs,
        hidden,
        train_rows: train,
        test_rows: test,
        rows_dropped: dropped,
    };
    let spec = Spec::Bnn { task: Box::new(task), hidden, products };
    Source { spec, sha256, notes, remember: Some(remember) }
}

fn note_dropped(notes: &mut Vec<String>, file: &Path, dropped: usize) {
    if dropped > 0 {
        notes.push(format!("{}: {dropped} rows with missing values were dropped", file.display()));
    }
}

/// Reads a data file whole.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let cannot = |e| format!("cannot read the data {}: {e}; check the path", path.display()).into();
    std::fs::read(path).map_err(cannot)
}
