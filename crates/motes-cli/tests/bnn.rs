//! The Bayesian neural network on the command line: images, tables, all algorithms, predictions, bits and refusals.

use crate::common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::{Dice, Done, Place, gzip, idx, number, numbers, same_bits, summary};

/// A fit of the embedded images that takes a moment.
const SMALL: &str = "fit bnn --subsample 60 --hidden 4 --particles 3 --steps 12";
/// Images of this many rows and columns.
const SIDE: usize = 6;

/// Images with a bright row for their label, which is 3, 5 or 8, and some noise; and the labels.
fn images(count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut dice = Dice(5);
    let labels: Vec<u8> = (0..count).map(|_| [3, 5, 8][dice.below(3) as usize]).collect();
    let mut pixels = Vec::new();
    for label in &labels {
        for i in 0..SIDE * SIDE {
            let bright = i / SIDE == usize::from(*label) % SIDE;
            pixels.push(if bright { 150 + dice.below(100) } else { dice.below(60) } as u8);
        }
    }
    (idx(&[count, SIDE, SIDE], &pixels), idx(&[count], &labels))
}

/// A place with the images in `images` and `labels`.
fn place_with_images(count: usize) -> Place {
    let place = Place::in_memory();
    let (images, labels) = images(count);
    place.write("images", images);
    place.write("labels", labels);
    place
}

/// Header and rows of a CSV file of predictions.
fn predictions(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|l| l.split(',').map(String::from).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

/// Expects probabilities that add up to 1 and classes that have the largest.
#[track_caller]
fn sound(text: &str, classes: &[&str], count: usize) -> Vec<String> {
    let (header, rows) = predictions(text);
    let names: Vec<String> = classes.iter().map(|c| format!("p({c})")).collect();
    let words = |words: [&str; 2]| words.map(String::from).to_vec();
    assert_eq!(header, [words(["row", "class"]), names, words(["low", "high"])].concat());
    assert_eq!(rows.len(), count);
    for row in &rows {
        let p: Vec<f64> = row[2..2 + classes.len()].iter().map(|p| p.parse().unwrap()).collect();
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12 && p.iter().all(|p| (0.0..=1.0).contains(p)));
        let best = p.iter().copied().fold(0.0, f64::max);
        assert_eq!(p[classes.iter().position(|c| *c == row[1]).unwrap()], best);
    }
    rows.into_iter().map(|mut row| row.swap_remove(1)).collect()
}

#[test]
fn the_defaults_are_those_of_the_paper() {
    let place = Place::in_memory();
    let done = place.motes("fit bnn --particles 2 --steps 4 --out shape");
    done.ok();
    let told = "800 rows to train on, 200 to test on, 784 inputs, 40 hidden units";
    assert!(done.err.contains(told) && done.err.contains("images of 4, 9 as classes 0 to 1"), "{}", done.err);
    assert!(done.err.contains("step size 0.1 (auto)"), "{}", done.err);
    for piece in ["alpha", "beta", "LPPD", "on 200 rows", "verdict"] {
        assert!(done.out.contains(piece), "{piece}:\n{}", done.out);
    }
    let config = place.text("shape/config.toml");
    for line in [
        "classes = [4, 9]",
        "subsample = 1000",
        "hidden = 40",
        "precision = \"f32\"",
        "preconditioner = \"diagonal\"",
        "init-particles = \"prior\"",
        "products = \"auto\"",
    ] {
        assert!(config.lines().any(|l| l == line), "{line}:\n{config}");
    }
    // The numbers of particles and steps, on fewer images.
    place.bare("fit bnn --subsample 20 --hidden 1 --out numbers");
    let s = summary(&place.path("numbers"));
    assert_eq!((&s["settings"]["particles"], &s["steps"]), (&100.into(), &500.into()));
    assert_eq!(s["theta"]["names"], serde_json::json!(["alpha", "beta"]));
    assert!(s["posterior"]["mean"].as_array().unwrap().len() == 786 && number(&s["metrics"]["lppd"]) < 0.0);
}

