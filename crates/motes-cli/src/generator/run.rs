//! `motes fit generator` and its `motes resume`: the loop that owns stopping, recording, pictures and checkpoints.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use motes::checkpoint::{self, Generations};
use motes::files::{Durable, write_atomically};
use motes::memory;
use motes::npz::NpzWriter;
use motes::record::{RunDirectory, claim, open_locked};
use motes::{Ended, Error, Ticker};
use motes_models::data::ImageSet;
use motes_models::generator::{Algorithm, Damage, Inference, Seen, Settings, Targets, Trainer, save_weights};

use super::FitGeneratorArgs;
use super::config::GeneratorConfig;
use super::open::{self, Pictures};
use super::progress::{Progress, loss_and_speed};
use super::report;
use crate::args::{How, ResumeArgs};
use crate::fit::{fewer_steps, make_absolute};
use crate::progress::{Interrupt, thousands};

/// How often a checkpoint is due when no number of steps is given.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
const TRACE_HEADER: &str = "k,loss,error,x_rms\n";

/// Where a run begins.
enum From {
    Scratch { out: Option<PathBuf> },
    Directory(PathBuf),
}

/// Trains a generator.
pub fn fit(args: FitGeneratorArgs) -> Result<Ended, String> {
    let mut file = args.config_file.as_deref().map(GeneratorConfig::read).transpose()?.unwrap_or_default();
    file.make_way_for(&args.config);
    let mut config = args.config.or(file);
    make_absolute([&mut config.data, &mut config.labels].into_iter().flatten())?;
    start(config, args.how, From::Scratch { out: args.out })
}

/// Goes on with a training.
pub fn resume(args: ResumeArgs) -> Result<Ended, String> {
    let mut config = GeneratorConfig::read(&args.dir.join("config.toml"))?;
    if let Some(steps) = args.steps {
        let images = config.images.unwrap_or(0);
        let before = config.total_steps(&config.settings(images)?, images);
        if steps < before {
            return Err(fewer_steps(steps, before));
        }
        (config.epochs, config.steps) = (None, Some(steps));
    }
    start(config, args.how, From::Directory(args.dir))
}

fn start(config: GeneratorConfig, how: How, from: From) -> Result<Ended, String> {
    let pool = crate::fit::pool(how.threads)?;
    let interrupt = Interrupt::install()?;
    pool.install(|| Plan::new(config, how)?.carry_out(from, interrupt, &|_| ()))
}

/// Trains quietly into a directory, or goes on with what is there, on the current thread pool; `told` hears where
/// it begins and of each step.
pub fn train(
    config: GeneratorConfig,
    dir: &Path,
    interrupt: &Interrupt,
    told: &dyn Fn(u64),
) -> Result<Ended, String> {
    if dir.join("summary.json").exists() {
        return Ok(Ended::Complete);
    }
    let from = if dir.join("config.toml").exists() {
        From::Directory(dir.to_path_buf())
    } else {
        From::Scratch { out: Some(dir.to_path_buf()) }
    };
    let how = How { threads: None, quiet: true, no_report: false };
    Plan::new(config, how)?.carry_out(from, interrupt.clone(), told)
}

/// A training that is fully described and can begin.
struct Plan {
    config: GeneratorConfig,
    text: String,
    settings: Settings,
    steps: u64,
    images: ImageSet,
    how: How,
    estimate: String,
}

