//! The Bayesian neural network: Fig. 4 and Tab. 2.

use motes::algorithms::{Algorithm, PGD, PMGD, PQN, SOUL};
use motes::settings::{InitParticles, Preconditioner, Settings};

use super::logistic::kde;
use super::{Plan, Shown, fewer};
use crate::paper::axis::Axis;
use crate::paper::figure::{Figure, Mark, Panel, STYLES, Style, TRUTH};
use crate::paper::replicates::{Job, Outcomes};
use crate::paper::table::{Place, Table};
use crate::paper::task::{Data, Keep, Outcome, Task};
use crate::paper::verdict::{Printed, Stats};

const ALGORITHMS: [(&Algorithm, &str); 4] = [(&PGD, "PGD"), (&PQN, "PQN"), (&PMGD, "PMGD"), (&SOUL, "SOUL")];
const PARTICLES: [usize; 3] = [1, 10, 100];
/// The weight of the middle pixel, row 14 and column 14 of 28, into the first hidden unit.
const COORDINATE: usize = 14 * 28 + 14;
/// Traces of N = 100 are kept at every such step.
const EVERY: u64 = 5;

const fn p(mean: &'static str, sd: &'static str) -> Printed {
    Printed::new(mean, sd, 10)
}

/// Tab. 2, errors in per cent.
const ERRORS: [[Printed; 3]; 4] = [
    [p("7.45", "2.03"), p("3.20", "1.12"), p("2.45", "0.99")],
    [p("7.45", "1.60"), p("3.45", "1.04"), p("2.34", "0.81")],
    [p("7.24", "1.75"), p("3.75", "1.38"), p("2.45", "0.81")],
    [p("6.25", "1.54"), p("7.25", "1.38"), p("6.85", "1.42")],
];
/// Tab. 2, times in seconds.
const TIMES: [[Printed; 3]; 4] = [
    [p("4.10", "0.26"), p("10.4", "1.2"), p("76.6", "0.4")],
    [p("4.12", "0.21"), p("10.0", "0.2"), p("74.0", "0.3")],
    [p("3.27", "0.13"), p("9.12", "0.2"), p("72.1", "0.5")],
    [p("5.02", "0.20"), p("36.5", "0.1"), p("364.0", "5.3")],
];

