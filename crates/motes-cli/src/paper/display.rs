//! How far the replicates have come: a bar on a terminal, a line now and then elsewhere.

use std::collections::HashMap;
use std::time::Instant;

use super::replicates::{Job, Needs, Outcomes};
use motes_app::numbers::clock;

use crate::progress::Gauge;

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
    gauge: Gauge,
    jobs_done: u64,
    workers: f64,
    began: Instant,
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
        let gauge = Gauge::new(todo.len() as u64, "", "{human_pos}/{human_len} replicates  {msg}", false);
        let left = todo.iter().map(|j| j.seconds()).sum();
        let (began, workers) = (Instant::now(), workers as f64);
        let (jobs_done, spent, parts) = (0, 0.0, HashMap::new());
        let mut display = Display { items, gauge, jobs_done, workers, began, spent, left, parts };
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
        self.jobs_done += 1;
        self.job_goes_on(job, 1.0);
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
        self.gauge.aside(&line);
    }

    pub fn tick(&mut self) {
        let Some(item) = self.items.iter().find(|item| item.done < item.jobs.len()) else { return };
        let shown = format!("{} {}/{}", item.name, item.done, item.jobs.len());
        let left = self.eta();
        let line = || format!("{shown} replicates, {left} to go");
        self.gauge.show(self.jobs_done, || format!("{shown}  ETA {left}"), line);
    }

    /// From the pace so far, or from the estimates where there is none yet.
    fn eta(&self) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let pace = if self.spent > 0.0 { elapsed / self.spent } else { 1.0 / self.workers };
        clock((self.left * pace).max(0.0))
    }

    pub fn finish(&self) {
        self.gauge.finish();
    }
}
