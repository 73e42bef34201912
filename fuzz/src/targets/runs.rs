//! Readers of run directories.

use std::io::Cursor;
use std::sync::OnceLock;

use motes::npz::{self, NpzWriter};
use motes::sentence::Face;
use motes::{Flow, Observer, Pool, Settings, State, StepInfo, Summary, checkpoint};
use motes_app::carry::{self, Start, Watch};
use motes_app::config::Config;
use motes_app::job::Job;
use motes_app::{predict, report, show};
use motes_models::Hierarchical;
use motes_models::data::Unknown;
use motes_models::registry::{self, Given};
use serde_json::{Value, json};

use crate::{Dice, Scratch, Target, mutate};

/// Checkpoints, with a checksum that is right again after half of the damages.
pub const CHECKPOINT: Target = Target {
    name: "checkpoint",
    seeds: checkpoints,
    mutate: damage_checkpoint,
    read: read_checkpoint,
    cases: 15_000,
};

fn state() -> State<f64> {
    let model = Hierarchical::<f64>::new(&[1.0, 2.0, 3.0]);
    State::initial(&model, &Settings { particles: 2, keep_clouds: 1, ..Settings::default() })
}

fn checkpoints() -> Vec<Vec<u8>> {
    let state = state();
    let mut bytes = Vec::new();
    let header = checkpoint::Header::of(&state, 7, 8, 0.5);
    checkpoint::encode(&state, &header, &mut bytes).expect("writing to memory");
    vec![bytes]
}

fn damage_checkpoint(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 8] =
        [b"[]", b"null", b"-1", b"{", b"\\\"", b"[1,2]", b"F32", b"18446744073709551615"];
    let whole =
        |bytes: &[u8]| Some(8 + usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?);
    let length = whole(&seed).filter(|end| *end + 4 <= seed.len());
    match (dice.below(4), length) {
        // The header, with its own length and the checksum put right.
        (0 | 1, Some(end)) => {
            let header = mutate::bytes(seed[8..end].to_vec(), dice, &pieces);
            let mut forged = (header.len() as u64).to_le_bytes().to_vec();
            forged.extend(&header);
            forged.extend(&seed[end..seed.len() - 4]);
            forged.extend(crc32fast::hash(&forged).to_le_bytes());
            forged
        }
        // Anything, with the checksum put right.
        (2, _) if seed.len() > 4 => {
            let mut forged = mutate::bytes(seed[..seed.len() - 4].to_vec(), dice, &pieces);
            forged.extend(crc32fast::hash(&forged).to_le_bytes());
            forged
        }
        _ => mutate::bytes(seed, dice, &pieces),
    }
}

/// An error leaves the state alone.
fn read_checkpoint(bytes: &[u8], _: &Scratch) -> bool {
    let mut into = state();
    let read = checkpoint::decode(bytes, &mut into).is_ok();
    assert!(read || into == state(), "a refused checkpoint has changed the state");
    read
}

/// Arrays.
pub const NPZ: Target =
    Target { name: "npz", seeds: archives, mutate: damage_archive, read: read_archive, cases: 20_000 };

fn archives() -> Vec<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    let mut writer = NpzWriter::new(&mut file);
    let written = writer
        .array("a", &[2, 3], &[1.0f64, 2.0, 3.0, 4.0, 5.0, 6.0])
        .and_then(|()| writer.array("b", &[4], &[1.0f32; 4]))
        .and_then(|()| writer.strings("c", &["x[0]".into(), "größe".into()]))
        .and_then(|()| writer.finish());
    written.expect("writing to memory");
    vec![file.into_inner()]
}

fn damage_archive(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 9] = [
        b"(99999999999,)",
        b"<f8",
        b"<f4",
        b"<U0",
        b"<U4611686018427387904",
        b"PK\x05\x06",
        b"\xff\xff\xff\xff",
        b"True",
        b"'",
    ];
    if dice.below(3) == 0 { forged(dice, &["a", "b", "c"]) } else { mutate::bytes(seed, dice, &pieces) }
}

/// A sound archive whose arrays have not what their headers promise.
fn forged(dice: &mut Dice, names: &[&str]) -> Vec<u8> {
    let sizes = [0usize, 1, 2, 3, 4, 7, 1000, 1 << 20, 1 << 32, 100_000_000_000_000_000];
    let mut file = Cursor::new(Vec::new());
    let mut writer = NpzWriter::new(&mut file);
    for name in names {
        let shape: Vec<usize> = (0..dice.below(4)).map(|_| *dice.of_these(&sizes)).collect();
        // The writer itself multiplies what it is given.
        if shape.iter().try_fold(8usize, |p, n| p.checked_mul(*n)).is_none() {
            continue;
        }
        let there = match shape.iter().product::<usize>() {
            n if n <= 1000 && dice.below(2) == 0 => n,
            _ => dice.below(30) as usize,
        };
        let begun = match dice.below(3) {
            0 => writer.begin::<f32>(name, &shape),
            _ => writer.begin::<f64>(name, &shape),
        };
        let values: Vec<f64> = (0..there).map(|i| i as f64).collect();
        begun.and_then(|()| writer.values(&values)).expect("writing to memory");
    }
    writer.finish().expect("writing to memory");
    file.into_inner()
}

