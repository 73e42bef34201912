//! Damaged run directories: the older checkpoint helps out, and what cannot be trusted is named.

use crate::common;

use std::path::{Path, PathBuf};

use common::{Dice, Place, checkpoints, copy, same_bits, tidy};

const FIT: &str = "fit hierarchical --algorithm pmgd --dim 20 --particles 5 --seed 9 --checkpoint-every 40";

/// A finished run of 90 steps with checkpoints at 80 and 90.
fn place() -> Place {
    place_of(&format!("{FIT} --steps 90"))
}

/// A finished run with two checkpoints.
fn place_of(fit: &str) -> Place {
    let place = Place::in_memory();
    place.bare(&format!("{fit} --out good"));
    assert_eq!(checkpoints(&place.path("good")).len(), 2);
    place
}

/// Damages the checkpoints in the list (0 is the older) of a copy and resumes it.
fn resume_damaged(place: &Place, which: &[usize], damage: &dyn Fn(Vec<u8>) -> Vec<u8>) -> String {
    let run = place.path("bad");
    let _ = std::fs::remove_dir_all(&run);
    copy(&place.path("good"), &run);
    for i in which {
        let file = &checkpoints(&run)[*i];
        let bytes = std::fs::read(file).unwrap();
        std::fs::write(file, damage(bytes)).unwrap();
    }
    let done = place.motes("resume bad --quiet");
    done.ok();
    same_bits(&place.path("good"), &run);
    tidy(&run);
    assert_eq!(done.err.lines().count(), which.len(), "a warning for each: {}", done.err);
    for line in done.err.lines() {
        assert!(line.starts_with("warning: bad/checkpoint/0000000000"), "{line}");
    }
    done.err
}

type Damage = Box<dyn Fn(Vec<u8>) -> Vec<u8>>;

fn damages() -> Vec<(&'static str, Damage)> {
    let cut = |part: fn(usize) -> usize| -> Damage {
        Box::new(move |mut b| {
            b.truncate(part(b.len()));
            b
        })
    };
    vec![
        ("empty", cut(|_| 0)),
        ("one byte", cut(|_| 1)),
        ("cut in the header", cut(|_| 100)),
        ("cut in half", cut(|n| n / 2)),
        ("cut by one", cut(|n| n - 1)),
        (
            "second half zero",
            Box::new(|mut b| {
                let half = b.len() / 2;
                b[half..].fill(0);
                b
            }),
        ),
        ("all zero", Box::new(|b| vec![0; b.len()])),
        ("rubbish", Box::new(|_| b"PK\x03\x04 not a checkpoint at all".repeat(50))),
        (
            "a byte too many",
            Box::new(|mut b| {
                b.push(0);
                b
            }),
        ),
        (
            "an immense header",
            Box::new(|mut b| {
                b[..8].fill(0xff);
                b
            }),
        ),
        ("twice", Box::new(|b| b.repeat(2))),
    ]
}

#[test]
fn the_older_generation_helps_out() {
    let place = place();
    for (name, damage) in damages() {
        let warning = resume_damaged(&place, &[1], &damage);
        assert!(
            warning.contains("90.safetensors") && warning.contains("the older generation is used"),
            "{name}"
        );
    }
    // Algorithms with a network and its running statistics go back as well.
    for algorithm in ["pgd", "abp --transitions 2", "short-run --transitions 2", "vae"] {
        let small = "fit generator --images 6 --batch 3 --particles 2 --steps 3 --checkpoint-every 2";
        let place = place_of(&format!("{small} --algorithm {algorithm}"));
        for (_, damage) in damages().into_iter().filter(|(name, _)| *name == "cut by one") {
            resume_damaged(&place, &[1], &damage);
        }
    }
}

