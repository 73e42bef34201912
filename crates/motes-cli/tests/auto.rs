//! The fit without tuning, through the real binary: right by default, refused where it cannot be, and the same however it is
//! interrupted, resumed or asked for more.

use crate::common;

use std::path::Path;
use std::time::Duration;

use common::{Dice, Done, Place, kill_after, number, numbers, same_bits, signal, signals, summary, tidy};
use serde_json::Value;

/// Data of the toy model with a known mean, and the file that holds them.
fn data(place: &Place, dim: usize) -> Vec<f64> {
    let mut dice = Dice(17);
    let uniform = |dice: &mut Dice| dice.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let y: Vec<f64> =
        (0..dim).map(|_| 3.0 + 1.4 * ((0..12).map(|_| uniform(&mut dice)).sum::<f64>() - 6.0)).collect();
    place.write("y.csv", format!("y\n{}", y.iter().map(|v| format!("{v}\n")).collect::<String>()));
    y
}

fn verdict(json: &Value) -> &str {
    json["diagnostics"]["verdict"].as_str().unwrap()
}

/// Expects what the closed form of the toy model says: theta_* is the mean of y, x_i given y has mean (y_i + theta)/2 and variance
/// 1/2, y has variance 2 around theta.
#[track_caller]
fn is_right(run: &Path, y: &[f64]) {
    let json = summary(run);
    let what = run.to_string_lossy();
    assert_eq!((verdict(&json), &json["algorithm"]), ("ok", &Value::from("auto")), "{what}");
    let d = y.len() as f64;
    let (truth, se) = (y.iter().sum::<f64>() / d, (2.0 / d).sqrt());
    let theta = |key: &str| number(&json["theta"][key][0]);
    let (estimate, mc_error) = (theta("mean"), theta("mc_error"));
    assert!((estimate - truth).abs() < 4.0 * mc_error, "{what}: {estimate} +/- {mc_error} for {truth}");
    assert!(mc_error < 0.05 * theta("se"), "{what}: {mc_error} beside {}", theta("se"));
    let off = (theta("se") - se).abs();
    assert!(off < 3.0 * theta("se_mc_error") || off < 0.1 * se, "{what}: {} for {se}", theta("se"));
    let [low, high] = [0, 1].map(|i| number(&json["theta"]["interval"][0][i]));
    assert!((high - low - 2.0 * 1.959964 * theta("se")).abs() < 1e-5, "{what}: {low} to {high}");
    assert!((0.5 * (low + high) - estimate).abs() < 1e-9, "{what}");
    assert!((number(&json["theta"]["covariance"][0][0]) - theta("se").powi(2)).abs() < 1e-9, "{what}");
    // Half of the complete information about theta is in the data.
    assert!((theta("information_share") - 0.5).abs() < 0.05, "{what}: {}", theta("information_share"));
    let posterior = &json["posterior"];
    let (mean, var) = (numbers(&posterior["mean"]), numbers(&posterior["var"]));
    for (i, error) in numbers(&posterior["mc_error"]).into_iter().enumerate() {
        let exact = 0.5 * (y[i] + estimate);
        assert!((mean[i] - exact).abs() < 5.0 * error, "{what}: x[{i}] {} +/- {error} for {exact}", mean[i]);
        // A mean known to a twentieth of a standard deviation comes from some 400 draws: variances to 7 %.
        assert!((var[i] - 0.5).abs() < 5.0 * 0.5 * (2.0f64 / 400.0).sqrt(), "{what}: x[{i}] {}", var[i]);
    }
    let likelihood = &json["log_likelihood"];
    let squares = y.iter().map(|y| (y - estimate).powi(2)).sum::<f64>();
    let exact = -0.5 * d * (4.0 * std::f64::consts::PI).ln() - 0.25 * squares;
    let (value, error) = (number(&likelihood["value"]), number(&likelihood["mc_error"]));
    assert!((value - exact).abs() < 4.0 * error + 1e-6, "{what}: {value} +/- {error} for {exact}");
    assert!((number(&likelihood["aic"]) - (2.0 - 2.0 * value)).abs() < 1e-9, "{what}");
}

