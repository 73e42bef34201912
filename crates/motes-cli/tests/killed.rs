//! Nothing is lost: runs that are killed or interrupted at any moment end in the same bits.

use crate::common;

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{Dice, Done, Place, checkpoints, kill_after, same_bits, signal, signals, tidy};

/// Goes on with whatever there is, or begins, in a process that is not waited for.
fn go_on(place: &Place, run: &str, fit: &str) -> Child {
    if place.path(run).join("config.toml").exists() {
        place.spawn(&format!("resume {run} --quiet --no-report"))
    } else {
        place.spawn(&format!("{fit} --out {run} --quiet --no-report"))
    }
}

fn finish(place: &Place, run: &str, fit: &str) {
    let done = Done::wait(go_on(place, run, fit));
    done.ok();
    assert_eq!(done.err, "");
    tidy(&place.path(run));
}

#[test]
fn a_run_killed_fifty_times_ends_in_the_same_bits() {
    const KILLS: usize = 50;
    let place = Place::new();
    let fit = "fit hierarchical --algorithm pqn --adjust --grow 3000:26 --dim 200 --particles 20 --steps 16000 \
               --checkpoint-every 60 --keep-clouds 2000 --threads 2";
    place.quietly(&format!("{fit} --out whole"));
    let mut dice = Dice(7);
    let (mut kills, mut runs) = (0, 0);
    // A fast machine ends a run between two kills; then the next one begins.
    while kills < KILLS {
        let run = format!("killed{runs}");
        runs += 1;
        while kills < KILLS {
            let wait = Duration::from_micros(8_000 + dice.below(60_000));
            if !kill_after(go_on(&place, &run, fit), wait) {
                break;
            }
            kills += 1;
        }
        finish(&place, &run, fit);
        same_bits(&place.path("whole"), &place.path(&run));
    }
    println!("{kills} kills in {runs} runs");
}

#[test]
fn short_runs_killed_at_any_moment_end_in_the_same_bits() {
    let place = Place::new();
    let fit =
        "fit hierarchical --algorithm pmgd --dim 50 --steps 400 --checkpoint-every 150 --warm-start 1x50";
    let began = Instant::now();
    place.quietly(&format!("{fit} --out whole"));
    let length = began.elapsed().as_micros() as u64;
    let mut dice = Dice(11);
    let (mut early, mut late) = (0, 0);
    for i in 0..60 {
        let run = format!("killed{i}");
        kill_after(go_on(&place, &run, fit), Duration::from_micros(dice.below(length)));
        if checkpoints(&place.path(&run)).is_empty() {
            early += 1;
        } else if !place.path(&run).join("summary.json").exists() {
            late += 1;
        }
        finish(&place, &run, fit);
        same_bits(&place.path("whole"), &place.path(&run));
    }
    println!("{early} killed before the first checkpoint, {late} between it and the end");
    assert!(early > 0);
}

