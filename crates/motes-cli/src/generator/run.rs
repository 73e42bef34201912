//! `motes fit generator` and its `motes resume`: the loop that owns stopping, recording, pictures and checkpoints.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use motes::checkpoint::{self, Due, Generations};
use motes::files::{Durable, sweep, write_atomically};
use motes::memory;
use motes::npz::NpzWriter;
use motes::record::{RunDirectory, TraceFile};
use motes::{Ended, Error, Flow};
use motes_models::data::ImageSet;
use motes_models::generator::{
    About, Algorithm, Damage, Decoder, Inference, Seen, Settings, Stop, Targets, Trainer, TrainingError,
    save_weights,
};

use super::FitGeneratorArgs;
use super::config::GeneratorConfig;
use super::open::{self, Pictures, Trained};
use super::progress::{Progress, loss_and_speed};
use super::report;
use crate::args::{How, ResumeArgs};
use crate::fit::make_absolute;
use crate::progress::{Interrupt, thousands};

/// How often a checkpoint is due when no number of steps is given.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
const TRACE_HEADER: &[u8] = b"k,loss,error,x_rms\n";

/// What can go wrong: a sentence, a [`motes::Error`] or a `TrainingError`, which the Python package tells apart.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Where a run begins.
pub enum From {
    /// In a new directory, with files of these names and bytes beside its config.
    Scratch {
        out: Option<PathBuf>,
        files: Vec<(&'static str, Vec<u8>)>,
    },
    Directory(PathBuf),
}

/// Trains a generator.
pub fn fit(args: FitGeneratorArgs) -> Result<Ended, String> {
    let mut file = args.config_file.as_deref().map(GeneratorConfig::read).transpose()?.unwrap_or_default();
    file.make_way_for(&args.config);
    let mut config = args.config.or(file);
    make_absolute([&mut config.data, &mut config.labels].into_iter().flatten())?;
    start(config, args.how, From::Scratch { out: args.out, files: Vec::new() })
}

/// Goes on with a training.
pub fn resume(args: ResumeArgs) -> Result<Ended, String> {
    let mut config = GeneratorConfig::read(&args.dir.join("config.toml"))?;
    if let Some(steps) = args.steps {
        config.go_on_to(steps)?;
    }
    start(config, args.how, From::Directory(args.dir))
}

fn start(config: GeneratorConfig, how: How, from: From) -> Result<Ended, String> {
    let pool = crate::fit::pool(how.threads)?;
    let plan = pool.install(|| Plan::new(config, how, None))?;
    if plan.config.labels.is_some() {
        open::labels(&plan.config, plan.images.count())?; // they are needed long after the training, but named now
    }
    let interrupt = Interrupt::listen();
    let mut progress = Progress::new(plan.steps, "steps", plan.how.quiet);
    let per_step = plan.settings.batch.min(plan.images.count()) as f64;
    let mut watch = |seen: &Seen| {
        progress.show(seen.k, |rate| loss_and_speed(seen.loss, rate * per_step));
        if seen.k == plan.steps {
            progress.finish();
        }
        interrupt.flow()
    };
    let outcome = pool.install(|| plan.carry_out(from, interrupt.stop(), &mut watch));
    progress.finish();
    let Done { ended, k, path, .. } = outcome.map_err(|e| e.to_string())?;
    if ended == Ended::Early && !plan.how.quiet {
        say!("stopped after step {k} of {}; go on with: motes resume {}", plan.steps, path.display());
    }
    Ok(ended)
}

/// Trains quietly into a directory, or goes on with what is there, on the current thread pool; `told` hears of each step.
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
        From::Scratch { out: Some(dir.to_path_buf()), files: Vec::new() }
    };
    let how = How { threads: None, quiet: true, no_report: false };
    let mut watch = |seen: &Seen| {
        told(seen.k);
        interrupt.flow()
    };
    let done = Plan::new(config, how, None)?.carry_out(from, interrupt.stop(), &mut watch);
    done.map(|done| done.ended).map_err(|e| e.to_string())
}

