//! Nothing is lost, whatever was killed: every algorithm of the table, and every command that writes files.

use crate::common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Dice, Done, Place, copy, kill_after, number, same_bits, summary, tidy};
use motes::Algorithm;
use serde_json::Value;

/// Runs a command to its end and tells how long that took, in microseconds.
fn timed(place: &Place, words: &str) -> u64 {
    let began = Instant::now();
    place.motes(words).ok();
    began.elapsed().as_micros() as u64
}

/// Starts a command and kills it after some time. Whether it had not yet ended by itself.
fn kill(place: &Place, words: &str, microseconds: u64) -> bool {
    kill_after(place.spawn(words), Duration::from_micros(microseconds))
}

/// Does something again and again, each time from the beginning and in spite of up to four kills, until there were as many
/// as wanted: a fast machine ends before many of them. `words` is the command that begins or goes on, `check` looks at what
/// it has come to.
fn in_spite_of_kills(
    place: &Place,
    (seed, mut length, wanted): (u64, u64, usize),
    words: &dyn Fn(usize) -> String,
    check: &dyn Fn(usize),
) {
    let mut dice = Dice(seed);
    let mut kills = 0;
    for round in 0..100 {
        let more = (0..4).take_while(|_| kill(place, &words(round), dice.below(length))).count();
        if more == 0 {
            length = (length * 3 / 4).max(2_000); // it was measured when the machine had more to do
        }
        kills += more;
        place.motes(&words(round)).ok();
        check(round);
        if kills >= wanted {
            println!("{kills} kills in {} rounds of {}", round + 1, words(0));
            return;
        }
    }
    panic!("only {kills} kills of {}", words(0));
}

#[test]
fn every_algorithm_of_the_table_goes_on_in_the_same_bits() {
    let place = Place::new();
    place.write("data.csv", "a,y\n1,0\n2,1\n3,0\n4,1\n5,1\n6,1\n7,0\n8,1\n9,1\n10,1\n");
    let mut tried = 0;
    for name in Algorithm::names() {
        // Auto has no number of steps, but may be asked for more digits.
        let length = if name == "auto" { "--tolerance 0.01" } else { "--steps 4000" };
        let [toy, rows] = ["hierarchical", "logistic --data data.csv"]
            .map(|model| format!("{model} {length} --checkpoint-every 150"));
        let fit = |model: &str, out: &str| {
            format!("fit {model} --algorithm {name} --quiet --no-report --threads 2 --out {out}")
        };
        // Those that need what a model does not give are tried with the next one.
        let models =
            [&*toy, &*rows, "generator --images 6 --batch 3 --particles 2 --steps 6 --checkpoint-every 2"];
        let whole = format!("{name}-whole");
        let Some(model) = models.into_iter().find(|model| place.motes(&fit(model, &whole)).code == Some(0))
        else {
            assert_eq!(name, "vae", "which needs an inference network");
            continue;
        };
        tried += 1;
        let length = timed(&place, &fit(model, &format!("{name}-timed")));
        let run = |round: usize| format!("{name}-{round}");
        let words = |round: usize| match place.path(&run(round)).join("config.toml").exists() {
            true => format!("resume {} --quiet --no-report", run(round)),
            false => fit(model, &run(round)),
        };
        in_spite_of_kills(&place, (21, length, 4), &words, &|round| {
            same_bits(&place.path(&whole), &place.path(&run(round)));
            tidy(&place.path(&run(round)));
        });
    }
    assert_eq!(tried, Algorithm::names().len());
}

