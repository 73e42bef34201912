//! What the integration tests share: models derived from the toy model, closed forms, and the table's rows.

pub mod catalogue;
pub mod decoder_rows;
pub mod models;
pub mod plain_networks;
pub mod table;
pub mod theory;
pub mod truth;
pub mod z_scores;

use motes::{Error, Model, Pool, Real, Settings, State};

/// Starts and runs to the end on the current pool.
pub fn fit<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Result<State<F>, Error> {
    let mut state = motes::start(model, settings)?;
    motes::run(model, settings, &mut state, None, &mut [])?;
    Ok(state)
}

/// Runs `f` on a pool of the given size.
pub fn on<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    Pool::new(Some(threads)).expect("a pool").install(f)
}
