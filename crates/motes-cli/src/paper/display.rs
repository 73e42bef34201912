//! How far the replicates have come: a bar on a terminal, a line now and then elsewhere.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::replicates::{Job, Needs, Outcomes};

const LINE_SECONDS: u64 = 10;
/// Seconds of work of which people are told beforehand.
const LONG: f64 = 300.0;

struct Item {
    name: &'static str,
    jobs: Vec<String>,
    done: usize,
    reused: usize,
}

/// Shows items, replicates and the time that is left.
pub struct Display {
    items: Vec<Item>,
    bar: Option<ProgressBar>,
    workers: f64,
    began: Instant,
    last_line: Instant,
    /// Estimated seconds of work: done here, and left.
    spent: f64,
    left: f64,
    /// Which part is done of the jobs that say so.
    parts: HashMap<String, f64>,
}

impl Display {
    pub fn new(needs: &[Needs], stored: &Outcomes, todo: &[&Job], workers: usize) -> Self {
        let items: Vec<Item> = needs
            .iter()
            .map(|need| {
                let jobs: Vec<String> = need.jobs.iter().map(|j| j.name.clone()).collect();
                let reused = jobs.iter().filter(|j| stored.contains_key(*j)).count();
                Item { name: need.item, jobs, done: reused, reused }
            })
            .collect();
        let bar = (std::io::stderr().is_terminal() && !todo.is_empty()).then(|| {
            let bar = ProgressBar::new(todo.len() as u64);
            let template = "{msg}  {wide_bar:.cyan/dim}  {human_pos}/{human_len} replicates  {prefix}";
            bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
            bar
        });
        let left = todo.iter().map(|j| j.seconds()).sum();
        let (now, workers) = (Instant::now(), workers as f64);
        let parts = HashMap::new();
        let mut display =
            Display { items, bar, workers, began: now, last_line: now, spent: 0.0, left, parts };
        if display.left / display.workers > LONG {
            let (eta, kept) = (display.eta(), "what is done is kept if you stop it");
            say!("about {eta} of work for {workers} cores of this kind; {kept}");
        }
        display.tick();
        display
    }

    /// Says that so much of a job is done.
    pub fn job_goes_on(&mut self, job: &Job, part: f64) {
        let before = self.parts.insert(job.name.clone(), part);
        self.left -= job.seconds() * (part - before.unwrap_or(0.0));
        // What a long job begins with was done earlier, by another process.
        let begins = if part < 1.0 { part } else { 0.0 };
        self.spent += job.seconds() * (part - before.unwrap_or(begins));
        self.tick();
    }

    pub fn job_done(&mut self, job: &Job) {
        for item in &mut self.items {
            item.done += usize::from(item.jobs.contains(&job.name));
        }
        self.job_goes_on(job, 1.0);
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Says that an item is complete.
    pub fn item_done(&mut self, i: usize) {
        let Item { name, jobs, reused, .. } = &self.items[i];
        let line = match (jobs.len(), reused) {
            (0, _) => format!("{name}: done"),
            (1, 0) => format!("{name}: done, 1 replicate"),
            (1, _) => format!("{name}: done, 1 replicate, reused"),
            (all, 0) => format!("{name}: done, {all} replicates"),
            (all, reused) => format!("{name}: done, {all} replicates, {reused} of them reused"),
        };
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }

    pub fn tick(&mut self) {
        let Some(item) = self.items.iter().find(|item| item.done < item.jobs.len()) else { return };
        let shown = format!("{} {}/{}", item.name, item.done, item.jobs.len());
        match &self.bar {
            Some(bar) => {
                bar.set_message(shown);
                bar.set_prefix(format!("ETA {}", self.eta()));
                bar.tick();
            }
            None if self.last_line.elapsed() >= Duration::from_secs(LINE_SECONDS) => {
                self.last_line = Instant::now();
                say!("{shown} replicates, {} to go", self.eta());
            }
            None => {}
        }
    }

    /// From the pace so far, or from the estimates where there is none yet.
    fn eta(&self) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let pace = if self.spent > 0.0 { elapsed / self.spent } else { 1.0 / self.workers };
        let seconds = (self.left * pace).max(0.0);
        let (minutes, hours) = (seconds / 60.0, seconds / 3600.0);
        match seconds {
            s if s < 90.0 => format!("{s:.0} s"),
            s if s < 5400.0 => format!("{minutes:.0} min"),
            s if s < 172_800.0 => format!("{hours:.0} h"),
            _ => format!("{:.0} days", hours / 24.0),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
