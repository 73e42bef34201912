//! Ranks that share a run, here as threads of one process, come to the state and the files of one, whatever the algorithm.

#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::sync::{Condvar, Mutex};

use motes::algorithms::{ABP, ALGORITHMS, EM, SHORT_RUN, SOUL, VAE};
use motes::checkpoint::{Header, encode, state_of_first};
use motes::model::{Draws, MStep, Predictive};
use motes::ranks::{Ranks, Solo, Team, agree};
use motes::record::{Recording, RunDirectory};
use motes::settings::{Growth, InitParticles};
use motes::{
    Algorithm, At, Ended, Error, Flow, Gives, Model, ModelError, Pool, Settings, State, StepInfo, Stop, Want,
};
use threads::{Meeting, Thread};

mod threads;

/// x_gi ~ N(theta, 1), y_gi ~ N(x_gi, 1), in blocks of a few rows.
struct Gaussian {
    y: Vec<f64>,
    groups: usize,
    /// No particle has a value below this.
    floor: f64,
}

impl Gaussian {
    fn new(groups: usize, d: usize) -> Self {
        let y = (0..groups * d).map(|i| (i as f64 * 0.7).sin() + 1.3).collect();
        Gaussian { y, groups, floor: f64::NEG_INFINITY }
    }

    fn rows<'a>(&'a self, at: &'a At<'a, f64>) -> impl Iterator<Item = (&'a [f64], &'a [f64])> {
        let d = self.d_x();
        at.by_group().flat_map(move |(g, x)| x.chunks_exact(d).map(move |x| (x, &self.y[g * d..(g + 1) * d])))
    }
}

impl Model<f64> for Gaussian {
    fn name(&self) -> &str {
        "gaussian"
    }

    fn d_theta(&self) -> usize {
        1
    }

    fn d_x(&self) -> usize {
        self.y.len() / self.groups
    }

    fn groups(&self) -> usize {
        self.groups
    }

    fn rows_per_block(&self, n: usize) -> usize {
        if self.groups > 1 { 3 * n } else { 4 }
    }

    fn nanoseconds_per_row(&self) -> f64 {
        1e4 // so that threads have something to do
    }

    fn gives(&self) -> Gives {
        Gives::ALL
    }

    fn evaluate(&self, at: At<'_, f64>, want: Want<'_, f64>) -> Result<(), ModelError> {
        let (theta, d) = (at.theta[0], self.d_x());
        if let Some(x) = at.x.iter().find(|x| **x < self.floor) {
            return Err(ModelError::new(format!("{x} is below the floor")));
        }
        let score = |x: &[f64]| x.iter().map(|x| x - theta).sum::<f64>();
        if let Some(out) = want.log_density {
            for (out, (x, y)) in out.iter_mut().zip(self.rows(&at)) {
                let each = x.iter().zip(y).map(|(x, y)| (x - theta).powi(2) + (x - y).powi(2));
                *out = -0.5 * each.sum::<f64>();
            }
        }
        if let Some(out) = want.grad_x {
            for (out, (x, y)) in out.chunks_exact_mut(d).zip(self.rows(&at)) {
                (0..d).for_each(|i| out[i] = theta + y[i] - 2.0 * x[i]);
            }
        }
        if let Some(out) = want.grad_theta {
            out[0] = self.rows(&at).map(|(x, _)| score(x)).sum();
        }
        if let Some(out) = want.scores {
            out.iter_mut().zip(self.rows(&at)).for_each(|(out, (x, _))| *out = score(x));
        }
        if let Some(out) = want.hessian {
            out[0] = -(at.x.len() as f64);
        }
        Ok(())
    }

    fn m_step(&self) -> Option<&dyn MStep<f64>> {
        Some(self)
    }

    fn prior(&self) -> Option<&dyn Draws<f64>> {
        Some(self)
    }

    fn predictive(&self) -> Option<&dyn Predictive<f64>> {
        Some(self)
    }
}

impl MStep<f64> for Gaussian {
    fn statistics_len(&self) -> usize {
        1
    }

    fn statistics(&self, at: At<'_, f64>, out: &mut [f64]) -> Result<(), ModelError> {
        out[0] = at.x.iter().sum();
        Ok(())
    }

    fn m_step(&self, mean: &[f64], theta: &mut [f64]) -> Result<(), ModelError> {
        theta[0] = mean[0] / self.y.len() as f64;
        Ok(())
    }
}

