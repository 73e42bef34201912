//! The report: written by every fit, in need of nothing, true to the run directory, and small whatever the run was.

use crate::common;

use std::fs;

use common::{Place, summary, tidy};
use serde_json::{Value, json};

const FIT: &str = "fit hierarchical --algorithm pgd --dim 12 --particles 6 --steps 400 --step-size 0.02";
const LIMIT: usize = 1_000_000;
/// A column that would like to be markup.
const NASTY: &str = "</script><img src=x onerror=alert(1)>";

/// The data in a page.
fn blob(html: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let rest = html.split_once(start).expect("a page has data").1;
    let text = rest.split_once("</script>").unwrap().0;
    assert!(!text.contains('<'), "nothing in the data may look like a tag");
    serde_json::from_str(text).unwrap()
}

/// Everything but the data, the script and the style.
fn markup(html: &str) -> String {
    let mut out = html.to_string();
    for (open, close) in [("<script", "</script>"), ("<script", "</script>"), ("<style", "</style>")] {
        let from = out.find(open).unwrap();
        let to = from + out[from..].find(close).unwrap() + close.len();
        out.replace_range(from..to, "");
    }
    out
}

/// The tags of some markup, without the values of their attributes.
fn tags(markup: &str) -> Vec<String> {
    let bare = |tag: &str| {
        let parts: Vec<&str> = tag.split('"').step_by(2).collect();
        format!("<{}", parts.join("\"\""))
    };
    markup.split('<').skip(1).map(|t| bare(t.split('>').next().unwrap())).collect()
}

/// Expects a page that asks for nothing from outside.
#[track_caller]
fn self_contained(html: &str) {
    assert!(html.len() < LIMIT, "{} bytes", html.len());
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    for outside in ["http://", "https://", "url(", "@import", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!html.contains(outside), "the page contains {outside}");
    }
    for tag in tags(&markup(html)) {
        for loading in [" src=", " href=", " onerror=", " onclick=", " onload="] {
            assert!(!tag.contains(loading), "{tag}");
        }
        for element in ["<link", "<img", "<iframe", "<object", "<embed", "<base"] {
            assert!(!tag.starts_with(element), "{tag}");
        }
    }
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
}

/// Makes a run directory by hand, as large as wanted.
fn handmade(place: &Place, name: &str, steps: u64, theta: &[String], summary: Option<Value>) {
    let dir = place.path(name);
    fs::create_dir_all(&dir).unwrap();
    let config = format!(
        "version = 2\nmodel = \"logistic\"\n[run]\nalgorithm = \"pgd\"\nsteps = {steps}\nburn-in = {}\nparticles = 5\nstep-size = 0.1\n",
        steps / 2
    );
    fs::write(dir.join("config.toml"), config).unwrap();
    let quoted: Vec<String> = theta.iter().map(|t| format!("\"{}\"", t.replace('"', "\"\""))).collect();
    let mut trace = format!("k,{}\n", quoted.join(","));
    for k in 0..=steps {
        trace.push_str(&k.to_string());
        for i in 0..theta.len() {
            let spike = if k == steps / 3 { 100.0 } else { 0.0 };
            trace.push_str(&format!(",{}", spike + ((k * (i as u64 + 1)) as f64 * 0.37).sin()));
        }
        trace.push('\n');
    }
    fs::write(dir.join("trace.csv"), trace).unwrap();
    if let Some(summary) = summary {
        fs::write(dir.join("summary.json"), summary.to_string()).unwrap();
    }
}

fn handmade_summary(steps: u64, theta: &[String]) -> Value {
    let ones = vec![1.0; theta.len()];
    json!({
        "schema": 2, "model": "logistic", "algorithm": "pgd", "settings": {}, "seed": 0, "steps": steps,
        "particles": 5, "d_theta": theta.len(), "d_x": 3, "theta": { "names": theta, "last": ones, "mean": ones },
        "diagnostics": { "ess": ones, "shadow_acceptance": 0.9, "verdict": "ok" },
        "time": { "seconds": 0.5, "steps_per_second": 2.0 * steps as f64 }, "version": "0.1.0"
    })
}

fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

/// Expects the numbers of the page to be those of the summary, bit for bit.
#[track_caller]
fn true_to_summary(run: &Value, summary: &Value, html: &str) {
    for (i, theta) in run["theta"].as_array().unwrap().iter().enumerate() {
        assert!(same(&theta["last"], &summary["theta"]["last"][i]));
        assert!(same(&theta["mean"], &summary["theta"]["mean"][i]));
        assert!(same(&theta["ess"], &summary["diagnostics"]["ess"][i]));
        assert!(same(&theta["error"], &summary["theta"]["mc_error"][i]));
        assert!(same(&theta["drift"], &summary["diagnostics"]["drift"][i]));
        assert!(same(&theta["se"], &summary["theta"]["se"][i]));
        assert_eq!(theta["interval"], summary["theta"]["interval"][i]);
        let listed =
            ["se", "se_mc_error", "mc_error", "information_share"].map(|key| &summary["theta"][key][i]);
        let ends = &summary["theta"]["interval"][i];
        for value in listed.into_iter().chain([&ends[0], &ends[1], &theta["drift"]]).filter_map(Value::as_f64)
        {
            assert!(html.contains(&format!("<data value=\"{value:?}\"")), "{value:?}");
        }
    }
    assert_eq!(run["metrics"], summary["metrics"]);
    let likelihood = &summary["log_likelihood"];
    for value in ["value", "mc_error", "aic", "bic"].iter().filter_map(|key| likelihood[key].as_f64()) {
        assert!(html.contains(&format!("<data value=\"{value:?}\"")), "{value:?}");
    }
    if let Some(seconds) = summary["time"]["assess_seconds"].as_f64() {
        assert!(html.contains(&format!("<data value=\"{seconds:?}\"")), "{seconds:?}");
    }
    for key in ["acceptance", "shadow_acceptance", "evaluations", "verdict"] {
        assert!(same(&run["diagnostics"][key], &summary["diagnostics"][key]), "{key}");
    }
    assert!(same(&run["time"]["seconds"], &summary["time"]["seconds"]));
    // Numbers in the text carry their exact values.
    let mean = summary["theta"]["mean"][0].as_f64().unwrap();
    assert!(html.contains(&format!("<data value=\"{mean:?}\"")), "{mean:?}");
    if let Some(listed) = summary["posterior"]["mean"].as_array() {
        let rows = run["posterior"].as_array().unwrap();
        assert_eq!(rows.len(), listed.len());
        let pairs: Vec<(&Value, &Value)> =
            listed.iter().zip(summary["posterior"]["var"].as_array().unwrap()).collect();
        for row in rows {
            let at = pairs.iter().position(|(m, v)| same(m, &row["mean"]) && same(v, &row["var"]));
            let at = at.expect("a row of the summary");
            assert_eq!(row["name"], summary["posterior"]["names"][at]);
            assert!(same(&row["total_sd"], &summary["posterior"]["total_sd"][at]));
            for (q, name) in ["q05", "q50", "q95"].into_iter().enumerate() {
                assert!(same(&row[name], &summary["posterior"]["quantiles"][at][q]), "{name}: {row}");
            }
        }
    }
}

#[test]
fn every_fit_and_resume_writes_a_report_unless_told_not_to() {
    let place = Place::in_memory();
    place.quietly(&format!("{FIT} --out a"));
    tidy(&place.path("a"));
    let first = place.text("a/report.html");
    self_contained(&first);
    true_to_summary(&blob(&first)["runs"][0], &summary(&place.path("a")), &first);
    place.quietly("resume a --steps 600");
    let second = place.text("a/report.html");
    assert_eq!(blob(&second)["runs"][0]["steps"], 600);
    true_to_summary(&blob(&second)["runs"][0], &summary(&place.path("a")), &second);

    place.quietly(&format!("{FIT} --out b --no-report"));
    assert!(!place.path("b/report.html").exists());
    place.quietly("resume b --steps 600 --no-report");
    assert!(!place.path("b/report.html").exists());
    assert!(!place.text("b/config.toml").contains("report"));
    // The command writes what the fit would have written.
    assert_eq!(place.motes("report b").ok().out, "b/report.html\n");
    assert_eq!(blob(&place.text("b/report.html"))["runs"][0]["theta"], blob(&second)["runs"][0]["theta"]);
}

