//! Class probabilities of rows: those of particles, what is remembered of them for a test set, and predictions.

use motes::Real;
use motes::model::Predictive;
use motes::tested::{Predictions, likeliest};

use crate::data::METRICS;
use crate::registry::Predicted;

/// Particles whose probabilities are computed together before they are added up in order.
pub(crate) const GROUP: usize = 16;
/// Probabilities of particles that are kept at once to find their quantiles.
const MOST_PROBABILITIES: usize = 1 << 22;

/// Rows that particles give probabilities to.
pub(crate) trait Classified<F>: Sync {
    /// Hands out log p(l | f, x^n) for each row and class, particle after particle.
    fn for_each_particle(&self, x: &[F], take: &mut dyn FnMut(&[f64]));
}

/// A test set: such rows with their labels.
#[derive(Clone, Debug)]
pub(crate) struct TestSet<T> {
    rows: T,
    tally: Tally,
}

impl<T> TestSet<T> {
    pub fn new(rows: T, labels: &[u8], classes: usize) -> Self {
        TestSet { rows, tally: Tally { labels: labels.to_vec(), classes } }
    }
}

impl<F: Real, T: Classified<F>> Predictive<F> for TestSet<T> {
    fn names(&self) -> Vec<String> {
        METRICS.map(String::from).to_vec()
    }

    fn state_len(&self) -> usize {
        self.tally.state_len()
    }

    fn accumulate(&self, x: &[F], state: &mut [f64]) {
        self.rows.for_each_particle(x, &mut |logs| self.tally.add(logs, state));
    }

    fn merge(&self, from: &[f64], into: &mut [f64]) {
        self.tally.merge(from, into);
    }

    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        self.tally.metrics(state, out);
    }

    fn predictions(&self, state: &[f64]) -> Option<Predictions> {
        let probabilities = self.tally.probabilities(state);
        Some(Predictions { classes: self.tally.classes, probabilities, labels: self.tally.labels.clone() })
    }
}

/// Predicts rows of so many inputs from n particles x, with intervals at a level; `packed` makes some rows ready.
pub(crate) fn predicted<F: Real, T: Classified<F>>(
    (features, inputs): (&[f64], usize),
    (x, n): (&[F], usize),
    classes: usize,
    level: f64,
    packed: impl Fn(&[f64]) -> T,
) -> Predicted {
    let rows = (MOST_PROBABILITIES / (n * classes).max(1)).max(16);
    let mut predicted = Predicted::default();
    let mut logs = Vec::new();
    for features in features.chunks(rows * inputs) {
        let tally = Tally { labels: vec![0; features.len() / inputs], classes };
        let mut state = vec![0.0; tally.state_len()];
        logs.clear();
        packed(features).for_each_particle(x, &mut |of_particle| {
            tally.add(of_particle, &mut state);
            logs.extend_from_slice(of_particle);
        });
        let width = tally.labels.len() * classes;
        for (row, p) in tally.probabilities(&state).chunks_exact(classes).enumerate() {
            let of_class = logs.iter().skip(row * classes + likeliest(p)).step_by(width);
            predicted.push(p, &mut of_class.map(|log| libm::exp(*log)).collect::<Vec<f64>>(), level);
        }
    }
    predicted
}

/// Test rows by their labels. The state that is remembered has, for each row and class, the largest logarithm of a probability
/// and the sum of all probabilities relative to it.
#[derive(Clone, Debug)]
struct Tally {
    labels: Vec<u8>,
    classes: usize,
}

impl Tally {
    /// How many numbers are remembered.
    fn state_len(&self) -> usize {
        2 * self.classes * self.labels.len()
    }

    /// Takes into account what a particle says: log p(l | f, x) for each row and class.
    fn add(&self, logs: &[f64], state: &mut [f64]) {
        for (sum, log) in state.as_chunks_mut::<2>().0.iter_mut().zip(logs) {
            add([*log, 1.0], sum);
        }
    }

    /// Takes into account what other particles have said.
    fn merge(&self, from: &[f64], into: &mut [f64]) {
        for (from, into) in from.as_chunks::<2>().0.iter().zip(into.as_chunks_mut::<2>().0) {
            add(*from, into);
        }
    }

    /// log sum_n p(l | f, x^n) for each row and class, from the running maxima and scaled sums.
    fn logarithms<'a>(&self, state: &'a [f64]) -> impl Iterator<Item = Vec<f64>> + 'a {
        let row =
            |row: &[f64]| row.as_chunks::<2>().0.iter().map(|[most, sum]| most + libm::log(*sum)).collect();
        state.chunks_exact(2 * self.classes).map(row)
    }

    /// The mean probability of each class, row by row. As those of one particle add up to 1, the sums over particles
    /// add up to their number, which is thus known.
    fn probabilities(&self, state: &[f64]) -> Vec<f64> {
        self.logarithms(state)
            .flat_map(|logs| {
                let all = log_sum_exp(&logs);
                logs.into_iter().map(move |l| libm::exp(l - all))
            })
            .collect()
    }

    /// The share of rows whose likeliest class is not their own, and the mean of the logarithm of the probability of that.
    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        let (mut wrong, mut lppd) = (0, 0.0);
        for (logs, label) in self.logarithms(state).zip(&self.labels) {
            let label = usize::from(*label);
            wrong += usize::from(likeliest(&logs) != label);
            lppd += logs[label] - log_sum_exp(&logs);
        }
        let n = self.labels.len() as f64;
        out.copy_from_slice(&[wrong as f64 / n, lppd / n]);
    }
}

fn log_sum_exp(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + libm::log(logs.iter().map(|l| libm::exp(l - most)).sum())
}

/// Adds e^log s to a sum that is kept as its largest logarithm and what remains.
#[inline]
fn add([log, s]: [f64; 2], [most, sum]: &mut [f64; 2]) {
    if *sum == 0.0 {
        (*most, *sum) = (log, s);
    } else if log > *most {
        (*most, *sum) = (log, *sum * libm::exp(*most - log) + s);
    } else {
        *sum += s * libm::exp(log - *most);
    }
}
