//! The generator as one of the models that are built in: images from a folder, an IDX file or memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::files::{Durable, write_atomically};
use motes::memory::{self, Shape, size};
use motes::model::Scalar;
use motes::sentence::foreign_path;
use motes::settings::{InitParticles, Preconditioner};
use motes::{Algorithm, Model, Settings};
use serde_json::Value;

use super::model::{SCALARS, write};
use super::{BatchNorm, Decoder, Encoder, Generator, Network, SHOWN, Targets, pictures, save_weights};
use crate::data::{self, ImageSet, SIDE};
use crate::options::{Flag, Table};
use crate::registry::{self, Defaults, Epochs, Error, Fitted, Given, Placed, Precision, Problem, ThetaRate};

/// The model's line in the table.
pub struct Entry;

/// Its name.
pub const NAME: &str = "generator";
/// Epochs where nobody chooses: those of the authors' notebook, as all other defaults are.
const EPOCHS: u64 = 100;
const BATCH: usize = 128;
const SIGMA: f64 = 0.01;
/// The latent coordinates of an image.
const D_X: usize = 64;
/// Bytes of one image on its way through the network in a training step, and through the inference network.
const BYTES_OF_ONE_IMAGE: [u128; 2] = [900_000, 650_000];
/// Parameters of the network, roughly.
const PARAMETERS: usize = 360_000;
/// The files of images and labels that were given in memory.
const FILES: [&str; 2] = ["images.idx", "labels.idx"];

/// Those that are worth it for networks.
static ALGORITHMS: [&Algorithm; 4] = [&PGD, &ABP, &SHORT_RUN, &VAE];

crate::options! {
    /// Which images there are, and how they are decoded.
    pub struct Options {
        "Data" {
            /// A folder of JPEG or PNG images (shorter side to 32, centre crop), or an IDX file [default: built-in MNIST]
            data: PathBuf => "DIR|IDX";
            /// The labels of an IDX file of images, for `motes synthesize --from labels`
            labels: PathBuf => "IDX";
            /// 1 for grey images, 3 for coloured ones [default: 1, or 3 for a folder]
            channels: usize => "1|3";
            /// The number of images M, from the first on [default: all]
            images: usize => "M";
        }
        "Network" {
            /// The standard deviation of the observation noise [default: 0.01]
            sigma: f64 => "S" signed;
            /// two-pass: running statistics for the particles' gradient, as in the authors' code; one-pass: the batch's, cheaper, a different
            /// algorithm (pgd) [default: two-pass]
            batchnorm: BatchNorm => "HOW";
            /// Passes over all images, instead of steps [default: 100]
            epochs: u64 => "E" [instead of "steps"];
            /// The paper's lambda, instead of theta's rate, which is h lambda M
            lambda: f64 => "L" signed [instead of "theta-rate"];
            /// Steps between pictures of reconstructions and samples; 0 for none but the last [default: an epoch]
            pictures_every: u64 => "n";
        }
    }
}

impl registry::Entry for Entry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "The generator network of the paper, trained on images"
    }

    fn flags(&self) -> &'static [Flag] {
        Options::flags()
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            particles: 10,
            alone: true,
            step_size: 1e-4,
            precision: Precision::F32,
            preconditioner: Preconditioner::Rmsprop,
            init_particles: InitParticles::Prior,
            batch: Some(BATCH),
            theta_rate: Some(ThetaRate::Value(1e-3)),
            ..Defaults::default()
        }
    }

    fn algorithms(&self) -> &'static [&'static Algorithm] {
        &ALGORITHMS
    }

    fn names_data(&self) -> &'static [&'static str] {
        &["data", "images", "channels"]
    }

    fn gives_way(&self) -> &'static [(&'static [&'static str], &'static [&'static str])] {
        &[
            (&["epochs"], &["steps", "burn-in"]),
            (&["lambda"], &["theta-rate"]),
            (&["data"], &["labels", "images"]),
        ]
    }

    fn scalars(&self) -> &'static [Scalar] {
        &SCALARS
    }

    fn shape_before_data(&self, _options: &Table, real_bytes: usize) -> Shape {
        // How many images there are is not known before they are read.
        Shape {
            d_theta: PARAMETERS,
            d_x: D_X,
            groups: 1,
            buffers: 0,
            numerical_m_step: false,
            data_bytes: 0,
            real_bytes,
        }
    }

    fn load(&self, options: Table, given: Given) -> Result<Arc<dyn Problem>, Error> {
        let options = Options::of(&options)?;
        options.refuse_nonsense()?;
        Ok(Arc::new(match given {
            Given::Options => Images::read(options)?,
            Given::Images { set, labels } => {
                let sha256 = String::new();
                Images { given: true, labels, ..Images::of(Arc::new(set), options, sha256) }
            }
            _ => return Err("a generator takes images; give an array of them".into()),
        }))
    }
}

