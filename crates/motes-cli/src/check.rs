//! `motes check-model`: a model's derivatives against finite differences.

use std::fmt::Write as _;

use motes::{Ended, Settings, memory};
use motes_app::job;

use crate::args::CheckRest;
use crate::fit::load;
use crate::flags::OfModel;

/// Checks every capability of a model and prints a line for each.
pub fn check(args: OfModel<CheckRest>) -> Result<Ended, String> {
    let mut config = args.config;
    let seed = config.run.seed.unwrap_or(0);
    let shape = job::entry_of(&config.model)?.shape_before_data(&config.options, 8);
    memory::check(shape, &Settings { particles: 1, ..Settings::default() })?;
    config.make_absolute()?;
    let problem = load(&config)?;
    // A batch of one image is enough of a generator.
    let any = Settings { particles: 2, batch: Some(1), ..Settings::default() };
    let checks = match problem.double(&any) {
        Ok(model) => motes::check_model(&*model, seed),
        Err(_) => motes::check_single(&*problem.single(&any).map_err(|e| e.to_string())?, seed),
    };
    let checks = checks.map_err(|e| e.to_string())?;
    let mut table = format!("{:34}  {:>12}  verdict\n", problem.name(), "worst error");
    for check in &checks {
        let verdict = if check.passed() { "ok".into() } else { format!("WRONG: {}", check.place) };
        let _ = writeln!(table, "{:34}  {:>12.1e}  {verdict}", check.piece, check.error);
    }
    crate::print(&table).map_err(|e| format!("cannot print: {e}; try again"))?;
    match checks.iter().find(|c| !c.passed()) {
        None => Ok(Ended::Complete),
        Some(c) => Err(format!(
            "{} is wrong {} (relative error {:.1e}); correct that derivative",
            c.piece, c.place, c.error
        )),
    }
}