#[test]
fn images_are_read_plain_and_zipped_and_classes_chosen() {
    let place = place_with_images(90);
    let (images, labels) = images(90);
    place.write("images.gz", gzip(&images));
    place.write("labels.gz", gzip(&labels));
    let fit = "fit bnn --subsample 0 --hidden 5 --particles 8 --steps 60 --classes 8,3,5";
    place.bare(&format!("{fit} --data images --labels labels --out plain"));
    place.bare(&format!("{fit} --data images.gz --labels labels.gz --out zipped"));
    assert_eq!(place.text("plain/trace.csv"), place.text("zipped/trace.csv"));
    // What was zipped in parts is one file.
    place.write("parts.gz", [gzip(&images[..100]), gzip(&images[100..])].concat());
    place.bare(&format!("{fit} --data parts.gz --labels labels --out parts"));
    assert_eq!(place.text("plain/trace.csv"), place.text("parts/trace.csv"));
    let s = summary(&place.path("plain"));
    assert_eq!(s["data"]["classes"], serde_json::json!(["8", "3", "5"]));
    assert_eq!((&s["data"]["inputs"], &s["data"]["train_rows"]), (&36.into(), &72.into()));
    // A bright row is easily told.
    assert!(number(&s["metrics"]["test_error"]) < 0.1, "{}", s["metrics"]);
    place.motes("predict plain --data images --output p.csv").ok();
    place.motes("predict plain --data images.gz --output q.csv").ok();
    assert_eq!(place.text("p.csv"), place.text("q.csv"));
    let told = sound(&place.text("p.csv"), &["8", "3", "5"], 90);
    let right = told.iter().zip(&labels[8..]).filter(|(told, label)| **told == label.to_string()).count();
    assert!(right >= 85, "{right} of 90");
    // Two of the classes, and some of their images.
    let two = SMALL.replace("--subsample 60", "--subsample 30");
    place.bare(&format!("{two} --data images --labels labels --classes 5,8 --out two"));
    let s = summary(&place.path("two"));
    assert_eq!((&s["data"]["train_rows"], &s["data"]["test_rows"]), (&24.into(), &6.into()));
    // A run is resumed from anywhere.
    let mut elsewhere = common::motes();
    elsewhere.arg("resume").arg(place.path("two")).args(["--steps", "14", "--quiet"]).current_dir("/");
    let done = Done::of(&mut elsewhere);
    done.ok();
}