#[test]
fn the_default_fit_of_the_toy_model_is_ok_and_right() {
    let place = Place::in_memory();
    let y = data(&place, 40);
    let done = place.motes("fit hierarchical --data y.csv");
    done.ok();
    for piece in
        ["hierarchical by auto", "parameter", "std. error", "95 % interval", "MC error", "verdict   ok"]
    {
        assert!(done.out.contains(piece), "{piece}: {}", done.out);
    }
    is_right(&place.path("runs/hierarchical-auto-1"), &y);
    for (name, flags) in [
        ("groups", "--groups 1"),
        ("single", "--precision f32"),
        ("few", "--particles 16"),
        ("many", "--particles 100 --seed 3"),
        ("near", "--init-theta 2.5 --init-particles 1"),
        ("far", "--init-theta -300 --init-particles 1e3"),
    ] {
        place.bare(&format!("fit hierarchical --data y.csv {flags} --out {name}"));
        is_right(&place.path(name), &y);
    }
}

#[test]
fn one_latent_variable_is_enough() {
    let place = Place::in_memory();
    place.write("y.csv", "y\n2.5\n");
    place.bare("fit hierarchical --data y.csv --out run");
    is_right(&place.path("run"), &[2.5]);
}

#[test]
fn the_default_fit_of_the_regression_is_ok_and_right() {
    let place = Place::in_memory();
    for (name, flags) in [("a", ""), ("b", "--seed 2"), ("c", "--precision f32")] {
        place.quietly(&format!("fit logistic {flags} --out {name}"));
        let json = summary(&place.path(name));
        assert_eq!((verdict(&json), &json["algorithm"]), ("ok", &Value::from("auto")), "{name}");
        let likelihood = &json["log_likelihood"];
        let (value, error) = (number(&likelihood["value"]), number(&likelihood["mc_error"]));
        // The maximum, by annealed importance sampling.
        assert!((value + 61.3223).abs() < 4.0 * error, "{name}: {value} +/- {error}");
        assert!(error < 0.1, "{name}: {error}");
        let theta = |key: &str| number(&json["theta"][key][0]);
        assert!(theta("mc_error") < 0.05 * theta("se"), "{name}");
        assert_eq!(number(&json["metrics"]["test_error"]), 4.0 / 137.0, "{name}");
    }
}

#[test]
fn what_it_finds_by_itself_is_refused() {
    let place = Place::new();
    for model in ["hierarchical", "logistic"] {
        for (flag, value) in [
            ("--step-size", "0.1"),
            ("--step-decay", "0.5,10"),
            ("--grow", "5:50"),
            ("--preconditioner", "adam"),
            ("--adjust", ""),
            ("--warm-start", "1x5"),
            ("--batch", "3"),
        ] {
            for named in ["", "--algorithm auto"] {
                place.refuses(
                    &format!("fit {model} {named} {flag} {value}"),
                    &["auto finds its own steps", flag, "leave it out or name --algorithm pgd"],
                );
            }
        }
        for flag in ["--steps", "--burn-in"] {
            place.refuses(
                &format!("fit {model} {flag} 10"),
                &["auto finds its own length; leave ", flag, " out or name --algorithm pgd"],
            );
        }
        for (flag, value) in [("--tolerance", "0.1"), ("--max-evaluations", "100")] {
            let words = format!("fit {model} --algorithm pgd {flag} {value}");
            place.refuses(&words, &[flag, "is for auto", "use --algorithm auto"]);
        }
        place.refuses(
            &format!("fit {model} --particles 7"),
            &["--particles 7", "too few for auto", "at least 8"],
        );
        place.refuses(&format!("fit {model} --particles 0"), &["--particles 0"]);
        for bad in ["0", "-1", "nan", "2"] {
            place.refuses(&format!("fit {model} --tolerance {bad}"), &["--tolerance"]);
        }
        place.refuses(&format!("fit {model} --max-evaluations 0"), &["--max-evaluations 0"]);
    }
    place.refuses("fit bnn --algorithm auto", &["auto", "model bnn", "--algorithm pgd"]);
    place.refuses(
        "fit generator --algorithm auto",
        &["no algorithm of the generator 'auto'", "choose one of pgd"],
    );
}

