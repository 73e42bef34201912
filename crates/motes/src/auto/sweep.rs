//! One sweep of the cloud at a fixed theta: Hamiltonian moves, accepted or rejected for each particle of each group by itself.

use std::ops::Range;

use crate::blocks::{PerWorker, for_each, for_each2, for_each5, sum_slots};
use crate::noise::{Noise, Purpose};
use crate::ranks::{Ranks, agree};
use crate::rows::{Blocks, Numbers, evaluate_rows};
use crate::simd::{dispatch, sum_lanes};
use crate::vmath::exp_f64;
use crate::{At, Model, ModelError, Real, Stop, Team, Want};

/// Groups whose densities are compared in one piece of work.
const GROUPS: usize = 512;

/// Moves a cloud and asks the model for all that the three stages need. It owns workspace, never truth.
pub(crate) struct Sweeper<'m, F: Real> {
    pub model: &'m dyn Model<F>,
    pub n: usize,
    blocks: Blocks,
    groups: Vec<u32>,
    workers: PerWorker<Worker<F>>,
    stop: Stop<'m>,
    ranks: &'m dyn Ranks,
    noise: Noise,
    accept: Noise,
    /// x-gradients and log densities of the rows at theta, if they are known.
    pub grad: Vec<F>,
    pub density: Vec<f64>,
    known: bool,
    /// The same at a theta that is tried.
    trial_grad: Vec<F>,
    trial_density: Vec<f64>,
    /// How likely each row was to be accepted in the last sweep.
    pub chance: Vec<f64>,
    slots: Vec<f64>,
    /// The scores of the last sweep: summed over the groups for each particle.
    pub scores: Vec<f64>,
    /// The sum over groups of the covariance of the scores over the particles, where it was asked for.
    pub scatter: Vec<f64>,
    /// The effective share of particles in each group, for [`Sweeper::compare`].
    effective: Vec<f64>,
}

struct Worker<F> {
    z: Vec<F>,
    v: Vec<F>,
    g: Vec<F>,
    /// The step of each coordinate.
    step: Vec<F>,
    density: Vec<f64>,
    energy: Vec<f64>,
    uniforms: Vec<f64>,
    /// Rows that have left the range or the model's domain.
    dead: Vec<bool>,
    scores: Vec<f64>,
    mean: Vec<f64>,
    scratch: Vec<F>,
}

/// How far particles go in a sweep.
#[derive(Clone, Copy)]
pub(crate) struct Kernel<'a> {
    /// The number of the sweep.
    pub k: u64,
    /// The scale of each coordinate of each group.
    pub scale: &'a [f64],
    /// The step size of each group, in units of the scale.
    pub step: &'a [f64],
    /// Leapfrog steps.
    pub leaps: u32,
    /// A factor of all step sizes.
    pub jitter: f64,
}

/// What is collected of the scores after a sweep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collect {
    Nothing,
    /// The score of each particle.
    Scores,
    /// And the covariances group by group.
    Scatter,
}

/// How log densities differ between two values of theta on the same cloud.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// The rise of the mean over the particles.
    pub rise: f64,
    /// Its size, for rounding errors.
    pub level: f64,
    /// The estimated ratio of marginal likelihoods, as a logarithm.
    pub merit: f64,
    /// The variance of that estimate.
    pub noise: f64,
    /// The share of particles that count, in all groups but a tenth.
    pub effective: f64,
}

impl<'m, F: Real> Sweeper<'m, F> {
    pub fn new(model: &'m dyn Model<F>, n: usize, seed: u64, team: Team<'m>) -> Self {
        let noise = [Purpose::Hamiltonian, Purpose::HamiltonianAccept].map(|p| Noise::new(seed, p));
        Self::with_noise(model, n, noise, team)
    }

