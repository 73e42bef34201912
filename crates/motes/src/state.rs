//! The whole truth of a run between two steps: what a checkpoint holds. Randomness has no state at all.

use serde::{Deserialize, Serialize};

use crate::algorithms::VARIATIONAL;
use crate::averages::Leaves;
use crate::diagnostics::MAX_BATCHES;
use crate::kept::{MAX_BYTES, MAX_PARTICLES};
use crate::memory::Shape;
use crate::noise::{Noise, Purpose};
use crate::rows::{Blocks, Numbers};
use crate::settings::{InitParticles, MOST_PARAMETERS, Settings};
use crate::{Averages, BatchMeans, Cloud, KeptClouds, Model, Real, auto};

/// More components of theta, or coordinates of x, than this are not traced, judged or listed one by one.
pub const LISTED: usize = 1000;

/// Where a run stands after k steps.
#[derive(Clone, Debug, PartialEq)]
pub struct State<F> {
    /// Steps made so far.
    pub k: u64,
    /// theta_k.
    pub theta: Vec<f64>,
    /// What the model remembers from step to step.
    pub buffers: Vec<f64>,
    /// X_k^{1:N}; empty for EM.
    pub cloud: Cloud<F>,
    /// What rule and move remember, by name.
    pub memory: Vec<Remembered>,
    /// What the model's test metrics remember of the clouds after burn-in.
    pub predictive: Vec<f64>,
    /// Sums over the steps after burn-in.
    pub averages: Averages,
    /// Batch means of theta after burn-in, for effective sample sizes.
    pub batches: BatchMeans,
    /// A bounded, thinned set of the clouds after burn-in.
    pub kept: KeptClouds<F>,
    /// Accept-reject counts.
    pub acceptance: Acceptance,
    /// What [`crate::auto`] remembers, where that is the algorithm.
    pub auto: Option<Box<auto::Memory>>,
}

/// What there is one of in an array, or one row of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A parameter.
    Theta,
    /// A coordinate of a particle: it grows with the cloud.
    Row,
    /// A latent coordinate of a group.
    Coordinate,
    /// A leaf of a group, or a coordinate of one: sums that know nothing of other leaves.
    Cell,
    /// Whatever the array's owner says.
    Other,
}

/// An array that a rule or a move remembers from step to step.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// Its name in checkpoints.
    pub name: &'static str,
    /// What there is one of.
    pub per: Per,
    /// The numbers.
    pub values: Vec<f64>,
}

/// An array of a state as checkpoints see it: its name, and how long it may become.
pub(crate) struct Array<V> {
    pub name: &'static str,
    pub per: Per,
    pub values: V,
    /// `None` for an array that always has the length it has now; else at most so many numbers, in rows of so many.
    pub grows: Option<(usize, usize)>,
}