impl Options {
    fn refuse_nonsense(&self) -> Result<(), Error> {
        let sigma = self.sigma.unwrap_or(SIGMA);
        // Outside of this, losses and errors leave the range of numbers.
        if !(1e-9..=1e9).contains(&sigma) {
            return Err(format!("`sigma={sigma}` is not within 1e-9 to 1e9; use for example 0.01").into());
        }
        if let Some(lambda) = self.lambda.filter(|l| !(*l > 0.0 && l.is_finite())) {
            return Err(format!("`lambda={lambda}` is not a positive number; use for example 1e-4").into());
        }
        if self.epochs == Some(0) {
            return Err("`epochs=0` leaves nothing to do; use 1 or more".into());
        }
        Ok(())
    }
}

/// The network before training.
pub fn network(channels: usize, seed: u64) -> Box<dyn Decoder> {
    Box::new(Network::new(channels, seed))
}

/// The channels that are asked for: 3 for a folder of images, 1 for anything else, unless somebody chose.
pub fn channels(options: &Options) -> Result<usize, Error> {
    let folder = options.data.as_ref().is_some_and(|d| d.is_dir());
    match options.channels.unwrap_or(if folder { 3 } else { 1 }) {
        channels @ (1 | 3) => Ok(channels),
        other => {
            Err(format!("`channels={other}` is not possible; use 1 for grey images or 3 for coloured ones")
                .into())
        }
    }
}

/// The memory that a training on so many images takes besides the state of its run.
pub fn bytes_of_a_step(settings: &Settings, images: usize) -> u128 {
    let batch = settings.batch.unwrap_or(images).min(images) as u128;
    let vae = settings.algorithm == &VAE;
    let of_one = BYTES_OF_ONE_IMAGE[0] + if vae { BYTES_OF_ONE_IMAGE[1] } else { 0 };
    batch.saturating_mul(settings.particles as u128).saturating_mul(of_one)
}

/// The images that are asked for.
pub fn images(options: &Options) -> Result<ImageSet, Error> {
    let channels = channels(options)?;
    Ok(match &options.data {
        None => ImageSet::mnist(channels, options.images)?,
        Some(path) => ImageSet::read(path, channels, options.images, &|_, _| {})?,
    })
}

/// The labels of the first images.
pub fn labels(options: &Options, images: usize) -> Result<Vec<u8>, Error> {
    let mut labels = match (&options.data, &options.labels) {
        (None, None) => data::read_labels(data::mnist::LABELS, data::mnist::NAMES[1])?,
        (_, Some(path)) => {
            let bytes = data::read_file(path, "the labels")?;
            data::first_labels(&bytes, &foreign_path(path), images)?
        }
        (Some(_), None) => {
            return Err(
                "the images of this run have no labels; train with `labels`, or use `from=mixture`".into()
            );
        }
    };
    if labels.len() < images {
        let there = labels.len();
        let sentence =
            format!("there are {there} labels for {images} images; give the labels of the same set");
        return Err(sentence.into());
    }
    labels.truncate(images);
    Ok(labels)
}