fn read_archive(bytes: &[u8], _: &Scratch) -> bool {
    let arrays = ["a", "b", "c", "", "../a"].map(|name| npz::read_npz(Cursor::new(bytes), name));
    for array in arrays.iter().flatten() {
        assert_eq!(array.shape.iter().product::<usize>(), array.values.len());
    }
    let at = bytes.windows(6).position(|w| w == b"\x93NUMPY").unwrap_or(0);
    let alone = npz::parse_npy(&bytes[at..]).is_ok() | npz::parse_strings(&bytes[at..]).is_ok();
    alone || arrays.iter().any(Result::is_ok)
}

/// The files of a small run of logistic regression, made once.
struct Made {
    files: Vec<(&'static str, Vec<u8>)>,
}

const TABLE: &str = "a,b,y\n1,2,0\n2,1,1\n3,5,0\n4,1,1\n5,4,0\n6,2,1\n7,1,0\n8,3,1\n9,2,0\n10,4,1\n";

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let scratch = Scratch::new();
        scratch.write("table.csv", TABLE.as_bytes());
        let text = "version = 2\nmodel = \"logistic\"\n[run]\nalgorithm = \"pgd\"\nsteps = 60\nparticles = 5\nburn-in = 20\nstep-size = 0.1\n\
                    [logistic]\nintercept = true\n";
        let mut config = Config::parse(text).expect("a config");
        let file = scratch.path("table.csv").to_string_lossy().to_string();
        config.options.insert("data".into(), file.into());
        let entry = registry::find("logistic").expect("a model");
        let problem = entry.load(config.options.clone(), Given::Options).expect("data");
        let job = Job::new(config, problem, None).expect("a job");
        let model = job.model::<f64>().expect("a model");
        let dir = scratch.path("run");
        let pool = Pool::new(Some(1)).expect("a thread");
        let start = Start::New(dir.clone());
        pool.install(|| carry::carry_out(job, &*model, start, None, &mut Nobody, motes::Stop::default())).expect("a run");
        // The same bytes every time, or a case would not be the same again.
        let root = scratch.path("").to_string_lossy().to_string();
        let read = |name: &'static str| {
            let bytes = std::fs::read(dir.join(name)).expect("a file of the run");
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text").replace(&root, "/somewhere/");
            (name, match name {
                "config.toml" => text(bytes).into_bytes(),
                "summary.json" => {
                    let mut json: Value = serde_json::from_str(&text(bytes)).expect("a summary");
                    json["time"] = json!({"seconds": 0.5, "steps_per_second": 120.0});
                    serde_json::to_vec_pretty(&json).expect("plain data")
                }
                _ => bytes,
            })
        };
        Made { files: ["config.toml", "summary.json", "trace.csv", "posterior.npz"].map(read).into() }
    })
}

struct Nobody;

impl Observer<f64> for Nobody {
    fn observe(&mut self, _: &StepInfo<'_, f64>) -> Flow {
        Flow::Continue
    }
}

impl Watch<f64> for Nobody {
    fn stopped(&self) -> bool {
        false
    }
}

fn file_of_run(name: &str) -> Vec<u8> {
    made().files.iter().find(|(n, _)| *n == name).expect("a file of the run").1.clone()
}

/// Puts a run into the scratch directory, with one of its files replaced.
fn place(scratch: &Scratch, name: &str, bytes: &[u8]) {
    for (other, content) in &made().files {
        // Those are not changed by reading.
        if *other != name && !scratch.path("run").join(other).exists() {
            scratch.write(&format!("run/{other}"), content);
        }
    }
    scratch.write(&format!("run/{name}"), bytes);
}

/// summary.json: what is believed can be shown.
pub const SUMMARY: Target =
    Target { name: "summary", seeds: summaries, mutate: damage_summary, read: read_summary, cases: 15_000 };

fn summaries() -> Vec<Vec<u8>> {
    vec![file_of_run("summary.json")]
}

fn damage_summary(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 7] = [b"null", b"[]", b"{}", b"-1", b"1e999", b"\"\"", b"}"];
    mutate::json(seed, dice, &pieces)
}