#[test]
fn tables_with_several_classes_are_fitted_and_predicted() {
    let place = Place::in_memory();
    let mut dice = Dice(9);
    let mut csv = String::from("id,left,right,kind\n");
    for i in 0..120 {
        let kind = ["ash", "\"oak, red\"", "yew"][dice.below(3) as usize];
        let at = match kind {
            "ash" => (0, 10),
            "yew" => (10, 0),
            _ => (10, 10),
        };
        let left = if i == 7 { "?".into() } else { (at.0 + dice.below(4)).to_string() };
        csv.push_str(&format!("{i},{left},{},{kind}\n", at.1 + dice.below(4)));
    }
    place.write("trees.csv", &csv);
    let done =
        place.motes("fit bnn --data trees.csv --drop id --hidden 6 --particles 20 --steps 200 --out run");
    assert!(done.ok().err.contains("1 row with missing values was dropped"), "{}", done.err);
    assert!(done.err.contains("kind: 'ash' is 0, 'oak, red' is 1, 'yew' is 2"), "{}", done.err);
    let s = summary(&place.path("run"));
    assert_eq!(s["data"]["rows_dropped"], 1);
    assert_eq!(s["data"]["classes"], serde_json::json!(["ash", "oak, red", "yew"]));
    assert_eq!(s["data"]["features"], serde_json::json!(["left", "right"]));
    assert!(number(&s["metrics"]["test_error"]) < 0.1, "{}", s["metrics"]);
    place.write("new.csv", "right,left\n11,1\n1,11\n11,11\n?,1\n");
    let done = place.motes("predict run --data new.csv");
    assert!(done.ok().err.contains("1 row with missing values gets no prediction"), "{}", done.err);
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines[0], "row,class,p(ash),\"p(oak, red)\",p(yew),low,high");
    for (line, begin) in lines[1..].iter().zip(["1,ash,", "2,yew,", "3,\"oak, red\","]) {
        assert!(line.starts_with(begin), "{line}");
        let cells: Vec<f64> = line.rsplit(',').take(5).map(|p| p.parse().unwrap()).collect();
        let (high, low, p) = (cells[0], cells[1], &cells[2..]);
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(0.0 <= low && low <= high && high <= 1.0 && p.iter().any(|p| low <= *p), "{line}");
    }
    assert_eq!(lines.len(), 4);
    place.refuses("fit bnn --data trees.csv --classes 1,2", &["--classes", "for images", "leave them out"]);
    place.write("inf.csv", "right,left\n1,inf\n");
    let sentence = place.refuses("predict run --data inf.csv", &["'inf'", "write ? if it is missing"]);
    assert!(!sentence.contains("--drop"), "{sentence}");
    place.write("zipped.csv.gz", gzip(csv.as_bytes()));
    place.bare("fit bnn --data zipped.csv.gz --drop id --hidden 6 --particles 20 --steps 200 --out zipped");
    assert_eq!(summary(&place.path("zipped"))["metrics"], s["metrics"]);
    place.write("images", images(3).0);
    place.refuses("predict run --data images", &["images begins like an IDX file", "; give a CSV"]);
    // The test set may be a file of its own.
    let (train, test) = csv.split_at(csv.match_indices('\n').nth(90).unwrap().0 + 1);
    place.write("train.csv", train);
    place.write("test.csv", format!("id,left,right,kind\n{test}"));
    place.bare(
        "fit bnn --data train.csv --test test.csv --drop id --hidden 6 --particles 20 --steps 200 --out own",
    );
    let s = summary(&place.path("own"));
    assert_eq!((&s["data"]["train_rows"], &s["data"]["test_rows"]), (&89.into(), &30.into()));
    assert!(number(&s["metrics"]["test_error"]) < 0.1, "{}", s["metrics"]);
    place.refuses("fit bnn --test test.csv", &["--test", "for CSV files", ";"]);
    // Many classes are welcome where each has rows; a column of numbers is no class.
    let rows = |most: usize| (0..300).map(|i| format!("{},{}\n", i % 7, i % most)).collect::<String>();
    place.write("many.csv", format!("a,kind\n{}", rows(30)));
    place.bare("fit bnn --data many.csv --hidden 2 --particles 2 --steps 3 --out many");
    assert_eq!(summary(&place.path("many"))["data"]["classes"].as_array().unwrap().len(), 30);
    // Standardised by a small deviation, two huge features add up to no number.
    let small = |i| format!("0.0{},0.0{},{}\n", i % 7, i % 5, i % 2);
    place.write("small.csv", format!("a,b,kind\n{}", (0..60).map(small).collect::<String>()));
    place.bare("fit bnn --data small.csv --hidden 3 --particles 5 --steps 3 --out small");
    place.write("huge.csv", "a,b\n1,1\n1.7e308,1.7e308\n");
    place.refuses(
        "predict small --data huge.csv",
        &["row 2 has features that are too large", "; correct them"],
    );
    place.write("numbers.csv", format!("a,kind\n{}", rows(150)));
    place.refuses("fit bnn --data numbers.csv", &["150 classes", "--target"]);
}

