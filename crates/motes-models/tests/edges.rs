//! Corners of the run loop, of settings and of checkpoints.

use crate::common;

use common::models::{Gives, Reduced};
use motes::algorithms::{MARGINAL_MH, PGD, PMGD, SOUL};
use motes::checkpoint::{Header, decode, encode};
use motes::noise::{Noise, Purpose};
use motes::settings::{Growth, InitParticles, StepDecay, WarmStart};
use motes::{Error, Flow, Model, Settings, State, StepInfo};
use motes_models::Hierarchical;

/// The suggestion must suit the algorithm that diverged, which is the warm start's.
#[test]
fn the_suggestion_after_a_diverging_warm_start_works() {
    let model = Hierarchical::<f64>::new(&Hierarchical::<f64>::generate(200, 1.0, 0));
    let settings = Settings {
        algorithm: &PMGD,
        particles: 2,
        step_size: 0.1,
        warm_start: Some(WarmStart { algorithm: Some(&PGD), steps: 5000 }),
        ..Settings::default()
    };
    let error = common::on(1, || common::fit(&model, &settings).map(drop)).expect_err("a divergence");
    let Error::Diverged { suggestion, .. } = error else { panic!("{error}") };
    let calmer = Settings { step_size: suggestion, ..settings };
    common::on(1, || common::fit(&model, &calmer)).expect("the suggestion works");
}

/// The fields are public: what their parsers refuse must be refused by `validate` too.
#[test]
fn settings_made_without_parsing_are_validated() {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0]);
    let base = Settings { particles: 4, steps: 10, burn_in: 5, ..Settings::default() };
    let decay = |power, scale| Some(StepDecay { power, scale });
    let bad = [
        ("falling growth", Settings { grow: Growth(vec![(2, 20), (4, 8)]), ..base.clone() }),
        ("growth back in time", Settings { grow: Growth(vec![(4, 8), (2, 20)]), ..base.clone() }),
        ("decay by NaN", Settings { step_decay: decay(f64::NAN, 1.0), ..base.clone() }),
        ("rising steps", Settings { step_decay: decay(-1.0, 1.0), ..base.clone() }),
        ("decay over no steps", Settings { step_decay: decay(1.0, 0.0), ..base.clone() }),
        ("particles at NaN", Settings { init_particles: InitParticles::Value(f64::NAN), ..base.clone() }),
        (
            "an empty warm start",
            Settings { warm_start: Some(WarmStart { algorithm: None, steps: 0 }), ..base },
        ),
    ];
    let passed: Vec<_> =
        bad.iter().filter(|(_, s)| s.validate::<f64>(&model).is_ok()).map(|(n, _)| *n).collect();
    assert!(passed.is_empty(), "accepted: {passed:?}");
}

/// Whatever growth is accepted, its checkpoints can be read back.
#[test]
fn a_run_that_was_accepted_can_be_resumed() {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0]);
    let grow = Growth(vec![(2, 20), (4, 8)]);
    let settings = Settings { particles: 4, steps: 10, burn_in: 5, grow, ..Settings::default() };
    if settings.validate::<f64>(&model).is_err() {
        return;
    }
    let state = common::on(1, || common::fit(&model, &settings)).expect("a run");
    let mut bytes = Vec::new();
    encode(&state, &Header::of(&state, 0, 0, 0.0), &mut bytes).expect("memory");
    decode(&bytes[..], &mut State::initial(&model, &settings)).expect("its own checkpoint");
}

/// SOUL's chain starts at the last state of the previous one, not at a copy that growth has appended.
#[test]
fn a_growing_chain_goes_on_from_its_last_state() {
    let y = [1.0, 2.0];
    let model = Hierarchical::<f64>::new(&y);
    let (seed, h) = (3, 0.05);
    let settings = Settings {
        algorithm: &SOUL,
        particles: 50,
        steps: 2,
        burn_in: 0,
        step_size: h,
        grow: Growth(vec![(1, 60)]),
        seed,
        ..Settings::default()
    };
    let mut seen = Vec::new();
    let mut observer = |info: &StepInfo<'_, f64>| {
        seen.push((info.theta[0], info.cloud.clone()));
        Flow::Continue
    };
    common::on(1, || {
        let mut state = motes::start(&model, &settings).expect("a start");
        motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).map(drop)
    })
    .expect("a run");
    let before = Settings { steps: 1, grow: Growth::default(), ..settings.clone() };
    let chain = common::on(1, || common::fit(&model, &before)).expect("a run").cloud;
    let (theta, last) = (&seen[1].0, chain.row(0, 49)); // the last of the 50 moves
    let mut w = [0.0; 2];
    Noise::new(seed, Purpose::Particles).normals_f64(1, 0, &mut w);
    for i in 0..2 {
        let to = last[i] + h * (y[i] + theta - 2.0 * last[i]) + (2.0 * h).sqrt() * w[i];
        assert!((seen[2].1.row(0, 0)[i] - to).abs() < 1e-12, "{} {to}", seen[2].1.row(0, 0)[i]);
    }
}

