//! Rule, move and order are a product: every combination follows the linear Gaussian theory, or is refused in a sentence.

use crate::common;

use common::theory::{self, Stationary, ThetaStep};
use motes::algorithms::KIPLMC;
use motes::algorithms::{Composition, Order};
use motes::moves::Move;
use motes::rules::Rule;
use motes::settings::{InitParticles, Preconditioner};
use motes::step::{Plan, StepSizes, Stepper, Streams};
use motes::{Cloud, Model, Settings, State, Stop};
use motes_models::Hierarchical;

const H: f64 = 0.2;
const D: usize = 2;
const STEPS: usize = 120_000;
const BATCHES: usize = 60;

fn rules() -> Vec<Rule> {
    let gradient = |preconditioner, noise| Rule::Gradient { preconditioner, noise };
    vec![
        gradient(Preconditioner::None, false),
        gradient(Preconditioner::None, true),
        gradient(Preconditioner::Diagonal, false),
        Rule::Kinetic { friction: 1.0 },
        Rule::Newton,
        Rule::MStep,
        Rule::ExactEm,
        Rule::Louis,
    ]
}

const MOVES: [Move; 11] = [
    Move::Kinetic { friction: 1.0 },
    Move::Ula,
    Move::Mala,
    Move::Chain,
    Move::Transitions { count: 3, fresh: false },
    Move::Transitions { count: 3, fresh: true },
    Move::Fresh,
    Move::WholeCloud,
    Move::Variational,
    Move::Nothing,
    Move::Hamiltonian,
];
const Y: [f64; D] = [0.3, 1.9];

/// What theory knows of the stationary law; `None` where it knows only the means.
fn law(composition: Composition, n: usize) -> Option<Stationary> {
    let kinetic = matches!(composition.rule, Rule::Kinetic { .. });
    if kinetic && composition == (KIPLMC.compose)(&Settings::default()) {
        return Some(theory::kiplmc(n, H, D));
    }
    let step = match composition.rule {
        Rule::Gradient { preconditioner, noise } => {
            let a = if preconditioner == Preconditioner::None { D as f64 } else { 1.0 };
            ThetaStep { c: H * a, q: if noise { 2.0 * H / n as f64 } else { 0.0 } }
        }
        Rule::Newton => ThetaStep { c: H, q: 0.0 },
        Rule::MStep => ThetaStep { c: 1.0, q: 0.0 },
        Rule::Kinetic { .. } | Rule::ExactEm | Rule::Louis => return None,
    };
    let first = composition.order == Order::ParticlesFirst;
    match composition.movement {
        Move::Ula => Some(theory::langevin(step, first, n, H, D)),
        Move::Chain => Some(theory::chain(step, first, n, H, D)),
        Move::Transitions { count, fresh: false } => {
            Some(theory::transitions(step, first, n, H, D, count as i32))
        }
        Move::Transitions { count, fresh: true } => {
            let offset = (0.25 * (Y[0] - Y[1])).powi(2);
            Some(theory::short_run(step, first, n, H, D, (count as i32, offset)))
        }
        _ => None,
    }
}

