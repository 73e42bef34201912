//! Likelihoods that rise without bound, and estimates at infinity: a fit says so and names the component.

#![allow(clippy::disallowed_methods)]

#[allow(dead_code)] // models here know no Hessians
#[path = "../../motes-models/tests/bed/rows.rs"]
mod rows;

use motes::algorithms::PGD;
use motes::{Diagnostics, Model, Pool, Settings, State, Stop};
use rows::{Ask, Of, Rows};

/// A fit by auto with nothing chosen.
fn fit(model: &dyn Model<f64>, settings: &Settings) -> State<f64> {
    Pool::new(Some(2)).unwrap().install(|| {
        let mut state = motes::start(model, settings).unwrap();
        motes::run(model, settings, &mut state, None, &mut []).unwrap();
        state
    })
}

/// Auto with nothing chosen.
fn auto() -> Settings {
    Settings::auto(false, Settings::default().seed)
}

/// y is either near a spike, N(m, s^2), or N(c + x, 1) with x ~ N(0, 1): the spike can close in on a datum, where the likelihood
/// has no bound. Theta is m, log s and c.
struct Spike {
    y: Vec<f64>,
    start: [f64; 3],
}

impl Rows for Spike {
    fn name(&self) -> &'static str {
        "spike"
    }

    fn d_theta(&self) -> usize {
        3
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        self.y.len()
    }

    fn hessian(&self) -> bool {
        false
    }

    fn start(&self, theta: &mut [f64]) {
        theta.copy_from_slice(&self.start);
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let (y, x, s) = (self.y[group], x[0], theta[1].exp());
        let (z, e) = ((y - theta[0]) / s, y - theta[2] - x);
        let tau = std::f64::consts::TAU;
        let (near, far) = (-0.5 * z * z - theta[1], -0.5 * e * e);
        let top = near.max(far);
        let sum = (near - top).exp() + (far - top).exp();
        let r = (near - top).exp() / sum;
        if let Some(grad) = ask.grad_x {
            grad[0] = (1.0 - r) * e - x;
        }
        if let Some(score) = ask.score {
            score.copy_from_slice(&[r * z / s, r * (z * z - 1.0), (1.0 - r) * e]);
        }
        top + sum.ln() + 0.5f64.ln() - 0.5 * tau.ln() - 0.5 * x * x - 0.5 * tau.ln()
    }
}

fn spiky(start: [f64; 3]) -> Of<Spike> {
    let y = vec![-1.9, 0.3, 0.9, 1.4, -0.6, 2.8, 0.1, -1.1, 1.9, 0.65, -2.4, 3.3, 0.45, 1.1, -0.2, 2.2];
    Of(Spike { y, start })
}

/// One datum at y is that of a spike around it, N(y, s^2), and the others are N(c + x, 1) with x ~ N(0, 1): theta is log s and c, and
/// the likelihood rises with every step down of the first.
struct OnDatum(f64);

impl Rows for OnDatum {
    fn name(&self) -> &'static str {
        "on-datum"
    }

    fn d_theta(&self) -> usize {
        2
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        12
    }

    fn hessian(&self) -> bool {
        false
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let e = self.0 + 0.3 * group as f64 - theta[1] - x[0];
        let spike = group == 0;
        if let Some(grad) = ask.grad_x {
            grad[0] = e - x[0];
        }
        if let Some(score) = ask.score {
            score.copy_from_slice(&[if spike { -1.0 } else { 0.0 }, e]);
        }
        -0.5 * (e * e + x[0] * x[0]) - if spike { theta[0] } else { 0.0 }
    }
}

/// The toy model, y ~ N(theta + x, 1), far from where it starts.
struct Far(f64);

impl Rows for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn d_x(&self) -> usize {
        1
    }

    fn groups(&self) -> usize {
        12
    }

    fn hessian(&self) -> bool {
        false
    }

    fn row(&self, theta: &[f64], _: &[f64], group: usize, x: &[f64], ask: Ask<'_>) -> f64 {
        let e = self.0 + 0.3 * group as f64 - theta[0] - x[0];
        if let Some(grad) = ask.grad_x {
            grad[0] = e - x[0];
        }
        if let Some(score) = ask.score {
            score[0] = e;
        }
        -0.5 * (e * e + x[0] * x[0])
    }
}

#[test]
fn a_spike_that_closes_in_on_a_datum_runs_away() {
    // Beside the datum, where it closes in step by step, and on it, where a Newton step leaps out of all bounds.
    for start in [[2.79, -3.0, 0.5], [2.8, -3.0, 0.5]] {
        let state = fit(&spiky(start), &auto());
        let found = state.auto.as_ref().unwrap().found();
        assert_eq!(found.verdict, Some("runaway"), "{start:?}: {found:?}");
        let advice = found.advice.unwrap();
        assert!(advice.starts_with("theta[1] has gone from -3 to -"), "{start:?}: {advice}");
        assert_eq!(found.runs_away, Some(1));
        assert!(state.theta.iter().all(|t| t.is_finite()), "{start:?}: {:?}", state.theta);
    }
    // From farther away there is a maximum, and it is found.
    let state = fit(&spiky([0.5, 0.0, 0.5]), &auto());
    assert_ne!(state.auto.as_ref().unwrap().found().verdict, Some("runaway"));
}

#[test]
fn a_theta_that_grows_steadily_runs_away() {
    let model = Of(OnDatum(2.8));
    let settings = Settings {
        algorithm: &PGD,
        particles: 10,
        steps: 2000,
        burn_in: 1000,
        step_size: 0.01,
        ..Settings::default()
    };
    let state = fit(&model, &settings);
    // The score of log s is -1 or so: it falls by the step size in each step.
    assert!(state.theta[0] < -15.0 && Diagnostics::is_moving(&state), "{:?}", state.theta);
    let theta = state.averages.theta_mean().unwrap();
    let (known, away) = Pool::new(Some(2)).unwrap().install(|| {
        let known = motes::auto::assess(&model, &settings, &theta, &state.cloud, Stop::default(), || false);
        let away = motes::auto::runs_away(&model, &settings, &theta, &state.cloud, Stop::default(), || false);
        (known.ok().flatten(), away)
    });
    assert_eq!(away, Some(0));
    let mut known = known.expect("an adjusted pass");
    known.runs_away = away;
    let told = Diagnostics::of(&model, &settings, &state, Some(&known));
    assert_eq!(told.verdict, "runaway", "{told:?}");
    assert!(told.advice.unwrap().contains("goes on to minus infinity"));

    // What is only slow is still moving: y is far away, and the maximum is there.
    let model = Of(Far(400.0));
    let settings = Settings { step_size: 1e-3, ..settings };
    let state = fit(&model, &settings);
    assert!(Diagnostics::is_moving(&state), "{:?}", state.theta);
    let theta = state.averages.theta_mean().unwrap();
    let away = Pool::new(Some(2)).unwrap().install(|| {
        motes::auto::runs_away(&model, &settings, &theta, &state.cloud, Stop::default(), || false)
    });
    assert_eq!(away, None);
}
