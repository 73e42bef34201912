//! What a trained generator can do, whoever asks: fill holes, and draw latents to make images from.

use std::path::Path;

use motes::Flow;
use motes::sentence::foreign;
use motes::settings::unknown;
use motes_models::data::{ImageSet, SIDE};
use motes_models::generator::{Decoder, Mixture, Search, inpaint as search_latents};

use super::Trained;

use crate::Error;

/// The paper's hole.
pub const HOLE: &str = "10,10,22,22";

/// Where latents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// N(0, I)
    Prior,
    /// One Gaussian fitted to the particles
    Gaussian,
    /// A mixture of Gaussians fitted to the particles
    Mixture,
    /// One Gaussian for each label
    Labels,
}

impl Source {
    /// All of them, with their names and what they are.
    pub const ALL: [(Source, &'static str, &'static str); 4] = [
        (Source::Prior, "prior", "N(0, I)"),
        (Source::Gaussian, "gaussian", "One Gaussian fitted to the particles"),
        (Source::Mixture, "mixture", "A mixture of Gaussians fitted to the particles"),
        (Source::Labels, "labels", "One Gaussian for each label"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Source::ALL.iter().find(|(source, ..)| *source == self).map_or("", |(_, name, _)| name)
    }
}

impl std::str::FromStr for Source {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Source::ALL.iter().find(|(_, name, _)| *name == word);
        let names = Source::ALL.map(|(_, name, _)| name);
        found.map(|(source, ..)| *source).ok_or_else(|| unknown("source of latents", word, &names))
    }
}

/// The mean squared difference of the values that count.
pub fn mean_squared_error(a: &[f32], b: &[f32], counts: impl Fn(usize) -> bool) -> f64 {
    let (mut sum, mut n) = (0.0, 0usize);
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        if counts(i) {
            sum += f64::from(a - b).powi(2);
            n += 1;
        }
    }
    sum / n.max(1) as f64
}

/// Which of the 32 x 32 pixels are missing.
pub fn hole(mask: &str) -> Result<Vec<bool>, Error> {
    let named = foreign(mask);
    let wrong = || {
        format!(
            "`mask={named}` is neither x0,y0,x1,y1 within 0 to {SIDE} nor an image; write for example 10,10,22,22"
        )
    };
    let numbers: Result<Vec<usize>, _> = mask.split(',').map(|n| n.trim().parse()).collect();
    let hole: Vec<bool> = match numbers.as_deref() {
        Ok(&[x0, y0, x1, y1]) if x0 < x1 && y0 < y1 && x1 <= SIDE && y1 <= SIDE => (0..SIDE * SIDE)
            .map(|i| (x0..x1).contains(&(i % SIDE)) && (y0..y1).contains(&(i / SIDE)))
            .collect(),
        Ok(_) => return Err(wrong().into()),
        Err(_) if Path::new(mask).is_file() => {
            let set = ImageSet::read(Path::new(mask), 1, Some(1), &|_, _| {})?;
            set.values(0..1).iter().map(|v| *v > 0.0).collect()
        }
        Err(_) => return Err(wrong().into()),
    };
    if !hole.contains(&true) {
        return Err(
            format!("`mask={named}` has no hole; white pixels of an image mark what is missing").into()
        );
    }
    if hole.iter().all(|h| *h) {
        return Err(format!("`mask={named}` leaves no pixel to go by; choose a smaller hole").into());
    }
    Ok(hole)
}

/// Images whose holes were filled.
pub struct Filled {
    /// With grey holes.
    pub masked: Vec<f32>,
    /// What the latents that were found decode to.
    pub images: Vec<f32>,
    /// The mean squared error over all pixels, the seen ones too, as in the paper.
    pub mse: f64,
    /// The same over the hole alone.
    pub mse_hole: f64,
}

impl Filled {
    /// Searches for them; `None` if `told`, which hears how many are done, stops the search.
    pub fn of(
        decoder: &mut dyn Decoder,
        original: &[f32],
        hole: &[bool],
        search: &Search,
        told: &mut dyn FnMut(usize) -> Flow,
    ) -> Option<Filled> {
        let missing = |i: usize| hole[i % (SIDE * SIDE)];
        let seen: Vec<bool> = (0..decoder.d_y()).map(|i| !missing(i)).collect();
        let images = search_latents(decoder, original, &seen, search, told)?.images;
        let masked = original.iter().enumerate().map(|(i, v)| if missing(i) { 0.0 } else { *v }).collect();
        let mse = mean_squared_error(original, &images, |_| true);
        let mse_hole = mean_squared_error(original, &images, missing);
        Some(Filled { masked, images, mse, mse_hole })
    }
}

/// Refuses a number of components where there are none.
pub fn check_components(source: Source, components: Option<usize>) -> Result<(), Error> {
    match components {
        Some(_) if source != Source::Mixture => {
            Err("`components` belongs to `from=mixture`; leave it out".into())
        }
        _ => Ok(()),
    }
}

/// What latents are drawn from.
pub fn mixture(
    run: &Trained,
    source: Source,
    components: Option<usize>,
    seed: u64,
) -> Result<Mixture, Error> {
    mixture_of(&run.particles, run.decoder.d_x(), &|| run.labels(), source, components, seed)
}

/// The same for particles whose labels, which may have to be read, repeat themselves.
pub fn mixture_of(
    particles: &[f32],
    d_x: usize,
    labels: &dyn Fn() -> Result<Vec<u8>, Error>,
    source: Source,
    components: Option<usize>,
    seed: u64,
) -> Result<Mixture, Error> {
    check_components(source, components)?;
    Ok(match source {
        Source::Prior => Mixture::prior(d_x),
        Source::Gaussian => Mixture::gaussian(particles, d_x)?,
        Source::Labels => Mixture::by_label(particles, d_x, &labels()?)?,
        Source::Mixture => {
            let components = components.unwrap_or_else(|| few_components(particles.len() / d_x, d_x));
            Mixture::fitted(particles, d_x, components, seed)?
        }
    })
}

/// The components of a mixture that so many particles are enough for.
pub fn few_components(particles: usize, d_x: usize) -> usize {
    (particles / (2 * d_x)).clamp(1, 100)
}
