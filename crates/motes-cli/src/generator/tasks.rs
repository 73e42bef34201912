//! What a trained generator can do: inpaint, synthesize, interpolate, reconstruct.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use motes::files::{Durable, write_atomically};
use motes::sentence::foreign_path;
use motes::{Ended, memory, npz};
use motes_app::generator::Trained;
use motes_app::generator::tasks::{
    Filled, HOLE, Source, check_components, hole, mean_squared_error, mixture,
};
use motes_app::job;
use motes_models::data::{ImageSet, SIDE, write_grid};
use motes_models::generator::{COLUMNS, Mixture, Search, Targets, decode, interleave};

use super::progress::Progress;
use super::told;
use crate::progress::Interrupt;

/// Where results go and how the work is done.
#[derive(Args)]
pub struct Output {
    /// The directory to write to [default: the run directory]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Threads [default: all]
    #[arg(long, value_name = "T")]
    pub threads: Option<usize>,
    /// Show no progress
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct InpaintArgs {
    /// The run directory
    pub run: PathBuf,
    /// Images to inpaint: a folder, an image or an IDX file [default: test images]
    #[arg(long, value_name = "FILE|DIR")]
    pub images: Option<PathBuf>,
    /// The hole: columns x0 to x1 and rows y0 to y1 (without the last), or an image that is white there
    #[arg(long, value_name = "x0,y0,x1,y1|PNG", default_value = HOLE)]
    pub mask: String,
    /// How many images, the first of those there are
    #[arg(long, value_name = "n", default_value_t = 16)]
    pub count: usize,
    /// Steps of the search at most
    #[arg(long, value_name = "K", default_value_t = Search::default().steps)]
    pub steps: u64,
    /// The seed of the starts
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct SynthesizeArgs {
    /// The run directory
    pub run: PathBuf,
    /// Where latents come from
    #[arg(long, value_name = "SOURCE", default_value = "gaussian", value_parser = sources())]
    pub from: Source,
    /// Components of the mixture [default: 100, or fewer for few particles]
    #[arg(long, value_name = "c")]
    pub components: Option<usize>,
    /// How many images
    #[arg(long, value_name = "n", default_value_t = 64)]
    pub count: usize,
    /// The seed of the draws and of the mixture's start
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct InterpolateArgs {
    /// The run directory
    pub run: PathBuf,
    /// The training image to begin with, counted from 0
    #[arg(long, value_name = "i")]
    pub from: usize,
    /// The training image to end with
    #[arg(long, value_name = "j")]
    pub to: usize,
    /// Images on the way, both ends included
    #[arg(long, value_name = "n", default_value_t = 14)]
    pub count: usize,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Args)]
pub struct ReconstructArgs {
    /// The run directory
    pub run: PathBuf,
    /// How many training images
    #[arg(long, value_name = "n", default_value_t = 64)]
    pub count: usize,
    #[command(flatten)]
    pub output: Output,
}

/// Their names, as clap lists and parses them.
fn sources() -> impl TypedValueParser<Value = Source> {
    let values = Source::ALL.map(|(_, name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values).try_map(|name: String| name.parse::<Source>())
}

/// A run with a place for results.
struct Task {
    run: Trained,
    out: PathBuf,
}

impl Task {
    /// Opens the run on a pool of its own and does the work there.
    fn on(
        run: &Path,
        output: &Output,
        work: impl FnOnce(Task) -> Result<String, String> + Send,
    ) -> Result<Ended, String> {
        let out = output.output.clone().unwrap_or_else(|| run.to_path_buf());
        let pool = job::pool(output.threads)?;
        let text = pool.install(|| {
            let run = Trained::open(run)?;
            std::fs::create_dir_all(&out).map_err(|e| {
                format!("cannot make {}: {e}; choose another place with --output", foreign_path(&out))
            })?;
            work(Task { run, out })
        })?;
        crate::tell(&text);
        Ok(Ended::Complete)
    }

    /// Writes a grid and the same images as an array, and says where.
    fn write(&self, name: &str, grid: &[f32], columns: usize, images: &[f32]) -> Result<String, String> {
        let (png, npy) = (self.out.join(format!("{name}.png")), self.out.join(format!("{name}.npy")));
        write_grid(&png, grid, self.run.channels, columns).map_err(|e| e.to_string())?;
        let shape = [images.len() / self.run.decoder.d_y(), self.run.channels, SIDE, SIDE];
        write_atomically(&npy, Durable::No, |out| npz::write_npy(out, &shape, images))
            .map_err(|e| e.to_string())?;
        Ok(format!("{}\n{}\n", png.to_string_lossy(), npy.to_string_lossy()))
    }

    fn write_json(&self, name: &str, value: &serde_json::Value) -> Result<(), String> {
        let path = self.out.join(format!("{name}.json"));
        write_atomically(&path, Durable::No, |out| writeln!(out, "{value:#}")).map_err(|e| e.to_string())
    }
}

/// Refuses to make more images than memory can hold, as numbers and as a picture.
fn check_memory(count: usize, d_y: usize) -> Result<(), String> {
    let need = (count as u128).saturating_mul(2 * 4 * d_y as u128);
    match memory::available().filter(|there| need > *there) {
        Some(there) => Err(format!(
            "--count {count} needs {} for the images, but {} are available; ask for fewer at a time",
            memory::size(need),
            memory::size(there)
        )),
        None => Ok(()),
    }
}

/// A number of images that there are.
fn checked_count(count: usize, there: usize) -> Result<usize, String> {
    if count == 0 || there == 0 {
        return Err("--count 0 asks for nothing; use 1 or more".into());
    }
    Ok(count.min(there))
}

/// Fills holes in images: original, masked and inpainted ones below each other.
pub fn inpaint(args: InpaintArgs) -> Result<Ended, String> {
    let hole = hole(&args.mask)?;
    if args.steps == 0 {
        return Err("--steps 0 searches for nothing; use 1 or more".into());
    }
    let mut stopped = false;
    let ended = Task::on(&args.run, &args.output, |mut task| {
        let set = match &args.images {
            None => task.run.test_images()?,
            Some(path) => ImageSet::read(path, task.run.channels, None, &told(args.output.quiet))
                .map_err(|e| e.to_string())?,
        };
        let count = checked_count(args.count, set.count())?;
        let original = set.values(0..count);
        let d_y = task.run.decoder.d_y();
        let mut progress = Progress::new(count as u64, "images", args.output.quiet);
        let interrupt = Interrupt::listen();
        let search = Search { seed: args.seed, steps: args.steps, ..Search::default() };
        let filled = Filled::of(&mut *task.run.decoder, &original, &hole, &search, &mut |done| {
            progress.show(done as u64, |_| "inpainted".into());
            interrupt.flow()
        });
        progress.finish();
        let Some(Filled { masked, images, mse, mse_hole }) = filled else {
            stopped = true;
            return Ok(String::new());
        };
        let grid = interleave(&[&original, &masked, &images], d_y, COLUMNS);
        let files = task.write("inpaint", &grid, COLUMNS.min(count), &images)?;
        task.write_json(
            "inpaint",
            &serde_json::json!({ "count": count, "mask": args.mask, "seed": args.seed, "mse": mse, "mse_hole": mse_hole }),
        )?;
        Ok(format!("{count} images: MSE {mse:.6} over all pixels, {mse_hole:.6} over the hole\n{files}"))
    })?;
    if stopped {
        say!("stopped, and nothing was written; start it again");
        return Ok(Ended::Early);
    }
    Ok(ended)
}

/// Makes images up.
pub fn synthesize(args: SynthesizeArgs) -> Result<Ended, String> {
    let count = checked_count(args.count, usize::MAX)?;
    check_components(args.from, args.components)?;
    Task::on(&args.run, &args.output, |mut task| {
        check_memory(count, task.run.decoder.d_y())?;
        if args.from == Source::Mixture && !args.output.quiet {
            let components = args.components.unwrap_or_else(|| task.run.few_components());
            let particles = task.run.particles.len() / task.run.decoder.d_x();
            let some = Mixture::looked_at(particles, components);
            let long = if components < 50 { "" } else { ", for minutes" };
            say!("fitting a mixture of {components} Gaussians to {some} of {particles} particles{long}");
        }
        let mixture = mixture(&task.run, args.from, args.components, args.seed)?;
        let images = decode(&mut *task.run.decoder, &mixture.draw(count, args.seed));
        task.write(&format!("synthesize-{}", args.from.name()), &images, COLUMNS, &images)
    })
}

/// Walks from one training image to another on a straight line of latents.
pub fn interpolate(args: InterpolateArgs) -> Result<Ended, String> {
    if args.count < 2 {
        return Err(format!("--count {} leaves nothing between the ends; use 2 or more", args.count));
    }
    Task::on(&args.run, &args.output, |mut task| {
        check_memory(args.count, task.run.decoder.d_y())?;
        let d_x = task.run.decoder.d_x();
        let there = task.run.images;
        if let Some((flag, i)) =
            [("--from", args.from), ("--to", args.to)].into_iter().find(|(_, i)| *i >= there)
        {
            return Err(format!(
                "{flag} {i} is beyond the {there} training images; choose from 0 to {}",
                there - 1
            ));
        }
        let latents = |i: usize| &task.run.particles[i * d_x..(i + 1) * d_x];
        let (a, b) = (latents(args.from), latents(args.to));
        let mut x = Vec::with_capacity(args.count * d_x);
        for step in 0..args.count {
            let t = step as f32 / (args.count - 1) as f32;
            x.extend(a.iter().zip(b).map(|(a, b)| (1.0 - t) * a + t * b));
        }
        let set = task.run.training_images()?;
        let images = decode(&mut *task.run.decoder, &x);
        let ends = [args.from, args.to].map(|i| set.values(i..i + 1));
        let grid = [&ends[0][..], &images, &ends[1]].concat();
        task.write("interpolate", &grid, args.count + 2, &images)
    })
}

/// Decodes the particles of training images, below the images themselves.
pub fn reconstruct(args: ReconstructArgs) -> Result<Ended, String> {
    Task::on(&args.run, &args.output, |mut task| {
        let count = checked_count(args.count, task.run.images)?;
        let d_x = task.run.decoder.d_x();
        let original = task.run.training_images()?.values(0..count);
        let decoded = decode(&mut *task.run.decoder, &task.run.particles[..count * d_x]);
        let mse = mean_squared_error(&original, &decoded, |_| true);
        let grid = interleave(&[&original, &decoded], task.run.decoder.d_y(), COLUMNS);
        let files = task.write("reconstruct", &grid, COLUMNS.min(count), &decoded)?;
        Ok(format!("{count} images: MSE {mse:.6}\n{files}"))
    })
}
