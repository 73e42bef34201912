//! Are a model's derivatives right? Finite differences tell, piece by piece, where and by how much they are not.

use crate::noise::{Noise, Purpose};
use crate::settings::InitTheta;
use crate::{At, Error, Model, ModelError, Real, Want};

/// Larger relative errors than this are reported as wrong; central differences of right gradients stay far below.
const TOLERANCE: f64 = 1e-5;
/// Random points tried.
const POINTS: u64 = 3;
/// Coordinates tried per point and piece: large models are sampled.
const COORDINATES: usize = 24;

/// The worst disagreement found for one piece of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Which piece.
    pub piece: &'static str,
    /// The largest error, relative to the size of the terms that are compared.
    pub error: f64,
    /// Where it is and what was found there.
    pub place: String,
    /// Up to which error the piece is right as far as differences can tell.
    pub tolerance: f64,
}

impl Check {
    /// Whether the piece is right as far as differences can tell.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }

    fn new(piece: &'static str) -> Self {
        Check { piece, error: 0.0, place: String::new(), tolerance: TOLERANCE }
    }

    fn compare(&mut self, given: f64, expected: f64, scale: f64, place: impl FnOnce() -> String) {
        let error = (given - expected).abs() / scale.max(given.abs()).max(expected.abs()).max(1e-300);
        if error > self.error || error.is_nan() {
            self.error = if error.is_nan() { f64::INFINITY } else { error };
            self.place = format!("at {}: {given:.6e} given, {expected:.6e} expected", place());
        }
    }
}

/// What single precision leaves of a difference quotient.
const SINGLE: f64 = 0.03;

/// The same for a model that has single precision alone, where it starts: the slope of its log density along each gradient
/// must be the gradient's length.
pub fn check_single(model: &dyn Model<f32>, seed: u64) -> Result<Vec<Check>, Error> {
    let given = model.gives().log_density.then_some(());
    let remedy = "give it, or gradients in double precision";
    crate::model::require(given, model.name(), "the check", "the log density", remedy)?;
    along_gradients(model, seed).map_err(|source| Error::Model { step: 0, source })
}

fn along_gradients(model: &dyn Model<f32>, seed: u64) -> Result<Vec<Check>, ModelError> {
    let of = |piece| Check { tolerance: SINGLE, ..Check::new(piece) };
    let (mut of_theta, mut of_x) = (of("theta-gradient, along itself"), of("x-gradient, along itself"));
    let (theta, buffers) = InitTheta::Model.of_model(model, seed);
    let mut scratch = vec![0.0; model.scratch_len(1)];
    for point in 0..POINTS {
        let group = [((model.groups() as u64 - 1) * point / (POINTS - 1)) as u32];
        let mut x = vec![0f32; model.d_x()];
        Noise::new(seed, Purpose::Check).normals_f32(point, 0, &mut x);
        let (mut gt, mut gx) = (vec![f64::NAN; theta.len()], vec![f32::NAN; x.len()]);
        let at = At { buffers: &buffers, groups: &group, parallel: true, ..At::new(&theta, &x) };
        model.evaluate(at, Want::gradients(&mut gt, &mut gx, &mut scratch))?;
        let mut density = |theta: &[f64], x: &[f32]| {
            let mut out = [f64::NAN];
            let want = Want { log_density: Some(&mut out), ..Want::nothing(&mut scratch) };
            model.evaluate(At { theta, x, ..at }, want).map(|()| out[0])
        };
        let norm = |squares: f64| squares.sqrt().max(f64::MIN_POSITIVE);
        let length = norm(gt.iter().map(|g| g * g).sum());
        let moved =
            |by: f64| -> Vec<f64> { theta.iter().zip(&gt).map(|(t, g)| t + by * g / length).collect() };
        let slope = (density(&moved(1e-3), &x)? - density(&moved(-1e-3), &x)?) / 2e-3;
        of_theta.compare(length, slope, 0.0, || format!("group {}", group[0]));
        let length = norm(gx.iter().map(|g| g.f64() * g.f64()).sum());
        let moved = |by: f64| -> Vec<f32> {
            x.iter().zip(&gx).map(|(x, g)| (x.f64() + by * g.f64() / length) as f32).collect()
        };
        let slope = (density(&theta, &moved(1e-2))? - density(&theta, &moved(-1e-2))?) / 2e-2;
        of_x.compare(length, slope, 0.0, || format!("group {}", group[0]));
    }
    Ok(vec![of_theta, of_x])
}