#[test]
fn strict_exit_codes_tell_the_verdict() {
    let place = Place::in_memory();
    data(&place, 20);
    place.bare("fit hierarchical --data y.csv --strict --out good");
    place.bare("resume good --strict");
    let fit = "fit hierarchical --data y.csv --no-report --quiet";
    let short = place.motes(&format!("{fit} --algorithm pgd --steps 5 --strict --out short"));
    assert_eq!((short.code, short.err.as_str()), (Some(3), ""));
    assert_ne!(verdict(&summary(&place.path("short"))), "ok");
    assert_eq!(place.motes("resume short --strict --quiet").code, Some(3));
    assert_eq!(place.motes("resume short --quiet").code, Some(0));
    let spent = place.motes(&format!("{fit} --max-evaluations 300 --tolerance 0.001 --strict --out spent"));
    assert_eq!(spent.code, Some(3), "{}", spent.err);
    // So few evaluations may not even see the end of the search.
    assert!(["not-reached", "still-moving", "too-short"].contains(&verdict(&summary(&place.path("spent")))));
}

/// Long enough to be interrupted: some thousand sweeps.
const LONG: &str =
    "fit hierarchical --dim 400 --tolerance 0.01 --max-evaluations 100000 --threads 2 --no-report --quiet";

#[test]
fn a_budget_stops_it_and_it_goes_on() {
    let place = Place::new();
    place.motes(&format!("{LONG} --out whole")).ok();
    let done = place.motes(&format!("{LONG} --budget 0.05 --out parts").replace(" --quiet", ""));
    assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{}", done.err);
    assert!(
        done.err.contains("stopped after sweep ") && done.err.contains("motes resume parts"),
        "{}",
        done.err
    );
    assert!(!place.path("parts/summary.json").exists());
    let mut parts = 0;
    loop {
        let done = place.motes("resume parts --budget 0.2 --quiet --no-report");
        parts += 1;
        match done.code {
            Some(1) => assert!(parts < 1000, "it never ends"),
            _ => break assert_eq!(done.code, Some(0), "{}", done.err),
        }
    }
    println!("{parts} parts");
    same_bits(&place.path("whole"), &place.path("parts"));
    for bad in ["0", "-1", "nan"] {
        place.refuses(
            &format!("fit hierarchical --budget {bad} --out none"),
            &["--budget", "positive number of seconds"],
        );
    }
    // Other algorithms have time limits too.
    let fit = "fit hierarchical --algorithm pgd --dim 100 --steps 100000000 --burn-in 500 --trace-every 1000";
    let done = place.motes(&format!("{fit} --budget 0.2 --quiet --out steps"));
    assert_eq!(done.code, Some(1), "{}", done.err);
}

