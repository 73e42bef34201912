//! `motes compare`: several algorithms on the same data, seed and budget, with the real binary.

use crate::common;

use std::time::{Duration, Instant};

use common::{Done, Place, number, same_bits, summary, tidy};
use serde_json::Value;

const TOY: &str = "compare hierarchical --dim 12 --step-size 0.05";

/// The runs that a page shows.
fn runs(html: &str) -> Vec<Value> {
    let rest = html.split_once("<script type=\"application/json\" id=\"data\">").expect("a page has data").1;
    let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    data["runs"].as_array().unwrap().clone()
}

#[test]
fn each_run_is_what_fit_would_have_made() {
    let place = Place::in_memory();
    let done = place.motes(&format!(
        "{TOY} --algorithms pgd,pmgd,em --steps 300 --particles 6 --seed 3 --preconditioner diagonal --init-theta 0.5 --out all"
    ));
    done.ok();
    let fit = "fit hierarchical --dim 12 --steps 300 --seed 3";
    let cloud = "--step-size 0.05 --particles 6";
    place
        .bare(&format!("{fit} {cloud} --algorithm pgd --preconditioner diagonal --init-theta 0.5 --out pgd"));
    // Neither has a use for a preconditioner, the one computes theta, the other has no particles.
    place.bare(&format!("{fit} {cloud} --algorithm pmgd --out pmgd"));
    place.bare(&format!("{fit} --algorithm em --init-theta 0.5 --out em"));
    for name in ["pgd", "pmgd", "em"] {
        same_bits(&place.path(&format!("all/{name}")), &place.path(name));
        assert!(place.path(&format!("all/{name}/report.html")).exists());
        let mean = number(&summary(&place.path(name))["theta"]["mean"][0]);
        let row = done.out.lines().find(|l| l.trim_start().starts_with(name)).expect("a row for each");
        let shown = row.split_whitespace().nth(3).unwrap();
        let decimals = shown.split_once('.').unwrap().1.len();
        assert_eq!(shown, format!("{mean:.decimals$}"), "{row}");
        assert!(row.contains("300"), "{row}");
        let verdict = summary(&place.path(name))["diagnostics"]["verdict"].as_str().unwrap().to_string();
        assert!(row.ends_with(&verdict), "{row}");
    }
    let head = done.out.lines().find(|l| l.contains("algorithm")).unwrap();
    for word in ["steps", "seconds", "theta", "SE", "MC error", "from max.", "verdict"] {
        assert!(head.contains(word), "{head}");
    }
    assert!(!head.contains("LPPD"), "the toy model predicts nothing");
    assert!(done.out.contains("all/report.html"));
    let page = runs(&place.text("all/report.html"));
    let names: Vec<&str> = page.iter().map(|r| r["algorithm"].as_str().unwrap()).collect();
    assert_eq!(names, ["pgd", "pmgd", "em"]);
    tidy(&place.path("all"));
}

#[test]
fn predictions_have_columns_and_quiet_is_quiet() {
    let place = Place::in_memory();
    let call = "compare logistic --algorithms pgd,soul --steps 60 --particles 5 --metrics-every 20";
    let done = place.motes(call);
    done.ok();
    assert!(done.err.contains("'benign' is 0") || done.err.contains("is 0 and"), "{}", done.err);
    assert_eq!(done.err.matches(" is 0 and ").count(), 1, "the data are told once: {}", done.err);
    assert!(done.err.contains("soul (2 of 2): step size"), "{}", done.err);
    let soul = summary(&place.path("runs/compare-logistic-1/soul"));
    let row = done.out.lines().find(|l| l.trim_start().starts_with("soul")).unwrap();
    for value in [
        format!("{:.2}", 100.0 * number(&soul["metrics"]["test_error"])),
        format!("{:.4}", number(&soul["metrics"]["lppd"])),
    ] {
        assert!(row.contains(&value), "{row} lacks {value}");
    }
    assert!(place.text("runs/compare-logistic-1/report.html").contains("data-name=\"test_error\""));
    place.quietly(call);
    assert!(place.path("runs/compare-logistic-2/pgd/summary.json").exists());
    place.bare(&format!("{call} --out bare"));
    assert!(!place.path("bare/report.html").exists() && !place.path("bare/pgd/report.html").exists());
}