    /// With the draws that velocities and acceptances are made of.
    pub fn with_noise(
        model: &'m dyn Model<F>,
        n: usize,
        [noise, accept]: [Noise; 2],
        Team { ranks, stop }: Team<'m>,
    ) -> Self {
        let (groups, d, d_theta) = (model.groups(), model.d_x(), model.d_theta());
        let blocks = Blocks::new(model, groups, n).over(ranks);
        let rows = groups * n;
        let width = (n * d_theta + d_theta * d_theta).max(4);
        let slots = blocks.count.max(groups.div_ceil(GROUPS));
        Sweeper {
            model,
            n,
            groups: (0..groups as u32).collect(),
            workers: PerWorker::new(|| Worker::new(model, blocks.rows)),
            blocks,
            stop,
            ranks,
            noise,
            accept,
            grad: vec![F::of(0.0); rows * d],
            density: vec![0.0; rows],
            known: false,
            trial_grad: vec![F::of(0.0); rows * d],
            trial_density: vec![0.0; rows],
            chance: vec![0.0; rows],
            slots: vec![0.0; slots * width],
            scores: vec![0.0; n * d_theta],
            scatter: vec![0.0; d_theta * d_theta],
            effective: vec![0.0; groups],
        }
    }

    /// Particles or theta have moved behind its back.
    pub fn forget(&mut self) {
        self.known = false;
    }

    /// Makes sure that gradients and densities are those at (theta, x).
    pub fn know(&mut self, theta: &[f64], x: &[F]) -> Result<(), ModelError> {
        if !self.known {
            self.evaluate(theta, x)?;
            self.adopt();
        }
        Ok(())
    }

    /// Gradients and densities at another theta. What the model rejects has a log density of -inf.
    pub fn evaluate(&mut self, theta: &[f64], x: &[F]) -> Result<(), ModelError> {
        let (blocks, d) = (self.blocks, self.model.d_x());
        let (grad, density) = (&mut self.trial_grad[..], &mut self.trial_density[..]);
        let (model, workers, groups, stop) = (self.model, &self.workers, &self.groups, self.stop);
        let own = ((blocks.own(grad, d), blocks.rows * d), (blocks.own(density, 1), blocks.rows));
        let evaluated = for_each2(blocks.parallel, own.0, own.1, |b, grad, density| {
            let Worker { scratch, .. } = &mut *workers.get();
            let at = blocks.at(blocks.own[0] + b, theta, groups, x, stop);
            evaluate_rows(model, at, Some(grad), Some(density), scratch, |_| {})
        });
        agree(self.ranks, evaluated)?;
        blocks.gather(self.ranks, grad, d);
        blocks.gather(self.ranks, density, 1);
        Ok(())
    }

    /// Takes over what was evaluated last.
    pub fn adopt(&mut self) {
        std::mem::swap(&mut self.grad, &mut self.trial_grad);
        std::mem::swap(&mut self.density, &mut self.trial_density);
        self.known = true;
    }

    /// Adds to each row's sum by how much the density that was evaluated last exceeds the one before. Nothing comes back from -inf.
    pub fn add_differences(&self, factor: f64, sums: &mut [f64]) {
        for ((sum, new), old) in sums.iter_mut().zip(&self.trial_density).zip(&self.density) {
            if *sum != f64::NEG_INFINITY {
                *sum += factor * (new - old);
            }
        }
    }