/// The model with its images.
#[derive(Clone)]
struct Images {
    set: Arc<ImageSet>,
    options: Options,
    sha256: String,
    notes: Vec<String>,
    /// Whether they were given in memory, and their labels, which then come with them.
    given: bool,
    labels: Option<Vec<u8>>,
}

impl Images {
    fn read(options: Options) -> Result<Self, Error> {
        let set = images(&options)?;
        if options.labels.is_some() {
            labels(&options, set.count())?; // they are needed long after the training, but named now
        }
        let sha256 = set.sha256();
        Ok(Images::of(Arc::new(set), options, sha256))
    }

    fn of(set: Arc<ImageSet>, options: Options, sha256: String) -> Self {
        let (count, channels) = (set.count(), set.channels());
        let notes = vec![format!("{count} images of {channels} x {SIDE} x {SIDE} pixels")];
        let options = Options { images: Some(count), channels: Some(channels), ..options };
        Images { set, options, sha256, notes, given: false, labels: None }
    }

    /// Refuses what cannot be trained with.
    fn check(&self, settings: &Settings) -> Result<(), Error> {
        let Settings { algorithm, particles, .. } = settings;
        if !ALGORITHMS.contains(algorithm) {
            let names: Vec<&str> = ALGORITHMS.iter().map(|a| a.name).collect();
            return Err(motes::settings::unknown("algorithm of the generator", algorithm.name, &names).into());
        }
        let (m, batch) = (self.set.count(), settings.batch.unwrap_or(self.set.count()));
        if u32::try_from(m).is_err() {
            return Err(format!("{m} images are more than 2^32; use fewer with `images`").into());
        }
        if *algorithm != &PGD && self.batchnorm() == BatchNorm::OnePass {
            return Err(format!(
                "`batchnorm=one-pass` is a variant of pgd, which {algorithm} does not take; use two-pass"
            )
            .into());
        }
        if m == 1 {
            return Err("a single image has no variance to normalise by; train on two or more".into());
        }
        if *particles == 1 && batch > 0 && (m % batch == 1 || batch == 1) {
            return Err(format!(
                "with `batch={batch}` the last batch of {m} images holds a single one, over which batch normalisation has no variance; choose another `batch`"
            )
            .into());
        }
        let (rows, need) = (batch.min(m).saturating_mul(*particles), bytes_of_a_step(settings, m));
        match memory::available().filter(|there| need > *there) {
            Some(there) => Err(format!(
                "this training needs about {} for the network, which decodes {rows} images at once, but {} are available; use fewer `particles` or a smaller `batch`",
                size(need),
                size(there)
            )
            .into()),
            None => Ok(()),
        }
    }

    fn batchnorm(&self) -> BatchNorm {
        self.options.batchnorm.unwrap_or(BatchNorm::TwoPass)
    }

    /// The trained network.
    fn trained(&self, fitted: &Fitted<'_>) -> Box<dyn Decoder> {
        let mut network = network(self.set.channels(), 0);
        write(network.parameters_mut(), fitted.theta);
        write(network.statistics_mut(), fitted.buffers);
        network
    }

    /// Shows what a network has learnt of the first images.
    fn picture(
        &self,
        dir: &Path,
        seed: u64,
        fitted: &Fitted<'_>,
        network: &mut dyn Decoder,
    ) -> Result<(), Error> {
        let shown = self.set.count().min(SHOWN);
        let (y, x) = (self.set.values(0..shown), (fitted.latents)(shown));
        Ok(pictures::write(dir, self.set.channels(), seed, network, &y, &x)?)
    }
}

impl Problem for Images {
    fn name(&self) -> &str {
        NAME
    }