#[test]
fn a_budget_ends_each_run_and_the_run_can_be_repeated() {
    let place = Place::in_memory();
    let began = Instant::now();
    let done =
        place.motes(&format!("{TOY} --algorithms pgd,marginal-mh --budget 0.3 --particles 3 --out timed"));
    done.ok();
    assert!(began.elapsed() > Duration::from_millis(600), "{:?}", began.elapsed());
    for name in ["pgd", "marginal-mh"] {
        let dir = place.path(&format!("timed/{name}"));
        let s = summary(&dir);
        let (steps, seconds) = (s["steps"].as_u64().unwrap(), number(&s["time"]["seconds"]));
        let burn_in = s["settings"]["burn-in"].as_u64().unwrap();
        // How much longer is the machine's affair, but not many times.
        assert!((0.3..10.0).contains(&seconds), "{name} took {seconds} s");
        assert!(steps > 100 && 0 < burn_in && burn_in < steps, "{name}: {burn_in} of {steps}");
        assert_eq!(s["settings"]["steps"].as_u64(), Some(steps));
        let grouped = done.out.lines().find(|l| l.trim_start().starts_with(name)).unwrap().replace(',', "");
        assert!(grouped.contains(&format!(" {steps} ")), "{grouped}");
        assert!(!place.text(&format!("timed/{name}/report.html")).contains("Not finished"));
        // Time decided how many steps there were, and nothing else.
        place.bare(&format!("fit --config timed/{name}/config.toml --out again-{name}"));
        same_bits(&dir, &place.path(&format!("again-{name}")));
        place.quietly(&format!("resume timed/{name} --steps {}", steps + 50));
        assert_eq!(summary(&dir)["steps"].as_u64(), Some(steps + 50));
    }
    let s = summary(&place.path("timed/marginal-mh"));
    let after = s["settings"]["adjust-after"].as_u64().unwrap();
    assert!(0 < after && after < s["settings"]["burn-in"].as_u64().unwrap());
    // A burn-in that was asked for stays, and must leave something.
    place.bare(&format!("{TOY} --algorithms pgd,em --budget 0.05 --burn-in 7 --out seven"));
    let em = summary(&place.path("seven/em"));
    assert_eq!(em["settings"]["burn-in"], 7);
    // Steps that take no time would fill the disk with rows.
    let every = em["settings"]["trace-every"].as_u64().unwrap();
    let rows = place.text("seven/em/trace.csv").lines().count() as u64 - 1;
    assert_eq!(rows, 1 + em["steps"].as_u64().unwrap() / every);
    assert!(rows < 400_000, "{rows} rows");
    let done = place
        .motes(&format!("{TOY} --algorithms pgd,em --budget 0.001 --burn-in 1000000000 --quiet --out none"));
    done.refused(&["pgd: ", "all burn-in", "give a larger --budget"]);
}

