//! `fit --replicates R` through the real binary: runs that are complete by themselves, one summary of them, and the same however it
//! is interrupted.

use crate::common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Done, Place, number, numbers, same_bits, signal, summary, tidy};
use serde_json::Value;

const Y: &str = "y\n3.1\n1.9\n4.4\n2.2\n5.0\n3.6\n0.8\n2.7\n3.9\n4.1\n";

fn place() -> Place {
    let place = Place::in_memory();
    place.write("y.csv", Y);
    place
}

fn verdict(json: &Value) -> &str {
    json["diagnostics"]["verdict"].as_str().unwrap()
}

/// The texts of an array.
fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_string()).collect()
}

/// A summary without what differs from one time to the next.
fn timeless(run: &Path) -> Value {
    let mut json = summary(run);
    json.as_object_mut().unwrap().remove("time").expect("a summary knows its time");
    json
}

#[test]
fn replicates_are_runs_of_their_own_and_one_summary() {
    let place = place();
    let done = place.motes("fit hierarchical --data y.csv --replicates 3 --seed 5 --out all");
    done.ok();
    for piece in
        ["hierarchical by auto: 3 replicates of up to", "R-hat", "r2", "verdict   ok", "files     all"]
    {
        assert!(done.out.contains(piece), "{piece}: {}", done.out);
    }
    let json = summary(&place.path("all"));
    let runs = json["replicates"]["runs"].as_array().unwrap();
    let of = |key: &str| -> Vec<f64> { runs.iter().map(|run| number(&run[key][0])).collect() };
    let (theta, errors) = (of("theta"), of("mc_error"));
    assert_eq!(numbers(&Value::from_iter(runs.iter().map(|run| run["seed"].clone()))), [5.0, 6.0, 7.0]);
    assert!(runs.iter().all(|run| run["pooled"] == true && run["verdict"] == "ok"), "{runs:?}");
    let (mean, mc_error) = (number(&json["theta"]["mean"][0]), number(&json["theta"]["mc_error"][0]));
    assert!((mean - theta.iter().sum::<f64>() / 3.0).abs() < 1e-12, "{mean} of {theta:?}");
    let pooled = errors.iter().map(|e| e * e).sum::<f64>().sqrt() / 3.0;
    assert!((mc_error - pooled).abs() < 1e-12, "{mc_error} of {errors:?}");
    // The mean of y is the estimate.
    assert!((mean - 3.17).abs() < 4.0 * mc_error, "{mean} +/- {mc_error}");
    let se: Vec<f64> =
        (1..=3).map(|r| number(&summary(&place.path(&format!("all/r{r}")))["theta"]["se"][0])).collect();
    let between = theta.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / 2.0;
    let within = se.iter().map(|se| se * se).sum::<f64>() / 3.0;
    let r_hat = number(&json["replicates"]["r_hat"][0]);
    assert!((r_hat - (1.0 + between / within).sqrt()).abs() < 1e-9, "{r_hat}");
    assert_eq!(json["settings"]["replicates"], 3);

    // The first is the fit that there is without others; the others start elsewhere, and are replayed like any.
    place.bare("fit hierarchical --data y.csv --seed 5 --out one");
    same_bits(&place.path("one"), &place.path("all/r1"));
    place.bare("fit --config all/r2/config.toml --out two");
    same_bits(&place.path("two"), &place.path("all/r2"));
    let start = |r: u64| {
        let trace = place.text(&format!("all/r{r}/trace.csv"));
        trace.lines().nth(1).unwrap().split(',').nth(1).unwrap().parse::<f64>().unwrap()
    };
    assert!(start(1) != start(2) && start(2) != start(3), "{} {} {}", start(1), start(2), start(3));
    // What was chosen is not scattered.
    place.bare("fit hierarchical --data y.csv --replicates 2 --init-theta 2 --out there");
    for r in [1, 2] {
        let trace = place.text(&format!("there/r{r}/trace.csv"));
        assert!(trace.lines().nth(1).unwrap().starts_with("0,2.0,"), "{trace:.100}");
    }
    // A config replays all of them.
    place.bare("fit --config all/config.toml --out again");
    assert_eq!(timeless(&place.path("again")), timeless(&place.path("all")));
    tidy(&place.path("all"));
}

#[test]
fn what_reads_runs_reads_replicates() {
    let place = Place::in_memory();
    place.quietly("fit logistic --replicates 2 --out all");
    assert!(place.text("all/report.html").contains("2 replicates"));
    fs::remove_file(place.path("all/report.html")).unwrap();
    let done = place.motes("report all");
    assert_eq!((done.ok().out.trim(), place.path("all/report.html").exists()), ("all/report.html", true));
    place.motes("report all/r2").ok();
    let json = summary(&place.path("all"));
    assert_eq!((verdict(&json), json["data"].is_null()), ("ok", false));
    let value = number(&json["log_likelihood"]["value"]);
    // The maximum, by annealed importance sampling.
    assert!((value + 61.3223).abs() < 4.0 * number(&json["log_likelihood"]["mc_error"]) + 0.02, "{value}");
    // Predictions are those of both together.
    let columns: Vec<String> = texts(&json["data"]["features"]);
    place.write("new.csv", format!("{}\n{}\n", columns.join(","), vec!["5"; columns.len()].join(",")));
    let probability = |run: &str| {
        let done = place.motes(&format!("predict {run} --data new.csv"));
        done.ok().out.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse::<f64>().unwrap()
    };
    let [both, one, two] = ["all", "all/r1", "all/r2"].map(probability);
    assert!((both - 0.5 * (one + two)).abs() < 0.01 && one != two, "{both} {one} {two}");
    let done = place.motes("compare all all/r1 --no-report");
    assert!(done.ok().out.contains("log-likelihood"), "{}", done.out);
}

