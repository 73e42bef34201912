//! Logistic regression through the real binary, on the embedded data and on data that are not so well behaved.

use crate::common;

use std::fmt::Write as _;
use std::path::Path;

use common::{Dice, Done, Place, array, by_pgd, motes, number, numbers, same_bits, summary};
use serde_json::Value;

/// Features and a class per row, and the text of the file.
struct Data {
    rows: Vec<Vec<f64>>,
    labels: Vec<u8>,
}

fn uniform(dice: &mut Dice) -> f64 {
    dice.below(1 << 53) as f64 / (1u64 << 53) as f64
}

fn sigmoid(u: f64) -> f64 {
    1.0 / (1.0 + (-u).exp())
}

impl Data {
    /// Features of variance 1 and labels drawn with these weights and this intercept.
    fn drawn(n: usize, weights: &[f64], intercept: f64, seed: u64) -> Data {
        let mut dice = Dice(seed);
        let mut data = Data { rows: Vec::new(), labels: Vec::new() };
        for _ in 0..n {
            let normal = |dice: &mut Dice| (0..12).map(|_| uniform(dice)).sum::<f64>() - 6.0;
            let row: Vec<f64> = weights.iter().map(|_| normal(&mut dice)).collect();
            let u = row.iter().zip(weights).map(|(f, w)| f * w).sum::<f64>() + intercept;
            data.labels.push(u8::from(uniform(&mut dice) < sigmoid(u)));
            data.rows.push(row);
        }
        data
    }

    fn scaled(mut self, factor: f64) -> Data {
        self.rows.iter_mut().flatten().for_each(|v| *v *= factor);
        self
    }

    /// The rows as features in this order, then the class.
    fn csv(&self, columns: &[usize], classes: [&str; 2]) -> String {
        let mut text = columns.iter().map(|c| format!("f{c},")).collect::<String>() + "y\n";
        for (row, label) in self.rows.iter().zip(&self.labels) {
            columns.iter().for_each(|c| write!(text, "{},", row[*c]).unwrap());
            text += classes[usize::from(*label)];
            text.push('\n');
        }
        text
    }

    fn plain(&self) -> String {
        let columns: Vec<usize> = (0..self.rows[0].len()).collect();
        self.csv(&columns, ["0", "1"])
    }

    /// Standardised by population moments, as the command does.
    fn standardised(mut self) -> Data {
        let n = self.rows.len() as f64;
        for c in 0..self.rows[0].len() {
            let mean = self.rows.iter().map(|r| r[c]).sum::<f64>() / n;
            let variance = self.rows.iter().map(|r| (r[c] - mean).powi(2)).sum::<f64>() / n;
            self.rows.iter_mut().for_each(|r| r[c] = (r[c] - mean) / variance.sqrt());
        }
        self
    }

    /// The prior variance of a coordinate: 5 of the weights, 100 of the intercept.
    fn variance(&self, j: usize) -> f64 {
        if j < self.rows[0].len() { 5.0 } else { 100.0 }
    }

    /// The mode of the weights (and the intercept) for this theta, by Newton's method.
    fn mode(&self, theta: f64, intercept: bool) -> Vec<f64> {
        let tied = self.rows[0].len();
        let d = tied + usize::from(intercept);
        let mut x = vec![0.0; d];
        for _ in 0..100 {
            let prior = |j: usize| if j < tied { theta } else { 0.0 };
            let mut gradient: Vec<f64> = (0..d).map(|j| (prior(j) - x[j]) / self.variance(j)).collect();
            let mut hessian = vec![vec![0.0; d]; d];
            (0..d).for_each(|j| hessian[j][j] = 1.0 / self.variance(j));
            for (row, label) in self.rows.iter().zip(&self.labels) {
                let f = |j: usize| if j < tied { row[j] } else { 1.0 };
                let p = sigmoid((0..d).map(|j| f(j) * x[j]).sum());
                for i in 0..d {
                    gradient[i] += (f64::from(*label) - p) * f(i);
                    (0..d).for_each(|j| hessian[i][j] += p * (1.0 - p) * f(i) * f(j));
                }
            }
            let step = solve(hessian, gradient);
            let longest = step.iter().fold(0.0f64, |m, s| m.max(s.abs()));
            let short = (2.0 / longest).min(1.0); // far from the mode the curvature says little
            x.iter_mut().zip(&step).for_each(|(x, s)| *x += short * s);
            if longest < 1e-10 {
                break;
            }
        }
        x
    }
}

