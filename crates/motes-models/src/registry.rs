//! The models that are built in: each is a folder and a line of [`MODELS`].

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use motes::algorithms::PGD;
use motes::memory::Shape;
use motes::model::Scalar;
use motes::settings::{InitParticles, Preconditioner, unknown};
use motes::summary::quantile;
use motes::{Algorithm, Model, ModelError, Settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data::remember::Remember;
use crate::data::rows::Origin;
use crate::data::{Coding, DataError, ImageSet, LabelledRows};
use crate::options::{Flag, Table};
use crate::{bnn, generator, hierarchical, logistic, multinomial};

/// All models, in the order in which people are told of them.
pub static MODELS: &[&dyn Entry] =
    &[&hierarchical::Entry, &logistic::Entry, &multinomial::Entry, &bnn::Entry, &generator::Entry];

/// The model that has a name.
pub fn find(name: &str) -> Option<&'static dyn Entry> {
    MODELS.iter().find(|entry| entry.name() == name).copied()
}

/// The names of all models.
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|entry| entry.name()).collect()
}

/// A model that is built in.
pub trait Entry: Sync {
    /// The word that names it everywhere.
    fn name(&self) -> &'static str;

    /// What it is, in a few words.
    fn about(&self) -> &'static str;

    /// Its own options.
    fn flags(&self) -> &'static [Flag];

    /// What it suggests for a run where nothing was chosen.
    fn defaults(&self) -> Defaults;

    /// The algorithms that it can be fitted by, as far as the model and not its options decide.
    fn algorithms(&self) -> &'static [&'static Algorithm] {
        motes::ALGORITHMS
    }

    /// Which options choose the data: a config that others override is no longer bound to the data it was written for.
    fn names_data(&self) -> &'static [&'static str];

    /// Pairs of options: if some of the first are chosen anew, what was written down of the second, which may be a run's,
    /// gives way.
    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        &[]
    }

    /// What the model wants in the trace, so that a trace can be read without it.
    fn scalars(&self) -> &'static [Scalar] {
        &[]
    }

    /// The sizes of a run, as far as they are known before any data are read or made.
    fn shape_before_data(&self, _options: &Table, real_bytes: usize) -> Shape {
        Shape {
            d_theta: 1,
            d_x: 1,
            groups: 1,
            buffers: 0,
            numerical_m_step: false,
            data_bytes: 0,
            real_bytes,
        }
    }

    /// Reads, generates or takes the data.
    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error>;

    /// How new rows are predicted, from what a summary remembers of the data; `None` for a model that predicts nothing.
    /// What contradicts itself is refused in a clause.
    fn predictor(&self, _data: &Value) -> Result<Option<Box<dyn Predictor>>, String> {
        Ok(None)
    }
}

/// Where data come from.
pub enum Given {
    /// From where the options say.
    Options,
    /// A value for each latent variable.
    Observations(Vec<f64>),
    /// Columns with labels.
    Rows(LabelledRows),
    /// Images.
    Images {
        /// They themselves.
        set: ImageSet,
        /// A label for each.
        labels: Option<Vec<u8>>,
    },
}

/// A model with its data, in no precision yet.
pub trait Problem: Send + Sync {
    /// The name of the model.
    fn name(&self) -> &str;

    /// What the model suggests where nothing was chosen.
    fn defaults(&self) -> Defaults {
        find(self.name()).map_or_else(Defaults::default, |entry| entry.defaults())
    }

    /// The model's options with every default written out.
    fn options(&self) -> Table;

    /// Where its rows came from, for a model of labelled rows: what follows is then known from that.
    fn rows(&self) -> Option<&Origin> {
        None
    }

    /// The digest of data that were read or generated.
    fn sha256(&self) -> Option<&str> {
        self.rows().and_then(Origin::sha256)
    }

    /// What people should know about the data, in a line each.
    fn notes(&self) -> &[String] {
        self.rows().map_or(&[], |rows| &rows.notes)
    }

    /// The model in formulas, a line each.
    fn formula(&self) -> Vec<String> {
        Vec::new()
    }

    /// What predictions need later; part of summary.json.
    fn remember(&self) -> Option<Value> {
        self.rows().map(|rows| crate::options::write(&rows.remember))
    }

    /// The model with particles in single precision, as runs with these settings need it.
    fn single(&self, settings: &Settings) -> Result<Arc<dyn Model<f32>>, Error>;

    /// The model with particles in double precision.
    fn double(&self, settings: &Settings) -> Result<Arc<dyn Model<f64>>, Error>;

    /// The files that stand for data that were given in memory, if they were.
    fn place(&self, dir: &Path) -> Result<Option<Placed>, Error> {
        self.rows().map_or(Ok(None), |rows| rows.place(dir))
    }

    /// The images that it is about, if it is about images.
    fn images(&self) -> Option<&ImageSet> {
        None
    }

    /// The same data with other options, where these have nothing to do with reading them.
    fn with_options(&self, _options: Table) -> Result<Arc<dyn Problem>, Error> {
        Err(format!("the options of the model {} are chosen with its data", self.name()).into())
    }

    /// Steps between [`Problem::show`]; 0 for never.
    fn shows_every(&self, _settings: &Settings) -> u64 {
        0
    }

