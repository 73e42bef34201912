//! The Bayesian neural network of Sec. 3.2: p(l | f, x) ∝ exp(sum_j v_lj tanh(sum_i w_ji f_i)), with the scales of the
//! weights' priors to be learnt.

mod design;
mod entry;
mod lanes;
mod network;
mod predictive;
mod turn;

use std::str::FromStr;

use motes::blocks::INLINE_NANOSECONDS;
use motes::model::{Draws, MStep, Predictive};
use motes::printable::Number;
use motes::settings::unknown;
use motes::{At, Gives, Model, ModelError, Real, Want};
use serde::{Deserialize, Serialize};

use self::design::{Design, Layout};
use self::network::{Pass, Terms};
use self::predictive::NewRows;
use crate::data::ImageTask;
use crate::registry::Predicted;
use crate::tally::{TestSet, predicted};

pub use entry::Entry;

/// Rows of features with the class of each.
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    /// Row after row.
    pub features: &'a [f64],
    /// The class of each row, counted from 0.
    pub labels: &'a [u8],
}

/// How the products with the features are computed. All ways agree up to rounding.
///
/// Gradients over mini-batches are dense whatever is chosen: lists of entries are made for all rows together, and a batch
/// picks its rows anew at each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Products {
    /// Sparse or dense, whichever is less work for the features given.
    #[default]
    Auto,
    /// Dense, over the columns that are not zero everywhere.
    Dense,
    /// Sparse, after the most frequent value of each column has been split off.
    Sparse,
    /// Dense, over all columns: what the others are compared with.
    Full,
}

impl FromStr for Products {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Products::Auto),
            "dense" => Ok(Products::Dense),
            "sparse" => Ok(Products::Sparse),
            "full" => Ok(Products::Full),
            _ => Err(unknown("way of computing products", word, &["auto", "dense", "sparse", "full"])),
        }
    }
}

/// A two-layer network without biases: I inputs, H hidden units, C classes.
///
/// x = (w, v), both row-major: w is H x I with prior N(0, e^{2 alpha}), v is C x H with prior N(0, e^{2 beta}), and
/// theta = (alpha, beta).
#[derive(Clone, Debug)]
pub struct Bnn<F> {
    inputs: usize,
    hidden: usize,
    classes: usize,
    design: Design<F>,
    labels: Vec<u8>,
    test: Option<TestSet<NewRows<F>>>,
    terms: [f64; 2],
}

impl<F: Real> Bnn<F> {
    /// The network for rows of `inputs` features and labels below `classes`; `test` is for predictive metrics alone.
    pub fn new(
        train: Labelled<'_>,
        test: Option<Labelled<'_>>,
        inputs: usize,
        hidden: usize,
        classes: usize,
    ) -> Result<Self, ModelError> {
        Self::with_products(train, test, [inputs, hidden, classes], Products::Auto)
    }

    /// As [`Bnn::new`], for [inputs, hidden, classes], with a say in how products are computed.
    pub fn with_products(
        train: Labelled<'_>,
        test: Option<Labelled<'_>>,
        [inputs, hidden, classes]: [usize; 3],
        products: Products,
    ) -> Result<Self, ModelError> {
        if inputs == 0 || hidden == 0 || !(2..=256).contains(&classes) {
            return Err(ModelError::new(format!(
                "a network with {inputs} inputs, {hidden} hidden units and {classes} classes makes no sense; choose at least one input, one hidden unit, and from 2 to 256 classes"
            )));
        }
        check(train, inputs, classes, "training")?;
        let test = test.filter(|test| !test.labels.is_empty());
        if let Some(test) = test {
            check(test, inputs, classes, "test")?;
        }
        Ok(Bnn {
            inputs,
            hidden,
            classes,
            design: Design::new(train.features, inputs, hidden, products),
            labels: train.labels.to_vec(),
            test: test.map(|test| {
                let rows = NewRows::new(test.features, [inputs, hidden, classes]);
                TestSet::new(rows, test.labels, classes)
            }),
            terms: [(hidden * inputs) as f64, (classes * hidden) as f64],
        })
    }

    /// The network for a task on images.
    pub fn of_task(task: &ImageTask, hidden: usize, products: Products) -> Result<Self, ModelError> {
        let part = |rows: &[usize]| -> (Vec<f64>, Vec<u8>) {
            let features = rows.iter().flat_map(|r| &task.features[r * task.inputs..(r + 1) * task.inputs]);
            (features.copied().collect(), rows.iter().map(|r| task.labels[*r]).collect())
        };
        let (train, test) = (part(&task.split.train), part(&task.split.test));
        let labelled = |(features, labels)| Labelled { features, labels };
        let [train, test] = [&train, &test].map(|(f, l)| labelled((f.as_slice(), l.as_slice())));
        Self::with_products(train, Some(test), [task.inputs, hidden, task.classes], products)
    }

    /// Whether products are sparse.
    pub fn is_sparse(&self) -> bool {
        self.design.is_sparse()
    }