    /// Moves every row by a trajectory of leapfrog steps, accepted or rejected by its own energy error, then collects scores.
    pub fn sweep(
        &mut self,
        theta: &[f64],
        x: &mut [F],
        kernel: Kernel<'_>,
        collect: Collect,
    ) -> Result<(), ModelError> {
        self.know(theta, x)?;
        self.known = false;
        let (blocks, d, d_theta, n) = (self.blocks, self.model.d_x(), self.model.d_theta(), self.n);
        let width = match collect {
            Collect::Nothing => 1,
            Collect::Scores => n * d_theta,
            Collect::Scatter => n * d_theta + d_theta * d_theta,
        };
        let (model, workers, stop) = (self.model, &self.workers, self.stop);
        let (noise, accept, groups) = (&self.noise, &self.accept, &self.groups);
        let moved = for_each5(
            blocks.parallel,
            (blocks.own(x, d), blocks.rows * d),
            (blocks.own(&mut self.grad, d), blocks.rows * d),
            (blocks.own(&mut self.density, 1), blocks.rows),
            (blocks.own(&mut self.chance, 1), blocks.rows),
            (blocks.own_slots(&mut self.slots, width), width),
            |b, x, grad, density, chance, slot| {
                let b = blocks.own[0] + b;
                let (groups, first) = blocks.groups_of(b, groups);
                let here = Here {
                    model,
                    theta,
                    stop,
                    parallel: blocks.count == 1,
                    numbers: Numbers { groups, first, most: n, together: true },
                };
                let worker = &mut *workers.get();
                here.trajectories(&kernel, noise, x, grad, density, worker)?;
                here.accept(accept, kernel.k, (&mut *x, grad), (density, chance), worker);
                if collect != Collect::Nothing {
                    here.collect(collect == Collect::Scatter, n, x, slot, worker)?;
                }
                Ok(())
            },
        );
        agree(self.ranks, moved)?;
        blocks.gather(self.ranks, x, d);
        blocks.gather(self.ranks, &mut self.grad, d);
        blocks.gather(self.ranks, &mut self.density, 1);
        blocks.gather(self.ranks, &mut self.chance, 1);
        self.known = true;
        if collect != Collect::Nothing {
            let total = blocks.sum(self.ranks, &mut self.slots, width);
            self.scores.copy_from_slice(&total[..n * d_theta]);
            if collect == Collect::Scatter {
                self.scatter.copy_from_slice(&total[n * d_theta..]);
            }
        }
        Ok(())
    }

    /// How many rows were accepted in the last sweep, in the mean.
    pub fn chance_of_all(&self) -> f64 {
        // One sum would wait for each of its additions.
        let (lanes, rest) = self.chance.as_chunks::<8>();
        let mut sums = [0.0; 8];
        lanes.iter().for_each(|lanes| sums.iter_mut().zip(lanes).for_each(|(sum, c)| *sum += c));
        sum_lanes(sums) + rest.iter().sum::<f64>()
    }

    /// The score of every row at (theta, x), D_theta numbers each.
    pub fn row_scores(&mut self, theta: &[f64], x: &[F], out: &mut [f64]) -> Result<(), ModelError> {
        let (blocks, d) = (self.blocks, theta.len());
        let asked = for_each(blocks.parallel, (blocks.own(out, d), blocks.rows * d), |b, scores| {
            let at = blocks.at(blocks.own[0] + b, theta, &self.groups, x, self.stop);
            let Worker { scratch, .. } = &mut *self.workers.get();
            self.model.evaluate(at, Want { scores: Some(scores), ..Want::nothing(scratch) })
        });
        agree(self.ranks, asked)?;
        blocks.gather(self.ranks, out, d);
        Ok(())
    }

