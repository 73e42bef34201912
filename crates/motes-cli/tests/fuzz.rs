//! Readers meet bytes of every kind: they refuse them or read them, and never crash.

mod common;

use std::io::Cursor;

use common::{Dice, Done, Place};
use motes::sentence::Face;
use motes::{Settings, State, Summary, checkpoint, npz};
use motes_models::{Hierarchical, data};
use proptest::prelude::*;

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

fn csv(bytes: &[u8]) {
    if let Ok(table) = data::read_table(bytes, "fuzzed.csv") {
        let _ = data::column(&table, None);
        let target = table.names()[0].clone();
        let _ = data::column(&table, Some(&target));
        let _ = data::classification(&table, Some(&target), &[]);
    }
}

fn state() -> State<f64> {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0, 3.0]);
    State::initial(&model, &Settings { particles: 2, keep_clouds: 1, ..Settings::default() })
}

fn encoded() -> Vec<u8> {
    let state = state();
    let header = checkpoint::Header::of(&state, 7, 8, 0.5);
    let mut bytes = Vec::new();
    checkpoint::encode(&state, &header, &mut bytes).unwrap();
    bytes
}

/// Whatever the bytes, an error leaves the state alone.
fn decode(bytes: &[u8]) {
    let mut into = state();
    if checkpoint::decode(bytes, &mut into).is_err() {
        assert_eq!(into, state());
    }
}

fn told() -> Vec<u8> {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0, 3.0]);
    let settings = Settings { particles: 2, steps: 40, burn_in: 4, ..Settings::default() };
    let mut state = motes::start(&model, &settings).unwrap();
    motes::run(&model, &settings, &mut state, None, &mut []).unwrap();
    Summary::of(&model, &settings, serde_json::Value::Null, &state, 0.5).to_json().into_bytes()
}

/// A summary that is believed can be shown.
fn shown(bytes: &[u8]) {
    if let Ok(summary) = Summary::parse(bytes) {
        motes_app::show::summary(&summary, "run".as_ref(), Face::Shell);
    }
}

fn archive() -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = npz::NpzWriter::new(&mut file);
    writer.array("a", &[2, 3], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    writer.array("b", &[4], &[1.0f32; 4]).unwrap();
    writer.strings("c", &["x[0]".into(), "größe".into()]).unwrap();
    writer.finish().unwrap();
    file.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        csv(&bytes);
        decode(&bytes);
        shown(&bytes);
        for name in ["a", "", "../a"] {
            let _ = npz::read_npz(Cursor::new(&bytes), name);
        }
    }

    #[test]
    fn almost_valid_files_are_refused_or_read(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let text = b"id,\"x, y\",y\n1,2.5,0\n2,?,1\n3,\"4\",NA\n\n4,1e3,1\n".to_vec();
        csv(&mutate(text, &mut dice, &[b"\"", b",", b"\n", b"\r", b"\xff", b"nan", b"1e999", b"\"\"", b";"]));
        decode(&mutate(encoded(), &mut dice, &[b"[]", b"null", b"-1", b"18446744073709551615", b"{", b"1e999"]));
        let pieces: [&[u8]; 6] = [b"(99999999999,)", b"<f8", b"PK\x05\x06", b"\xff\xff\xff\xff", b"True", b"'"];
        let bytes = mutate(archive(), &mut dice, &pieces);
        for name in ["a", "b"] {
            let _ = npz::read_npz(Cursor::new(&bytes), name);
        }
    }

    #[test]
    fn almost_valid_summaries_are_refused_or_shown(seed in any::<u64>()) {
        let pieces: [&[u8]; 9] =
            [b"null", b"[]", b"{}", b"-1", b"1e999", b"\"\"", b"18446744073709551615", b"1,", b"}"];
        static TOLD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        shown(&mutate(TOLD.get_or_init(told).clone(), &mut Dice(seed), &pieces));
    }

    /// The checksum is put right again, so that the header itself is what must hold.
    #[test]
    fn forged_checkpoint_headers_are_refused_or_read(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let bytes = encoded();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let numbers: [&[u8]; 6] = [b"0", b"9", b"18446744073709551615", b"-1", b"4294967296", b"[1,2]"];
        let header = mutate(bytes[8..8 + length].to_vec(), &mut dice, &numbers);
        let mut forged = (header.len() as u64).to_le_bytes().to_vec();
        forged.extend(&header);
        forged.extend(&bytes[8 + length..bytes.len() - 4]);
        forged.extend(crc32fast::hash(&forged).to_le_bytes());
        decode(&forged);
    }
}

#[test]
fn mutated_configs_are_refused_or_run() {
    let place = Place::in_memory();
    let config = "version = 2\nmodel = \"hierarchical\"\n[hierarchical]\ndim = 4\n[run]\nalgorithm = \"pgd\"\nparticles = 3\nsteps = 9\n\
                  burn-in = 4\nstep-size = 0.01\ngrow = \"5:6\"\nstep-decay = \"0.5,10\"\nwarm-start = \"1x3\"\n\
                  init-particles = \"0\"\nseed = 1\ntrace-every = 1\nkeep-clouds = 1\nadjust = false\n";
    let pieces: [&[u8]; 22] = [
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
        b"pmgd",
        b"soul",
        b"marginal-mh",
        b"1979-05-27",
        b".",
    ];
    let mut dice = Dice(5);
    let (mut ran, mut refused) = (0, 0);
    for i in 0..300 {
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
        let mut command = place.command("fit hierarchical --data d.csv --steps 3 --quiet --no-report --out");
        let done = Done::of(command.arg(format!("run{i}")));
        assert!(matches!(done.code, Some(0 | 2)), "{:?}: {}", done.code, done.err);
        assert!(done.err.lines().count() <= 1, "{}", done.err);
    }
}
