//! What an analyst takes away from a fit: coefficients on the scale of the columns, and how well test rows are told apart.

use crate::common;

use common::{Dice, Place, array, number, numbers, summary};
use serde_json::Value;

/// So many rows: an age around 50, a dose in thousandths, a colour, and who falls ill.
fn patients(rows: usize, seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut uniform = move || dice.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let mut text = String::from("age,dose,colour,ill\n");
    for _ in 0..rows {
        let age = 50.0 + 10.0 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0);
        let dose = 0.001 * uniform();
        let red = uniform() < 0.4;
        let u = 0.1 * (age - 50.0) - 2000.0 * dose + if red { 1.5 } else { 0.0 };
        let ill = if uniform() < 1.0 / (1.0 + (-u).exp()) { "yes" } else { "no" };
        text += &format!("{age:.1},{dose:.6},{},{ill}\n", if red { "red" } else { "blue" });
    }
    text
}

/// The cells of a file, by the names of its columns.
fn cells(text: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    lines.map(|row| head.iter().cloned().zip(row).collect()).collect()
}

#[test]
fn coefficients_are_on_the_scale_of_the_columns() {
    let place = Place::in_memory();
    place.write("patients.csv", patients(400, 5));
    let done = place.motes("fit logistic --data patients.csv --level 0.9 --out run");
    done.ok();
    for piece in [
        "logit P(ill = yes) = b + sum_d w_d f_d, f: standardised features",
        "w_d ~ N(0, exp(log_variance)), d = 1, ..., 3",
        "b ~ N(0, 100)",
        "320 rows trained on, 80 tested on",
        "90 % interval",
        "colour=red",
        "baseline",
        "AUC",
    ] {
        assert!(done.out.contains(piece), "{piece}:\n{}", done.out);
    }
    let json = summary(&place.path("run"));
    let moments = &json["data"]["moments"];
    let (mean, std) = (numbers(&moments["mean"]), numbers(&moments["std"]));
    let clouds = array(&place.path("run"), "clouds").values;
    let (x, var) = (numbers(&json["posterior"]["mean"]), numbers(&json["posterior"]["var"]));
    let rows = cells(&place.text("run/coefficients.csv"));
    assert_eq!(rows.len(), 4);
    let listed = json["coefficients"].as_array().unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()), "{a} {b}");
    for (j, row) in rows.iter().enumerate() {
        let cell = |name: &str| row[name].parse::<f64>().unwrap();
        let of = |x: &[f64]| match j {
            3 => x[3] - (0..3).map(|i| x[i] * mean[i] / std[i]).sum::<f64>(),
            j => x[j] / std[j],
        };
        close(cell("mean"), of(&x));
        close(cell("standardised_mean"), x[j]);
        close(cell("standardised_sd"), var[j].sqrt());
        let mut draws: Vec<f64> = clouds.chunks(4).map(of).collect();
        draws.sort_by(f64::total_cmp);
        for (name, q) in [("low", 0.05f64), ("high", 0.95)] {
            let at = q * (draws.len() - 1) as f64;
            let (a, b) = (draws[at.floor() as usize], draws[at.ceil() as usize]);
            close(cell(name), a + at.fract() * (b - a));
        }
        let positive = draws.iter().filter(|v| **v > 0.0).count() as f64 / draws.len() as f64;
        close(cell("sign_probability"), if of(&x) > 0.0 { positive } else { 1.0 - positive });
        // The same in summary.json.
        assert_eq!(
            (&listed[j]["name"], number(&listed[j]["mean"])),
            (&Value::from(row["name"].as_str()), cell("mean"))
        );
        close(number(&listed[j]["interval"][0]), cell("low"));
    }
    // What made the data is within four standard deviations.
    for (row, truth) in rows.iter().zip([0.1, -2000.0, 1.5, -5.0]) {
        let (mean, sd) = (row["mean"].parse::<f64>().unwrap(), row["sd"].parse::<f64>().unwrap());
        assert!((mean - truth).abs() < 4.0 * sd, "{row:?}");
    }
    // Without scales the two kinds are the same.
    place.bare("fit logistic --data patients.csv --no-standardize --drop dose --out plain");
    for row in cells(&place.text("plain/coefficients.csv")) {
        assert_eq!((&row["mean"], &row["low"]), (&row["standardised_mean"], &row["standardised_low"]));
    }
}

