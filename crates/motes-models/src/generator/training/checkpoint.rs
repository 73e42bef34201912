//! Weights and whole trainings as safetensors files, which PyTorch and others can read.

use std::io::Write;

use safetensors::tensor::SafeTensors;
use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::generator::Decoder;
use crate::generator::tensors::{KEY, Named, named, open, read, restore, serialize};

/// What stands in a checkpoint besides its arrays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of Motes that wrote it.
    pub version: String,
    /// The instruction set its kernels ran on: another one may round differently.
    pub instruction_set: String,
    /// Steps made so far.
    pub k: u64,
    /// The digest of the settings that the training belongs to.
    pub settings: u32,
    /// The length of trace.csv at this step.
    pub trace_bytes: u64,
    /// Seconds spent in the loop so far.
    pub seconds: f64,
    /// The CRC-32 of all arrays and of the above.
    pub checksum: u32,
}

fn weights<'a>(prefix: &str, decoder: &'a dyn Decoder) -> Vec<Named<'a>> {
    let mut arrays = named(prefix, decoder.tensors(), decoder.parameters());
    arrays.extend(named(prefix, decoder.statistics_tensors(), decoder.statistics()));
    arrays
}

/// Writes a network's weights and running statistics.
pub fn save_weights(decoder: &dyn Decoder, out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&serialize(&weights("", decoder), format!("weights, {}", env!("CARGO_PKG_VERSION")))?)
}

/// Reads them back. The error's text completes a sentence that begins with the file's name.
pub fn load_weights(decoder: &mut dyn Decoder, bytes: &[u8]) -> Result<(), String> {
    let file = open(bytes)?;
    let lengths: Vec<(String, usize)> =
        weights("", decoder).into_iter().map(|(name, _, values)| (name, values.len())).collect();
    let arrays: Result<Vec<_>, _> = lengths.iter().map(|(name, len)| read(&file, name, *len)).collect();
    restore_weights(decoder, &mut arrays?.into_iter());
    Ok(())
}

fn restore_weights(decoder: &mut dyn Decoder, arrays: &mut impl Iterator<Item = Vec<f32>>) {
    let (tensors, statistics) = (decoder.tensors().to_vec(), decoder.statistics_tensors().to_vec());
    restore(&tensors, decoder.parameters_mut(), arrays);
    restore(&statistics, decoder.statistics_mut(), arrays);
}

impl Trainer<'_> {
    /// All arrays of the training, in the order in which they are restored.
    fn arrays(&self) -> Vec<Named<'_>> {
        let mut arrays = weights("decoder.", self.decoder);
        if let Some(encoder) = self.encoder.as_deref() {
            arrays.extend(named("encoder.", encoder.tensors(), encoder.parameters()));
        }
        let state = &self.state;
        for (name, values) in [
            ("optimiser.theta", &state.theta_memory),
            ("optimiser.encoder", &state.encoder_memory),
            ("cloud", &state.cloud),
        ] {
            arrays.push((name.into(), vec![values.len()], values));
        }
        if let Some(cloud) = arrays.last_mut().filter(|(_, _, values)| !values.is_empty()) {
            cloud.1 = vec![self.settings.particles, self.targets.count(), self.decoder.d_x()];
        }
        arrays
    }

    /// Writes the whole training.
    pub fn save(
        &self,
        settings: u32,
        trace_bytes: u64,
        seconds: f64,
        out: &mut impl Write,
    ) -> std::io::Result<()> {
        let mut about = About {
            version: env!("CARGO_PKG_VERSION").into(),
            instruction_set: motes::instruction_set().into(),
            k: self.state.k,
            settings,
            trace_bytes,
            seconds,
            checksum: 0,
        };
        let arrays = self.arrays();
        about.checksum = checksum(&about, arrays.iter().map(|(_, _, values)| *values));
        out.write_all(&serialize(&arrays, serde_json::to_string(&about)?)?)
    }

    /// Brings the training to where it was saved. On failure nothing has changed, and the error's text completes a
    /// sentence that begins with the file's name.
    pub fn load(&mut self, bytes: &[u8]) -> Result<About, Damage> {
        let damaged = |e: String| Damage::Broken(e);
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|_| damaged("is torn or truncated".into()))?;
        let about = header.metadata().as_ref().and_then(|m| serde_json::from_str::<About>(m.get(KEY)?).ok());
        let about = about.ok_or_else(|| damaged("has a damaged header".into()))?;
        let file = SafeTensors::deserialize(bytes).map_err(|_| damaged("is torn or truncated".into()))?;
        let wanted: Vec<(String, usize)> =
            self.arrays().into_iter().map(|(name, _, values)| (name, values.len())).collect();
        let mut arrays = Vec::with_capacity(wanted.len());
        for (name, len) in &wanted {
            arrays.push(read(&file, name, *len).map_err(Damage::Other)?);
        }
        if about.checksum != checksum(&about, arrays.iter().map(Vec::as_slice)) {
            return Err(damaged("fails its checksum".into()));
        }
        let mut arrays = arrays.into_iter();
        restore_weights(self.decoder, &mut arrays);
        if let Some(encoder) = &mut self.encoder {
            let tensors = encoder.tensors().to_vec();
            restore(&tensors, encoder.parameters_mut(), &mut arrays);
        }
        let mut next = || arrays.next().unwrap_or_default();
        self.state.theta_memory = next();
        self.state.encoder_memory = next();
        self.state.cloud = next();
        self.state.k = about.k;
        Ok(about)
    }
}

/// What can be wrong with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is not what was written.
    #[error("{0}")]
    Broken(String),
    /// It is whole, and belongs to something else.
    #[error("{0}")]
    Other(String),
}

fn checksum<'a>(about: &About, arrays: impl Iterator<Item = &'a [f32]>) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    let plain = About { checksum: 0, ..about.clone() };
    sum.update(&serde_json::to_vec(&plain).unwrap_or_default());
    arrays.for_each(|values| sum.update(bytemuck::cast_slice(values)));
    sum.finalize()
}