/// A fit by auto has two generations too, and a file of its own from which it can be refined.
#[test]
fn fits_by_auto_are_as_robust() {
    let place = Place::in_memory();
    let fit = "fit hierarchical --dim 20 --particles 8 --seed 9 --checkpoint-every 40";
    place.bare(&format!("{fit} --out good"));
    assert_eq!(checkpoints(&place.path("good")).len(), 2);
    place.bare(&format!("{fit} --tolerance 0.02 --out fine"));
    for (name, damage) in damages() {
        let warning = resume_damaged(&place, &[1], &damage);
        assert!(warning.contains("the older generation is used"), "{name}: {warning}");
        let warnings = resume_damaged(&place, &[0, 1], &damage);
        assert!(warnings.lines().all(|w| w.ends_with("the run starts again")), "{name}: {warnings}");
        // Without the end of theta's stage there is nothing to refine, but the run itself is as it was.
        let file = place.path("bad/checkpoint/theta-stage.bin");
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, damage(whole.clone())).unwrap();
        let sentence =
            place.refuses("resume bad --tolerance 0.02", &["bad/checkpoint/theta-stage.bin", "; "]);
        assert!(!sentence.contains("()"), "{sentence}");
        place.bare("resume bad");
        std::fs::write(&file, whole).unwrap();
        same_bits(&place.path("good"), &place.path("bad"));
        place.bare("resume bad --tolerance 0.02");
        same_bits(&place.path("fine"), &place.path("bad"));
    }
    let mut dice = Dice(4);
    let length = std::fs::metadata(newest(&place.path("good"))).unwrap().len();
    for _ in 0..40 {
        let (at, bit) = (dice.below(length), dice.below(8));
        resume_damaged(&place, &[1], &|mut bytes| {
            bytes[at as usize] ^= 1 << bit;
            bytes
        });
    }
}

#[test]
fn bit_flips_anywhere_are_noticed() {
    let place = place();
    let newest = checkpoints(&place.path("good")).pop().unwrap();
    let length = std::fs::metadata(newest).unwrap().len();
    let mut dice = Dice(3);
    let mut places: Vec<u64> = (0..20).chain([length - 5, length - 4, length - 1]).collect();
    places.extend((0..40).map(|_| 16 + dice.below(700)));
    places.extend((0..40).map(|_| dice.below(length)));
    for at in places {
        let bit = dice.below(8);
        resume_damaged(&place, &[1], &|mut bytes| {
            bytes[at as usize] ^= 1 << bit;
            bytes
        });
    }
}

#[test]
fn without_any_good_generation_the_run_starts_again() {
    let place = place();
    for (name, damage) in damages() {
        let warnings = resume_damaged(&place, &[0, 1], &damage);
        assert!(warnings.lines().all(|w| w.ends_with("the run starts again")), "{name}: {warnings}");
    }
    let run = place.path("bad");
    std::fs::remove_dir_all(run.join("checkpoint")).unwrap();
    place.bare("resume bad");
    same_bits(&place.path("good"), &run);
}

#[test]
fn a_damaged_generation_can_be_resumed_for_more_steps() {
    let place = place();
    place.bare(&format!("{FIT} --steps 150 --burn-in 45 --out longer"));
    let newest = checkpoints(&place.path("good")).pop().unwrap();
    std::fs::write(newest, "x").unwrap();
    place.motes("resume good --steps 150").ok();
    same_bits(&place.path("longer"), &place.path("good"));
}

#[test]
fn an_unfinished_checkpoint_is_swept_away() {
    let place = place();
    place.write("good/checkpoint/.00000000000000000085.motes.Ab12Cd34.motes.tmp", "half");
    place.write("good/.summary.json.zZ09zZ09.motes.tmp", "half");
    place.bare("resume good");
    tidy(&place.path("good"));
}

#[test]
fn a_trace_that_lost_rows_is_an_error() {
    let place = place();
    let trace = place.text("good/trace.csv");
    let at = place.path("good/trace.csv");
    std::fs::write(&at, &trace[..trace.len() / 2]).unwrap();
    place.refuses("resume good", &["good/trace.csv has lost rows", "start a new run with fit --config"]);
    std::fs::remove_file(&at).unwrap();
    place.refuses("resume good", &["good/trace.csv has lost rows (0 of"]);
    // Rows after the checkpoint are cut away.
    std::fs::write(&at, format!("{trace}91,torn")).unwrap();
    place.bare("resume good");
    assert_eq!(place.text("good/trace.csv"), trace);
}

