//! A network that somebody else has written, as a model of callables: what such a model has besides, and what a run of it leaves.

use std::path::Path;

use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::model::{Draws, Scalar};
use motes::settings::{InitParticles, Preconditioner, unknown};
use motes::{Algorithm, Real, Settings};
use motes_models::registry::{Defaults, Epochs, Error, Fitted, Precision, ThetaRate};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::watch::Desk;

/// Those that are worth it for networks.
static ALGORITHMS: [&Algorithm; 4] = [&PGD, &ABP, &SHORT_RUN, &VAE];
/// Passes over all data, and data in a batch, where nobody chooses.
const EPOCHS: u64 = 100;
const BATCH: usize = 128;
/// Latents that are decoded to be looked at.
const SHOWN: usize = 64;
/// A rough cost of a row, which says how many of them a verdict may be made from.
pub const NANOSECONDS: f64 = 3e6;

/// What is traced of a step, at the weights before it.
pub const SCALARS: [Scalar; 2] = [
    Scalar {
        name: "loss",
        title: "Loss",
        meaning: "-log p(x, y) of a datum without its constants (of a VAE, the negative bound)",
    },
    Scalar { name: "x_rms", title: "Latents", meaning: "root mean square of the latents" },
];

/// What a network has besides its callables.
pub struct Network {
    /// The parameters of its encoder.
    pub phi: usize,
    /// Where its buffers start; empty if none of them move.
    pub buffers: Vec<f64>,
    /// Turns standard normals into draws from the encoder.
    pub encode: Option<Py<PyAny>>,
    /// How many data there are.
    data: usize,
    /// Whether it computes in single precision.
    single: bool,
    /// Whether it needs two rows or more to normalise by.
    normalises: bool,
    /// Whether its encoder needs two data or more to normalise by.
    encoder_normalises: bool,
    /// Where its calls are made while it is fitted.
    pub desk: Desk,
    /// Writes what a run leaves, or what people want to look at on its way, into its directory.
    leave: Py<PyAny>,
}

impl Network {
    /// Takes the attributes of a Python network, which has checked them.
    pub fn new(network: &Bound<'_, PyAny>) -> PyResult<Self> {
        let get = |name: &str| network.getattr(name);
        Ok(Network {
            phi: get("phi")?.extract()?,
            buffers: get("buffers")?.extract()?,
            encode: get("encode").map(|f| (!f.is_none()).then(|| f.unbind()))?,
            data: get("count")?.extract()?,
            single: get("single")?.extract()?,
            normalises: get("normalises")?.extract()?,
            encoder_normalises: get("encoder_normalises")?.extract()?,
            desk: Desk::default(),
            leave: get("leave")?.unbind(),
        })
    }

    /// What is suggested for its runs.
    pub fn defaults(&self, step_size: f64) -> Defaults {
        Defaults {
            particles: 10,
            alone: true,
            step_size,
            precision: if self.single { Precision::F32 } else { Precision::F64 },
            preconditioner: Preconditioner::Rmsprop,
            init_particles: InitParticles::Prior,
            batch: Some(BATCH.min(self.data)),
            theta_rate: Some(ThetaRate::Value(1e-3)),
            epochs: Some(Epochs { count: EPOCHS, groups: self.data }),
            ..Defaults::default()
        }
    }

    /// Refuses what cannot be trained with.
    pub fn check<F: Real>(&self, settings: &Settings) -> Result<(), Error> {
        let Settings { algorithm, particles, .. } = settings;
        if !ALGORITHMS.contains(algorithm) {
            let names: Vec<&str> = ALGORITHMS.iter().map(|a| a.name).collect();
            return Err(unknown("algorithm of a decoder", algorithm.name, &names).into());
        }
        if *algorithm == &VAE && self.encode.is_none() {
            return Err("vae needs an inference network; make the decoder with encoder=...".into());
        }
        if self.single && size_of::<F>() > 4 {
            return Err(
                "the module computes in single precision; leave `precision` out, or train module.double()"
                    .into(),
            );
        }
        let (m, batch) = (self.data, settings.batch.unwrap_or(self.data));
        let normalised = match *algorithm == &VAE {
            true => self.encoder_normalises || (self.normalises && *particles == 1),
            false => self.normalises && *particles == 1,
        };
        if normalised && (m == 1 || batch == 1 || (batch > 0 && m % batch == 1)) {
            return Err(format!(
                "with `batch={batch}` the last batch of {m} data holds a single one, over which batch normalisation has no variance; choose another `batch`"
            )
            .into());
        }
        Ok(())
    }

    /// Steps to a pass over all data.
    pub fn epoch(&self, settings: &Settings) -> u64 {
        Epochs { count: 1, groups: self.data }.steps(settings.batch)
    }

    /// Has Python write what is worth looking at; with the weights, if the run is over.
    pub fn show(&self, dir: &Path, fitted: &Fitted<'_>, over: bool) -> PyResult<()> {
        Python::attach(|py| {
            let theta = PyArray1::from_slice(py, fitted.theta);
            let buffers = PyArray1::from_slice(py, fitted.buffers);
            let latents = PyArray1::from_vec(py, (fitted.latents)(SHOWN.min(self.data)));
            self.leave.call1(py, (dir, theta, buffers, latents, over)).map(drop)
        })
    }
}

/// The prior of the latents.
pub struct StandardNormal;

impl<F: Real> Draws<F> for StandardNormal {
    fn map_normals(&self, _theta: &[f64], _groups: &[u32], _x: &mut [F]) {}
}