    /// The probability of each class for each row of features, averaged over the particles x; and for the likeliest class of each
    /// row the interval that holds this share of the particles' probabilities.
    ///
    /// # Panics
    ///
    /// If `features` are not whole rows, or x not whole particles.
    pub fn predict(&self, features: &[f64], x: &[F], level: f64) -> Predicted {
        assert!(features.len().is_multiple_of(self.inputs), "rows of {} features expected", self.inputs);
        let d = self.d_w() + self.classes * self.hidden;
        assert!(x.len().is_multiple_of(d), "whole particles expected");
        let shape = [self.inputs, self.hidden, self.classes];
        let packed = |features: &[f64]| NewRows::new(features, shape);
        predicted((features, self.inputs), (x, x.len() / d), self.classes, level, packed)
    }

    /// The number of input weights D_w; the output weights follow them.
    fn d_w(&self) -> usize {
        self.hidden * self.inputs
    }

    fn pass(&self, particles: usize) -> Pass<'_, F> {
        Pass::new(&self.design, self.inputs, self.classes, particles)
    }

    /// The sums of squares of a particle's input and output weights.
    fn squares(&self, x: &[F]) -> [f64; 2] {
        let (w, v) = x.split_at(self.d_w());
        [lanes::squares(w), lanes::squares(v)]
    }

    fn particles<'a>(&self, x: &'a [F]) -> std::slice::ChunksExact<'a, F> {
        x.chunks_exact(self.d_w() + self.classes * self.hidden)
    }

    /// Whether one particle is worth more than one thread.
    fn parallel(&self, at: &At<'_, F>) -> bool {
        at.parallel && self.nanoseconds_per_row() > 2.0 * INLINE_NANOSECONDS
    }

    fn check_batch(&self, batch: Option<&[u32]>) -> Result<(), ModelError> {
        let m = self.labels.len();
        match batch {
            Some(batch) if batch.is_empty() || batch.len() > m || batch.iter().any(|b| *b as usize >= m) => {
                Err(ModelError::new(format!(
                    "a batch of {} rows does not fit the {m} of the data; choose a batch of 1 to {m}",
                    batch.len()
                )))
            }
            _ => Ok(()),
        }
    }
}

fn check(rows: Labelled<'_>, inputs: usize, classes: usize, part: &str) -> Result<(), ModelError> {
    let Labelled { features, labels } = rows;
    let error = |text: String| Err(ModelError::new(text));
    if labels.is_empty() {
        return error(format!("there are no {part} rows; give at least one"));
    }
    if features.len() != labels.len() * inputs {
        return error(format!(
            "{} {part} features are not {} rows of {inputs}; give a row of features for each label",
            features.len(),
            labels.len()
        ));
    }
    if let Some(i) = features.iter().position(|f| !F32_RANGE.contains(f)) {
        return error(format!(
            "feature {} of {part} row {} is {}; give numbers of a reasonable size",
            i % inputs,
            i / inputs,
            Number(features[i])
        ));
    }
    if let Some(i) = labels.iter().position(|l| usize::from(*l) >= classes) {
        return error(format!(
            "{part} row {i} has label {}, but there are {classes} classes; count them from 0",
            labels[i]
        ));
    }
    Ok(())
}

/// Features outside of it would overflow in single precision.
const F32_RANGE: std::ops::RangeInclusive<f64> = -1e30..=1e30;

impl<F: Real> Model<F> for Bnn<F> {
    fn name(&self) -> &str {
        "bnn"
    }

    fn d_theta(&self) -> usize {
        2
    }

    fn d_x(&self) -> usize {
        self.d_w() + self.classes * self.hidden
    }

    fn theta_names(&self) -> Vec<String> {
        vec!["alpha".into(), "beta".into()]
    }

    fn x_names(&self) -> Vec<String> {
        let names = |name: char, rows: usize, columns: usize| {
            (0..rows * columns).map(move |i| format!("{name}[{},{}]", i / columns, i % columns))
        };
        names('w', self.hidden, self.inputs).chain(names('v', self.classes, self.hidden)).collect()
    }

    /// One particle, or two if together they fill the processor's vectors, unless the network is tiny: particles share nothing
    /// but the features, which stream by anyway. How many there are changes no bit of the sums over them, which join
    /// neighbours first.
    fn rows_per_block(&self, _n: usize) -> usize {
        let wanted = (100_000.0 / self.nanoseconds_per_row()) as usize;
        wanted.max(Layout::together::<F>(self.hidden))
    }

    fn nanoseconds_per_row(&self) -> f64 {
        // Some 80 Gflop/s in single precision, half of it in double.
        let products = size_of::<F>() as f64 / 160.0 * (self.hidden * self.design.work()) as f64;
        let rest = self.d_x() + self.labels.len() * self.hidden * self.classes;
        products + rest as f64
    }