    /// What was evaluated last beside what is known.
    pub fn compare(&mut self, merit: bool) -> Comparison {
        let n = self.n;
        let parallel = merit && self.density.len() > 10_000;
        let (old, new) = (&self.density, &self.trial_density);
        let slots = &mut self.slots[..4 * self.groups.len().div_ceil(GROUPS)];
        let effective = (&mut self.effective[..], GROUPS);
        let Ok(()) = for_each2(parallel, effective, (&mut *slots, 4), |b, effective, slot| {
            let from = b * GROUPS * n;
            slot.fill(0.0);
            let mut weights = vec![0.0; if merit { n } else { 0 }];
            for (i, effective) in effective.iter_mut().enumerate() {
                let rows = from + i * n..from + (i + 1) * n;
                let (old, new) = (&old[rows.clone()], &new[rows]);
                // All in one walk: each sum waits for its last addition.
                let (mut rise, mut level, mut most) = (0.0, 0.0, f64::NEG_INFINITY);
                for (old, new) in old.iter().zip(new) {
                    rise += new - old;
                    level += old.abs();
                    most = (new - old).max(most);
                }
                slot[0] += rise;
                slot[1] += level;
                if merit {
                    let both = weights.iter_mut().zip(old.iter().zip(new));
                    both.for_each(|(weight, (old, new))| *weight = new - old - most);
                    exp_f64(&mut weights);
                    let (mut sum, mut squares) = (0.0, 0.0);
                    for w in &weights {
                        sum += w;
                        squares += w * w;
                    }
                    slot[2] += most + libm::log(sum / n as f64);
                    *effective = sum * sum / squares / n as f64;
                    slot[3] += (1.0 / *effective - 1.0).max(0.0) / n as f64;
                }
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let total = sum_slots(slots, 4);
        let (rise, level, merit_sum, noise) = (total[0] / n as f64, total[1] / n as f64, total[2], total[3]);
        let mut tenth = 1.0;
        if merit {
            let rank = self.effective.len() / 10;
            tenth = *self.effective.select_nth_unstable_by(rank, f64::total_cmp).1;
        }
        Comparison { rise, level, merit: merit_sum, noise, effective: tenth }
    }

    /// The mean over particles of the negative theta-Hessian, summed over groups: of all particles, or of some.
    pub fn information(
        &mut self,
        theta: &[f64],
        x: &[F],
        some: Option<Range<usize>>,
        out: &mut [f64],
    ) -> Result<(), ModelError> {
        let (d, d_theta, groups) = (self.model.d_x(), theta.len(), self.groups.len());
        let part: Vec<F>;
        let (x, n) = match some {
            None => (x, self.n),
            Some(some) => {
                let row = some.start * d..some.end * d;
                part = x.chunks_exact(self.n * d).flat_map(|x| &x[row.clone()]).copied().collect();
                (&part[..], some.len())
            }
        };
        let blocks = Blocks::new(self.model, groups, n).over(self.ranks);
        if self.model.gives().hessian {
            self.summed(blocks, d_theta * d_theta, theta, x, |want, slot| want.hessian = Some(slot), out)?;
            out.iter_mut().for_each(|h| *h /= -(n as f64));
            return Ok(());
        }
        let (mut at, mut above, mut below) = (theta.to_vec(), vec![0.0; d_theta], vec![0.0; d_theta]);
        for j in 0..d_theta {
            let step = difference::<F>(theta[j]);
            for (side, gradient) in [(step, &mut above), (-step, &mut below)] {
                at[j] = theta[j] + side;
                self.summed(blocks, d_theta, &at, x, |want, slot| want.grad_theta = Some(slot), gradient)?;
            }
            at[j] = theta[j];
            for i in 0..d_theta {
                out[i * d_theta + j] = (below[i] - above[i]) / (2.0 * step * n as f64);
            }
        }
        Ok(())
    }

    /// A sum over all rows, of what the model is asked for.
    fn summed(
        &mut self,
        blocks: Blocks,
        width: usize,
        theta: &[f64],
        x: &[F],
        ask: impl for<'a> Fn(&mut Want<'a, F>, &'a mut [f64]) + Sync,
        out: &mut [f64],
    ) -> Result<(), ModelError> {
        if self.slots.len() < blocks.count * width {
            self.slots.resize(blocks.count * width, 0.0);
        }
        let slots = &mut self.slots;
        let (model, workers, groups, stop) = (self.model, &self.workers, &self.groups, self.stop);
        let asked = for_each(blocks.parallel, (blocks.own_slots(slots, width), width), |b, slot| {
            let at = blocks.at(blocks.own[0] + b, theta, groups, x, stop);
            let Worker { scratch, .. } = &mut *workers.get();
            let mut want = Want::nothing(scratch);
            ask(&mut want, slot);
            model.evaluate(at, want)
        });
        agree(self.ranks, asked)?;
        out.copy_from_slice(blocks.sum(self.ranks, slots, width));
        Ok(())
    }
}

/// A step for central differences of a gradient.
fn difference<F: Real>(theta: f64) -> f64 {
    let relative = if size_of::<F>() == 4 { 1e-2 } else { 1e-4 };
    relative * theta.abs().max(1.0)
}

/// Where a block stands in a sweep.
struct Here<'a, F: Real> {
    model: &'a dyn Model<F>,
    theta: &'a [f64],
    stop: Stop<'a>,
    parallel: bool,
    numbers: Numbers<'a>,
}

impl<F: Real> Here<'_, F> {
    fn at<'a>(&'a self, x: &'a [F]) -> At<'a, F> {
        At { groups: self.numbers.groups, parallel: self.parallel, stop: self.stop, ..At::new(self.theta, x) }
    }

    /// Proposals and their densities, in the worker.
    fn trajectories(
        &self,
        kernel: &Kernel<'_>,
        noise: &Noise,
        x: &[F],
        grad: &[F],
        density: &[f64],
        worker: &mut Worker<F>,
    ) -> Result<(), ModelError> {
        let (d, len) = (self.model.d_x(), x.len());
        let Worker { z, v, g, step, density: proposed, energy, dead, scratch, .. } = worker;
        let (z, v, g, step) = (&mut z[..len], &mut v[..len], &mut g[..len], &mut step[..len]);
        self.numbers.normals(noise, kernel.k, d, v);
        let each = len / self.numbers.groups.len();
        for (group, step) in self.numbers.groups.iter().zip(step.chunks_exact_mut(each)) {
            let (group, length) = (*group as usize, kernel.step[*group as usize] * kernel.jitter);
            let scale = &kernel.scale[group * d..(group + 1) * d];
            if let [scale] = scale {
                step.fill(F::of(length * scale));
                continue;
            }
            for row in step.chunks_exact_mut(d) {
                row.iter_mut().zip(scale).for_each(|(step, scale)| *step = F::of(length * scale));
            }
        }
        add_kinetic(v, d, &mut energy[..len / d], density);
        let dead = &mut dead[..len / d];
        dead.fill(false);
        for leap in 1..=kernel.leaps {
            match leap {
                1 => set_out(v, z, (x, grad), step),
                _ => kick_and_drift(v, z, g, step),
            }
            if !within(z, F::LIMIT) {
                let rows = z.chunks_exact(d).zip(&mut *dead);
                rows.for_each(|(z, dead)| *dead |= !within(z, F::LIMIT));
            }
            // What has left goes on from where it began: the model need not answer there again.
            for i in (0..dead.len()).filter(|i| dead[*i]) {
                z[i * d..(i + 1) * d].copy_from_slice(&x[i * d..(i + 1) * d]);
            }
            let density = (leap == kernel.leaps).then(|| &mut proposed[..len / d]);
            evaluate_rows(self.model, self.at(z), Some(&mut *g), density, scratch, |i| dead[i] = true)?;
            kick(v, g, step);
        }
        Ok(())
    }

    /// Takes the proposals over, row by row, as their energies say.
    fn accept(
        &self,
        accept: &Noise,
        k: u64,
        (x, grad): (&mut [F], &mut [F]),
        (density, chance): (&mut [f64], &mut [f64]),
        worker: &mut Worker<F>,
    ) {
        let d = self.model.d_x();
        let uniforms = &mut worker.uniforms[..density.len()];
        self.numbers.uniforms(accept, k, uniforms);
        // log p(z) - |v'|^2 / 2 - (log p(x) - |v|^2 / 2)
        add_kinetic(&worker.v[..x.len()], d, chance, &worker.density);
        for (chance, energy) in chance.iter_mut().zip(&worker.energy) {
            let log_ratio = *chance - energy;
            let capped = if log_ratio < 0.0 { log_ratio } else { 0.0 };
            *chance = if log_ratio.is_nan() { f64::NEG_INFINITY } else { capped };
        }
        for i in (0..chance.len()).filter(|i| worker.dead[*i]) {
            chance[i] = f64::NEG_INFINITY;
        }
        if !within(&worker.g[..x.len()], f64::MAX) {
            let rows = chance.iter_mut().zip(worker.g.chunks_exact(d));
            rows.filter(|(_, g)| !within(g, f64::MAX)).for_each(|(chance, _)| *chance = f64::NEG_INFINITY);
        }
        exp_f64(chance);
        if d == 1 {
            // A copy of one number at a time would cost more than all else.
            let new = (&worker.z[..x.len()], &worker.g[..x.len()], &worker.density[..x.len()]);
            return take_over(x, grad, density, new, (uniforms, chance));
        }
        for i in (0..density.len()).filter(|i| uniforms[*i] < chance[*i]) {
            let row = i * d..(i + 1) * d;
            x[row.clone()].copy_from_slice(&worker.z[row.clone()]);
            grad[row.clone()].copy_from_slice(&worker.g[row]);
            density[i] = worker.density[i];
        }
    }

    /// Adds the scores of the rows up by particle, and their covariances by group.
    fn collect(
        &self,
        scatter: bool,
        n: usize,
        x: &[F],
        slot: &mut [f64],
        worker: &mut Worker<F>,
    ) -> Result<(), ModelError> {
        let (rows, d) = (x.len() / self.model.d_x(), self.theta.len());
        let Worker { scores, mean, scratch, .. } = worker;
        let scores = &mut scores[..rows * d];
        self.model.evaluate(self.at(x), Want { scores: Some(scores), ..Want::nothing(scratch) })?;
        let (sums, covariances) = slot.split_at_mut(n * d);
        sums.fill(0.0);
        let each = rows / self.numbers.groups.len();
        for scores in scores.chunks_exact(each * d) {
            let sums = &mut sums[self.numbers.first * d..];
            sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        }
        if !scatter {
            return Ok(());
        }
        covariances.fill(0.0);
        for scores in scores.chunks_exact_mut(each * d) {
            add_scatter(scores, d, mean, covariances);
        }
        finish_scatter(covariances, d, n);
        Ok(())
    }
}

/// Adds the products of rows about their mean to the upper triangle of a matrix. The rows are used up.
pub(crate) fn add_scatter(rows: &mut [f64], d: usize, mean: &mut [f64], out: &mut [f64]) {
    let share = 1.0 / (rows.len() / d) as f64;
    if d == 1 {
        let mean = rows.iter().sum::<f64>() * share;
        out[0] += rows.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>();
        return;
    }
    mean.fill(0.0);
    for row in rows.chunks_exact(d) {
        mean.iter_mut().zip(row).for_each(|(m, r)| *m += r);
    }
    mean.iter_mut().for_each(|m| *m *= share);
    for row in rows.chunks_exact_mut(d) {
        row.iter_mut().zip(&*mean).for_each(|(r, m)| *r -= m);
        for (i, a) in row.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            out[i * d + i..(i + 1) * d].iter_mut().zip(&row[i..]).for_each(|(o, b)| *o += a * b);
        }
    }
}

