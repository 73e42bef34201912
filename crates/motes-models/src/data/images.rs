//! Square images of bytes for generators: from IDX files, or from folders of JPEG and PNG files.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use motes::blocks;
use motes::files::{Durable, sweep, write_atomically};
use motes::sentence::{foreign, foreign_path};
use sha2::{Digest, Sha256};

use super::idx::Stream;
use super::reading::{open_file, read_file, room_for};
use super::resize::fit_square;
use super::{DataError, mnist, sha256};
use crate::generator::Targets;

/// The height and the width of every image.
pub const SIDE: usize = 32;
const AREA: usize = SIDE * SIDE;
/// The largest cameras take no more pixels; they become a thousand.
const MOST_PIXELS: usize = 200_000_000;
/// Bytes of an IDX file that are read at once, if a single image has no more.
const AT_ONCE: usize = 32 << 20;
/// An image that takes more than this while it is decoded is decoded alone, however many threads there are.
const LARGE: u128 = 64 << 20;
/// What a decoded pixel becomes: three colours, and one of them apart.
const BYTES_OF_PLANES: u128 = 3 + 1;
/// What a progressive JPEG keeps of a pixel until all of it is read.
const BYTES_KEPT_BY_JPEG: u128 = 6;
const CACHE_MAGIC: &[u8; 8] = b"MOTESIM1";

/// Images of 32 x 32 pixels, plane after plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    channels: usize,
    /// `[image][channel][row][column]`.
    pixels: Vec<u8>,
}

/// Told now and then how many of how many images have been decoded.
pub type Decoded<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A byte as the network sees it, in [-1, 1].
pub fn value_of(byte: u8) -> f32 {
    (f32::from(byte) / 255.0 - 0.5) / 0.5
}

/// The byte nearest to a value in [-1, 1].
pub fn byte_of(value: f32) -> u8 {
    ((value + 1.0) * 127.5).round() as u8
}

impl ImageSet {
    /// The first training images of MNIST that are built in; all 10,000 if `None`.
    pub fn mnist(channels: usize, limit: Option<usize>) -> Result<Self, DataError> {
        Self::from_idx(mnist::IMAGES, mnist::NAMES[0], channels, limit)
    }

    /// The 2,000 test images of MNIST that are built in.
    pub fn mnist_test(channels: usize) -> Result<Self, DataError> {
        Self::from_idx(mnist::TEST_IMAGES, mnist::NAMES[2], channels, None)
    }

    /// The first images of an IDX file, a directory, or one image file.
    pub fn read(
        path: &Path,
        channels: usize,
        limit: Option<usize>,
        told: Decoded<'_>,
    ) -> Result<Self, DataError> {
        if path.is_dir() {
            return Self::from_directory(path, channels, limit, told);
        }
        if is_image(path) {
            return Self::decode(&[path.to_path_buf()], channels, told);
        }
        let (file, name) = (open_file(path)?, foreign_path(path));
        let length = file.length;
        let stream = Stream::open(file, length, &name)?;
        if !stream.is_idx() {
            return Err(DataError(format!(
                "{name} is neither an IDX file nor a JPEG or PNG image; give one of these or a folder of images"
            )));
        }
        Self::from_stream(stream, &name, channels, limit)
    }

    /// The first images of an IDX file, of grey images or of coloured ones with as many channels as asked for; `name` is
    /// used in messages.
    pub fn from_idx(
        bytes: &[u8],
        name: &str,
        channels: usize,
        limit: Option<usize>,
    ) -> Result<Self, DataError> {
        Self::from_stream(Stream::open(bytes, Some(bytes.len() as u64), name)?, name, channels, limit)
    }

