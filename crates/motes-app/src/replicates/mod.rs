//! Replicates: the same fit with several seeds and scattered starts, each in a directory of its own, and one summary of all.

mod pool;
mod r_hat;

use std::path::{Path, PathBuf};

use motes::Summary;
use motes::noise::{Noise, Purpose};
use motes::record::{RunDirectory, make_directory};
use motes::sentence::{Face, foreign_path};
use motes::settings::{InitTheta, Settings};
use motes_models::registry::Precision;

pub use pool::{Part, pooled};
pub use r_hat::Trace;

use crate::carry::{name_files, write_files};
use crate::choices::{Choices, StartTheta};
use crate::coefficients;
use crate::config::Config;
use crate::job::{Job, Precise};
use crate::{Error, report};

/// More of them are a mistake.
const MOST: u64 = 10_000;

/// How many replicates a config asks for, if it asks for several.
pub fn count(config: &Config) -> Option<u64> {
    config.run.replicates.filter(|count| *count > 1)
}

/// Refuses numbers of replicates that cannot be meant, and those whose seeds there are not.
pub(crate) fn check(choices: &Choices) -> Result<(), Error> {
    match choices.replicates {
        Some(0) => Err("`replicates=0` leaves nothing to fit; use 1 or more".into()),
        Some(count) if count > MOST => {
            Err(format!("`replicates={count}` is more than {MOST}; use fewer").into())
        }
        Some(count) if choices.seed.unwrap_or(0).checked_add(count).is_none() => Err(format!(
            "`replicates={count}` needs as many seeds above `seed={}`; use a smaller seed",
            choices.seed.unwrap_or(0)
        )
        .into()),
        _ => Ok(()),
    }
}

/// The name of the directory of a replicate, counted from 1.
pub fn name(number: u64) -> String {
    format!("r{number}")
}

/// The directory of a replicate, counted from 1.
pub fn place(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// The directories of all replicates of a run directory, if it holds several.
pub fn places(dir: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let count = count(&Config::of_run(dir)?);
    Ok(count.map(|count| (1..=count).map(|number| place(dir, number)).collect()))
}

/// One of several replicates as a run of its own, counted from 1: the first is the fit as it would be without others, each
/// further one has the next seed. Those of a fit that finds its own way start around the model's own theta, unless another was
/// chosen.
pub fn job(several: &Job, number: u64) -> Result<Job, Error> {
    let mut job = several.clone();
    let seed = several.settings.seed + (number - 1);
    let run = &mut job.config.run;
    (run.replicates, run.seed, job.settings.seed) = (None, Some(seed), seed);
    let scatters = !job.settings.takes("steps") && job.settings.init_theta == InitTheta::Model;
    if scatters && number > 1 {
        let start = InitTheta::Vector(match job.precision {
            Precision::F32 => scattered::<f32>(&job)?,
            Precision::F64 => scattered::<f64>(&job)?,
        });
        job.config.run.init_theta = Some(StartTheta(start.clone()));
        job.settings.init_theta = start;
    }
    Ok(job)
}

/// The model's own start with a standard normal added to each component: theta is on a scale without bounds.
fn scattered<F: Precise>(job: &Job) -> Result<Vec<f64>, Error> {
    let Settings { seed, init_theta, .. } = &job.settings;
    let model = F::model(&*job.problem, &job.settings)?;
    let (mut theta, _) = init_theta.of_model(&*model, *seed);
    let mut way = vec![0.0; theta.len()];
    Noise::new(*seed, Purpose::Scatter).normals_f64(0, 0, &mut way);
    theta.iter_mut().zip(way).for_each(|(t, w)| *t += w);
    Ok(theta)
}

/// What several replicates come from, from the first of them, which is the fit without others.
pub fn several(first: &Job, count: u64) -> Job {
    let mut several = first.clone();
    several.config.run.replicates = Some(count);
    several
}

/// Makes a directory for replicates, with the config that they come from and the files that it names there.
pub fn create(several: &mut Job, dir: &Path) -> Result<(), Error> {
    make_directory(dir)?;
    let files = name_files(several, dir)?;
    write_files(dir, files)?;
    Ok(RunDirectory::write_config(dir, &several.config.to_toml_in(dir))?)
}

/// How far a replicate is.
pub enum Standing {
    /// It has not begun.
    New,
    /// It goes on from its last checkpoint, with this config.
    Begun(Box<Config>),
    /// It had ended and goes on from the end of theta's stage, with this config.
    AtTheta(Box<Config>),
    /// It is done.
    Finished,
}

/// How far a replicate of a directory is with what the directory's config asks for now.
pub fn standing(dir: &Path, number: u64, several: &Config) -> Result<Standing, Error> {
    let place = place(dir, number);
    if !place.join("config.toml").exists() {
        return Ok(Standing::New);
    }
    let mut config = Config::of_run(&place)?;
    let summary = Summary::read(&place).ok().flatten();
    let wanted = &several.run;
    let (steps, tolerance, most) = (wanted.steps, wanted.tolerance, wanted.max_evaluations);
    let same =
        |then: &Choices| (then.steps, then.tolerance, then.max_evaluations) == (steps, tolerance, most);
    let as_before = same(&config.run);
    (config.run.steps, config.run.tolerance, config.run.max_evaluations) = (steps, tolerance, most);
    // What goes on with another tolerance has its summary of before until it ends.
    let summarized = summary.is_some_and(|s| {
        let written = s.settings.as_object().and_then(|table| Choices::of(table).ok());
        written.is_some_and(|run| same(&run))
    });
    Ok(match (as_before, summarized) {
        (true, true) => Standing::Finished,
        (false, _) if config.run.steps.is_none() => Standing::AtTheta(Box::new(config)),
        _ => Standing::Begun(Box::new(config)),
    })
}

/// Pools the replicates of a directory, which are all finished, and writes what they come to; with a report in the words of a
/// face. Returns it with a warning if the report could not be written.
pub fn finish(
    dir: &Path,
    several: &Config,
    with_report: Option<Face>,
) -> Result<(Summary, Option<String>), Error> {
    let summary = read(dir, several)?;
    if let Some(all) = &summary.coefficients {
        coefficients::write(dir, all)?;
    }
    summary.write(dir)?;
    let dirs: Vec<PathBuf> = (1..=count(several).unwrap_or(1)).map(|number| place(dir, number)).collect();
    let warning = with_report.and_then(|face| report::after_replicates(dir, &dirs, face));
    Ok((summary, warning))
}

/// What the finished replicates of a directory come to.
fn read(dir: &Path, several: &Config) -> Result<Summary, Error> {
    let mut found = Vec::new();
    for number in 1..=count(several).unwrap_or(1) {
        let place = place(dir, number);
        let summary = Summary::read(&place)?.ok_or_else(|| {
            format!("{} has no summary.json; `resume()` the replicates first", foreign_path(&place))
        })?;
        found.push((name(number), summary, Trace::File(place.join("trace.csv"))));
    }
    let parts: Vec<Part<'_>> = found
        .iter()
        .map(|(name, summary, trace)| Part { name: name.clone(), summary, trace: trace.clone() })
        .collect();
    Ok(pooled(several, &parts))
}

/// A fit that finds its own way, by the name of its algorithm.
fn ends_itself(summary: &Summary) -> bool {
    let algorithm = summary.algorithm.parse::<&'static motes::Algorithm>();
    algorithm.is_ok_and(|algorithm| !algorithm.takes("steps", &Settings::default()))
}