#[test]
fn every_algorithm_gives_a_page_that_is_true_to_its_summary() {
    let place = Place::in_memory();
    for algorithm in ["auto", "pgd", "pqn", "pmgd", "soul", "mean-field", "marginal-mh", "joint-mh", "em"] {
        let own = match algorithm {
            "auto" => "",
            "em" => "--steps 200",
            _ => "--steps 200 --particles 4 --step-size 0.05",
        };
        place.quietly(&format!("fit hierarchical --dim 5 --algorithm {algorithm} {own} --out {algorithm}"));
        let html = place.text(&format!("{algorithm}/report.html"));
        self_contained(&html);
        let run = &blob(&html)["runs"][0];
        true_to_summary(run, &summary(&place.path(algorithm)), &html);
        let density = &run["posterior"][0]["density"];
        assert_eq!(density.is_null(), algorithm == "em", "{algorithm}");
        let accepts = ["auto", "marginal-mh", "joint-mh"].contains(&algorithm);
        assert_eq!(html.contains("data-name=\"acceptance\""), accepts, "{algorithm}");
    }
    let html = place.text("em/report.html");
    assert!(html.contains("keeps no cloud") && !html.contains("data-chart=\"density\""));
}

#[test]
fn page_terminal_and_summary_agree() {
    let place = Place::in_memory();
    for (name, flags) in [
        ("grown", "--algorithm pgd --particles 10 --grow 50:200 --steps 300 --step-size 0.02"),
        ("brief", "--algorithm pgd --particles 5 --steps 3 --step-size 0.02"),
        ("short", "--algorithm pgd --particles 5 --steps 60 --step-size 0.02 --init-theta 1"),
        ("exact", "--algorithm em --steps 40"),
        ("stages", "--seed 4"),
    ] {
        let done = place.motes(&format!("fit hierarchical --dim 6 {flags} --out {name}"));
        let (shown, html) = (&done.ok().out, place.text(&format!("{name}/report.html")));
        let s = summary(&place.path(name));
        let (_, sub) = html.split_once("<p class=\"sub\">").unwrap();
        let sub = sub.split("</p>").next().unwrap();
        if let Some(n) = s["particles"].as_u64() {
            let with = format!("{n} particles");
            assert!(sub.contains(&with) && shown.contains(&with), "{name}: {sub}; {shown}");
            let stepped = name != "stages";
            assert_eq!(sub.contains("h = 0.02"), stepped, "{name}: {sub}");
            assert_eq!(shown.contains("h = 0.02"), stepped, "{name}: {shown}");
            assert_eq!(sub.contains("sweeps"), !stepped, "{name}: {sub}");
            assert_eq!(sub.contains("burn-in"), stepped, "{name}: {sub}");
        } else {
            assert!(!sub.contains("particles") && !sub.contains("h = "), "{name}: {sub}");
            assert!(s["posterior"]["quantiles"].is_null());
        }
        let ok = s["diagnostics"]["verdict"] == "ok";
        assert_eq!(shown.contains("verdict   ok"), ok, "{name}: {shown}");
        assert_eq!(html.contains("No problem found"), ok, "{name}");
        assert_eq!(html.contains("class=\"verdict good\""), ok, "{name}");
    }
    assert_eq!(summary(&place.path("grown"))["particles"], 200);
    place.motes("report grown brief --output both.html").ok();
    assert!(place.text("both.html").contains("<td data-head=\"N\">200</td><td data-head=\"h\">0.02</td>"));
}

/// What a page says that no fit in stages may say of itself.
#[track_caller]
fn speaks_of_stages(html: &str) {
    let text = markup(html);
    for nonsense in ["burn-in", "4,503,599", "4503599", "h = ", " steps", "effective sample size", "drift"] {
        assert!(!text.contains(nonsense), "{nonsense}");
    }
}