/// The norm in the message is the one that left the range.
#[test]
fn a_diverging_proposal_is_reported_with_its_norm() {
    let model = Hierarchical::<f32>::new(&Hierarchical::<f64>::generate(100, 1.0, 0));
    let settings = Settings { algorithm: &MARGINAL_MH, particles: 5, step_size: 1e15, ..Settings::default() };
    let error = common::on(1, || common::fit(&model, &settings).map(drop)).expect_err("a divergence");
    assert!(matches!(error, Error::Diverged { norm, .. } if norm.is_finite()), "{error}");
}

/// Whether a checkpoint fits is a matter of the settings, not of how much a vector happens to have reserved.
#[test]
fn a_clone_can_be_decoded_into() {
    let model = Reduced::<f64>::new(&[1.0, 2.0], Gives::All);
    let settings = Settings { particles: 3, steps: 20, burn_in: 2, ..Settings::default() };
    let state = common::on(1, || common::fit(&model, &settings)).expect("a run");
    let mut bytes = Vec::new();
    encode(&state, &Header::of(&state, 0, 0, 0.0), &mut bytes).expect("memory");
    let mut fresh = State::initial(&model as &dyn Model<f64>, &settings).clone();
    decode(&bytes[..], &mut fresh).expect("a checkpoint of the same run");
}

/// The toy model, but with no value where some coordinate is beyond 2.5: for its M-step, closed or not.
struct Bounded {
    inner: Hierarchical<f64>,
    closed: bool,
}

impl Bounded {
    fn judge(&self, x: &[f64]) -> Result<(), motes::ModelError> {
        match x.iter().any(|x| *x > 2.5) {
            true => Err(motes::ModelError::reject("beyond 2.5")),
            false => Ok(()),
        }
    }
}

impl motes::model::MStep<f64> for Bounded {
    fn statistics_len(&self) -> usize {
        1
    }
    fn statistics(&self, at: motes::At<'_, f64>, out: &mut [f64]) -> Result<(), motes::ModelError> {
        self.judge(at.x)?;
        self.inner.statistics(at, out)
    }
    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), motes::ModelError> {
        motes::model::MStep::m_step(&self.inner, mean, theta)
    }
}

impl motes::Model<f64> for Bounded {
    fn name(&self) -> &str {
        "bounded"
    }
    fn d_theta(&self) -> usize {
        1
    }
    fn d_x(&self) -> usize {
        self.inner.d_x()
    }
    fn evaluate(&self, at: motes::At<'_, f64>, want: motes::Want<'_, f64>) -> Result<(), motes::ModelError> {
        self.judge(at.x)?;
        self.inner.evaluate(at, want)
    }
    fn gives(&self) -> motes::Gives {
        self.inner.gives()
    }
    fn m_step(&self) -> Option<&dyn motes::model::MStep<f64>> {
        self.closed.then_some(self)
    }
}

/// A whole cloud that is proposed where the model has no value is rejected, wherever that is noticed.
#[test]
fn a_proposal_without_a_value_is_rejected() {
    for closed in [true, false] {
        let model = Bounded { inner: Hierarchical::new(&[1.0, 2.0]), closed };
        let settings = Settings {
            algorithm: &motes::algorithms::MARGINAL_MH,
            particles: 3,
            steps: 400,
            burn_in: 10,
            step_size: 0.3,
            adjust_after: 0,
            init_particles: InitParticles::Value(1.0),
            ..Settings::default()
        };
        let mut highest = f64::MIN;
        let mut observer = |info: &motes::StepInfo<'_, f64>| {
            highest = info.cloud.as_slice().iter().copied().fold(highest, f64::max);
            motes::Flow::Continue
        };
        let state = common::on(1, || {
            let mut state = motes::start(&model, &settings).expect("a start");
            motes::run(&model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
            state
        });
        let rate = state.acceptance.rate().expect("moves");
        assert!(rate > 0.1 && rate < 0.9, "{rate}");
        assert!(highest > 2.0 && highest <= 2.5, "{highest}");
    }
}