#[test]
fn test_rows_are_told_apart_as_predictions_say() {
    let place = Place::in_memory();
    place.write("train.csv", patients(200, 1));
    place.write("test.csv", patients(300, 2));
    place.bare("fit logistic --data train.csv --test test.csv --algorithm pgd --steps 400 --particles 50 --keep-clouds 1 --out run");
    let json = summary(&place.path("run"));
    // The last clouds stand for all of them: as close as they are to the averages.
    let predicted = cells(&place.motes("predict run --data test.csv").out);
    let truth: Vec<bool> = cells(&place.text("test.csv")).iter().map(|row| row["ill"] == "yes").collect();
    let p: Vec<f64> = predicted.iter().map(|row| row["p(yes)"].parse().unwrap()).collect();
    let n = p.len() as f64;
    let brier = p.iter().zip(&truth).map(|(p, t)| (p - f64::from(u8::from(*t))).powi(2)).sum::<f64>() / n;
    let pairs = p.iter().zip(&truth).filter(|(_, t)| **t).flat_map(|(a, _)| {
        p.iter().zip(&truth).filter(|(_, t)| !**t).map(move |(b, _)| f64::from(u8::from(a > b)))
    });
    let pairs: Vec<f64> = pairs.collect();
    let auc = pairs.iter().sum::<f64>() / pairs.len() as f64;
    let metrics = &json["metrics"];
    assert!((number(&metrics["brier"]) - brier).abs() < 2e-3, "{metrics} {brier}");
    assert!((number(&metrics["auc"]) - auc).abs() < 2e-3, "{metrics} {auc}");
    let confusion = &json["test"]["confusion"];
    let count = |i: usize, j: usize| number(&confusion[i][j]);
    let wrong = (count(0, 1) + count(1, 0)) / n;
    assert!((wrong - number(&metrics["test_error"])).abs() < 1e-12);
    // Always to say what most training rows are.
    let ill = |name: &str| cells(&place.text(name)).iter().filter(|row| row["ill"] == "yes").count() as f64;
    let baseline = if ill("train.csv") > 100.0 { 1.0 - ill("test.csv") / n } else { ill("test.csv") / n };
    assert!((number(&metrics["baseline_error"]) - baseline).abs() < 1e-12, "{metrics} {baseline}");
    let bins = json["test"]["calibration"].as_array().unwrap();
    assert_eq!(bins.iter().map(|bin| number(&bin["rows"])).sum::<f64>(), n);
    let roc = json["test"]["roc"].as_array().unwrap();
    assert_eq!(
        (&roc[0], roc.last().unwrap()),
        (&serde_json::json!([0.0, 0.0]), &serde_json::json!([1.0, 1.0]))
    );
    let trapezia: f64 = roc
        .windows(2)
        .map(|w| (number(&w[1][0]) - number(&w[0][0])) * 0.5 * (number(&w[1][1]) + number(&w[0][1])))
        .sum();
    assert!((trapezia - number(&metrics["auc"])).abs() < 1e-9, "{trapezia}");
    // The page has all of it.
    place.motes("report run").ok();
    let page = place.text("run/report.html");
    for piece in [
        "data-chart=\"forest\"",
        "data-chart=\"roc\"",
        "data-chart=\"calibration\"",
        "predicted yes",
        "colour=red",
    ] {
        assert!(page.contains(piece), "{piece}");
    }
}

#[test]
fn a_project_can_be_moved_with_its_runs() {
    let place = Place::in_memory();
    std::fs::create_dir_all(place.path("study/data")).unwrap();
    place.write("study/data/patients.csv", patients(80, 3));
    place.bare("fit logistic --data study/data/patients.csv --algorithm pgd --steps 30 --out study/runs/a");
    let config = place.text("study/runs/a/config.toml");
    assert!(config.contains("data = \"../../data/patients.csv\""), "{config}");
    std::fs::rename(place.path("study"), place.path("moved")).unwrap();
    place.motes("resume moved/runs/a --steps 40 --quiet").ok();
    place.bare("fit --config moved/runs/a/config.toml --out again");
    assert_eq!(place.text("moved/runs/a/trace.csv"), place.text("again/trace.csv"));
}

#[test]
fn numbers_and_switches_are_taken_as_people_write_them() {
    let place = Place::in_memory();
    place.bare("fit hierarchical --dim 3 --algorithm pgd --steps 1e2 --adjust false --out a");
    let config = place.text("a/config.toml");
    assert!(config.contains("steps = 100\n") && config.contains("adjust = false"), "{config}");
    place.motes("resume a --steps 1.2e2 --quiet").ok();
    for wrong in ["1.5", "1e-1", "-1e2", "1e40"] {
        place.refuses(&format!("fit hierarchical --algorithm pgd --steps {wrong}"), &["--steps"]);
    }
    // A run that is finished says so.
    let done = place.motes("resume a");
    assert!(
        done.ok().err.contains("the run was finished at step 120, and nothing is left to do"),
        "{}",
        done.err
    );
}

