//! Reads a run directory, each file once, into what a report shows: bounded, whatever the run was.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use motes::columns;
use motes::printable::{Number, printable};
use motes::sentence::{Face, foreign_path};
use motes::settings::UNBOUNDED;
use motes::{Algorithm, Settings, Summary};
use motes_models::registry;
use serde_json::Value;

use super::clouds::{Archive, width};
use super::stats::{Marginal, marginal};
use super::thin::{Decimator, Moments, Smoothed, Thinned};
use super::words;
use crate::{metrics, show};

/// No run makes more steps: a browser counts no further than this.
const LAST_STEP: u64 = 1 << 53;

/// The columns that tell how far a fit is that finds its own length.
const STAGE: &str = "stage";
const EVALUATIONS: &str = "evaluations";

/// How much of a run goes into a report.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Components of theta with a trace.
    pub components: usize,
    /// Latent coordinates with a marginal.
    pub coordinates: usize,
    /// Stretches of a trace, over all components of a run together.
    pub stretches: usize,
    /// The most stretches for one trace: about one per pixel column.
    pub per_trace: usize,
    /// Characters of a name.
    pub name: usize,
}

/// A run, ready to be shown.
pub struct Run {
    pub dir: PathBuf,
    pub settings: Vec<(String, String)>,
    /// The number of steps asked for; none where the algorithm finds its own length.
    pub steps: Option<u64>,
    pub burn_in: u64,
    /// The last step of the trace.
    pub reached: u64,
    /// The stages of a fit that has them, in their order.
    pub stages: Vec<Stage>,
    /// Whether the settings are still those that the summary was written for.
    as_summarized: bool,
    /// Of a finished run.
    pub summary: Option<Summary>,
    pub theta: Vec<Component>,
    /// How many components there are, traced or not.
    pub d_theta: usize,
    pub scalars: Vec<Scalar>,
    pub posterior: Option<Posterior>,
    /// What ended the run, where that is known: it is said when it happens and kept nowhere.
    pub problem: Option<String>,
    /// In whose words it is told what to do.
    pub face: Face,
}

impl Run {
    /// Whether its model was written in Python, which alone can fit it.
    pub fn is_of_python(&self) -> bool {
        self.setting("model").is_some_and(|name| registry::find(name).is_none())
    }

    /// Has it speak to somebody, as far as they can do what it says.
    pub fn read_by(&mut self, face: Face) {
        self.face = if self.is_of_python() { Face::Python } else { face };
    }

    /// Whether all that was asked for has been done.
    pub fn complete(&self) -> bool {
        match (&self.summary, self.steps) {
            (Some(s), Some(steps)) => s.steps >= steps,
            // What goes on with another tolerance has its summary of before until it ends.
            (Some(_), None) => self.as_summarized,
            (None, _) => false,
        }
    }

    /// Whether its weights are those of standardised features.
    pub fn is_standardised(&self) -> bool {
        let data = self.summary.as_ref().and_then(|s| s.data.as_ref());
        data.is_some_and(|data| data["moments"].is_object())
    }

    /// What its steps are called: those of an algorithm that finds its own length move all particles several times.
    pub fn unit(&self) -> &'static str {
        if self.steps.is_none() { "sweep" } else { "step" }
    }

    /// N at the end of a finished run, as the summary has it, and at the beginning of another.
    pub fn particles(&self) -> Option<String> {
        match &self.summary {
            Some(s) => s.particles.map(|n| words::grouped(n as u64)),
            None => self.setting("particles").map(String::from),
        }
    }

    /// The step size that the run began with.
    pub fn step_size(&self) -> Option<String> {
        match &self.summary {
            Some(s) => s.step_size.map(|h| show::three_digits(h).to_string()),
            None => self.setting("step-size").map(String::from),
        }
    }

    /// Whether it was to run for a time, and not for a number of steps: what ends it then writes down how many it made.
    pub fn was_timed(&self) -> bool {
        self.steps == Some(UNBOUNDED)
    }

    /// A setting by its name.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// A stretch of the trace.