    /// Writes what people want to look at while a run goes on into its directory.
    fn show(&self, _dir: &Path, _seed: u64, _fitted: &Fitted<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Writes what a finished run leaves besides what every run does.
    fn leave(&self, _dir: &Path, _seed: u64, _fitted: &Fitted<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// What a run has come to.
pub struct Fitted<'a> {
    /// The parameters.
    pub theta: &'a [f64],
    /// What the model remembers from step to step.
    pub buffers: &'a [f64],
    /// The first particle of each of the first so many groups.
    pub latents: &'a dyn Fn(usize) -> Vec<f32>,
}

/// Data that were given in memory, as files of a run directory.
pub struct Placed {
    /// Names and contents.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The options that name them.
    pub options: Table,
    /// Their digest.
    pub sha256: String,
}

/// How new rows are predicted.
pub trait Predictor: Send + Sync {
    /// The coordinates of a particle.
    fn width(&self) -> usize;

    /// What is known of the data.
    fn remember(&self) -> &Remember;

    /// The numbers that describe a row.
    fn inputs(&self) -> usize {
        self.remember().inputs
    }

    /// The classes, in the order of their probabilities.
    fn classes(&self) -> &[String] {
        &self.remember().classes
    }

    /// The columns that rows are made of; none for images.
    fn columns(&self) -> &Coding {
        &self.remember().columns
    }

    /// The names of a particle's coordinates, where they follow from those of the columns.
    fn coordinates(&self) -> Option<Vec<String>> {
        None
    }

    /// Brings rows to the scale that the model was trained on.
    fn scale(&self, rows: &mut [f64]) {
        if let Some(moments) = &self.remember().moments {
            moments.apply(rows);
        }
    }

    /// What particles say about rows, with intervals at a level.
    fn predict(&self, particles: &[f64], rows: &[f64], level: f64) -> Result<Predicted, Error>;

    /// The coefficients of a regression on the scale of its columns.
    fn coefficients(&self) -> Option<Vec<Linear>> {
        None
    }
}

/// What particles say about rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicted {
    /// The mean probability of each class, row by row.
    pub probabilities: Vec<f64>,
    /// The interval of the probability of the likeliest class of each row, over the particles.
    pub intervals: Vec<[f64; 2]>,
}

impl Predicted {
    /// Adds a row: the mean probabilities, and what each particle says about the likeliest class, which is put in order.
    pub fn push(&mut self, probabilities: &[f64], of_class: &mut [f64], level: f64) {
        of_class.sort_unstable_by(f64::total_cmp);
        let tail = 0.5 - 0.5 * level;
        self.probabilities.extend_from_slice(probabilities);
        self.intervals.push([tail, 1.0 - tail].map(|q| quantile(of_class, q).unwrap_or(f64::NAN)));
    }
}

/// A coefficient as a sum over the coordinates of a particle.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// The class whose odds it moves, where there are more than two.
    pub class: Option<String>,
    /// The feature.
    pub name: String,
    /// Coordinates and what they are multiplied by, for features on the scale of their columns.
    pub original: Vec<(usize, f64)>,
    /// The same for standardised features.
    pub standardised: Vec<(usize, f64)>,
}

/// What a model suggests where nothing was chosen.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// The algorithm.
    pub algorithm: &'static Algorithm,
    /// Where particles start that are fitted by auto.
    pub auto_start: InitParticles,
    /// N.
    pub particles: usize,
    /// K.
    pub steps: u64,
    /// h, where auto finds no smaller one.
    pub step_size: f64,
    /// Of the particles.
    pub precision: Precision,
    /// For algorithms whose theta takes gradient steps.
    pub preconditioner: Preconditioner,
    /// Where particles begin, for algorithms that have any.
    pub init_particles: InitParticles,
    /// Whether mean-field moves its Gaussian by Adam.
    pub variational_adam: bool,
    /// Whether algorithms that draw a group's particles by transitions or anew in each step draw one, not N.
    pub alone: bool,
    /// Groups in a mini-batch.
    pub batch: Option<usize>,
    /// Where theta has a step size of its own.
    pub theta_rate: Option<ThetaRate>,
    /// How often all groups are visited, where that decides on the number of steps.
    pub epochs: Option<Epochs>,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            particles: 100,
            steps: 400,
            step_size: 0.01,
            precision: Precision::F64,
            preconditioner: Preconditioner::None,
            algorithm: &PGD,
            auto_start: InitParticles::Prior,
            init_particles: InitParticles::Value(0.0),
            variational_adam: false,
            alone: false,
            batch: None,
            theta_rate: None,
            epochs: None,
        }
    }
}

/// A step size of theta.
#[derive(Clone, Copy, Debug)]
pub enum ThetaRate {
    /// A number.
    Value(f64),
    /// So many times h.
    TimesStepSize(f64),
}

/// Passes over all groups.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// How many.
    pub count: u64,
    /// M.
    pub groups: usize,
}

impl Epochs {
    /// The steps that they take with batches of so many groups.
    pub fn steps(&self, batch: Option<usize>) -> u64 {
        let batch = batch.unwrap_or(self.groups).clamp(1, self.groups.max(1));
        self.count.saturating_mul(self.groups.div_ceil(batch) as u64)
    }
}

/// The precision of particles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Single.
    F32,
    /// Double.
    F64,
}

impl FromStr for Precision {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "f32" => Ok(Precision::F32),
            "f64" => Ok(Precision::F64),
            _ => Err(unknown("precision", word, &["f32", "f64"])),
        }
    }
}

crate::settings!(Precision: Text of ["f32", "f64"]);

/// A problem that cannot be made of what was chosen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Options that cannot be chosen so; the sentence ends with the remedy.
    #[error("{0}")]
    Refused(String),
    /// An option whose value is not one.
    #[error("{key}: {problem}{}", if problem.contains(';') { "" } else { "; correct that setting" })]
    Setting {
        /// Its name in a config file.
        key: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// Data that cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file that cannot be written.
    #[error(transparent)]
    File(#[from] motes::Error),
    /// A model that cannot be made of them.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl From<String> for Error {
    fn from(sentence: String) -> Self {
        Error::Refused(sentence)
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Self {
        Error::Refused(sentence.into())
    }
}

/// Reads a data file whole.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(crate::data::read_file(path, "the data")?)
}