/// The mean over batches and its standard error.
fn mean(batches: &[f64]) -> (f64, f64) {
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let variance = batches.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Each latent variable of each particle, beside its observation.
fn observed(cloud: &Cloud<f64>) -> impl Iterator<Item = (f64, f64)> {
    cloud.by_particle().zip(Y.into_iter().cycle())
}

/// z-scores of the mean of theta, and of the variances of theta and x where theory knows them.
fn scores(model: &Hierarchical<f64>, composition: Composition, n: usize) -> Result<Vec<f64>, String> {
    let plan =
        Plan { seed: 3, streams: Streams::Run, adjust_after: 0, batch: None, sizes: &[n], encoder_rate: 0.0 };
    let mut stepper = Stepper::new(model, composition, plan, Stop::default()).map_err(|e| e.to_string())?;
    // A state that suits the move: only mean-field's has a Gaussian.
    let algorithm: &'static motes::Algorithm = match composition.movement {
        Move::Variational => &motes::algorithms::MEAN_FIELD,
        Move::Kinetic { .. } => &KIPLMC,
        Move::Nothing => &motes::algorithms::EM,
        _ => &motes::algorithms::PGD,
    };
    let settings = Settings {
        algorithm,
        particles: n,
        init_theta: 2.0.into(),
        init_particles: InitParticles::Value(2.0),
        ..Settings::default()
    };
    let mut state = State::initial(model, &settings);
    if let Rule::Kinetic { .. } = composition.rule {
        let of_theta = State::initial(model, &Settings { algorithm: &KIPLMC, ..settings.clone() });
        state.memory.retain(|m| m.name != "theta.velocity");
        state.memory.extend(of_theta.memory.into_iter().filter(|m| m.name == "theta.velocity"));
    }
    let star = model.theta_star();
    let (mut thetas, mut squares, mut xs) = (vec![0.0; BATCHES], vec![0.0; BATCHES], vec![0.0; BATCHES]);
    let sizes = StepSizes { h: H, rate: H };
    for _ in 0..500 {
        stepper.step(&mut state, sizes).map_err(|e| e.to_string())?;
    }
    let length = STEPS / BATCHES;
    for k in 0..STEPS {
        stepper.step(&mut state, sizes).map_err(|e| e.to_string())?;
        let e = state.theta[0] - star;
        thetas[k / length] += e / length as f64;
        squares[k / length] += e * e / length as f64;
        let x2: f64 = observed(&state.cloud).map(|(x, y)| (x - 0.5 * (y + star)).powi(2)).sum();
        xs[k / length] += x2 / (n * D) as f64 / length as f64;
    }
    let score = |batches: &[f64], expected: f64| {
        let (mean, error) = mean(batches);
        (mean - expected) / error.max(1e-12)
    };
    let mut scores = vec![score(&thetas, 0.0)];
    if let Some(law) = law(composition, n) {
        scores.extend([score(&squares, law.theta), score(&xs, law.x)]);
    }
    Ok(scores)
}

#[test]
fn every_combination_follows_the_theory_or_is_refused() {
    for model in [Hierarchical::<f64>::new(&Y), Hierarchical::grouped(&Y)] {
        all_combinations(&model);
    }
}

fn all_combinations(model: &Hierarchical<f64>) {
    let (mut worked, mut refused, mut wrong) = (Vec::new(), 0, Vec::new());
    common::on(1, || {
        for rule in rules() {
            for movement in MOVES {
                for order in [Order::Together, Order::ParticlesFirst] {
                    let composition = Composition { rule, movement, order };
                    match scores(model, composition, 3) {
                        Ok(scores) => {
                            // One of some hundred scores beyond 4.5 would be a chance of one in a thousand.
                            if scores.iter().any(|z| z.abs() > 4.5 || z.is_nan()) {
                                let groups = model.groups();
                                wrong.push(format!("{composition:?}, {groups} groups: {scores:?}"));
                            }
                            worked.push(composition);
                        }
                        Err(sentence) => {
                            assert!(sentence.contains("; ") && !sentence.contains('\n'), "{sentence}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // All Langevin moves, chains, transitions and velocities with all rules but exact EM (6 x 6 x 2), both accepting whole
    // clouds, mean-field with any rule, and EM itself in either order. The model has no inference network, and what
    // auto is made of adapts from window to window, which single steps cannot.
    assert_eq!((worked.len(), refused), (72 + 4 + 6 + 2, 8 * 11 * 2 - 84));
}

#[test]
fn noise_on_theta_gives_the_published_covariance() {
    // Cov(theta, m) = [L - (h/2) L P L]^-1 with L = N D [[1, -1], [-1, 2]] and P = diag(1/N, 1/(N D)).
    let law = theory::kiplmc(5, 0.3, 10);
    assert!(
        (law.theta - 0.0458464).abs() < 1e-7 && (law.x - 0.0204745 - 0.98 * 0.5235602).abs() < 1e-7,
        "{law:?}"
    );
    let law = theory::ipla(5, 0.05, 10);
    assert!((law.theta - 0.0467257).abs() < 1e-7 && (law.x - 0.5363204).abs() < 1e-7, "{law:?}");
    let plain = theory::pgd(10.0, 5, 0.05, 10);
    assert!((plain.theta - 0.0175452).abs() < 1e-7 && (plain.x - 0.5345659).abs() < 1e-7, "{plain:?}");
}
