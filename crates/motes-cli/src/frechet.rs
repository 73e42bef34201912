//! `frechet`: how far apart two sets of images, or two arrays of features, are.

use std::ops::Range;
use std::path::Path;

use clap::{Args, ValueEnum};
use motes::sentence::{foreign, foreign_path};
use motes::{Ended, npz};
use motes_models::data::{ImageSet, SIDE, read_file};
use motes_models::features::{Gaussian, Lenet, frechet as distance};
use motes_models::generator::Targets;

use crate::generator::told;

/// With fewer rows than this for each feature the distance is far above that of large sets.
const ROWS_PER_FEATURE: usize = 10;
/// From so many features on the decompositions take long enough to say so.
const MANY_FEATURES: usize = 700;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Features {
    /// The last hidden layer of a small classifier of digits, which is built in
    Lenet,
    /// The pixels, or the arrays, as they are
    None,
}

#[derive(Args)]
pub struct FrechetArgs {
    /// The first set: a .npy file of images (as `motes synthesize` writes it) or of features (one row for each image), an
    /// IDX file, a folder of images, mnist-train or mnist-test; NAME:first..end takes a part of it, counted from 0
    #[arg(value_name = "A")]
    pub a: String,
    /// The second set
    #[arg(value_name = "B")]
    pub b: String,
    /// Which features of the images are compared [default: lenet for images, none for arrays of features]
    #[arg(long, value_name = "WHICH")]
    pub features: Option<Features>,
    /// Threads [default: all]
    #[arg(long, value_name = "T")]
    pub threads: Option<usize>,
    /// Show neither progress nor warnings
    #[arg(long)]
    pub quiet: bool,
}

/// One of the two sets.
struct Set {
    name: String,
    /// Image after image or row after row, each of `width` values.
    values: Vec<f64>,
    width: usize,
    /// 0 for an array of features.
    channels: usize,
}

/// Prints the distance.
pub fn frechet(args: FrechetArgs) -> Result<Ended, String> {
    let pool = motes_app::job::pool(args.threads)?;
    let line = pool.install(|| {
        let a = Set::read(&args.a, args.quiet)?;
        let b = Set::read(&args.b, args.quiet)?;
        compare(a, b, args.features, args.quiet)
    })?;
    crate::tell(&line);
    Ok(Ended::Complete)
}

fn compare(a: Set, b: Set, features: Option<Features>, quiet: bool) -> Result<String, String> {
    let images = a.channels > 0 && b.channels > 0;
    if features.is_none() && (a.channels > 0) != (b.channels > 0) {
        let (images, rows) = if a.channels > 0 { (&a, &b) } else { (&b, &a) };
        return Err(format!(
            "{} holds images and {} features; give two sets of the same kind",
            images.name, rows.name
        ));
    }
    let lenet = features.unwrap_or(if images { Features::Lenet } else { Features::None }) == Features::Lenet;
    let (name, what) = match (lenet, images) {
        (true, _) => ("frechet_lenet", "images"),
        (false, true) => ("frechet_pixels", "images"),
        (false, false) => ("frechet", "rows"),
    };
    let [a, b] = if lenet { [a.through_lenet()?, b.through_lenet()?] } else { [a, b] };
    if a.width != b.width {
        return Err(format!(
            "{} has {} features and {} {}; give two sets of the same kind",
            a.name, a.width, b.name, b.width
        ));
    }
    let (width, counts) = (a.width, [a.count(), b.count()]);
    if !quiet && counts.into_iter().min().is_some_and(|n| n < ROWS_PER_FEATURE * width) {
        say!(
            "warning: {} and {} {what} for {width} features are few: the distance comes out too large, so compare it only with others of as many {what}",
            counts[0],
            counts[1]
        );
    }
    if !quiet && width >= MANY_FEATURES {
        say!("decomposing the covariances of {width} features");
    }
    let gaussian = |set: Set| Gaussian::of(&set.values, width).map_err(|e| format!("{} {e}", set.name));
    let value = distance(&gaussian(a)?, &gaussian(b)?)?;
    let value = if value < 1e-3 { format!("{value:.6e}") } else { format!("{value:.6}") };
    Ok(format!("{name} = {value} ({} and {} {what}, {width} features)\n", counts[0], counts[1]))
}

