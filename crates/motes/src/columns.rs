//! The scalars of a trace besides theta: one entry per column, which header, rows and reports are made of.

use crate::settings::Settings;
use crate::{Real, StepInfo};

/// A scalar that a run may record at each step. The metrics of a model follow after these, by the names it gives them.
pub struct Column<F: Real> {
    /// The head of its column.
    pub name: &'static str,
    /// The title of its chart.
    pub title: &'static str,
    /// What it is, in a clause.
    pub meaning: &'static str,
    /// Whether a single step says too little, so that a chart shows averages over stretches of steps.
    pub averaged: bool,
    /// Whether a run with these settings records it.
    pub recorded: fn(&Settings) -> bool,
    /// Its value after a step.
    pub value: for<'a> fn(&StepInfo<'a, F>) -> Cell,
}

/// What stands in one place of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// A real number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// There is no value at this step.
    Empty,
}

/// All columns, in their order.
pub fn all<F: Real>() -> [Column<F>; 5] {
    [
        Column {
            name: "stage",
            title: "Stage",
            meaning: "1 while theta is searched for, 2 while it is averaged, 3 while the posterior is sampled",
            averaged: false,
            recorded: |settings| settings.composition().ends_itself(),
            value: |info| info.fit.map_or(Cell::Empty, |fit| Cell::Count(fit.stage.number())),
        },
        Column {
            name: "evaluations",
            title: "Evaluations",
            meaning: "evaluations of value and gradients so far, for each particle",
            averaged: false,
            recorded: |settings| settings.composition().ends_itself(),
            value: |info| info.fit.map_or(Cell::Empty, |fit| Cell::Number(fit.evaluations)),
        },
        Column {
            name: "h",
            title: "Step size",
            meaning: "step size at each step",
            averaged: false,
            recorded: |settings| settings.step_decay.is_some(),
            value: |info| Cell::Number(info.h),
        },
        Column {
            name: "particles",
            title: "Particles",
            meaning: "number of particles at each step",
            averaged: false,
            recorded: |settings| !settings.grow.0.is_empty(),
            value: |info| Cell::Count(info.cloud.n() as u64),
        },
        Column {
            name: "acceptance",
            title: "Acceptance",
            meaning: "fraction of moves accepted, averaged over stretches of steps",
            // Accept-reject of a whole cloud is 0 or 1 at each step.
            averaged: true,
            recorded: Settings::accepts,
            value: |info| info.acceptance.map_or(Cell::Empty, Cell::Number),
        },
    ]
}
