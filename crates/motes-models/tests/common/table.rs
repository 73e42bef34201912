//! The regression table's rows: what is run, and what it must show.

use motes::algorithms::{
    ABP, Algorithm, EM, IPLA, JOINT_MH, KIPLMC, MARGINAL_MH, PGD, PMGD, PQN, SHORT_RUN, SOUL,
};
use motes::settings::{InitParticles, InitTheta, JointUpdate, Preconditioner};
use motes::{Flow, Model, Real, Settings, StepInfo};
use motes_models::Hierarchical;

use super::models::{Gives, Quiet, Reduced};
use super::theory::{self, Stationary};

/// What a row has to say: a line for the table, its scores, and what is wrong.
pub struct Verdict {
    pub line: String,
    pub scores: Vec<f64>,
    pub wrong: Vec<String>,
}

/// Moves in a step of abp and short-run.
const TRANSITIONS: i32 = 10;

/// Replicates of a row, each with a seed of its own.
const REPLICATES: u64 = 16;

/// One algorithm at one (N, h, D) and precision.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub algorithm: &'static Algorithm,
    pub preconditioner: Preconditioner,
    pub joint_update: JointUpdate,
    pub adjust: bool,
    /// Whether the closed M-step is hidden.
    pub numerical: bool,
    pub n: usize,
    pub h: f64,
    pub d: usize,
    pub double: bool,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = self.algorithm.to_string();
        if self.algorithm == &JOINT_MH {
            name += &format!("/{}", self.joint_update);
        }
        if self.preconditioner != Preconditioner::None {
            name += &format!("/{}", self.preconditioner);
        }
        name += if self.adjust { "/adjust" } else { "" };
        name += if self.numerical { "/numerical" } else { "" };
        let precision = if self.double { "f64" } else { "f32" };
        f.pad(&format!("{name} N={} h={} D={} {precision}", self.n, self.h, self.d))
    }
}

/// What a row must show at stationarity, besides theta-bar = theta_* and cloud means (y + theta_*)/2.
pub struct Expected {
    /// Var theta, where known.
    pub theta_variance: Option<f64>,
    /// The pooled variance of a coordinate, where known, and how far off a bias of order 1/N may put it.
    pub variance: Option<(f64, f64)>,
    /// The variance of coordinates about the cloud's mean, where known.
    pub deviations: Option<f64>,
    /// Steps after which the start is forgotten by a factor e.
    pub memory: f64,
}

