//! What cannot be run is refused before the first step, in one sentence that ends with a remedy.

use crate::common;

use common::models::{Gives, Reduced};
use motes::algorithms::{Algorithm, EM, JOINT_MH, MARGINAL_MH, PGD, PMGD, PQN, SOUL};
use motes::settings::{Growth, InitParticles, JointUpdate, Preconditioner, StepDecay, WarmStart};
use motes::{Error, Model, Real, Settings};
use motes_models::Hierarchical;

fn base() -> Settings {
    Settings { particles: 4, steps: 10, burn_in: 5, step_size: 0.1, ..Settings::default() }
}

/// The refusal, which `validate`, `start` and `run` must agree on.
fn refusal<F: Real>(model: &dyn Model<F>, settings: &Settings) -> Error {
    let error = settings.validate(model).expect_err("settings that cannot be run");
    let started = common::on(1, || motes::start(model, settings).map(drop).expect_err("no start"));
    assert_eq!(error.to_string(), started.to_string());
    let usable = Settings { particles: 2, ..Settings::default() };
    let ran = common::on(1, || {
        let mut state = motes::State::initial(&Hierarchical::<F>::new(&[1.0]), &usable);
        motes::run(model, settings, &mut state, None, &mut []).map(drop).expect_err("no run")
    });
    assert_eq!(error.to_string(), ran.to_string());
    error
}

fn one_sentence(text: &str) {
    assert!(
        !text.contains('\n') && !text.replace("...", "").contains(". ") && !text.ends_with('.'),
        "{text}"
    );
    assert!(text.contains("; "), "no remedy in: {text}");
}

#[test]
fn a_model_with_gradients_only_is_told_what_is_missing_and_what_to_use() {
    let y = [1.0, 2.0];
    let poor = Reduced::<f64>::new(&y, Gives::GradientsOnly);
    let of = |algorithm| Settings { algorithm, ..base() };
    let cases = [
        (of(&PQN), "the theta-Hessian", "pgd"),
        (of(&EM), "exact E- and M-steps", "pmgd"),
        (of(&MARGINAL_MH), "the log density", "pmgd"),
        (of(&JOINT_MH), "the log density", "pgd"),
        (Settings { joint_update: JointUpdate::Pqn, ..of(&JOINT_MH) }, "the theta-Hessian", "pgd"),
        (Settings { adjust: true, ..of(&PGD) }, "the log density", "without `adjust`"),
        (Settings { adjust: true, ..of(&PMGD) }, "the log density", "without `adjust`"),
        (
            Settings { preconditioner: Preconditioner::Diagonal, ..base() },
            "the numbers of terms",
            "`preconditioner=rmsprop`",
        ),
        (
            Settings { init_particles: InitParticles::Prior, ..base() },
            "a prior sampler",
            "a number to `init-particles`",
        ),
        (
            Settings { warm_start: Some(WarmStart { algorithm: Some(&PQN), steps: 3 }), ..base() },
            "the theta-Hessian",
            "pgd",
        ),
    ];
    for (settings, piece, alternative) in cases {
        let error = refusal(&poor, &settings);
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
        let text = error.to_string();
        one_sentence(&text);
        assert!(text.contains(piece) && text.contains("reduced"), "{text}");
        let remedy = &text[text.find("; ").expect("a remedy")..];
        assert!(remedy.contains(alternative), "{text}");
        // The same settings are fine with a model that gives everything.
        common::on(1, || common::fit(&Reduced::<f64>::new(&y, Gives::All), &settings)).expect("a run");
    }
    // What gradients are enough for.
    let enough = [&PGD, &PMGD, &SOUL];
    for algorithm in enough {
        common::on(1, || common::fit(&poor, &of(algorithm))).expect("gradients are enough");
    }
}

#[test]
fn bad_settings_are_refused_with_the_value_and_a_remedy() {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0]);
    let of = |algorithm| Settings { algorithm, ..base() };
    let warm = |algorithm| Some(WarmStart { algorithm: Some(algorithm), steps: 3 });
    let cases = [
        (Settings { particles: 0, ..base() }, "`particles=0`"),
        (Settings { steps: 0, burn_in: 0, ..base() }, "`steps=0`"),
        (Settings { burn_in: 10, ..base() }, "`burn-in=10`"),
        (Settings { burn_in: 11, ..base() }, "`burn-in=11`"),
        (Settings { step_size: 0.0, ..base() }, "`step-size=0`"),
        (Settings { step_size: -0.1, ..base() }, "`step-size=-0.1`"),
        (Settings { step_size: f64::NAN, ..base() }, "`step-size=NaN`"),
        (Settings { step_size: f64::INFINITY, ..base() }, "`step-size=inf`"),
        (Settings { init_theta: (f64::NAN).into(), ..base() }, "`init-theta=NaN`"),
        (Settings { init_theta: (f64::INFINITY).into(), ..base() }, "`init-theta=inf`"),
        (Settings { grow: Growth(vec![(3, 2)]), ..base() }, "`grow=3:2`"),
        (Settings { grow: Growth(vec![(0, 9)]), ..base() }, "`grow=0:9`"),
        (Settings { adjust: true, ..of(&SOUL) }, "`adjust"),
        (Settings { adjust: true, ..of(&EM) }, "`adjust"),
        (Settings { adjust: true, ..of(&MARGINAL_MH) }, "`adjust"),
        (Settings { adjust: true, ..of(&JOINT_MH) }, "`adjust"),
        (Settings { preconditioner: Preconditioner::Adam, ..of(&PQN) }, "`preconditioner"),
        (Settings { preconditioner: Preconditioner::Adam, ..of(&PMGD) }, "`preconditioner"),
        (Settings { preconditioner: Preconditioner::Diagonal, ..of(&EM) }, "`preconditioner"),
        (Settings { preconditioner: Preconditioner::Adam, ..of(&JOINT_MH) }, "`preconditioner=adam`"),
        (Settings { init_theta: (1.0).into(), ..of(&PMGD) }, "`init-theta"),
        (Settings { init_theta: (1.0).into(), ..of(&MARGINAL_MH) }, "`init-theta"),
        (Settings { grow: Growth(vec![(3, 9)]), ..of(&EM) }, "`grow"),
        (Settings { warm_start: warm(&PGD), ..of(&EM) }, "`warm-start"),
        (Settings { warm_start: warm(&EM), ..base() }, "em"),
        (Settings { warm_start: warm(&JOINT_MH), ..base() }, "joint-mh"),
    ];
    for (settings, what) in cases {
        let error = refusal(&model, &settings);
        assert!(matches!(error, Error::Settings(_)), "{error:?}");
        let text = error.to_string();
        one_sentence(&text);
        assert!(text.contains(what), "{text} does not name {what}");
    }
}

