//! A finished run of a generator, read from its directory.

use std::path::Path;

use motes::npz;
use motes::sentence::foreign_path;
use motes_models::data::ImageSet;
use motes_models::generator::{self, Decoder, NAME, Options, Targets, load_weights};

use super::tasks::few_components;
use crate::Error;
use crate::config::Config;

/// A finished run.
pub struct Trained {
    /// What was chosen for it.
    pub options: Options,
    /// The digest of its images.
    pub data_sha256: Option<String>,
    /// 1 or 3.
    pub channels: usize,
    /// The network.
    pub decoder: Box<dyn Decoder>,
    /// `[n][M][d_x]`.
    pub particles: Vec<f32>,
    /// How many it was trained on.
    pub images: usize,
    /// Of images that were given in memory: their labels, if they have any.
    pub given: Option<Option<Vec<u8>>>,
}

impl Trained {
    /// Opens a run directory.
    pub fn open(dir: &Path) -> Result<Trained, Error> {
        let config = Config::read(&dir.join("config.toml")).ok().filter(|config| config.model == NAME);
        let config = config.ok_or_else(|| {
            format!(
                "{} is not the run of a generator; give the directory that `motes fit generator` named",
                foreign_path(dir)
            )
        })?;
        let options = Options::of(&config.options)?;
        let channels = generator::channels(&options)?;
        let weights = dir.join("weights.safetensors");
        let bytes = std::fs::read(&weights).map_err(|e| {
            format!(
                "cannot read {}: {e}; finish the training with `motes resume {}`",
                foreign_path(&weights),
                foreign_path(dir)
            )
        })?;
        let mut decoder = generator::network(channels, 0);
        let again = format!("write it again with `motes resume {}`", foreign_path(dir));
        load_weights(&mut *decoder, &bytes)
            .map_err(|e| format!("{} {e}; {again}", foreign_path(&weights)))?;
        let posterior = dir.join("posterior.npz");
        let damaged = |e: String| format!("{} {e}; {again}", foreign_path(&posterior));
        let reader = std::fs::File::open(&posterior).map_err(|e| damaged(format!("cannot be read ({e})")))?;
        let particles = npz::read_npz(std::io::BufReader::new(reader), "particles").map_err(damaged)?;
        let &[_, images, d_x] = particles.shape.as_slice() else {
            return Err(damaged("has particles of another shape".into()).into());
        };
        if d_x != decoder.d_x() || images == 0 {
            return Err(damaged("has particles of another shape".into()).into());
        }
        let particles = particles.values.iter().map(|v| *v as f32).collect();
        let data_sha256 = config.data_sha256;
        Ok(Trained { options, data_sha256, channels, decoder, particles, images, given: None })
    }

    /// The components of a mixture that the particles are enough for.
    pub fn few_components(&self) -> usize {
        let d_x = self.decoder.d_x();
        few_components(self.particles.len() / d_x, d_x)
    }

    /// The images that it was trained on, as they are now.
    pub fn training_images(&self) -> Result<ImageSet, Error> {
        let set = generator::images(&self.options)?;
        match &self.data_sha256 {
            Some(sha) if *sha != set.sha256() => {
                Err("the images have changed since the training (their SHA-256 differs); restore them".into())
            }
            _ => Ok(set),
        }
    }

    /// Images that it was not trained on.
    pub fn test_images(&self) -> Result<ImageSet, Error> {
        if self.given.is_some() {
            return Err("all images of this fit were trained on; name others with `images`".into());
        }
        let Some(path) = &self.options.data else {
            return Ok(ImageSet::mnist_test(self.channels)?);
        };
        let all = ImageSet::read(path, self.channels, None, &|_, _| {})?;
        let rest = all.after(self.images);
        if rest.count() == 0 {
            return Err(format!(
                "all images of {} were trained on; name others with `images`",
                foreign_path(path)
            )
            .into());
        }
        Ok(rest)
    }

    /// The labels of the images that it was trained on.
    pub fn labels(&self) -> Result<Vec<u8>, Error> {
        match &self.given {
            Some(Some(labels)) => Ok(labels.clone()),
            Some(None) => {
                Err("the images of this fit have no labels; give `labels`, or use `from=mixture`".into())
            }
            None => Ok(generator::labels(&self.options, self.images)?),
        }
    }
}