impl Row {
    /// The row without its accept-reject step, if it has one.
    pub fn unadjusted(&self) -> Option<Row> {
        let algorithm: &'static Algorithm = match (self.algorithm.name, self.joint_update) {
            ("marginal-mh", _) => &PMGD,
            ("joint-mh", JointUpdate::Pgd) => &PGD,
            ("joint-mh", JointUpdate::Pqn) => &PQN,
            _ if self.adjust => self.algorithm,
            _ => return None,
        };
        Some(Row { algorithm, adjust: false, ..*self })
    }

    /// The exact stationary law of the unadjusted recursion, where it is linear.
    pub fn linear(&self) -> Option<Stationary> {
        let Row { n, h, d, .. } = *self;
        let gradient_factor = match self.preconditioner {
            Preconditioner::None => d as f64,
            Preconditioner::Diagonal => 1.0,
            _ => return None,
        };
        let theta = theory::ThetaStep { c: h * gradient_factor, q: 0.0 };
        match self.algorithm.name {
            "pgd" => Some(theory::pgd(gradient_factor, n, h, d)),
            "ipla" => Some(theory::ipla(n, h, d)),
            "kiplmc" => Some(theory::kiplmc(n, h, d)),
            "abp" => Some(theory::transitions(theta, true, n, h, d, TRANSITIONS)),
            // The start is forgotten at these step sizes.
            "short-run" => Some(theory::short_run(theta, true, n, h, d, (TRANSITIONS, 0.0))),
            "pqn" => Some(theory::pgd(1.0, n, h, d)),
            "pmgd" => Some(theory::pmgd(n, h, d)),
            "soul" => Some(theory::soul(gradient_factor, n, h, d)),
            _ => None,
        }
    }

    pub fn expected(&self) -> Expected {
        let Row { n, h, d, .. } = *self;
        let over_n = 1.0 / (n * d) as f64;
        let unknown = Expected { theta_variance: None, variance: None, deviations: None, memory: 4.0 / h };
        match (self.algorithm.name, self.linear()) {
            ("marginal-mh", _) => {
                let (theta, x) = theory::pi_n(n, d);
                Expected { theta_variance: Some(theta), variance: Some((x, 0.0)), ..unknown }
            }
            ("joint-mh", _) => Expected { variance: Some((0.5, 2.0 * over_n)), ..unknown },
            (_, Some(law)) if self.adjust => {
                let memory = 2.0 / (1.0 - law.rho);
                Expected { variance: Some((0.5, over_n)), memory, ..unknown }
            }
            (_, Some(law)) => Expected {
                theta_variance: Some(law.theta),
                variance: Some((law.x, 0.0)),
                memory: 1.0 / (1.0 - law.rho),
                ..unknown
            },
            (_, None) => Expected { deviations: Some(theory::deviations(n, h, d)), ..unknown },
        }
    }

    pub fn settings(&self, seed: u64, quiet: bool) -> Settings {
        let expected = self.expected();
        let nd = (self.n * self.d) as f64;
        let theta_variance = expected.theta_variance.unwrap_or(1.5 / nd);
        // Enough that theta-bar has a standard error below 0.1 % of theta_*, pooled variances of about 1 %, and Var theta
        // of about 8 %.
        let for_theta = 2.0 * expected.memory * (theta_variance / 0.0055f64.powi(2)).max(160.0);
        let r2 = (1.0 - 2.0 * self.h).powi(2);
        let for_variance = 2.0 * (1.0 + r2) / (1.0 - r2) / (nd * 0.01f64.powi(2));
        // Noise of theta's own hides what is wrong with the particles' unless there is more to see.
        let own_noise = self.algorithm == &IPLA || self.algorithm == &KIPLMC;
        let more = if own_noise { 8.0 } else { 1.0 };
        let steps = (more * for_theta.max(for_variance) / REPLICATES as f64).max(50.0);
        let burn_in = (12.0 * expected.memory) as u64 + 10;
        Settings {
            algorithm: self.algorithm,
            particles: self.n,
            steps: burn_in + steps as u64,
            burn_in,
            step_size: self.h,
            preconditioner: self.preconditioner,
            adjust: self.adjust,
            adjust_after: burn_in / 2,
            joint_update: self.joint_update,
            // One off theta_*, which lies near 10.
            init_theta: if self.start_is_computed() { InitTheta::Model } else { InitTheta::Value(9.0) },
            init_particles: InitParticles::Value(if quiet { 22.0 } else { 11.0 }),
            seed,
            transitions: TRANSITIONS as u32,
            keep_clouds: 0,
            ..Settings::default()
        }
    }

    fn start_is_computed(&self) -> bool {
        matches!(self.algorithm.name, "pmgd" | "marginal-mh")
    }
}

/// What one replicate measured, with x mapped back where the noise was halved.
pub struct Measured {
    /// theta-bar - theta_*.
    pub theta: f64,
    /// The mean of (theta - theta_*)^2.
    pub theta_variance: f64,
    /// Of each coordinate: q-bar's mean less the posterior's.
    pub means: Vec<f64>,
    /// Of each coordinate: q-bar's mean of (x - posterior mean)^2.
    pub variances: Vec<f64>,
    /// The same about the cloud's mean at each step, averaged over coordinates.
    pub deviations: f64,
}

/// Runs all replicates of a row, with half the noise if `quiet`.
pub fn replicates<F: Real>(row: &Row, seed: u64, quiet: bool) -> Vec<Measured> {
    let y = Hierarchical::<f64>::generate(row.d, 10.0, 7);
    let gives = if row.numerical { Gives::NoMStep } else { Gives::All };
    let model = Reduced::<F>::new(&y, gives);
    let theta_star = model.inner.theta_star();
    let boxed: Box<dyn Model<F>> = if quiet { Box::new(Quiet(model)) } else { Box::new(model) };
    let count = if quiet { REPLICATES / 2 } else { REPLICATES };
    (0..count).map(|r| measure(row, &y, theta_star, &*boxed, seed + r, quiet)).collect()
}