#[test]
fn words_that_cannot_be_settings_are_refused() {
    let refused = [
        "pgdd".parse::<&Algorithm>().expect_err("an algorithm"),
        "adm".parse::<Preconditioner>().expect_err("a preconditioner"),
        "x".parse::<JointUpdate>().expect_err("an update"),
        "-1,100".parse::<StepDecay>().expect_err("a power"),
        "0.6,0".parse::<StepDecay>().expect_err("a scale"),
        "nan,1".parse::<StepDecay>().expect_err("a number"),
        "0.6".parse::<StepDecay>().expect_err("two numbers"),
        "100:50,50:500".parse::<Growth>().expect_err("rising steps"),
        "100:50,200:50".parse::<Growth>().expect_err("rising numbers"),
        "100".parse::<Growth>().expect_err("pairs"),
        "pmgd:1x0".parse::<WarmStart>().expect_err("steps"),
        "2x100".parse::<WarmStart>().expect_err("one particle"),
        "inf".parse::<InitParticles>().expect_err("a finite number"),
        "priro".parse::<InitParticles>().expect_err("a word"),
    ];
    for text in refused {
        one_sentence(&text);
    }
}

fn divergence_names_a_step_size_that_works<F: Real>() {
    let y = Hierarchical::<f64>::generate(100, 1.0, 0);
    let model = Hierarchical::<F>::new(&y);
    let of = |algorithm| Settings {
        algorithm,
        particles: 10,
        steps: 2000,
        burn_in: 1000,
        step_size: 0.5,
        ..Settings::default()
    };
    let runs = [
        of(&PGD),
        Settings { step_size: 0.045, ..of(&PGD) },
        of(&SOUL),
        Settings { preconditioner: Preconditioner::Diagonal, step_size: 5.0, ..of(&PGD) },
        Settings { step_size: 5.0, ..of(&PQN) },
        Settings { step_size: 5.0, ..of(&PMGD) },
        Settings { warm_start: Some(WarmStart { algorithm: None, steps: 1000 }), ..of(&PGD) },
        Settings { step_decay: Some(StepDecay { power: 0.1, scale: 1e4 }), ..of(&PGD) },
    ];
    for settings in runs {
        let error = common::on(2, || common::fit(&model, &settings).map(drop)).expect_err("a divergence");
        assert!(error.is_divergence());
        let text = error.to_string();
        let Error::Diverged { step, norm, h, suggestion, .. } = error else { panic!("{text}") };
        assert!(step > 0 && step < 2000 && norm > F::LIMIT && h <= settings.step_size, "{text}");
        for part in [format!("step {step}"), format!("{norm:.3e}"), format!("`step-size={suggestion}`")] {
            assert!(text.contains(&part), "{text} does not name {part}");
        }
        assert!(suggestion > 0.0 && suggestion < h);
        let calmer = Settings { step_size: suggestion, ..settings };
        let state = common::on(2, || common::fit(&model, &calmer)).expect("the suggestion works");
        let theta = state.averages.theta_mean().expect("averages")[0];
        assert!((theta - model.theta_star()).abs() < 0.1, "{theta} with {suggestion}");
    }
}

#[test]
fn divergence_names_a_step_size_that_works_in_double_precision() {
    divergence_names_a_step_size_that_works::<f64>();
}

#[test]
fn divergence_names_a_step_size_that_works_in_single_precision() {
    divergence_names_a_step_size_that_works::<f32>();
}

#[test]
fn quasi_newton_refuses_a_hessian_that_is_not_negative() {
    let cases = [
        (0.0, "singular"),
        (2.0, "not negative definite"),
        (f64::NAN, "not finite"),
        (f64::NEG_INFINITY, "not finite"),
    ];
    let joint = Settings { algorithm: &JOINT_MH, joint_update: JointUpdate::Pqn, ..base() };
    let warm_start = Some(WarmStart { algorithm: Some(&PQN), steps: 3 });
    for settings in
        [Settings { algorithm: &PQN, ..base() }, joint, Settings { algorithm: &PGD, warm_start, ..base() }]
    {
        for (value, defect) in cases {
            let model = Reduced::<f64>::new(&[1.0, 2.0], Gives::Hessian(value));
            let error = common::on(1, || common::fit(&model, &settings).map(drop)).expect_err("no step");
            assert!(matches!(error, Error::Hessian { step: 1, .. }) && error.is_divergence(), "{error:?}");
            let text = error.to_string();
            one_sentence(&text);
            assert!(text.contains(defect) && text.contains("pgd") && text.contains("pmgd"), "{text}");
        }
        let model = Reduced::<f64>::new(&[1.0, 2.0], Gives::Hessian(-2.0));
        common::on(1, || common::fit(&model, &settings)).expect("the true Hessian is fine");
    }
}
