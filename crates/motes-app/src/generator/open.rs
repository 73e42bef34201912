//! What a training and the tasks after it share: images, networks, finished runs, pictures.

use std::path::Path;

use motes::memory::size;
use motes::noise::{Noise, Purpose};
use motes::npz;
use motes_models::data::{self, ImageSet, SIDE, write_grid};
use motes_models::generator::{
    Algorithm, Decoder, Encoder, Inference, Network, POSTERIOR_DRAWS, Settings, Targets, load_weights,
};

use super::config::GeneratorConfig;

use crate::Error;

/// The latent coordinates of an image.
const D_X: usize = 64;
/// Images in a picture.
pub const SHOWN: usize = 64;
/// Columns of a picture.
pub const COLUMNS: usize = 16;

/// The network before training.
pub fn network(channels: usize, seed: u64) -> Box<dyn Decoder> {
    Box::new(Network::new(channels, seed))
}

/// The inference network of a VAE before training.
pub fn encoder(channels: usize, seed: u64) -> Box<dyn Inference> {
    Box::new(Encoder::new(channels, seed))
}

/// The channels that are asked for: 3 for a folder of images, 1 for anything else, unless somebody chose.
pub fn channels(config: &GeneratorConfig) -> Result<usize, Error> {
    let folder = config.data.as_ref().is_some_and(|d| d.is_dir());
    match config.channels.unwrap_or(if folder { 3 } else { 1 }) {
        channels @ (1 | 3) => Ok(channels),
        other => {
            Err(format!("`channels={other}` is not possible; use 1 for grey images or 3 for coloured ones")
                .into())
        }
    }
}

/// Hears how many images have been decoded, of how many.
pub type Told<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// For those who do not want to hear.
pub const UNTOLD: Told<'static> = &|_, _| {};

/// The images to train on.
pub fn images(config: &GeneratorConfig, channels: usize, told: Told<'_>) -> Result<ImageSet, Error> {
    Ok(match &config.data {
        None => ImageSet::mnist(channels, config.images)?,
        Some(path) => ImageSet::read(path, channels, config.images, told)?,
    })
}

/// The memory that a training needs, with its arithmetic.
pub struct Estimate {
    /// In bytes.
    pub total: u128,
    /// How it comes about.
    pub sentence: String,
}

/// Bytes of one image on its way through the network in a training step, and through the inference network.
const BYTES_OF_ONE_IMAGE: [u128; 2] = [900_000, 650_000];
/// Parameters of the network and of the inference network, roughly.
const PARAMETERS: [u128; 2] = [360_000, 1_120_000];

/// Estimates it before anything large is allocated.
pub fn memory_estimate(settings: &Settings, images: usize, channels: usize) -> Estimate {
    let vae = settings.algorithm == Algorithm::Vae;
    let n = if vae { POSTERIOR_DRAWS } else { settings.particles } as u128;
    let m = images as u128;
    // The cloud and what of it a checkpoint holds while it is written; other algorithms keep less.
    let cloud = n.saturating_mul(m).saturating_mul(2 * 4 * D_X as u128);
    let pixels = m * (channels * SIDE * SIDE) as u128;
    let weights = 16 * (PARAMETERS[0] + if vae { PARAMETERS[1] } else { 0 });
    let batch = (settings.batch.min(images) as u128).saturating_mul(settings.particles as u128);
    let of_one = BYTES_OF_ONE_IMAGE[0] + if vae { BYTES_OF_ONE_IMAGE[1] } else { 0 };
    let activations = batch.saturating_mul(of_one);
    let total = [cloud, pixels, weights, activations].iter().fold(0u128, |a, b| a.saturating_add(*b));
    let sentence = format!(
        "about {}: {n} particles x {m} images x {D_X} coordinates x 4 bytes, twice while a checkpoint is written, = {} for clouds, {} for images, {batch} decoded at once = {} for the network",
        size(total),
        size(cloud),
        size(pixels),
        size(activations + weights)
    );
    Estimate { total, sentence }
}

/// The pictures of a training that goes on.
pub struct Pictures<'a> {
    /// The run directory.
    pub dir: &'a Path,
    /// 1 or 3.
    pub channels: usize,
    /// Of the samples' latents.
    pub seed: u64,
}

impl Pictures<'_> {
    /// Writes reconstructions of these images from their latents, and samples from the prior, always the same latents.
    pub fn write(&self, decoder: &mut dyn Decoder, y: &[f32], x: &[f32]) -> Result<(), Error> {
        let (d_x, d_y) = (decoder.d_x(), decoder.d_y());
        let count = (y.len() / d_y).min(x.len() / d_x).min(SHOWN);
        let decoded = decode(decoder, &x[..count * d_x]);
        let dir = self.dir.join("pictures");
        std::fs::create_dir_all(&dir).map_err(motes::Error::io("make", &dir))?;
        let rows = interleave(&[&y[..count * d_y], &decoded], d_y, COLUMNS);
        write_grid(&dir.join("reconstructions.png"), &rows, self.channels, COLUMNS)?;
        let mut latents = vec![0.0; SHOWN * d_x];
        Noise::new(self.seed, Purpose::Pictures).normals_f32(0, 0, &mut latents);
        let samples = decode(decoder, &latents);
        Ok(write_grid(&dir.join("samples.png"), &samples, self.channels, COLUMNS)?)
    }
}