impl Draws<f64> for Gaussian {
    fn map_normals(&self, theta: &[f64], _groups: &[u32], x: &mut [f64]) {
        x.iter_mut().for_each(|x| *x += theta[0]);
    }
}

/// The mean of all coordinates.
impl Predictive<f64> for Gaussian {
    fn names(&self) -> Vec<String> {
        vec!["mean".into()]
    }

    fn state_len(&self) -> usize {
        2
    }

    fn accumulate(&self, x: &[f64], state: &mut [f64]) {
        state[0] += x.len() as f64;
        state[1] += x.iter().sum::<f64>();
    }

    fn merge(&self, from: &[f64], into: &mut [f64]) {
        (0..2).for_each(|i| into[i] += from[i]);
    }

    fn metrics(&self, state: &[f64], out: &mut [f64]) {
        out[0] = state[1] / state[0];
    }
}

const RECORDING: Recording = Recording { trace_every: 1, checkpoint_every: Some(4) };

/// What a run has come to: how it ended, its state, and on rank 0 its trace.
type Done = (Result<Ended, String>, State<f64>);

/// Makes a run, from a state where there is one; rank 0 has the directory. Rank `stops.0` stops it at step `stops.1`.
fn on(
    (size, threads): (usize, usize),
    (model, settings): (&Gaussian, &Settings),
    dir: &Path,
    stops: Option<(usize, u64)>,
) -> Vec<Done> {
    let place = (Mutex::new(Meeting::default()), Condvar::new());
    let of_rank = |rank: usize| {
        let thread = Thread { rank, size, place: &place };
        let ranks: &dyn Ranks = if size == 1 { &Solo } else { &thread };
        Pool::new(Some(threads)).unwrap().install(|| {
            let mut state = motes::start(model, settings).unwrap();
            let mut directory = (rank == 0).then(|| match dir.join("config.toml").exists() {
                true => RunDirectory::resume(dir, model, settings, RECORDING, &mut state).unwrap().0,
                false => RunDirectory::create(dir, "", model, settings, RECORDING).unwrap(),
            });
            let handed = (rank == 0).then_some(state);
            let make = || motes::start(model, settings).unwrap();
            let handed = state_of_first(ranks, handed, make).unwrap();
            let mut state = handed.expect("rank 0 has one");
            let mut stop = |info: &StepInfo<'_, f64>| match stops {
                Some((who, step)) if who == rank && info.k >= step => Flow::Stop,
                _ => Flow::Continue,
            };
            let team = Team { ranks, stop: Stop::default() };
            let ran =
                motes::run_unless(model, settings, &mut state, directory.as_mut(), &mut [&mut stop], team);
            (agree(ranks, ran).map(|(ended, _)| ended).map_err(|e: Error| e.to_string()), state)
        })
    };
    std::thread::scope(|scope| {
        let of_rank = &of_rank;
        let ranks: Vec<_> = (0..size).map(|rank| scope.spawn(move || of_rank(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("a rank")).collect()
    })
}

fn settings(algorithm: &'static Algorithm, particles: usize) -> Settings {
    let base = Settings { algorithm, ..Settings::default() };
    let steps = 13;
    Settings {
        algorithm,
        particles,
        steps,
        burn_in: 3,
        step_size: 0.05,
        seed: 9,
        metrics_every: if base.has_cloud() { 2 } else { 0 },
        keep_clouds: if base.has_cloud() { 3 } else { 0 },
        max_evaluations: 500,
        init_particles: match algorithm.name {
            "mean-field" => InitParticles::Value(0.2),
            _ => InitParticles::Prior,
        },
        ..base
    }
}

fn trace(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("trace.csv")).unwrap()
}

/// A state as checkpoints have it.
fn bytes(state: &State<f64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(state, &Header::of(state, 0, 0, 0.0), &mut bytes).unwrap();
    bytes
}

fn same(found: &[Done], alone: &Done, dirs: [&Path; 2], what: &str) {
    for (rank, (ended, state)) in found.iter().enumerate() {
        assert_eq!(*ended, alone.0, "rank {rank} of {what}");
        assert!(bytes(state) == bytes(&alone.1), "the state of rank {rank} of {what}");
    }
    assert_eq!(trace(dirs[0]), trace(dirs[1]), "{what}");
}