#[test]
fn a_mean_field_predicts_with_the_draws_of_its_metrics() {
    let place = place_with_images(90);
    place.bare(
        "fit bnn --data images --labels labels --classes 3,5,8 --subsample 0 --hidden 3 --algorithm mean-field --particles 2 --steps 20 --test-fraction 0.5 --precision f64 --out run",
    );
    place.motes("predict run --data images --output p.csv").ok();
    let (_, rows) = predictions(&place.text("p.csv"));
    let labels = &images(90).1[8..];
    // The order of scikit-learn's split is that of the summary's test rows; all that counts here is the mean over them.
    let split = motes_models::data::train_test_split(90, 0.5, 0).unwrap();
    let lppd: f64 = split
        .test
        .iter()
        .map(|i| {
            let class = [3, 5, 8].iter().position(|c| *c == labels[*i]).unwrap();
            rows[*i][2 + class].parse::<f64>().unwrap().ln()
        })
        .sum::<f64>()
        / split.test.len() as f64;
    let told = number(&summary(&place.path("run"))["metrics"]["lppd"]);
    assert!((lppd - told).abs() < 1e-9, "{lppd} and {told}");
}

#[test]
fn every_algorithm_fits_it() {
    let place = place_with_images(60);
    let base = "fit bnn --data images --labels labels --classes 3,8 --subsample 0 --hidden 3 --particles 4 --steps 30";
    let mut seen = Vec::new();
    for algorithm in ["pgd", "pqn", "pmgd", "soul", "mean-field", "marginal-mh", "joint-mh"] {
        place.quietly(&format!("{base} --algorithm {algorithm} --out {algorithm}"));
        let s = summary(&place.path(algorithm));
        assert_eq!(s["theta"]["names"], serde_json::json!(["alpha", "beta"]), "{algorithm}");
        assert!(numbers(&s["theta"]["last"]).iter().all(|t| t.is_finite()), "{algorithm}");
        assert!((0.0..=1.0).contains(&number(&s["metrics"]["test_error"])), "{algorithm}");
        assert_eq!(s["posterior"]["mean"].as_array().unwrap().len(), 3 * (36 + 2), "{algorithm}");
        seen.push(place.text(&format!("{algorithm}/trace.csv")));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 7, "all differ");
    place.refuses("fit bnn --algorithm em", &["em needs exact E- and M-steps", "bnn"]);
    // Mini-batches, which other algorithms than those with accept-reject take.
    place.bare(&format!("{base} --batch 10 --out batch"));
    assert!(place.text("batch/trace.csv") != place.text("pgd/trace.csv"));
    place.bare(&format!("{base} --batch 10 --products dense --out dense"));
    assert_eq!(place.text("batch/trace.csv"), place.text("dense/trace.csv"), "batches are dense always");
    place.refuses(
        &format!("{base} --batch 10 --adjust"),
        &["--adjust needs all data in each step, so it refuses --batch"],
    );
    place.refuses(&format!("{base} --batch 1000"), &["--batch 1000 is more than the", "data terms"]);
}

#[test]
fn adjusting_accepts_next_to_nothing_and_says_so() {
    let place = Place::in_memory();
    let done = place.motes(
        "fit bnn --subsample 200 --hidden 10 --particles 4 --steps 300 --adjust --adjust-after 50 --out run",
    );
    done.ok();
    let s = summary(&place.path("run"));
    assert_eq!(s["diagnostics"]["verdict"], "low-acceptance");
    assert!(number(&s["diagnostics"]["acceptance"]) < 0.05);
    let verdict = done.out.lines().find(|l| l.contains("verdict")).unwrap();
    assert!(verdict.contains("accepted") && verdict.contains("--step-size"), "{verdict}");
}

#[test]
fn metrics_along_the_run_end_in_those_of_the_summary() {
    let place = Place::in_memory();
    place.bare(&format!("{SMALL} --metrics-every 4 --out run"));
    let text = place.text("run/trace.csv");
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(rows[0], ["k", "alpha", "beta", "test_error", "lppd"]);
    for (k, row) in rows[1..].iter().enumerate() {
        assert_eq!(row[3].is_empty() || row[4].is_empty(), k % 4 != 0, "{row:?}");
    }
    let s = summary(&place.path("run"));
    let last: Vec<f64> = rows.last().unwrap()[3..].iter().map(|v| v.parse().unwrap()).collect();
    assert_eq!(last, [number(&s["metrics"]["test_error"]), number(&s["metrics"]["lppd"])]);
}