#[test]
fn everything_is_checked_before_anything_runs() {
    let place = Place::in_memory();
    for (call, pieces) in [
        (
            "compare logistic --algorithms pgd,em",
            &["em needs exact E- and M-steps", "logistic", "use pgd"][..],
        ),
        ("compare hierarchical --algorithms pgd,mean-field --grow 5:3", &["pgd: ", "--grow 5:3"]),
        ("compare logistic --algorithms pgd,pmgd --batch 50 --adjust", &["pgd: ", "--batch"]),
        ("compare logistic --algorithms pgd", &["nothing to compare", "two or more"]),
        ("compare logistic --algorithms pgd,pqn,pgd", &["pgd twice", ";"]),
        ("compare logistic --algorithms pgd,pnq", &["no algorithm 'pnq'", "pqn"]),
        ("compare logistic", &["--algorithms"]),
        ("compare logistic --algorithms pgd,pqn --algorithm pgd", &["--algorithm pgd", "--algorithms"]),
        ("compare logistic --algorithms pgd,pqn --budget 0", &["--budget 0", "positive"]),
        ("compare logistic --algorithms pgd,pqn --budget -3", &["--budget -3", "positive"]),
        ("compare logistic --algorithms pgd,pqn --budget nan", &["--budget NaN", "positive"]),
        ("compare logistic --algorithms pgd,pqn --budget 2 --steps 9", &["--budget", "--steps"]),
        ("compare nothing --algorithms pgd,pqn", &["no model 'nothing'"]),
        ("compare no/run no/other", &["no/run is not a run directory", "; give"]),
        ("compare . .", &[". is not a run directory", "; give"]),
        ("compare .", &[". alone leaves nothing to compare", "two or more"]),
        ("compare --out logistic pgd", &["no model 'pgd'"]),
        ("compare hierarchical --dim 99999999999999 --algorithms pgd,pqn", &["pgd: ", "are available"]),
        ("compare logistic --algorithms pgd,pqn --data none.csv", &["none.csv", "check the path"]),
        ("compare logistic --algorithms pgd,pqn --threads 0", &["--threads 0"]),
    ] {
        let said = place.refuses(call, pieces);
        assert!(!said.starts_with("em: em"), "{said}");
    }
    place.write("mine", "");
    place.refuses(&format!("{TOY} --algorithms pgd,em --out ."), &["mine is not empty", "another --out"]);
    place.refuses(&format!("{TOY} --algorithms pgd,em --out mine"), &["mine", "another --out"]);
}

#[test]
fn a_divergence_is_a_result_and_the_others_go_on() {
    let place = Place::in_memory();
    let done = place
        .motes("compare hierarchical --dim 3 --algorithms pgd,pmgd,em --step-size 3 --steps 2000 --out far");
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(
        done.err.lines().last().unwrap().starts_with("motes: pgd: the run diverged at step "),
        "{}",
        done.err
    );
    let verdicts: Vec<&str> =
        done.out.lines().filter(|l| l.contains("  2,000  ") || l.ends_with("diverged")).collect();
    assert!(
        verdicts.iter().any(|l| l.trim_start().starts_with("pgd") && l.ends_with("diverged")),
        "{}",
        done.out
    );
    assert!(verdicts.iter().any(|l| l.trim_start().starts_with("em") && l.ends_with("ok")), "{}", done.out);
    let page = place.text("far/report.html");
    assert_eq!(runs(&page).len(), 3);
    assert!(page.contains("Diverged") && runs(&page)[0]["reached"].as_u64().unwrap() > 5);
    assert!(place.text("far/pgd/report.html").contains("The run diverged at step "));
}