#[test]
fn every_algorithm_comes_to_the_bits_of_one_process() {
    let (one, many) = (Gaussian::new(1, 3), Gaussian::new(40, 2));
    for algorithm in ALGORITHMS.iter().copied().filter(|a| ![SOUL.name, VAE.name, EM.name].contains(&a.name))
    {
        let usual = settings(algorithm, 67);
        let mut cases = vec![(&one, usual.clone()), (&many, Settings { particles: 8, ..usual.clone() })];
        if algorithm.takes("adjust", &usual) {
            cases.push((&one, Settings { adjust: true, adjust_after: 2, ..usual.clone() }));
            cases.push((&many, Settings { particles: 8, adjust: true, ..usual.clone() }));
            cases.push((&one, Settings { grow: Growth(vec![(4, 81), (8, 90)]), ..usual.clone() }));
            cases.push((&many, Settings { particles: 8, grow: Growth(vec![(4, 11)]), ..usual.clone() }));
        }
        if [ABP.name, SHORT_RUN.name, "pgd"].contains(&algorithm.name) {
            cases.push((&many, Settings { particles: 8, batch: Some(11), ..usual.clone() }));
        }
        let possible = |(model, settings): &(&Gaussian, Settings)| settings.validate(*model).is_ok();
        assert!(cases[..2].iter().all(possible), "{algorithm}");
        for (model, settings) in cases.into_iter().filter(possible) {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            let alone = on((1, 1), (model, &settings), &at("alone"), None).remove(0);
            assert_eq!(alone.0, Ok(Ended::Complete), "{algorithm}");
            for (size, threads) in [(1, 2), (2, 1), (3, 2), (4, 1), (7, 1), (20, 1)] {
                let place = at(&format!("{size}-{threads}"));
                let found = on((size, threads), (model, &settings), &place, None);
                let what = format!("{size} ranks of {threads} threads, {algorithm}, {} groups", model.groups);
                same(&found, &alone, [&place, &at("alone")], &what);
            }
        }
    }
}

#[test]
fn runs_go_on_with_any_number_of_ranks() {
    let (one, many) = (Gaussian::new(1, 3), Gaussian::new(40, 2));
    for algorithm in ["pgd", "kiplmc", "auto", "mean-field"] {
        let algorithm = ALGORITHMS.iter().find(|a| a.name == algorithm).unwrap();
        for (model, particles) in [(&one, 67), (&many, 8)] {
            let settings = settings(algorithm, particles);
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            let alone = on((1, 1), (model, &settings), &at("alone"), None).remove(0);
            for (first, then, who) in [(4, 1, 2), (1, 3, 0), (3, 7, 1), (7, 2, 6)] {
                let place = at(&format!("{first}-{then}"));
                for (ended, _) in on((first, 1), (model, &settings), &place, Some((who, 6))) {
                    assert_eq!(ended, Ok(Ended::Early));
                }
                let found = on((then, 2), (model, &settings), &place, None);
                same(
                    &found,
                    &alone,
                    [&place, &at("alone")],
                    &format!("{algorithm}, {first} and {then} ranks"),
                );
            }
        }
    }
}

#[test]
fn failures_and_refusals_are_those_of_all_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let tell = |size: usize, model: &Gaussian, settings: &Settings| {
        let place = dir.path().join(format!("{}-{size}", std::fs::read_dir(dir.path()).unwrap().count()));
        let ended = on((size, 1), (model, settings), &place, None);
        let mut sentences: Vec<String> = ended.into_iter().map(|(ended, _)| ended.unwrap_err()).collect();
        sentences.dedup();
        sentences
    };
    let pgd = |step_size| Settings { step_size, ..settings(&motes::algorithms::PGD, 67) };
    let one = Gaussian::new(1, 3);
    // What the model says, and what the numbers say, with the values of the lowest block, wherever that is.
    let floored = Gaussian { floor: -1.5, ..Gaussian::new(1, 3) };
    for (model, settings) in [(&one, pgd(1e10)), (&floored, pgd(0.05))] {
        let alone = tell(1, model, &settings);
        assert!(alone.len() == 1 && (alone[0].contains("diverged") || alone[0].contains("below the floor")));
        for size in [2, 3, 7] {
            assert_eq!(tell(size, model, &settings), alone);
        }
    }
    let refused = tell(3, &one, &settings(&SOUL, 67));
    assert!(refused.len() == 1 && refused[0].contains("several ranks cannot share"), "{refused:?}");
}
