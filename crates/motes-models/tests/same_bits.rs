//! The same bits for any number of threads and however a run is interrupted; damaged checkpoints are refused.

use crate::common;

use common::catalogue::{Entry, catalogue, of_groups};
use common::models::Reduced;
use motes::algorithms::EM;
use motes::checkpoint::{Header, decode, encode};
use motes::{Flow, Model, Real, Settings, State, StepInfo};
use motes_models::Hierarchical;
use proptest::prelude::*;

/// All that a run shows: k, theta and sums at each step, and the final state, bit by bit.
#[derive(Debug, PartialEq)]
struct Shown {
    steps: Vec<(u64, Vec<u64>, Vec<u64>)>,
    acceptances: Vec<Option<f64>>,
    state: Vec<u8>,
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// The whole state as the bytes of a checkpoint, with a fixed time.
fn bytes<F: Real>(state: &State<F>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(state, &Header::of(state, 17, 1234, 0.5), &mut bytes).expect("memory");
    bytes
}

/// Goes on from `state`, stopping after step `cut` if there is one.
fn go_on<F: Real>(
    model: &dyn Model<F>,
    settings: &Settings,
    state: &mut State<F>,
    cut: Option<u64>,
) -> Shown {
    let (mut steps, mut acceptances) = (Vec::new(), Vec::new());
    let mut observer = |info: &StepInfo<'_, F>| {
        steps.push((info.k, bits(info.theta), bits(info.sums)));
        acceptances.push(info.acceptance);
        if cut == Some(info.k) { Flow::Stop } else { Flow::Continue }
    };
    motes::run(model, settings, state, None, &mut [&mut observer]).expect("a run");
    Shown { steps, acceptances, state: bytes(state) }
}

fn shown<F: Real>(entry: &Entry, y: &[f64], threads: usize) -> Shown {
    let model = model_of::<F>(entry, y);
    common::on(threads, || {
        let mut state = motes::start(&model, &entry.settings).expect("a start");
        go_on(&model, &entry.settings, &mut state, None)
    })
}

/// One problem of several blocks that are worth a thread each, and one that stays on the calling thread.
fn problems() -> [(Vec<f64>, Vec<Entry>); 3] {
    let data = |d| Hierarchical::<f64>::generate(d, 1.0, 9);
    let groups = of_groups(40, 5, 5e-4, 1.0, 1700);
    [(data(3000), catalogue(40, 5, 5e-4, 0.01)), (data(3), catalogue(7, 30, 0.1, 0.2)), (data(3000), groups)]
}

fn model_of<F: Real>(entry: &Entry, y: &[f64]) -> Reduced<F> {
    if entry.grouped { Reduced::grouped(y, entry.gives) } else { Reduced::new(y, entry.gives) }
}

fn threads_do_not_matter<F: Real>() {
    for (y, entries) in problems() {
        let (mut accepted, mut rejected) = (0, 0);
        for entry in &entries {
            let alone = shown::<F>(entry, &y, 1);
            let has_sums = entry.settings.algorithm != &EM && !entry.name.contains("numerical");
            assert_eq!(alone.steps.len() as u64, entry.settings.steps + 1);
            assert!(alone.steps[1..].iter().all(|s| s.2.is_empty() != has_sums), "{}", entry.name);
            for threads in [2, 3, 5, 8] {
                let other = shown::<F>(entry, &y, threads);
                for (a, b) in alone.steps.iter().zip(&other.steps) {
                    assert_eq!(a, b, "{} at D = {}, {threads} threads, {}", entry.name, y.len(), F::NAME);
                }
                assert!(alone == other, "{} at D = {}, {threads} threads, {}", entry.name, y.len(), F::NAME);
            }
            accepted += alone.acceptances.iter().flatten().filter(|a| **a > 0.0).count();
            rejected += alone.acceptances.iter().flatten().filter(|a| **a < 1.0).count();
        }
        assert!(accepted > 0 && rejected > 0, "D = {}: {accepted} accepted, {rejected} rejected", y.len());
    }
}

#[test]
fn threads_do_not_matter_in_double_precision() {
    threads_do_not_matter::<f64>();
}

#[test]
fn threads_do_not_matter_in_single_precision() {
    threads_do_not_matter::<f32>();
}

/// Another seed gives other bits: the comparisons above compare something.
#[test]
fn seeds_matter() {
    let [_, (y, entries), _] = problems();
    for entry in entries {
        let other = Entry {
            settings: Settings { seed: 6, ..entry.settings.clone() },
            name: entry.name.clone(),
            gives: entry.gives,
            grouped: entry.grouped,
        };
        let same = shown::<f64>(&entry, &y, 1) == shown::<f64>(&other, &y, 1);
        assert_eq!(same, entry.settings.algorithm == &EM, "{}", entry.name);
    }
}

