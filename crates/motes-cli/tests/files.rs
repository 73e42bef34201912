//! The run directory: every documented file, and numbers that agree between them.

use crate::common;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use common::{Place, array, by_pgd, checkpoints, number, numbers, summary, tidy};
use motes::sentence::Face;
use serde_json::{Value, json};

/// The header and the rows of a trace; an empty cell is NaN.
fn trace(run: &Path) -> (String, Vec<Vec<f64>>) {
    let text = std::fs::read_to_string(run.join("trace.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    let cell = |c: &str| if c.is_empty() { f64::NAN } else { c.parse().unwrap() };
    (header.into(), rows.lines().map(|row| row.split(',').map(cell).collect()).collect())
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-11 * (1.0 + a.abs()), "{a} and {b}");
    }
}

#[test]
fn every_documented_file_is_there() {
    let place = Place::new();
    let began = std::time::Instant::now();
    place.quietly("fit hierarchical --algorithm pgd --steps 100 --out run");
    println!("from process start to files written: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    let run = place.path("run");
    for file in ["config.toml", "trace.csv", "posterior.npz", "summary.json", "report.html"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    assert_eq!(checkpoints(&run).len(), 1);
    tidy(&run);
    place.bare("fit hierarchical --algorithm pgd --steps 100 --checkpoint-every 7 --out many");
    assert!(!place.path("many/report.html").exists());
    let names: Vec<_> = checkpoints(&place.path("many"));
    assert_eq!(names.len(), 2, "two generations: {names:?}");
}

#[test]
fn the_default_directory_is_numbered() {
    let place = Place::new();
    for _ in 0..2 {
        place.quietly("fit hierarchical --steps 2 --algorithm pmgd");
    }
    place.quietly("fit hierarchical --algorithm pgd --steps 2");
    for name in ["runs/hierarchical-pmgd-1", "runs/hierarchical-pmgd-2", "runs/hierarchical-pgd-1"] {
        assert!(place.path(name).join("summary.json").is_file(), "{name}");
    }
}

#[test]
fn the_trace_has_a_row_per_step_and_the_columns_that_apply() {
    let place = Place::new();
    for (name, flags, columns) in [
        ("a", "", "k,theta"),
        ("b", "--algorithm em", "k,theta"),
        ("c", "--step-decay 0.6,10", "k,theta,h"),
        ("d", "--grow 5:20", "k,theta,particles"),
        ("e", "--adjust --adjust-after 0", "k,theta,acceptance"),
        ("f", "--algorithm marginal-mh --particles 2", "k,theta,acceptance"),
        ("g", "--grow 5:20 --adjust --step-decay 0.5,3", "k,theta,h,particles,acceptance"),
    ] {
        let flags = by_pgd(flags);
        place.quietly(&format!("fit hierarchical --dim 7 --steps 30 --out {name} {flags}"));
        let (header, rows) = trace(&place.path(name));
        assert_eq!(header, columns);
        assert!(rows.iter().enumerate().all(|(k, row)| row[0] == k as f64), "{name}");
        assert_eq!(rows.len(), 31, "{name}");
        assert!(rows.iter().all(|row| row.len() == columns.split(',').count()));
        assert!(!place.text(&format!("{name}/trace.csv")).contains('#'));
    }
    let (_, rows) = trace(&place.path("c"));
    for k in 1..=30 {
        // The step size in row k led there from k - 1.
        let h = rows[1][2] * (1.0 + (k - 1) as f64 / 10.0).powf(-0.6);
        assert!((rows[k][2] - h).abs() < 1e-15, "step {k}");
    }
    let (_, rows) = trace(&place.path("d"));
    assert!(rows.iter().all(|r| r[2] == if r[0] < 5.0 { 10.0 } else { 20.0 }));
    let (_, rows) = trace(&place.path("e"));
    assert!(rows[0][2].is_nan() && rows[1..].iter().all(|r| (0.0..=1.0).contains(&r[2])));
    let (_, rows) = trace(&place.path("g"));
    // Accept-reject begins after half of the burn-in of 15.
    assert!(rows.iter().all(|r| r[4].is_nan() == (r[0] <= 7.0)), "{rows:?}");
}

#[test]
fn the_trace_is_thinned_without_changing_the_run() {
    let place = Place::new();
    let flags = "fit hierarchical --algorithm pgd --dim 7 --steps 100 --seed 3";
    place.quietly(&format!("{flags} --out all"));
    place.quietly(&format!("{flags} --out thin --trace-every 7"));
    let (_, all) = trace(&place.path("all"));
    let (_, thin) = trace(&place.path("thin"));
    let expected: Vec<_> = all.iter().filter(|r| r[0] % 7.0 == 0.0).cloned().collect();
    assert_eq!(thin, expected);
    for key in ["theta", "posterior", "diagnostics"] {
        assert_eq!(summary(&place.path("all"))[key], summary(&place.path("thin"))[key]);
    }
    assert_eq!(array(&place.path("thin"), "theta").shape, [15, 1]);
}

#[test]
fn the_summary_has_every_key_and_null_where_nothing_applies() {
    let place = Place::new();
    place.quietly("fit hierarchical --algorithm pgd --steps 50 --out run --seed 5");
    let json = summary(&place.path("run"));
    let documented = [
        "model",
        "algorithm",
        "settings",
        "seed",
        "schema",
        "theta",
        "log_likelihood",
        "level",
        "posterior",
        "metrics",
        "diagnostics",
        "time",
        "version",
    ];
    assert_eq!(json["schema"], 2);
    assert!(keys(&json).is_superset(&documented.into()), "{:?}", keys(&json));
    let errors = ["se", "se_mc_error", "mc_error", "interval", "covariance", "information_share"];
    let theta: BTreeSet<&str> = ["names", "last", "mean"].into_iter().chain(errors).collect();
    assert_eq!(keys(&json["theta"]), theta);
    let posterior = ["names", "groups", "mean", "var", "mc_error", "total_sd", "quantiles"];
    assert_eq!(keys(&json["posterior"]), posterior.into());
    let likelihood = ["value", "why_not", "mc_error", "method", "aic", "bic", "n", "complete"];
    assert_eq!(keys(&json["log_likelihood"]), likelihood.into());
    let diagnostics = [
        "verdict",
        "advice",
        "ess",
        "acceptance",
        "shadow_acceptance",
        "drift",
        "suggested_step_size",
        "evaluations",
        "distance",
    ];
    assert!(keys(&json["diagnostics"]).is_superset(&diagnostics.into()));
    assert_eq!(keys(&json["time"]), ["seconds", "steps_per_second", "assess_seconds"].into());
    assert_eq!(json["level"], 0.95);
    assert_eq!(json["metrics"], Value::Null);
    assert_eq!(json["diagnostics"]["acceptance"], Value::Null);
    assert_eq!(json["model"], "hierarchical");
    assert_eq!(json["algorithm"], "pgd");
    assert_eq!(json["seed"], 5);
    assert_eq!(json["theta"]["names"], json!(["theta"]));
    // Fifty steps are not enough for theta to come to rest.
    assert_eq!(json["diagnostics"]["verdict"], "still-moving");
    let time = &json["time"];
    let product = number(&time["seconds"]) * number(&time["steps_per_second"]);
    assert!((product - 50.0).abs() < 1e-6, "{product}");

    place.quietly("fit hierarchical --algorithm pgd --steps 300 --adjust --out adjusted");
    assert!((0.0..=1.0).contains(&number(&summary(&place.path("adjusted"))["diagnostics"]["acceptance"])));
    let wide = place.motes("fit hierarchical --algorithm pgd --steps 20 --dim 1001 --out wide");
    assert!(
        wide.ok().out.contains("posterior.npz has mean and variance of the 1,001 coordinates"),
        "{}",
        wide.out
    );
    assert_eq!(summary(&place.path("wide"))["posterior"], Value::Null);
    assert_eq!(array(&place.path("wide"), "mean").shape, [1001]);
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --dim 1000 --out listed");
    assert_eq!(numbers(&summary(&place.path("listed"))["posterior"]["mean"]).len(), 1000);
}

#[test]
fn the_numbers_follow_from_the_trace_and_the_clouds() {
    let place = Place::new();
    for (name, flags) in [
        ("pgd", ""),
        ("pqn", "--algorithm pqn --burn-in 10"),
        ("soul", "--algorithm soul --burn-in 0"),
        ("single", "--precision f32"),
        ("grown", "--grow 30:12,50:16 --burn-in 20"),
    ] {
        let flags = by_pgd(flags);
        place.quietly(&format!(
            "fit hierarchical --dim 6 --particles 8 --steps 60 --seed 2 --out {name} {flags}"
        ));
        let run = place.path(name);
        let (json, (_, rows)) = (summary(&run), trace(&run));
        let burn_in = number(&json["settings"]["burn-in"]);
        assert_eq!(numbers(&json["theta"]["last"]), [rows[60][1]]);
        let after: Vec<f64> = rows.iter().filter(|r| r[0] > burn_in).map(|r| r[1]).collect();
        close(&numbers(&json["theta"]["mean"]), &[after.iter().sum::<f64>() / after.len() as f64]);
        let theta = array(&run, "theta");
        assert_eq!(theta.shape, [61, 1]);
        assert!(theta.values.iter().zip(&rows).all(|(t, row)| *t == row[1]));

        let (mean, var) = (numbers(&json["posterior"]["mean"]), numbers(&json["posterior"]["var"]));
        assert_eq!(array(&run, "mean").values, mean);
        assert_eq!(array(&run, "var").values, var);
        // So few particles that no cloud is thinned away: the moments are theirs.
        let clouds = array(&run, "clouds");
        let rows = clouds.shape[0];
        let moment = |f: fn(f64) -> f64| -> Vec<f64> {
            let column = |j| clouds.values.iter().skip(j).step_by(6).map(|v| f(*v)).sum::<f64>();
            (0..6).map(|j| column(j) / rows as f64).collect()
        };
        let (m1, m2) = (moment(|v| v), moment(|v| v * v));
        close(&mean, &m1);
        close(&var, &(0..6).map(|j| m2[j] - m1[j] * m1[j]).collect::<Vec<_>>());
        let last = array(&run, "particles");
        assert_eq!(last.values, clouds.values[clouds.values.len() - last.values.len()..]);
        let particles = if name == "grown" { 16 } else { 8 };
        assert_eq!(last.shape, [particles, 6]);
    }
}

#[test]
fn kept_clouds_are_bounded_and_can_be_left_out() {
    let place = Place::new();
    let flags = "fit hierarchical --algorithm pgd --dim 2 --particles 90";
    place.quietly(&format!("{flags} --steps 1000 --out long"));
    let clouds = array(&place.path("long"), "clouds");
    assert!((5000..=10_000).contains(&clouds.shape[0]), "{:?}", clouds.shape);
    assert_eq!(clouds.shape[0] % 90, 0);
    place.quietly(&format!("{flags} --steps 50 --keep-clouds 0 --out none"));
    assert_eq!(array(&place.path("none"), "clouds").shape, [0, 2]);
    place.quietly(&format!("{flags} --steps 50 --keep-clouds 10 --out ten"));
    assert_eq!(array(&place.path("ten"), "clouds").shape, [3 * 90, 2]);
}

#[test]
fn the_archive_has_fixed_dates() {
    let place = Place::new();
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out run");
    let mut archive = zip::ZipArchive::new(File::open(place.path("run/posterior.npz")).unwrap()).unwrap();
    let mut names = BTreeSet::new();
    for i in 0..archive.len() {
        let entry = archive.by_index(i).unwrap();
        let date = entry.last_modified().unwrap();
        assert_eq!((date.year(), date.month(), date.day(), date.hour()), (1980, 1, 1, 0));
        names.insert(entry.name().unwrap().into_owned());
    }
    for array in ["particles", "mean", "var", "theta", "clouds"] {
        assert!(names.contains(&format!("{array}.npy")), "{names:?}");
    }
}

#[test]
fn the_config_has_everything_but_out_threads_and_quiet() {
    let place = Place::new();
    place.quietly(
        "fit hierarchical --dim 9 --true-theta -2.5 --data-seed 4 --algorithm joint-mh --joint-update pqn \
         --particles 3 --steps 40 --burn-in 10 --step-size 0.0123 --step-decay 0.5,20 --grow 20:6 --adjust-after 2 \
         --warm-start pgd:1x5 --init-theta 0.5 --init-particles prior --seed 11 --precision f32 --trace-every 2 \
         --keep-clouds 4 --checkpoint-every 9 --threads 2 --out run",
    );
    let config: toml::Table = place.text("run/config.toml").parse().unwrap();
    let expected: toml::Table = r#"
        version = 2
        model = "hierarchical"
        [hierarchical]
        dim = 9
        true-theta = -2.5
        data-seed = 4
        [run]
        algorithm = "joint-mh"
        joint-update = "pqn"
        particles = 3
        steps = 40
        burn-in = 10
        step-size = 0.0123
        step-decay = "0.5,20"
        grow = "20:6"
        preconditioner = "none"
        adjust = false
        adjust-after = 2
        warm-start = "pgd:1x5"
        init-theta = 0.5
        init-particles = "prior"
        seed = 11
        precision = "f32"
        trace-every = 2
        keep-clouds = 4
        checkpoint-every = 9
    "#
    .parse()
    .unwrap();
    let mut known = config.clone();
    let sha = known.remove("data-sha256").unwrap();
    assert!(sha.as_str().is_some_and(|s| s.len() == 64 && s.chars().all(|c| c.is_ascii_hexdigit())));
    assert_eq!(known, expected);
    let settings: toml::Table =
        serde_json::from_value(summary(&place.path("run"))["settings"].clone()).unwrap();
    let mut flat = config.clone();
    for table in ["run", "hierarchical"] {
        let inside = flat.remove(table).unwrap();
        flat.extend(inside.as_table().unwrap().clone());
    }
    assert_eq!(settings, flat, "summary.json repeats the config");
}

/// The words of a line.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// Whether a word is a number, rounded to the digits it has, or a dash where there is none.
fn says(word: &str, value: &Value) -> bool {
    let Some(value) = value.as_f64() else { return word == "-" };
    let decimals = word.split_once('.').map_or(0, |(_, digits)| digits.len());
    word.parse::<f64>().is_ok_and(|shown| (shown - value).abs() <= 0.501 * 10f64.powi(-(decimals as i32)))
}

#[test]
fn the_terminal_tells_what_the_summary_says() {
    let place = Place::in_memory();
    for (i, run) in [
        "hierarchical --algorithm pgd --dim 5 --steps 300 --particles 6",
        "hierarchical --dim 30 --steps 40 --algorithm em",
        "hierarchical --dim 2 --steps 60 --algorithm marginal-mh --particles 3 --step-size 0.2",
        "logistic --algorithm pgd --steps 200 --particles 10 --intercept",
        "bnn --steps 20 --particles 3 --subsample 100 --algorithm mean-field",
        "hierarchical --dim 30",
        "logistic --level 0.8",
    ]
    .iter()
    .enumerate()
    {
        let out = format!("run{i}");
        let done = place.motes(&format!("fit {run} --out {out}"));
        done.ok();
        let read = motes::Summary::read(&place.path(&out)).unwrap().unwrap();
        assert_eq!(done.out, motes_app::show::summary(&read, Path::new(&out), Face::Shell), "{run}");
        // And that is what anybody else finds in the file.
        let json = summary(&place.path(&out));
        let number = |v: &Value, digits: usize| v.as_f64().map_or("-".into(), |v| format!("{v:.digits$}"));
        let theta = &json["theta"];
        for (i, name) in theta["names"].as_array().unwrap().iter().enumerate() {
            let interval = &theta["interval"][i];
            let told = |l: &str| {
                let words = words(l);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let [first, estimate, se, between @ .., mc_error] = &words[..] else { return false };
                let between = match between {
                    [low, "to", high] => says(low, &interval[0]) && says(high, &interval[1]),
                    [dash] => says(dash, interval),
                    _ => false,
                };
                *first == name.as_str().unwrap()
                    && says(estimate, &theta["mean"][i])
                    && says(se, &theta["se"][i])
                    && between
                    && says(mc_error, &theta["mc_error"][i])
            };
            assert!(done.out.lines().any(told), "{name} {theta} is not in {}", done.out);
        }
        for c in json["coefficients"].as_array().into_iter().flatten() {
            let sd = c["sd"].as_f64().unwrap();
            let decimals = 1 + (1.0 - sd.log10().floor()).clamp(0.0, 12.0) as usize;
            let [low, high] = [0, 1].map(|i| number(&c["interval"][i], decimals));
            let row = [
                c["name"].as_str().unwrap(),
                &number(&c["mean"], decimals),
                &number(&c["sd"], decimals),
                &low,
                "to",
                &high,
                &number(&c["sign_probability"], 3),
                &number(&c["standardised"]["mean"], 3),
            ]
            .join(" ");
            assert!(done.out.lines().any(|l| words(l).join(" ") == row), "{row} is not in {}", done.out);
        }
        let listed = json["posterior"]["mean"].as_array().filter(|_| json["coefficients"].is_null());
        for (i, mean) in listed.into_iter().flatten().take(12).enumerate() {
            let name = json["posterior"]["names"][i].as_str().unwrap();
            let row = format!("{name} {} ", number(mean, 5));
            assert!(done.out.lines().any(|l| format!("{} ", words(l).join(" ")).starts_with(&row)), "{row}");
        }
        if json["metrics"].is_object() {
            let lppd = number(&json["metrics"]["lppd"], 4);
            let rows = format!(" on {} rows", json["data"]["test_rows"]);
            assert!(done.out.contains(&format!("LPPD {lppd}, ")) && done.out.contains(&rows), "{}", done.out);
        }
    }
}

#[test]
fn coordinates_have_their_names_in_both_files() {
    let place = Place::in_memory();
    place.quietly("fit logistic --algorithm pgd --steps 20 --particles 4 --intercept --out a");
    place.quietly("fit bnn --steps 3 --particles 2 --hidden 2 --subsample 50 --out b");
    let names = |run: &str| {
        let file = File::open(place.path(run).join("posterior.npz")).unwrap();
        let mut bytes = Vec::new();
        zip::ZipArchive::new(file).unwrap().by_name("x_names.npy").unwrap().read_to_end(&mut bytes).unwrap();
        motes::npz::parse_strings(&bytes).unwrap()
    };
    let json = summary(&place.path("a"));
    assert_eq!(json["posterior"]["names"], json!(names("a")));
    let features = json["data"]["features"].as_array().unwrap();
    assert_eq!(names("a").last().unwrap(), "intercept");
    assert!(features.iter().zip(names("a")).all(|(f, name)| *f == name));
    assert_eq!(summary(&place.path("b"))["posterior"], Value::Null);
    assert_eq!((names("b").len(), names("b")[785].as_str()), (1572, "w[1,1]"));
}

#[test]
fn em_is_exact() {
    let place = Place::new();
    let y = [0.5, -1.25, 3.0, 2.0, 0.75];
    let rows: String = y.iter().map(|v| format!("a,{v}\n")).collect();
    place.write("y.csv", format!("name,y\n{rows}"));
    place.quietly("fit hierarchical --algorithm em --data y.csv --steps 60 --init-theta 4 --out run");
    let (json, (_, rows)) = (summary(&place.path("run")), trace(&place.path("run")));
    let mean = y.iter().sum::<f64>() / 5.0;
    assert_eq!(rows[0][1], 4.0);
    for k in 1..=60 {
        close(&[rows[k][1]], &[(mean + rows[k - 1][1]) / 2.0]);
    }
    let theta = numbers(&json["theta"]["last"])[0];
    close(&[theta], &[mean]);
    let exact: Vec<f64> = y.iter().map(|y| (y + theta) / 2.0).collect();
    close(&numbers(&json["posterior"]["mean"]), &exact);
    close(&numbers(&json["posterior"]["var"]), &[0.5; 5]);
    assert_eq!(array(&place.path("run"), "mean").values, numbers(&json["posterior"]["mean"]));
    assert_eq!(array(&place.path("run"), "particles").shape, [0, 5]);
    assert_eq!(json["diagnostics"]["acceptance"], Value::Null);
    assert_eq!(json["diagnostics"]["shadow_acceptance"], Value::Null);
    assert_eq!(json["settings"].get("particles"), None);
}

#[test]
fn rows_with_missing_values_are_dropped_and_counted() {
    let place = Place::new();
    place.write("y.csv", "y,other\n1,a\n?,b\n2,c\n,d\nNA,e\n3,f\n");
    let done = place.motes("fit hierarchical --algorithm em --data y.csv --target y --steps 5 --out run");
    assert!(done.ok().err.contains("3 rows with missing values were dropped"), "{}", done.err);
    close(&numbers(&summary(&place.path("run"))["posterior"]["var"]), &[0.5; 3]);
}
