//! Tables as people have them, through the real binary: words, separators, pipes, and a prior that is learnt.

use crate::common;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

use common::{Dice, Done, Place, number, numbers, same_bits, summary};
use motes_models::data::train_test_split;
use serde_json::{Value, json};

fn uniform(dice: &mut Dice) -> f64 {
    dice.below(1 << 53) as f64 / (1u64 << 53) as f64
}

fn normal(dice: &mut Dice) -> f64 {
    (0..12).map(|_| uniform(dice)).sum::<f64>() - 6.0
}

fn sigmoid(u: f64) -> f64 {
    1.0 / (1.0 + (-u).exp())
}

/// 120 rows: a dose with decimals, a colour, a column that never changes, and an answer that depends on dose and colour.
fn table(separator: char, decimal: char) -> String {
    let mut dice = Dice(3);
    let s = separator;
    let mut text = format!("{s}dose{s}colour{s}site{s}answer\n");
    for i in 0..120 {
        let (dose, colour) = (normal(&mut dice), ["blue", "green", "red"][dice.below(3) as usize]);
        let u = 0.7 + dose + if colour == "red" { -2.0 } else { 0.0 };
        let answer = if uniform(&mut dice) < sigmoid(u) { "yes" } else { "no" };
        let dose =
            if i == 17 { "NA".into() } else { format!("{dose:.3}").replace('.', &decimal.to_string()) };
        let _ = writeln!(text, "{}{s}{dose}{s}{colour}{s}Bonn{s}{answer}", i + 1);
    }
    text
}

const SHORT: &str = "--algorithm pgd --steps 60 --particles 8 --no-report";

/// What a run remembers of its data.
fn remembered(place: &Place, run: &str) -> Value {
    summary(&place.path(run))["data"].clone()
}

/// Runs the command with this on its standard input.
fn fed(place: &Place, words: &str, input: &[u8]) -> Done {
    let mut command = place.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let out = child.wait_with_output().unwrap();
    Done {
        call: words.into(),
        code: out.status.code(),
        out: String::from_utf8(out.stdout).unwrap(),
        err: String::from_utf8(out.stderr).unwrap(),
    }
}

#[test]
fn one_table_is_read_alike_however_it_is_written() {
    let place = Place::new();
    place.write("plain.csv", table(',', '.'));
    let done = place.motes(&format!("fit logistic --data plain.csv {SHORT} --out plain"));
    done.ok();
    for note in [
        "plain.csv: the first column has no name and was left out, as an index",
        "plain.csv: 1 row with missing values was dropped (1 in 'dose')",
        "column 'colour' is a category of 3 levels, each against 'blue'",
        "column 'site' is constant and was left out",
        "answer: 'no' is 0 and 'yes' is 1",
        "95 rows to train on, 24 to test on, 3 features",
    ] {
        assert!(done.err.contains(note), "{note}\n{}", done.err);
    }
    let data = remembered(&place, "plain");
    assert_eq!(data["features"], json!(["dose", "colour=green", "colour=red"]));
    assert_eq!(data["columns"][1], json!({"name": "colour", "levels": ["blue", "green", "red"]}));
    assert_eq!(summary(&place.path("plain"))["posterior"]["names"][3], "intercept");

    let packed = |text: &str| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text.as_bytes()).unwrap();
        out.finish().unwrap()
    };
    std::fs::write(place.path("packed.csv.gz"), packed(&table(',', '.'))).unwrap();
    place.write("german.csv", format!("\u{feff}{}", table(';', ',')).replace('\n', "\r\n"));
    place.write("tabs.txt", table('\t', '.'));
    for (file, run) in [("packed.csv.gz", "packed"), ("german.csv", "german"), ("tabs.txt", "tabs")] {
        place.quietly(&format!("fit logistic --data {file} {SHORT} --out {run}"));
        assert_eq!(place.text(&format!("{run}/trace.csv")), place.text("plain/trace.csv"), "{file}");
        assert_eq!(remembered(&place, run), data);
    }
    // Through a pipe: what came is kept, so that the run can be resumed and replayed.
    let done = fed(
        &place,
        &format!("fit logistic --data - {SHORT} --quiet --out piped"),
        table(',', '.').as_bytes(),
    );
    done.ok();
    assert_eq!(place.text("piped/trace.csv"), place.text("plain/trace.csv"));
    assert_eq!(place.text("piped/data.csv"), table(',', '.'));
    place.quietly("fit --config piped/config.toml --no-report --out again");
    assert_eq!(place.text("again/trace.csv"), place.text("plain/trace.csv"));
    for run in ["plain", "piped"] {
        place.quietly(&format!("resume {run} --steps 70 --no-report"));
    }
    assert_eq!(place.text("piped/trace.csv"), place.text("plain/trace.csv"));
}