impl Data {
    /// The mean over particles of the gradient of the log density: zero under the posterior, whatever its shape.
    fn mean_gradient(&self, particles: &[f64], theta: f64, d: usize) -> Vec<f64> {
        let (tied, n) = (self.rows[0].len(), (particles.len() / d) as f64);
        let mut out = vec![0.0; d];
        for x in particles.chunks(d) {
            (0..d)
                .for_each(|j| out[j] -= (x[j] - if j < tied { theta } else { 0.0 }) / (self.variance(j) * n));
        }
        for (row, label) in self.rows.iter().zip(&self.labels) {
            let f = |j: usize| if j < tied { row[j] } else { 1.0 };
            let p = |x: &[f64]| sigmoid((0..d).map(|j| f(j) * x[j]).sum());
            let mean = particles.chunks(d).map(p).sum::<f64>() / n;
            (0..d).for_each(|j| out[j] += (f64::from(*label) - mean) * f(j));
        }
        out
    }
}

/// Flags for the paper's model of data of one's own: the mean is learnt, and there is an intercept only where one is asked for.
fn of_the_paper(flags: &str) -> String {
    let intercept = if flags.contains("--intercept") { "" } else { "--no-intercept" };
    format!("--learn mean {intercept} {flags}")
}

/// Solves a x = b for a positive definite matrix, by elimination.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let d = b.len();
    for i in 0..d {
        for k in i + 1..d {
            let factor = a[k][i] / a[i][i];
            let (above, below) = a.split_at_mut(k);
            below[0].iter_mut().zip(&above[i]).for_each(|(x, y)| *x -= factor * y);
            b[k] -= factor * b[i];
        }
    }
    for i in (0..d).rev() {
        let known: f64 = (i + 1..d).map(|k| a[i][k] * b[k]).sum();
        b[i] = (b[i] - known) / a[i][i];
    }
    b
}

/// A summary whose numbers are all there: what is not finite would be null.
fn finite(run: &Path) -> Value {
    let json = summary(run);
    for key in ["mean", "last"] {
        numbers(&json["theta"][key]);
    }
    numbers(&json["posterior"]["mean"]);
    assert!(numbers(&json["posterior"]["var"]).iter().all(|v| *v >= 0.0));
    if !json["metrics"].is_null() {
        assert!((0.0..=1.0).contains(&number(&json["metrics"]["test_error"])));
        assert!(number(&json["metrics"]["lppd"]) <= 0.0);
    }
    for name in ["particles", "clouds", "mean", "var", "theta"] {
        assert!(array(run, name).values.iter().all(|v| v.is_finite()), "{name}");
    }
    json
}

fn verdict(json: &Value) -> &str {
    json["diagnostics"]["verdict"].as_str().unwrap()
}

#[test]
fn the_bare_command_works() {
    let place = Place::new();
    let done = place.motes("fit logistic");
    done.ok();
    assert!(done.out.contains("error 2.92 %") && done.out.contains("verdict   ok"), "{}", done.out);
    let json = finite(&place.path("runs/logistic-auto-1"));
    assert_eq!(number(&json["metrics"]["test_error"]), 4.0 / 137.0);
    assert_eq!(verdict(&json), "ok");
    let mc_error = number(&json["theta"]["mc_error"][0]);
    assert!((number(&json["theta"]["mean"][0]) - 0.968).abs() < 4.0 * mc_error && mc_error < 0.05 * 0.76);
    assert!((number(&json["metrics"]["lppd"]) + 0.0940).abs() < 0.002);
}