#[cfg(unix)]
#[test]
fn an_interrupted_comparison_goes_on() {
    let place = Place::in_memory();
    let flags =
        "compare hierarchical --dim 20 --particles 4 --step-size 0.02 --algorithms em,pgd,pmgd --threads 1";
    for (kind, limit) in
        [("steps", "--steps 400000 --trace-every 1000"), ("budget", "--budget 1 --trace-every 1000")]
    {
        let out = format!("stopped-{kind}");
        let call = format!("{flags} {limit} --out {out}");
        let child = place.spawn(&call);
        let began = Instant::now();
        while !place.path(&format!("{out}/pgd/trace.csv")).exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "pgd never began");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(30));
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let done = Done::wait(child);
        assert_eq!(done.code, Some(1), "{}", done.err);
        let line = done.err.lines().last().unwrap();
        assert!(line.contains("stopped during pgd (2 of 3)") || line.contains("stopped after pgd"), "{line}");
        // The line itself is what goes on.
        let again = line.split_once("go on with: motes ").unwrap().1;
        assert_eq!(again, call);
        let em = std::fs::read(place.path(&format!("{out}/em/trace.csv"))).unwrap();
        assert!(place.path(&format!("{out}/em/summary.json")).exists());
        let done = place.motes(again);
        done.ok();
        assert!(done.err.contains("em (1 of 3): already finished"), "{}", done.err);
        assert_eq!(em, std::fs::read(place.path(&format!("{out}/em/trace.csv"))).unwrap());
        assert_eq!(runs(&place.text(&format!("{out}/report.html"))).len(), 3);
        // A third time there is nothing left to do; other settings are refused.
        place.motes(again).ok();
        place.refuses(&format!("{call} --seed 8"), &["em holds a run with other settings", "--out"]);
    }
    // One that was killed on the way cannot go on for the rest of its time.
    std::fs::remove_file(place.path("stopped-budget/pgd/summary.json")).unwrap();
    let call = format!("{flags} --budget 1 --trace-every 1000 --out stopped-budget");
    place.refuses(&call, &["stopped-budget/pgd was interrupted", "; remove it"]);
    let fit = "fit hierarchical --algorithm pgd --dim 20 --particles 4 --step-size 0.02 --steps 400000 --trace-every 1000";
    place.bare(&format!("{fit} --out whole"));
    same_bits(&place.path("stopped-steps/pgd"), &place.path("whole"));
}

#[cfg(unix)]
#[test]
fn a_killed_run_for_a_time_says_that_it_cannot_go_on() {
    let place = Place::in_memory();
    let mut child =
        place.spawn("compare hierarchical --dim 3 --algorithms pgd,pmgd --budget 60 --quiet --out far");
    let began = Instant::now();
    while !place.path("far/pgd/trace.csv").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "pgd never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(30));
    child.kill().unwrap();
    child.wait().unwrap();
    for call in ["resume far/pgd", "resume far/pgd --steps 100", "fit --config far/pgd/config.toml"] {
        place.refuses(call, &["was to run for a given time", "; remove it"]);
    }
    place.motes("report far/pgd").ok();
    let page = place.text("far/pgd/report.html");
    assert!(
        page.contains("The run for a given time was killed") && !page.contains("4,503,599"),
        "{page:.4000}"
    );
}

#[test]
fn a_config_serves_all_algorithms() {
    let place = Place::in_memory();
    place.bare(
        "fit logistic --algorithm soul --preconditioner rmsprop --particles 7 --steps 40 --seed 5 --out soul",
    );
    place.bare("compare --config soul/config.toml --algorithms soul,pqn --out both");
    same_bits(&place.path("both/soul"), &place.path("soul"));
    place.bare("fit logistic --algorithm pqn --particles 7 --steps 40 --seed 5 --step-size auto --out pqn");
    let pqn = summary(&place.path("both/pqn"));
    assert_eq!((&pqn["settings"]["particles"], &pqn["seed"]), (&7.into(), &5.into()));
    assert_eq!(pqn["settings"]["preconditioner"], "none");
}

#[test]
fn progress_names_the_algorithm_and_its_place() {
    let place = Place::new();
    let call =
        "compare hierarchical --algorithms pgd,pqn --particles 30 --trace-every 1000 --budget 0.5 --out run";
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &format!("{} {call}", env!("CARGO_BIN_EXE_motes")), "/dev/null"]);
    command
        .current_dir(place.path(""))
        .env("TERM", "xterm")
        .env("COLUMNS", "120")
        .stdin(std::process::Stdio::null());
    let Ok(output) = command.output() else { return println!("skipped: no pseudo-terminal by script") };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    for piece in ["pgd (1 of 2)", "pqn (2 of 2)", "steps/s", "ETA", "verdict"] {
        assert!(shown.contains(piece), "{piece}: {shown:?}");
    }
}

