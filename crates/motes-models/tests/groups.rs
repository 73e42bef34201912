//! Latent variables in groups: what moves together, what is accepted together, and what a batch leaves alone.

use crate::common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::fit;
use motes::algorithms::{ABP, PGD, PMGD, PQN, SHORT_RUN};
use motes::settings::{Growth, InitParticles, Preconditioner};
use motes::step::{Plan, StepSizes, Stepper, Streams};
use motes::{At, Model, ModelError, Settings, State, Stop, Want};
use motes_models::Hierarchical;

fn adjusted(particles: usize) -> Settings {
    Settings {
        algorithm: &PMGD,
        particles,
        steps: 200,
        burn_in: 50,
        step_size: 0.6,
        adjust: true,
        adjust_after: 0,
        init_particles: InitParticles::Prior,
        ..Settings::default()
    }
}

/// Groups are accepted or rejected by themselves, so that the number of groups says nothing about how often.
#[test]
fn acceptance_does_not_depend_on_the_number_of_groups() {
    let rate = |groups: usize, grouped: bool, particles: usize| {
        let y = Hierarchical::<f64>::generate(groups, 1.0, 3);
        let model = if grouped { Hierarchical::<f64>::grouped(&y) } else { Hierarchical::new(&y) };
        let state = common::on(2, || fit(&model, &adjusted(particles)).expect("a run"));
        let moves = state.acceptance.proposed;
        let rate = state.acceptance.rate().expect("moves");
        // Successive moves of a particle depend on each other for a step or two: four standard errors, twice as wide.
        (rate, 8.0 * (rate * (1.0 - rate) / moves as f64).sqrt())
    };
    let (few, error_of_few) = rate(10, true, 100);
    let (many, error_of_many) = rate(10_000, true, 2);
    assert!(few > 0.5 && few < 0.95, "{few}");
    assert!((few - many).abs() < error_of_few + error_of_many, "{few} {many}");
    assert!(rate(10_000, false, 2).0 < 0.1, "all at once are hardly ever accepted");
}

/// One stepper of pgd on groups.
fn stepper<'m>(model: &'m Hierarchical<f64>, settings: &Settings, sizes: &[usize]) -> Stepper<'m, f64> {
    let plan = Plan {
        seed: settings.seed,
        streams: Streams::Run,
        adjust_after: 0,
        batch: settings.batch,
        sizes,
        encoder_rate: 0.0,
    };
    Stepper::new(model, settings.composition(), plan, Stop::default()).expect("a stepper")
}

/// The noise of (group, particle) is its own: a batch, or a cloud that is to grow, moves a particle as the whole cloud does.
#[test]
fn neither_batches_nor_growth_move_anybodys_noise() {
    let y = Hierarchical::<f64>::generate(9, 1.0, 3);
    let model = Hierarchical::<f64>::grouped(&y);
    let settings = Settings { particles: 4, init_particles: InitParticles::Prior, ..Settings::default() };
    let sizes = StepSizes { h: 0.05, rate: 0.05 };
    common::on(1, || {
        let start = State::initial(&model, &settings);
        let mut whole = start.clone();
        stepper(&model, &settings, &[4]).step(&mut whole, sizes).expect("a step");
        let batched = Settings { batch: Some(2), ..settings.clone() };
        let mut part = start.clone();
        let mut of_batch = stepper(&model, &batched, &[4]);
        of_batch.step(&mut part, sizes).expect("a step");
        let moved = of_batch.moved().expect("a batch").to_vec();
        assert_eq!(moved.len(), 2);
        for g in 0..9 {
            let expected = if moved.contains(&(g as u32)) { &whole } else { &start };
            assert_eq!(part.cloud.group(g), expected.cloud.group(g), "group {g}");
        }
        // Theta moved by the batch's gradient, as if all groups were like these.
        let sum: f64 =
            moved.iter().flat_map(|g| start.cloud.group(*g as usize)).map(|x| x - start.theta[0]).sum();
        let expected = start.theta[0] + 0.05 * sum * 9.0 / 2.0 / 4.0;
        assert!((part.theta[0] - expected).abs() < 1e-12, "{} {expected}", part.theta[0]);
        // With twice as many particles to come, the first ones have other noise numbers in all groups but the first;
        // those who are there when it grows keep theirs.
        let growing = Settings { grow: Growth(vec![(2, 8)]), ..settings.clone() };
        let eight = Settings { particles: 8, ..settings.clone() };
        let (mut small, mut large) = (State::initial(&model, &growing), State::initial(&model, &eight));
        stepper(&model, &growing, &[4, 8]).step(&mut small, sizes).expect("a step");
        large.theta.copy_from_slice(&State::initial(&model, &growing).theta);
        stepper(&model, &eight, &[8]).step(&mut large, sizes).expect("a step");
        for g in 0..9 {
            assert_eq!(small.cloud.group(g), &large.cloud.group(g)[..4], "group {g}");
        }
    });
}