#[test]
fn its_derivatives_are_checked() {
    let place = Place::in_memory();
    let done = place.motes("check-model bnn --subsample 20 --hidden 2");
    assert!(done.ok().err.is_empty(), "{}", done.err);
    for piece in ["theta-gradient", "x-gradient", "theta-Hessian", "M-step"] {
        let line = done.out.lines().find(|l| l.starts_with(piece));
        assert!(line.is_some_and(|l| l.ends_with("ok")), "{piece}:\n{}", done.out);
    }
}

#[test]
fn threads_and_interruptions_change_no_bit() {
    let place = place_with_images(50);
    for (algorithm, particles) in [("pgd", 4), ("pgd", 1), ("soul", 3), ("mean-field", 4)] {
        // The Gaussian of mean-field is drawn from for its metrics as often as draws are kept: smaller images will do.
        let data = match algorithm {
            "mean-field" => "--data images --labels labels --classes 3,8 --subsample 0",
            _ => "--subsample 200",
        };
        let fit = format!(
            "fit bnn {data} --hidden 11 --algorithm {algorithm} --particles {particles} --steps 9 --burn-in 3"
        );
        let name = |what: &str| format!("{algorithm}-{particles}-{what}");
        place.bare(&format!("{fit} --threads 1 --out {}", name("1")));
        for threads in ["2", "3", "5"] {
            place.bare(&format!("{fit} --threads {threads} --out {}", name(threads)));
            same_bits(&place.path(&name("1")), &place.path(&name(threads)));
        }
        place.bare(&format!("{} --out {}", fit.replace("--steps 9", "--steps 5"), name("part")));
        place.bare(&format!("resume {} --steps 9", name("part")));
        same_bits(&place.path(&name("1")), &place.path(&name("part")));
        place.bare(&format!("fit --config {} --out {}", name("1/config.toml"), name("again")));
        same_bits(&place.path(&name("1")), &place.path(&name("again")));
    }
}

#[test]
fn products_are_chosen_and_agree() {
    let place = Place::in_memory();
    let last = |way: &str| {
        place.bare(&format!("{SMALL} --precision f64 --products {way} --out {way}"));
        assert!(place.text(&format!("{way}/config.toml")).contains(&format!("products = \"{way}\"")));
        numbers(&summary(&place.path(way))["theta"]["last"])
    };
    let full = last("full");
    for way in ["auto", "dense", "sparse"] {
        let theta = last(way);
        assert!(theta.iter().zip(&full).all(|(a, b)| (a - b).abs() < 1e-9), "{way}: {theta:?} {full:?}");
    }
    // Images are sparse, and chosen to be; the sums of the other ways are taken in other orders.
    assert_eq!(place.text("auto/trace.csv"), place.text("sparse/trace.csv"));
    assert!(place.text("dense/trace.csv") != place.text("sparse/trace.csv"));
    place.refuses("fit logistic --products dense", &["--products belongs to the model bnn", "leave it out"]);
    place.refuses("fit hierarchical --products dense", &["--products belongs to the model bnn"]);
    place.refuses(&format!("{SMALL} --products spares"), &["'spares'", "did you mean sparse?"]);
    assert!(place.motes("fit bnn --help").out.contains("--products"));
}