/// Makes a covariance matrix of what was added for rows n at a time.
pub(crate) fn finish_scatter(out: &mut [f64], d: usize, n: usize) {
    for i in 0..d {
        for j in i..d {
            out[i * d + j] /= (n.max(2) - 1) as f64;
            out[j * d + i] = out[i * d + j];
        }
    }
}

impl<F: Real> Worker<F> {
    fn new(model: &dyn Model<F>, rows: usize) -> Self {
        let (len, d_theta) = (rows * model.d_x(), model.d_theta());
        let zeros = || vec![F::of(0.0); len];
        let numbers = || vec![0.0; rows];
        Worker {
            z: zeros(),
            v: zeros(),
            g: zeros(),
            step: zeros(),
            density: numbers(),
            energy: numbers(),
            uniforms: numbers(),
            dead: vec![false; rows],
            scores: vec![0.0; rows * d_theta],
            mean: vec![0.0; d_theta],
            scratch: vec![F::of(0.0); model.scratch_len(rows)],
        }
    }
}

dispatch! {
    /// Whether no number is larger than the limit, or none at all.
    fn within<F: Real>(z: &[F], limit: f64) -> bool = within_kernel
}

#[inline(always)]
fn within_kernel<F: Real, const FMA: bool>(z: &[F], limit: f64) -> bool {
    // NaN is not below the limit. All are looked at: an early end would not be vectorised.
    z.iter().fold(true, |inside, v| inside & (v.f64().abs() <= limit))
}