/// A run directory with the summary of another one, changed.
fn altered(place: &Place, from: &str, to: &str, change: impl FnOnce(&mut Value)) {
    std::fs::create_dir(place.path(to)).unwrap();
    for file in ["config.toml", "trace.csv"] {
        std::fs::copy(place.path(&format!("{from}/{file}")), place.path(&format!("{to}/{file}"))).unwrap();
    }
    let mut s = summary(&place.path(from));
    change(&mut s);
    place.write(&format!("{to}/summary.json"), s.to_string());
}

/// Gives a run of one parameter a second one, and a log-likelihood.
fn larger(name: &'static str, gain: f64) -> impl FnOnce(&mut Value) {
    move |s| {
        let l = number(&s["log_likelihood"]["value"]) + gain;
        s["d_theta"] = 2.into();
        s["theta"] = serde_json::json!({ "names": ["theta", name], "last": [1.0, 2.0], "mean": [1.0, 2.0],
            "se": [0.5, 0.25], "se_mc_error": [], "mc_error": [0.01, 0.02], "interval": [], "covariance": null });
        s["diagnostics"]["ess"] = serde_json::json!([]);
        s["log_likelihood"]["value"] = l.into();
        s["log_likelihood"]["mc_error"] = 0.04.into();
        s["log_likelihood"]["aic"] = (4.0 - 2.0 * l).into();
    }
}

#[test]
fn runs_are_tested_by_their_likelihoods() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 12 --out small");
    altered(&place, "small", "small-too", |s| s["log_likelihood"]["mc_error"] = 0.03.into());
    altered(&place, "small", "large", larger("beta", 1.920_729_410_347_062));
    let done = place.motes("compare large small-too");
    let out = &done.ok().out;
    // 3.841 is the 95 % quantile of chi-squared with one degree of freedom; 2 sqrt(0.03^2 + 0.04^2) = 0.1.
    for piece in [
        "likelihood-ratio test of small-too against large",
        "2 (l1 - l0)         3.841 (MC error 0.10)",
        "degrees of freedom  1\n",
        "p-value             0.0500 (0.0444 to 0.0564 within two MC errors)",
        "special case",
        "report    report.html",
    ] {
        assert!(out.contains(piece), "{piece}: {out}");
    }
    assert!(!out.contains("half of the p-value"), "{out}");
    let head = out.lines().find(|l| l.contains("parameters")).unwrap();
    assert!(["log-likelihood", "MC error", "AIC", "BIC", "verdict"].iter().all(|word| head.contains(word)));
    let page = place.text("report.html");
    for piece in [
        "Likelihood-ratio test: small-too against large",
        ">0.0500</data>",
        "MC error 0.10",
        "<dt>p-value</dt>",
    ] {
        assert!(page.contains(piece), "{piece}");
    }
    assert_eq!(runs(&page).len(), 2);

    // Half of it where a variance may be 0, and nothing is hidden about the fits.
    altered(&place, "small", "deviation", |s| {
        larger("log_sd", 2.0)(s);
        s["diagnostics"]["verdict"] = "boundary".into();
    });
    let out = place.motes("compare small deviation --no-report").ok().out.clone();
    assert!(out.contains("behind log_sd to 0") && out.contains("half of the p-value, 0.0228"), "{out}");
    assert!(out.contains("The verdict of deviation is boundary") && !out.contains("report  "), "{out}");
    altered(&place, "small", "worse", larger("beta", -1.0));
    let out = place.motes("compare --output two.html small worse").ok().out.clone();
    assert!(out.contains("p-value             1.0000") && out.contains("not a special case"), "{out}");
    assert!(place.path("two.html").exists());
    place.quietly("compare small worse");
}

