//! The network's rows of the regression table: without data its posterior is the prior, and theta and the scale of the
//! cloud follow recursions that are known at any h. Every row can fail.

use crate::common;

use common::on;
use common::z_scores::{average, rms, z_score};
use motes::algorithms::{Algorithm, PGD, PMGD, PQN, SOUL};
use motes::settings::{InitParticles, InitTheta, Preconditioner};
use motes::{Model, Real, Settings};
use motes_models::{Bnn, Labelled, Products};

/// Inputs, hidden units and classes that give both layers as many weights.
const SHAPE: [usize; 3] = [40, 20, 40];
const REPLICATES: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Row {
    algorithm: &'static Algorithm,
    adjust: bool,
    n: usize,
    h: f64,
    steps: u64,
    theta: f64,
    /// The value of all weights at the start, instead of draws from the prior.
    from: Option<f64>,
    double: bool,
}

/// theta and the mean square of a layer's weights.
#[derive(Clone, Copy, Debug)]
struct Scale {
    theta: f64,
    square: f64,
}

/// What may be wrong with a recursion, to see that it would be noticed.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    None,
    /// A tenth less noise.
    Noise,
    /// Theta moves a tenth too little.
    Theta,
    /// Everything is accepted.
    Acceptance,
}

impl Row {
    /// The recursions in the limit of many weights, where mean squares are what they are expected to be. With s = e^{2 theta},
    /// a move of size h turns a mean square r into (1 - h/s)^2 r + 2h.
    fn expected(&self, defect: Defect) -> Scale {
        let Row { h, n, .. } = *self;
        if self.adjust && defect != Defect::Acceptance {
            // The prior is invariant: nothing moves but by chance.
            return Scale { theta: self.theta, square: (2.0 * self.theta).exp() };
        }
        let noise = if defect == Defect::Noise { 0.9 } else { 1.0 };
        let slow = if defect == Defect::Theta { 0.9 } else { 1.0 };
        let (mut theta, mut r) = (self.theta, self.from.map_or((2.0 * self.theta).exp(), |x| x * x));
        if self.algorithm == &PMGD {
            theta = r.ln() / 2.0;
        }
        for _ in 0..self.steps {
            let s = (2.0 * theta).exp();
            let moved = |r: f64| (1.0 - h / s).powi(2) * r + 2.0 * h * noise;
            match self.algorithm.name {
                "pgd" => (theta, r) = (theta + slow * h * (r / s - 1.0), moved(r)),
                // Gradient D (r/s - 1), Hessian -2 D r/s.
                "pqn" => (theta, r) = (theta + slow * h * (1.0 - s / r) / 2.0, moved(r)),
                "pmgd" => {
                    r = moved(r);
                    theta = slow * r.ln() / 2.0;
                }
                _ => {
                    let chain: Vec<f64> = (0..n)
                        .map(|_| {
                            r = moved(r);
                            r
                        })
                        .collect();
                    theta += slow * h * (average(&chain) / s - 1.0);
                }
            }
        }
        Scale { theta, square: r }
    }

    /// What one replicate shows of the input and the output weights.
    fn measure<F: Real>(&self, model: &Bnn<F>, seed: u64) -> [Scale; 2] {
        let settings = Settings {
            algorithm: self.algorithm,
            particles: self.n,
            steps: self.steps,
            burn_in: self.steps - 1,
            step_size: self.h,
            preconditioner: match self.algorithm.name {
                "pgd" | "soul" => Preconditioner::Diagonal,
                _ => Preconditioner::None,
            },
            adjust: self.adjust,
            adjust_after: 0,
            init_theta: if self.algorithm == &PMGD { InitTheta::Model } else { self.theta.into() },
            init_particles: self.from.map_or(InitParticles::Prior, InitParticles::Value),
            keep_clouds: 0,
            seed,
            ..Settings::default()
        };
        let state = common::fit(model, &settings).expect("a run");
        let [inputs, hidden, _] = SHAPE;
        let cloud: Vec<&[F]> = match self.algorithm.name {
            "soul" => vec![state.cloud.row(0, self.n - 1)],
            _ => (0..self.n).map(|i| state.cloud.row(0, i)).collect(),
        };
        let square = |layer: usize| {
            let part = |x: &[F]| {
                let (w, v) = x.split_at(hidden * inputs);
                let weights = [w, v][layer];
                weights.iter().map(|x| x.f64().powi(2)).sum::<f64>() / weights.len() as f64
            };
            average(&cloud.iter().map(|x| part(x)).collect::<Vec<_>>())
        };
        [0, 1].map(|i| Scale { theta: state.theta[i], square: square(i) })
    }