/// Data that are awkward in one way each: the fit is finite, calls itself ok and has its mass where the mode is.
#[test]
fn awkward_data_are_fitted() {
    let duplicate = |mut data: Data| {
        data.rows.iter_mut().for_each(|r| r.push(r[0]));
        data
    };
    let separable = || {
        let mut data = Data::drawn(100, &[1.0, 0.0], 0.0, 5);
        data.rows.iter().zip(&mut data.labels).for_each(|(r, l)| *l = u8::from(r[0] > 0.1));
        data
    };
    let tiny = || Data { rows: vec![vec![1.0, 2.0], vec![2.0, 1.0], vec![3.0, 3.5]], labels: vec![0, 1, 1] };
    let wide: Vec<f64> = (0..60).map(|i| if i < 5 { 1.0 } else { 0.0 }).collect();
    let common = || Data::drawn(300, &[1.0, -1.0, 0.5], 0.3, 7);
    let constant = |mut data: Data| {
        data.rows.iter_mut().for_each(|r| r.push(2.0));
        data
    };
    // The name, the data as they are and as the model sees them, flags, and how far from the mode, in posterior standard
    // deviations, skewness may put a mean.
    let cases: Vec<(&str, Data, Data, &str, f64)> = vec![
        ("wide", Data::drawn(30, &wide, 0.0, 1), Data::drawn(30, &wide, 0.0, 1).standardised(), "", 1.5),
        (
            "tall",
            Data::drawn(20_000, &[1.0, -1.0, 0.5, 0.0], 0.0, 2),
            Data::drawn(20_000, &[1.0, -1.0, 0.5, 0.0], 0.0, 2).standardised(),
            // Half of 1 over the curvature, which is the usual step, would make standard deviations 15 % too large.
            "--particles 20 --steps 600 --algorithm pmgd --step-size 5e-5",
            0.3,
        ),
        ("collinear", duplicate(common()), duplicate(common()).standardised(), "--intercept", 0.3),
        ("separable", separable(), separable().standardised(), "--steps 8000", 1.0),
        (
            "imbalanced",
            Data::drawn(4000, &[1.0, 0.5], -7.5, 3),
            Data::drawn(4000, &[1.0, 0.5], -7.5, 3).standardised(),
            "--intercept --particles 30 --steps 3000 --burn-in 2000",
            // A few events leave the posterior skewed under the wide prior of the intercept: mean and mode are far apart.
            0.95,
        ),
        ("tiny", tiny(), tiny().standardised(), "", 0.6),
        ("large", common().scaled(1e6), common().standardised(), "--intercept", 0.3),
        (
            "small",
            common().scaled(1e-6),
            common().standardised(),
            "--intercept --precision f32 --algorithm pmgd --step-size 0.003",
            0.3,
        ),
        ("constant", constant(common()), constant(common()), "--no-standardize --steps 5000", 0.3),
    ];
    let place = Place::new();
    for (name, data, seen, flags, tolerance) in cases {
        place.write(&format!("{name}.csv"), data.plain());
        let flags = by_pgd(&of_the_paper(flags));
        place.quietly(&format!("fit logistic --data {name}.csv --test-fraction 0 {flags} --out {name}"));
        let json = finite(&place.path(name));
        assert!(step_is_sound(&json), "{name}: {}", verdict(&json));
        assert!(json["metrics"].is_null());
        let shadow = number(&json["diagnostics"]["shadow_acceptance"]);
        assert!(shadow >= 0.6, "{name}: {shadow}");
        let theta = number(&json["theta"]["mean"][0]);
        let mode = seen.mode(theta, flags.contains("--intercept"));
        let (mean, var) = (numbers(&json["posterior"]["mean"]), numbers(&json["posterior"]["var"]));
        let far = |i: usize| (mean[i] - mode[i]).abs() / var[i].sqrt();
        let worst = (0..mode.len()).map(far).fold(0.0, f64::max);
        let uphill = seen.mean_gradient(&array(&place.path(name), "clouds").values, theta, mode.len());
        let steepest = (0..mode.len()).map(|i| uphill[i].abs() * var[i].sqrt()).fold(0.0, f64::max);
        let tied = seen.rows[0].len();
        let average = mean[..tied].iter().sum::<f64>() / tied as f64;
        println!(
            "{name}: theta {theta:.4}, mean of the weights {average:.4}, shadow {shadow:.2}, off the mode by {worst:.2} of a \
             standard deviation, mean gradient {steepest:.2} of one over it"
        );
        assert!(worst < tolerance, "{name}: {mean:?} {mode:?} {worst}");
        assert!(steepest < 0.5, "{name}: {uphill:?}");
        let spread = (var[..tied].iter().sum::<f64>() / tied as f64).sqrt();
        assert!((theta - average).abs() < 0.25 * spread, "{name}: {theta} {average}");
    }
}