#[test]
fn words_that_no_training_row_held_are_told() {
    let place = Place::new();
    place.write("train.csv", table(',', '.'));
    place.quietly(&format!("fit logistic --data train.csv --reference colour=red {SHORT} --out run"));
    assert_eq!(remembered(&place, "run")["features"], json!(["dose", "colour=blue", "colour=green"]));
    let config = place.text("run/config.toml");
    assert!(
        config.contains("reference = [\"colour=red\"]") && config.contains("learn = \"variance\""),
        "{config}"
    );
    place.write("new.csv", "colour,dose\nred,0.5\npink,0.5\n");
    place.refuses(
        "predict run --data new.csv",
        &["'pink' in column 'colour'", "had 'red', 'blue', 'green'", "--unknown reference"],
    );
    let done = place.motes("predict run --data new.csv --unknown reference");
    done.ok();
    let rows: Vec<&str> = done.out.lines().skip(1).map(|line| line.split_once(',').unwrap().1).collect();
    assert_eq!(rows[0], rows[1]);
    let done = fed(&place, "predict run --data -", b"colour;dose\nred;0,5\n");
    done.ok();
    assert_eq!(done.out.lines().nth(1).unwrap().split_once(',').unwrap().1, rows[0]);
    // A test file may hold rows that nobody can be asked about.
    place.write("test.csv", "dose,colour,answer\n1,red,yes\n1,pink,no\n2,blue,no\n");
    let done = place.motes(&format!("fit logistic --data train.csv --test test.csv {SHORT} --out tested"));
    done.ok();
    let said = "1 test row was left out for words that no training row holds: 'pink' in column 'colour'";
    assert!(done.err.contains(said), "{}", done.err);
    assert_eq!(remembered(&place, "tested")["test_rows"], 2);
    for (flags, pieces) in [
        ("--reference colour=pink", &["no level 'pink'", "--reference"][..]),
        ("--reference color=red", &["no column 'color'", "did you mean 'colour'?"]),
        ("--prior-variance 2", &["--prior-variance 2", "--learn mean"]),
        ("--intercept --no-intercept", &["--intercept", "--no-intercept"]),
        ("--learn all", &["--learn", "all", "mean, variance"]),
    ] {
        place.refuses(&format!("fit logistic --data train.csv {flags} --out none"), pieces);
    }
}

#[test]
fn the_scale_is_that_of_the_training_rows() {
    let place = Place::new();
    let mut dice = Dice(8);
    let values: Vec<f64> = (0..50).map(|_| normal(&mut dice)).collect();
    let rows: String = values.iter().enumerate().map(|(i, v)| format!("{v},{}\n", i % 2)).collect();
    place.write("data.csv", format!("v,y\n{rows}"));
    place.quietly(&format!("fit logistic --data data.csv --split-seed 3 {SHORT} --out run"));
    let train: Vec<f64> = train_test_split(50, 0.2, 3).unwrap().train.iter().map(|i| values[*i]).collect();
    let mean = train.iter().sum::<f64>() / 40.0;
    let deviation = (train.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 40.0).sqrt();
    let moments = &remembered(&place, "run")["moments"];
    assert!((numbers(&moments["mean"])[0] - mean).abs() < 1e-14);
    assert!((numbers(&moments["std"])[0] - deviation).abs() < 1e-14);
}

/// log p(y | V) of weights N(0, V I) in three dimensions, by the rectangle rule over a cube on which it is exact enough.
struct Quadrature {
    points: Vec<(f64, f64)>,
    volume: f64,
}