    /// Reads no more images than it takes, and no more at once than it needs: what they become is small.
    fn from_stream(
        mut stream: Stream<'_>,
        name: &str,
        channels: usize,
        limit: Option<usize>,
    ) -> Result<Self, DataError> {
        let [there, planes, height, width] = match stream.rank() {
            4 => stream.dims("coloured images")?,
            _ => {
                let [there, height, width] = stream.dims("images")?;
                [there, 1, height, width]
            }
        };
        if [there, planes, height, width].contains(&0) {
            return Err(stream.without_pixels());
        }
        if planes != 1 && planes != channels {
            let or = if planes == 3 { ", or train with `channels=3`" } else { "" };
            return Err(DataError(format!(
                "{name} has images of {planes} channels, not of {channels}; give others{or}"
            )));
        }
        let count = enough(there, limit, name)?;
        check_shape(width, height, name)?;
        let (area, size) = (width * height, channels * AREA);
        let at_once = (AT_ONCE / (planes * area)).clamp(1, count);
        let need = count as u128 * size as u128 + 2 * (at_once * planes * area) as u128;
        let what = format!("{there} images of {width} x {height} pixels");
        room_for(need, name, &what, "take fewer of them with `images`")?;
        let mut pixels = vec![0; count * size];
        let mut read = Vec::new();
        for part in pixels.chunks_mut(at_once * size) {
            stream.next(part.len() / size * planes * area, &mut read)?;
            blocks::for_each(true, (part, size), |i, out| {
                // A grey image is the same in all channels.
                let copies = channels / planes;
                for (c, out) in out.chunks_exact_mut(copies * AREA).enumerate() {
                    let at = (i * planes + c) * area;
                    let plane = fit_square(&read[at..at + area], width, SIDE);
                    out.chunks_exact_mut(AREA).for_each(|out| out.copy_from_slice(&plane));
                }
                Ok::<(), DataError>(())
            })?;
        }
        stream.end()?;
        Ok(ImageSet { channels, pixels })
    }

    /// The first images below a directory in the order of their paths, decoded once and then kept in a cache.
    fn from_directory(
        dir: &Path,
        channels: usize,
        limit: Option<usize>,
        told: Decoded<'_>,
    ) -> Result<Self, DataError> {
        let mut paths = Vec::new();
        list(dir, &mut paths)?;
        paths.sort();
        let name = foreign_path(dir);
        if paths.is_empty() {
            return Err(DataError(format!("{name} holds no .jpg or .png files; give a folder of images")));
        }
        paths.truncate(enough(paths.len(), limit, &name)?);
        let cache = cache_file(&paths, channels);
        if let Some(set) = cache.as_deref().and_then(|file| read_cache(file, channels, paths.len())) {
            return Ok(set);
        }
        let set = Self::decode(&paths, channels, told)?;
        if let Some(file) = cache {
            // A cache that cannot be written only costs time.
            if let Some(dir) = file.parent() {
                let _ = fs::create_dir_all(dir);
                sweep(dir);
            }
            let _ = write_atomically(&file, Durable::No, |out| {
                out.write_all(CACHE_MAGIC)?;
                out.write_all(&crc32fast::hash(&set.pixels).to_le_bytes())?;
                out.write_all(&set.pixels)
            });
        }
        Ok(set)
    }

    fn decode(paths: &[PathBuf], channels: usize, told: Decoded<'_>) -> Result<Self, DataError> {
        let alone = Mutex::new(());
        let mut pixels = vec![0; paths.len() * channels * AREA];
        let done = AtomicUsize::new(0);
        blocks::for_each(true, (&mut pixels, channels * AREA), |i, out| {
            decode_one(&paths[i], channels, &alone, out)?;
            told(done.fetch_add(1, Ordering::Relaxed) + 1, paths.len());
            Ok(())
        })?;
        Ok(ImageSet { channels, pixels })
    }

    /// The set as an IDX file, from which it can be read back.
    pub fn to_idx(&self) -> Vec<u8> {
        let mut out = vec![0, 0, 8, 4];
        for dim in [self.count(), self.channels, SIDE, SIDE] {
            out.extend((dim as u32).to_be_bytes());
        }
        out.extend_from_slice(&self.pixels);
        out
    }

    /// 1 for grey images, 3 for coloured ones.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The same images with one channel, if nothing in them has a colour.
    pub fn grey(&self) -> Option<Self> {
        let images = || self.pixels.chunks_exact(self.channels * AREA);
        if images().any(|image| image.chunks_exact(AREA).any(|plane| plane != &image[..AREA])) {
            return None;
        }
        Some(ImageSet { channels: 1, pixels: images().flat_map(|image| &image[..AREA]).copied().collect() })
    }

    /// The set without its first images.
    pub fn after(&self, first: usize) -> Self {
        let size = self.channels * AREA;
        ImageSet {
            channels: self.channels,
            pixels: self.pixels[(first * size).min(self.pixels.len())..].to_vec(),
        }
    }