/// Where theta-bar is not yet the mean of the weights, the run has not converged, and its verdict must say so.
#[test]
fn a_run_that_has_not_converged_is_not_ok() {
    let place = Place::new();
    let cases = [
        ("tall", Data::drawn(20_000, &[1.0, -1.0, 0.5, 1.0], 0.0, 2), "--particles 20 --steps 300"),
        ("large", Data::drawn(300, &[1.0, -1.0, 0.5], 2.0, 7).scaled(1e6), "--no-standardize --intercept"),
        ("imbalanced", Data::drawn(20_000, &[1.0, 0.5, -0.5], -7.5, 3), "--intercept --particles 20"),
    ];
    for (name, data, flags) in cases {
        place.write(&format!("{name}.csv"), data.plain());
        let flags = by_pgd(&of_the_paper(flags));
        place.quietly(&format!("fit logistic --data {name}.csv --test-fraction 0 {flags} --out {name}"));
        let json = finite(&place.path(name));
        let theta = number(&json["theta"]["mean"][0]);
        let (mean, var) = (numbers(&json["posterior"]["mean"]), numbers(&json["posterior"]["var"]));
        let tied = data.rows[0].len();
        let average = mean[..tied].iter().sum::<f64>() / tied as f64;
        println!(
            "{name}: theta {theta}, mean of the weights {average}, variances {var:?}, {}",
            verdict(&json)
        );
        assert_ne!(verdict(&json), "ok", "{name}");
    }
}

#[test]
fn data_that_cannot_be_used_are_refused_in_a_sentence() {
    let place = Place::new();
    let refuse = |name: &str, text: &str, flags: &str, pieces: &[&str]| {
        place.write(name, text);
        place.refuses(&format!("fit logistic --data {name} {flags} --out run"), pieces);
    };
    refuse("constant.csv", "a,b,y\n1,2,0\n1,2,1\n1,2,1\n", "", &["no column varies in the rows to train on"]);
    refuse("one.csv", "a,y\n1,0\n2,0\n", "", &["column 'y'", "only class is '0'"]);
    refuse("three.csv", "a,y\n1,0\n2,1\n3,2\n", "", &["column 'y'", "3 classes"]);
    refuse("words.csv", "a,b,y\n1,1,0\n2,z,1\n", "", &["line 3", "column 'b'", "'z' is not a number"]);
    refuse("missing.csv", "a,b,y\n1,,0\n?,2,1\n", "", &["every row", "misses a value"]);
    refuse("inf.csv", "a,y\n1,0\ninf,1\n", "", &["line 3", "'inf' is not a finite number"]);
    refuse("single.csv", "a,y\n1,0\n2,1\n", "--test-fraction 0.9", &["--test-fraction 0.9"]);
    refuse("target.csv", "a,y\n1,0\n2,1\n", "--target z", &["no column 'z'", "--target"]);
    refuse("prior.csv", "a,y\n1,0\n2,1\n", "--learn mean --prior-variance 0", &["--prior-variance 0"]);
    place.refuses("fit logistic --algorithm em --out run", &["em", "pgd", "pmgd"]);
    place.refuses(
        "fit logistic --algorithm pgd --batch 50 --adjust --out run",
        &["--adjust needs all data in each step, so it refuses --batch"],
    );
    place.refuses("fit logistic --algorithm pgd --batch 547 --out run", &["--batch 547", "546"]);
    place.refuses("fit logistic --dim 3 --out run", &["--dim", "hierarchical"]);
    // A test set with columns that are not there, and one with a class that training has not seen.
    place.write("train.csv", "a,b,y\n1,2,no\n2,1,yes\n3,3,yes\n4,1,no\n");
    place.write("fewer.csv", "a,y\n1,no\n");
    place.write("other.csv", "a,b,y\n1,2,maybe\n");
    place.refuses("fit logistic --data train.csv --test fewer.csv --out run", &["no column 'b'"]);
    place.refuses("fit logistic --data train.csv --test other.csv --out run", &["'maybe' is not a class"]);
    let both = "fit logistic --data train.csv --test fewer.csv --test-fraction 0.5 --out run";
    place.refuses(both, &["--test-fraction"]);
}