impl Plan {
    /// Reads the images and refuses what cannot be trained.
    fn new(mut config: GeneratorConfig, how: How) -> Result<Self, String> {
        let channels = open::channels(&config)?;
        if let Some(images) = config.images {
            config.settings(images)?; // what is wrong with flags is said before images are read
        }
        let images = open::images(&config, channels, how.quiet)?;
        let sha256 = images.sha256();
        if config.data_sha256.as_ref().is_some_and(|sha| *sha != sha256) {
            return Err("the images have changed since this config was written (their SHA-256 differs); restore them or start a new run without --config".into());
        }
        config.data_sha256 = Some(sha256);
        let m = images.count();
        let settings = config.settings(m)?;
        settings.validate(m, true).map_err(|e| e.to_string())?;
        let steps = config.total_steps(&settings, m);
        let config = config.resolved(&settings, m, channels);
        let estimate = open::memory_estimate(&settings, m, channels);
        if let Some(available) = memory::available().filter(|bytes| estimate.total > *bytes) {
            return Err(format!(
                "this training needs {}, but {} are available; use fewer --images or --particles, or a smaller --batch",
                estimate.sentence,
                memory::size(available)
            ));
        }
        let text = config.to_toml()?;
        Ok(Plan { config, text, settings, steps, images, how, estimate: estimate.sentence })
    }

    fn carry_out(&self, from: From, interrupt: Interrupt, told: &dyn Fn(u64)) -> Result<Ended, String> {
        let (settings, channels) = (&self.settings, self.images.channels());
        let mut decoder = open::network(channels, settings.seed);
        let mut encoder =
            (settings.algorithm == Algorithm::Vae).then(|| open::encoder(channels, settings.seed));
        let encoder = encoder.as_deref_mut().map(|e| e as &mut dyn Inference);
        let trainer = Trainer::new(settings.clone(), &self.images, &mut *decoder, encoder);
        let mut trainer = trainer.map_err(|e| e.to_string())?;
        let mut directory = match from {
            From::Scratch { out } => {
                let out = match out {
                    Some(out) => out,
                    None => crate::fit::next_default(&format!("generator-{}", settings.algorithm))
                        .map_err(|e| e.to_string())?,
                };
                let directory = Directory::create(&out, self).map_err(|e| e.to_string())?;
                self.tell();
                directory
            }
            From::Directory(dir) => {
                let directory = Directory::resume(&dir, self, &mut trainer)?;
                RunDirectory::write_config(&dir, &self.text).map_err(|e| e.to_string())?;
                self.tell();
                if !self.how.quiet {
                    say!("going on from step {}", trainer.state().k);
                }
                directory
            }
        };
        let ended = self.train(&mut trainer, &mut directory, interrupt, told)?;
        if ended == Ended::Early {
            if !self.how.quiet {
                let dir = directory.path.display();
                say!(
                    "stopped after step {} of {}; go on with: motes resume {dir}",
                    trainer.state().k,
                    self.steps
                );
            }
            return Ok(ended);
        }
        self.finish(&mut trainer, &mut directory)?;
        Ok(ended)
    }

    /// What people should know before the first step.
    fn tell(&self) {
        if self.how.quiet {
            return;
        }
        let (s, m) = (&self.settings, self.images.count());
        say!(
            "{} images, {} in a batch, {} steps in an epoch, {} steps in all",
            thousands(&m.to_string()),
            s.batch.min(m),
            s.steps_per_epoch(m),
            thousands(&self.steps.to_string())
        );
        say!("memory: {}", self.estimate);
    }

    fn train(
        &self,
        trainer: &mut Trainer<'_>,
        directory: &mut Directory,
        interrupt: Interrupt,
        told: &dyn Fn(u64),
    ) -> Result<Ended, String> {
        let began = Instant::now();
        let mut progress = Progress::new(self.steps, "steps", self.how.quiet);
        told(trainer.state().k);
        let per_step = self.settings.batch.min(self.images.count()) as f64;
        let pictures_every =
            self.config.pictures_every.unwrap_or(self.settings.steps_per_epoch(self.images.count()));
        let outcome = loop {
            if trainer.state().k >= self.steps {
                break Ok(Ended::Complete);
            }
            let seen = match trainer.step() {
                Ok(seen) => seen,
                Err(e) => break Err(e.to_string()),
            };
            directory.record(&seen).map_err(|e| e.to_string())?;
            progress.show(seen.k, |rate| loss_and_speed(seen.loss, rate * per_step));
            told(seen.k);
            let spent = began.elapsed();
            if interrupt.is_set() && seen.k < self.steps {
                directory.checkpoint(trainer, spent).map_err(|e| e.to_string())?;
                break Ok(Ended::Early);
            }
            if directory.checkpoint_is_due(seen.k, self.config.checkpoint_every) {
                directory.checkpoint(trainer, spent).map_err(|e| e.to_string())?;
            }
            if pictures_every > 0 && seen.k % pictures_every == 0 && seen.k < self.steps {
                self.pictures(trainer, directory).map_err(|e| e.to_string())?;
            }
        };
        progress.finish();
        directory.seconds += began.elapsed().as_secs_f64();
        outcome
    }

