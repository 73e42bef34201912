//! `motes check-model`: a model's derivatives against finite differences.

use motes::Ended;

use crate::args::CheckArgs;
use crate::models::{self, Source};

/// Checks every capability of a model and prints a line for each.
pub fn check(args: CheckArgs) -> Result<Ended, String> {
    let mut config = args.config;
    config.model = Some(models::name(args.model.as_deref(), None)?);
    let seed = config.seed.unwrap_or(0);
    let source = Source::load(&mut config)?;
    let model = source.build::<f64>()?;
    let checks = motes::check_model(&*model, seed).map_err(|e| e.to_string())?;
    println!("{:34}  {:>12}  verdict", model.name(), "worst error");
    for check in &checks {
        let verdict = if check.passed() { "ok".into() } else { format!("WRONG: {}", check.place) };
        println!("{:34}  {:>12.1e}  {verdict}", check.piece, check.error);
    }
    match checks.iter().find(|c| !c.passed()) {
        None => Ok(Ended::Complete),
        Some(c) => Err(format!(
            "{} is wrong {} (relative error {:.1e}); correct that derivative",
            c.piece, c.place, c.error
        )),
    }
}
