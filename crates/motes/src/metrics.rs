//! Test metrics as a run goes on: what they remember of the clouds, leaf by leaf.

use std::convert::Infallible;

use crate::averages::Leaves;
use crate::blocks::{INLINE_NANOSECONDS, for_each, join_slots};
use crate::model::Predictive;
use crate::settings::Settings;
use crate::ticker::Stopwatch;
use crate::{Cloud, Measured, Model, Real};

/// Takes a cloud into account, each leaf of its particles in a part of `memory` of its own.
pub(crate) fn accumulate<F: Real>(
    predictive: &dyn Predictive<F>,
    leaves: Leaves,
    cloud: &Cloud<F>,
    memory: &mut [f64],
) {
    let (leaf, width, x) =
        (leaves.particles.saturating_mul(cloud.width()), predictive.state_len(), cloud.as_slice());
    let count = x.len().div_ceil(leaf.max(1)).min(memory.len() / width.max(1));
    // Each particle meets each number that is remembered, at a few tenths of a nanosecond for each coordinate.
    let parallel = count > 1 && 0.1 * x.len() as f64 * width as f64 > INLINE_NANOSECONDS;
    let Ok(()) = for_each(parallel, (&mut memory[..count * width], width.max(1)), |i, memory| {
        predictive.accumulate(&x[i * leaf..x.len().min((i + 1) * leaf)], memory);
        Ok::<_, Infallible>(())
    });
}

/// What all leaves remember together, in the first: they are merged by a binary tree over their numbers.
pub(crate) fn merged<'a, F: Real>(predictive: &dyn Predictive<F>, memory: &'a mut [f64]) -> &'a [f64] {
    join_slots(memory, predictive.state_len(), |from, into| predictive.merge(from, into))
}

/// Test metrics, and the time they take: it is not the algorithm's.
pub(crate) struct TestMetrics<'m, F: Real> {
    predictive: Option<&'m dyn Predictive<F>>,
    leaves: Leaves,
    /// Whether all clouds after burn-in count.
    all_clouds: bool,
    every: u64,
    /// For the metrics of one cloud alone.
    alone: Vec<f64>,
    names: Vec<String>,
    values: Vec<f64>,
    pub watch: Stopwatch,
}

impl<'m, F: Real> TestMetrics<'m, F> {
    pub fn new(model: &'m dyn Model<F>, settings: &Settings, leaves: Leaves) -> Self {
        let (predictive, every) = (model.predictive(), settings.metrics_every);
        let of_steps = predictive.filter(|_| every > 0);
        let names = of_steps.map_or(Vec::new(), |p| p.names());
        TestMetrics {
            predictive,
            leaves,
            all_clouds: !model.predicts_from_final_cloud(),
            every,
            alone: vec![0.0; leaves.count * of_steps.map_or(0, |p| p.state_len())],
            values: vec![0.0; names.len()],
            names,
            watch: Stopwatch::default(),
        }
    }

    /// Whether every cloud after burn-in counts.
    pub fn takes_all(&self) -> bool {
        self.all_clouds && self.predictive.is_some()
    }

    #[inline(always)]
    pub fn accumulate(&mut self, cloud: &Cloud<F>, memory: &mut [f64]) {
        if let Some(predictive) = self.predictive.filter(|_| self.all_clouds) {
            self.add(predictive, cloud, memory);
        }
    }

    // Not in the loop: what is done there at each step must stay short.
    #[inline(never)]
    fn add(&mut self, predictive: &dyn Predictive<F>, cloud: &Cloud<F>, memory: &mut [f64]) {
        let leaves = self.leaves;
        self.watch.time(|| accumulate(predictive, leaves, cloud, memory));
    }

    /// Takes the metrics of the cloud at step k, if they are due.
    #[inline(always)]
    pub fn measure(&mut self, k: u64, cloud: &Cloud<F>) {
        if let Some(predictive) = self.predictive.filter(|_| self.is_due(k)) {
            self.take(predictive, cloud);
        }
    }

    #[inline(never)]
    fn take(&mut self, predictive: &dyn Predictive<F>, cloud: &Cloud<F>) {
        let TestMetrics { leaves, alone, values, watch, .. } = self;
        watch.time(|| {
            alone.fill(0.0);
            accumulate(predictive, *leaves, cloud, alone);
            predictive.metrics(merged(predictive, alone), values);
        });
    }

    /// What was measured at step k.
    pub fn measured(&self, k: u64) -> Option<Measured<'_>> {
        let measured = Measured { names: &self.names, values: &self.values };
        self.predictive.filter(|_| self.is_due(k)).map(|_| measured)
    }

    /// Whether the metrics of the cloud at step k are wanted.
    pub fn is_due(&self, k: u64) -> bool {
        self.predictive.is_some() && self.every > 0 && k.is_multiple_of(self.every)
    }
}