/// Text classes, missing values and a test file whose columns stand in another order.
#[test]
fn test_files_are_matched_by_name() {
    let place = Place::new();
    let data = Data::drawn(240, &[1.0, -1.0, 0.5], 0.0, 9);
    let part = |rows: std::ops::Range<usize>| Data {
        rows: data.rows[rows.clone()].to_vec(),
        labels: data.labels[rows].to_vec(),
    };
    let words = ["benign", "malignant"];
    let mut train = part(0..200).csv(&[0, 1, 2], words);
    train += "?,1,2,benign\n1,NA,2,malignant\n1,2,3,\n";
    place.write("train.csv", train);
    place.write("test.csv", part(200..240).csv(&[0, 1, 2], words));
    let reordered = part(200..240).csv(&[2, 0, 1], words);
    // The target first, and a column that nobody asked for.
    let swap = |line: &str| {
        let (features, class) = line.rsplit_once(',').unwrap();
        format!("{class},extra,{features}\n")
    };
    place.write("reordered.csv", reordered.lines().map(swap).collect::<String>());
    let flags = "--algorithm pgd --steps 200 --particles 20 --no-intercept --learn mean --data train.csv";
    let done = place.motes(&format!("fit logistic {flags} --test test.csv --out a"));
    done.ok();
    assert!(done.err.contains("3 rows with missing values were dropped"), "{}", done.err);
    assert!(done.err.contains("'benign' is 0 and 'malignant' is 1"), "{}", done.err);
    place.quietly(&format!("fit logistic {flags} --test reordered.csv --out b"));
    let (a, b) = (finite(&place.path("a")), finite(&place.path("b")));
    assert_eq!(a["metrics"], b["metrics"]);
    assert_eq!(a["data"]["test_rows"], 40);
    assert_eq!(a["data"]["rows_dropped"], 3);
    // By hand: training moments, and all particles.
    let clouds = array(&place.path("a"), "clouds");
    let moments = &a["data"]["moments"];
    let (mean, std) = (numbers(&moments["mean"]), numbers(&moments["std"]));
    let (mut wrong, mut lppd) = (0.0, 0.0);
    for (row, label) in part(200..240).rows.iter().zip(part(200..240).labels) {
        let p = |x: &[f64]| sigmoid((0..3).map(|j| x[j] * (row[j] - mean[j]) / std[j]).sum());
        let one = clouds.values.chunks(3).map(p).sum::<f64>() / (clouds.values.len() / 3) as f64;
        let right = if label == 1 { one } else { 1.0 - one };
        wrong += if right < 0.5 { 1.0 / 40.0 } else { 0.0 };
        lppd += right.ln() / 40.0;
    }
    assert!((wrong - number(&a["metrics"]["test_error"])).abs() < 1e-12);
    assert!((lppd - number(&a["metrics"]["lppd"])).abs() < 1e-9, "{lppd} {}", a["metrics"]);
    // A run is resumed from anywhere.
    let mut resume = motes();
    resume.args(["resume", "--quiet", "--steps", "210"]).arg(place.path("a")).current_dir("/");
    Done::of(&mut resume).ok();
}