#[test]
fn a_fit_in_stages_shows_them_and_what_it_is_sure_of() {
    let place = Place::in_memory();
    place.quietly("fit hierarchical --dim 30 --level 0.9 --out a");
    let html = place.text("a/report.html");
    self_contained(&html);
    speaks_of_stages(&html);
    let (data, s) = (blob(&html), summary(&place.path("a")));
    let run = &data["runs"][0];
    true_to_summary(run, &s, &html);
    assert_eq!((&run["unit"], &run["steps"]), (&json!("sweep"), &Value::Null));
    let stages = run["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["search", "average", "posterior"]);
    assert_eq!(stages[2]["to"], s["steps"]);
    // Stages follow each other as they do in the trace.
    for (stage, number) in stages.iter().zip(["1", "2", "3"]) {
        let rows = place.text("a/trace.csv");
        let of = |line: &&str| line.split(',').nth(2) == Some(number);
        let first = rows.lines().skip(1).find(of).unwrap().split(',').next().unwrap().to_string();
        assert_eq!(stage["from"].to_string(), first);
    }
    for piece in [
        "<th scope=\"col\">standard error</th><th scope=\"col\">90 % interval</th><th scope=\"col\">MC error</th>",
        "<h2>Posterior at the estimate</h2>",
        ">total sd</th>",
        "<h2>Log-likelihood</h2>",
        "<dt>evaluations</dt>",
        "<th scope=\"col\">n of BIC</th>",
    ] {
        assert!(html.contains(piece), "{piece}");
    }
    assert!(!html.contains("data-name=\"stage\"") && !html.contains("data-name=\"evaluations\""));
    assert!(html.contains("data-name=\"acceptance\"") && !html.contains("time of assessing"));
    // What is not to be had says why, and the page of another algorithm tells the time of assessing apart.
    let mut told = s.clone();
    told["log_likelihood"] = json!({ "value": null, "why_not": "the <b>draws</b> are too few", "mc_error": null,
        "method": null, "aic": null, "bic": null, "n": 30, "complete": false });
    told["diagnostics"]["verdict"] = json!("weakly-identified");
    told["diagnostics"]["advice"] = json!("theta is hardly known");
    place.write("a/summary.json", told.to_string());
    place.motes("report a").ok();
    let html = place.text("a/report.html");
    assert!(html.contains("Not available: the &lt;b&gt;draws&lt;/b&gt; are too few."), "{html:.3000}");
    assert!(html.contains("The data say little about theta") && html.contains("Theta is hardly known."));
    place.quietly(&format!("{FIT} --out b"));
    assert!(place.text("b/report.html").contains("<dt>time of assessing</dt>"));
}

#[test]
fn a_fit_in_stages_that_has_not_finished_says_where_it_is() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 30 --out a");
    let trace = place.text("a/trace.csv");
    // As it was in its second stage, and before its first sweep.
    let (first, cut) = (trace.find("\n1,").unwrap(), trace.find("\n120,").unwrap());
    let (config, whole) = (place.text("a/config.toml"), place.text("a/summary.json"));
    fs::create_dir(place.path("b")).unwrap();
    place.write("b/config.toml", &config);
    place.write("b/trace.csv", &trace[..=cut]);
    place.motes("report b").ok();
    let html = place.text("b/report.html");
    self_contained(&html);
    speaks_of_stages(&html);
    assert!(html.contains("Not finished: stage 2 of 3 (average), 119 sweeps"), "{html:.3000}");
    assert_eq!(blob(&html)["runs"][0]["stages"].as_array().unwrap().len(), 2);
    assert!(html.contains("<code>motes resume b</code>"));
    place.write("b/trace.csv", &trace[..=first]);
    place.motes("report b").ok();
    assert!(place.text("b/report.html").contains("Not finished: stage 1 of 3 (search), 0 sweeps"));
    // One that went on with a smaller tolerance still has the summary of before.
    place.write("b/trace.csv", &trace[..=cut]);
    place.write("b/summary.json", whole);
    place.write("b/config.toml", config.replace("tolerance = 0.05", "tolerance = 0.01"));
    place.motes("report b").ok();
    let html = place.text("b/report.html");
    assert!(
        html.contains("Not finished: stage 2 of 3") && html.contains("the numbers below are from before")
    );
}