fn read_summary(bytes: &[u8], _: &Scratch) -> bool {
    let Ok(summary) = Summary::parse(bytes) else { return false };
    for face in [Face::Shell, Face::Python] {
        let shown = show::summary(&summary, "run".as_ref(), face);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        assert!(shown.len() < 20_000, "{} characters", shown.len());
    }
    assert!(Summary::parse(summary.to_json().as_bytes()).is_ok(), "written and refused");
    true
}

/// Predictions with a damaged summary.json: refused, or probabilities.
pub const PREDICT: Target =
    Target { name: "predict", seeds: summaries, mutate: damage_summary, read: read_predict, cases: 4_000 };

fn read_predict(bytes: &[u8], scratch: &Scratch) -> bool {
    place(scratch, "summary.json", bytes);
    scratch.write("new.csv", TABLE.as_bytes());
    let Ok(done) = predict::predict(&scratch.path("run"), &scratch.path("new.csv"), Unknown::Refuse) else {
        return false;
    };
    assert_eq!(done.rows, 10, "{}", done.csv);
    // A class may have any name, and so take more than one line.
    let rows: Vec<Vec<f64>> = (done.csv.lines().skip(1))
        .filter_map(|line| line.rsplit(',').take(3).map(|p| p.parse().ok()).collect::<Option<Vec<f64>>>())
        .filter(|p| p.len() == 3)
        .collect();
    assert!(rows.len() == 10 && rows.iter().flatten().all(|p| (0.0..=1.0).contains(p)), "{}", done.csv);
    true
}

fn read_report(scratch: &Scratch) -> bool {
    let page = scratch.path("page.html");
    let written = report::write_page(&[scratch.path("run")], Some(page.clone()));
    let Ok(page) = written.map(|_| std::fs::read_to_string(&page).expect("the page")) else { return false };
    assert!(page.len() <= 1_000_000 && page.trim_end().ends_with("</html>"), "{} bytes", page.len());
    true
}

/// Reports with a damaged summary or config.
pub const REPORT: Target =
    Target { name: "report", seeds: reported, mutate: damage_report, read: read_texts, cases: 2_500 };

fn reported() -> Vec<Vec<u8>> {
    vec![file_of_run("summary.json"), file_of_run("config.toml")]
}

fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

fn damage_report(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 6] = [b"\n", b"\"", b"</script>", b"<b>", b"\\u001b", b"="];
    if is_json(&seed) { damage_summary(seed, dice) } else { mutate::bytes(seed, dice, &pieces) }
}

fn read_texts(bytes: &[u8], scratch: &Scratch) -> bool {
    let (name, other) = match is_json(bytes) {
        true => ("summary.json", "config.toml"),
        false => ("config.toml", "summary.json"),
    };
    scratch.write(&format!("run/{other}"), &file_of_run(other));
    place(scratch, name, bytes);
    read_report(scratch)
}

/// Reports with a damaged trace.
pub const TRACE: Target =
    Target { name: "trace", seeds: traces, mutate: damage_trace, read: read_trace, cases: 2_500 };

fn traces() -> Vec<Vec<u8>> {
    vec![file_of_run("trace.csv")]
}

fn damage_trace(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 9] =
        [b"\n", b",", b"\"", b"\n0,1\n", b"\n5,1e308,2\n", b"inf", b"NaN", b"\xff", b"\0"];
    mutate::bytes(seed, dice, &pieces)
}

fn read_trace(bytes: &[u8], scratch: &Scratch) -> bool {
    place(scratch, "trace.csv", bytes);
    read_report(scratch)
}

/// Reports and predictions with damaged or forged arrays.
pub const POSTERIOR: Target = Target {
    name: "posterior",
    seeds: posteriors,
    mutate: damage_posterior,
    read: read_posterior,
    cases: 2_500,
};

fn posteriors() -> Vec<Vec<u8>> {
    vec![file_of_run("posterior.npz")]
}

fn damage_posterior(seed: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let pieces: [&[u8]; 4] = [b"PK\x05\x06", b"\xff\xff\xff\xff", b"(1, 100000000000000000)", b"<f4"];
    match dice.below(2) {
        0 => forged(dice, &["clouds", "particles", "mean", "var", "x_names"]),
        _ => mutate::bytes(seed, dice, &pieces),
    }
}

fn read_posterior(bytes: &[u8], scratch: &Scratch) -> bool {
    place(scratch, "posterior.npz", bytes);
    scratch.write("new.csv", TABLE.as_bytes());
    let predicted = predict::predict(&scratch.path("run"), &scratch.path("new.csv"), Unknown::Refuse).is_ok();
    read_report(scratch) | predicted
}
