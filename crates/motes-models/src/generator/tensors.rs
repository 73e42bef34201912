//! Named arrays as safetensors files, which PyTorch and others can read.

use std::collections::HashMap;
use std::io::Write;

use motes::sentence::foreign;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::decoder::{Decoder, Tensor};

/// The key of the metadata under which Motes keeps its own.
pub(crate) const KEY: &str = "motes";

/// An array with its name and shape.
pub(crate) type Named<'a> = (String, Vec<usize>, &'a [f32]);

/// The arrays of a flat buffer.
pub(crate) fn named<'a>(prefix: &str, tensors: &[Tensor], values: &'a [f32]) -> Vec<Named<'a>> {
    let of = |t: &Tensor| {
        let len = t.shape.iter().product::<usize>();
        (format!("{prefix}{}", t.name), t.shape.clone(), &values[t.offset..t.offset + len])
    };
    tensors.iter().map(of).collect()
}

/// A file of these arrays and one text.
pub(crate) fn serialize(arrays: &[Named<'_>], metadata: String) -> std::io::Result<Vec<u8>> {
    let views: Result<Vec<_>, _> = arrays
        .iter()
        .map(|(name, shape, values)| {
            TensorView::new(Dtype::F32, shape.clone(), bytemuck::cast_slice(values)).map(|view| (name, view))
        })
        .collect();
    let views = views.map_err(std::io::Error::other)?;
    // One key alone: the order of several would change from run to run.
    let metadata = HashMap::from([(KEY.to_string(), metadata)]);
    safetensors::serialize(views, Some(metadata)).map_err(std::io::Error::other)
}

/// Parses a file. The error's text completes a sentence that begins with the file's name.
pub(crate) fn open(bytes: &[u8]) -> Result<SafeTensors<'_>, String> {
    SafeTensors::deserialize(bytes).map_err(|e| format!("is not a safetensors file ({})", foreign(e)))
}

/// Reads the array of this name if it has this many values.
pub(crate) fn read(file: &SafeTensors<'_>, name: &str, len: usize) -> Result<Vec<f32>, String> {
    let view = file.tensor(name).map_err(|_| format!("has no array '{name}'"))?;
    if view.dtype() != Dtype::F32 || view.shape().iter().product::<usize>() != len {
        return Err(format!("has an array '{name}' of another type or size"));
    }
    let single = |b: &[u8]| f32::from_le_bytes(b.try_into().expect("4 bytes"));
    Ok(view.data().chunks_exact(4).map(single).collect())
}

/// Copies arrays to where they belong in a flat buffer.
pub(crate) fn restore(tensors: &[Tensor], values: &mut [f32], arrays: &mut impl Iterator<Item = Vec<f32>>) {
    for (tensor, array) in tensors.iter().zip(arrays) {
        values[tensor.offset..tensor.offset + array.len()].copy_from_slice(&array);
    }
}

fn weights(decoder: &dyn Decoder) -> Vec<Named<'_>> {
    let mut arrays = named("", decoder.tensors(), decoder.parameters());
    arrays.extend(named("", decoder.statistics_tensors(), decoder.statistics()));
    arrays
}

/// Writes a network's weights and running statistics.
pub fn save_weights(decoder: &dyn Decoder, out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&serialize(&weights(decoder), format!("weights, {}", env!("CARGO_PKG_VERSION")))?)
}

/// Reads them back. The error's text completes a sentence that begins with the file's name.
pub fn load_weights(decoder: &mut dyn Decoder, bytes: &[u8]) -> Result<(), String> {
    let file = open(bytes)?;
    let lengths: Vec<(String, usize)> =
        weights(decoder).into_iter().map(|(name, _, values)| (name, values.len())).collect();
    let arrays: Result<Vec<_>, _> = lengths.iter().map(|(name, len)| read(&file, name, *len)).collect();
    let mut arrays = arrays?.into_iter();
    let (tensors, statistics) = (decoder.tensors().to_vec(), decoder.statistics_tensors().to_vec());
    restore(&tensors, decoder.parameters_mut(), &mut arrays);
    restore(&statistics, decoder.statistics_mut(), &mut arrays);
    Ok(())
}