pub struct Stage {
    /// 1, 2 or 3.
    pub number: u8,
    pub from: u64,
    pub to: u64,
}

impl Stage {
    /// What happens in it.
    pub fn name(&self) -> &'static str {
        match self.number {
            1 => "search",
            2 => "average",
            _ => "posterior",
        }
    }
}

/// A component of theta, with what the summary has about it.
pub struct Component {
    pub name: String,
    pub trace: Vec<(u64, f64)>,
    /// The time average after burn-in, as it develops.
    pub average: Vec<(u64, f64)>,
    /// The estimate.
    pub mean: Option<f64>,
    /// Its standard error.
    pub se: Option<f64>,
    /// The Monte Carlo error of that.
    pub se_error: Option<f64>,
    /// The confidence interval.
    pub interval: Option<[f64; 2]>,
    /// The Monte Carlo error of the estimate.
    pub error: Option<f64>,
    /// The share of the information of complete data that the data hold.
    pub share: Option<f64>,
    /// How far the estimate is from the maximum, in standard errors.
    pub distance: Option<f64>,
    pub ess: Option<f64>,
    /// How far it moved from the first to the second half of the steps after burn-in, in standard deviations.
    pub drift: Option<f64>,
}

/// A scalar column of the trace.
pub struct Scalar {
    pub name: String,
    /// The title of its chart.
    pub title: String,
    /// What it is called beside the axis.
    pub label: String,
    /// What it is, in a clause.
    pub meaning: String,
    /// Whether a model gives it.
    pub metric: bool,
    /// Whether a chart shows averages over stretches of steps.
    pub averaged: bool,
    pub trace: Vec<(u64, f64)>,
}

/// The posterior, widest coordinates first.
pub struct Posterior {
    pub rows: Vec<Coordinate>,
    /// How many coordinates there are in all.
    pub total: usize,
    /// How many particles the marginals are made of, and where they come from.
    pub particles: usize,
    /// How many there were, before every n-th was taken.
    pub of_particles: usize,
    pub last_cloud_only: bool,
}

pub struct Coordinate {
    pub name: String,
    pub mean: f64,
    pub var: f64,
    /// The standard deviation that includes theta's uncertainty.
    pub total_sd: Option<f64>,
    pub marginal: Option<Marginal>,
}