    /// The digest of all pixels.
    pub fn sha256(&self) -> String {
        sha256(&self.pixels)
    }

    /// Image after image as values in [-1, 1].
    pub fn values(&self, range: std::ops::Range<usize>) -> Vec<f32> {
        let size = self.channels * AREA;
        self.pixels[range.start * size..range.end * size].iter().map(|p| value_of(*p)).collect()
    }
}

impl Targets for ImageSet {
    fn count(&self) -> usize {
        self.pixels.len() / (self.channels * AREA)
    }

    fn d_y(&self) -> usize {
        self.channels * AREA
    }

    fn write(&self, m: usize, image: &mut [f32]) {
        let pixels = &self.pixels[m * image.len()..(m + 1) * image.len()];
        image.iter_mut().zip(pixels).for_each(|(v, p)| *v = value_of(*p));
    }
}

/// How many images are taken of those that there are.
fn enough(there: usize, limit: Option<usize>, name: &str) -> Result<usize, DataError> {
    match limit {
        Some(wanted) if wanted == 0 || wanted > there => Err(DataError(format!(
            "cannot take {wanted} images of the {there} in {name}; choose `images` from 1 to {there}"
        ))),
        wanted => Ok(wanted.unwrap_or(there)),
    }
}

/// Extremely long or large images would need far more memory than they are worth.
fn check_shape(width: usize, height: usize, name: &str) -> Result<(), DataError> {
    let (short, long) = (width.min(height), width.max(height));
    if short == 0 || long / short > 100 {
        return Err(DataError(format!(
            "{name} has images of {width} x {height} pixels; give images that are not a hundred times longer than wide"
        )));
    }
    if width.checked_mul(height).is_none_or(|area| area > MOST_PIXELS) {
        return Err(DataError(format!(
            "{name} has images of {width} x {height} pixels; give images of at most {} million pixels, which become {SIDE} x {SIDE}",
            MOST_PIXELS / 1_000_000
        )));
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    ["jpg", "jpeg", "png"].contains(&extension.as_str())
}

/// All image files below a directory. Links to directories are not followed: they may lead in circles.
fn list(dir: &Path, paths: &mut Vec<PathBuf>) -> Result<(), DataError> {
    let unreadable =
        |e: std::io::Error| DataError(format!("cannot read {}: {e}; check the path", foreign_path(dir)));
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        if entry.file_type().map_err(unreadable)?.is_dir() {
            list(&path, paths)?;
        } else if is_image(&path) {
            paths.push(path);
        }
    }
    Ok(())
}

/// No format packs more pixels into a byte: deflate makes at most 1032 bytes of one, each of eight pixels, and a JPEG has at
/// least a bit for each block of 64. A header that promises more is not worth the memory.
const PIXELS_OF_BYTE: u128 = 8 * 1032;