/// Decodes any number of latents, a part at a time.
pub fn decode(decoder: &mut dyn Decoder, x: &[f32]) -> Vec<f32> {
    const PART: usize = 128;
    let (d_x, d_y) = (decoder.d_x(), decoder.d_y());
    let mut images = vec![0.0; x.len() / d_x * d_y];
    for (x, images) in x.chunks(PART * d_x).zip(images.chunks_mut(PART * d_y)) {
        decoder.decode(x, images);
    }
    images
}

/// Puts equally many images of several kinds below each other, row by row of a grid.
pub fn interleave(kinds: &[&[f32]], d_y: usize, columns: usize) -> Vec<f32> {
    let rows = kinds[0].len().div_ceil(columns * d_y);
    let mut out = Vec::new();
    for row in 0..rows {
        for kind in kinds {
            let part = &kind[row * columns * d_y..((row + 1) * columns * d_y).min(kind.len())];
            out.extend_from_slice(part);
            // A short last row is filled up with white.
            if rows > 1 {
                out.resize(out.len() + columns * d_y - part.len(), 1.0);
            }
        }
    }
    out
}

/// A finished run.
pub struct Trained {
    /// Its config.
    pub config: GeneratorConfig,
    /// 1 or 3.
    pub channels: usize,
    /// The network.
    pub decoder: Box<dyn Decoder>,
    /// `[n][M][d_x]`.
    pub particles: Vec<f32>,
    /// How many it was trained on.
    pub images: usize,
}

impl Trained {
    /// Opens a run directory.
    pub fn open(dir: &Path) -> Result<Trained, Error> {
        let file = dir.join("config.toml");
        if !super::is_config(&file) {
            return Err(format!(
                "{} is not the run of a generator; give the directory that `motes fit generator` named",
                dir.display()
            )
            .into());
        }
        let config = GeneratorConfig::read(&file)?;
        let channels = channels(&config)?;
        let weights = dir.join("weights.safetensors");
        let bytes = std::fs::read(&weights).map_err(|e| {
            format!(
                "cannot read {}: {e}; finish the training with `motes resume {}`",
                weights.display(),
                dir.display()
            )
        })?;
        let mut decoder = network(channels, 0);
        let again = format!("write it again with `motes resume {}`", dir.display());
        load_weights(&mut *decoder, &bytes).map_err(|e| format!("{} {e}; {again}", weights.display()))?;
        let posterior = dir.join("posterior.npz");
        let damaged = |e: String| format!("{} {e}; {again}", posterior.display());
        let reader = std::fs::File::open(&posterior).map_err(|e| damaged(format!("cannot be read ({e})")))?;
        let particles = npz::read_npz(std::io::BufReader::new(reader), "particles").map_err(damaged)?;
        let &[_, images, d_x] = particles.shape.as_slice() else {
            return Err(damaged("has particles of another shape".into()).into());
        };
        if d_x != decoder.d_x() || images == 0 {
            return Err(damaged("has particles of another shape".into()).into());
        }
        let particles = particles.values.iter().map(|v| *v as f32).collect();
        Ok(Trained { config, channels, decoder, particles, images })
    }

    /// The components of a mixture that the particles are enough for.
    pub fn few_components(&self) -> usize {
        let d_x = self.decoder.d_x();
        (self.particles.len() / d_x / (2 * d_x)).clamp(1, 100)
    }

    /// The images that it was trained on, as they are now.
    pub fn training_images(&self) -> Result<ImageSet, Error> {
        let set = images(&self.config, self.channels, UNTOLD)?;
        match &self.config.data_sha256 {
            Some(sha) if *sha != set.sha256() => {
                Err("the images have changed since the training (their SHA-256 differs); restore them".into())
            }
            _ => Ok(set),
        }
    }

    /// Images that it was not trained on.
    pub fn test_images(&self) -> Result<ImageSet, Error> {
        let Some(path) = &self.config.data else {
            return Ok(ImageSet::mnist_test(self.channels)?);
        };
        let all = ImageSet::read(path, self.channels, None, UNTOLD)?;
        let rest = all.after(self.images);
        if rest.count() == 0 {
            return Err(format!(
                "all images of {} were trained on; name others with `images`",
                path.display()
            )
            .into());
        }
        Ok(rest)
    }

    /// The labels of the images that it was trained on.
    pub fn labels(&self) -> Result<Vec<u8>, Error> {
        labels(&self.config, self.images)
    }
}

/// The labels of the first images of a config.
pub fn labels(config: &GeneratorConfig, images: usize) -> Result<Vec<u8>, Error> {
    let labels = match (&config.data, &config.labels) {
        (None, None) => data::read_labels(data::mnist::LABELS, data::mnist::NAMES[1]),
        (_, Some(path)) => {
            let bytes = data::read_file(path, "the labels").map_err(|e| e.to_string())?;
            data::first_labels(&bytes, &path.display().to_string(), images)
        }
        (Some(_), None) => {
            return Err(
                "the images of this run have no labels; train with `labels`, or use `from=mixture`".into()
            );
        }
    };
    let mut labels = labels?;
    if labels.len() < images {
        return Err(format!(
            "there are {} labels for {images} images; give the labels of the same set",
            labels.len(),
        )
        .into());
    }
    labels.truncate(images);
    Ok(labels)
}