/// A training that is fully described and can begin.
pub struct Plan {
    pub config: GeneratorConfig,
    /// The config as it is written.
    pub text: String,
    pub settings: Settings,
    pub steps: u64,
    pub images: Arc<ImageSet>,
    how: How,
    estimate: String,
}

/// What a training has come to.
pub struct Done {
    pub ended: Ended,
    /// The network, and the particles; without these if the training ended early and keeps none.
    pub trained: Trained,
    pub k: u64,
    pub seconds: f64,
    pub path: PathBuf,
}

impl Plan {
    /// Settles everything that can be settled before the first step. Images that were read before are given.
    pub fn new(mut config: GeneratorConfig, how: How, images: Option<Arc<ImageSet>>) -> Result<Self, String> {
        let channels = match &images {
            Some(images) => images.channels(),
            None => open::channels(&config)?,
        };
        if let Some(images) = config.images {
            config.settings(images)?; // what is wrong with flags is said before images are read
        }
        let images = match images {
            Some(images) => images,
            None => Arc::new(open::images(&config, channels, how.quiet)?),
        };
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

    /// Calls `work` with the training before its first step, and returns the network too.
    fn with_trainer<T>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(&mut Trainer<'_>) -> Result<T, Failure>,
    ) -> Result<(T, Box<dyn Decoder>), Failure> {
        let (settings, channels) = (&self.settings, self.images.channels());
        let mut decoder = open::network(channels, settings.seed);
        let mut encoder =
            (settings.algorithm == Algorithm::Vae).then(|| open::encoder(channels, settings.seed));
        let encoder = encoder.as_deref_mut().map(|e| e as &mut dyn Inference);
        let mut trainer = Trainer::new(settings.clone(), &*self.images, &mut *decoder, encoder)?;
        trainer.stop_when(stop);
        let done = work(&mut trainer)?;
        Ok((done, decoder))
    }

    fn trained(&self, decoder: Box<dyn Decoder>, particles: Vec<f32>) -> Trained {
        let (channels, images) = (self.images.channels(), self.images.count());
        Trained { config: self.config.clone(), channels, decoder, particles, images }
    }

    /// Trains, and writes what is to be written. `watch` sees each step and may stop there, `stop` in the middle of one,
    /// which is then as if it had not begun.
    pub fn carry_out(
        &self,
        from: From,
        stop: Stop<'_>,
        watch: &mut dyn FnMut(&Seen) -> Flow,
    ) -> Result<Done, Failure> {
        let ((ended, particles, k, seconds, path), decoder) = self.with_trainer(stop, |trainer| {
            let mut directory = match from {
                From::Scratch { out, files } => {
                    let out = match out {
                        Some(out) => out,
                        None => crate::fit::next_default(&format!("generator-{}", self.settings.algorithm))?,
                    };
                    let directory = Directory::create(&out, self, &files)?;
                    self.tell();
                    directory
                }
                From::Directory(dir) => {
                    let directory = Directory::resume(&dir, self, trainer)?;
                    RunDirectory::write_config(&dir, &self.text)?;
                    self.tell();
                    if !self.how.quiet {
                        say!("going on from step {}", trainer.state().k);
                    }
                    directory
                }
            };
            let finished = match self.train(trainer, &mut directory, watch)? {
                Ended::Complete => self.finish(trainer, &mut directory)?,
                Ended::Early => None,
            };
            let ended = if finished.is_some() { Ended::Complete } else { Ended::Early };
            let state = trainer.state();
            let particles = finished.unwrap_or_else(|| state.cloud.clone());
            Ok((ended, particles, state.k, directory.seconds, directory.path))
        })?;
        Ok(Done { ended, trained: self.trained(decoder, particles), k, seconds, path })
    }

    /// Reads the last checkpoint of a run directory, and changes nothing there.
    pub fn read(&self, dir: &Path) -> Result<Done, Failure> {
        let ((about, cloud), decoder) = self.with_trainer(Stop::default(), |trainer| {
            let about = last_checkpoint(dir, self, trainer)?.ok_or_else(|| {
                format!("{} has no checkpoint yet; train the generator again", dir.display())
            })?;
            Ok((about, trainer.state().cloud.clone()))
        })?;
        // Particles that no cloud holds are drawn at the end.
        let (ended, trained) = match about.k >= self.steps && dir.join("summary.json").exists() {
            true => (Ended::Complete, Trained::open(dir)?),
            false => (Ended::Early, self.trained(decoder, cloud)),
        };
        Ok(Done { ended, trained, k: about.k, seconds: about.seconds, path: dir.to_path_buf() })
    }

    /// Copies a run to a new directory, as far as its last checkpoint.
    pub fn copy(&self, dir: &Path, to: &Path, files: &[(&'static str, Vec<u8>)]) -> Result<(), Error> {
        Directory::create(to, self, files)?;
        let checkpoints = checkpoint::directory(to);
        std::fs::create_dir_all(&checkpoints).map_err(Error::io("make", &checkpoints))?;
        let copied =
            |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).map_err(Error::io("write", to));
        let generations = Generations::with_extension(checkpoint::directory(dir), "safetensors");
        for file in generations.list()? {
            copied(&file, &checkpoints.join(file.file_name().unwrap_or_default()))?;
        }
        copied(&dir.join("trace.csv"), &to.join("trace.csv"))
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
        watch: &mut dyn FnMut(&Seen) -> Flow,
    ) -> Result<Ended, Failure> {
        let began = Instant::now();
        let pictures_every =
            self.config.pictures_every.unwrap_or(self.settings.steps_per_epoch(self.images.count()));
        let mut ended = Ended::Complete;
        while trainer.state().k < self.steps {
            let seen = match trainer.step() {
                Err(TrainingError::Stopped) => {
                    directory.checkpoint(trainer, began.elapsed())?;
                    ended = Ended::Early;
                    break;
                }
                seen => seen?,
            };
            directory.record(&seen)?;
            let stop = watch(&seen) == Flow::Stop && seen.k < self.steps;
            if stop || directory.due.after(seen.k) {
                directory.checkpoint(trainer, began.elapsed())?;
            }
            if stop {
                ended = Ended::Early;
                break;
            }
            if pictures_every > 0 && seen.k % pictures_every == 0 && seen.k < self.steps {
                self.pictures(trainer, directory)?;
            }
        }
        directory.seconds += began.elapsed().as_secs_f64();
        Ok(ended)
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
    /// Returns the particles, unless their drawing was stopped.
    fn finish(
        &self,
        trainer: &mut Trainer<'_>,
        directory: &mut Directory,
    ) -> Result<Option<Vec<f32>>, Failure> {
        directory.checkpoint(trainer, Duration::ZERO)?;
        let path = directory.path.clone();
        write_atomically(&path.join("weights.safetensors"), Durable::No, |out| {
            save_weights(trainer.decoder(), out)
        })?;
        let particles = match trainer.posterior() {
            Err(TrainingError::Stopped) => return Ok(None),
            particles => particles?,
        };
        let (m, d_x) = (self.images.count(), trainer.decoder().d_x());
        write_atomically(&path.join("posterior.npz"), Durable::No, |out| {
            let mut npz = NpzWriter::new(out);
            npz.array("particles", &[particles.len() / (m * d_x), m, d_x], &particles)?;
            npz.finish()
        })?;
        let shown = m.min(open::SHOWN);
        let y = self.images.values(0..shown);
        Pictures { dir: &path, channels: self.images.channels(), seed: self.settings.seed }.write(
            trainer.decoder(),
            &y,
            &particles[..shown * d_x],
        )?;
        let summary = report::Summary::of(&path, &self.config, self.steps, directory.seconds)?;
        write_atomically(&path.join("summary.json"), Durable::No, |out| {
            serde_json::to_writer_pretty(&mut *out, &summary)?;
            out.write_all(b"\n")
        })?;
        if !self.how.no_report
            && let Err(problem) = report::write(&path, &path.join("report.html"))
        {
            say!("warning: the report was not written: {problem}");
        }
        if !self.how.quiet {
            // The files are written: whoever has closed the pipe has seen enough.
            let _ = std::io::stdout().write_all(summary.text(&path).as_bytes());
        }
        Ok(Some(particles))
    }
}

/// A run directory open for writing.
struct Directory {
    path: PathBuf,
    trace: TraceFile,
    generations: Generations,
    digest: u32,
    /// Seconds spent before this process took over, then all.
    seconds: f64,
    due: Due,
}

impl Directory {
    fn create(path: &Path, plan: &Plan, files: &[(&'static str, Vec<u8>)]) -> Result<Self, Error> {
        let mut trace = TraceFile::claim(path)?;
        RunDirectory::write_config(path, &plan.text)?;
        for (name, bytes) in files {
            write_atomically(&path.join(name), Durable::Yes, |out| out.write_all(bytes))?;
        }
        trace.replace(TRACE_HEADER)?;
        Ok(Self::open(path, trace, 0.0, plan))
    }

    fn open(path: &Path, trace: TraceFile, seconds: f64, plan: &Plan) -> Self {
        sweep(&path.join("pictures"));
        Directory {
            path: path.to_path_buf(),
            trace,
            generations: Generations::with_extension(checkpoint::directory(path), "safetensors"),
            digest: settings_digest(&plan.settings),
            seconds,
            due: Due::new(plan.config.checkpoint_every, CHECKPOINT_INTERVAL),
        }
    }

    /// Brings the training to its last good checkpoint and the trace back to that step.
    fn resume(path: &Path, plan: &Plan, trainer: &mut Trainer<'_>) -> Result<Self, Failure> {
        // Before anything is read or cut: another process may be at work.
        let mut trace = TraceFile::open(path)?;
        let about = last_checkpoint(path, plan, trainer)?;
        let (k, seconds) = about.as_ref().map_or((0, 0.0), |a| (a.k, a.seconds));
        match about {
            Some(about) if k > 0 => trace.cut_back(about.trace_bytes)?,
            _ => trace.replace(TRACE_HEADER)?,
        }
        let directory = Self::open(path, trace, seconds, plan);
        directory.generations.forget_after(k)?;
        Ok(directory)
    }

    fn record(&mut self, seen: &Seen) -> Result<(), Error> {
        let line = format!("{},{},{},{}\n", seen.k, seen.loss, seen.error, seen.x_rms);
        self.trace.append(line.as_bytes())
    }

    /// Writes a checkpoint: the trace up to here first, then the training.
    fn checkpoint(&mut self, trainer: &Trainer<'_>, spent: Duration) -> Result<(), Error> {
        let began = Instant::now();
        self.trace.sync()?;
        let seconds = self.seconds + spent.as_secs_f64();
        self.generations
            .write_as(trainer.state().k, |out| trainer.save(self.digest, self.trace.bytes(), seconds, out))?;
        self.due.written(began.elapsed());
        Ok(())
    }
}

/// Brings the training to the last good checkpoint of a run directory, if there is one.
fn last_checkpoint(path: &Path, plan: &Plan, trainer: &mut Trainer<'_>) -> Result<Option<About>, Failure> {
    let changed = |what: &str| {
        format!(
            "{} {what}; put back the config.toml it was written with, or start a new run with fit generator --config",
            path.display()
        )
    };
    let generations = Generations::with_extension(checkpoint::directory(path), "safetensors");
    let mut about = None;
    for generation in generations.list()? {
        let bytes = std::fs::read(&generation).map_err(Error::io("read", &generation))?;
        match trainer.load(&bytes) {
            Ok(found) => {
                about = Some(found);
                break;
            }
            Err(Damage::Other(what)) => return Err(changed(&format!("has a checkpoint that {what}")).into()),
            Err(Damage::Broken(what)) => {
                say!("warning: {} {what}: an older generation is used", generation.display());
            }
        }
    }
    if let Some(about) = &about {
        if about.settings != settings_digest(&plan.settings) || about.k > plan.steps {
            return Err(changed("was trained with other settings").into());
        }
        if about.instruction_set != motes::instruction_set() {
            say!(
                "warning: the checkpoint was written on {} and goes on here on {}: results will agree up to rounding, not bit for bit",
                about.instruction_set,
                motes::instruction_set()
            );
        }
    }
    Ok(about)
}

/// The digest of all that a training depends on but its length, which resuming may raise.
fn settings_digest(settings: &Settings) -> u32 {
    checkpoint::digest(&serde_json::to_string(settings).unwrap_or_default())
}