/// The numbers of an array, to be read.
pub(crate) enum Values<'a, F> {
    Double(&'a Vec<f64>),
    Particle(&'a Vec<F>),
    Pairs(&'a Vec<[u64; 2]>),
}

/// The same, to be replaced.
pub(crate) enum ValuesMut<'a, F> {
    Double(&'a mut Vec<f64>),
    Particle(&'a mut Vec<F>),
    Pairs(&'a mut Vec<[u64; 2]>),
}

/// All arrays of a state, in the order of the file: the one list that reading and writing share.
macro_rules! arrays {
    ($state:expr, $values:ident, $listed:ident) => {{
        let (kept_room, means_room) = ($state.kept.room(), $state.batches.room());
        let State { theta, buffers, cloud, memory, predictive, averages, batches, kept, auto, .. } = $state;
        let Cloud { data: cloud, groups, d, room } = cloud;
        // A particle has so many numbers in all groups.
        let (d, room) = (*groups * *d, *room);
        let fixed = |name, per, values| Array { name, per, values, grows: None };
        let grows = |name, per, values, room, row| Array { name, per, values, grows: Some((room, row)) };
        let Averages { theta: mean_theta, counts, shift, x, x2, .. } = averages;
        let BatchMeans { current, means, spread, .. } = batches;
        let width = current.len();
        let KeptClouds { sizes, data, .. } = kept;
        let mut list = vec![
            fixed("theta", Per::Theta, $values::Double(theta)),
            fixed("buffers", Per::Other, $values::Double(buffers)),
            fixed("averages.theta", Per::Theta, $values::Double(mean_theta)),
            fixed("averages.counts", Per::Cell, $values::Double(counts)),
            fixed("averages.shift", Per::Cell, $values::Double(shift)),
            fixed("averages.x", Per::Cell, $values::Double(x)),
            fixed("averages.x2", Per::Cell, $values::Double(x2)),
            fixed("batches.current", Per::Other, $values::Double(current)),
            grows("batches.means", Per::Other, $values::Double(means), means_room, width),
            fixed("batches.spread", Per::Other, $values::Double(spread)),
            fixed("predictive", Per::Other, $values::Double(predictive)),
            grows("kept.sizes", Per::Other, $values::Pairs(sizes), kept_room / d.max(1), 1),
        ];
        for Remembered { name, per, values } in memory {
            let width = values.len() / (cloud.len() / d.max(1)).max(1);
            list.push(match *per {
                Per::Row => grows(*name, *per, $values::Double(values), room / d.max(1) * width, width),
                _ => fixed(*name, *per, $values::Double(values)),
            });
        }
        for (name, per, values, growth) in auto.into_iter().flat_map(|auto| auto.$listed()) {
            list.push(Array { name, per, values: $values::Double(values), grows: growth });
        }
        // Last, because single precision would leave others unaligned.
        list.push(grows("cloud", Per::Row, $values::Particle(cloud), room, d));
        list.push(grows("kept.clouds", Per::Other, $values::Particle(data), kept_room, d));
        list
    }};
}

/// What is remembered under each of these names, to be written; empty if nothing.
pub(crate) fn recall<'a, const N: usize>(
    memory: &'a mut [Remembered],
    names: [&str; N],
) -> [&'a mut [f64]; N] {
    let mut found: [&'a mut [f64]; N] = std::array::from_fn(|_| Default::default());
    for remembered in memory {
        if let Some(i) = names.iter().position(|name| *name == remembered.name) {
            found[i] = &mut remembered.values;
        }
    }
    found
}

/// How many bytes each array of a state will take at the most, by name, before any of them is there. N and D_x may each be
/// anything up to 2^64: the products saturate.
pub(crate) fn planned(shape: Shape, settings: &Settings) -> Vec<(&'static str, Per, u128)> {
    let composition = settings.composition();
    let (d_theta, groups, real) = (shape.d_theta as u128, shape.groups as u128, shape.real_bytes as u128);
    let d_x = (shape.d_x as u128).saturating_mul(groups);
    let n = if composition.has_cloud() { settings.max_particles() as u128 } else { 0 };
    let row = d_x.saturating_mul(real);
    let (cloud, averaged) = (n.saturating_mul(row), if composition.averages_clouds() { d_x } else { 0 });
    let leaves = Leaves::most(groups, n, real);
    let cells = groups.saturating_mul(leaves);
    let moments = averaged.saturating_mul(leaves).saturating_mul(8);
    let listed = d_theta.min(LISTED as u128);
    let keeps = averaged > 0 && settings.keep_clouds > 0 && settings.clouds_can_be_kept();
    let kept = (MAX_PARTICLES as u128).min(MAX_BYTES as u128 / row.max(1));
    let kept = if keeps && kept >= n { kept } else { 0 };
    let mut list = vec![
        ("theta", Per::Theta, 8 * d_theta),
        ("buffers", Per::Other, 8 * shape.buffers as u128),
        ("averages.theta", Per::Theta, 8 * d_theta),
        ("averages.counts", Per::Cell, if averaged > 0 { cells.saturating_mul(8) } else { 0 }),
        ("averages.shift", Per::Cell, moments),
        ("averages.x", Per::Cell, moments),
        ("averages.x2", Per::Cell, moments),
        ("batches.current", Per::Other, 8 * listed),
        ("batches.means", Per::Other, 8 * listed * MAX_BATCHES as u128),
        ("batches.spread", Per::Other, 16 * listed),
        ("kept.sizes", Per::Other, 16 * kept),
        ("cloud", Per::Row, cloud),
        ("kept.clouds", Per::Other, kept * row),
    ];
    // More parameters are refused for what they are.
    if composition.ends_itself() && shape.d_theta <= MOST_PARAMETERS {
        let sizes = auto::Sizes {
            d_theta: shape.d_theta,
            groups: shape.groups,
            d_x: shape.d_x,
            n: settings.particles,
        };
        list.push(("auto", Per::Other, auto::Memory::bytes(sizes)));
    }
    for (name, per, width) in composition.memory(settings) {
        let count = match per {
            Per::Theta => d_theta,
            Per::Coordinate => d_x,
            Per::Row => n.saturating_mul(d_x),
            Per::Cell | Per::Other => 1,
        };
        list.push((name, per, count.saturating_mul(8 * width as u128)));
    }
    list
}

impl<F: Real> State<F> {
    pub(crate) fn arrays(&self) -> Vec<Array<Values<'_, F>>> {
        arrays!(self, Values, arrays)
    }

    pub(crate) fn arrays_mut(&mut self) -> Vec<Array<ValuesMut<'_, F>>> {
        arrays!(self, ValuesMut, arrays_mut)
    }

    /// Whether a run with these settings has nothing left to do.
    pub fn is_over(&self, settings: &Settings) -> bool {
        match &self.auto {
            Some(auto) => auto.progress.finished,
            None => self.k >= settings.steps,
        }
    }

    /// Forgets all clouds that were averaged or kept, and what test metrics know of them.
    pub(crate) fn average_anew(&mut self, settings: &Settings) {
        let (groups, d) = (self.cloud.groups(), self.cloud.d());
        self.averages = Averages::new(self.theta.len(), groups, d, self.averages.leaves());
        self.kept = KeptClouds::new(settings, groups, d);
        self.predictive.fill(0.0);
    }

    /// What rule or move remember under this name; empty if nothing.
    pub fn remembered(&self, name: &str) -> &[f64] {
        self.memory.iter().find(|m| m.name == name).map_or(&[], |m| &m.values)
    }

    /// Adds copies of particles, with all that there is for each: `parents[g]` are those of group g.
    pub(crate) fn push_copies(&mut self, parents: &[Vec<usize>]) {
        let n = self.cloud.n();
        for array in self.arrays_mut().into_iter().filter(|a| a.per == Per::Row) {
            match array.values {
                ValuesMut::Double(values) => push_copies(values, n, parents),
                ValuesMut::Particle(values) => push_copies(values, n, parents),
                ValuesMut::Pairs(values) => push_copies(values, n, parents),
            }
        }
    }

    /// Starts from where a single particle went: its theta, and copies of it with all that there is for each.
    pub(crate) fn start_from(&mut self, single: &State<F>) {
        self.theta.copy_from_slice(&single.theta);
        self.buffers.copy_from_slice(&single.buffers);
        let groups = self.cloud.groups();
        let rows = self.arrays_mut().into_iter().filter(|a| a.per == Per::Row);
        for array in rows {
            let of_one = single.arrays().into_iter().find(|a| a.name == array.name).map(|a| a.values);
            match (array.values, of_one) {
                (ValuesMut::Double(to), Some(Values::Double(from))) => repeat(from, to, groups),
                (ValuesMut::Particle(to), Some(Values::Particle(from))) => repeat(from, to, groups),
                _ => {}
            }
        }
    }
}

fn push_copies<T: Copy>(values: &mut Vec<T>, n: usize, parents: &[Vec<usize>]) {
    let groups = parents.len();
    let width = values.len() / (n * groups);
    let grown = n + parents[0].len();
    let Some(filler) = values.first().copied() else { return };
    values.resize(groups * grown * width, filler);
    // From the last group on, so that none is overwritten before it has moved.
    for (g, parents) in parents.iter().enumerate().rev() {
        let to = g * grown * width;
        values.copy_within(g * n * width..(g + 1) * n * width, to);
        for (i, parent) in parents.iter().enumerate() {
            let from = to + parent * width;
            values.copy_within(from..from + width, to + (n + i) * width);
        }
    }
}

fn repeat<T: Copy>(from: &[T], to: &mut [T], groups: usize) {
    let (one, all) = ((from.len() / groups).max(1), (to.len() / groups).max(1));
    for (from, to) in from.chunks_exact(one).zip(to.chunks_exact_mut(all)) {
        to.chunks_exact_mut(one).for_each(|to| to.copy_from_slice(from));
    }
}

/// How often moves were accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acceptance {
    /// Moves proposed since accept-reject began.
    pub proposed: u64,
    /// Of these, accepted.
    pub accepted: u64,
    /// Steps after burn-in in the current window.
    pub window_steps: u64,
    /// Moves proposed in the current window.
    pub window_proposed: u64,
    /// Of these, accepted.
    pub window_accepted: u64,
    /// The lowest acceptance of any full window; `None` if no window is full yet.
    pub worst_window: Option<f64>,
}

impl Acceptance {
    /// Steps over which acceptance is judged.
    pub const WINDOW: u64 = 200;

    /// Nothing proposed yet.
    pub fn new() -> Self {
        Acceptance {
            proposed: 0,
            accepted: 0,
            window_steps: 0,
            window_proposed: 0,
            window_accepted: 0,
            worst_window: None,
        }
    }

    /// Counts one step's moves; only steps after burn-in are judged in windows.
    pub fn add(&mut self, moves: crate::moves::Moves, after_burn_in: bool) {
        self.proposed += moves.proposed;
        self.accepted += moves.accepted;
        if !after_burn_in {
            return;
        }
        self.window_steps += 1;
        self.window_proposed += moves.proposed;
        self.window_accepted += moves.accepted;
        if self.window_steps == Self::WINDOW {
            let rate = self.window_accepted as f64 / self.window_proposed as f64;
            self.worst_window = Some(self.worst_window.map_or(rate, |w| w.min(rate)));
            (self.window_steps, self.window_proposed, self.window_accepted) = (0, 0, 0);
        }
    }

    /// The fraction accepted, if anything was proposed.
    pub fn rate(&self) -> Option<f64> {
        (self.proposed > 0).then(|| self.accepted as f64 / self.proposed as f64)
    }
}

impl Default for Acceptance {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Real> State<F> {
    /// The state before the first step: initial values, no averages.
    pub fn initial(model: &dyn Model<F>, settings: &Settings) -> Self {
        let (d_theta, groups, d_x) = (model.d_theta(), model.groups(), model.d_x());
        let n = if settings.has_cloud() { settings.particles } else { 0 };
        let (theta, buffers) = settings.init_theta.of_model(model, settings.seed);
        let most = if n > 0 { settings.max_particles() } else { 0 };
        let leaves = Leaves::new::<F>(groups, most, Blocks::new(model, groups, most).rows);
        let start = match settings.init_particles {
            InitParticles::Value(v) => v,
            InitParticles::Prior | InitParticles::Normal => 0.0,
        };
        let mut cloud = Cloud::filled(groups, n, d_x, start, most);
        if settings.init_particles == InitParticles::Normal {
            F::normals(&Noise::new(settings.seed, Purpose::Start), 0, 0, cloud.as_mut_slice());
        }
        if let (InitParticles::Prior, Some(prior)) = (settings.init_particles, model.prior()) {
            let noise = Noise::new(settings.seed, Purpose::Prior);
            let all: Vec<u32> = (0..groups as u32).collect();
            let numbers = Numbers { groups: &all, first: 0, most, together: n == most };
            numbers.normals(&noise, 0, d_x, cloud.as_mut_slice());
            prior.map_normals(&theta, &all, cloud.as_mut_slice());
        }
        let remember = |(name, per, width): (&'static str, Per, usize)| {
            let count = match per {
                Per::Theta => d_theta,
                Per::Coordinate => groups * d_x,
                Per::Row => n * groups * d_x,
                Per::Cell | Per::Other => 1,
            };
            Remembered { name, per, values: vec![0.0; width * count] }
        };
        let mut memory: Vec<Remembered> =
            settings.composition().memory(settings).into_iter().map(remember).collect();
        let [gaussian] = recall(&mut memory, [VARIATIONAL]);
        let (mu, s) = gaussian.split_at_mut(gaussian.len() / 2);
        mu.fill(start);
        s.fill(1.0);
        State {
            k: 0,
            predictive: vec![0.0; leaves.count * model.predictive().map_or(0, |p| p.state_len())],
            memory,
            averages: Averages::new(
                d_theta,
                groups,
                if settings.averages_clouds() { d_x } else { 0 },
                leaves,
            ),
            batches: BatchMeans::new(model.listed()),
            kept: KeptClouds::new(settings, groups, d_x),
            acceptance: Acceptance::new(),
            auto: settings
                .composition()
                .ends_itself()
                .then(|| Box::new(auto::Memory::new(auto::Sizes::of(model, n)))),
            theta,
            buffers,
            cloud,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::ALGORITHMS;
    use crate::settings::{Growth, Preconditioner};
    use crate::{At, ModelError, Want};

    /// Nothing but dimensions.
    struct Sized([usize; 3]);

    impl Model<f32> for Sized {
        fn name(&self) -> &str {
            "sized"
        }
        fn d_theta(&self) -> usize {
            self.0[0]
        }
        fn d_x(&self) -> usize {
            self.0[1]
        }
        fn groups(&self) -> usize {
            self.0[2]
        }
        fn buffers(&self) -> usize {
            5
        }
        fn evaluate(&self, _: At<'_, f32>, _: Want<'_, f32>) -> Result<(), ModelError> {
            Ok(())
        }
    }

    #[test]
    fn what_is_planned_is_what_there_is() {
        for algorithm in ALGORITHMS {
            for (sizes, particles) in [([2, 7, 1], 5), ([3000, 40_000, 1], 300), ([3, 2, 60], 9)] {
                let [d_theta, d_x, groups] = sizes;
                let settings = Settings {
                    algorithm,
                    particles,
                    grow: Growth(vec![(3, particles + 4)]),
                    preconditioner: Preconditioner::Adam,
                    variational_adam: true,
                    ..Settings::default()
                };
                let state = State::initial(&Sized(sizes), &settings);
                let shape = Shape {
                    d_theta,
                    d_x,
                    groups,
                    buffers: 5,
                    numerical_m_step: false,
                    data_bytes: 0,
                    real_bytes: 4,
                };
                let planned = planned(shape, &settings);
                let mut of_auto = 0;
                for array in state.arrays() {
                    let (bytes, len) = match array.values {
                        Values::Double(v) => (8, v.len()),
                        Values::Particle(v) => (4, v.len()),
                        Values::Pairs(v) => (16, v.len()),
                    };
                    let there = bytes * array.grows.map_or(len, |(room, _)| room) as u128;
                    if array.name.starts_with("auto.") {
                        of_auto += there; // which is planned as a whole
                        continue;
                    }
                    let found = planned.iter().find(|(name, ..)| *name == array.name);
                    let (_, per, bytes) = found.unwrap_or(&("predictive", Per::Other, 0));
                    // How many leaves there are depends on the model's blocks: it is told at the most.
                    let there = if *per == Per::Cell && there < *bytes { *bytes } else { there };
                    assert_eq!((*per, *bytes), (array.per, there), "{algorithm}: {}", array.name);
                }
                let found = planned.iter().find(|(name, ..)| *name == "auto").map_or(0, |(.., bytes)| *bytes);
                if d_theta <= MOST_PARAMETERS {
                    assert_eq!(found, of_auto, "{algorithm}");
                }
            }
        }
    }
}