/// Reads a run directory.
pub fn run(dir: &Path, limits: Limits, with_posterior: bool) -> Result<Run, String> {
    let config = config(dir)?;
    let summary = Summary::read(dir).map_err(|e| e.to_string())?;
    let whole = |key: &str| config.get(key).and_then(Value::as_u64);
    let ends_itself = config
        .get("algorithm")
        .and_then(|name| name.as_str()?.parse::<&'static Algorithm>().ok())
        .is_some_and(|algorithm| !algorithm.takes("steps", &Settings::default()));
    let counted = || whole("steps").or(summary.as_ref().map(|s| s.steps)).unwrap_or(0);
    let steps = (!ends_itself).then(counted);
    let burn_in = steps.map_or(0, |steps| whole("burn-in").unwrap_or(steps / 2));
    let as_summarized = summary.as_ref().is_some_and(|s| {
        ["tolerance", "max-evaluations"].iter().all(|key| match s.settings.get(key) {
            Some(then) => config.get(*key).is_none_or(|now| now == then),
            None => true,
        })
    });
    let mut run = Run {
        dir: dir.to_path_buf(),
        settings: config.iter().map(|(key, value)| (key.clone(), plain(value, 400))).collect(),
        steps,
        burn_in,
        reached: 0,
        stages: Vec::new(),
        as_summarized,
        d_theta: summary.as_ref().map_or(0, |s| s.d_theta),
        summary,
        theta: Vec::new(),
        scalars: Vec::new(),
        posterior: None,
        problem: None,
        face: Face::Shell,
    };
    run.read_by(Face::Shell);
    match config.contains_key("replicates") {
        true => replicates(&mut run, limits)?,
        false => trace(&mut run, limits)?,
    }
    if with_posterior && let Some(summary) = &run.summary {
        run.posterior = posterior(dir, summary, limits)?;
    }
    Ok(run)
}

/// The settings, as JSON: TOML's own values have no room for the largest seeds.
fn config(dir: &Path) -> Result<serde_json::Map<String, Value>, String> {
    let path = dir.join("config.toml");
    let bytes = std::fs::read(&path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            crate::config::not_a_run(dir).to_string()
        }
        _ => format!("cannot read {}: {e}; check the permissions", foreign_path(&path)),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not text".to_string());
    text.and_then(|t| flat(&t)).map_err(|e| {
        format!(
            "{} cannot be understood ({e}); put back the file that `motes fit` wrote",
            foreign_path(&path)
        )
    })
}

/// The settings of all tables of a config.
fn flat(text: &str) -> Result<serde_json::Map<String, Value>, String> {
    let mut all = serde_json::Map::new();
    for (key, value) in crate::text::parse(text).map_err(|e| e.to_string())? {
        match value {
            Value::Object(table) => all.extend(table),
            value => drop(all.insert(key, value)),
        }
    }
    Ok(all)
}

/// A setting as people read it.
fn plain(value: &Value, most: usize) -> String {
    let text = match value {
        Value::String(s) => s.clone(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => items.iter().map(|i| plain(i, most)).collect::<Vec<_>>().join(", "),
        Value::Number(n) if n.is_f64() => Number(n.as_f64().unwrap_or(f64::NAN)).to_string(),
        other => other.to_string(),
    };
    short(&text, most)
}

/// A text from outside, such as it can be shown and not too long.
fn short(text: &str, most: usize) -> String {
    let text = printable(text);
    let mut clean: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        clean.pop();
        clean.push('…');
    }
    clean
}

struct Traced {
    name: String,
    column: usize,
    rows: Decimator,
    average: Thinned,
    moments: Moments,
}

/// What the models that are built in want in their traces.
fn of_models() -> impl Iterator<Item = &'static motes::model::Scalar> {
    registry::MODELS.iter().flat_map(|entry| entry.scalars())
}

/// The scalar of a column that follows theta.
fn scalar(name: &str) -> Scalar {
    let (trace, name) = (Vec::new(), name.to_string());
    if let Some(c) = columns::all::<f64>().into_iter().find(|c| c.name == name) {
        let (title, meaning) = (c.title.to_string(), c.meaning.to_string());
        return Scalar {
            title,
            label: name.clone(),
            meaning,
            metric: false,
            averaged: c.averaged,
            trace,
            name,
        };
    }
    if let Some(s) = of_models().find(|s| s.name == name) {
        let (title, meaning) = (s.title.to_string(), s.meaning.to_string());
        return Scalar { title, label: name.clone(), meaning, metric: true, averaged: true, trace, name };
    }
    let shown = metrics::shown(&name);
    let meaning = format!("{} of the cloud at each step", shown.meaning);
    let title = words::capital(&shown.title);
    Scalar { title, label: shown.title, meaning, metric: true, averaged: false, trace, name }
}

/// A column as it is read, by its place.
enum Drawn {
    Steps(usize, Decimator),
    Averages(usize, Smoothed),
}