#[test]
fn completions_know_words_and_files() {
    let place = Place::in_memory();
    let fish = place.motes("completions fish").out;
    let algorithm =
        fish.lines().find(|l| l.contains("from hierarchical") && l.contains("-l algorithm ")).unwrap();
    for word in motes::Algorithm::names() {
        assert!(algorithm.contains(word), "{word}: {algorithm}");
    }
    let data = fish.lines().find(|l| l.contains("from logistic") && l.contains("-l data ")).unwrap();
    assert!(data.contains("-r -F"), "{data}");
    for model in motes_models::registry::names() {
        assert!(place.motes("completions bash").out.contains(model), "{model}");
    }
}

/// Three kinds of flowers by two lengths, one of which tells them apart.
fn flowers(rows: usize) -> String {
    let mut dice = Dice(8);
    let mut uniform = move || dice.below(1 << 53) as f64 / (1u64 << 53) as f64;
    let mut text = String::from("petal,sepal,kind\n");
    for _ in 0..rows {
        let kind = (3.0 * uniform()) as usize;
        let normal = |u: &mut dyn FnMut() -> f64| (0..12).map(|_| u()).sum::<f64>() - 6.0;
        let petal = 10.0 + 4.0 * kind as f64 + 3.0 * normal(&mut uniform);
        let sepal = 50.0 + 5.0 * normal(&mut uniform);
        text += &format!("{petal:.2},{sepal:.2},{}\n", ["aster", "briar", "clover"][kind]);
    }
    text
}

#[test]
fn several_classes_have_coefficients_that_add_up_to_zero() {
    let place = Place::in_memory();
    place.write("flowers.csv", flowers(400));
    let done = place.motes("fit multinomial --data flowers.csv --strict --out run");
    done.ok();
    for piece in
        ["P(kind = k) = softmax_k(b_k + sum_d w_kd f_d)", "briar: petal", "clover: intercept", "3 classes"]
    {
        assert!(done.out.contains(piece) || done.err.contains(piece), "{piece}:\n{}", done.out);
    }
    let json = summary(&place.path("run"));
    assert!(json["metrics"]["auc"].is_null() && json["test"]["roc"].is_null());
    assert!(
        number(&json["metrics"]["test_error"]) < 0.5 * number(&json["metrics"]["baseline_error"]),
        "{json}"
    );
    let rows = cells(&place.text("run/coefficients.csv"));
    assert_eq!(rows.len(), 9);
    let of = |name: &str, cell: &str| -> Vec<f64> {
        rows.iter().filter(|row| row["name"] == name).map(|row| row[cell].parse().unwrap()).collect()
    };
    for name in ["petal", "sepal", "intercept"] {
        for cell in ["mean", "standardised_mean"] {
            let values = of(name, cell);
            assert!(values.iter().sum::<f64>().abs() < 1e-9 * (1.0 + values[0].abs()), "{name}: {values:?}");
        }
    }
    let petal = of("petal", "mean");
    assert!(petal[0] < petal[1] && petal[1] < petal[2], "{petal:?}");
    // Predictions follow, by the formula with the means of the coefficients as far as these can tell.
    let done = place.motes("predict run --data flowers.csv");
    let predicted = cells(&done.ok().out);
    let table = cells(&place.text("flowers.csv"));
    let [petal, sepal, intercept] = ["petal", "sepal", "intercept"].map(|name| of(name, "mean"));
    for (row, given) in predicted.iter().zip(&table) {
        let value = |name: &str| given[name].parse::<f64>().unwrap();
        let logits: Vec<f64> =
            (0..3).map(|k| intercept[k] + petal[k] * value("petal") + sepal[k] * value("sepal")).collect();
        let sum: f64 = logits.iter().map(|l| l.exp()).sum();
        for (k, kind) in ["aster", "briar", "clover"].into_iter().enumerate() {
            let p: f64 = row[&format!("p({kind})")].parse().unwrap();
            assert!((p - logits[k].exp() / sum).abs() < 0.03, "{row:?} {logits:?}");
        }
    }
    let page = place.text("run/report.html");
    assert!(page.contains("data-chart=\"calibration\"") && !page.contains("data-chart=\"roc\""));
    // Bits depend on neither threads nor interruptions.
    let pgd = "fit multinomial --data flowers.csv --algorithm pgd --particles 8 --burn-in 5 --batch 50";
    place.bare(&format!("{pgd} --steps 30 --threads 1 --out one"));
    place.bare(&format!("{pgd} --steps 15 --threads 3 --out two"));
    place.motes("resume two --steps 30 --threads 2 --no-report --quiet").ok();
    common::same_bits(&place.path("one"), &place.path("two"));
    place.refuses("fit multinomial", &["has no data of its own", "--data"]);
    place.motes("check-model multinomial --data flowers.csv").ok();
}