/// Whether the verdict finds nothing wrong with the step size; these runs are too short for more.
fn step_is_sound(json: &Value) -> bool {
    ["ok", "still-moving", "too-short"].contains(&verdict(json))
}

/// Fits with steps that are `factor` times too large: it must be noticed, and the step size proposed must work.
/// Returns what was not noticed.
fn too_large(place: &Place, name: &str, flags: &str, factor: f64) -> Vec<String> {
    let fit = format!("fit logistic {flags} --particles 20 --steps 400");
    place.quietly(&format!("{fit} --algorithm pgd --out {name}"));
    assert!(step_is_sound(&finite(&place.path(name))));
    let config = place.text(&format!("{name}/config.toml"));
    let auto = config.lines().find_map(|l| l.strip_prefix("step-size = ")).unwrap().trim_matches('"');
    let auto: f64 = auto.parse().unwrap();
    let mut missed = Vec::new();
    for algorithm in ["pgd", "pqn", "pmgd", "soul"] {
        let out = format!("{name}-{algorithm}-{factor}");
        let fit = format!("{fit} --algorithm {algorithm}");
        let done = place.motes(&format!("{fit} --step-size {} --quiet --out {out}", factor * auto));
        let sentence = if done.code == Some(2) {
            done.refused(&["diverged", "try --step-size"])
        } else {
            let json = finite(&place.path(&out));
            let shadow = &json["diagnostics"]["shadow_acceptance"];
            println!("{out}: {}, shadow {shadow}, theta {}", verdict(&json), json["theta"]["mean"]);
            if step_is_sound(&json) {
                missed.push(out);
                continue;
            }
            json["diagnostics"]["advice"].as_str().unwrap().to_string()
        };
        // A flag in what was said, a setting in what is stored.
        let proposed = sentence.split("step-size").nth(1).unwrap().trim_start_matches(['=', ' ']);
        let proposed = proposed.split([' ', '`']).next().unwrap();
        place.quietly(&format!("{fit} --step-size {proposed} --out {out}-again"));
        let json = finite(&place.path(&format!("{out}-again")));
        println!("{out}: {proposed} is {}", verdict(&json));
        assert!(step_is_sound(&json), "{out}: {sentence}; then {}", json["diagnostics"]["advice"]);
    }
    missed
}