/// K = 500, h = 0.1, weights from the prior, the heuristic Lambda for PGD and SOUL, a fresh split for each replicate.
fn job((algorithm, name): (&'static Algorithm, &str), particles: usize, r: u32) -> Job {
    let heuristic = matches!(algorithm.name, "pgd" | "soul");
    let place = ALGORITHMS.iter().position(|(a, _)| *a == algorithm).unwrap_or(0);
    let traced = particles == 100;
    let settings = Settings {
        algorithm,
        particles,
        steps: 500,
        burn_in: 250,
        step_size: 0.1,
        preconditioner: if heuristic { Preconditioner::Diagonal } else { Preconditioner::None },
        init_particles: InitParticles::Prior,
        // Algorithms share no noise, so that none agrees with another for that reason.
        seed: (place as u64) << 32 | u64::from(r),
        metrics_every: if traced { EVERY } else { 0 },
        keep_clouds: 0,
        ..Settings::default()
    };
    let keep = Keep {
        metrics: true,
        trace_every: if traced { EVERY } else { 0 },
        coordinate: traced.then_some(COORDINATE),
        ..Keep::default()
    };
    Job::new(
        format!("network-{name}-{particles}-{r:02}"),
        vec![Task { data: Data::Network { split: r }, settings, keep }],
    )
}

/// The first replicate of each algorithm with 100 particles.
pub fn fig4_jobs(_plan: Plan) -> Vec<Job> {
    ALGORITHMS.map(|a| job(a, 100, 0)).to_vec()
}

pub fn table2_jobs(plan: Plan) -> Vec<Job> {
    let cells = || ALGORITHMS.into_iter().flat_map(|a| PARTICLES.map(|n| (a, n)));
    (0..plan.network).flat_map(|r| cells().map(move |(a, n)| job(a, n, r))).collect()
}

pub fn fig4(_plan: Plan, outcomes: &Outcomes) -> Shown {
    let runs: Vec<_> = ALGORITHMS.iter().map(|a| &outcomes[&job(*a, 100, 0).name][0]).collect();
    let steps = || Axis::new("step k", 0.0, 500.0);
    // The first steps of PGD and SOUL leap far out; what comes after would be a line at the bottom.
    let settled =
        |o: &&Outcome| o.trace.iter().skip(20).flat_map(|row| row[1..].to_vec()).fold(0.0, f64::max);
    let top = runs.iter().map(settled).fold(1.0, f64::max).ceil();
    let mut a = Panel::new("estimates of α and β", steps(), Axis::new("α_k, β_k", 0.0, top));
    for (i, outcome) in runs.iter().enumerate() {
        let of = |component: usize| outcome.trace.iter().map(|row| (row[0], row[component])).collect();
        a.line(ALGORITHMS[i].1, of(1), STYLES[i]);
        a.line("", of(2), Style { width: 0.9, mark: Mark::None, ..STYLES[i] });
    }
    let plain = Style { dash: "", mark: Mark::None, ..TRUTH };
    a.keys.push((Style { width: 1.8, ..plain }, "α".into()));
    a.keys.push((Style { width: 0.8, ..plain }, "β".into()));
    let curves: Vec<_> = runs.iter().map(|o| kde(&o.coordinate)).collect();
    let span = curves.iter().flatten().map(|p| p.0);
    let mut peaks: Vec<f64> = curves.iter().map(|c| c.iter().map(|p| p.1).fold(0.0, f64::max)).collect();
    let soul = peaks[3];
    peaks.sort_by(f64::total_cmp);
    // SOUL's narrow peak would press the others flat.
    let height = (1.05 * peaks[3]).min(3.0 * peaks[2]);
    let x = Axis::around("w", span);
    let mut b = Panel::new("one weight of the final cloud, KDE", x, Axis::new("density", 0.0, height));
    if soul > height {
        let at = (b.x.min + 0.04 * (b.x.max - b.x.min), 0.93 * height);
        b.words.push((at, format!("SOUL peaks at {soul:.2}")));
    }
    let mut c = Panel::new("log predictive density", steps(), Axis::new("LPPD", -0.75, 0.0));
    let mut inset = Panel::new("", steps(), Axis::new("", -0.16, -0.06));
    for (i, (curve, outcome)) in curves.into_iter().zip(&runs).enumerate() {
        b.line(ALGORITHMS[i].1, curve, STYLES[i]);
        let points: Vec<(f64, f64)> = outcome.lppds.iter().map(|(k, v)| (*k as f64, *v)).collect();
        c.line(ALGORITHMS[i].1, points.clone(), STYLES[i]);
        inset.line("", points, Style { mark: Mark::None, ..STYLES[i] });
    }
    c.inset = Some((Box::new(inset), [0.32, 0.48, 0.96, 0.88]));
    Shown {
        title: "Fig. 4: Bayesian neural network",
        setting: "N = 100 particles, h = 0.1, K = 500 steps, 800 of 1,000 images of 4s and 9s to train on; b and c show the cloud at a step, not an average over steps.".into(),
        fewer: String::new(),
        figure: Some(Figure {
            name: "",
            panels: vec![a, b, c],
            description: "Estimates of alpha and beta by four algorithms, densities of one weight, and the log pointwise predictive density against the step".into(),
            note: "One run of each algorithm. a: the first steps of PGD and SOUL leave the panel. b: the weight of the middle pixel into the first hidden unit. c, inset: LPPD from −0.16 to −0.06.".into(),
        }),
        picture: None,
        tables: Vec::new(),
        notes: vec!["(3) Our SOUL moves all weights at once, as the paper says; the authors' code moves w first and v at the moved w.".into()],
    }
}

pub fn table2(plan: Plan, outcomes: &Outcomes) -> Shown {
    let columns = ["Algorithm", "N", "Paper, %", "Ours, %", "Our LPPD", "Paper, s", "Ours, s"];
    let mut table = Table::new("table2", "Tab. 2: test error and time, mean ± sd", &columns);
    for (i, (algorithm, name)) in ALGORITHMS.into_iter().enumerate() {
        for (j, n) in PARTICLES.into_iter().enumerate() {
            let of = |value: &dyn Fn(&Outcome) -> Option<f64>| {
                let values =
                    (0..plan.network).map(|r| value(&outcomes[&job((algorithm, name), n, r).name][0]));
                Stats::of(values.collect::<Option<Vec<f64>>>()?)
            };
            let at = |quantity, convention: &str| Place {
                algorithm: name,
                particles: n,
                quantity,
                convention: convention.into(),
            };
            let (paper, time) = (ERRORS[i][j], TIMES[i][j]);
            let why = if algorithm == &SOUL {
                "the authors' code moves w first, then v (3)"
            } else {
                "no reason known"
            };
            let error = of(&|o| o.test_error).map(|s| s.scaled(100.0));
            let error = table.cell(at("error, %", "fresh splits"), error, Some(paper), Some(why), 2);
            let lppd = table.cell(at("LPPD", "fresh splits"), of(&|o| o.lppd), None, None, 3);
            let ours = table.cell(at("time, s", "one core"), of(&|o| Some(o.seconds)), Some(time), None, 2);
            let row = vec![
                name.into(),
                n.to_string().into(),
                paper.shown().into(),
                error,
                lppd,
                time.shown().into(),
                ours,
            ];
            table.rows.push(row);
        }
    }
    Shown {
        title: "Tab. 2: Bayesian neural network, test errors and times",
        setting: "K = 500 steps, h = 0.1, weights started from the prior at α = β = 0, PGD and SOUL with the heuristic Λ, the final cloud predicts; 1,000 images of 4s and 9s, a fresh 800/200 split for each replicate.".into(),
        fewer: fewer(plan.network, 10),
        figure: None,
        picture: None,
        tables: vec![table],
        notes: vec![
            "(3) Our SOUL moves all weights at once, as the paper says; the authors' code moves w first and v at the moved w.".into(),
            "(11) LPPDs are taken by log-sum-exp: in single precision the released formula gives −∞ for N = 1.".into(),
            "The images are the authors' kind, not their very draw: 1,000 of the 4s and 9s among the first 10,000 training images.".into(),
            "Times are of the loop on one core of the machine named below, by the clock and without test metrics: a load average above the number of cores means that other work has made them longer. The paper's are of another machine, so none is judged.".into(),
        ],
    }
}