    fn scratch_len(&self, particles: usize) -> usize {
        let most = particles.clamp(1, Layout::together::<F>(self.hidden));
        (1..=most).map(|particles| self.pass(particles).scratch_len()).max().unwrap_or(0)
    }

    fn evaluate(&self, at: At<'_, F>, want: Want<'_, F>) -> Result<(), ModelError> {
        self.check_batch(at.terms)?;
        let Want { mut log_density, mut grad_x, grad_theta, mut scores, hessian, scratch, .. } = want;
        let precision = [0, 1].map(|i| libm::exp(-2.0 * at.theta[i]));
        let parallel = self.parallel(&at);
        let squared = grad_theta.is_some() || scores.is_some();
        let (d, together) = (self.d_x(), Layout::together::<F>(self.hidden));
        let mut total = [0.0; 2];
        let mut curvature = [0.0; 2];
        for (i, some) in at.x.chunks(together * d).enumerate() {
            let (first, count) = (i * together, some.len() / d);
            let pass = self.pass(count);
            let likelihood = log_density.as_deref_mut().map(|l| &mut l[first..first + count]);
            let mut squares = [[0.0; 2]; 2];
            match grad_x.as_deref_mut().map(|g| &mut g[first * d..(first + count) * d]) {
                Some(grad) => {
                    let data = Terms { labels: &self.labels, batch: at.terms };
                    let of_particle = |n: usize, of_x: [f64; 2]| squares[n] = of_x;
                    pass.gradient(some, data, precision, parallel, grad, likelihood, scratch, of_particle);
                }
                None => {
                    if let Some(likelihood) = likelihood {
                        pass.log_likelihood(some, &self.labels, at.terms, parallel, scratch, likelihood);
                    }
                    if squared {
                        squares.iter_mut().zip(self.particles(some)).for_each(|(s, x)| *s = pass.squares(x));
                    }
                }
            }
            for ((n, x), of_x) in (first..).zip(self.particles(some)).zip(squares) {
                let score = [0, 1].map(|i| precision[i] * of_x[i] - self.terms[i]);
                total.iter_mut().zip(score).for_each(|(t, s)| *t += s);
                if let Some(scores) = scores.as_deref_mut() {
                    scores[2 * n..2 * n + 2].copy_from_slice(&score);
                }
                if log_density.is_some() || hessian.is_some() {
                    for (i, squares) in self.squares(x).into_iter().enumerate() {
                        if let Some(out) = log_density.as_deref_mut() {
                            out[n] -= 0.5 * precision[i] * squares + self.terms[i] * at.theta[i];
                        }
                        curvature[i] -= 2.0 * precision[i] * squares;
                    }
                }
            }
        }
        if let Some(grad_theta) = grad_theta {
            grad_theta.copy_from_slice(&total);
        }
        if let Some(hessian) = hessian {
            hessian.copy_from_slice(&[curvature[0], 0.0, 0.0, curvature[1]]);
        }
        Ok(())
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    fn default_step_size(&self) -> f64 {
        0.1
    }

    fn theta_terms(&self) -> Option<&[f64]> {
        Some(&self.terms)
    }

    fn m_step(&self) -> Option<&dyn MStep<F>> {
        Some(self)
    }

    fn prior(&self) -> Option<&dyn Draws<F>> {
        Some(self)
    }

    fn data_terms(&self) -> Option<usize> {
        Some(self.labels.len())
    }

    fn predicts_from_final_cloud(&self) -> bool {
        true
    }

    fn predictive(&self) -> Option<&dyn Predictive<F>> {
        self.test.as_ref().map(|test| test as &dyn Predictive<F>)
    }
}

impl<F: Real> MStep<F> for Bnn<F> {
    fn statistics_len(&self) -> usize {
        2
    }

    fn statistics(&self, at: At<'_, F>, out: &mut [f64]) -> Result<(), ModelError> {
        let x = at.x;
        out.fill(0.0);
        for x in self.particles(x) {
            out.iter_mut().zip(self.squares(x)).for_each(|(o, s)| *o += s);
        }
        Ok(())
    }

    /// alpha = log(mean |w|^2 / D_w) / 2, and beta likewise.
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        for i in 0..2 {
            if mean[i] <= 0.0 {
                return Err(ModelError::new(
                    "all weights of a layer are zero, so the scale of their prior has no maximum; start the particles from the prior with `init-particles=prior`",
                ));
            }
            theta[i] = 0.5 * libm::log(mean[i] / self.terms[i]);
        }
        Ok(())
    }
}

impl<F: Real> Draws<F> for Bnn<F> {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [F]) {
        let scales = [0, 1].map(|i| F::of(libm::exp(theta[i])));
        for x in x.chunks_exact_mut(self.d_w() + self.classes * self.hidden) {
            let (w, v) = x.split_at_mut(self.d_w());
            w.iter_mut().for_each(|w| *w *= scales[0]);
            v.iter_mut().for_each(|v| *v *= scales[1]);
        }
    }
}