/// Evaluates a model at single points, with buffers of its own.
struct Probe<'m> {
    model: &'m dyn Model<f64>,
    groups: Vec<u32>,
    buffers: Vec<f64>,
    scratch: Vec<f64>,
}

impl Probe<'_> {
    fn gradients(&mut self, theta: &[f64], x: &[f64]) -> Result<(Vec<f64>, Vec<f64>), ModelError> {
        let (mut gt, mut gx) = (vec![f64::NAN; theta.len()], vec![f64::NAN; x.len()]);
        self.ask(theta, x, |want| {
            want.grad_theta = Some(&mut gt);
            want.grad_x = Some(&mut gx);
        })?;
        Ok((gt, gx))
    }

    /// l(theta, x), if the model gives it.
    fn log_density(&mut self, theta: &[f64], x: &[f64]) -> Result<Option<f64>, ModelError> {
        if !self.model.gives().log_density {
            return Ok(None);
        }
        let mut out = [f64::NAN];
        self.ask(theta, x, |want| want.log_density = Some(&mut out))?;
        Ok(Some(out[0]))
    }

    /// Asks for what `choose` adds to the question.
    fn ask<'a>(
        &'a mut self,
        theta: &[f64],
        x: &[f64],
        choose: impl FnOnce(&mut Want<'a, f64>),
    ) -> Result<(), ModelError> {
        let mut want = Want::nothing(&mut self.scratch);
        choose(&mut want);
        let at = At { buffers: &self.buffers, groups: &self.groups, parallel: true, ..At::new(theta, x) };
        self.model.evaluate(at, want)
    }
}

/// The central difference of f along coordinate i of v.
fn difference<T>(
    v: &mut [f64],
    i: usize,
    mut f: impl FnMut(&[f64]) -> Result<T, ModelError>,
) -> Result<(T, T, f64), ModelError> {
    let (value, step) = (v[i], 1e-5 * v[i].abs().max(1.0));
    v[i] = value + step;
    let up = f(v)?;
    v[i] = value - step;
    let down = f(v)?;
    v[i] = value;
    Ok((up, down, 2.0 * step))
}

/// Compares every derivative that a model gives with finite differences of what it derives from, at random points.
///
/// Without a log density, the gradients are checked against each other: the mixed second derivatives must agree.
pub fn check_model(model: &dyn Model<f64>, seed: u64) -> Result<Vec<Check>, Error> {
    check(model, seed).map_err(|source| Error::Model { step: 0, source })
}

