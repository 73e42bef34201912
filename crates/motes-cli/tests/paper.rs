//! `motes paper`: files that hold what they promise, replicates that are never done twice, refusals in one sentence.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Done, Place, tidy};
use serde_json::Value;

/// The numbers of a table without what depends on the clock.
fn timeless(csv: &str) -> Vec<&str> {
    csv.lines().filter(|line| !line.contains("time, s")).collect()
}

/// A stored replicate without the time it took.
fn replicate(path: &Path) -> Value {
    let mut json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for outcome in json["outcomes"].as_array_mut().unwrap() {
        outcome.as_object_mut().unwrap().remove("seconds").expect("an outcome knows its time");
    }
    json
}

/// The names of stored replicates.
fn replicates(place: &Place, out: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(out).join("replicates")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with('.')); // which is on its way
    names.sort();
    names
}

/// Width, height, and how many pixels are neither white nor nearly so.
fn ink(png: &[u8]) -> (u32, u32, usize) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let channels = info.color_type.samples();
    let dark = pixels.chunks_exact(channels).filter(|p| p[..3].iter().any(|v| *v < 200)).count();
    (info.width, info.height, dark)
}

#[test]
fn a_small_run_leaves_tables_figures_and_pages() {
    let place = Place::new();
    let done = place.motes("paper radii fig1 fig3 table1 --replicates 2 --out p");
    done.ok();
    assert!(done.err.contains("table1: done, 4 replicates"), "{}", done.err);
    assert!(
        done.out.contains("cells agree with the paper") && done.out.contains("p/report.html"),
        "{}",
        done.out
    );
    tidy(&place.path("p"));

    // Both split conventions, the authors' formula, the paper's numbers, and a verdict for each of them.
    let csv = place.text("p/table1.csv");
    let pgd = csv.lines().find(|l| l.starts_with("PGD,100,\"error, %\",fixed split,")).expect("a cell");
    let fields: Vec<&str> = pgd.split("fixed split,").nth(1).unwrap().split(',').collect();
    assert_eq!(&fields[2..6], ["2", "3.46", "0.32", "100"]);
    assert!(fields[6] == "agrees" || fields[6].starts_with("differs: "), "{pgd}");
    // The fixed split has 137 rows to test on: errors are multiples of 1/137, near the exact posterior's 4/137.
    let error: f64 = fields[0].parse().unwrap();
    let wrong = error * 1.37 * 2.0;
    assert!((wrong - wrong.round()).abs() < 1e-9 && (2.0..6.0).contains(&error), "{error}");
    assert_eq!(csv.lines().count(), 1 + 15 * 5);
    let markdown = place.text("p/table1.md");
    for piece in
        ["2 replicates, fewer than the paper's 100", "3.46 ± 0.32", "MFG-VI", "authors' predict", "(9)"]
    {
        assert!(markdown.contains(piece), "{piece}");
    }
    let radii = place.text("p/radii.csv");
    assert!(radii.contains("PGD,100,0.01961,0.01961,0.98059,0.98059"), "{radii}");
    assert!(radii.contains("PQN,10,0.66667,0.66667,0.74536,0.74536"), "{radii}");

    for figure in ["fig1", "radii", "fig3"] {
        let svg = place.text(&format!("p/{figure}.svg"));
        for panel in ["(a) ", "(b) ", "(c) "] {
            assert!(svg.contains(panel), "{figure} lacks {panel}");
        }
        assert!(svg.len() < 300_000, "{} bytes", svg.len());
        let (width, height, dark) = ink(&fs::read(place.path(&format!("p/{figure}.png"))).unwrap());
        assert!(width > 1500 && height > 500, "{width} x {height}");
        let share = dark as f64 / f64::from(width * height);
        assert!((0.01..0.3).contains(&share), "{figure}: {share} of the pixels are dark");
    }
    let page = place.text("p/report.html");
    assert!(page.len() < 1_000_000 && page.matches("<svg").count() == 3 && page.contains("3.46 ± 0.32"));
    for outside in ["http://", "https://"] {
        let links = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!links.contains(outside), "the page contains {outside}");
    }
    assert!(place.text("p/results.md").contains("motes paper radii fig1 fig3 table1 --replicates 2 --out p"));
}