#[test]
fn a_killed_resume_goes_on() {
    let place = Place::new();
    let fit =
        "fit hierarchical --algorithm pmgd --dim 60 --burn-in 300 --checkpoint-every 150 --quiet --no-report";
    place.motes(&format!("{fit} --steps 600 --out start")).ok();
    let length = timed(&place, &format!("{fit} --steps 6000 --out whole"));
    let words = |round: usize| {
        let run = place.path(&format!("run{round}"));
        if !run.exists() {
            copy(&place.path("start"), &run);
        }
        format!("resume run{round} --steps 6000 --quiet --no-report")
    };
    in_spite_of_kills(&place, (22, length, 15), &words, &|round| {
        same_bits(&place.path("whole"), &place.path(&format!("run{round}")));
        tidy(&place.path(&format!("run{round}")));
    });
}

#[test]
fn a_killed_comparison_goes_on() {
    let place = Place::new();
    let compare = |out: &str| {
        format!(
            "compare hierarchical --algorithms pgd,pmgd,em,mean-field --steps 2500 --checkpoint-every 200 --quiet --out {out}"
        )
    };
    let length = timed(&place, &compare("whole"));
    in_spite_of_kills(&place, (23, length, 12), &|round| compare(&format!("out{round}")), &|round| {
        let out = format!("out{round}");
        for algorithm in ["pgd", "pmgd", "em", "mean-field"] {
            same_bits(&place.path("whole").join(algorithm), &place.path(&out).join(algorithm));
        }
        let page = place.text(&format!("{out}/report.html"));
        assert!(page.trim_end().ends_with("</html>"));
        tidy(&place.path(&out));
    });
}

#[test]
fn a_killed_report_leaves_a_whole_page_or_the_old_one() {
    let place = Place::new();
    place.bare("fit hierarchical --algorithm pgd --dim 300 --steps 3000 --out run");
    let length = timed(&place, "report run");
    let whole = place.text("run/report.html");
    timed(&place, "report run");
    assert_eq!(place.text("run/report.html"), whole, "a report is always the same");
    let old = whole.replacen("</html>", "<!-- old --></html>", 1);
    let mut dice = Dice(24);
    let (mut kills, mut rounds, mut length) = (0, 0, length);
    while kills < 15 {
        assert!(rounds < 200, "only {kills} kills");
        // Every other time there is none before.
        let before = rounds % 2 == 0;
        match before {
            true => place.write("run/report.html", &old),
            false => std::fs::remove_file(place.path("run/report.html")).unwrap(),
        }
        match kill(&place, "report run", dice.below(length)) {
            true => kills += 1,
            false => length = (length * 3 / 4).max(2_000),
        }
        match std::fs::read_to_string(place.path("run/report.html")) {
            Ok(page) => assert!(page == whole || (before && page == old), "half a page"),
            Err(e) => assert!(!before && e.kind() == std::io::ErrorKind::NotFound, "{e}"),
        }
        place.motes("report run").ok();
        assert_eq!(place.text("run/report.html"), whole);
        tidy(&place.path("run"));
        rounds += 1;
    }
    println!("{kills} kills in {rounds} reports");
}

/// What `paper` leaves behind, but for the time that things took and for what names its place.
fn timeless(place: &Place, out: &str) -> BTreeMap<PathBuf, String> {
    let root = place.path(out);
    let mut found = BTreeMap::new();
    for (path, content) in common::tree(&root) {
        let name = path.strip_prefix(&root).unwrap().to_path_buf();
        let text = String::from_utf8_lossy(&content).into_owned();
        if name.starts_with("replicates") && name.extension().is_some() {
            let mut json: Value = serde_json::from_str(&text).unwrap();
            for outcome in json["outcomes"].as_array_mut().unwrap() {
                assert!(number(&outcome["seconds"]) >= 0.0);
                outcome.as_object_mut().unwrap().remove("seconds");
            }
            found.insert(name, json.to_string());
        } else if name.extension().is_some_and(|e| e == "csv") {
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("time, s")).collect();
            found.insert(name, lines.join("\n"));
        }
    }
    found
}