#[test]
fn an_edited_config_is_refused_and_nothing_is_lost() {
    let place = place();
    let config = place.text("good/config.toml");
    for (from, to) in [
        ("particles = 5", "particles = 4"),
        ("particles = 5", "particles = 6"),
        ("particles = 5", "particles = 500"),
        ("algorithm = \"pmgd\"", "algorithm = \"pqn\""),
        ("algorithm = \"pmgd\"", "algorithm = \"em\""),
        ("precision = \"f64\"", "precision = \"f32\""),
        ("seed = 9", "seed = 10"),
        ("burn-in = 45", "burn-in = 30"),
        ("trace-every = 1", "trace-every = 2"),
        ("keep-clouds = 1", "keep-clouds = 0"),
        ("init-particles = \"0\"", "init-particles = \"1\""),
        ("steps = 90", "steps = 70"),
        ("step-size = 0.02", "step-size = 0.01"),
        ("dim = 20", "dim = 21"),
        ("dim = 20", "dim = 2"),
        ("data-seed = 0", "data-seed = 1"),
        ("seed = 9", "seed = 9\ngrow = \"50:9\""),
    ] {
        let edited = config.replacen(from, to, 1);
        assert_ne!(edited, config, "{from}");
        place.write("good/config.toml", &edited);
        place.refuses("resume good", &[]);
    }
    place.write("good/config.toml", config.replace("seed = 9", "seed = 10"));
    place.refuses("resume good", &["good/config.toml was changed", "put it back, or start a new run"]);
    place.write("good/config.toml", config.replace("precision = \"f64\"", "precision = \"f32\""));
    place.refuses("resume good", &["does not fit this run's settings", "put back the config.toml"]);
    place.write("good/config.toml", config.replace("dim = 20", "dim = 21"));
    place.refuses("resume good", &["SHA-256"]);
    // How often to write checkpoints is free.
    place.write("good/config.toml", config.replace("checkpoint-every = 40", "checkpoint-every = 7"));
    place.bare("resume good");
}

#[test]
fn changed_data_are_refused() {
    let place = Place::new();
    place.write("y.csv", "y\n1\n2\n4\n");
    place.bare("fit hierarchical --algorithm pgd --data y.csv --steps 20 --out run");
    place.write("y.csv", "y\n1\n2\n5\n");
    place.refuses("resume run --steps 30", &["the data have changed", "SHA-256"]);
    place.refuses("fit --config run/config.toml --out again", &["the data have changed", "SHA-256"]);
    std::fs::remove_file(place.path("y.csv")).unwrap();
    place.refuses("resume run --steps 30", &["y.csv", "check the path"]);
    place.write("y.csv", "y\n1\n2\n4\n");
    place.bare("resume run --steps 30");
    // Data named explicitly are chosen anew.
    place.write("z.csv", "y\n1\n2\n5\n");
    place.bare("fit --config run/config.toml --data z.csv --out again");
}

#[test]
fn a_run_resumes_from_anywhere() {
    let place = Place::new();
    place.write("y.csv", "y\n1\n2\n4\n");
    place.bare("fit hierarchical --algorithm pgd --data y.csv --steps 20 --burn-in 10 --out run");
    place.write(
        "by-hand.toml",
        "version = 2\nmodel = \"hierarchical\"\n[run]\nalgorithm = \"pgd\"\nsteps = 20\n[hierarchical]\ndata = \"y.csv\"\n",
    );
    place.bare("fit --config by-hand.toml --out by-hand");
    same_bits(&place.path("run"), &place.path("by-hand"));
    std::fs::create_dir(place.path("elsewhere")).unwrap();
    for run in ["run", "by-hand"] {
        let mut command = common::motes();
        command.current_dir(place.path("elsewhere")).args(["resume", "--steps", "40", "--quiet"]);
        common::Done::of(command.arg(place.path(run))).ok();
    }
    std::fs::rename(place.path("run"), place.path("moved")).unwrap();
    place.bare("resume moved --steps 50");
    place.bare("resume by-hand --steps 50");
    same_bits(&place.path("by-hand"), &place.path("moved"));
}

/// Rewrites a piece of the header and the checksum.
fn forge(file: &PathBuf, from: &str, to: &str) {
    let bytes = std::fs::read(file).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let forged = header.replacen(from, to, 1);
    assert_ne!(forged, header, "{from} in {header}");
    let mut out = (forged.len() as u64).to_le_bytes().to_vec();
    out.extend(forged.as_bytes());
    out.extend(&bytes[8 + length..bytes.len() - 4]);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    std::fs::write(file, out).unwrap();
}