/// Batches of groups, adjusted or not, find the maximum; every group is visited as often as the others, give or take one.
#[test]
fn batches_of_groups_find_the_maximum() {
    let y = Hierarchical::<f64>::generate(50, 1.0, 3);
    let model = Hierarchical::<f64>::grouped(&y);
    for (algorithm, adjust) in [(&PGD, false), (&PGD, true), (&PQN, true), (&ABP, false), (&SHORT_RUN, false)]
    {
        let settings = Settings {
            algorithm,
            particles: 20,
            steps: 6003,
            burn_in: 1000,
            step_size: 0.1,
            theta_rate: algorithm.takes("theta-rate", &Settings::default()).then_some(2e-3),
            adjust,
            batch: Some(7),
            transitions: 12,
            init_particles: match algorithm == &SHORT_RUN {
                true => InitParticles::Value(0.0),
                false => InitParticles::Prior,
            },
            ..Settings::default()
        };
        let state = common::on(2, || fit(&model, &settings).expect("a run"));
        let counts = &state.averages.counts;
        let (least, most) = counts.iter().fold((f64::MAX, 0.0f64), |(a, b), c| (a.min(*c), b.max(*c)));
        assert!(most - least <= 20.0 && least >= 20.0 * (5003.0 / 8.0 - 1.0), "{least} {most}");
        let error = state.batches.variance_of_mean(0).expect("batches").sqrt();
        let off = state.averages.theta_mean().expect("steps")[0] - model.theta_star();
        // The gradient of a batch is unbiased, and the model is linear: so is theta.
        assert!(off.abs() < 4.0 * error && error < 0.05, "{algorithm} {adjust}: {off} +- {error}");
        let (mean, variance) = state.averages.posterior().expect("clouds");
        for (i, y) in y.iter().enumerate() {
            let truth = 0.5 * (y + model.theta_star());
            assert!((mean[i] - truth).abs() < 0.2, "{algorithm}: x[{i}] {} {truth}", mean[i]);
            // 700 visits of 20 particles; unadjusted, h = 0.1 widens by 1 / (1 - h).
            assert!((variance[i] - 0.53).abs() < 0.12, "{algorithm}: x[{i}] {}", variance[i]);
        }
    }
}

/// What needs all groups at once refuses a part of them, in a sentence.
#[test]
fn what_needs_all_groups_refuses_batches() {
    let model = Hierarchical::<f64>::grouped(&[1.0, 2.0, 3.0]);
    let of = |algorithm, batch| Settings { algorithm, batch: Some(batch), ..Settings::default() };
    let refused = |settings: Settings| settings.validate(&model).expect_err("a refusal").to_string();
    assert!(refused(of(&PMGD, 2)).contains("pmgd needs all data"));
    assert!(refused(of(&motes::algorithms::MARGINAL_MH, 2)).contains("refuses `batch`"));
    assert!(refused(of(&motes::algorithms::EM, 2)).contains("em needs all data"));
    assert!(refused(of(&PGD, 4)).contains("more than the 3 groups"));
    assert!(Settings { adjust: true, adjust_after: 0, ..of(&PGD, 2) }.validate(&model).is_ok());
}

/// A model with running statistics, all of whose rows are one block, and which can be told to stop.
struct Remembering<'a> {
    inner: Hierarchical<f64>,
    /// How often it has been evaluated.
    calls: AtomicUsize,
    stop: &'a AtomicBool,
    /// It hears the flag at this call.
    at: usize,
}

impl Model<f64> for Remembering<'_> {
    fn name(&self) -> &str {
        "remembering"
    }
    fn d_theta(&self) -> usize {
        1
    }
    fn d_x(&self) -> usize {
        1
    }
    fn groups(&self) -> usize {
        self.inner.groups()
    }
    fn buffers(&self) -> usize {
        1
    }
    fn whole_batch(&self) -> bool {
        true
    }
    fn start(&self, _seed: u64, _theta: &mut [f64], buffers: &mut [f64]) {
        buffers[0] = 10.0;
    }
    fn evaluate(&self, at: At<'_, f64>, mut want: Want<'_, f64>) -> Result<(), ModelError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
            self.stop.store(true, Ordering::Relaxed);
        }
        if at.stop.is_set() {
            return Err(ModelError::Stopped);
        }
        assert!(at.parallel, "alone");
        if let Some(buffers) = want.buffers.take() {
            assert!(want.grad_theta.is_some());
            let mean = at.x.iter().sum::<f64>() / at.x.len() as f64;
            buffers[0] = 0.9 * at.buffers[0] + 0.1 * mean;
        }
        self.inner.evaluate(at, want)
    }
}