#[test]
fn steps_that_are_too_large_are_noticed() {
    let place = Place::new();
    place.write("common.csv", Data::drawn(300, &[1.0, -1.0, 0.5], 0.3, 7).plain());
    place.write("large.csv", Data::drawn(300, &[1.0, -1.0, 0.5], 0.3, 7).scaled(1e6).plain());
    let mut missed = too_large(&place, "embedded", "", 10.0);
    for factor in [10.0, 100.0] {
        missed.extend(too_large(
            &place,
            &format!("common{factor}"),
            "--data common.csv --learn mean",
            factor,
        ));
        missed.extend(too_large(
            &place,
            &format!("large{factor}"),
            "--data large.csv --no-standardize --learn mean --no-intercept",
            factor,
        ));
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// Here theta-bar is 22 to 220 where it should be 1.
#[test]
fn steps_a_hundred_times_too_large_are_noticed_on_the_embedded_data() {
    let missed = too_large(&Place::new(), "embedded", "", 100.0);
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn batches_give_the_same_mean() {
    let place = Place::new();
    place.quietly("fit logistic --algorithm pgd --steps 2000 --particles 30 --out full");
    place.quietly(
        "fit logistic --algorithm pgd --steps 2000 --particles 30 --batch 100 --step-size 0.002 --out batch",
    );
    let (full, batch) = (finite(&place.path("full")), finite(&place.path("batch")));
    let (a, b) = (numbers(&full["posterior"]["mean"]), numbers(&batch["posterior"]["mean"]));
    let var = numbers(&full["posterior"]["var"]);
    for ((a, b), v) in a.iter().zip(&b).zip(&var) {
        assert!((a - b).abs() < 0.3 * v.sqrt(), "{a} {b}");
    }
    let theta = |json: &Value| number(&json["theta"]["mean"][0]);
    assert!((theta(&full) - theta(&batch)).abs() < 0.03, "{} {}", theta(&full), theta(&batch));
    assert_eq!(number(&batch["metrics"]["test_error"]), 4.0 / 137.0);
}

/// The rows of a file of predictions: number, class, the probability of each, low, high.
fn predictions(text: &str) -> Vec<(usize, String, [f64; 4])> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("row,class,p(no),p(yes),low,high"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].parse().unwrap(), cells[1].into(), [2, 3, 4, 5].map(|i: usize| cells[i].parse().unwrap()))
    };
    lines.map(row).collect()
}

