//! Item response theory: many parameters, one latent ability of each person; truth by quadrature over a common grid.

use nalgebra::DMatrix;

use super::numeric::{Chance, HALF_LN_TAU, ln_sum_exp, newton, sigmoid};
use super::rows::{Ask, Rows};
use super::{Case, Expect, Truth, case};

/// Person g solves item i with logit a_i x_g + b_i, and x_g ~ N(0, 1); theta = (a, b). The signs of all a and x may be
/// exchanged, so that the start says which maximum is meant.
struct TwoParameters {
    name: &'static str,
    items: usize,
    /// One person after the other: 1 for a solved item, else 0.
    solved: Vec<f64>,
}

impl TwoParameters {
    fn new(name: &'static str, persons: usize, items: usize, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let a: Vec<f64> = (0..items).map(|_| 0.7 + 1.1 * chance.uniform()).collect();
        let b: Vec<f64> = (0..items).map(|_| 3.0 * chance.uniform() - 1.5).collect();
        let mut solved = Vec::with_capacity(persons * items);
        for _ in 0..persons {
            let x = chance.normal();
            solved.extend((0..items).map(|i| f64::from(chance.uniform() < sigmoid(a[i] * x + b[i]))));
        }
        TwoParameters { name, items, solved }
    }

    fn truth(&self) -> Truth {
        let d = 2 * self.items;
        let start: Vec<f64> = (0..d).map(|i| if i < self.items { 1.0 } else { 0.0 }).collect();
        let local = |theta: &[f64], unit: &[f64]| {
            let (slope, information) = Grid::new(self, theta).derivatives();
            (slope, DMatrix::from_fn(d, d, |i, j| information[(i, j)] * unit[i] * unit[j]))
        };
        newton(&|t| Grid::new(self, t).log_likelihood(), &local, &start, &vec![0.1; d])
    }
}

/// Steps of the trapezoidal rule: the narrowest posterior here is 1.5 of them wide, which leaves errors below 1e-15.
const STEP: f64 = 0.1;
const NODES: i32 = 65;

/// All items at all abilities of a grid, and each person's posterior on it.
struct Grid<'a> {
    of: &'a TwoParameters,
    nodes: Vec<f64>,
    /// `[node][item]`.
    p: Vec<f64>,
    /// ln of prior times likelihood, `[person][node]`.
    joint: Vec<f64>,
}

impl<'a> Grid<'a> {
    fn new(of: &'a TwoParameters, theta: &[f64]) -> Self {
        let (a, b) = theta.split_at(of.items);
        let nodes: Vec<f64> = (-NODES..=NODES).map(|k| STEP * f64::from(k)).collect();
        let p: Vec<f64> =
            nodes.iter().flat_map(|z| a.iter().zip(b).map(move |(a, b)| sigmoid(a * z + b))).collect();
        let odds: Vec<f64> = p.iter().map(|p| p.ln() - (-p).ln_1p()).collect();
        let none: Vec<f64> =
            p.chunks_exact(of.items).map(|p| p.iter().map(|p| (-p).ln_1p()).sum::<f64>()).collect();
        let mut joint = Vec::with_capacity(of.solved.len() / of.items * nodes.len());
        for solved in of.solved.chunks_exact(of.items) {
            for (k, odds) in odds.chunks_exact(of.items).enumerate() {
                let likelihood = none[k] + solved.iter().zip(odds).map(|(y, o)| y * o).sum::<f64>();
                joint.push(STEP.ln() - HALF_LN_TAU - 0.5 * nodes[k] * nodes[k] + likelihood);
            }
        }
        Grid { of, nodes, p, joint }
    }

    fn log_likelihood(&self) -> f64 {
        self.joint.chunks_exact(self.nodes.len()).map(ln_sum_exp).sum()
    }