impl Set {
    fn read(argument: &str, quiet: bool) -> Result<Self, String> {
        let (name, part) = part(argument);
        let (path, shown) = (Path::new(name), foreign(argument));
        if path.join("config.toml").exists() {
            let name = foreign_path(path);
            return Err(format!(
                "{name} is a run directory and holds grids of images; make images with `motes synthesize {name}` and give their .npy file"
            ));
        }
        let whole = match name {
            "mnist-train" => ImageSet::mnist(1, None),
            "mnist-test" => ImageSet::mnist_test(1),
            _ if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) => {
                return Self::from_npy(shown, path, part);
            }
            // A folder may hold colours; an IDX file is grey.
            _ => ImageSet::read(path, if path.is_dir() { 3 } else { 1 }, None, &told(quiet)),
        };
        let whole = whole.map_err(|e| e.to_string())?;
        let set = whole.grey().unwrap_or(whole);
        let values = set.values(checked(part, set.count(), &shown)?);
        let values = values.into_iter().map(f64::from).collect();
        Ok(Set { name: shown, values, width: set.d_y(), channels: set.channels() })
    }

    fn from_npy(shown: String, path: &Path, part: Option<Range<usize>>) -> Result<Self, String> {
        let bytes = read_file(path, "").map_err(|e| e.to_string())?;
        let array = npz::parse_npy(&bytes).map_err(|what| {
            format!(
                "{} cannot be used ({what}); save it with NumPy as float32 or float64 in C order",
                foreign_path(path)
            )
        })?;
        let (channels, width) = match array.shape[..] {
            [_, width] => (0, width),
            [_, SIDE, SIDE] => (1, SIDE * SIDE),
            [_, channels @ (1 | 3), SIDE, SIDE] => (channels, channels * SIDE * SIDE),
            _ => {
                return Err(format!(
                    "{} has the shape {:?}; give images as [n, 1, 32, 32] or [n, 3, 32, 32], or features as [n, d]",
                    foreign_path(path),
                    array.shape
                ));
            }
        };
        let range = checked(part, array.shape[0], &shown)?;
        let mut values = array.values;
        values.truncate(range.end * width);
        values.drain(..range.start * width);
        Ok(Set { name: shown, values, width, channels })
    }

    fn count(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// The features of grey images in [-1, 1].
    fn through_lenet(self) -> Result<Self, String> {
        let name = self.name;
        match self.channels {
            1 => {}
            0 => {
                return Err(format!(
                    "{name} holds features, and --features lenet takes images; leave the option out"
                ));
            }
            _ => {
                return Err(format!(
                    "{name} holds coloured images, and the built-in features are those of grey digits; convert them to grey, or compare features of your own"
                ));
            }
        }
        // Written so that a NaN is outside too.
        if let Some(i) = self.values.iter().position(|v| !(-1.0..=1.0).contains(v)) {
            return Err(format!(
                "{name} has the value {} in image {}; give images with values in [-1, 1]",
                self.values[i],
                i / self.width
            ));
        }
        let pixels: Vec<f32> = self.values.iter().map(|v| *v as f32).collect();
        let values = Lenet::trained().features(&pixels).into_iter().map(f64::from).collect();
        Ok(Set { name, values, width: Lenet::FEATURES, channels: 0 })
    }
}

/// A set's name without the part that is taken of it.
fn part(argument: &str) -> (&str, Option<Range<usize>>) {
    let range = |text: &str| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    };
    match argument.rsplit_once(':').map(|(name, text)| (name, range(text))) {
        Some((name, Some(range))) => (name, Some(range)),
        _ => (argument, None),
    }
}

/// At least two images or rows of those there are.
fn checked(part: Option<Range<usize>>, there: usize, name: &str) -> Result<Range<usize>, String> {
    let range = part.unwrap_or(0..there);
    if range.end > there {
        return Err(format!("{name} goes beyond the end; choose a part within 0..{there}"));
    }
    if range.len() < 2 {
        return Err(format!("{name} makes a set of {}; a covariance needs 2 or more", range.len()));
    }
    Ok(range)
}