fn newest(run: &Path) -> PathBuf {
    checkpoints(run).pop().unwrap()
}

#[test]
fn another_instruction_set_is_a_warning_and_another_format_an_error() {
    let place = place();
    let header = common::checkpoint_state(&newest(&place.path("good"))).0;
    let here = header["instruction_set"].as_str().unwrap().to_string();
    forge(&newest(&place.path("good")), &here, "another");
    let done = place.motes("resume good --quiet");
    done.ok();
    assert!(
        done.err.starts_with("warning: the checkpoint was written with other instructions (another"),
        "{}",
        done.err
    );

    let now = format!("\\\"arithmetic\\\":{}", motes::checkpoint::ARITHMETIC);
    forge(&newest(&place.path("good")), &now, "\\\"arithmetic\\\":9999");
    place.refuses("resume good", &["with arithmetic number 9999", "put back", "fit --config"]);

    let file = newest(&place.path("good"));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[7] = b'9';
    let body = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..body]).to_le_bytes();
    bytes[body..].copy_from_slice(&sum);
    std::fs::write(&file, bytes).unwrap();
    place.refuses("resume good", &["is not a checkpoint of this version of Motes"]);
}

/// Nothing is allocated for what a header merely promises.
#[test]
fn forged_shapes_are_compared_with_the_bytes_there_are() {
    let place = place();
    for shape in [&[1, 100_000_000_000_000_000][..], &[100_000_000_000, 20], &[3, 20], &[1 << 40]] {
        let mut file = std::io::Cursor::new(Vec::new());
        let mut npz = motes::npz::NpzWriter::new(&mut file);
        npz.begin::<f64>("clouds", shape).unwrap();
        npz.values(&[0.5; 40]).unwrap();
        npz.finish().unwrap();
        place.write("good/posterior.npz", file.into_inner());
        // The memory it may take is limited, should it be asked for.
        place.shell("ulimit -v 2000000; $motes report good").refused(&[
            "good/posterior.npz has a damaged array 'clouds' (wrong length)",
            "motes resume good",
        ]);
    }
    place.bare("resume good");
    place.motes("report good").ok();
}

#[test]
fn steps_that_do_not_rise_are_damage() {
    let place = place();
    let trace = place.text("good/trace.csv");
    let (header, rows) = trace.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    let mut swapped = rows.clone();
    swapped.swap(40, 41);
    let mut twice = rows.clone();
    twice.insert(7, rows[6]);
    let rest = rows[5].split_once(',').unwrap().1;
    let with = |k: &str| {
        let mut rows: Vec<String> = rows.iter().map(|row| row.to_string()).collect();
        rows[5] = format!("{k},{rest}");
        rows.join("\n")
    };
    for (rows, said) in [
        (swapped.join("\n"), "line 43 has step '40' after step 41"),
        (twice.join("\n"), "line 9 has step '6' after step 6"),
        (with("-5"), "line 7 has step '-5' after step 4"),
        (with("5.5"), "line 7 has step '5.5' after step 4"),
        (with("18446744073709551615"), "line 7 has step '18446744073709551615' after step 4"),
        (with("\u{1b}[2J"), "line 7 has step '\\u{1b}[2J' after step 4"),
    ] {
        place.write("good/trace.csv", format!("{header}\n{rows}\n"));
        place.refuses(
            "report good",
            &["good/trace.csv is damaged", said, "put back the file that the run wrote"],
        );
    }
    // Numbers beyond any scale are drawn or left out.
    for value in ["inf", "-1e308", "1e308", "NaN", "1e-320", ""] {
        let rows = rows
            .iter()
            .enumerate()
            .map(|(k, row)| if k % 3 == 1 { format!("{k},{value}") } else { row.to_string() });
        place.write("good/trace.csv", format!("{header}\n{}\n", rows.collect::<Vec<_>>().join("\n")));
        let done = place.shell("ulimit -v 2000000; $motes report good");
        assert!(matches!(done.code, Some(0 | 2)), "{value}: {:?} {}", done.code, done.err);
        done.ok();
    }
}