dispatch! {
    /// The log density of each row less its kinetic energy |v|^2 / 2.
    fn add_kinetic<F: Real>(v: &[F], d: usize, energy: &mut [f64], density: &[f64]) = add_kinetic_kernel
}

#[inline(always)]
fn add_kinetic_kernel<F: Real, const FMA: bool>(v: &[F], d: usize, energy: &mut [f64], density: &[f64]) {
    if d == 1 {
        for ((energy, density), v) in energy.iter_mut().zip(density).zip(v) {
            *energy = density - 0.5 * v.f64() * v.f64();
        }
        return;
    }
    for ((energy, density), v) in energy.iter_mut().zip(density).zip(v.chunks_exact(d)) {
        *energy = density - 0.5 * v.iter().map(|v| v.f64() * v.f64()).sum::<f64>();
    }
}

dispatch! {
    /// Rows of one coordinate become the new ones where u < chance.
    fn take_over<F: Real>(
        x: &mut [F],
        grad: &mut [F],
        density: &mut [f64],
        new: (&[F], &[F], &[f64]),
        judged: (&[f64], &[f64])
    ) = take_over_kernel
}

#[inline(always)]
fn take_over_kernel<F: Real, const FMA: bool>(
    x: &mut [F],
    grad: &mut [F],
    density: &mut [f64],
    (z, g, l): (&[F], &[F], &[f64]),
    (uniforms, chance): (&[f64], &[f64]),
) {
    let old = x.iter_mut().zip(grad).zip(density);
    for ((((x, grad), density), ((z, g), l)), (u, chance)) in
        old.zip(z.iter().zip(g).zip(l)).zip(uniforms.iter().zip(chance))
    {
        let taken = u < chance;
        *x = if taken { *z } else { *x };
        *grad = if taken { *g } else { *grad };
        *density = if taken { *l } else { *density };
    }
}