fn check(model: &dyn Model<f64>, seed: u64) -> Result<Vec<Check>, ModelError> {
    let (d_theta, d_x, gives) = (model.d_theta(), model.d_x(), model.gives());
    let (_, buffers) = InitTheta::Model.of_model(model, seed);
    let mut probe =
        Probe { model, groups: vec![0], buffers, scratch: vec![0.0; model.scratch_len(2 * model.groups())] };
    let (mut grad_theta, mut grad_x) = (Check::new("theta-gradient"), Check::new("x-gradient"));
    let mut mixed = Check::new("mixed second derivatives");
    let mut hessian = Check::new("theta-Hessian");
    let mut m_step = Check::new("M-step");
    let mut scores = Check::new("theta-gradients by particle");
    let mut blocks = Check::new("sums over a block of particles");
    let mut parts = Check::new("what is asked for by itself");
    for point in 0..POINTS {
        // Another group at each point, the last among them.
        let group = ((model.groups() as u64 - 1) * point / (POINTS - 1)) as u32;
        probe.groups = vec![group];
        let draw = |purpose_index: u64, len: usize| {
            let mut v = vec![0.0; len];
            Noise::new(seed, Purpose::Check).normals_f64(point, purpose_index << 40, &mut v);
            v
        };
        let (mut theta, mut x, other) = (draw(0, d_theta), draw(1, d_x), draw(2, d_x));
        let (gt, gx) = probe.gradients(&theta, &x)?;
        let some = |d: usize| (0..d).step_by(d.div_ceil(COORDINATES));
        let norm = |v: &[f64]| v.iter().fold(0.0f64, |m, a| m.max(a.abs()));

        if let Some(l) = probe.log_density(&theta, &x)? {
            // What rounding of l leaves of a difference quotient.
            let noise = 1e-10 * l.abs();
            for i in some(d_theta) {
                let (up, down, step) = difference(&mut theta, i, |t| probe.log_density(t, &x))?;
                let expected = (up.unwrap_or(f64::NAN) - down.unwrap_or(f64::NAN)) / step;
                grad_theta
                    .compare(gt[i], expected, 1e-3 * norm(&gt) + noise / TOLERANCE, || format!("theta[{i}]"));
            }
            for i in some(d_x) {
                let (up, down, step) = difference(&mut x, i, |x| probe.log_density(&theta, x))?;
                let expected = (up.unwrap_or(f64::NAN) - down.unwrap_or(f64::NAN)) / step;
                grad_x.compare(gx[i], expected, 1e-3 * norm(&gx) + noise / TOLERANCE, || format!("x[{i}]"));
            }
        } else {
            for i in some(d_theta) {
                let (up, down, step) = difference(&mut theta, i, |t| Ok(probe.gradients(t, &x)?.1))?;
                for j in some(d_x) {
                    let from_x = (up[j] - down[j]) / step;
                    let (xu, xd, xs) = difference(&mut x, j, |x| Ok(probe.gradients(&theta, x)?.0[i]))?;
                    mixed.compare(from_x, (xu - xd) / xs, 1e-3 * norm(&gx), || format!("theta[{i}], x[{j}]"));
                }
            }
        }
        if gives.hessian {
            let mut matrix = vec![f64::NAN; d_theta * d_theta];
            probe.ask(&theta, &x, |want| want.hessian = Some(&mut matrix))?;
            for i in some(d_theta) {
                let (up, down, step) = difference(&mut theta, i, |t| Ok(probe.gradients(t, &x)?.0))?;
                for j in some(d_theta) {
                    let expected = (up[j] - down[j]) / step;
                    let given = matrix[i * d_theta + j];
                    hessian
                        .compare(given, expected, 1e-3 * norm(&matrix), || format!("theta[{i}], theta[{j}]"));
                }
            }
        }
        let pair: Vec<f64> = x.iter().chain(&other).copied().collect();
        let (sum, rows) = probe.gradients(&theta, &pair)?;
        let (other_gt, other_gx) = probe.gradients(&theta, &other)?;
        for i in 0..d_theta {
            blocks.compare(sum[i], gt[i] + other_gt[i], norm(&gt), || format!("theta[{i}]"));
        }
        for (i, (given, expected)) in rows.iter().zip(gx.iter().chain(&other_gx)).enumerate() {
            blocks.compare(*given, *expected, norm(&gx), || format!("particle {}, x[{}]", i / d_x, i % d_x));
        }
        // An answer must not depend on what else is asked for.
        let (mut alone, mut rows_alone) = (vec![f64::NAN; d_theta], vec![f64::NAN; pair.len()]);
        probe.ask(&theta, &pair, |want| want.grad_theta = Some(&mut alone))?;
        probe.ask(&theta, &pair, |want| want.grad_x = Some(&mut rows_alone))?;
        for i in 0..d_theta {
            parts.compare(alone[i], sum[i], norm(&gt), || format!("the gradient in theta[{i}]"));
        }
        for (i, (alone, rows)) in rows_alone.iter().zip(&rows).enumerate() {
            parts.compare(*alone, *rows, norm(&gx), || format!("the gradient in x[{}]", i % d_x));
        }
        if gives.log_density {
            let (mut alone, mut together, mut grad) =
                ([f64::NAN; 2], [f64::NAN; 2], vec![f64::NAN; pair.len()]);
            probe.ask(&theta, &pair, |want| want.log_density = Some(&mut alone))?;
            probe.ask(&theta, &pair, |want| {
                want.log_density = Some(&mut together);
                want.grad_x = Some(&mut grad);
            })?;
            for (i, (alone, together)) in alone.iter().zip(together).enumerate() {
                parts.compare(*alone, together, 1.0, || format!("the log density of particle {i}"));
            }
            for (i, (together, rows)) in grad.iter().zip(&rows).enumerate() {
                parts.compare(*together, *rows, norm(&gx), || format!("the gradient in x[{}]", i % d_x));
            }
        }
        if gives.scores {
            let mut given = vec![f64::NAN; 2 * d_theta];
            probe.ask(&theta, &pair, |want| want.scores = Some(&mut given))?;
            for (i, (given, expected)) in given.iter().zip(gt.iter().chain(&other_gt)).enumerate() {
                scores.compare(*given, *expected, norm(&gt), || {
                    format!("particle {}, theta[{}]", i / d_theta, i % d_theta)
                });
            }
        }
        if model.groups() > 1 {
            // One particle of each of two groups must give what each gives by itself.
            let next = (group + 1) % model.groups() as u32;
            probe.groups = vec![next];
            let (next_gt, next_gx) = probe.gradients(&theta, &other)?;
            probe.groups = vec![group, next];
            let (sum, rows) = probe.gradients(&theta, &pair)?;
            for i in 0..d_theta {
                blocks.compare(sum[i], gt[i] + next_gt[i], norm(&gt), || format!("theta[{i}] of two groups"));
            }
            for (i, (given, expected)) in rows.iter().zip(gx.iter().chain(&next_gx)).enumerate() {
                blocks.compare(*given, *expected, norm(&gx), || format!("x[{}] of two groups", i % d_x));
            }
        }
        if let Some(m) = model.m_step() {
            probe.groups = (0..model.groups() as u32).collect();
            let all = draw(3, 2 * model.groups() * d_x);
            let mut mean = vec![0.0; m.statistics_len()];
            m.statistics(At { groups: &probe.groups, ..At::new(&theta, &all) }, &mut mean)?;
            mean.iter_mut().for_each(|s| *s /= 2.0);
            let mut best = theta.clone();
            m.m_step(&mean, &mut best)?;
            let (here, _) = probe.gradients(&theta, &all)?;
            let (left, _) = probe.gradients(&best, &all)?;
            for (i, left) in left.iter().enumerate() {
                m_step.compare(*left, 0.0, norm(&here), || format!("theta[{i}] of the maximiser"));
            }
        }
    }
    let mut all = Check::new("numbers of all groups");
    if model.groups() > 1 {
        // Derivatives are compared in a few groups; one with data that are no numbers may be any of them.
        let (theta, _) = InitTheta::Model.of_model(model, seed);
        let mut x = vec![0.0; model.groups() * d_x];
        Noise::new(seed, Purpose::Check).normals_f64(POINTS, 0, &mut x);
        probe.groups = (0..model.groups() as u32).collect();
        let (mut rows, mut values) = (vec![f64::NAN; x.len()], vec![0.0; model.groups()]);
        probe.ask(&theta, &x, |want| {
            want.grad_x = Some(&mut rows);
            want.log_density = gives.log_density.then_some(&mut values);
        })?;
        let finite =
            |g: &usize| values[*g].is_finite() && rows[g * d_x..][..d_x].iter().all(|v| v.is_finite());
        if let Some(g) = (0..model.groups()).find(|g| !finite(g)) {
            let name = model.group_names().get(g).cloned().unwrap_or_default();
            all.error = f64::INFINITY;
            all.place =
                format!("the log density of group {name}, or its gradient, is no finite number at the start");
        }
    }
    let mut checks = Vec::new();
    match gives.log_density {
        true => checks.extend([grad_theta, grad_x]),
        false => checks.push(mixed),
    }
    checks.extend(gives.hessian.then_some(hessian));
    checks.extend(gives.scores.then_some(scores));
    checks.extend(model.m_step().map(|_| m_step));
    checks.extend([blocks, parts]);
    checks.extend((model.groups() > 1).then_some(all));
    Ok(checks)
}