#[test]
fn replicates_are_never_done_twice_and_do_not_depend_on_the_workers() {
    let place = Place::new();
    place.motes("paper table1 --replicates 2 --jobs 1 --out one").ok();
    place.motes("paper table1 --replicates 2 --jobs 2 --out two").ok();
    assert_eq!(timeless(&place.text("one/table1.csv")), timeless(&place.text("two/table1.csv")));

    // The same again computes nothing: even the times are the same.
    let before = place.text("one/table1.csv");
    let again = place.motes("paper table1 --replicates 2 --out one");
    assert!(again.ok().err.contains("4 of them reused"), "{}", again.err);
    assert_eq!(place.text("one/table1.csv"), before);

    // More replicates keep the old ones.
    let names = replicates(&place, "one");
    let old = |name: &str| fs::read(place.path("one").join("replicates").join(name)).unwrap();
    let contents: Vec<Vec<u8>> = names.iter().map(|n| old(n)).collect();
    let more = place.motes("paper table1 --replicates 3 --out one");
    assert!(more.ok().err.contains("6 replicates, 4 of them reused"), "{}", more.err);
    assert_eq!(names.iter().map(|n| old(n)).collect::<Vec<_>>(), contents);

    // What is damaged, or was made with other settings, is done again, to the same numbers.
    let path = place.path("two/replicates").join(&names[0]);
    let whole = replicate(&path);
    for damage in ["", "{", &fs::read_to_string(&path).unwrap().replace("digest\":\"", "digest\":\"0")] {
        fs::write(&path, damage).unwrap();
        let done = place.motes("paper table1 --replicates 2 --out two");
        assert!(done.ok().err.contains("3 of them reused"), "{}", done.err);
        assert_eq!(replicate(&path), whole);
    }
}

#[test]
fn a_killed_run_goes_on_to_the_same_tables() {
    let place = Place::new();
    place.motes("paper table1 --replicates 3 --out whole").ok();
    for (name, signal, code) in [("killed", "KILL", None), ("stopped", "INT", Some(1))] {
        let call = format!("paper table1 --replicates 3 --out {name}");
        let child = place.spawn(&call);
        let began = Instant::now();
        let some = || place.path(name).join("replicates").is_dir() && !replicates(&place, name).is_empty();
        while !some() {
            assert!(began.elapsed() < Duration::from_secs(60), "no replicate appears");
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        let asked = Instant::now();
        let done = Done::wait(child);
        // A fast machine may have ended by then.
        if done.code != Some(0) {
            assert_eq!(done.code, code, "{}", done.err);
            assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
            if code == Some(1) {
                assert!(done.err.contains(&format!("go on with: motes {call}")), "{}", done.err);
            }
        }
        let rest = place.motes(&call);
        assert!(rest.ok().err.contains("of them reused"), "{}", rest.err);
        assert_eq!(
            timeless(&place.text(&format!("{name}/table1.csv"))),
            timeless(&place.text("whole/table1.csv"))
        );
        tidy(&place.path(name));
    }
}

#[test]
fn items_of_several_calls_share_the_pages_and_the_docs() {
    let place = Place::new();
    fs::create_dir(place.path("docs")).unwrap();
    place.motes("paper fig2 --out p").ok();
    place.motes("paper radii --out p --docs docs").ok();
    let results = place.text("docs/results.md");
    for piece in [
        "do not edit",
        "motes paper fig2 --out p",
        "motes paper radii --out p --docs docs",
        "cores",
        "images/paper/fig2.svg",
    ] {
        assert!(results.contains(piece), "{piece}");
    }
    for figure in ["fig2", "radii"] {
        assert!(place.text(&format!("docs/images/paper/{figure}.svg")).starts_with("<svg"));
    }
    // PMGD's variance at h = 1/2 and N = 100 tends to 1.0032, ten standard errors from that of the posterior.
    let csv = place.text("p/fig2.csv");
    let row = csv.lines().find(|l| l.starts_with("PMGD,0.5,100,")).unwrap();
    let (end, limit) = {
        let fields: Vec<&str> = row.rsplit(',').collect();
        (fields[3].parse::<f64>().unwrap(), fields[2].parse::<f64>().unwrap())
    };
    assert!((limit - 1.0033).abs() < 1e-3 && (end - limit).abs() < 0.02, "{row}");
}

#[test]
fn refusals_are_one_sentence_and_touch_nothing() {
    let place = Place::new();
    place.refuses("paper tabel1", &["no item 'tabel1'", "did you mean table1?"]);
    place.refuses("paper fig9x", &["no item 'fig9x'", "fig1, fig2, radii"]);
    place.refuses("paper fig1 --replicates 0", &["--replicates 0", "leave it out"]);
    place.refuses("paper fig1 --jobs 0", &["--jobs 0", "use 1 or more"]);
    place.refuses("paper fig1 --jobs 100000", &["--jobs 100000", "leave it out"]);
    place.refuses("paper fig1 --quick --full", &["--quick", "--full"]);
    place.refuses("paper fig1 --docs nowhere", &["nowhere", "--docs"]);
    fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/notes.txt", "do not lose");
    place.refuses("paper fig1 --out mine", &["mine is not empty", "choose another place with --out"]);
    place.write("file", "");
    place.refuses("paper fig1 --out file", &["file", "--out"]);
}