    fn pictures(&self, trainer: &mut Trainer<'_>, directory: &Directory) -> Result<(), Error> {
        let (y, x) = trainer.last_batch();
        let (y, x) = (y.to_vec(), x.to_vec());
        Pictures { dir: &directory.path, channels: self.images.channels(), seed: self.settings.seed }.write(
            trainer.decoder(),
            &y,
            &x,
        )
    }

    /// Writes the final checkpoint, the weights, the particles, the pictures and, last, the summary and the report.
    fn finish(&self, trainer: &mut Trainer<'_>, directory: &mut Directory) -> Result<(), String> {
        let error = |e: Error| e.to_string();
        directory.checkpoint(trainer, Duration::ZERO).map_err(error)?;
        let path = directory.path.clone();
        write_atomically(&path.join("weights.safetensors"), Durable::No, |out| {
            save_weights(trainer.decoder(), out)
        })
        .map_err(error)?;
        let particles = trainer.posterior().map_err(|e| e.to_string())?;
        let (m, d_x) = (self.images.count(), trainer.decoder().d_x());
        write_atomically(&path.join("posterior.npz"), Durable::No, |out| {
            let mut npz = NpzWriter::new(out);
            npz.array("particles", &[particles.len() / (m * d_x), m, d_x], &particles)?;
            npz.finish()
        })
        .map_err(error)?;
        let shown = m.min(open::SHOWN);
        let y = self.images.values(0..shown);
        Pictures { dir: &path, channels: self.images.channels(), seed: self.settings.seed }
            .write(trainer.decoder(), &y, &particles[..shown * d_x])
            .map_err(error)?;
        let summary = report::Summary::of(&path, &self.config, self.steps, directory.seconds)?;
        write_atomically(&path.join("summary.json"), Durable::No, |out| {
            serde_json::to_writer_pretty(&mut *out, &summary)?;
            out.write_all(b"\n")
        })
        .map_err(error)?;
        if !self.how.no_report
            && let Err(problem) = report::write(&path, &path.join("report.html"))
        {
            say!("warning: the report was not written: {problem}");
        }
        if !self.how.quiet {
            // The files are written: whoever has closed the pipe has seen enough.
            let _ = std::io::stdout().write_all(summary.text(&path).as_bytes());
        }
        Ok(())
    }
}

/// A run directory open for writing.
struct Directory {
    path: PathBuf,
    trace: BufWriter<File>,
    trace_bytes: u64,
    generations: Generations,
    digest: u32,
    /// Seconds spent before this process took over, then all.
    seconds: f64,
    ticker: Ticker,
}

impl Directory {
    fn create(path: &Path, plan: &Plan) -> Result<Self, Error> {
        let mut trace = claim(path)?;
        RunDirectory::write_config(path, &plan.text)?;
        let file = path.join("trace.csv");
        trace.write_all(TRACE_HEADER.as_bytes()).map_err(Error::io("write", &file))?;
        Ok(Self::open(path, trace, TRACE_HEADER.len() as u64, 0.0, plan))
    }

    fn open(path: &Path, trace: File, trace_bytes: u64, seconds: f64, plan: &Plan) -> Self {
        Directory {
            path: path.to_path_buf(),
            trace: BufWriter::new(trace),
            trace_bytes,
            generations: Generations::with_extension(checkpoint::directory(path), "safetensors"),
            digest: settings_digest(&plan.settings),
            seconds,
            ticker: Ticker::new(CHECKPOINT_INTERVAL),
        }
    }