fn interruptions_do_not_matter<F: Real>() {
    for (y, entries) in problems() {
        for (i, entry) in entries.iter().enumerate() {
            let model = model_of::<F>(entry, &y);
            let settings = &entry.settings;
            let whole = shown::<F>(entry, &y, 2);
            for cut in [1, 2, 1 + i as u64 % (settings.steps - 1), settings.steps - 1] {
                common::on(1 + i % 3, || {
                    let mut state = motes::start(&model, settings).expect("a start");
                    let before = go_on(&model, settings, &mut state, Some(cut));
                    let mut resumed = State::initial(&model, settings);
                    let header = decode(&before.state[..], &mut resumed).expect("a checkpoint");
                    assert_eq!((header.settings, header.trace_bytes, header.seconds), (17, 1234, 0.5));
                    assert!(bytes(&resumed) == before.state, "{} reads back", entry.name);
                    let after = go_on(&model, settings, &mut resumed, None);
                    let steps = [&before.steps[..], &after.steps[..]].concat();
                    assert!(steps == whole.steps, "{} cut at {cut}, {}", entry.name, F::NAME);
                    assert!(after.state == whole.state, "{} cut at {cut}, {}", entry.name, F::NAME);
                });
            }
        }
    }
}

#[test]
fn interruptions_do_not_matter_in_double_precision() {
    interruptions_do_not_matter::<f64>();
}

#[test]
fn interruptions_do_not_matter_in_single_precision() {
    interruptions_do_not_matter::<f32>();
}

/// Auto has no number of steps: its fits are cut after some sweeps of each stage.
fn auto_is_the_same<F: Real>() {
    let y = Hierarchical::<f64>::generate(700, 1.0, 9);
    for (model, n) in [
        (Hierarchical::<F>::grouped(&y), 9),
        (Hierarchical::<F>::new(&y), 33),
        (Hierarchical::<F>::new(&y[..3]), 8),
    ] {
        let settings = Settings { particles: n, ..Settings::auto(true, 5) };
        let fit = |threads| {
            common::on(threads, || {
                let mut state = motes::start(&model, &settings).expect("a start");
                go_on(&model, &settings, &mut state, None)
            })
        };
        let whole = fit(1);
        for threads in [2, 3, 5] {
            assert!(whole == fit(threads), "{threads} threads, {}", F::NAME);
        }
        let last = whole.steps.last().expect("steps").0;
        let cuts = [1, 2, 49, 50, 51, 99, 100, 101, 149, 151, 199, 200, 201, 250, last - 1];
        for (i, cut) in cuts.into_iter().chain((1..8).map(|i| i * last / 8)).filter(|c| *c < last).enumerate()
        {
            common::on(1 + i % 3, || {
                let mut state = motes::start(&model, &settings).expect("a start");
                let before = go_on(&model, &settings, &mut state, Some(cut));
                let mut resumed = State::initial(&model, &settings);
                decode(&before.state[..], &mut resumed).expect("a checkpoint");
                assert!(bytes(&resumed) == before.state, "auto reads back at {cut}");
                let after = go_on(&model, &settings, &mut resumed, None);
                let steps = [&before.steps[..], &after.steps[..]].concat();
                assert!(steps == whole.steps && after.state == whole.state, "auto cut at {cut}, {}", F::NAME);
            });
        }
    }
}

#[test]
fn auto_is_the_same_in_double_precision() {
    auto_is_the_same::<f64>();
}

#[test]
fn auto_is_the_same_in_single_precision() {
    auto_is_the_same::<f32>();
}

/// A run that was complete and is resumed for more steps equals the longer run.
#[test]
fn a_longer_run_goes_on_where_a_shorter_one_ended() {
    let [_, (y, entries), _] = problems();
    for entry in &entries {
        let model = Reduced::<f64>::new(&y, entry.gives);
        let whole = shown::<f64>(entry, &y, 1);
        let shorter = Settings { steps: 13, ..entry.settings.clone() };
        common::on(1, || {
            let mut state = motes::start(&model, &shorter).expect("a start");
            let before = go_on(&model, &shorter, &mut state, None);
            let mut resumed = State::initial(&model, &entry.settings);
            decode(&before.state[..], &mut resumed).expect("a checkpoint");
            let after = go_on(&model, &entry.settings, &mut resumed, None);
            assert!(after.state == whole.state, "{}", entry.name);
        });
    }
}