#[test]
fn what_a_kill_leaves_before_the_config_is_no_obstacle() {
    let place = Place::new();
    std::fs::create_dir(place.path("run")).unwrap();
    place.write("run/.config.toml.Ab12Cd34.motes.tmp", "version");
    place.write("run/trace.csv", "");
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out run");
    tidy(&place.path("run"));
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out whole");
    same_bits(&place.path("whole"), &place.path("run"));
    // With the config there, it is a run.
    for file in ["trace.csv", "summary.json", "posterior.npz"] {
        std::fs::remove_file(place.path("run").join(file)).unwrap();
    }
    std::fs::remove_dir_all(place.path("run/checkpoint")).unwrap();
    place.quietly("resume run");
    same_bits(&place.path("whole"), &place.path("run"));
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "{} does not appear", path.to_string_lossy());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn interrupts_leave_a_checkpoint_and_exit_code_1() {
    let place = Place::new();
    // Too long to end by itself, until it is resumed with fewer steps to go.
    let toy = "fit hierarchical --algorithm pgd --dim 100 --particles 20 --trace-every 100 --keep-clouds 1000 --burn-in 500";
    let images = "fit generator --images 8 --particles 1 --batch 4 --burn-in 1 --checkpoint-every 1";
    let runs = signals().into_iter().map(|name| (toy, name, 1500)).chain([(images, "INT", 2)]);
    for (i, (fit, name, more)) in runs.enumerate() {
        let out = format!("run{i}");
        let child = place.spawn(&format!("{fit} --steps 100000000 --out {out}"));
        wait_for(&place.path(&format!("{out}/trace.csv")));
        // The generator's first steps take a while.
        while fit == images && place.text(&format!("{out}/trace.csv")).lines().count() < 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(150));
        signal(&child, name);
        if name == "HUP" {
            // The shell in a terminal that is closed sends it once more, which is no reason to lose the last steps.
            let _ = Command::new("kill").args(["-HUP", &child.id().to_string()]).output();
        }
        let done = Done::wait(child);
        assert_eq!(done.code, Some(1), "{}", done.err);
        assert_eq!(done.out, "");
        let run = place.path(&out);
        assert!((1..=2).contains(&checkpoints(&run).len()));
        assert!(!run.join("summary.json").exists());
        let step: u64 = {
            let (_, rest) = done.err.split_once("stopped after step ").expect("it says where it stopped");
            assert!(rest.contains(&format!("go on with: motes resume {out}")), "{rest}");
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        assert!(step > 0);
        // A little further than it came, in two more parts.
        let config = place.text(&format!("{out}/config.toml"));
        let total = step + more;
        let config = config.replace("steps = 100000000", &format!("steps = {total}"));
        place.write(&format!("{out}/config.toml"), config);
        place.quietly(&format!("resume {out}"));
        place.quietly(&format!("{fit} --steps {total} --out whole{i}"));
        same_bits(&place.path(&format!("whole{i}")), &run);
    }
}

#[test]
fn a_warm_start_can_be_interrupted_and_begins_again() {
    let place = Place::new();
    let fit = "fit hierarchical --algorithm pgd --dim 1000 --particles 3 --steps 20";
    let child = place.spawn(&format!("{fit} --warm-start 1x100000000 --out run"));
    wait_for(&place.path("run/trace.csv"));
    std::thread::sleep(Duration::from_millis(150));
    signal(&child, "INT");
    let done = Done::wait(child);
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("stopped in the warm start") && done.err.contains("motes resume run"),
        "{}",
        done.err
    );
    let config = place.text("run/config.toml").replace("1x100000000", "1x50");
    place.write("run/config.toml", config);
    place.quietly("resume run");
    place.quietly(&format!("{fit} --warm-start 1x50 --out whole"));
    same_bits(&place.path("whole"), &place.path("run"));
}

#[test]
fn a_second_process_is_kept_out_and_harms_nothing() {
    let place = Place::new();
    let fit = "fit hierarchical --algorithm pgd --dim 100 --particles 20 --trace-every 100 --keep-clouds 1000 --burn-in 500";
    let child = place.spawn(&format!("{fit} --steps 100000000 --checkpoint-every 2000 --out run"));
    wait_for(&place.path("run/checkpoint"));
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..5 {
        place.motes("resume run").refused(&["another motes is writing to run", "wait for it"]);
        place.motes("resume run --steps 200000000").refused(&["another motes is writing to run"]);
        place.motes("fit hierarchical --out run").refused(&["run is not empty"]);
    }
    signal(&child, "INT");
    let done = Done::wait(child);
    assert_eq!(done.code, Some(1), "{}", done.err);
    let (_, rest) = done.err.split_once("stopped after step ").unwrap();
    let step: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    let config = place.text("run/config.toml").replace("steps = 100000000", &format!("steps = {step}"));
    place.write("run/config.toml", config);
    place.quietly("resume run");
    place.quietly(&format!("{fit} --steps {step} --checkpoint-every 2000 --out whole"));
    same_bits(&place.path("whole"), &place.path("run"));
}
