//! A model of one's own: Poisson regression with random effects, from its log density alone by automatic differentiation,
//! and with derivatives written by hand. Both are checked against numerical integration.
//!
//! ```sh
//! cargo run --release -p motes-models --example own_model
//! ```
//!
//! Group g has an effect x_g ~ N(0, e^{2s}) and counts y_i ~ Poisson(e^{a + b z_i + x_g}); theta = (a, b, s).

#![allow(clippy::disallowed_methods)]

use motes::algorithms::PQN;
use motes::model::Draws;
use motes::settings::InitParticles;
use motes::{At, Error, Gives, Model, ModelError, Pool, Settings, Want};
use nalgebra::SVector;
use num_dual::{DualNum, gradient, hessian};

/// The counts of one group, each with its covariate.
type Group = Vec<(f64, f64)>;

/// The log density of one group and its effect, for any kind of number: real ones, or dual ones that carry derivatives.
fn log_density<D: DualNum<Primitive = f64> + Copy>([a, b, s]: [D; 3], x: D, group: &Group) -> D {
    let mut l = -(x * x * (s * -2.0).exp()) * 0.5 - s;
    for (z, y) in group {
        let eta = a + b * *z + x;
        l += eta * *y - eta.exp();
    }
    l
}

/// Where derivatives come from.
#[derive(Clone, Copy, PartialEq)]
pub enum Derivatives {
    /// From [`log_density`], by dual numbers.
    Automatic,
    /// From the formulae below.
    ByHand,
}

/// The model: a group of counts has a group of one latent variable, its effect.
pub struct Poisson {
    groups: Vec<Group>,
    derivatives: Derivatives,
}

impl Poisson {
    /// The gradient of one group's term in (a, b, s, x).
    fn gradient(&self, theta: &[f64], x: f64, group: &Group) -> [f64; 4] {
        let [a, b, s] = [theta[0], theta[1], theta[2]];
        match self.derivatives {
            Derivatives::Automatic => {
                let at = SVector::from([a, b, s, x]);
                gradient(|v: SVector<_, 4>| log_density([v[0], v[1], v[2]], v[3], group), &at).1.into()
            }
            Derivatives::ByHand => {
                let precision = (-2.0 * s).exp();
                let mut g = [0.0, 0.0, x * x * precision - 1.0, -x * precision];
                for (z, y) in group {
                    let excess = y - (a + b * z + x).exp();
                    g[0] += excess;
                    g[1] += z * excess;
                    g[3] += excess;
                }
                g
            }
        }
    }

    /// The Hessian of one group's term in theta, row by row.
    fn hessian(&self, theta: &[f64], x: f64, group: &Group) -> [[f64; 3]; 3] {
        let [a, b, s] = [theta[0], theta[1], theta[2]];
        match self.derivatives {
            Derivatives::Automatic => {
                let at = SVector::from([a, b, s]);
                hessian(|v: SVector<_, 3>| log_density(v.into(), x.into(), group), &at).2.into()
            }
            Derivatives::ByHand => {
                let mut h = [[0.0; 3]; 3];
                h[2][2] = -2.0 * x * x * (-2.0 * s).exp();
                for (z, _) in group {
                    let rate = (a + b * z + x).exp();
                    h[0][0] -= rate;
                    h[0][1] -= z * rate;
                    h[1][1] -= z * z * rate;
                }
                h[1][0] = h[0][1];
                h
            }
        }
    }

    /// The rows of a block, each with its group.
    fn effects<'a>(&'a self, at: At<'a, f64>) -> impl Iterator<Item = (f64, &'a Group)> {
        at.by_group().flat_map(move |(g, x)| x.iter().map(move |x| (*x, &self.groups[g])))
    }
}

impl Model<f64> for Poisson {
    fn name(&self) -> &str {
        "poisson"
    }

    fn d_theta(&self) -> usize {
        3
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.groups.len()
    }

    fn x_names(&self) -> Vec<String> {
        vec!["effect".into()]
    }

    fn group_names(&self) -> Vec<String> {
        (1..=self.groups.len()).map(|g| format!("group {g}")).collect()
    }

    fn theta_names(&self) -> Vec<String> {
        ["a", "b", "s"].map(String::from).to_vec()
    }

    fn evaluate(&self, at: At<'_, f64>, mut want: Want<'_, f64>) -> Result<(), ModelError> {
        // What comes as a sum over the rows starts at zero.
        let sums = [&mut want.grad_theta, &mut want.hessian];
        sums.into_iter().flatten().for_each(|sum| sum.fill(0.0));
        let theta = [at.theta[0], at.theta[1], at.theta[2]];
        for (i, (x, group)) in self.effects(at).enumerate() {
            let gradient @ [.., in_x] = self.gradient(at.theta, x, group);
            if let Some(grad_x) = &mut want.grad_x {
                grad_x[i] = in_x;
            }
            for (j, g) in gradient[..3].iter().enumerate() {
                if let Some(sum) = &mut want.grad_theta {
                    sum[j] += g;
                }
                if let Some(scores) = &mut want.scores {
                    scores[3 * i + j] = *g;
                }
            }
            if let Some(sum) = &mut want.hessian {
                let h = self.hessian(at.theta, x, group);
                sum.iter_mut().zip(h.as_flattened()).for_each(|(sum, h)| *sum += h);
            }
            if let Some(out) = &mut want.log_density {
                out[i] = log_density(theta, x, group);
            }
        }
        Ok(())
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    fn prior(&self) -> Option<&dyn Draws<f64>> {
        Some(self)
    }
}

impl Draws<f64> for Poisson {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x *= theta[2].exp());
    }
}