/// A small checkpoint with something in every array, and a fresh state that it fits.
fn checkpoint() -> (Vec<u8>, State<f32>) {
    let entries = catalogue(3, 8, 0.1, 0.2);
    let entry = entries.iter().find(|e| e.name.contains("adam, adjusted")).expect("an entry");
    let model = Reduced::<f32>::new(&[1.0, 2.0], entry.gives);
    common::on(1, || {
        let mut state = motes::start(&model, &entry.settings).expect("a start");
        let shown = go_on(&model, &entry.settings, &mut state, None);
        (shown.state, State::initial(&model, &entry.settings))
    })
}

/// Decoding fails, with a text, and leaves the state as it was.
fn refuses(damaged: &[u8], fresh: &State<f32>, what: &str) {
    let mut state = fresh.clone();
    let problem = decode(damaged, &mut state).expect_err(what);
    assert!(!problem.is_empty() && state == *fresh, "{what}");
}

#[test]
fn any_flipped_bit_and_any_truncation_is_refused() {
    let (good, fresh) = checkpoint();
    decode(&good[..], &mut fresh.clone()).expect("the undamaged one");
    let mut damaged = good.clone();
    for byte in 0..good.len() {
        for bit in 0..8 {
            damaged[byte] ^= 1 << bit;
            refuses(&damaged, &fresh, &format!("bit {bit} of byte {byte}"));
            damaged[byte] = good[byte];
        }
        refuses(&good[..byte], &fresh, &format!("cut to {byte} bytes"));
    }
    damaged.push(0);
    refuses(&damaged, &fresh, "a byte too many");
}

/// Sizes in the header are believed only within what the run has planned: nothing is allocated for them.
#[test]
fn monstrous_sizes_are_refused() {
    let (good, fresh) = checkpoint();
    let length = u64::from_le_bytes(good[..8].try_into().expect("8 bytes")) as usize;
    let header: serde_json::Value = serde_json::from_slice(&good[8..8 + length]).expect("JSON");
    let with = |header: &serde_json::Value| {
        let json = header.to_string();
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.extend(&good[8 + length..]);
        bytes
    };
    let names: Vec<&String> = header.as_object().expect("an object").keys().collect();
    for name in names.into_iter().filter(|name| *name != "__metadata__") {
        for size in [u64::MAX, u64::MAX / 8, 1 << 40, 0] {
            let mut changed = header.clone();
            if changed[name]["shape"][0] == size {
                continue;
            }
            changed[name]["shape"][0] = size.into();
            refuses(&with(&changed), &fresh, &format!("{name} of {size}"));
            let start = changed[name]["data_offsets"][0].as_u64().expect("a number");
            changed[name]["data_offsets"][1] = start.saturating_add(size.saturating_mul(8)).into();
            refuses(&with(&changed), &fresh, &format!("{name} of {size} up to there"));
        }
    }
    for length in [u64::MAX, 1 << 50, (4 << 20) + 1] {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        refuses(&bytes, &fresh, &format!("a header of {length} bytes"));
    }
}

#[test]
fn checkpoints_of_other_runs_are_refused() {
    let (good, _) = checkpoint();
    let model = Hierarchical::<f64>::new(&[1.0, 2.0]);
    let settings = Settings { particles: 3, ..Settings::default() };
    let mut double = State::initial(&model, &settings);
    assert!(decode(&good[..], &mut double).is_err(), "other precision");
    let model = Hierarchical::<f32>::new(&[1.0, 2.0, 3.0]);
    let mut wider = State::initial(&model, &settings);
    assert!(decode(&good[..], &mut wider).is_err(), "other dimension");
    let model = Hierarchical::<f32>::new(&[1.0, 2.0]);
    let mut plain = State::initial(&model, &settings);
    assert!(decode(&good[..], &mut plain).is_err(), "no memory for Adam, no room for growth");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn random_bytes_are_refused(noise in proptest::collection::vec(any::<u8>(), 0..400), keep in 0usize..40) {
        let (good, fresh) = checkpoint();
        let mut bytes = good[..keep].to_vec();
        bytes.extend(&noise);
        refuses(&bytes, &fresh, "noise");
    }

    #[test]
    fn overwritten_stretches_are_refused(at in any::<prop::sample::Index>(), noise in proptest::collection::vec(any::<u8>(), 1..64)) {
        let (good, fresh) = checkpoint();
        let start = at.index(good.len());
        let end = (start + noise.len()).min(good.len());
        let mut bytes = good.clone();
        bytes[start..end].copy_from_slice(&noise[..end - start]);
        prop_assume!(bytes != good);
        refuses(&bytes, &fresh, "an overwritten stretch");
    }
}