#[test]
fn a_killed_paper_goes_on() {
    let place = Place::new();
    let paper = |out: &str| format!("paper radii fig1 table1 --replicates 2 --out {out}");
    let length = timed(&place, &paper("whole"));
    let whole = timeless(&place, "whole");
    assert!(whole.len() > 4, "{:?}", whole.keys());
    in_spite_of_kills(&place, (25, length, 6), &|round| paper(&format!("out{round}")), &|round| {
        assert_eq!(whole, timeless(&place, &format!("out{round}")));
        tidy(&place.path(&format!("out{round}")));
    });
}

/// Somebody cleans up while a run is at work.
#[cfg(unix)]
mod moved {
    use super::*;
    use common::{checkpoints, signal, tree};

    const FIT: &str = "fit hierarchical --algorithm pgd --dim 100 --particles 20 --trace-every 100 --keep-clouds 1000 --burn-in 500 --quiet";

    /// The steps of the checkpoints that are whole.
    fn generations(place: &Place, run: &str) -> Vec<u64> {
        let files = checkpoints(&place.path(run));
        let whole = files.iter().filter(|file| file.extension().is_some_and(|e| e == "safetensors"));
        whole.map(|file| file.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect()
    }

    /// Starts a run that would last for days, and waits for its first checkpoint.
    fn at_work(place: &Place, run: &str) -> std::process::Child {
        let child = place.spawn(&format!("{FIT} --steps 100000000 --checkpoint-every 2000 --out {run}"));
        let began = Instant::now();
        while generations(place, run).is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "no checkpoint appears");
            std::thread::sleep(Duration::from_millis(2));
        }
        child
    }

    /// Waits for a run that ends by itself, and expects its sentence.
    fn gives_up(mut child: std::process::Child) {
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("the run goes on");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Done::wait(child).refused(&[
            "trace.csv was moved, deleted or replaced while the run was writing to it",
            "`motes resume` the run where it is now",
        ]);
    }

    /// Ends a run where it is now, and one that was never disturbed.
    fn ends_well(place: &Place, run: &str) {
        let step = generations(place, run).pop().unwrap();
        let total = step + 500;
        let config = place.text(&format!("{run}/config.toml"));
        place.write(
            &format!("{run}/config.toml"),
            config.replace("steps = 100000000", &format!("steps = {total}")),
        );
        place.motes(&format!("resume {run} --quiet")).ok();
        place.motes(&format!("{FIT} --steps {total} --checkpoint-every 2000 --out whole")).ok();
        same_bits(&place.path("whole"), &place.path(run));
        tidy(&place.path(run));
        assert!(number(&summary(&place.path(run))["steps"]) as u64 == total);
    }

    #[test]
    fn a_moved_run_stops_and_goes_on_where_it_is() {
        let place = Place::new();
        let child = at_work(&place, "old");
        std::fs::rename(place.path("old"), place.path("new")).unwrap();
        gives_up(child);
        assert!(!place.path("old").exists(), "something was made at the old place");
        ends_well(&place, "new");
    }

    #[test]
    fn a_run_does_not_write_to_another_that_took_its_place() {
        let place = Place::new();
        let child = at_work(&place, "old");
        std::fs::rename(place.path("old"), place.path("new")).unwrap();
        place.motes("fit hierarchical --algorithm pgd --dim 5 --steps 10 --quiet --out old").ok();
        let before = tree(&place.path("old"));
        gives_up(child);
        assert!(before == tree(&place.path("old")), "the run at the old place was touched");
        ends_well(&place, "new");
    }

    #[test]
    fn a_deleted_trace_lets_no_second_writer_in() {
        let place = Place::new();
        let child = at_work(&place, "run");
        // It stands still, so that the order of what follows is certain.
        signal(&child, "STOP");
        std::fs::remove_file(place.path("run/trace.csv")).unwrap();
        place.refuses("resume run", &["another motes is writing to run", "wait for it, or stop it first"]);
        signal(&child, "CONT");
        gives_up(child);
        place.refuses("resume run", &["trace.csv has lost rows (0 of", "start a new run with fit --config"]);
    }
}
