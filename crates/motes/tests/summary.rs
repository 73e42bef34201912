//! The summary of a run is the truth about it: read back as it was written, by any model's names, and never half believed.

use std::io::Read as _;
use std::path::Path;

use motes::model::Predictive;
use motes::npz::parse_strings;
use motes::record::{Recording, RunDirectory};
use motes::summary::PredictWith;
use motes::{At, Flow, Gives, LISTED, Model, ModelError, Pool, Settings, StepInfo, Summary, Want};
use serde_json::{Value, json};

/// x_i ~ N(theta_i, 1), y_i ~ N(x_i, 1), and something to measure.
struct Gaussian {
    y: Vec<f64>,
    tested: bool,
}

impl Model<f64> for Gaussian {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn d_theta(&self) -> usize {
        self.y.len()
    }

    fn d_x(&self) -> usize {
        self.y.len()
    }

    fn x_names(&self) -> Vec<String> {
        (0..self.y.len()).map(|i| format!("größe, {i}")).collect()
    }

    fn gives(&self) -> Gives {
        Gives { log_density: true, ..Gives::default() }
    }

    fn evaluate(&self, at: At<'_, f64>, want: Want<'_, f64>) -> Result<(), ModelError> {
        let d = self.y.len();
        let rows = || at.x.chunks_exact(d);
        let squares = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        if let Some(out) = want.log_density {
            for (out, x) in out.iter_mut().zip(rows()) {
                *out = -0.5 * (squares(x, at.theta) + squares(x, &self.y));
            }
        }
        if let Some(out) = want.grad_theta {
            out.fill(0.0);
            rows().for_each(|x| (0..d).for_each(|i| out[i] += x[i] - at.theta[i]));
        }
        if let Some(out) = want.grad_x {
            for (out, x) in out.chunks_exact_mut(d).zip(rows()) {
                (0..d).for_each(|i| out[i] = at.theta[i] + self.y[i] - 2.0 * x[i]);
            }
        }
        Ok(())
    }

    fn predictive(&self) -> Option<&dyn Predictive<f64>> {
        self.tested.then_some(self as &dyn Predictive<f64>)
    }
}

/// Remembers the number of particles and the sum of their first coordinates.
impl Predictive<f64> for Gaussian {
    fn names(&self) -> Vec<String> {
        vec!["rmse".into(), "mean, absolute".into(), "bias".into()]
    }

    fn state_len(&self) -> usize {
        2
    }

    fn accumulate(&self, x: &[f64], state: &mut [f64]) {
        for x in x.chunks_exact(self.y.len()) {
            state[0] += 1.0;
            state[1] += x[0];
        }
    }

    fn merge(&self, from: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into += from);
    }

    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        let off = state[1] / state[0] - self.y[0];
        out.copy_from_slice(&[(1.0 + off * off).sqrt(), off.abs(), off]);
    }
}

fn settings() -> Settings {
    Settings {
        particles: 4,
        steps: 64,
        burn_in: 32,
        step_size: 0.1,
        metrics_every: 8,
        seed: 3,
        ..Settings::default()
    }
}

/// Runs in a directory; returns the summary and the metrics that an observer saw.
fn run(model: &Gaussian, settings: &Settings, dir: &Path) -> (Summary, Vec<(u64, f64)>) {
    Pool::new(Some(1)).unwrap().install(|| {
        let recording = Recording { trace_every: 1, checkpoint_every: None };
        let mut state = motes::start(model, settings).unwrap();
        let mut directory = RunDirectory::create(dir, "", model, settings, recording).unwrap();
        let mut seen = Vec::new();
        let mut watch = |info: &StepInfo<'_, f64>| {
            seen.extend(info.metrics.map(|m| (info.k, m.get("bias").unwrap())));
            assert!(info.metrics.is_none_or(|m| m.get("lppd").is_none()));
            Flow::Continue
        };
        let ran = motes::run(model, settings, &mut state, Some(&mut directory), &mut [&mut watch]);
        let summary = Summary::of(model, settings, json!({ "steps": 64 }), &state, 0.25, &Default::default());
        directory.finish(model, settings, &state, ran.unwrap().1, &summary).unwrap();
        (summary, seen)
    })
}

fn names(dir: &Path) -> Vec<String> {
    let file = std::fs::File::open(dir.join("posterior.npz")).unwrap();
    let mut bytes = Vec::new();
    zip::ZipArchive::new(file).unwrap().by_name("x_names.npy").unwrap().read_to_end(&mut bytes).unwrap();
    parse_strings(&bytes).unwrap()
}

#[test]
fn metrics_go_by_the_names_of_the_model() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let model = Gaussian { y: vec![1.0, -2.0], tested: true };
    let (summary, seen) = run(&model, &settings(), &dir);
    let metrics = summary.metrics.as_ref().unwrap();
    let given: Vec<&str> = metrics.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(given, ["rmse", "mean, absolute", "bias"]);
    // They are of all clouds after burn-in, as the posterior is.
    let mean = summary.posterior.as_ref().unwrap().mean[0];
    assert!((metrics.get("bias").unwrap() - (mean - 1.0)).abs() < 1e-12);

    let trace = std::fs::read_to_string(dir.join("trace.csv")).unwrap();
    assert!(trace.starts_with("k,theta[0],theta[1],rmse,\"mean, absolute\",bias\n"), "{trace}");
    for (k, line) in trace.lines().skip(1).enumerate() {
        let bias = line.rsplit(',').next().unwrap();
        let told = seen.iter().find(|(at, _)| *at == k as u64);
        assert_eq!(bias.parse().ok(), told.map(|(_, bias)| *bias), "{line}");
        assert_eq!((line.split(',').count(), told.is_some()), (6, k % 8 == 0), "{line}");
    }
    assert_eq!(names(&dir), ["größe, 0", "größe, 1"]);
    assert_eq!(summary.posterior.as_ref().unwrap().names, names(&dir));

    let untested = Gaussian { tested: false, ..model };
    let (summary, _) = run(&untested, &Settings { metrics_every: 0, ..settings() }, &place.path().join("b"));
    assert_eq!(summary.metrics, None);
}

