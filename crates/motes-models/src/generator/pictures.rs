//! Pictures of what a network has learnt: images beside what their latents decode to, and samples from the prior.

use std::path::Path;

use motes::noise::{Noise, Purpose};

use super::Decoder;
use crate::data::write_grid;

/// Images in a picture.
pub const SHOWN: usize = 64;
/// Columns of a picture.
pub const COLUMNS: usize = 16;

/// Writes reconstructions of these images from their latents into `pictures/`, and samples from the prior, always of the
/// same latents.
pub(super) fn write(
    dir: &Path,
    channels: usize,
    seed: u64,
    decoder: &mut dyn Decoder,
    y: &[f32],
    x: &[f32],
) -> Result<(), motes::Error> {
    let (d_x, d_y) = (decoder.d_x(), decoder.d_y());
    let decoded = decode(decoder, x);
    let dir = dir.join("pictures");
    std::fs::create_dir_all(&dir).map_err(motes::Error::io("make", &dir))?;
    motes::files::sweep(&dir);
    let rows = interleave(&[y, &decoded], d_y, COLUMNS);
    write_grid(&dir.join("reconstructions.png"), &rows, channels, COLUMNS)?;
    let mut latents = vec![0.0; SHOWN * d_x];
    Noise::new(seed, Purpose::Pictures).normals_f32(0, 0, &mut latents);
    let samples = decode(decoder, &latents);
    write_grid(&dir.join("samples.png"), &samples, channels, COLUMNS)
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