#[test]
fn quantiles_of_the_summary_are_those_of_the_clouds() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --algorithm pgd --dim 3 --particles 7 --steps 100 --out run");
    let mut archive =
        zip::ZipArchive::new(std::fs::File::open(place.path("run/posterior.npz")).unwrap()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_name("clouds.npy").unwrap(), &mut bytes).unwrap();
    let values: Vec<f64> = bytes[bytes.len() - 350 * 3 * 8..]
        .chunks(8)
        .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
        .collect();
    let found = &summary(&place.path("run"))["posterior"]["quantiles"];
    for i in 0..3 {
        let mut column: Vec<f64> = values.iter().skip(i).step_by(3).copied().collect();
        column.sort_by(f64::total_cmp);
        // 350 values: the places of the quantiles are 17.45, 174.5 and 331.55.
        let between = |k: usize, t: f64| column[k] + t * (column[k + 1] - column[k]);
        for (q, want) in [between(17, 0.45), between(174, 0.5), between(331, 0.55)].into_iter().enumerate() {
            assert!((found[i][q].as_f64().unwrap() - want).abs() < 1e-12, "{i} {q}: {found}");
        }
    }
}

#[test]
fn predictions_are_reported_with_their_trace() {
    let place = Place::in_memory();
    place.quietly("fit logistic --algorithm pgd --steps 200 --particles 10 --metrics-every 10 --out a");
    let html = place.text("a/report.html");
    self_contained(&html);
    let run = &blob(&html)["runs"][0];
    let summary = summary(&place.path("a"));
    true_to_summary(run, &summary, &html);
    assert!(run["metrics"]["lppd"].as_f64().unwrap() < 0.0);
    assert!(html.contains("data-name=\"test_error\"") && html.contains("data-name=\"lppd\""));
    assert_eq!(
        run["scalars"]["lppd"]["dk"].as_array().unwrap().len(),
        20 + 1 - usize::from(run["scalars"]["lppd"]["dk"][0] == 10)
    );
    // Coordinates have the names of the columns, sorted by width.
    let rows = run["posterior"].as_array().unwrap();
    let features = summary["data"]["features"].as_array().unwrap();
    assert!(rows.iter().all(|r| features.contains(&r["name"])));
    let width = |r: &Value| r["q95"].as_f64().unwrap() - r["q05"].as_f64().unwrap();
    assert!(rows.windows(2).all(|w| width(&w[0]) >= width(&w[1])));

    place.quietly("fit logistic --algorithm pgd --steps 50 --particles 5 --test-fraction 0 --out b");
    let html = place.text("b/report.html");
    self_contained(&html);
    assert!(blob(&html)["runs"][0]["metrics"].is_null() && !markup(&html).contains("LPPD"));
}

#[test]
fn metrics_of_any_name_are_shown() {
    let place = Place::in_memory();
    let one = vec!["lppd".to_string()];
    let mut told = handmade_summary(40, &one);
    told["metrics"] = json!({ "mean_deviance": 12.3456789, "<rmse>": -0.5, "none": null });
    for name in ["a", "b"] {
        handmade(&place, name, 40, &one, Some(told.clone()));
        let trace = place.text(&format!("{name}/trace.csv"));
        let mut lines = trace.lines();
        let mut wider = format!("{},acceptance,mean_deviance,<rmse>\n", lines.next().unwrap());
        lines.for_each(|line| wider.push_str(&format!("{line},0.5,1.25,\n")));
        place.write(&format!("{name}/trace.csv"), wider);
    }
    place.motes("report a").ok();
    let html = place.text("a/report.html");
    self_contained(&html);
    let run = &blob(&html)["runs"][0];
    assert_eq!(run["metrics"], told["metrics"]);
    assert_eq!(
        run["theta"][0]["name"], "lppd",
        "a component may be called so where the summary tells it apart"
    );
    assert_eq!(run["scalars"]["mean_deviance"]["v"][0], 1.25);
    assert!(html.contains("data-name=\"mean_deviance\" data-label=\"mean deviance\""));
    assert!(
        html.contains("<h2>Mean deviance along the run</h2>") && html.contains("data-name=\"acceptance\"")
    );
    assert!(html.contains("<dt>&lt;rmse&gt;</dt>") && html.contains("<data value=\"12.3456789\""));
    place.motes("report a b").ok();
    let html = place.text("report.html");
    self_contained(&html);
    assert!(html.contains("<th scope=\"col\">&lt;rmse&gt;</th><th scope=\"col\">mean deviance</th>"));
    assert!(html.contains("data-chart=\"overlay\" data-name=\"mean_deviance\""));
}