/// Asked for more, a fit ends in the bytes of one that was asked for as much at once.
#[test]
fn a_smaller_tolerance_and_more_evaluations_are_those_of_a_fresh_fit() {
    let place = Place::in_memory();
    data(&place, 30);
    let models = [
        ("toy", "hierarchical --data y.csv"),
        ("one", "hierarchical --data y.csv --groups 1 --seed 5"),
        ("regression", "logistic"),
        ("single", "logistic --precision f32 --particles 16"),
    ];
    for (name, model) in models {
        let fit = |flags: &str, out: &str| place.bare(&format!("fit {model} {flags} --out {name}-{out}"));
        let same = |a: &str, b: &str| {
            same_bits(&place.path(&format!("{name}-{a}")), &place.path(&format!("{name}-{b}")))
        };
        let more = |flags: &str, out: &str| place.bare(&format!("resume {name}-{out} {flags}"));
        let config = |out: &str| place.text(&format!("{name}-{out}/config.toml"));
        fit("--tolerance 0.02", "fine");
        fit("", "fine-later");
        more("--tolerance 0.02", "fine-later");
        same("fine", "fine-later");
        assert_eq!(config("fine"), config("fine-later"));
        // In several parts, and where a little less changes nothing.
        fit("--tolerance 0.2", "steps");
        for tolerance in ["0.1999", "0.1", "0.049", "0.02"] {
            more(&format!("--tolerance {tolerance}"), "steps");
        }
        same("fine", "steps");
        // Where evaluations end the search, the averaging, the posterior's stage, or nothing.
        for (i, few) in [60, 200, 500, 900, 20_000].into_iter().enumerate() {
            for (j, many) in [few + 1, few + 100, 3 * few, 40_000].into_iter().enumerate() {
                let (later, fresh) = (format!("later{i}{j}"), format!("fresh{many}"));
                if !place.path(&format!("{name}-{fresh}")).exists() {
                    fit(&format!("--max-evaluations {many}"), &fresh);
                }
                fit(&format!("--max-evaluations {few}"), &later);
                more(&format!("--max-evaluations {many}"), &later);
                same(&fresh, &later);
            }
        }
        // Both at once.
        fit("--max-evaluations 300", "both");
        more("--max-evaluations 30000 --tolerance 0.02", "both");
        fit("--max-evaluations 30000 --tolerance 0.02", "both-fresh");
        same("both", "both-fresh");
    }
    place.refuses("resume toy-fine --tolerance 0.02", &["--tolerance 0.02 is not below 0.02"]);
    place.refuses("resume toy-fine --tolerance 0.5", &["--tolerance 0.5 is not below 0.02"]);
    place.refuses("resume toy-fine --max-evaluations 15000", &["is not above 15000"]);
    place.refuses("resume toy-fine --steps 100", &["--steps", "auto"]);
    place.bare("fit hierarchical --algorithm pgd --steps 20 --no-assess --out steps");
    place.refuses("resume steps --tolerance 0.01", &["--tolerance", "auto"]);
    place.refuses("resume steps --max-evaluations 100", &["--max-evaluations", "auto"]);
}

#[test]
fn a_fit_killed_at_any_moment_ends_in_the_same_bits() {
    let place = Place::new();
    let fit = format!("{LONG} --checkpoint-every 40");
    let began = std::time::Instant::now();
    place.motes(&format!("{fit} --out whole")).ok();
    let length = began.elapsed().as_micros() as u64;
    let mut dice = Dice(5);
    let mut kills = 0;
    for round in 0..12 {
        let run = format!("killed{round}");
        let go_on = || match place.path(&run).join("config.toml").exists() {
            true => format!("resume {run} --quiet --no-report"),
            false => format!("{fit} --out {run}"),
        };
        for _ in 0..4 {
            kills +=
                usize::from(kill_after(place.spawn(&go_on()), Duration::from_micros(dice.below(length))));
        }
        place.motes(&go_on()).ok();
        same_bits(&place.path("whole"), &place.path(&run));
        tidy(&place.path(&run));
    }
    println!("{kills} kills");
    assert!(kills > 10, "{kills}");
}

/// Killed while it goes on with another tolerance, it goes on with that.
#[test]
fn a_killed_refinement_goes_on() {
    let place = Place::new();
    let fit = LONG.replace("--tolerance 0.01", "--checkpoint-every 40");
    let began = std::time::Instant::now();
    place.motes(&format!("{fit} --tolerance 0.01 --out whole")).ok();
    let length = began.elapsed().as_micros() as u64;
    place.motes(&format!("{fit} --out start")).ok();
    let mut dice = Dice(6);
    let mut kills = 0;
    for round in 0..10 {
        let run = format!("run{round}");
        common::copy(&place.path("start"), &place.path(&run));
        let refine = format!("resume {run} --tolerance 0.01 --quiet --no-report");
        kills += usize::from(kill_after(place.spawn(&refine), Duration::from_micros(dice.below(length))));
        // It was killed before it was asked for more, or after.
        let asked = place.text(&format!("{run}/config.toml")).contains("tolerance = 0.01");
        let go_on = if asked { format!("resume {run} --quiet --no-report") } else { refine };
        place.motes(&go_on).ok();
        same_bits(&place.path("whole"), &place.path(&run));
    }
    assert!(kills > 3, "{kills}");
}