#[test]
fn what_is_written_is_read_back() {
    let place = tempfile::tempdir().unwrap();
    let model = Gaussian { y: vec![1.0, -2.0, 0.1], tested: true };
    assert!(Summary::read(place.path()).unwrap().is_none());
    let (mut summary, _) = run(&model, &settings(), &place.path().join("run"));
    assert_eq!(summary, Summary::read(&place.path().join("run")).unwrap().unwrap());
    assert_eq!(summary.predict_with, Some(PredictWith::Clouds));
    assert!(summary.theta.mc_error.iter().all(|e| e.is_some_and(|e| e > 0.0)));
    assert_eq!((summary.theta.mc_error.len(), summary.diagnostics.drift.len()), (3, 3));
    let (i, worst) = summary.diagnostics.worst_drift().unwrap();
    assert_eq!(summary.diagnostics.drift[i], Some(worst));

    // JSON has one word for all that is not finite.
    summary.theta.last[1] = f64::INFINITY;
    summary.metrics.as_mut().unwrap().0[0].1 = f64::NAN;
    summary.time.steps_per_second = f64::INFINITY;
    let read = Summary::parse(summary.to_json().as_bytes()).unwrap();
    assert!(read.theta.last[1].is_nan() && read.time.steps_per_second.is_nan());
    assert!(read.metrics.as_ref().unwrap().get("rmse").unwrap().is_nan());
    assert_eq!(read.to_json(), summary.to_json());
}

#[test]
fn no_more_than_a_thousand_components_are_listed() {
    let place = tempfile::tempdir().unwrap();
    let model = Gaussian { y: vec![0.5; LISTED + 7], tested: false };
    let settings = Settings { metrics_every: 0, steps: 36, ..settings() };
    let (summary, _) = run(&model, &settings, &place.path().join("run"));
    assert_eq!((summary.d_theta, summary.d_x, summary.theta.names.len()), (1007, 1007, LISTED));
    assert_eq!(summary.theta.mean.as_ref().unwrap().len(), LISTED);
    assert_eq!((summary.posterior.is_none(), names(&place.path().join("run")).len()), (true, 1007));
    assert_eq!(Summary::read(&place.path().join("run")).unwrap().unwrap(), summary);
}

#[test]
fn unknown_fields_are_left_and_missing_ones_are_null() {
    let place = tempfile::tempdir().unwrap();
    let (summary, _) = run(&Gaussian { y: vec![1.0], tested: true }, &settings(), &place.path().join("run"));
    let mut json = serde_json::to_value(&summary).unwrap();
    json["of_another_version"] = json!({ "value": -1.0 });
    json["theta"]["of_another_version"] = json!([0.5]);
    let read = Summary::parse(json.to_string().as_bytes()).unwrap();
    assert_eq!((read.theta, read.diagnostics), (summary.theta, summary.diagnostics));
    for (place, fields) in [
        ("", &["metrics", "posterior", "data", "predict_with", "particles", "step_size", "settings"][..]),
        ("/theta", &["mean", "mc_error"]),
        (
            "/diagnostics",
            &["ess", "drift", "acceptance", "shadow_acceptance", "advice", "suggested_step_size"],
        ),
    ] {
        for field in fields {
            let mut less = json.clone();
            less.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(*field).unwrap();
            Summary::parse(less.to_string().as_bytes()).unwrap_or_else(|e| panic!("without {field}: {e}"));
        }
    }
}

#[test]
fn damage_is_told_in_a_sentence() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let (summary, _) = run(&Gaussian { y: vec![1.0, 2.0], tested: true }, &settings(), &dir);
    let json = serde_json::to_value(&summary).unwrap();
    let with = |path: &str, value: Value| {
        let mut changed = json.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed.to_string()
    };
    for (text, what) in [
        (String::new(), "EOF"),
        ("[]".into(), "schema"),
        ("{}".into(), "schema"),
        (with("/schema", json!(1)), "its schema is 1, not 2"),
        (with("/theta/names", json!(["a"])), "theta.last has 2 entries and 1 are expected"),
        (with("/theta/last", json!([1, 2, 3])), "theta.last has 3 entries"),
        (with("/theta/mean", json!([])), "theta.mean has 0 entries"),
        (with("/diagnostics/ess", json!([1])), "diagnostics.ess has 1 entries"),
        (with("/posterior/var", json!([])), "posterior.var has 0 entries"),
        (with("/d_theta", json!(1)), "theta.names has 2 entries and 1 are expected"),
        (with("/metrics", json!("good")), "numbers by their names"),
        (with("/predict_with", json!("nothing")), "nothing"),
        (with("/steps", json!(-1)), "-1"),
    ] {
        std::fs::write(dir.join("summary.json"), &text).unwrap();
        let error = Summary::read(&dir).unwrap_err().to_string();
        assert!(error.contains("summary.json cannot be understood (") && error.contains(what), "{error}");
        assert!(error.ends_with("; `resume()` the run, which writes it again"), "{error}");
    }
    let whole = summary.to_json();
    for end in 0..whole.len() - 2 {
        assert!(Summary::parse(&whole.as_bytes()[..end]).is_err());
    }
}