#[test]
fn names_from_data_stay_text() {
    let place = Place::in_memory();
    let mut csv = format!("\"{NASTY}\",\"a & b's \"\"c\"\"\",<b>class</b>\n");
    for i in 0..40 {
        csv.push_str(&format!(
            "{},{},{}\n",
            (i * 7) % 11,
            (i * 5) % 13,
            if i % 3 == 0 { "<i>no" } else { "{{data}}" }
        ));
    }
    place.write("data.csv", csv);
    place.quietly("fit logistic --algorithm pgd --data data.csv --steps 60 --particles 5 --out <u>out");
    let html = place.text("<u>out/report.html");
    self_contained(&html);
    let names: Vec<&str> = Vec::from_iter(["intercept", "a & b's \"c\"", NASTY]);
    let data = blob(&html);
    let rows = data["runs"][0]["posterior"].as_array().unwrap();
    let mut found: Vec<&str> = rows.iter().map(|r| r["name"].as_str().unwrap()).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(found, names);
    let text = markup(&html);
    assert!(text.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"));
    assert!(text.contains("a &amp; b&#39;s &quot;c&quot;") && text.contains("&lt;i&gt;no"));
    for tag in ["<img", "<u>", "<i>", "<b>class"] {
        assert!(!text.contains(tag), "{tag}");
    }
    assert!(place.motes("report <u>out <u>out --output two.html").ok().err.is_empty());
    self_contained(&place.text("two.html"));
}

#[test]
fn large_runs_give_small_pages_in_which_spikes_survive() {
    let place = Place::in_memory();
    place.quietly("fit hierarchical --algorithm pgd --dim 5000 --particles 4 --steps 300 --out wide");
    let html = place.text("wide/report.html");
    self_contained(&html);
    assert_eq!(blob(&html)["runs"][0]["posterior"].as_array().unwrap().len(), 1000);
    assert!(html.contains("1,000 coordinates with the largest variance are in this report, of 5,000"));

    let one = vec!["theta".to_string()];
    handmade(&place, "long", 200_000, &one, Some(handmade_summary(200_000, &one)));
    place.motes("report long").ok();
    let html = place.text("long/report.html");
    self_contained(&html);
    let trace = &blob(&html)["runs"][0]["theta"][0]["trace"];
    let (dk, v) = (trace["dk"].as_array().unwrap(), trace["v"].as_array().unwrap());
    assert!(dk.len() == v.len() && (500..2000).contains(&dk.len()), "{}", dk.len());
    let steps: Vec<u64> = dk
        .iter()
        .scan(0, |k, d| {
            *k += d.as_u64().unwrap();
            Some(*k)
        })
        .collect();
    assert_eq!((steps[0], *steps.last().unwrap()), (0, 200_000));
    let spike = steps.iter().position(|k| *k == 200_000 / 3).expect("the step of the spike is kept");
    assert!(v[spike].as_f64().unwrap() > 98.0);

    // Many components, all with long names that grow when they are escaped.
    let many: Vec<String> = (0..1000).map(|i| format!("{i}{}", "<\"&".repeat(200))).collect();
    handmade(&place, "many", 40, &many, Some(handmade_summary(40, &many)));
    place.motes("report many").ok();
    let html = place.text("many/report.html");
    self_contained(&html);
    assert!(html.contains("of 1,000 components are in this report"));
    let dirs = ["many"; 60].join(" ");
    place.motes(&format!("report {dirs}")).ok();
    self_contained(&place.text("report.html"));

    // What is cut is said.
    place.motes("report many many").ok();
    assert!(place.text("report.html").contains("The first 12 of 1,000 components of theta are on this page"));
    place.motes("report long long").ok();
    assert!(!place.text("report.html").contains("components of theta are on this page"));
    assert!(!place.text("wide/report.html").contains("evenly chosen"));
    place.quietly(
        "fit hierarchical --algorithm pgd --dim 1000 --particles 100 --steps 80 --burn-in 10 --precision f32 --out dense",
    );
    let html = place.text("dense/report.html");
    assert!(html.contains(
        "1,750 evenly chosen particles (a report looks at no more than 2,000,000 values) out of the 3,500"
    ));
}

#[test]
fn unfinished_runs_show_what_there_is() {
    let place = Place::in_memory();
    let two = vec!["alpha".to_string(), "h".to_string()];
    handmade(&place, "a", 100, &two, None);
    // Killed in the middle of a number.
    let trace = place.text("a/trace.csv");
    let cut = trace.find("\n80,").unwrap() + 8;
    place.write("a/trace.csv", &trace[..cut]);
    place.motes("report a").ok();
    let html = place.text("a/report.html");
    self_contained(&html);
    let data = blob(&html);
    assert_eq!(data["runs"][0]["reached"], 79);
    assert!(html.contains("Not finished: 79 of 100 steps") && html.contains("<code>motes resume a</code>"));
    assert!(data["runs"][0]["posterior"].is_null() && data["runs"][0]["time"].is_null());

    // Finished once, then continued and interrupted.
    place.quietly(&format!("{FIT} --out b"));
    let config = place.text("b/config.toml").replace("steps = 400", "steps = 900");
    place.write("b/config.toml", config);
    place.motes("report b").ok();
    assert!(place.text("b/report.html").contains("those of its first 400 steps"));

    // Nothing recorded, no posterior.
    place.write("a/trace.csv", "k,alpha,h\n");
    place.motes("report a").ok();
    assert!(place.text("a/report.html").contains("No steps have been recorded yet"));
    fs::remove_file(place.path("b/posterior.npz")).unwrap();
    place.motes("report b").ok();
    assert!(place.text("b/report.html").contains("the run has no posterior.npz"));
}

#[test]
fn runs_that_diverged_or_were_stopped_have_a_report_too() {
    let place = Place::in_memory();
    let fit = "fit hierarchical --algorithm pgd --dim 3 --step-size 3 --steps 2000";
    let done = place.motes(&format!("{fit} --out far"));
    let sentence = done.refused(&["the run diverged at step "]);
    let html = place.text("far/report.html");
    self_contained(&html);
    let step: u64 = sentence.split_once("at step ").unwrap().1.split_once(':').unwrap().0.parse().unwrap();
    assert_eq!(blob(&html)["runs"][0]["reached"], step - 1, "the trace goes up to the divergence");
    assert!(html.contains("Diverged") && html.contains("The run diverged at step "));
    place.motes(&format!("{fit} --out none --no-report")).refused(&["diverged"]);
    assert!(!place.path("none/report.html").exists());
    // A report that cannot be written hides nothing.
    let mut child = place.spawn(
        "fit hierarchical --algorithm pgd --dim 3 --steps 100000000 --trace-every 100000 --out stopped",
    );
    while !place.path("stopped/trace.csv").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    fs::create_dir(place.path("stopped/report.html")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let done = common::Done::wait(child);
    assert!(done.err.contains("warning: the report was not written"), "{}", done.err);
    assert!(done.err.trim_end().ends_with("go on with: motes resume stopped"), "{}", done.err);
    fs::remove_dir(place.path("stopped/report.html")).unwrap();
    place.motes("report stopped").ok();
    assert!(place.text("stopped/report.html").contains("Not finished: "));
}

#[test]
fn several_runs_are_compared_on_one_page() {
    let place = Place::in_memory();
    place.quietly(&format!("{FIT} --out a"));
    place.bare(
        "fit hierarchical --dim 12 --particles 6 --steps 400 --step-size 0.02 --algorithm pmgd --out b",
    );
    place.quietly("fit hierarchical --algorithm em --dim 12 --steps 30 --out c");
    let one = vec!["theta".to_string()];
    handmade(&place, "d", 50, &one, None);
    assert_eq!(place.motes("report a b c d").ok().out, "report.html\n");
    let html = place.text("report.html");
    self_contained(&html);
    assert!(!place.path("b/report.html").exists());
    let data = blob(&html);
    let runs = data["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for (run, name) in runs.iter().zip(["a", "b", "c"]) {
        let summary = summary(&place.path(name));
        assert!(run["posterior"].is_null());
        assert!(same(&run["theta"][0]["mean"], &summary["theta"]["mean"][0]));
        let mean = summary["theta"]["mean"][0].as_f64().unwrap();
        assert!(html.contains(&format!("<data value=\"{mean:?}\"")));
    }
    assert_eq!(html.matches("<tr data-run=").count(), 4);
    assert!(html.contains("Not finished: 50 of 50 steps"));
}

#[test]
fn only_reports_are_overwritten() {
    let place = Place::in_memory();
    place.quietly(&format!("{FIT} --out a"));
    place.write("mine.html", "<!DOCTYPE html><title>my thesis</title>");
    place.refuses("report a --output mine.html", &["mine.html is not a Motes report", "--output"]);
    place.refuses("report a --output a", &["a is a directory", "--output"]);
    place.refuses("report a --output none/there.html", &["none/there.html", "--output"]);
    place.motes("report a --output page.html").ok();
    place.motes("report a --output page.html").ok();
    place.write("a/report.html", "mine");
    place.refuses("report a", &["a/report.html is not a Motes report"]);
    // A run counts more than its report.
    let done = place.motes("resume a --steps 500 --quiet");
    done.ok();
    assert!(done.err.starts_with("warning: the report was not written: a/report.html"), "{}", done.err);
    assert_eq!(place.text("a/report.html"), "mine");
}

#[test]
fn bad_input_ends_in_one_sentence() {
    let place = Place::in_memory();
    place.quietly(&format!("{FIT} --out a --no-report"));
    place.refuses("report", &["DIR", ";"]);
    place.refuses("report none", &["none is not a run directory", "; give a directory"]);
    place.write("file", "");
    place.refuses("report file", &["file is not a run directory"]);
    place.refuses("report a none", &["none is not a run directory"]);
    let damage = |file: &str, content: &[u8], pieces: &[&str]| {
        let before = fs::read(place.path(file)).unwrap();
        place.write(file, content);
        place.refuses("report a", pieces);
        place.write(file, before);
    };
    damage("a/config.toml", b"version = ", &["a/config.toml cannot be understood", ";"]);
    damage("a/config.toml", b"\xff\xfe", &["a/config.toml cannot be understood", ";"]);
    damage("a/summary.json", b"{\"model\":", &["a/summary.json cannot be understood", "`motes resume`"]);
    let short = summary(&place.path("a")).to_string().replace("\"names\":[\"theta\"]", "\"names\":[]");
    damage("a/summary.json", short.as_bytes(), &["theta.last has 1 entries", "`motes resume`"]);
    damage("a/trace.csv", b"", &["a/trace.csv", ";"]);
    damage("a/trace.csv", b"x,y\n1,2\n", &["a/trace.csv", "column k"]);
    damage("a/posterior.npz", b"PK", &["a/posterior.npz is not an npz archive", "`motes resume a`"]);
    let mut npz = fs::read(place.path("a/posterior.npz")).unwrap();
    let at = npz.windows(10).position(|w| w == b"clouds.npy").unwrap() + 300;
    npz[at] ^= 1;
    damage("a/posterior.npz", &npz, &["a/posterior.npz has a damaged array 'clouds'", "`motes resume a`"]);
    fs::remove_file(place.path("a/trace.csv")).unwrap();
    place.refuses("report a", &["a/trace.csv", ";"]);
}