fn trace(run: &mut Run, limits: Limits) -> Result<(), String> {
    let path = run.dir.join("trace.csv");
    let failed = |e: &dyn std::fmt::Display| {
        format!("cannot read {}: {e}; give a directory that `motes fit` named", foreign_path(&path))
    };
    let mut file = File::open(&path).map_err(|e| failed(&e))?;
    // A row that was being written when the run was killed may be cut within a number; what a run at work adds is
    // left for the next report.
    let (length, last) = last_byte(&mut file).map_err(|e| failed(&e))?;
    let cut = last != Some(b'\n');
    let mut reader =
        csv::ReaderBuilder::new().flexible(true).buffer_capacity(1 << 16).from_reader(file.take(length));
    let header = reader.byte_headers().map_err(|e| failed(&e))?.clone();
    let names: Vec<String> = header.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
    if names.first().is_none_or(|n| n != "k") {
        return Err(failed(&"it does not begin with the column k"));
    }
    let theta_count = match &run.summary {
        Some(s) => s.theta.names.len(),
        None => names.len() - 1 - scalars_at_end(&names),
    }
    .min(names.len() - 1);
    run.d_theta = run.d_theta.max(theta_count);
    let shown = theta_count.min(limits.components);
    let stretches = (limits.stretches / shown.max(1)).clamp(20, limits.per_trace);
    let column = |name: String, column: usize| Traced {
        name,
        column,
        rows: Decimator::new(stretches),
        average: Thinned::new(stretches / 2),
        moments: Moments::default(),
    };
    let mut theta: Vec<Traced> = (1..=shown).map(|i| column(short(&names[i], limits.name), i)).collect();
    let mut scalars: Vec<(Scalar, Drawn)> = (1 + theta_count..names.len())
        .map(|i| {
            let mut scalar = scalar(&short(&names[i], limits.name));
            if run.steps.is_none() {
                scalar.meaning = scalar.meaning.replace("step", run.unit());
            }
            let drawn = match scalar.averaged {
                true => Drawn::Averages(i, Smoothed::new(60)),
                false => Drawn::Steps(i, Decimator::new(stretches)),
            };
            (scalar, drawn)
        })
        .collect();
    let stage_column = scalars.iter().position(|(s, _)| s.name == STAGE).map(|i| 1 + theta_count + i);
    let stage_column = stage_column.filter(|_| run.steps.is_none());
    // Of a fit in stages, where it is counts and not what it counts.
    if stage_column.is_some() {
        scalars.retain(|(s, _)| s.name != STAGE && s.name != EVALUATIONS);
    }
    let mut pending: Option<csv::ByteRecord> = None;
    let mut record = csv::ByteRecord::new();
    let mut before: Option<u64> = None;
    let mut take = |row: &csv::ByteRecord, run: &mut Run| -> Result<(), String> {
        let first = row.get(0).unwrap_or_default();
        let step = std::str::from_utf8(first).ok().and_then(|k| k.parse::<u64>().ok());
        let Some(k) = step.filter(|k| *k <= LAST_STEP && before.is_none_or(|before| before < *k)) else {
            let line = row.position().map_or(0, |p| p.line());
            let shown = short(&String::from_utf8_lossy(first), 40);
            return Err(match before {
                Some(before) => format!("line {line} has step '{shown}' after step {before}"),
                None => format!("line {line} has step '{shown}'"),
            });
        };
        before = Some(k);
        run.reached = k;
        if let Some(number) = stage_column.and_then(|i| number(row, i)).map(|v| v as u8) {
            match run.stages.last_mut().filter(|stage| stage.number == number) {
                Some(stage) => stage.to = k,
                None => run.stages.push(Stage { number, from: k, to: k }),
            }
        }
        for t in &mut theta {
            let value = number(row, t.column).unwrap_or(f64::NAN);
            t.rows.push(k, value);
            if run.steps.is_some() && k > run.burn_in && value.is_finite() {
                t.moments.push(value);
                t.average.push(k, t.moments.mean);
            }
        }
        for (_, drawn) in &mut scalars {
            match drawn {
                Drawn::Averages(i, stretches) => stretches.push(k, number(row, *i).unwrap_or(f64::NAN)),
                Drawn::Steps(i, rows) => rows.push(k, number(row, *i).unwrap_or(f64::NAN)),
            }
        }
        Ok(())
    };
    let damaged = |what: String| {
        format!("{} is damaged: {what}; put back the file that the run wrote", foreign_path(&path))
    };
    while reader.read_byte_record(&mut record).map_err(|e| failed(&e))? {
        // One row behind, so that the last can be left out.
        match &mut pending {
            Some(row) => {
                take(row, run).map_err(damaged)?;
                std::mem::swap(row, &mut record);
            }
            None => pending = Some(record.clone()),
        }
    }
    if let Some(row) = pending.filter(|row| !cut && row.len() == names.len()) {
        take(&row, run).map_err(damaged)?;
    }
    let summary = run.summary.as_ref();
    let traced = |(i, t): (usize, Traced)| Component {
        trace: t.rows.points(),
        average: t.average.points(),
        ..Component::of(summary, i, t.name)
    };
    run.theta = theta.into_iter().enumerate().map(traced).collect();
    let drawn = |(scalar, drawn): (Scalar, Drawn)| {
        let trace = match drawn {
            Drawn::Averages(_, stretches) => stretches.points(),
            Drawn::Steps(_, rows) => rows.points(),
        };
        Scalar { trace, ..scalar }
    };
    run.scalars = scalars.into_iter().map(drawn).collect();
    Ok(())
}