#[test]
fn bad_input_ends_in_one_sentence() {
    let place = place_with_images(40);
    let (good, labels) = images(40);
    let own = "fit bnn --classes 3,8 --subsample 0 --hidden 3 --data";
    place.write("magic", [&[0, 0, 13, 3], &good[4..]].concat());
    place.refuses(&format!("{own} magic --labels labels"), &["magic is not an IDX file of images", "; give"]);
    place.refuses(
        &format!("{own} images --labels images"),
        &["images is not an IDX file of labels", "; give"],
    );
    let zipped = gzip(&good);
    place.write("cut.gz", &zipped[..zipped.len() / 2]);
    place.refuses(&format!("{own} cut.gz --labels labels"), &["cut.gz ", "; download it again"]);
    place.write("cut", &good[..good.len() - 1]);
    place.refuses(&format!("{own} cut --labels labels"), &["cut ", "; download it again"]);
    place.write("short", idx(&[39], &labels[8..47]));
    place.refuses(
        &format!("{own} images --labels short"),
        &["40 images but 39 labels", "; give the two files"],
    );
    place.refuses(&format!("{own} images --labels none"), &["none", "check the path"]);
    place.refuses(&format!("{own} images"), &["images need their labels", "--labels"]);
    place.refuses("fit bnn --labels labels", &["--labels belong to images", "--data"]);
    for (flags, pieces) in [
        ("--classes 3,7", &["no image has the label 7", ";"][..]),
        ("--classes 3", &["not two or more", ";"]),
        ("--classes 3,3", &["not two or more", ";"]),
        ("--classes 3,300", &["300", ";"]),
        ("--hidden 0", &["0 hidden units", ";"]),
        ("--subsample 41", &["cannot draw 41 of the", "; choose a number"]),
        ("--data-seed 5000000000", &["--data-seed 5000000000", ";"]),
        ("--target 3", &["--target", "for CSV files", ";"]),
        ("--test-fraction 1.5", &["1.5", ";"]),
        ("--intercept", &["--intercept belongs to the model logistic"]),
        ("--dim 3", &["--dim belongs to the model hierarchical"]),
    ] {
        let mut call = "fit bnn --data images --labels labels".to_string();
        for (flag, default) in [("--classes", "3,8"), ("--subsample", "0"), ("--hidden", "3")] {
            if !flags.starts_with(flag) {
                call.push_str(&format!(" {flag} {default}"));
            }
        }
        place.refuses(&format!("{call} {flags}"), pieces);
    }
    place
        .refuses("fit bnn --subsample 5000 --classes 4,9", &["cannot draw 5000 of the", "; choose a number"]);
    place.bare(&format!("{own} images --labels labels --steps 4 --out run"));
    place.write("wide", idx(&[2, 3, 4], &[7; 24]));
    place.refuses("predict run --data wide", &["images of 3 x 4 pixels", "36 inputs", "; give images"]);
    place.refuses("predict run --data labels", &["labels is not an IDX file of images", "; give"]);
}

#[test]
fn progress_has_a_rate_and_an_eta() {
    let place = Place::in_memory();
    let call = "fit bnn --subsample 200 --hidden 10 --particles 20 --burn-in 10 --trace-every 1000";
    let mut command = Command::new("script");
    let on_terminal = format!("{} {call} --steps 120 --out bar", env!("CARGO_BIN_EXE_motes"));
    command.args(["-qec", &on_terminal, "/dev/null"]).current_dir(place.path("")).stdin(Stdio::null());
    match command.env("TERM", "xterm").env("COLUMNS", "120").output() {
        Ok(output) => {
            let shown = String::from_utf8_lossy(&output.stdout);
            for piece in ["/120 steps", "steps/s", "ETA", "verdict"] {
                assert!(shown.contains(piece), "{piece}: {shown:?}");
            }
        }
        Err(e) => println!("skipped: no pseudo-terminal by script ({e})"),
    }
    let mut child = place.spawn(&format!("{call} --steps 1000000 --out lines"));
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.map(|l| l.unwrap()).find(|l| l.starts_with("step ") && l.contains(" of ")).unwrap();
    assert!(
        line.contains(" of 1000000, ") && line.contains(" steps/s, ") && line.ends_with(" to go"),
        "{line}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}