    /// The gradient and the observed information, by the identities of Fisher and Louis.
    fn derivatives(&self) -> (Vec<f64>, DMatrix<f64>) {
        let (items, d) = (self.of.items, 2 * self.of.items);
        let (mut slope, mut information) = (vec![0.0; d], vec![0.0; d * d]);
        let (mut score, mut mean) = (vec![0.0; d], vec![0.0; d]);
        let people = self.of.solved.chunks_exact(items).zip(self.joint.chunks_exact(self.nodes.len()));
        for (solved, joint) in people {
            let total = ln_sum_exp(joint);
            mean.fill(0.0);
            for (k, z) in self.nodes.iter().enumerate() {
                let weight = (joint[k] - total).exp();
                if weight < 1e-13 {
                    continue;
                }
                for i in 0..items {
                    let p = self.p[k * items + i];
                    score[items + i] = solved[i] - p;
                    score[i] = z * score[items + i];
                    let curvature = weight * p * (1.0 - p);
                    information[i * d + i] += curvature * z * z;
                    information[(items + i) * d + i] += curvature * z;
                    information[(items + i) * d + items + i] += curvature;
                }
                mean.iter_mut().zip(&score).for_each(|(m, s)| *m += weight * s);
                subtract_square(&mut information, &score, weight);
            }
            subtract_square(&mut information, &mean, -1.0);
            slope.iter_mut().zip(&mean).for_each(|(s, m)| *s += m);
        }
        (slope, DMatrix::from_fn(d, d, |i, j| information[i.max(j) * d + i.min(j)]))
    }
}

/// Takes weight v v' from the lower triangle of a matrix.
fn subtract_square(matrix: &mut [f64], v: &[f64], weight: f64) {
    for (i, row) in matrix.chunks_exact_mut(v.len()).enumerate() {
        let w = weight * v[i];
        row[..=i].iter_mut().zip(v).for_each(|(m, v)| *m -= w * v);
    }
}

impl Rows for TwoParameters {
    fn name(&self) -> &'static str {
        self.name
    }

    fn d_theta(&self) -> usize {
        2 * self.items
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.solved.len() / self.items
    }

    fn start(&self, theta: &mut [f64]) {
        theta[..self.items].fill(1.0);
    }

    fn nanoseconds(&self) -> f64 {
        6.0 * self.items as f64
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], mut ask: Ask<'_>) -> f64 {
        let (items, d, x) = (self.items, 2 * self.items, x[0]);
        let (a, b) = theta.split_at(items);
        let solved = &self.solved[group * items..(group + 1) * items];
        // The product of 1 + e^-|u| stays below 2^items: one logarithm serves for all.
        let (mut linear, mut product, mut in_x) = (0.0, 1.0, -x);
        for i in 0..items {
            let u = a[i] * x + b[i];
            let small = (-u.abs()).exp();
            let p = if u >= 0.0 { 1.0 } else { small } / (1.0 + small);
            let excess = solved[i] - p;
            linear += solved[i] * u - u.max(0.0);
            product *= 1.0 + small;
            in_x += a[i] * excess;
            if let Some(score) = &mut ask.score {
                score[i] = x * excess;
                score[items + i] = excess;
            }
            if let Some(h) = &mut ask.hessian {
                let curvature = p * (1.0 - p);
                h[i * d + i] -= curvature * x * x;
                h[(items + i) * d + i] -= curvature * x;
                h[(items + i) * d + items + i] -= curvature;
            }
        }
        if let Some(g) = ask.grad_x {
            g[0] = in_x;
        }
        if ask.value { -HALF_LN_TAU - 0.5 * x * x + linear - product.ln() } else { 0.0 }
    }
}

/// Name, persons, items.
const SIZES: [(&str, usize, usize); 3] = [("irt-40", 500, 20), ("irt-100", 300, 50), ("irt-200", 300, 100)];

fn of_size((name, persons, items): (&'static str, usize, usize)) -> TwoParameters {
    TwoParameters::new(name, persons, items, items as u64)
}

/// The data of one of them: 1 for a solved item, else 0, one person after the other.
#[allow(dead_code)] // which the benchmark hands to its peer
pub fn answers(name: &str) -> Vec<f64> {
    let size = SIZES.into_iter().find(|(n, ..)| *n == name).expect("a case of that name");
    of_size(size).solved
}

pub fn cases() -> Vec<Case> {
    SIZES
        .map(|size| {
            let (model, items) = (of_size(size), size.2);
            let truth = model.truth();
            Case { slow: items > 50, ..case(model, Some(truth), Expect::Right) }
        })
        .into()
}
