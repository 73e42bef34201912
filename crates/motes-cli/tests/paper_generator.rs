//! `motes paper table4` at a size that takes seconds: the real binary, stopped and gone on with.

use crate::common;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Done, Place, tidy};

const TINY: &str = "paper table4 --quick --steps 2 --inpaint 1";

/// The numbers of the table without what depends on the clock.
fn timeless(csv: &str) -> Vec<&str> {
    csv.lines().filter(|line| !line.contains("time, s")).collect()
}

#[test]
fn generators_are_tried_and_shown_as_another_scale() {
    let place = Place::new();
    fs::create_dir(place.path("docs")).unwrap();
    let call = format!("{TINY} --docs docs --out p");
    let child = place.spawn(&call);
    let began = Instant::now();
    let at_work = || {
        let runs = fs::read_dir(place.path("p/trained")).into_iter().flatten().flatten();
        runs.filter(|run| run.path().join("config.toml").exists()).count() > 0
    };
    while !at_work() {
        assert!(began.elapsed() < Duration::from_secs(60), "no training begins");
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
    let asked = Instant::now();
    let stopped = Done::wait(child);
    assert_eq!(stopped.code, Some(1), "{}", stopped.err);
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    assert!(stopped.err.contains(&format!("go on with: motes {call}")), "{}", stopped.err);

    let done = place.motes(&call);
    done.ok();
    assert!(done.err.contains("table4: done, 5 replicates"), "{}", done.err);
    assert!(done.out.starts_with("table4\n") && done.out.contains("p/report.html"), "{}", done.out);
    tidy(&place.path("p"));
    // A break changes no number, nor does the number of workers.
    place.motes(&format!("{TINY} --jobs 1 --out whole")).ok();
    let csv = place.text("p/table4.csv");
    assert_eq!(timeless(&csv), timeless(&place.text("whole/table4.csv")));
    assert_eq!(csv.lines().count(), 1 + 5 * 4);
    let pgd = csv.lines().find(|l| l.starts_with("PGD,2,inpainting MSE x 100,MNIST,")).expect("a cell");
    assert!(pgd.ends_with(",1,4.1,0.3,3,another scale"), "{pgd}");
    assert_eq!(csv.matches("another scale").count(), 4);
    let mse: f64 = pgd.split(',').nth(4).unwrap().parse().unwrap();
    // Values are within [-1, 1], and even an untrained network finds grey.
    assert!(mse > 1.0 && mse < 200.0, "{mse}");

    let results = place.text("docs/results.md");
    for piece in [
        "Another scale than the paper's: M = 1,000 training images (10,000 in the paper), N = 2 particles (10 in the paper)",
        "K = 2 steps (39,500 in the paper), images inpainted: 1 (1,000 in the paper), replicates: 1 (3 in the paper).",
        "| PGD, one pass | N = 2 | – |",
        "| ABP | n = 10 | 5.2 ± 0.1 |",
        "| SR | n = 10 | 7.4 ± 0.3 |",
        "| VAE | – | 10 ± 0.7 |",
        "FID needs the weights",
        "images/paper/table4-pictures.png",
        "Nothing here confirms or contradicts",
    ] {
        assert!(results.contains(piece), "{piece} is not in {results}");
    }
    assert!(!results.contains("*agrees*") && !results.contains("*differs"));
    let png = fs::read(place.path("docs/images/paper/table4-pictures.png")).unwrap();
    let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    // An image, the same with a hole, and as each of five algorithms fills it.
    assert_eq!((reader.info().width, reader.info().height), (68 + 4, 7 * 68 + 4));
    let page = place.text("p/report.html");
    assert!(page.contains("src=\"data:image/png;base64,iVBOR") && page.contains("img-src data:"));

    // Each generator can be used on.
    let run = "p/trained/generator-pgd-1000-2-0";
    assert!(place.path(run).join("weights.safetensors").exists());
    let again = place.motes(&call);
    assert!(again.ok().err.contains("5 of them reused"), "{}", again.err);
}

#[test]
fn sizes_without_the_table_are_refused() {
    let place = Place::new();
    place.refuses("paper fig1 --steps 5", &["--steps belongs to table4", "leave --steps out"]);
    place.refuses("paper --inpaint 5", &["--inpaint belongs to table4", "name that item"]);
    place.refuses("paper table4 --steps 0", &["--steps 0", "leave it out"]);
    place.refuses("paper table4 --inpaint 2001", &["--inpaint 2001 is not from 1 to 2000"]);
}
