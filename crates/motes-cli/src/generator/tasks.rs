//! What a trained generator can do: inpaint, synthesize, interpolate, reconstruct.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use motes::files::{Durable, write_atomically};
use motes::settings::unknown;
use motes::{Ended, Flow, memory, npz};
use motes_models::data::{ImageSet, SIDE, write_grid};
use motes_models::generator::{Decoder, Mixture, Search, Targets, inpaint as search_latents};

use super::open::{self, COLUMNS, Trained, decode, interleave};
use super::progress::Progress;
use crate::progress::Interrupt;

/// The paper's hole.
pub const HOLE: &str = "10,10,22,22";

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

/// Where latents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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

impl std::str::FromStr for Source {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let names = ["prior", "gaussian", "mixture", "labels"];
        <Source as ValueEnum>::from_str(word, false).map_err(|_| unknown("source of latents", word, &names))
    }
}

#[derive(Args)]
pub struct SynthesizeArgs {
    /// The run directory
    pub run: PathBuf,
    /// Where latents come from
    #[arg(long, value_name = "SOURCE", default_value = "gaussian")]
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
        let pool = crate::fit::pool(output.threads)?;
        let text = pool.install(|| {
            let run = Trained::open(run)?;
            std::fs::create_dir_all(&out).map_err(|e| {
                format!("cannot make {}: {e}; choose another place with --output", out.display())
            })?;
            work(Task { run, out })
        })?;
        let _ = std::io::stdout().write_all(text.as_bytes()); // whoever has closed the pipe has seen enough
        Ok(Ended::Complete)
    }

    /// Writes a grid and the same images as an array, and says where.
    fn write(&self, name: &str, grid: &[f32], columns: usize, images: &[f32]) -> Result<String, String> {
        let (png, npy) = (self.out.join(format!("{name}.png")), self.out.join(format!("{name}.npy")));
        write_grid(&png, grid, self.run.channels, columns).map_err(|e| e.to_string())?;
        let shape = [images.len() / self.run.decoder.d_y(), self.run.channels, SIDE, SIDE];
        write_atomically(&npy, Durable::No, |out| npz::write_npy(out, &shape, images))
            .map_err(|e| e.to_string())?;
        Ok(format!("{}\n{}\n", png.display(), npy.display()))
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

fn mean_squared_error(a: &[f32], b: &[f32], counts: impl Fn(usize) -> bool) -> f64 {
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
pub fn hole(mask: &str) -> Result<Vec<bool>, String> {
    let wrong = || {
        format!(
            "--mask {mask} is neither x0,y0,x1,y1 within 0 to {SIDE} nor an image; write for example 10,10,22,22"
        )
    };
    let numbers: Result<Vec<usize>, _> = mask.split(',').map(|n| n.trim().parse()).collect();
    let hole: Vec<bool> = match numbers.as_deref() {
        Ok(&[x0, y0, x1, y1]) if x0 < x1 && y0 < y1 && x1 <= SIDE && y1 <= SIDE => (0..SIDE * SIDE)
            .map(|i| (x0..x1).contains(&(i % SIDE)) && (y0..y1).contains(&(i / SIDE)))
            .collect(),
        Ok(_) => return Err(wrong()),
        Err(_) if Path::new(mask).is_file() => {
            let set =
                ImageSet::read(Path::new(mask), 1, Some(1), &open::told(true)).map_err(|e| e.to_string())?;
            set.values(0..1).iter().map(|v| *v > 0.0).collect()
        }
        Err(_) => return Err(wrong()),
    };
    if !hole.contains(&true) {
        return Err(format!("--mask {mask} has no hole; white pixels of an image mark what is missing"));
    }
    if hole.iter().all(|h| *h) {
        return Err(format!("--mask {mask} leaves no pixel to go by; choose a smaller hole"));
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
            Some(path) => ImageSet::read(path, task.run.channels, None, &open::told(args.output.quiet))
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
        let name = args.from.to_possible_value().map_or(String::new(), |v| v.get_name().to_string());
        task.write(&format!("synthesize-{name}"), &images, COLUMNS, &images)
    })
}

fn check_components(source: Source, components: Option<usize>) -> Result<(), String> {
    match components {
        Some(_) if source != Source::Mixture => {
            Err("--components belongs to --from mixture; leave it out".into())
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
) -> Result<Mixture, String> {
    check_components(source, components)?;
    let (d_x, particles) = (run.decoder.d_x(), &run.particles);
    match source {
        Source::Prior => Ok(Mixture::prior(d_x)),
        Source::Gaussian => Mixture::gaussian(particles, d_x),
        Source::Labels => Mixture::by_label(particles, d_x, &run.labels()?),
        Source::Mixture => {
            let components = components.unwrap_or_else(|| run.few_components());
            Mixture::fitted(particles, d_x, components, seed)
        }
    }
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
