//! How much memory a run will need, told before anything is allocated.

mod limits;

pub use limits::available;

use crate::averages::Leaves;
use crate::moves::Move;
use crate::rows::Blocks;
use crate::rules::Rule;
use crate::settings::Settings;
use crate::state::{Per, planned};
use crate::{Model, Real};

/// The sizes that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// D_theta.
    pub d_theta: usize,
    /// D_x, of each group.
    pub d_x: usize,
    /// M.
    pub groups: usize,
    /// Numbers that the model remembers from step to step.
    pub buffers: usize,
    /// Whether an M-step must learn an inverse Hessian, for want of a closed form.
    pub numerical_m_step: bool,
    /// Bytes of the data and of what the model derives from them.
    pub data_bytes: u128,
    /// Bytes of one particle coordinate.
    pub real_bytes: usize,
}

/// The arithmetic of a run that cannot fit into the memory that is available.
pub fn shortage(shape: Shape, settings: &Settings) -> Option<String> {
    Need::of(shape, settings).shortage(available()?)
}

/// Refuses, with the arithmetic, a run that cannot fit into the memory that is available.
pub fn check(shape: Shape, settings: &Settings) -> Result<(), String> {
    match available() {
        Some(bytes) => Need::of(shape, settings).check(bytes),
        None => Ok(()),
    }
}

/// The same where the model is there, so that what its steps work with is known too.
pub fn check_model<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Result<(), String> {
    let Some(bytes) = available() else { return Ok(()) };
    let mut need = Need::of(shape_of(model), settings);
    // Sizes whose clouds fit can be multiplied.
    need.check(bytes)?;
    need.work = working(model, settings);
    need.check(bytes)
}

/// The bytes that a run of a model asks for, its data and the network of a generator not included.
pub fn estimate<F: Real>(model: &dyn Model<F>, settings: &Settings) -> u128 {
    Need { work: working(model, settings), ..Need::of(shape_of(model), settings) }.all()
}

fn shape_of<F: Real>(model: &dyn Model<F>) -> Shape {
    Shape {
        d_theta: model.d_theta(),
        d_x: model.d_x(),
        groups: model.groups(),
        buffers: model.buffers(),
        numerical_m_step: model.m_step().is_none(),
        data_bytes: 0,
        real_bytes: size_of::<F>(),
    }
}

/// What the steps of a run work with besides its state: a workspace for each worker, a slot for each block, and a copy of the
/// rows that a step is lent; and what a test set's predictions are summed in.
fn working<F: Real>(model: &dyn Model<F>, settings: &Settings) -> u128 {
    let composition = settings.composition();
    if !composition.has_cloud() {
        return 0;
    }
    let batched = settings.batch.filter(|_| model.groups() > 1);
    let groups = batched.unwrap_or(model.groups());
    let sizes = [settings.particles].into_iter().chain(settings.grow.0.iter().map(|(_, n)| *n));
    let bytes = |n: usize| {
        let blocks = Blocks::new(model, groups, n);
        let row = model.d_x() as u128 * size_of::<F>() as u128;
        // Gradients; proposals or velocities' noise and gradients there; three numbers a row to judge them by.
        let judged = match composition.movement {
            // Positions, velocities and steps; four numbers a row, its scores among them.
            Move::Hamiltonian => 3 * row + 24 + 8 * model.d_theta() as u128,
            _ if composition.proposes() => 2 * row + 24,
            _ => 0,
        };
        let scratch = model.scratch_len(blocks.rows) as u128 * size_of::<F>() as u128;
        let worker = (row + judged) * blocks.rows as u128 + scratch;
        let width = match composition.rule {
            Rule::Louis => n * model.d_theta() + model.d_theta() * model.d_theta(),
            _ => composition.rule.sums_len(model) + model.scalars().len() + 2,
        };
        let lent =
            if batched.is_some() || model.whole_batch() { groups as u128 * n as u128 * row } else { 0 };
        let workers = rayon::current_num_threads().max(1) as u128;
        worker * workers + 8 * blocks.count as u128 * width as u128 + lent
    };
    // What predicts is summed leaf by leaf, and again for each cloud that is measured alone.
    let most = settings.max_particles();
    let leaves =
        Leaves::new::<F>(model.groups(), most, Blocks::new(model, model.groups(), most).rows).count as u128;
    let sums = model.predictive().map_or(0, |p| p.state_len()) as u128
        * if settings.metrics_every > 0 { 2 } else { 1 };
    sizes.map(bytes).max().unwrap_or(0) + 8 * leaves * sums
}