#[test]
fn predictions_are_those_of_the_posterior() {
    let place = Place::new();
    let data = Data::drawn(200, &[1.0, -1.0, 0.5], 0.5, 9).scaled(30.0);
    place.write("data.csv", data.csv(&[0, 1, 2], ["no", "yes"]));
    let flags = "--data data.csv --learn mean --particles 15 --steps 120";
    let by_pgd = format!("--algorithm pgd {flags}");
    place.quietly(&format!("fit logistic {by_pgd} --out run"));
    place.quietly(&format!("fit logistic {flags} --algorithm mean-field --out gauss"));
    place.quietly(&format!("fit logistic {by_pgd} --precision f32 --keep-clouds 0 --out none-kept"));
    place.quietly(&format!("fit logistic {} --out part", by_pgd.replace("120", "90 --burn-in 60")));
    place.quietly("resume part --steps 120");
    let all = Data { rows: data.rows.clone(), labels: data.labels.clone() };
    place.write("new.csv", all.csv(&[2, 1, 0], ["no", "yes"])); // other order, and a column it must not look at
    for run in ["run", "gauss", "none-kept", "part"] {
        let done = place.motes(&format!("predict {run} --data new.csv"));
        done.ok();
        let rows = predictions(&done.out);
        assert_eq!(rows.len(), 200);
        let json = finite(&place.path(run));
        let moments = &json["data"]["moments"];
        let (mean, std) = (numbers(&moments["mean"]), numbers(&moments["std"]));
        let mut clouds = array(&place.path(run), "clouds").values;
        if clouds.is_empty() {
            clouds = array(&place.path(run), "particles").values;
        }
        for ((number, class, [no, yes, low, high]), (i, f)) in rows.iter().zip(data.rows.iter().enumerate()) {
            assert_eq!(*number, i + 1);
            assert!((no + yes - 1.0).abs() < 1e-12 && (class == "yes") == (yes > no), "{run} {i}");
            let u = |x: &[f64]| x[3] + (0..3).map(|j| x[j] * (f[j] - mean[j]) / std[j]).sum::<f64>();
            let sign = if class == "yes" { 1.0 } else { -1.0 };
            let mut all: Vec<f64> = clouds.chunks(4).map(|x| sigmoid(sign * u(x))).collect();
            all.sort_by(f64::total_cmp);
            let direct = all.iter().sum::<f64>() / all.len() as f64;
            assert!((direct - no.max(*yes)).abs() < 1e-9, "{run} {i}: {direct} {no} {yes}");
            for (q, found) in [(0.025, low), (0.975, high)] {
                let place = q * (all.len() - 1) as f64;
                let (below, above) = (all[place.floor() as usize], all[place.ceil() as usize]);
                let wanted = below + place.fract() * (above - below);
                assert!((wanted - found).abs() < 1e-9, "{run} {i}: {wanted} {found}");
            }
        }
        let said = "low and high are the 95 % interval of the probability of the row's class";
        assert!(done.err.contains(said), "{}", done.err);
    }
    assert_eq!(place.motes("predict run --data new.csv").out, place.motes("predict part --data new.csv").out);
    // Mean-field predicts with the Gaussian of the summary.
    let gauss = finite(&place.path("gauss"));
    let clouds = array(&place.path("gauss"), "clouds");
    let n = (clouds.values.len() / 4) as f64;
    for (j, (m, v)) in
        numbers(&gauss["posterior"]["mean"]).iter().zip(numbers(&gauss["posterior"]["var"])).enumerate()
    {
        let mean = clouds.values.iter().skip(j).step_by(4).sum::<f64>() / n;
        assert!((mean - m).abs() < 5.0 * (v / n).sqrt(), "{j}: {mean} {m}");
    }
    // One row has no moments of its own: it gets the same probability as among the others.
    let first: Vec<String> = place.text("new.csv").lines().take(2).map(String::from).collect();
    place.write("one.csv", first.join("\n"));
    let (one, many) = (place.motes("predict run --data one.csv"), place.motes("predict run --data new.csv"));
    assert_eq!(predictions(&one.out)[0], predictions(&many.out)[0]);
    // Rows with missing values are left out and keep their numbers.
    place.write("holes.csv", "f0,f1,f2\n1,2,3\n?,2,3\n1,2,\n4,5,6\n");
    let done = place.motes("predict run --data holes.csv");
    done.ok();
    assert!(done.err.contains("2 rows with missing values get no prediction"), "{}", done.err);
    assert_eq!(predictions(&done.out).iter().map(|r| r.0).collect::<Vec<_>>(), [1, 4]);

    place.write("wrong.csv", "f0,f1,g2\n1,2,3\n");
    place.refuses("predict run --data wrong.csv", &["no column 'f2'"]);
    place.refuses("predict run --data nowhere.csv", &["nowhere.csv"]);
    place.write("text.csv", "f0,f1,f2\n1,2,x\n");
    place.refuses("predict run --data text.csv", &["line 2", "'f2'", "'x'"]);
    place.write("empty.csv", "f0,f1,f2\n?,?,?\n");
    place.refuses("predict run --data empty.csv", &["misses a value"]);
    place.motes("predict run --data new.csv --output out.csv").ok();
    assert_eq!(place.text("out.csv"), many.out);
    place.refuses("predict run --data new.csv --output out.csv", &["out.csv already exists"]);
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out toy");
    place.refuses("predict toy --data new.csv", &["logistic"]);
}

#[test]
fn bits_depend_on_neither_threads_nor_interruptions() {
    let place = Place::new();
    place.write("tall.csv", Data::drawn(20_000, &[1.0, -1.0, 0.5, 0.0, 0.2], 0.0, 2).plain());
    for precision in ["f32", "f64"] {
        for n in [1, 50] {
            let fit = format!(
                "fit logistic --algorithm pgd --data tall.csv --precision {precision} --particles {n} --burn-in 4 --metrics-every 3 --no-assess"
            );
            let name = |t: &str| format!("{precision}-{n}-{t}");
            for threads in ["1", "2", "5"] {
                place.quietly(&format!("{fit} --steps 10 --threads {threads} --out {}", name(threads)));
            }
            place.quietly(&format!("{fit} --steps 6 --threads 2 --out {}", name("half")));
            place.quietly(&format!("resume {} --steps 10", name("half")));
            for other in ["2", "5", "half"] {
                same_bits(&place.path(&name("1")), &place.path(&name(other)));
            }
            assert!(number(&finite(&place.path(&name("1")))["metrics"]["lppd"]) < 0.0);
        }
    }
}