fn remembering(stop: &AtomicBool, at: usize) -> Remembering<'_> {
    let y = Hierarchical::<f64>::generate(12, 1.0, 3);
    Remembering { inner: Hierarchical::grouped(&y), calls: AtomicUsize::new(0), stop, at }
}

/// Buffers are in the state and nowhere else; they move once in a step, with theta, by what the batch shows.
#[test]
fn buffers_are_part_of_the_state() {
    let never = AtomicBool::new(false);
    let model = remembering(&never, usize::MAX);
    let settings = Settings {
        particles: 3,
        steps: 4,
        burn_in: 1,
        batch: Some(5),
        preconditioner: Preconditioner::Rmsprop,
        init_particles: InitParticles::Value(1.0),
        ..Settings::default()
    };
    let state = common::on(1, || fit(&model, &settings).expect("a run"));
    let mut first = common::on(1, || State::initial(&model, &settings));
    assert_eq!(first.buffers, [10.0]);
    assert_eq!(model.calls.load(Ordering::Relaxed), 4, "both gradients in one call");
    common::on(1, || {
        let one = Settings { steps: 2, ..settings.clone() };
        motes::run(&model, &one, &mut first, None, &mut []).expect("a run");
        assert!(first.buffers[0] > 0.81 * 10.0 && first.buffers[0] < 0.81 * 10.0 + 0.19 * 2.0);
        // Through a checkpoint.
        let mut bytes = Vec::new();
        let header = motes::checkpoint::Header::of(&first, 0, 0, 0.0);
        motes::checkpoint::encode(&first, &header, &mut bytes).expect("memory");
        let mut resumed = State::initial(&model, &settings);
        motes::checkpoint::decode(&bytes[..], &mut resumed).expect("a checkpoint");
        motes::run(&model, &settings, &mut resumed, None, &mut []).expect("a run");
        assert_eq!(resumed, state);
    });
}

/// Rows that are not a whole batch, and must not be told to stop: they move where they lie, and would stay halfway.
struct InPlace(Hierarchical<f64>);

impl Model<f64> for InPlace {
    fn name(&self) -> &str {
        "in place"
    }
    fn d_theta(&self) -> usize {
        1
    }
    fn d_x(&self) -> usize {
        1
    }
    fn groups(&self) -> usize {
        self.0.groups()
    }
    fn evaluate(&self, at: At<'_, f64>, want: Want<'_, f64>) -> Result<(), ModelError> {
        if at.stop.is_set() { Err(ModelError::Stopped) } else { self.0.evaluate(at, want) }
    }
}

#[test]
fn steps_in_place_are_made_to_their_end() {
    let y = Hierarchical::<f64>::generate(12, 1.0, 3);
    let model = InPlace(Hierarchical::grouped(&y));
    let settings = Settings { particles: 3, steps: 6, burn_in: 1, ..Settings::default() };
    common::on(1, || {
        let set = AtomicBool::new(true);
        let mut state = State::initial(&model, &settings);
        let (ended, _) = motes::run_unless(&model, &settings, &mut state, None, &mut [], Stop(Some(&set)))
            .expect("an end");
        assert_eq!((ended, state.k), (motes::Ended::Complete, 6));
    });
}

/// A step that is stopped inside, at whichever evaluation, leaves no trace: it can be made again with the same bits.
#[test]
fn a_stopped_step_leaves_no_trace() {
    for (algorithm, calls) in [(&PGD, 1), (&ABP, 5)] {
        for at in 1..=calls {
            let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
            let model = remembering(&stop, 3 * calls + at);
            let plain = remembering(&never, usize::MAX);
            let settings = Settings {
                algorithm,
                particles: 3,
                steps: 6,
                burn_in: 1,
                step_size: 0.1,
                transitions: 4,
                preconditioner: Preconditioner::Adam,
                ..Settings::default()
            };
            let of_three = Settings { steps: 3, ..settings.clone() };
            common::on(1, || {
                let mut state = State::initial(&model, &settings);
                let flag = Stop(Some(&stop));
                let (ended, _) =
                    motes::run_unless(&model, &settings, &mut state, None, &mut [], flag).expect("an end");
                assert_eq!(ended, motes::Ended::Early);
                let mut expected = State::initial(&plain, &settings);
                motes::run(&plain, &of_three, &mut expected, None, &mut []).expect("a run");
                assert_eq!(state, expected, "{algorithm}, call {at}");
            });
        }
    }
}