/// The parts of a run's memory.
struct Need {
    /// N, and the coordinates of a particle in all groups.
    n: u128,
    d: u128,
    real: u128,
    /// How many clouds there are, and their bytes.
    clouds: u128,
    all_clouds: u128,
    rest: u128,
    work: u128,
}

impl Need {
    fn of(shape: Shape, settings: &Settings) -> Self {
        let composition = settings.composition();
        // What a stepper works with besides the state: a whole-cloud move proposes a second cloud, a variational move keeps the
        // gradients of all particles, and a numerical M-step learns an inverse Hessian.
        let more = match composition.movement {
            Move::WholeCloud | Move::Variational => 1,
            // One on its way, and two of gradients.
            Move::Hamiltonian => 3,
            _ => 0,
        };
        let squared = (shape.d_theta as u128).saturating_mul(shape.d_theta as u128);
        let theta = match composition.rule {
            Rule::Newton => squared.saturating_mul(16),
            Rule::MStep if shape.numerical_m_step => squared.saturating_mul(16),
            Rule::MStep | Rule::Gradient { .. } | Rule::Kinetic { .. } | Rule::ExactEm | Rule::Louis => 0,
        };
        let (mut all_clouds, mut rest) = (0u128, theta.saturating_add(shape.data_bytes));
        for (_, per, bytes) in planned(shape, settings) {
            let sum = if per == Per::Row { &mut all_clouds } else { &mut rest };
            *sum = sum.saturating_add(bytes);
        }
        let clouds: u128 = if composition.has_cloud() { 1 + more } else { 0 };
        all_clouds = all_clouds.saturating_mul(clouds.max(1));
        let d = (shape.d_x as u128).saturating_mul(shape.groups as u128);
        let (n, real) = (settings.max_particles() as u128, shape.real_bytes as u128);
        Need { n, d, real, clouds, all_clouds, rest, work: 0 }
    }

    fn all(&self) -> u128 {
        self.all_clouds.saturating_add(self.rest).saturating_add(self.work)
    }

    fn check(&self, available: u128) -> Result<(), String> {
        let remedy = if self.real > 4 {
            "fewer particles, smaller data or `precision=f32`"
        } else {
            "fewer particles or a smaller model"
        };
        self.shortage(available).map_or(Ok(()), |shortage| Err(format!("{shortage}; use {remedy}")))
    }

    fn shortage(&self, available: u128) -> Option<String> {
        let Need { n, d, real, clouds, all_clouds, rest, work } = *self;
        if self.all() <= available {
            return None;
        }
        let work = if work > 0 { format!(", {} for each step", size(work)) } else { String::new() };
        Some(format!(
            "this run needs {}: {clouds} x {n} particles x {d} coordinates x {real} bytes = {} for clouds, {} for data and averages{work}, but {} are available",
            size(self.all()),
            size(all_clouds),
            size(rest),
            size(available)
        ))
    }
}

/// A number of bytes as people read it.
pub fn size(bytes: u128) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_shows_the_arithmetic() {
        let shape = Shape {
            d_theta: 1,
            d_x: 1 << 10,
            groups: 1 << 10,
            buffers: 0,
            numerical_m_step: false,
            data_bytes: 8 << 20,
            real_bytes: 8,
        };
        let settings = Settings { particles: 1024, ..Settings::default() };
        assert!(Need::of(shape, &settings).check(9 << 30).is_ok());
        let refusal = Need::of(shape, &settings).check(1 << 30).unwrap_err();
        assert!(
            refusal.contains("1 x 1024 particles x 1048576 coordinates x 8 bytes = 8.0 GiB"),
            "{refusal}"
        );
        assert!(refusal.contains("but 1.0 GiB are available"), "{refusal}");
    }
}