fn measure<F: Real>(
    row: &Row,
    y: &[f64],
    theta_star: f64,
    model: &dyn Model<F>,
    seed: u64,
    quiet: bool,
) -> Measured {
    let settings = row.settings(seed, quiet);
    let scale = if quiet { 0.5 } else { 1.0 };
    let watch = row.expected().deviations.is_some();
    let mut nu2 = 0.0;
    let mut observer = |info: &StepInfo<'_, F>| {
        if watch && info.k > settings.burn_in {
            let x = info.cloud.as_slice();
            let nu = scale * x.iter().map(|x| x.f64()).sum::<f64>() / x.len() as f64 - theta_star;
            nu2 += nu * nu;
        }
        Flow::Continue
    };
    let mut state = motes::start(model, &settings).expect("a start");
    motes::run(model, &settings, &mut state, None, &mut [&mut observer]).expect("a run");
    assert_eq!(state.averages.steps, settings.steps - settings.burn_in);
    let theta = state.averages.theta_mean().expect("steps after burn-in")[0] - theta_star;
    let (means, variances) = state.averages.posterior().expect("a cloud");
    let means: Vec<f64> = means.iter().zip(y).map(|(m, y)| scale * m - 0.5 * (y + theta_star)).collect();
    // About the known mean: no correction for a mean estimated from the same run is needed.
    let about = |(v, m): (&f64, &f64)| scale * scale * v + m * m;
    let variances: Vec<f64> = variances.iter().zip(&means).map(about).collect();
    let pooled = variances.iter().sum::<f64>() / variances.len() as f64;
    Measured {
        theta,
        theta_variance: state.batches.variance(0) + theta * theta,
        means,
        variances,
        deviations: pooled - nu2 / state.averages.steps as f64,
    }
}

fn row(algorithm: &'static Algorithm, n: usize, h: f64, d: usize, double: bool) -> Row {
    Row {
        algorithm,
        preconditioner: Preconditioner::None,
        joint_update: JointUpdate::Pgd,
        adjust: false,
        numerical: false,
        n,
        h,
        d,
        double,
    }
}

/// All rows.
pub fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut grid = |steps: &[(usize, [f64; 2])], make: &dyn Fn(usize, f64, usize) -> Row| {
        for (i, n) in [1, 2, 10, 100].into_iter().enumerate() {
            for (d, hs) in steps {
                for (j, h) in hs.iter().enumerate() {
                    rows.push(Row { double: (i + j) % 2 == 0, ..make(n, *h, *d) });
                }
            }
        }
    };
    let plain = |a: &'static Algorithm| move |n, h, d| row(a, n, h, d, true);
    // With plain gradients h (D + 1) must stay below 2.
    let small = [(1, [0.1, 0.5]), (3, [0.1, 0.3]), (50, [0.02, 0.035])];
    let large = [(1, [0.1, 0.5]), (3, [0.2, 0.7]), (50, [0.1, 0.4])];
    grid(&small, &plain(&PGD));
    grid(&large, &plain(&PQN));
    grid(&large, &plain(&PMGD));
    grid(&small, &plain(&SOUL));
    let few = [(1, [0.1, 0.6]), (3, [0.1, 0.3])];
    let diagonal = |a: &'static Algorithm| {
        move |n, h, d| Row { preconditioner: Preconditioner::Diagonal, ..row(a, n, h, d, true) }
    };
    // With many coordinates theta's own noise is nearly all that theta shows.
    grid(&few, &plain(&IPLA));
    grid(&few, &plain(&KIPLMC));
    grid(&few, &plain(&ABP));
    grid(&[(1, [0.3, 0.6]), (3, [0.3, 0.35])], &plain(&SHORT_RUN));
    grid(&few, &diagonal(&PGD));
    grid(&few, &diagonal(&SOUL));
    grid(&[(3, [0.1, 0.6])], &|n, h, d| Row { numerical: true, ..row(&PMGD, n, h, d, true) });

    for double in [false, true] {
        for preconditioner in [Preconditioner::Adagrad, Preconditioner::Rmsprop, Preconditioner::Adam] {
            for (n, h, d) in [(2, 0.2, 1), (10, 0.1, 3), (100, 0.05, 3), (10, 0.1, 50)] {
                rows.push(Row { preconditioner, ..row(&PGD, n, h, d, double) });
            }
        }
        for algorithm in [&PGD, &PQN, &PMGD] {
            for (n, h, d) in [(100, 0.4, 1), (100, 0.3, 3)] {
                rows.push(Row { adjust: true, ..row(algorithm, n, h, d, double) });
            }
        }
        for (n, h, d) in [(1, 0.5, 1), (2, 0.5, 1), (1, 0.3, 3), (10, 0.3, 1), (10, 0.15, 3), (50, 0.2, 1)] {
            rows.push(row(&MARGINAL_MH, n, h, d, double));
        }
        for joint_update in [JointUpdate::Pgd, JointUpdate::Pqn] {
            for (n, h, d) in [(50, 0.15, 1), (100, 0.1, 1), (20, 0.1, 3)] {
                rows.push(Row { joint_update, ..row(&JOINT_MH, n, h, d, double) });
            }
        }
    }
    for (d, double) in [(1, false), (3, true), (50, false), (50, true)] {
        rows.push(row(&EM, 1, 1.0, d, double));
    }
    rows
}
