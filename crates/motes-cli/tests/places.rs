//! Places that cannot be written to: full disks, read-only disks, limits on file sizes.
//!
//! Disks are mounted in a mount namespace of their own (`unshare -m`), which ends with the shell that made it.

#![cfg(target_os = "linux")]

use crate::common;

use std::path::PathBuf;
use std::process::Command;

use common::{Done, Place, checkpoints, same_bits, tidy, tree};

const FIT: &str = "fit hierarchical --algorithm pqn --dim 60 --particles 10 --steps 400 --checkpoint-every 100 \
                   --keep-clouds 8 --quiet";

/// A shell script in a mount namespace of its own, with $M for the binary.
fn script(place: &Place, text: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-m", "bash", "-c", text])
        .current_dir(place.path(""))
        .env("M", env!("CARGO_BIN_EXE_motes"));
    command
}

/// Whether disks can be mounted here.
fn can_mount(place: &Place) -> bool {
    let mounted = script(place, "mount -t tmpfs tmpfs /mnt").output();
    let can = mounted.is_ok_and(|o| o.status.success());
    if !can {
        println!("skipped: mounting a tmpfs needs root");
    }
    can
}

#[test]
fn a_full_disk_ends_in_a_sentence_and_the_run_goes_on_when_there_is_space() {
    let place = Place::new();
    if !can_mount(&place) {
        return;
    }
    place.quietly(&format!("{} --out whole", FIT.replace(" --quiet", "")));
    let mut places = Vec::new();
    // Sizes at which the space ends in the config, the trace, a checkpoint, the posterior or the summary.
    let files = tree(&place.path("whole"));
    let pages = |(_, bytes): &(PathBuf, Vec<u8>)| bytes.len().div_ceil(4096) as u64;
    let pages: u64 = files.iter().filter(|(p, _)| !p.ends_with("report.html")).map(pages).sum();
    let near_the_end = (pages - 14..=pages + 1).map(|p| 4 * p);
    for size in [4, 8, 12, 24, 40, 72, 104, 160, 200].into_iter().chain(near_the_end) {
        std::fs::create_dir_all(place.path("disk")).unwrap();
        let run = format!("run{size}");
        let text = format!(
            "mount -t tmpfs -o size={size}k tmpfs disk || exit 99
             $M {FIT} --out disk/run; code=$?
             [ $code = 0 ] && exit 0
             cp -a disk/run full-{run}
             mount -o remount,size=16m disk || exit 99
             if [ -e disk/run/config.toml ]; then $M resume disk/run --quiet; else $M {FIT} --out disk/run; fi || exit 98
             cp -a disk/run {run}
             exit $code"
        );
        let done = Done::of(&mut script(&place, &text));
        if done.code == Some(0) {
            println!("{size} KiB are enough");
            continue;
        }
        let sentence = done.refused(&["No space left on device", "free some space"]);
        places.push(sentence.split(':').next().unwrap().rsplit('/').next().unwrap().to_string());
        tidy(&place.path(&format!("full-{run}")));
        tidy(&place.path(&run));
        same_bits(&place.path("whole"), &place.path(&run));
        println!(
            "{size} KiB: {sentence}; {} checkpoints",
            checkpoints(&place.path(&format!("full-{run}"))).len()
        );
    }
    for part in ["trace.csv", ".safetensors", "posterior.npz", "summary.json"] {
        assert!(places.iter().any(|p| p.ends_with(part)), "the space never ended in {part}: {places:?}");
    }
}

#[test]
fn a_read_only_disk_is_named() {
    let place = Place::new();
    if !can_mount(&place) {
        return;
    }
    std::fs::create_dir_all(place.path("disk")).unwrap();
    place.quietly("fit hierarchical --algorithm pgd --steps 5 --out run");
    let mount = "mount -t tmpfs tmpfs disk && mkdir disk/empty && cp -a run disk && mount -o remount,ro disk";
    for call in
        ["fit hierarchical --out disk/empty", "fit hierarchical --out disk/new", "resume disk/run --steps 9"]
    {
        let done = Done::of(&mut script(&place, &format!("({mount}) || exit 99; exec $M {call}")));
        done.refused(&["disk/", "Read-only file system", "a place that you may write to"]);
    }
    let done =
        Done::of(&mut script(&place, &format!("({mount}) || exit 99; cd disk; exec $M fit hierarchical")));
    done.refused(&["runs", "Read-only file system"]);
}

#[test]
fn a_limit_on_file_sizes_is_a_failed_write() {
    let place = Place::new();
    place.quietly(&format!("{} --out whole", FIT.replace(" --quiet", "")));
    for blocks in [2, 5, 9, 33, 90, 110] {
        let run = format!("run{blocks}");
        let mut shell = Command::new("bash");
        let text = format!("ulimit -f {blocks}; exec $M {FIT} --out {run}");
        shell.args(["-c", &text]).current_dir(place.path("")).env("M", env!("CARGO_BIN_EXE_motes"));
        let done = Done::of(&mut shell);
        if done.code != Some(0) {
            done.refused(&["File too large", "free some space"]);
            place.quietly(&format!("resume {run}"));
        }
        same_bits(&place.path("whole"), &place.path(&run));
    }
}

#[test]
fn output_that_cannot_be_printed_is_no_crash() {
    let place = Place::new();
    for (name, redirection, code) in [
        ("a", ">/dev/full", 0),
        ("b", "2>/dev/full", 0),
        ("c", ">&-", 0),
        ("d", "2>&-", 0),
        ("e", ">&- 2>&- <&-", 0),
        ("f", "| true; exit ${PIPESTATUS[0]}", 0),
        ("g", "--particles 0 2>/dev/full", 2),
    ] {
        let text = format!("$M fit hierarchical --algorithm pgd --steps 2000 --out {name} {redirection}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &text]).current_dir(place.path("")).env("M", env!("CARGO_BIN_EXE_motes"));
        let done = Done::of(&mut shell);
        assert_eq!(done.code, Some(code), "{text}: {}", done.err);
        assert_eq!(place.path(name).join("summary.json").exists(), code == 0, "{text}");
    }
    for call in ["check-model hierarchical", "completions bash", "--help", "--version"] {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("$M {call} >/dev/full")]).env("M", env!("CARGO_BIN_EXE_motes"));
        let code = Done::of(&mut shell).code;
        assert!(matches!(code, Some(0 | 2)), "{call}: {code:?}");
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("$M {call} | true; exit ${{PIPESTATUS[0]}}")]);
        let done = Done::of(shell.env("M", env!("CARGO_BIN_EXE_motes")));
        assert!(done.code == Some(0) && done.err.is_empty(), "{call}: {}", done.err);
    }
}
