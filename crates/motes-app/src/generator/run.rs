//! The training of a generator: the loop that owns stopping, recording, pictures and checkpoints.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use motes::checkpoint::{self, Due, Generations};
use motes::files::{Durable, sweep, write_atomically};
use motes::memory;
use motes::npz::NpzWriter;
use motes::record::{RunDirectory, TraceFile};
use motes::{Ended, Flow};
use motes_models::data::ImageSet;
use motes_models::generator::{
    About, Algorithm, Damage, Decoder, Inference, Seen, Settings, Stop, Targets, Trainer, TrainingError,
    save_weights,
};

use super::config::GeneratorConfig;
use super::open::{self, Pictures, Told, Trained};
use super::report;
use crate::Error;
use crate::numbers::thousands;
use crate::report::not_written;

/// How often a checkpoint is due when no number of steps is given.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
const TRACE_HEADER: &[u8] = b"k,loss,error,x_rms\n";

/// Where a run begins.
pub enum From {
    /// In a new directory, with files of these names and bytes beside its config.
    Scratch {
        /// The directory; the next free one in runs/ if nobody chose.
        out: Option<PathBuf>,
        /// Names and contents.
        files: Vec<(&'static str, Vec<u8>)>,
    },
    /// In a directory that holds one.
    Directory(PathBuf),
}

/// A training that is fully described and can begin.
pub struct Plan {
    /// Every choice that was made.
    pub config: GeneratorConfig,
    /// The config as it is written.
    pub text: String,
    /// What the choices amount to.
    pub settings: Settings,
    /// Steps in all.
    pub steps: u64,
    /// What it is trained on.
    pub images: Arc<ImageSet>,
    /// Whether it leaves a report.
    pub report: bool,
    estimate: String,
}

/// What a training has come to.
pub struct Done {
    /// How it ended.
    pub ended: Ended,
    /// The network, and the particles; without these if the training ended early and keeps none.
    pub trained: Trained,
    /// Of a training that was completed here.
    pub summary: Option<report::Summary>,
    /// Steps made.
    pub k: u64,
    /// Seconds spent on them.
    pub seconds: f64,
    /// The run directory.
    pub path: PathBuf,
    /// What should be known about it.
    pub notes: Vec<String>,
}

/// Who watches a training.
pub trait Watch {
    /// Sees each step, and may stop there.
    fn step(&mut self, seen: &Seen) -> Flow;

    /// Hears what people may want to know now.
    fn aside(&mut self, _line: &str) {}

    /// Hears at once what the notes say in the end.
    fn warn(&mut self, _line: &str) {}
}

/// Whoever only looks at the steps.
impl<W: FnMut(&Seen) -> Flow> Watch for W {
    fn step(&mut self, seen: &Seen) -> Flow {
        self(seen)
    }
}

impl Plan {
    /// Settles everything that can be settled before the first step. Images that were read before are given; `told` hears
    /// of their reading.
    pub fn new(
        mut config: GeneratorConfig,
        images: Option<Arc<ImageSet>>,
        told: Told<'_>,
    ) -> Result<Self, Error> {
        let channels = match &images {
            Some(images) => images.channels(),
            None => open::channels(&config)?,
        };
        if let Some(images) = config.images {
            config.settings(images)?; // what is wrong with flags is said before images are read
        }
        let images = match images {
            Some(images) => images,
            None => Arc::new(open::images(&config, channels, told)?),
        };
        let sha256 = images.sha256();
        if config.data_sha256.as_ref().is_some_and(|sha| *sha != sha256) {
            return Err("the images have changed since this config was written (their SHA-256 differs); restore them or start a new run without --config".into());
        }
        config.data_sha256 = Some(sha256);
        let m = images.count();
        let settings = config.settings(m)?;
        settings.validate(m, true)?;
        let steps = config.total_steps(&settings, m);
        let config = config.resolved(&settings, m, channels);
        let estimate = open::memory_estimate(&settings, m, channels);
        if let Some(available) = memory::available().filter(|bytes| estimate.total > *bytes) {
            return Err(format!(
                "this training needs {}, but {} are available; use fewer --images or --particles, or a smaller --batch",
                estimate.sentence,
                memory::size(available)
            ).into());
        }
        let text = config.to_toml();
        Ok(Plan { config, text, settings, steps, images, report: true, estimate: estimate.sentence })
    }

