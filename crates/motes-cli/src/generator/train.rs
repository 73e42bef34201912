//! `motes fit generator` and its `motes resume`.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use motes::{Ended, Flow};
use motes_app::generator::run::{Done, From, Plan, Watch};
use motes_app::generator::{GeneratorConfig, open};
use motes_app::job::{self, make_absolute};
use motes_app::numbers::thousands;
use motes_models::generator::{Seen, Targets};

use super::FitGeneratorArgs;
use super::progress::{Progress, loss_and_speed};
use crate::args::{How, ResumeArgs};
use crate::progress::Interrupt;

/// Trains a generator.
pub fn fit(args: FitGeneratorArgs) -> Result<Ended, String> {
    let mut file =
        args.rest.config_file.as_deref().map(GeneratorConfig::read).transpose()?.unwrap_or_default();
    file.make_way_for(&args.config);
    let mut config = args.config.or(file);
    make_absolute([&mut config.data, &mut config.labels].into_iter().flatten())?;
    start(config, args.rest.how, From::Scratch { out: args.rest.out, files: Vec::new() })
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
    let pool = job::pool(how.threads)?;
    let mut plan = pool.install(|| Plan::new(config, None, &told(how.quiet)))?;
    plan.report = !how.no_report;
    if plan.config.labels.is_some() {
        open::labels(&plan.config, plan.images.count())?; // they are needed long after the training, but named now
    }
    // Not before: until then nobody would look whether a signal has come.
    let interrupt = Interrupt::listen();
    let progress = Progress::new(plan.steps, "steps", how.quiet);
    let batch = plan.settings.batch.min(plan.images.count());
    let mut terminal =
        Terminal { progress, interrupt: &interrupt, steps: plan.steps, batch, quiet: how.quiet };
    let outcome = pool.install(|| plan.carry_out(from, interrupt.stop(), &mut terminal));
    terminal.progress.finish();
    let Done { ended, summary, k, path, .. } = outcome.map_err(|e| e.to_string())?;
    if ended == Ended::Early && !how.quiet {
        say!("stopped after step {k} of {}; go on with: motes resume {}", plan.steps, path.display());
    }
    if let Some(summary) = summary.filter(|_| !how.quiet) {
        // The files are written: whoever has closed the pipe has seen enough.
        let _ = std::io::stdout().write_all(summary.text(&path).as_bytes());
    }
    Ok(ended)
}

/// Who watches a training in a terminal.
struct Terminal<'a> {
    progress: Progress,
    interrupt: &'a Interrupt,
    steps: u64,
    /// Images in a step.
    batch: usize,
    quiet: bool,
}

impl Watch for Terminal<'_> {
    fn step(&mut self, seen: &Seen) -> Flow {
        self.progress.show(seen.k, |rate| loss_and_speed(seen.loss, rate * self.batch as f64));
        if seen.k == self.steps {
            self.progress.finish();
        }
        self.interrupt.flow()
    }

    fn aside(&mut self, line: &str) {
        if !self.quiet {
            say!("{line}");
        }
    }

    fn warn(&mut self, line: &str) {
        say!("warning: {line}");
    }
}

/// Says now and then how many images have been decoded.
pub fn told(quiet: bool) -> impl Fn(usize, usize) + Sync {
    let last = Mutex::new(Instant::now());
    move |done, of| {
        if quiet || done == of {
            return;
        }
        let mut last = last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if last.elapsed() >= Duration::from_secs(5) {
            *last = Instant::now();
            say!("decoded {} of {} images", thousands(&done.to_string()), thousands(&of.to_string()));
        }
    }
}