#[test]
fn replicates_go_on_after_an_interruption() {
    let place = place();
    let fit = "fit hierarchical --data y.csv --replicates 3";
    place.bare(&format!("{fit} --out whole"));
    let done = place.motes(&format!("{fit} --budget 1e-6 --out parts"));
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("stopped during replicate 1 of 3; go on with: motes resume parts"),
        "{}",
        done.err
    );
    assert!(!place.path("parts/summary.json").exists());
    let done = place.motes("resume parts --budget 1e-6 --quiet --no-report");
    assert_eq!((done.code, done.err.as_str()), (Some(1), ""));
    place.motes("report parts").ok(); // as far as it is
    place.bare("resume parts");
    for r in 1..=3 {
        same_bits(&place.path(&format!("whole/r{r}")), &place.path(&format!("parts/r{r}")));
    }
    assert_eq!(timeless(&place.path("whole")), timeless(&place.path("parts")));
    // What is done is not done again.
    let done = place.motes("resume parts");
    assert!(done.ok().err.contains("replicate 3 of 3: already finished"), "{}", done.err);

    let child = place.spawn("fit logistic --replicates 9 --no-report --out many");
    let began = Instant::now();
    while !place.path("many/r2/config.toml").exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "INT");
    let done = Done::wait(child);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("go on with: motes resume many"), "{}", done.err);
    assert!(!place.path("many/r9").exists());
    place.bare("resume many");
    assert_eq!(summary(&place.path("many"))["replicates"]["runs"].as_array().unwrap().len(), 9);
}

#[test]
fn more_is_asked_of_all_replicates() {
    let place = place();
    place.bare("fit hierarchical --data y.csv --replicates 2 --out auto");
    place.bare("fit --config auto/r2/config.toml --tolerance 0.02 --out near");
    place.bare("resume auto --tolerance 0.02");
    same_bits(&place.path("near"), &place.path("auto/r2"));
    let json = summary(&place.path("auto"));
    assert_eq!((verdict(&json), number(&json["settings"]["tolerance"])), ("ok", 0.02));
    assert!(number(&json["theta"]["mc_error"][0]) < 0.02 * number(&json["theta"]["se"][0]));

    let pgd = "fit hierarchical --data y.csv --algorithm pgd --step-size 0.1 --burn-in 100 --replicates 2";
    place.bare(&format!("{pgd} --steps 800 --out long"));
    place.bare(&format!("{pgd} --steps 400 --out short"));
    place.bare("resume short --steps 800");
    for r in ["r1", "r2"] {
        same_bits(&place.path(&format!("long/{r}")), &place.path(&format!("short/{r}")));
    }
    assert_eq!(timeless(&place.path("long")), timeless(&place.path("short")));
    let r_hat = number(&summary(&place.path("long"))["replicates"]["r_hat"][0]);
    assert!((0.99..1.1).contains(&r_hat), "{r_hat}");
}

#[test]
fn a_verdict_that_is_not_ok_is_told() {
    let place = place();
    let done =
        place.motes("fit hierarchical --data y.csv --replicates 2 --max-evaluations 150 --strict --out few");
    assert_eq!(done.code, Some(3), "{}{}", done.out, done.err);
    let json = summary(&place.path("few"));
    let advice = json["diagnostics"]["advice"].as_str().unwrap();
    assert!(verdict(&json) != "ok" && advice.starts_with("r1"), "{}: {advice}", verdict(&json));
    place.bare("fit hierarchical --data y.csv --replicates 2 --strict --out enough");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let place = place();
    let fit = "fit hierarchical --data y.csv";
    place.refuses(&format!("{fit} --replicates 0"), &["--replicates 0", "use 1 or more"]);
    place.refuses(&format!("{fit} --replicates 20000"), &["--replicates 20000", "use fewer"]);
    place.refuses(
        "compare hierarchical --data y.csv --algorithms pgd,pqn --replicates 2",
        &["each algorithm once", "leave --replicates out"],
    );
    place.bare(&format!("{fit} --replicates 1 --out one"));
    assert!(place.path("one/trace.csv").exists() && !place.path("one/r1").exists());
    place.bare(&format!("{fit} --replicates 2 --out two"));
    place.refuses(&format!("{fit} --replicates 2 --out two"), &["two", "not empty"]);
    place.refuses("resume two --tolerance 0.1", &["--tolerance 0.1", "not below 0.05"]);
}
