//! The command meets configs and data of every kind: it refuses them or runs, the same every time, and never crashes. The
//! readers alone meet far more of them in the crate `motes-fuzz`.

use crate::common;

use common::{Dice, Done, Place};

/// Changes some bytes: flips, cuts, repeats, inserts pieces that mean something to a reader.
fn mutate(mut bytes: Vec<u8>, dice: &mut Dice, pieces: &[&[u8]]) -> Vec<u8> {
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let length = [1, 2, 20][dice.below(3) as usize];
        let to = (at + dice.below(length) as usize).min(bytes.len());
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..to)),
            3 => {
                let part = bytes[at..to].to_vec();
                bytes.splice(at..at, part);
            }
            4 => {
                let piece = pieces[dice.below(pieces.len() as u64) as usize];
                bytes.splice(at..to, piece.iter().copied());
            }
            _ if at < bytes.len() => bytes[at] = dice.below(256) as u8,
            _ => bytes.push(dice.below(256) as u8),
        }
    }
    bytes
}

#[test]
fn mutated_configs_are_refused_or_run() {
    let place = Place::in_memory();
    let config = "version = 2\nmodel = \"hierarchical\"\n[hierarchical]\ndim = 4\n[run]\nalgorithm = \"pgd\"\nparticles = 3\nsteps = 9\n\
                  burn-in = 4\nstep-size = 0.01\ngrow = \"5:6\"\nstep-decay = \"0.5,10\"\nwarm-start = \"1x3\"\n\
                  init-particles = \"0\"\nseed = 1\ntrace-every = 1\nkeep-clouds = 1\nadjust = false\n";
    let auto = "version = 2\nmodel = \"hierarchical\"\n[hierarchical]\ndim = 4\n[run]\nalgorithm = \"auto\"\nparticles = 8\n\
                tolerance = 0.2\nmax-evaluations = 400\ninit-particles = \"prior\"\ninit-theta = 0.5\nseed = 1\ntrace-every = 1\n\
                keep-clouds = 1\nlevel = 0.9\n";
    let pieces: [&[u8]; 23] = [
        b"=",
        b"\"",
        b"\n",
        b"[",
        b"]",
        b"{",
        b"'''",
        b"nan",
        b"-1",
        b"0",
        b"2",
        b"1e9",
        b"true",
        b"\xc3\xa9",
        b"\xff",
        b"#",
        b"em",
        b"auto",
        b"pmgd",
        b"soul",
        b"marginal-mh",
        b"1979-05-27",
        b".",
    ];
    let mut dice = Dice(5);
    let (mut ran, mut refused) = (0, 0);
    for i in 0..300 {
        let config = if i % 3 == 0 { auto } else { config };
        // Half of them only lose lines or get other numbers, so that some still run.
        let mutated = if i % 2 == 0 {
            mutate(config.as_bytes().to_vec(), &mut dice, &pieces)
        } else {
            let mut milder: Vec<String> = config.lines().map(String::from).collect();
            let number = |c: char| c.is_ascii_digit();
            for _ in 0..3 {
                let line = 6 + dice.below(milder.len() as u64 - 6) as usize;
                let text = milder.remove(line);
                match text.split_once('=') {
                    Some((key, value)) if dice.below(2) == 0 && value.contains(number) => {
                        milder.push(format!(
                            "{key}={}",
                            value.replacen(number, &dice.below(12).to_string(), 1)
                        ));
                    }
                    _ => {}
                }
            }
            milder.join("\n").into_bytes()
        };
        place.write("c.toml", &mutated);
        let done = place.motes(&format!("fit --config c.toml --quiet --no-report --out run{i}"));
        let shown = String::from_utf8_lossy(&mutated);
        match done.code {
            Some(0) => {
                ran += 1;
                let again = place
                    .motes(&format!("fit --config run{i}/config.toml --quiet --no-report --out again{i}"));
                again.ok();
                common::same_bits(&place.path(&format!("run{i}")), &place.path(&format!("again{i}")));
            }
            Some(2) => {
                refused += 1;
                assert!(
                    done.err.starts_with("motes: ") && done.err.lines().count() == 1,
                    "{shown}\n{}",
                    done.err
                );
            }
            code => panic!("{code:?} for\n{shown}\n{}", done.err),
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(ran > 20 && refused > 100);
}

#[test]
fn mutated_data_files_are_refused_or_fitted() {
    let place = Place::in_memory();
    let mut dice = Dice(6);
    for i in 0..100 {
        let text = b"name,y\nana,1.5\nben,-2\ncem,?\ndee,1e2\n".to_vec();
        place
            .write("d.csv", mutate(text, &mut dice, &[b"\"", b",", b"\n", b"\xff", b"inf", b"1e308", b"\0"]));
        let mut command = place
            .command("fit hierarchical --algorithm pgd --data d.csv --steps 3 --quiet --no-report --out");
        let done = Done::of(command.arg(format!("run{i}")));
        assert!(matches!(done.code, Some(0 | 2)), "{:?}: {}", done.code, done.err);
        assert!(done.err.lines().count() <= 1, "{}", done.err);
    }
}