impl Component {
    /// What the summary has about the i-th component.
    fn of(summary: Option<&Summary>, i: usize, name: String) -> Self {
        Component {
            mean: summary.and_then(|s| s.theta.mean.as_ref()?.get(i).copied()),
            se: summary.and_then(|s| *s.theta.se.get(i)?),
            se_error: summary.and_then(|s| *s.theta.se_mc_error.get(i)?),
            interval: summary.and_then(|s| *s.theta.interval.get(i)?),
            error: summary.and_then(|s| *s.theta.mc_error.get(i)?),
            share: summary.and_then(|s| *s.theta.information_share.get(i)?),
            distance: summary.and_then(|s| *s.diagnostics.distance.get(i)?),
            ess: summary.and_then(|s| *s.diagnostics.ess.get(i)?),
            drift: summary.and_then(|s| *s.diagnostics.drift.get(i)?),
            trace: Vec::new(),
            average: Vec::new(),
            name,
        }
    }
}

/// What replicates have come to together, which has no trace.
fn replicates(run: &mut Run, limits: Limits) -> Result<(), String> {
    let Some(summary) = &run.summary else {
        return Err(format!(
            "the replicates in {} are not all finished; `resume()` them first",
            foreign_path(&run.dir)
        ));
    };
    run.reached = summary.steps;
    let names = summary.theta.names.iter().take(limits.components).enumerate();
    run.theta = names.map(|(i, name)| Component::of(Some(summary), i, short(name, limits.name))).collect();
    Ok(())
}

/// How long a file is, and its last byte.
fn last_byte(file: &mut File) -> std::io::Result<(u64, Option<u8>)> {
    let length = file.seek(SeekFrom::End(0))?;
    if length == 0 {
        return Ok((0, None));
    }
    let mut byte = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut byte)?;
    file.rewind()?;
    Ok((length, Some(byte[0])))
}

/// How many scalars an unfinished run has, whose summary would tell: those at the end that have well-known names.
fn scalars_at_end(names: &[String]) -> usize {
    let own = columns::all::<f64>().into_iter().map(|c| c.name);
    let order: Vec<&str> = own.chain(of_models().map(|s| s.name)).chain(metrics::known()).collect();
    let mut left = names.len();
    for scalar in order.iter().rev() {
        // Column 1 is theta whatever its name.
        if left > 2 && names[left - 1] == *scalar {
            left -= 1;
        }
    }
    names.len() - left
}

fn number(row: &csv::ByteRecord, column: usize) -> Option<f64> {
    std::str::from_utf8(row.get(column)?).ok()?.parse().ok()
}

