//! `motes fit --replicates R`, and `motes resume` of what it has left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use motes::Ended;
use motes::record::RunDirectory;
use motes::sentence::{Face, foreign_path};
use motes_app::config::Config;
use motes_app::job::{self, Job};
use motes_app::replicates::{self, Standing};
use motes_app::{Error, show};

use crate::args::{Ends, How};
use crate::fit::{Exit, Run, Where, load, seconds, tell_data, warn_of};
use crate::progress::Interrupt;

/// Fits a model several times in a new directory.
pub fn fit(config: Config, how: How, ends: Ends, out: Option<PathBuf>) -> Result<Exit, String> {
    let time = ends.budget.map(seconds).transpose()?;
    let mut several = prepared(config, &how)?;
    let interrupt = Interrupt::listen();
    let dir = match out {
        Some(dir) => dir,
        None => job::next_default(&format!("{}-{}", several.config.model, several.settings.algorithm))?,
    };
    replicates::create(&mut several, &dir)?;
    if !how.quiet {
        tell_data(&several);
    }
    Ok(carry_out(&several, &dir, how, ends.strict, time, &interrupt)?)
}

/// Goes on with replicates, or gives them more; `nearer` if that is another tolerance or more evaluations.
pub fn resume(config: Config, how: How, ends: Ends, dir: PathBuf, nearer: bool) -> Result<Exit, String> {
    let time = ends.budget.map(seconds).transpose()?;
    let several = prepared(config, &how)?;
    if nearer {
        let before = Config::of_run(&dir)?;
        for number in 1..=replicates::count(&before).unwrap_or(1) {
            if !matches!(replicates::standing(&dir, number, &before)?, Standing::Finished) {
                return Err(format!(
                    "replicate {number} in {} is not finished; `resume()` the replicates as they are first",
                    foreign_path(&dir)
                ));
            }
        }
    }
    let interrupt = Interrupt::listen();
    RunDirectory::write_config(&dir, &several.config.to_toml_in(&dir)).map_err(Error::from)?;
    if !how.quiet {
        tell_data(&several);
    }
    Ok(carry_out(&several, &dir, how, ends.strict, time, &interrupt)?)
}

fn prepared(config: Config, how: &How) -> Result<Job, Error> {
    job::before_data(&config, how.threads, None)?;
    let problem = load(&config)?;
    let several = Job::new(config, problem, None)?;
    several.check()?;
    Ok(several)
}

/// Makes what there is to make of the replicates of a directory, one after the other, and pools them.
fn carry_out(
    several: &Job,
    dir: &Path,
    how: How,
    strict: bool,
    time: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Exit, Error> {
    let count = replicates::count(&several.config).unwrap_or(1);
    let end = time.map(|time| Instant::now() + time);
    let (go_on, mut made) = (foreign_path(dir), false);
    for number in 1..=count {
        let label = format!("replicate {number} of {count}");
        let place = replicates::place(dir, number);
        let again = |config: Config| Job::new(config.clone(), load(&config)?, None);
        let (job, place) = match replicates::standing(dir, number, &several.config)? {
            Standing::Finished => {
                if !how.quiet {
                    say!("{label}: already finished");
                }
                continue;
            }
            Standing::New => (replicates::job(several, number)?, Where::New(Some(place))),
            Standing::Begun(config) => (again(*config)?, Where::There(place)),
            Standing::AtTheta(config) => (again(*config)?, Where::AtTheta(place)),
        };
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        // However short the time is, some steps are made: to ask again and again leads to the end.
        if interrupt.is_set() || (made && left.is_some_and(|left| left.is_zero())) {
            if !how.quiet {
                say!("stopped before {label}; go on with: motes resume {go_on}");
            }
            return Ok(Exit::Early);
        }
        let run = Run { job, how: how.clone(), label: Some(label.clone()), time: left };
        let (ended, _) = run.carry_out(place, interrupt).map_err(|e| e.within(replicates::name(number)))?;
        made = true;
        if ended == Ended::Early {
            if !how.quiet {
                say!("stopped during {label}; go on with: motes resume {go_on}");
            }
            return Ok(Exit::Early);
        }
    }
    let (summary, warning) =
        replicates::finish(dir, &several.config, (!how.no_report).then_some(Face::Shell))?;
    warn_of(warning.as_deref());
    if !how.quiet {
        crate::tell(&show::summary(&summary, dir, Face::Shell));
    }
    Ok(if strict && summary.diagnostics.verdict != "ok" { Exit::NotOk } else { Exit::Done })
}