    /// Calls `work` with the training before its first step, and returns the network too.
    fn with_trainer<T>(
        &self,
        stop: Stop<'_>,
        work: impl FnOnce(&mut Trainer<'_>) -> Result<T, Error>,
    ) -> Result<(T, Box<dyn Decoder>), Error> {
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
    pub fn carry_out(&self, from: From, stop: Stop<'_>, watch: &mut dyn Watch) -> Result<Done, Error> {
        let mut notes = Vec::new();
        let ((finished, k, seconds, path), decoder) = self.with_trainer(stop, |trainer| {
            let mut directory = match from {
                From::Scratch { out, files } => {
                    let out = match out {
                        Some(out) => out,
                        None => crate::job::next_default(&format!("generator-{}", self.settings.algorithm))?,
                    };
                    let directory = Directory::create(&out, self, &files)?;
                    self.tell(watch);
                    directory
                }
                From::Directory(dir) => {
                    let directory = Directory::resume(&dir, self, trainer, &mut notes)?;
                    notes.iter().for_each(|note| watch.warn(note));
                    RunDirectory::write_config(&dir, &self.text)?;
                    self.tell(watch);
                    watch.aside(&format!("going on from step {}", trainer.state().k));
                    directory
                }
            };
            let finished = match self.train(trainer, &mut directory, watch)? {
                Ended::Complete => self.finish(trainer, &mut directory)?,
                Ended::Early => None,
            };
            let state = trainer.state();
            let (particles, summary) = match finished {
                Some((particles, summary)) => (particles, Some(summary)),
                None => (state.cloud.clone(), None),
            };
            Ok(((particles, summary), state.k, directory.seconds, directory.path))
        })?;
        let (particles, summary) = finished;
        let ended = if summary.is_some() { Ended::Complete } else { Ended::Early };
        if self.report
            && summary.is_some()
            && let Err(problem) = report::write(&path, &path.join("report.html"))
        {
            notes.push(not_written(problem));
            notes.last().into_iter().for_each(|note| watch.warn(note));
        }
        Ok(Done { ended, trained: self.trained(decoder, particles), summary, k, seconds, path, notes })
    }

    /// Reads the last checkpoint of a run directory, and changes nothing there.
    pub fn read(&self, dir: &Path) -> Result<Done, Error> {
        let mut notes = Vec::new();
        let ((about, cloud), decoder) = self.with_trainer(Stop::default(), |trainer| {
            let about = last_checkpoint(dir, self, trainer, &mut notes)?.ok_or_else(|| {
                format!("{} has no checkpoint yet; train the generator again", dir.display())
            })?;
            Ok((about, trainer.state().cloud.clone()))
        })?;
        // Particles that no cloud holds are drawn at the end.
        let (ended, trained) = match about.k >= self.steps && dir.join("summary.json").exists() {
            true => (Ended::Complete, Trained::open(dir)?),
            false => (Ended::Early, self.trained(decoder, cloud)),
        };
        let (k, seconds, path) = (about.k, about.seconds, dir.to_path_buf());
        Ok(Done { ended, trained, summary: None, k, seconds, path, notes })
    }

    /// Copies a run to a new directory, as far as its last checkpoint.
    pub fn copy(&self, dir: &Path, to: &Path, files: &[(&'static str, Vec<u8>)]) -> Result<(), Error> {
        Directory::create(to, self, files)?;
        let checkpoints = checkpoint::directory(to);
        std::fs::create_dir_all(&checkpoints).map_err(motes::Error::io("make", &checkpoints))?;
        let copied =
            |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).map_err(motes::Error::io("write", to));
        let generations = Generations::with_extension(checkpoint::directory(dir), "safetensors");
        for file in generations.list()? {
            copied(&file, &checkpoints.join(file.file_name().unwrap_or_default()))?;
        }
        Ok(copied(&dir.join("trace.csv"), &to.join("trace.csv"))?)
    }

    /// What people should know before the first step.
    fn tell(&self, watch: &mut dyn Watch) {
        let (s, m) = (&self.settings, self.images.count());
        watch.aside(&format!(
            "{} images, {} in a batch, {} steps in an epoch, {} steps in all",
            thousands(&m.to_string()),
            s.batch.min(m),
            s.steps_per_epoch(m),
            thousands(&self.steps.to_string())
        ));
        watch.aside(&format!("memory: {}", self.estimate));
    }

    fn train(
        &self,
        trainer: &mut Trainer<'_>,
        directory: &mut Directory,
        watch: &mut dyn Watch,
    ) -> Result<Ended, Error> {
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
            let stop = watch.step(&seen) == Flow::Stop && seen.k < self.steps;
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

    /// Writes the final checkpoint, the weights, the particles, the pictures and, last, the summary. Returns the particles
    /// and the summary, unless their drawing was stopped.
    fn finish(
        &self,
        trainer: &mut Trainer<'_>,
        directory: &mut Directory,
    ) -> Result<Option<(Vec<f32>, report::Summary)>, Error> {
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
        Ok(Some((particles, summary)))
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
    fn resume(
        path: &Path,
        plan: &Plan,
        trainer: &mut Trainer<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        // Before anything is read or cut: another process may be at work.
        let mut trace = TraceFile::open(path)?;
        let about = last_checkpoint(path, plan, trainer, notes)?;
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
        Ok(self.trace.append(line.as_bytes())?)
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
fn last_checkpoint(
    path: &Path,
    plan: &Plan,
    trainer: &mut Trainer<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<About>, Error> {
    let changed = |what: &str| {
        format!(
            "{} {what}; put back the config.toml it was written with, or start a new run with fit generator --config",
            path.display()
        )
    };
    let generations = Generations::with_extension(checkpoint::directory(path), "safetensors");
    let mut about = None;
    for generation in generations.list()? {
        let bytes = std::fs::read(&generation).map_err(motes::Error::io("read", &generation))?;
        match trainer.load(&bytes) {
            Ok(found) => {
                about = Some(found);
                break;
            }
            Err(Damage::Other(what)) => return Err(changed(&format!("has a checkpoint that {what}")).into()),
            Err(Damage::Broken(what)) => {
                notes.push(format!("{} {what}: an older generation is used", generation.display()));
            }
        }
    }
    if let Some(about) = &about {
        if about.settings != settings_digest(&plan.settings) || about.k > plan.steps {
            return Err(changed("was trained with other settings").into());
        }
        if about.instruction_set != motes::instruction_set() {
            notes.push(format!(
                "the checkpoint was written on {} and goes on here on {}: results will agree up to rounding, not bit for bit",
                about.instruction_set,
                motes::instruction_set()
            ));
        }
    }
    Ok(about)
}

/// The digest of all that a training depends on but its length, which resuming may raise.
fn settings_digest(settings: &Settings) -> u32 {
    checkpoint::digest(&serde_json::to_string(settings).unwrap_or_default())
}
