//! How a path of theta is read, and how evaluations are counted.

use std::sync::atomic::{AtomicU64, Ordering};

use motes::model::MStep;
use motes::{At, Gives, Model, ModelError, Want};

use crate::bed::{Case, Truth};

/// The distance from the exact estimate that is asked for, in standard errors.
pub const WITHIN: f64 = 0.2;

/// The largest error of a component, in true standard errors.
pub fn error(theta: &[f64], truth: &Truth) -> f64 {
    let of = |((t, exact), se): ((&f64, &f64), &f64)| (t - exact).abs() / se;
    let errors = theta.iter().zip(&truth.theta).zip(&truth.se).map(of);
    errors.fold(0.0, |most, error| if error.is_nan() { f64::INFINITY } else { error.max(most) })
}

/// The middle one of an odd number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Where theta was after each step, and what had been spent.
pub struct Path {
    spent: Vec<f64>,
    thetas: Vec<Vec<f64>>,
    /// Sums of all thetas before each, and of all.
    sums: Vec<Vec<f64>>,
}

impl Path {
    pub fn new() -> Self {
        Path { spent: Vec::new(), thetas: Vec::new(), sums: Vec::new() }
    }

    pub fn push(&mut self, spent: f64, theta: &[f64]) {
        let mut sum = self.sums.last().cloned().unwrap_or_else(|| vec![0.0; theta.len()]);
        if self.sums.is_empty() {
            self.sums.push(sum.clone());
        }
        sum.iter_mut().zip(theta).for_each(|(s, t)| *s += t);
        self.sums.push(sum);
        self.thetas.push(theta.to_vec());
        self.spent.push(spent);
    }

    /// Takes the last step back.
    pub fn pop(&mut self) {
        self.spent.pop();
        self.thetas.pop();
        self.sums.pop();
    }

    pub fn len(&self) -> usize {
        self.spent.len()
    }

    /// All that was spent.
    pub fn spent(&self) -> f64 {
        self.spent.last().copied().unwrap_or(0.0)
    }

    /// The mean of the thetas up to number k, of which the first share is left out; that of number k alone if nothing is left.
    pub fn tail_mean(&self, k: usize, left_out: f64) -> Vec<f64> {
        let first = ((k + 1) as f64 * left_out) as usize;
        if first >= k {
            return self.thetas[k].clone();
        }
        let n = (k + 1 - first) as f64;
        self.sums[k + 1].iter().zip(&self.sums[first]).map(|(all, before)| (all - before) / n).collect()
    }

    /// What was spent when the tail mean came to stay near the truth, and the steps of that; infinite if it did not.
    pub fn stays(&self, truth: &Truth, left_out: f64) -> (f64, u64) {
        let near = |k: &usize| error(&self.tail_mean(*k, left_out), truth) <= WITHIN;
        match (0..self.len()).rev().take_while(near).last() {
            Some(first) => (self.spent[first], first as u64 + 1),
            None => (f64::INFINITY, self.len() as u64),
        }
    }
}

/// A model that counts what it is asked, by rows. Whatever is asked of a row at once is one evaluation, a Hessian one more, which is
/// about what it takes in these models.
pub struct Counted<'a> {
    model: &'a dyn Model<f64>,
    closed: Option<Closed>,
    rows: AtomicU64,
    /// Rows of theta-gradients alone, by which an M-step without a closed form is found.
    pub m_steps: AtomicU64,
}

impl<'a> Counted<'a> {
    pub fn new(case: &'a Case) -> Self {
        let coordinates = case.model.groups() * case.model.d_x();
        let closed = match case.name {
            "toy" | "pima" => Some(Closed { coordinates, spread: false }),
            "schools-x3" => Some(Closed { coordinates, spread: true }),
            _ => None,
        };
        Counted { model: &*case.model, closed, rows: AtomicU64::new(0), m_steps: AtomicU64::new(0) }
    }

    /// Evaluations of single particles so far.
    pub fn evaluations(&self) -> f64 {
        self.rows.load(Ordering::Relaxed) as f64 / self.model.groups() as f64
    }
}

impl Model<f64> for Counted<'_> {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn d_theta(&self) -> usize {
        self.model.d_theta()
    }

    fn d_x(&self) -> usize {
        self.model.d_x()
    }

    fn groups(&self) -> usize {
        self.model.groups()
    }

    fn rows_per_block(&self, n: usize) -> usize {
        self.model.rows_per_block(n)
    }

    fn nanoseconds_per_row(&self) -> f64 {
        self.model.nanoseconds_per_row()
    }

    fn scratch_len(&self, rows: usize) -> usize {
        self.model.scratch_len(rows)
    }

    fn gives(&self) -> Gives {
        self.model.gives()
    }

    fn start(&self, seed: u64, theta: &mut [f64], buffers: &mut [f64]) {
        self.model.start(seed, theta, buffers);
    }

    fn m_step(&self) -> Option<&dyn MStep<f64>> {
        self.closed.as_ref().map(|closed| closed as &dyn MStep<f64>)
    }

    fn evaluate(&self, at: At<'_, f64>, want: Want<'_, f64>) -> Result<(), ModelError> {
        let rows = (at.x.len() / self.d_x()) as u64;
        let theta_alone = want.grad_theta.is_some() && want.grad_x.is_none();
        if theta_alone {
            self.m_steps.fetch_add(rows, Ordering::Relaxed);
        }
        let asked =
            theta_alone || want.grad_x.is_some() || want.log_density.is_some() || want.scores.is_some();
        let count = u64::from(asked) + u64::from(want.hessian.is_some());
        self.rows.fetch_add(rows * count, Ordering::Relaxed);
        self.model.evaluate(at, want)
    }
}

/// The M-step of normal latents with a common mean, and a common spread if theta has its logarithm.
struct Closed {
    coordinates: usize,
    spread: bool,
}

impl MStep<f64> for Closed {
    fn statistics_len(&self) -> usize {
        1 + usize::from(self.spread)
    }

    fn statistics(&self, at: At<'_, f64>, out: &mut [f64]) -> Result<(), ModelError> {
        out[0] = at.x.iter().sum();
        if self.spread {
            out[1] = at.x.iter().map(|x| x * x).sum();
        }
        Ok(())
    }

    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        theta[0] = mean[0] / self.coordinates as f64;
        if self.spread {
            theta[1] = 0.5 * (mean[1] / self.coordinates as f64 - theta[0] * theta[0]).ln();
        }
        Ok(())
    }
}
