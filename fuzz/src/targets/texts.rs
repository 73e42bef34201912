//! Readers of what people write: configs, values of flags, and whatever ends in a sentence.

use motes::sentence::{Face, render};
use motes_app::choices::Choices;
use motes_app::config::Config;
use motes_app::job;
use motes_models::registry::{self, MODELS};
use serde_json::Value;

use crate::{Dice, Scratch, Target, mutate};

/// Config files.
pub const CONFIG: Target =
    Target { name: "config", seeds: configs, mutate: damage_config, read: read_config, cases: 20_000 };

fn configs() -> Vec<Vec<u8>> {
    [
        "version = 2\nmodel = \"hierarchical\"\n[hierarchical]\ndim = 4\n[run]\nalgorithm = \"pgd\"\nparticles = 3\n\
         steps = 9\nburn-in = 4\nstep-size = 0.01\ngrow = \"5:6\"\nstep-decay = \"0.5,10\"\nwarm-start = \"1x3\"\n\
         init-particles = \"0\"\nseed = 1\ntrace-every = 1\nkeep-clouds = 1\nadjust = false\n",
        "version = 2\nmodel = \"logistic\"\ndata-sha256 = \"00\"\n[run]\nsteps = 20\nprecision = \"f32\"\n\
         preconditioner = \"adam\"\n[logistic]\ndata = \"d.csv\"\ntarget = \"y\"\ndrop = [\"a\", \"b\"]\n\
         prior-variance = 2.5\nintercept = true\n",
        "version = 2\nmodel = \"bnn\"\n[run]\nseed = 18446744073709551615\n[bnn]\nhidden = 40\nclasses = [4, 9]\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn damage_config(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 25] = [
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
        b"\\u001b",
        b"[run]\n",
        FOREIGN,
    ];
    mutate::bytes(seed, dice, &pieces)
}

fn read_config(bytes: &[u8], _: &Scratch) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Config::parse(text) {
        Ok(config) => {
            // What the model's own options may be is known when they are loaded; tables and dates they are not.
            let plain = |value: &Value| match value {
                Value::Array(list) => list.iter().all(|v| !v.is_object() && !v.is_array()),
                value => !value.is_object(),
            };
            if config.options.values().all(plain) && registry::find(&config.model).is_some() {
                let again = Config::parse(&config.to_toml());
                let again = again.unwrap_or_else(|e| panic!("written and refused: {e}"));
                // As text: a number that is none does not equal itself.
                assert_eq!(again.to_toml(), config.to_toml(), "written and read");
            }
            let _ = job::before_data(&config, Some(1), None);
            true
        }
        Err(e) => {
            is_a_sentence(&e.to_string());
            false
        }
    }
}

/// A word in backquotes, which is not to be taken for a setting.
pub const FOREIGN: &[u8] = b"`zz`";

/// Whatever is refused is refused in words of either face, and what was damaged stands in them as it is.
pub fn is_a_sentence(text: &str) {
    let flags = |text: &str| text.matches("--zz").count();
    assert!(flags(&render(text, Face::Shell)) <= flags(text), "a flag of {text:?}");
    for face in [Face::Shell, Face::Python] {
        let said = render(text, face);
        assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
    }
}

/// The values of all flags.
pub const FLAGS: Target =
    Target { name: "flags", seeds: values, mutate: damage_value, read: read_value, cases: 40_000 };

fn values() -> Vec<Vec<u8>> {
    [
        "5:6,9:12",
        "0.5,10",
        "1x3",
        "pgd:1x100",
        "prior",
        "f32",
        "adam",
        "0.01",
        "auto",
        "true",
        "12",
        "a,b",
        "4,9",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn damage_value(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 9] = [b":", b",", b"x", b"-", b"e", b".", b"\xc3\xa9", b" ", FOREIGN];
    mutate::bytes(seed, dice, &pieces)
}

fn read_value(bytes: &[u8], _: &Scratch) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut read = false;
    for flag in Choices::flags().iter().chain(MODELS.iter().flat_map(|entry| entry.flags())) {
        match (flag.parse)(text) {
            Ok(value) => {
                read = true;
                // A value that is written down is read again.
                let shown = value.as_str().map_or_else(|| value.to_string(), String::from);
                assert!((flag.parse)(&shown).is_ok(), "{} takes {text:?} but not {shown:?}", flag.name);
            }
            Err(problem) => is_a_sentence(&problem),
        }
    }
    read
}

/// Whatever is said.
pub const SENTENCE: Target = Target {
    name: "sentence",
    seeds: sentences,
    mutate: damage_sentence,
    read: read_sentence,
    cases: 40_000,
};

fn sentences() -> Vec<Vec<u8>> {
    [
        "`step-size=0.1` is large; `resume()` the run",
        "a column '`x y`' and one `",
        "`drop='a b'` goes, `A` stays",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn damage_sentence(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 9] =
        [b"`", b"``", b"=", b"()", b"\x1b[2J", b"\xc2\x9b", b"\xe2\x80\xae", b"\n", b"\xf0\x9f\x99\x82"];
    mutate::bytes(seed, dice, &pieces)
}

fn read_sentence(bytes: &[u8], _: &Scratch) -> bool {
    let text = String::from_utf8_lossy(bytes);
    if !text.is_empty() {
        is_a_sentence(&text);
    }
    let lines = motes::printable::printable_lines(&text);
    assert!(!lines.contains(|c: char| c.is_control() && c != '\n'), "{lines:?}");
    true
}