    /// Brings the training to its last good checkpoint and the trace back to that step.
    fn resume(path: &Path, plan: &Plan, trainer: &mut Trainer<'_>) -> Result<Self, String> {
        let file = path.join("trace.csv");
        let changed = |what: &str| {
            format!(
                "{} {what}; put back the config.toml it was written with, or start a new run with fit generator --config",
                path.display()
            )
        };
        // Before anything is read or cut: another process may be at work.
        let mut trace = open_locked(path).map_err(|e| e.to_string())?;
        let generations = Generations::with_extension(checkpoint::directory(path), "safetensors");
        let mut about = None;
        for generation in generations.list().map_err(|e| e.to_string())? {
            let bytes =
                std::fs::read(&generation).map_err(|e| Error::io("read", &generation)(e).to_string())?;
            match trainer.load(&bytes) {
                Ok(found) => {
                    about = Some(found);
                    break;
                }
                Err(Damage::Other(what)) => return Err(changed(&format!("has a checkpoint that {what}"))),
                Err(Damage::Broken(what)) => {
                    say!("warning: {} {what}: an older generation is used", generation.display());
                }
            }
        }
        if let Some(about) = &about {
            if about.settings != settings_digest(&plan.settings) || about.k > plan.steps {
                return Err(changed("was trained with other settings"));
            }
            if about.instruction_set != motes::instruction_set() {
                say!(
                    "warning: the checkpoint was written on {} and goes on here on {}: results will agree up to rounding, not bit for bit",
                    about.instruction_set,
                    motes::instruction_set()
                );
            }
        }
        let (k, trace_bytes, seconds) =
            about.map_or((0, TRACE_HEADER.len() as u64, 0.0), |a| (a.k, a.trace_bytes, a.seconds));
        let cut = (|| {
            if k == 0 {
                trace.set_len(0)?;
                trace.write_all(TRACE_HEADER.as_bytes())?;
            }
            let length = trace.metadata()?.len();
            if length >= trace_bytes {
                trace.set_len(trace_bytes)?;
                trace.seek(SeekFrom::End(0))?;
            }
            Ok(length)
        })();
        let length = cut.map_err(|e| Error::io("write", &file)(e).to_string())?;
        if length < trace_bytes {
            return Err(format!(
                "{} has lost rows ({length} of {trace_bytes} bytes are left); start again with fit generator --config",
                file.display()
            ));
        }
        generations.forget_after(k).map_err(|e| e.to_string())?;
        Ok(Self::open(path, trace, trace_bytes, seconds, plan))
    }

    fn record(&mut self, seen: &Seen) -> Result<(), Error> {
        let line = format!("{},{},{},{}\n", seen.k, seen.loss, seen.error, seen.x_rms);
        self.trace_bytes += line.len() as u64;
        self.trace.write_all(line.as_bytes()).map_err(Error::io("write", &self.path.join("trace.csv")))
    }

    fn checkpoint_is_due(&mut self, k: u64, every: Option<u64>) -> bool {
        every.map_or_else(|| self.ticker.tick(), |every| k.is_multiple_of(every))
    }

    /// Writes a checkpoint: the trace up to here first, then the training.
    fn checkpoint(&mut self, trainer: &Trainer<'_>, spent: Duration) -> Result<(), Error> {
        let began = Instant::now();
        let synced = self.trace.flush().and_then(|()| self.trace.get_ref().sync_data());
        synced.map_err(Error::io("write", &self.path.join("trace.csv")))?;
        let seconds = self.seconds + spent.as_secs_f64();
        self.generations
            .write_as(trainer.state().k, |out| trainer.save(self.digest, self.trace_bytes, seconds, out))?;
        // Writing must not take more than a tenth of the time.
        self.ticker = Ticker::new(CHECKPOINT_INTERVAL.max(10 * began.elapsed()));
        Ok(())
    }
}

/// The digest of all that a training depends on but its length, which resuming may raise.
fn settings_digest(settings: &Settings) -> u32 {
    checkpoint::digest(&serde_json::to_string(settings).unwrap_or_default())
}