    fn defaults(&self) -> Defaults {
        let m = self.set.count();
        let base = registry::Entry::defaults(&Entry);
        let epochs = Epochs { count: self.options.epochs.unwrap_or(EPOCHS), groups: m };
        let theta_rate = match self.options.lambda {
            Some(lambda) => Some(ThetaRate::TimesStepSize(lambda * m as f64)),
            None => base.theta_rate,
        };
        Defaults { batch: Some(BATCH.min(m)), epochs: Some(epochs), theta_rate, ..base }
    }

    fn options(&self) -> Table {
        // What epochs and lambda amount to is among the settings of the run.
        let options = Options {
            sigma: Some(self.options.sigma.unwrap_or(SIGMA)),
            batchnorm: Some(self.batchnorm()),
            epochs: None,
            lambda: None,
            ..self.options.clone()
        };
        options.table()
    }

    fn sha256(&self) -> Option<&str> {
        (!self.given).then_some(&*self.sha256)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn single(&self, settings: &Settings) -> Result<Arc<dyn Model<f32>>, Error> {
        self.check(settings)?;
        let channels = self.set.channels();
        let make = Box::new(move |seed| network(channels, seed));
        let sigma = self.options.sigma.unwrap_or(SIGMA);
        let model = Generator::new(self.set.clone(), make, sigma, self.batchnorm())?;
        Ok(Arc::new(match settings.algorithm == &VAE {
            true => model.with_inference(Box::new(move |seed| Box::new(Encoder::new(channels, seed)))),
            false => model,
        }))
    }

    fn double(&self, _: &Settings) -> Result<Arc<dyn Model<f64>>, Error> {
        Err("the generator works in single precision; leave `precision` out or use f32".into())
    }

    fn place(&self, dir: &Path) -> Result<Option<Placed>, Error> {
        if !self.given {
            return Ok(None);
        }
        let mut files = vec![(FILES[0], self.set.to_idx())];
        let mut options = Table::from_iter([("data".to_string(), absolute(dir, FILES[0])?)]);
        if let Some(labels) = &self.labels {
            options.insert("labels".into(), absolute(dir, FILES[1])?);
            let mut idx = vec![0, 0, 8, 1];
            idx.extend((labels.len() as u32).to_be_bytes());
            idx.extend_from_slice(labels);
            files.push((FILES[1], idx));
        }
        Ok(Some(Placed { files, options, sha256: self.set.sha256() }))
    }

    fn images(&self) -> Option<&ImageSet> {
        Some(&self.set)
    }

    fn with_options(&self, options: Table) -> Result<Arc<dyn Problem>, Error> {
        let Options { sigma, batchnorm, epochs, lambda, pictures_every, .. } = Options::of(&options)?;
        let options = Options { sigma, batchnorm, epochs, lambda, pictures_every, ..self.options.clone() };
        options.refuse_nonsense()?;
        Ok(Arc::new(Images { options, ..self.clone() }))
    }

    fn shows_every(&self, settings: &Settings) -> u64 {
        let epoch = self.set.count().div_ceil(settings.batch.unwrap_or(usize::MAX).max(1)) as u64;
        self.options.pictures_every.unwrap_or(epoch)
    }

    fn show(&self, dir: &Path, seed: u64, fitted: &Fitted<'_>) -> Result<(), Error> {
        self.picture(dir, seed, fitted, &mut *self.trained(fitted))
    }

    fn leave(&self, dir: &Path, seed: u64, fitted: &Fitted<'_>) -> Result<(), Error> {
        let mut network = self.trained(fitted);
        let weights = dir.join("weights.safetensors");
        write_atomically(&weights, Durable::No, |out| save_weights(&*network, out))?;
        self.picture(dir, seed, fitted, &mut *network)
    }
}

fn absolute(dir: &Path, name: &str) -> Result<Value, Error> {
    let path = std::path::absolute(dir.join(name))
        .map_err(|e| format!("cannot use {}: {e}; check the path", foreign_path(dir)))?;
    match path.to_str() {
        Some(path) => Ok(path.into()),
        None => {
            Err(format!("the name of {} is not UTF-8; choose another directory", foreign_path(dir)).into())
        }
    }
}
