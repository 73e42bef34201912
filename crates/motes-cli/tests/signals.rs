//! Signals that come before a run has begun, or while a command works that has nothing to resume.
#![cfg(unix)]

use crate::common;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};

use common::{Done, Place, signal, signals};

/// Waits until a process has opened a pipe, of which it then waits for the content.
fn opened(place: &Place, pipe: &str) -> File {
    OpenOptions::new().write(true).open(place.path(pipe)).unwrap()
}

fn expect_exit_code_1(child: Child) {
    let done = Done::wait(child);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(1), "", ""));
}

#[test]
fn whatever_is_going_on_ends_at_once_with_exit_code_1() {
    let place = Place::new();
    place.write("table.csv", "a,y\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n");
    place.bare("fit logistic --algorithm pgd --data table.csv --steps 5 --test-fraction 0 --out run");
    std::fs::create_dir(place.path("odd")).unwrap();
    place.pipe("pipe");
    place.pipe("odd/config.toml");
    for (words, pipe) in [
        ("fit hierarchical --data pipe --out new", "pipe"),
        ("fit generator --data pipe --out new", "pipe"),
        ("fit --config pipe --out new", "pipe"),
        ("resume odd", "odd/config.toml"),
        ("predict run --data pipe", "pipe"),
        ("check-model hierarchical --data pipe", "pipe"),
        ("compare hierarchical --algorithms pgd,em --data pipe --out new", "pipe"),
        ("report odd", "odd/config.toml"),
    ] {
        for name in signals() {
            let child = place.spawn(words);
            let _writer = opened(&place, pipe);
            signal(&child, name);
            expect_exit_code_1(child);
            assert!(!place.path("new").exists(), "{words}");
        }
    }
}

/// Waits until a process catches SIGINT, which is the first thing it does, as far as the system tells.
#[cfg(target_os = "linux")]
fn wait_until_it_listens(child: &Child) {
    let began = std::time::Instant::now();
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask").trim();
        if u64::from_str_radix(caught, 16).unwrap() & 0b10 != 0 {
            return;
        }
        assert!(began.elapsed().as_secs() < 60, "it does not listen");
    }
}

/// From the first moment on: where nobody writes to a pipe, even opening it waits.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_at_the_very_beginning_or_while_a_pipe_is_opened_is_no_sudden_death() {
    let place = Place::new();
    place.pipe("pipe");
    for wait in (0..20).map(|i| std::time::Duration::from_micros(i * i * 50)) {
        let child = place.spawn("fit hierarchical --data pipe --out new");
        wait_until_it_listens(&child);
        std::thread::sleep(wait);
        signal(&child, "INT");
        expect_exit_code_1(child);
        assert!(!place.path("new").exists());
    }
}

/// `nohup` starts it with SIGHUP ignored.
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let place = Place::new();
    place.pipe("pipe");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' HUP; exec \"$motes\" fit hierarchical --algorithm pgd --data pipe --steps 5 --out run --quiet",
    ]);
    command.env("motes", env!("CARGO_BIN_EXE_motes")).current_dir(place.path(""));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut writer = opened(&place, "pipe");
    signal(&child, "HUP");
    writer.write_all(b"y\n1\n2\n3\n").unwrap();
    drop(writer);
    Done::wait(child).ok();
    assert!(place.path("run/summary.json").exists());
}
