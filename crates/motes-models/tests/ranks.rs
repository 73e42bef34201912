//! Several ranks that share a cloud, here as threads of one process, give the bits of one.

use crate::common;

use std::sync::{Barrier, Mutex};

use motes::algorithms::{IPLA, PGD, PMGD, PQN};
use motes::ranks::{Ranks, Solo};
use motes::settings::InitParticles;
use motes::step::{Plan, StepSizes, Stepper, Streams, part_of};
use motes::{Model, Settings, State, Stop};
use motes_models::Hierarchical;

/// What ranks that are threads share: what each has given, and where they wait for each other.
struct Shared {
    given: Mutex<Vec<Vec<f64>>>,
    barrier: Barrier,
}

struct Thread<'a> {
    rank: usize,
    size: usize,
    shared: &'a Shared,
}

impl Ranks for Thread<'_> {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.size
    }
    fn all_gather(&self, mine: &[f64], lengths: &[usize], all: &mut [f64]) {
        assert_eq!(mine.len(), lengths[self.rank]);
        self.shared.given.lock().unwrap()[self.rank] = mine.to_vec();
        self.shared.barrier.wait();
        all.copy_from_slice(&self.shared.given.lock().unwrap().concat());
        self.shared.barrier.wait();
    }
}

const STEPS: usize = 25;

/// Theta and the sums behind it at each step, bit by bit, and the cloud at the end.
type Seen = (Vec<Vec<u64>>, Vec<f64>);

fn run(ranks: &dyn Ranks, model: &Hierarchical<f64>, settings: &Settings) -> Seen {
    let plan = Plan {
        seed: 4,
        streams: Streams::Run,
        adjust_after: 3,
        batch: None,
        sizes: &[settings.particles],
        encoder_rate: 0.0,
    };
    let mut stepper =
        Stepper::one_of(ranks, model, settings.composition(), plan, Stop::default()).expect("a stepper");
    let mut state = State::initial(model, settings);
    state.cloud = state.cloud.part(part_of(ranks, model, settings.particles));
    let sizes = StepSizes { h: settings.step_size, rate: settings.theta_rate.unwrap_or(settings.step_size) };
    let mut seen = Vec::new();
    for _ in 0..STEPS {
        stepper.step(&mut state, sizes).expect("a step");
        seen.push(state.theta.iter().chain(stepper.sums()).map(|v| v.to_bits()).collect());
    }
    (seen, state.cloud.as_slice().to_vec())
}

#[test]
fn any_number_of_ranks_and_threads_gives_the_bits_of_one() {
    // Groups over ranks, with several blocks to each; and particles of the only group.
    let many = Hierarchical::<f64>::generate(70_001, 1.0, 3);
    let wide = Hierarchical::<f64>::generate(1000, 1.0, 3);
    let cases = [(Hierarchical::grouped(&many), 3, 1e-6), (Hierarchical::new(&wide), 203, 1e-4)];
    for (model, particles, rate) in &cases {
        for (algorithm, adjust) in [(&PGD, false), (&IPLA, true), (&PQN, false), (&PMGD, true)] {
            let settings = Settings {
                algorithm,
                adjust,
                particles: *particles,
                step_size: if adjust && model.groups() > 1 { 0.6 } else { 0.01 },
                theta_rate: algorithm.takes("theta-rate", &Settings::default()).then_some(*rate),
                init_particles: InitParticles::Prior,
                ..Settings::default()
            };
            let alone = common::on(1, || run(&Solo, model, &settings));
            for (size, threads) in [(1, 2), (2, 1), (3, 2), (4, 1), (7, 1)] {
                let shared =
                    Shared { given: Mutex::new(vec![Vec::new(); size]), barrier: Barrier::new(size) };
                let parts: Vec<Seen> = std::thread::scope(|scope| {
                    let of_rank = |rank: usize| {
                        let (shared, settings) = (&shared, &settings);
                        scope.spawn(move || {
                            common::on(threads, || run(&Thread { rank, size, shared }, model, settings))
                        })
                    };
                    let ranks: Vec<_> = (0..size).map(of_rank).collect();
                    ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
                });
                for (rank, part) in parts.iter().enumerate() {
                    assert!(part.0 == alone.0, "{algorithm}, {adjust}: rank {rank} of {size}");
                }
                let cloud: Vec<f64> = parts.into_iter().flat_map(|part| part.1).collect();
                assert!(cloud == alone.1, "{algorithm}, {adjust}: the cloud of {size} ranks");
            }
        }
    }
}