dispatch! {
    /// [`kick_and_drift`] from a place that stays as it is.
    fn set_out<F: Real>(v: &mut [F], z: &mut [F], from: (&[F], &[F]), step: &[F]) = set_out_kernel
}

#[inline(always)]
fn set_out_kernel<F: Real, const FMA: bool>(v: &mut [F], z: &mut [F], (x, g): (&[F], &[F]), step: &[F]) {
    let half = F::of(0.5);
    for ((((v, z), x), g), step) in v.iter_mut().zip(z).zip(x).zip(g).zip(step) {
        *v += half * *step * *g;
        *z = *x + *step * *v;
    }
}

dispatch! {
    /// Half a kick of the velocities, then the way they go: v += step g / 2, z += step v.
    fn kick_and_drift<F: Real>(v: &mut [F], z: &mut [F], g: &[F], step: &[F]) = kick_and_drift_kernel
}

#[inline(always)]
fn kick_and_drift_kernel<F: Real, const FMA: bool>(v: &mut [F], z: &mut [F], g: &[F], step: &[F]) {
    let half = F::of(0.5);
    for (((v, z), g), step) in v.iter_mut().zip(z).zip(g).zip(step) {
        *v += half * *step * *g;
        *z += *step * *v;
    }
}

dispatch! {
    /// Half a kick of the velocities: v += step g / 2.
    fn kick<F: Real>(v: &mut [F], g: &[F], step: &[F]) = kick_kernel
}

#[inline(always)]
fn kick_kernel<F: Real, const FMA: bool>(v: &mut [F], g: &[F], step: &[F]) {
    let half = F::of(0.5);
    for ((v, g), step) in v.iter_mut().zip(g).zip(step) {
        *v += half * *step * *g;
    }
}