/// Counts of 24 groups of 6, made by a rule in place of chance: group effects and counts spread like the model's.
fn counts() -> Vec<Group> {
    let group = |g: usize| {
        let effect = ((g * 7 % 24) as f64 - 11.5) / 12.0;
        let count = |i: usize| {
            let z = i as f64 / 2.5 - 1.0;
            let rate = (0.6 + 0.5 * z + effect).exp();
            let jitter = ((g * 5 + i * 11) % 13) as f64 / 6.0 - 1.0;
            (z, (rate + jitter * rate.sqrt()).round().max(0.0))
        };
        (0..6).map(count).collect()
    };
    (0..24).map(group).collect()
}

/// The logarithm of the marginal likelihood, and the posterior mean of each effect, by the trapezoidal rule.
fn integrate(groups: &[Group], theta: [f64; 3]) -> (f64, Vec<f64>) {
    let (nodes, width) = (401, 8.0 * theta[2].exp());
    let node = |i: usize| width * (2.0 * i as f64 / (nodes - 1) as f64 - 1.0);
    let mut likelihood = 0.0;
    let mean = |group: &Group| {
        let logs: Vec<f64> = (0..nodes).map(|i| log_density(theta, node(i), group)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| (l - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        likelihood += most + (total * 2.0 * width / (nodes - 1) as f64).ln();
        weights.iter().enumerate().map(|(i, w)| w * node(i)).sum::<f64>() / total
    };
    let means = groups.iter().map(mean).collect();
    (likelihood, means)
}

/// The maximiser of the marginal likelihood, by a search along ever smaller steps in each direction.
fn maximise(groups: &[Group]) -> [f64; 3] {
    let (mut theta, mut step) = ([0.0; 3], 0.5);
    let mut best = integrate(groups, theta).0;
    while step > 1e-6 {
        let before = best;
        for i in 0..3 {
            for sign in [-1.0, 1.0] {
                let mut trial = theta;
                trial[i] += sign * step;
                let likelihood = integrate(groups, trial).0;
                if likelihood > best {
                    (theta, best) = (trial, likelihood);
                }
            }
        }
        if best == before {
            step /= 2.0;
        }
    }
    theta
}

/// theta-bar and the posterior means of a fit.
fn fit(model: &Poisson) -> Result<(Vec<f64>, Vec<f64>), Error> {
    for check in motes::check_model(model, 0)? {
        assert!(check.passed(), "{check:?}");
    }
    let settings = Settings {
        algorithm: &PQN,
        particles: 50,
        steps: 3000,
        burn_in: 1000,
        step_size: 0.05,
        adjust: true,
        adjust_after: 200,
        init_particles: InitParticles::Prior,
        ..Settings::default()
    };
    Pool::new(None)?.install(|| {
        let mut state = motes::start(model, &settings)?;
        motes::run(model, &settings, &mut state, None, &mut [])?;
        let theta = state.averages.theta_mean().expect("steps after burn-in");
        let (mean, _) = state.averages.posterior().expect("steps after burn-in");
        Ok((theta, mean))
    })
}

/// Fits the model in both ways and compares with the truth.
pub fn main() -> Result<(), Error> {
    let groups = counts();
    let theta = maximise(&groups);
    let (_, mean) = integrate(&groups, theta);
    println!("{:14} {:>9.4} {:>9.4} {:>9.4}", "integration", theta[0], theta[1], theta[2]);
    let mut answers = Vec::new();
    for (name, derivatives) in [("automatic", Derivatives::Automatic), ("by hand", Derivatives::ByHand)] {
        let (estimate, effects) = fit(&Poisson { groups: groups.clone(), derivatives })?;
        println!("{name:14} {:>9.4} {:>9.4} {:>9.4}", estimate[0], estimate[1], estimate[2]);
        // The standard errors of these averages are some 0.002 and 0.005.
        for i in 0..3 {
            assert!(
                (estimate[i] - theta[i]).abs() < 0.02,
                "theta[{i}] is {} and not {}",
                estimate[i],
                theta[i]
            );
        }
        for (g, (effect, mean)) in effects.iter().zip(&mean).enumerate() {
            assert!((effect - mean).abs() < 0.05, "the mean of effect {g} is {effect} and not {mean}");
        }
        answers.push((estimate, effects));
    }
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // One accept-reject decision that rounding tips over would set the two apart for good; none does here.
    assert!(apart(&answers[0].0, &answers[1].0) < 1e-6, "automatic and hand-written derivatives differ");
    assert!(apart(&answers[0].1, &answers[1].1) < 1e-6, "automatic and hand-written derivatives differ");
    println!("both agree with numerical integration, and with each other to rounding");
    Ok(())
}