#[test]
fn signals_leave_a_checkpoint_and_exit_code_1() {
    let place = Place::new();
    place.motes(&format!("{LONG} --out whole")).ok();
    for name in signals() {
        let child = place.spawn(&format!("{LONG} --out {name}").replace(" --quiet", ""));
        while !place.path(&format!("{name}/trace.csv")).exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(30));
        signal(&child, name);
        let done = Done::wait(child);
        assert_eq!((done.code, done.out.as_str()), (Some(1), ""), "{name}: {}", done.err);
        assert!(done.err.contains("stopped after sweep "), "{}", done.err);
        place.motes(&format!("resume {name} --quiet --no-report")).ok();
        same_bits(&place.path("whole"), &place.path(name));
    }
}

/// A signal while a run is assessed does not leave half an answer.
#[test]
fn a_run_that_is_stopped_while_it_is_assessed_is_not_over() {
    let place = Place::new();
    let fit = "fit hierarchical --algorithm pgd --dim 3000 --particles 2 --steps 4 --quiet --no-report";
    let began = std::time::Instant::now();
    place.motes(&format!("{fit} --out whole")).ok();
    let length = began.elapsed();
    let mut early = 0;
    for part in [3, 6, 9u32] {
        let run = format!("run{part}");
        let child = place.spawn(&format!("{fit} --out {run}"));
        std::thread::sleep(length * part / 10);
        signal(&child, "INT");
        let done = Done::wait(child);
        if done.code == Some(1) && place.path(&run).join("config.toml").exists() {
            assert!(!place.path(&run).join("summary.json").exists(), "{part}");
            early += 1;
            place.motes(&format!("resume {run} --quiet --no-report")).ok();
        }
        if place.path(&run).join("summary.json").exists() {
            same_bits(&place.path("whole"), &place.path(&run));
        }
    }
    assert!(early > 0);
}

#[test]
fn threads_and_replays_give_the_same_bits() {
    for model in [
        "hierarchical --dim 3000",
        "hierarchical --dim 3000 --groups 1 --particles 40",
        "hierarchical --dim 500 --precision f32 --seed 4",
        "logistic",
        "logistic --precision f32 --intercept",
    ] {
        let place = Place::in_memory();
        for threads in [1, 2, 4] {
            place.bare(&format!("fit {model} --threads {threads} --out t{threads}"));
            same_bits(&place.path("t1"), &place.path(&format!("t{threads}")));
        }
        place.bare("fit --config t1/config.toml --out again");
        same_bits(&place.path("t1"), &place.path("again"));
        assert_eq!(place.text("t1/config.toml"), place.text("again/config.toml"), "{model}");
        place.bare("resume again");
        same_bits(&place.path("t1"), &place.path("again"));
    }
}

#[test]
fn another_algorithm_takes_over_a_config_that_auto_wrote() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 20 --out auto");
    place.bare("fit --config auto/config.toml --algorithm pgd --steps 50 --out pgd");
    place.bare("fit --config pgd/config.toml --algorithm auto --out again");
    let config = place.text("again/config.toml");
    for idle in ["steps", "burn-in", "step-size"] {
        assert!(!config.lines().any(|line| line.starts_with(idle)), "{config}");
    }
}

/// The trace: sweeps, the stage and the evaluations so far, which rise.
#[test]
fn the_trace_tells_stages_and_evaluations() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 20 --out run");
    let text = place.text("run/trace.csv");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at =
        |name: &str| header.iter().position(|h| *h == name).unwrap_or_else(|| panic!("{name}: {header:?}"));
    let (stage, evaluations) = (at("stage"), at("evaluations"));
    let rows: Vec<Vec<f64>> =
        lines.map(|line| line.split(',').map(|c| c.parse().unwrap_or(f64::NAN)).collect()).collect();
    assert!(rows.iter().enumerate().all(|(k, row)| row[0] == k as f64));
    for pair in rows[1..].windows(2) {
        assert!(pair[0][stage] <= pair[1][stage] && pair[0][evaluations] < pair[1][evaluations], "{pair:?}");
    }
    let last = rows.last().unwrap();
    assert_eq!(last[stage], 3.0);
    let json = summary(&place.path("run"));
    assert_eq!(last[evaluations], number(&json["diagnostics"]["evaluations"]));
    assert_eq!(last[0], number(&json["steps"]));
}