#[test]
fn runs_that_cannot_be_tested_stand_side_by_side_with_the_reason() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 12 --out a");
    altered(&place, "a", "b", larger("beta", 3.0));
    altered(&place, "a", "same", |_| {});
    altered(&place, "a", "none", |s| {
        larger("beta", 3.0)(s);
        s["log_likelihood"] = serde_json::json!({ "value": null, "why_not": "the draws are too few", "mc_error": null,
            "method": null, "aic": null, "bic": null, "n": 12, "complete": false });
    });
    altered(&place, "a", "given", |s| {
        larger("beta", 3.0)(s);
        s["log_likelihood"]["complete"] = false.into();
    });
    altered(&place, "a", "other", larger("beta", 3.0));
    let config = place.text("other/config.toml");
    let at = config.find("data-sha256 = \"").unwrap() + "data-sha256 = \"".len();
    place.write("other/config.toml", format!("{}0000{}", &config[..at], &config[at + 4..]));
    altered(&place, "a", "split", larger("beta", 3.0));
    place.write("split/config.toml", config.replace("data-seed = 0", "data-seed = 1"));
    place.bare("fit logistic --algorithm pgd --steps 40 --particles 4 --no-assess --out logistic");
    std::fs::create_dir(place.path("begun")).unwrap();
    place.write("begun/config.toml", &config);
    place.write("begun/trace.csv", "k,theta,stage,evaluations,acceptance\n0,0.0,1,0.0,\n");
    for (other, why) in [
        ("same", "the same number of parameters, 1"),
        ("none", "none has no log-likelihood"),
        ("given", "has all its constants"),
        ("other", "fitted to different data"),
        ("split", "differ in data-seed"),
        ("./logistic", "different models, "),
        ("begun", "begun has not finished"),
    ] {
        let done = place.motes(&format!("compare a {other}"));
        let out = &done.ok().out;
        assert!(out.contains("No likelihood-ratio test between ") && out.contains(why), "{other}: {out}");
        assert!(!out.contains("p-value"), "{out}");
        assert!(out.contains("log-likelihood") && out.contains("AIC"), "{out}");
        let page = place.text("report.html");
        assert!(page.contains(why) && !page.contains("<dt>p-value</dt>"), "{other}");
    }
    assert!(
        place
            .motes("compare a none")
            .ok()
            .out
            .contains("none: no log-likelihood, because the draws are too few")
    );
    // Models of one's own do not tell their data, so that the reader must.
    for (name, from) in [("own", "a"), ("own-larger", "b")] {
        altered(&place, from, name, |_| {});
        let config = place.text(&format!("{name}/config.toml"));
        let told = |line: &&str| !line.starts_with("data-sha256");
        place.write(
            &format!("{name}/config.toml"),
            config.lines().filter(told).map(|l| format!("{l}\n")).collect::<String>(),
        );
    }
    let out = place.motes("compare own own-larger").ok().out.clone();
    assert!(out.contains("p-value") && out.contains("if both were fitted to the same"), "{out}");
    assert!(place.motes("compare own b").ok().out.contains("fitted to different data"));
    // Of three, each is tested against the next smaller one.
    let out = place.motes("compare b a same").ok().out.clone();
    assert!(out.contains("the same number of parameters") && out.contains("test of same against b"), "{out}");
    place.refuses("compare a nowhere", &["nowhere is not a run directory"]);
    // The name of a model is a model, whatever directories there are.
    place.refuses("compare logistic a", &[";"]);
}

#[test]
fn auto_is_compared_with_the_others() {
    let place = Place::in_memory();
    let done = place.motes("compare hierarchical --dim 12 --algorithms auto,pgd,em --out all");
    let out = &done.ok().out;
    for name in ["auto", "pgd", "em"] {
        let row = out.lines().find(|l| l.trim_start().starts_with(name)).unwrap();
        assert_eq!(row.contains(" SE "), name != "auto", "{row}");
    }
    assert!(out.contains("how far an adjusted pass finds theta from the maximum"), "{out}");
    let page = place.text("all/report.html");
    assert!(page.contains("data-head=\"from maximum\"") && page.contains(" sweeps</td>"));
    assert!(page.contains("<th scope=\"col\" class=\"word\">verdict</th>"));
}