/// Decodes an image; whoever has a large one waits for `alone`.
fn decode_one(path: &Path, channels: usize, alone: &Mutex<()>, out: &mut [u8]) -> Result<(), DataError> {
    let name = foreign_path(path);
    let broken = |e: &dyn std::fmt::Display| {
        DataError(format!("{name} cannot be decoded ({}); replace or remove it", foreign(e)))
    };
    let wait = || alone.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let large_file = fs::metadata(path).is_ok_and(|m| u128::from(m.len()) > LARGE);
    let _turn = large_file.then(wait);
    let bytes = read_file(path, "")?;
    let length = bytes.len();
    let mut reader = ImageReader::new(Cursor::new(bytes));
    if let Ok(format) = ImageFormat::from_path(path) {
        reader.set_format(format); // for what does not begin like any image
    }
    let mut reader = reader.with_guessed_format().map_err(|e| broken(&e))?;
    // For what stands before the image, such as profiles; its own size is looked at below.
    let mut limits = Limits::default();
    limits.max_alloc = Some(LARGE as u64);
    reader.limits(limits);
    let kept = if reader.format() == Some(ImageFormat::Jpeg) { BYTES_KEPT_BY_JPEG } else { 0 };
    let decoder = reader.into_decoder().map_err(|e| broken(&e))?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    check_shape(width, height, &name)?;
    let bytes_of_pixel = u128::from(decoder.color_type().bytes_per_pixel()) + kept + BYTES_OF_PLANES;
    let need = (width * height) as u128 * bytes_of_pixel;
    let _turn = (need > LARGE && !large_file).then(wait);
    if need > LARGE {
        room_for(need, &name, &format!("{width} x {height} pixels"), "give a smaller image")?;
    }
    if (width * height) as u128 > PIXELS_OF_BYTE * length as u128 {
        return Err(broken(&format!("its {length} bytes cannot hold {width} x {height} pixels")));
    }
    let picture = DynamicImage::from_decoder(decoder).map_err(|e| broken(&e))?;
    let grey = !picture.color().has_color();
    let rgb = picture.into_rgb8().into_raw();
    let plane = |c: usize| -> Vec<u8> { rgb[c..].iter().step_by(3).copied().collect() };
    if channels == 3 && !grey {
        for (c, out) in out.chunks_exact_mut(AREA).enumerate() {
            out.copy_from_slice(&fit_square(&plane(c), width, SIDE));
        }
        return Ok(());
    }
    // Pillow's luma of coloured images.
    let luma = |p: &[u8]| {
        ((19595 * u32::from(p[0]) + 38470 * u32::from(p[1]) + 7471 * u32::from(p[2]) + 0x8000) >> 16) as u8
    };
    let shades = if grey { plane(0) } else { rgb.chunks_exact(3).map(luma).collect() };
    let shades = fit_square(&shades, width, SIDE);
    out.chunks_exact_mut(AREA).for_each(|out| out.copy_from_slice(&shades));
    Ok(())
}

/// Where decoded images are kept: under a name that changes with the files, in the user's cache directory.
fn cache_file(paths: &[PathBuf], channels: usize) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let root =
        std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from).or_else(home)?;
    let mut digest = Sha256::new();
    digest.update([channels as u8]);
    for path in paths {
        let about = fs::metadata(path).ok()?;
        let changed = about.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        digest.update(std::path::absolute(path).ok()?.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(about.len().to_le_bytes());
        digest.update(changed.as_nanos().to_le_bytes());
    }
    let name: String = digest.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect();
    Some(root.join("motes").join(format!("{name}.images")))
}

fn read_cache(file: &Path, channels: usize, count: usize) -> Option<ImageSet> {
    // Of no other length is it read at all.
    let length = CACHE_MAGIC.len() + 4 + count * channels * AREA;
    let bytes = fs::metadata(file).is_ok_and(|m| m.len() == length as u64).then(|| fs::read(file))?.ok()?;
    let rest = bytes.strip_prefix(CACHE_MAGIC)?;
    let (stored, pixels) = rest.split_first_chunk::<4>()?;
    let whole = pixels.len() == count * channels * AREA && crc32fast::hash(pixels).to_le_bytes() == *stored;
    whole.then(|| ImageSet { channels, pixels: pixels.to_vec() })
}

/// Writes images with values in [-1, 1] as a grid in a PNG file, each pixel twice as large as it is.
pub fn write_grid(path: &Path, images: &[f32], channels: usize, columns: usize) -> Result<(), motes::Error> {
    const ZOOM: usize = 2;
    const GAP: usize = 4;
    let count = images.len() / (channels * AREA);
    let columns = columns.clamp(1, count.max(1));
    let cell = SIDE * ZOOM + GAP;
    let (width, height) = (columns * cell + GAP, count.div_ceil(columns) * cell + GAP);
    let mut pixels = vec![255u8; width * height * channels];
    for (i, image) in images.chunks_exact(channels * AREA).enumerate() {
        let (left, top) = (i % columns * cell + GAP, i / columns * cell + GAP);
        for y in 0..SIDE * ZOOM {
            for x in 0..SIDE * ZOOM {
                for c in 0..channels {
                    let value = image[c * AREA + y / ZOOM * SIDE + x / ZOOM];
                    pixels[((top + y) * width + left + x) * channels + c] = byte_of(value);
                }
            }
        }
    }
    let color = if channels == 3 { image::ExtendedColorType::Rgb8 } else { image::ExtendedColorType::L8 };
    write_atomically(path, Durable::No, |out| {
        use image::ImageEncoder;
        image::codecs::png::PngEncoder::new(out)
            .write_image(&pixels, width as u32, height as u32, color)
            .map_err(std::io::Error::other)
    })
}