#[test]
fn rows_count_as_often_as_a_column_says() {
    let place = Place::in_memory();
    let text = flowers(120);
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let (mut weighted, mut repeated) = (format!("n,{head}\n"), format!("{head}\n"));
    for (i, line) in lines.enumerate() {
        weighted += &format!("{},{line}\n", 1 + i % 3);
        (0..1 + i % 3).for_each(|_| repeated += &format!("{line}\n"));
    }
    place.write("weighted.csv", weighted);
    place.write("repeated.csv", repeated);
    let how = "--test-fraction 0 --tolerance 0.02";
    place.bare(&format!("fit multinomial --data weighted.csv --weights n {how} --out a"));
    place.bare(&format!("fit multinomial --data repeated.csv {how} --out b"));
    let [a, b] = ["a", "b"].map(|run| summary(&place.path(run)));
    let of = |json: &Value, key: &str| number(&json["theta"][key][0]);
    let apart = (of(&a, "mean") - of(&b, "mean")).abs();
    assert!(apart < 4.0 * of(&a, "mc_error").hypot(of(&b, "mc_error")), "{apart}");
    let value = |json: &Value| number(&json["log_likelihood"]["value"]);
    assert!((value(&a) - value(&b)).abs() < 0.1, "{} {}", value(&a), value(&b));
    assert_eq!(a["log_likelihood"]["n"], b["log_likelihood"]["n"]);
    let moments = |json: &Value| numbers(&json["data"]["moments"]["std"]);
    assert!(moments(&a).iter().zip(moments(&b)).all(|(a, b)| (a - b).abs() < 1e-9 * b), "{a} {b}");
    let said = place.motes("compare a b --no-report").out;
    assert!(said.contains("count rows differently"), "{said}");
    assert!(said.contains("weights are those of standardised features"), "{said}");
    place.refuses(
        "fit multinomial --data weighted.csv --weights kind",
        &["--weights", "'kind'", "is the target"],
    );
    place.refuses(
        "fit bnn --data weighted.csv --weights n",
        &["--weights belongs to the models logistic and multinomial"],
    );
    place.write("wrong.csv", "n,x,y\n1,2,a\n-1,3,b\n1,1,a\n1,2,b\n");
    place.refuses("fit multinomial --data wrong.csv --weights n", &["row 2", "-1", "'n'", "0 or more"]);
    place.refuses("fit multinomial --data wrong.csv --weights m", &["no column 'm'", "--weights"]);
}

#[test]
fn a_variance_without_a_maximum_is_on_the_boundary() {
    let place = Place::in_memory();
    let mut dice = Dice(2);
    let mut noise = String::from("a,b,c,y\n");
    for i in 0..200 {
        let cells: Vec<String> = (0..3).map(|_| dice.below(1000).to_string()).collect();
        noise += &format!("{},{}\n", cells.join(","), if i % 2 == 0 { "no" } else { "yes" });
    }
    place.write("noise.csv", &noise);
    let mut apart = String::from("a,b,y\n");
    for i in 0..40 {
        let side = if i % 2 == 0 { -1.0 } else { 1.0 };
        apart += &format!(
            "{},{},{}\n",
            side * (1.0 + 0.1 * i as f64),
            dice.below(100),
            if i % 2 == 0 { "no" } else { "yes" }
        );
    }
    place.write("apart.csv", &apart);
    for (model, file, said) in [
        ("logistic", "noise", "no better than chance"),
        ("logistic", "apart", "'no' and 'yes' are separated"),
        ("multinomial", "noise", "no better than chance"),
        ("multinomial", "apart", "the classes are separated"),
    ] {
        let run = format!("{model}-{file}");
        let done = place.motes(&format!("fit {model} --data {file}.csv --test-fraction 0 --out {run}"));
        assert!(done.ok().err.contains(said), "{}", done.err);
        let json = summary(&place.path(&run));
        let (verdict, advice) = (&json["diagnostics"]["verdict"], json["diagnostics"]["advice"].as_str());
        assert_eq!(verdict, "boundary", "{file}: {}", done.out);
        assert!(
            advice.unwrap().contains("predictions can be used") || advice.unwrap().contains("boundary"),
            "{advice:?}"
        );
        let predicted = cells(&place.motes(&format!("predict {run} --data {file}.csv")).ok().out);
        assert!(predicted.iter().all(|row| row["p(yes)"].parse::<f64>().unwrap().is_finite()));
    }
}