    fn replicates<F: Real>(&self, number: usize) -> Vec<[Scale; 2]> {
        let [inputs, hidden, classes] = SHAPE;
        // Inputs that are zero say nothing about any weight.
        let (features, labels) = (vec![0.0; 3 * inputs], [0, 1, 2]);
        let rows = Labelled { features: &features, labels: &labels };
        let model = Bnn::<F>::with_products(rows, None, [inputs, hidden, classes], Products::Auto).unwrap();
        assert_eq!(model.d_x(), 2 * hidden * inputs);
        (0..REPLICATES).map(|r| self.measure(&model, 1000 * number as u64 + r)).collect()
    }
}

/// z-scores of theta and of the mean squares, for both layers.
fn scores(measured: &[[Scale; 2]], expected: Scale) -> Vec<f64> {
    let score = |of: &dyn Fn(&[Scale; 2]) -> f64, expected: f64| {
        let values: Vec<f64> = measured.iter().map(of).collect();
        let mean = average(&values);
        // Means of curved functions are off by about a variance.
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        z_score(&values, expected, variance)
    };
    (0..2)
        .flat_map(|i| {
            [score(&|m| m[i].theta, expected.theta), score(&|m| m[i].square.ln(), expected.square.ln())]
        })
        .collect()
}

fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    for double in [false, true] {
        let row = |algorithm, n, h, steps, theta| Row {
            algorithm,
            adjust: false,
            n,
            h,
            steps,
            theta,
            from: None,
            double,
        };
        for (n, h, steps, theta) in [(20, 0.3, 25, 0.0), (5, 0.5, 30, 0.3)] {
            rows.push(row(&PGD, n, h, steps, theta));
            rows.push(row(&PQN, n, h, steps, theta));
            rows.push(row(&PMGD, n, h, steps, 0.0));
        }
        rows.push(row(&SOUL, 5, 0.5, 30, 0.3));
        // Where theta has a way to go, how it goes there shows.
        for (algorithm, n, steps) in [(&PGD, 20, 5), (&PQN, 20, 5), (&SOUL, 5, 3)] {
            rows.push(Row { from: Some(3.0), ..row(algorithm, n, 0.1, steps, 0.2) });
        }
        rows.push(Row { from: Some(3.0), ..row(&PMGD, 20, 0.1, 5, 0.0) });
        for algorithm in [&PGD, &PQN, &PMGD] {
            rows.push(Row { adjust: true, ..row(algorithm, 20, 0.12, 60, 0.0) });
        }
    }
    rows
}

#[test]
fn without_data_theta_and_the_cloud_follow_their_recursions() {
    let (mut wrong, mut honest) = (Vec::new(), Vec::new());
    for (number, row) in table().into_iter().enumerate() {
        let measured = on(2, || match row.double {
            true => row.replicates::<f64>(number),
            false => row.replicates::<f32>(number),
        });
        let expected = row.expected(Defect::None);
        let right = scores(&measured, expected);
        println!("{row:?}: {expected:.4?} scores {right:.1?}");
        if right.iter().any(|z| z.is_nan() || z.abs() >= 4.0) {
            wrong.push(format!("{row:?}: {right:.1?} standard errors off"));
        }
        let defects: &[Defect] = match (row.adjust, row.from) {
            (true, _) => &[Defect::Acceptance],
            (_, Some(_)) => &[Defect::Theta],
            (_, None) => &[Defect::Noise],
        };
        for defect in defects {
            let defective = scores(&measured, row.expected(*defect));
            println!("    with a defect {defective:.1?}");
            for layer in defective.chunks_exact(2) {
                if layer.iter().all(|z| z.abs() < 4.0) {
                    wrong.push(format!("{row:?} cannot fail: a defect is {layer:.1?} standard errors off"));
                }
            }
        }
        honest.extend(right);
    }
    println!("{} scores, rms {:.2}", honest.len(), rms(&honest));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // Below 1, for what is allowed for curvature: standard errors that are too small would still show.
    assert!((0.4..1.1).contains(&rms(&honest)), "rms {}", rms(&honest));
}