impl Quadrature {
    fn new(rows: &[([f64; 3], bool)]) -> Self {
        const SIDE: usize = 56;
        const REACH: f64 = 7.0;
        let at = |i: usize| REACH * (2.0 * (i as f64 + 0.5) / SIDE as f64 - 1.0);
        let mut points = Vec::new();
        for i in 0..SIDE.pow(3) {
            let x = [at(i % SIDE), at(i / SIDE % SIDE), at(i / SIDE / SIDE)];
            let term = |(f, label): &([f64; 3], bool)| {
                let u: f64 = f.iter().zip(&x).map(|(f, x)| f * x).sum();
                -(if *label { -u } else { u }).exp().ln_1p()
            };
            points.push((rows.iter().map(term).sum(), x.iter().map(|x| x * x).sum()));
        }
        Quadrature { points, volume: (2.0 * REACH / SIDE as f64).powi(3) }
    }

    fn log_likelihood(&self, log_variance: f64) -> f64 {
        let v = log_variance.exp();
        let logs: Vec<f64> = self.points.iter().map(|(l, squares)| l - squares / (2.0 * v)).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs.iter().map(|l| (l - top).exp()).sum();
        top + (sum * self.volume).ln() - 1.5 * (std::f64::consts::TAU * v).ln()
    }
}

#[test]
fn a_learnt_variance_is_the_maximum_of_the_likelihood() {
    let place = Place::new();
    let mut dice = Dice(21);
    let mut text = String::from("a,b,c,y\n");
    let mut rows = Vec::new();
    for _ in 0..90 {
        let f = [normal(&mut dice), normal(&mut dice), normal(&mut dice)];
        let label = uniform(&mut dice) < sigmoid(1.5 * f[0] - f[1] + 0.3 * f[2]);
        let _ = writeln!(text, "{},{},{},{}", f[0], f[1], f[2], u8::from(label));
        rows.push((f, label));
    }
    place.write("data.csv", text);
    place.bare("fit logistic --data data.csv --test-fraction 0 --no-standardize --no-intercept --out run");
    let json = summary(&place.path("run"));
    assert_eq!(json["theta"]["names"], json!(["log_variance"]));
    assert_eq!(json["diagnostics"]["verdict"], "ok", "{}", json["diagnostics"]);
    let exact = Quadrature::new(&rows);
    // The maximum, by golden section.
    let (mut low, mut high) = (-4.0f64, 5.0f64);
    for _ in 0..40 {
        let (a, b) = (high - 0.618 * (high - low), low + 0.618 * (high - low));
        if exact.log_likelihood(a) < exact.log_likelihood(b) { low = a } else { high = b }
    }
    let best = 0.5 * (low + high);
    let h = 0.05;
    let curved = (exact.log_likelihood(best + h) - 2.0 * exact.log_likelihood(best)
        + exact.log_likelihood(best - h))
        / (h * h);
    let se = (-1.0 / curved).sqrt();
    let theta = &json["theta"];
    let (mean, error) = (numbers(&theta["mean"])[0], numbers(&theta["mc_error"])[0]);
    println!("{mean} +- {error}, exactly {best}; se {} exactly {se}", theta["se"]);
    assert!((mean - best).abs() < 4.0 * error + 1e-3, "{mean} {error} {best}");
    assert!((numbers(&theta["se"])[0] / se - 1.0).abs() < 0.15);
    let value = &json["log_likelihood"];
    let (l, error) = (number(&value["value"]), number(&value["mc_error"]));
    assert!(
        (l - exact.log_likelihood(best)).abs() < 4.0 * error + 0.01,
        "{value} {}",
        exact.log_likelihood(best)
    );
}

#[test]
fn bits_of_a_learnt_prior_depend_on_neither_threads_nor_interruptions() {
    let place = Place::new();
    place.write("data.csv", table(',', '.'));
    for learn in ["variance", "both"] {
        for algorithm in ["pgd", "pmgd", "pqn"] {
            let fit = format!(
                "fit logistic --data data.csv --learn {learn} --algorithm {algorithm} --particles 9 --burn-in 4 --no-assess --step-size 0.002"
            );
            let name = |t: &str| format!("{learn}-{algorithm}-{t}");
            place.bare(&format!("{fit} --steps 10 --threads 1 --out {}", name("1")));
            place.bare(&format!("{fit} --steps 10 --threads 2 --out {}", name("2")));
            place.bare(&format!("{fit} --steps 6 --out {}", name("half")));
            place.bare(&format!("resume {} --steps 10", name("half")));
            same_bits(&place.path(&name("1")), &place.path(&name("2")));
            same_bits(&place.path(&name("1")), &place.path(&name("half")));
        }
    }
}