fn posterior(dir: &Path, summary: &Summary, limits: Limits) -> Result<Option<Posterior>, String> {
    let path = dir.join("posterior.npz");
    let file = match File::open(&path) {
        Ok(file) => BufReader::with_capacity(1 << 16, file),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("cannot read {}: {e}; check the permissions", foreign_path(&path))),
    };
    marginals(file, summary, limits).map_err(|e| {
        format!("{} {e}; write it again with `motes resume {}`", foreign_path(&path), foreign_path(dir))
    })
}

/// A marginal with the quantiles that the summary has: here they may be of every n-th particle.
fn as_summarized(marginal: Marginal, summary: &Summary, i: usize) -> Marginal {
    let listed = summary.posterior.as_ref().and_then(|p| p.quantiles.as_ref()?.get(i).copied());
    match listed {
        Some([Some(q05), Some(q50), Some(q95)]) => Marginal { q05, q50, q95, ..marginal },
        _ => marginal,
    }
}

fn marginals(file: BufReader<File>, summary: &Summary, limits: Limits) -> Result<Option<Posterior>, String> {
    let mut archive = Archive::open(file)?;
    // An array that is not there is no defect: em has no cloud, and some runs keep none but the last.
    let (mut array, mut shape) = ("clouds", archive.shape("clouds")?);
    if shape.is_none() {
        (array, shape) = ("particles", archive.shape("particles")?);
    }
    let d = shape.as_deref().and_then(|s| s.get(1..)).map(width).filter(|d| *d > 0);
    let moments = match &summary.posterior {
        Some(listed) => Some((listed.mean.clone(), listed.var.clone())),
        None => archive.vector("mean")?.zip(archive.vector("var")?),
    };
    let moments = moments.filter(|(m, v): &(Vec<f64>, Vec<f64>)| {
        m.len() == v.len() && !m.is_empty() && d.is_none_or(|d| d == m.len())
    });
    let Some(d) = d.or(moments.as_ref().map(|m| m.0.len())) else { return Ok(None) };
    let mut order: Vec<usize> = (0..d).collect();
    if let Some((_, var)) = &moments {
        order.sort_by(|a, b| var[*b].total_cmp(&var[*a]).then(a.cmp(b)));
    }
    order.truncate(limits.coordinates);
    let columns = shape.is_some().then(|| archive.columns(array, &order)).transpose()?;
    let points = if order.len() <= 200 { 128 } else { 64 };
    let names = match &summary.posterior {
        Some(listed) => listed.names.clone(),
        None => motes::summary::names_of_groups(
            archive.strings("x_names")?.unwrap_or_default(),
            archive.strings("group_names")?.as_deref(),
        ),
    };
    let mut rows: Vec<Coordinate> = Vec::with_capacity(order.len());
    for (place, i) in order.into_iter().enumerate() {
        let values = columns.as_ref().map(|c| c.get(place));
        let (mean, var) = match &moments {
            Some((mean, var)) => (mean[i], var[i]),
            None => {
                let mut all = Moments::default();
                values.unwrap_or_default().iter().for_each(|v| all.push(*v));
                (all.mean, all.variance().unwrap_or(f64::NAN))
            }
        };
        rows.push(Coordinate {
            name: names.get(i).map_or_else(|| format!("x[{i}]"), |name| short(name, limits.name)),
            mean,
            var,
            total_sd: summary.posterior.as_ref().and_then(|p| *p.total_sd.as_ref()?.get(i)?),
            marginal: values.and_then(|v| marginal(v, points)).map(|m| as_summarized(m, summary, i)),
        });
    }
    let width = |c: &Coordinate| c.marginal.as_ref().map_or(3.29 * c.var.sqrt(), |m| m.q95 - m.q05);
    rows.sort_by(|a, b| width(b).total_cmp(&width(a)));
    let (particles, of_particles) = columns.map_or((0, 0), |c| (c.particles, c.of_particles));
    Ok(Some(Posterior { rows, total: d, particles, of_particles, last_cloud_only: array == "particles" }))
}
