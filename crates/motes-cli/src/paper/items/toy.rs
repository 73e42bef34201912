//! The toy hierarchical model: Fig. 1, Fig. 2 and the spectral radii of App. F.1.

use motes::algorithms::{Algorithm, EM, MARGINAL_MH, PGD, PMGD, PQN};
use motes::settings::Settings;
use motes_models::Hierarchical;

use super::{Plan, Shown};
use crate::paper::axis::Axis;
use crate::paper::figure::{Figure, Mark, Panel, STYLES, Style, TRUTH};
use crate::paper::replicates::{Job, Outcomes};
use crate::paper::table::Table;
use crate::paper::task::{Data, Keep, Outcome, Task};

const D: usize = 100;
const GREY: Style = Style { colour: "#8a929b", dash: "", mark: Mark::None, width: 1.2 };

/// rho_G: PGD's spectral radius in the mean-field limit.
pub fn rho_g(d: f64, h: f64) -> f64 {
    let root = (d * d + 4.0).sqrt() / 2.0;
    (1.0 - h * (1.0 + d / 2.0 + root)).abs().max((1.0 - h * (1.0 + d / 2.0 - root)).abs())
}

/// rho_N: PQN's.
pub fn rho_n(h: f64) -> f64 {
    let root = 5f64.sqrt() / 2.0;
    (1.0 - h * (1.5 + root)).abs().max((1.0 - h * (1.5 - root)).abs())
}

/// rho_M: PMGD's.
pub fn rho_m(h: f64) -> f64 {
    (1.0 - h).abs()
}

/// The optimal steps h_G, h_N, h_M, each with its rate.
pub fn optimal(d: f64) -> [(f64, f64); 3] {
    [(2.0 / (2.0 + d), (d * d + 4.0).sqrt() / (d + 2.0)), (2.0 / 3.0, 5f64.sqrt() / 3.0), (1.0, 0.0)]
}

/// PMGD's stationary variance of a coordinate at finite h and N.
pub fn pmgd_variance(n: f64, d: f64, h: f64) -> f64 {
    2.0 / (n * d * (2.0 - h)) + (1.0 - 1.0 / (n * d)) / (2.0 * (1.0 - h))
}

/// The standard error of PMGD's variance estimate over `steps` steps for D = 1: the overall mean is an AR(1) with factor
/// 1 - h, the deviations from it, N - 1 of them, are AR(1) with factor 1 - 2h; a square's memory is that of the factor's.
fn pmgd_error(n: f64, h: f64, steps: f64) -> f64 {
    let memory = |factor: f64| (1.0 + factor * factor) / (1.0 - factor * factor);
    let of_mean = 2.0 / (n * (2.0 - h));
    let of_deviations = (1.0 - 1.0 / n) / (2.0 * (1.0 - h));
    let variance = 2.0 * of_mean * of_mean * memory(1.0 - h)
        + 2.0 * of_deviations * of_deviations * memory(1.0 - 2.0 * h) / (n - 1.0).max(1.0);
    (variance / steps).sqrt()
}

fn theta_star(dim: usize) -> f64 {
    Hierarchical::<f64>::new(&Hierarchical::<f64>::generate(dim, 1.0, 0)).theta_star()
}

fn task(
    dim: usize,
    algorithm: &'static Algorithm,
    particles: usize,
    step_size: f64,
    steps: u64,
    keep: Keep,
) -> Task {
    let settings = Settings {
        algorithm,
        particles,
        steps,
        step_size,
        burn_in: 0,
        keep_clouds: 0,
        ..Settings::default()
    };
    Task { data: Data::Toy { dim }, settings, keep }
}

/// The runs of Fig. 1: PGD with three step sizes, then PQN, PMGD and EM.
fn fig1_runs() -> [(&'static Algorithm, f64, u64); 6] {
    let best = optimal(D as f64);
    let unit = 1.0 / (2.0 + D as f64);
    [
        (&PGD, 2.05 * unit, 0),
        (&PGD, best[0].0, 150),
        (&PGD, 0.75 * unit, 0),
        (&PQN, best[1].0, 15),
        (&PMGD, best[2].0, 5),
        (&EM, 1.0, 0),
    ]
}

pub fn fig1_jobs(_plan: Plan) -> Vec<Job> {
    let keep = Keep { trace_every: 1, ..Keep::default() };
    let tasks = fig1_runs().map(|(algorithm, h, _)| task(D, algorithm, 10, h, 300, keep));
    vec![Job::new("fig1", tasks.to_vec())]
}

fn trace(outcome: &Outcome) -> Vec<(f64, f64)> {
    outcome.trace.iter().map(|row| (row[0], row[1])).collect()
}

/// theta_k before k_b, and from there the mean of theta over k_b, ..., k.
fn averaged(trace: &[(f64, f64)], burn_in: u64) -> Vec<(f64, f64)> {
    let (mut sum, mut count) = (0.0, 0.0);
    let mean = |(k, theta): &(f64, f64)| {
        if *k < burn_in as f64 {
            return (*k, *theta);
        }
        sum += theta;
        count += 1.0;
        (*k, sum / count)
    };
    trace.iter().map(mean).collect()
}

pub fn fig1(_plan: Plan, outcomes: &Outcomes) -> Shown {
    let (runs, outcomes) = (fig1_runs(), &outcomes["fig1"]);
    let truth = theta_star(D);
    let axis = |last: f64| (Axis::new("step k", 0.0, last), Axis::new("θ_k", -0.1 * truth, 1.6 * truth));
    let (x, y) = axis(300.0);
    let mut a = Panel::new("PGD, three step sizes", x, y);
    let names = ["h = 2.05/(2 + D_x): diverges", "h = 2/(2 + D_x): optimal", "h = 0.75/(2 + D_x)"];
    let styles = [GREY, STYLES[0], STYLES[4]];
    let mut gone = f64::NAN;
    for i in [0, 1, 2] {
        let style = Style { mark: Mark::None, ..styles[i] };
        let points = trace(&outcomes[i]);
        let inside = points.iter().take_while(|p| (a.y.min..=a.y.max).contains(&p.1)).count();
        if inside < points.len() {
            // Up to the first step outside.
            gone = points[inside].0;
        }
        a.line(names[i], points[..points.len().min(inside + 1)].to_vec(), style);
    }
    a.level("θ_∗, closed form", truth, TRUTH);
    let mut panels = vec![a];
    let mut table = Table::new(
        "fig1",
        "Where the estimates of Fig. 1b end",
        &["Algorithm", "h", "k_b", "Estimate at k = 300", "θ∗, closed form", "Difference"],
    );
    for (last, title) in [(300.0, "optimal step sizes, averaged from k_b"), (30.0, "the first 30 steps of b")]
    {
        let (x, mut y) = axis(last);
        y.label = "θ_k, then its mean".into();
        let mut panel = Panel::new(title, x, y);
        let shown = [(1, "PGD, h = 1/51"), (3, "PQN, h = 2/3"), (4, "PMGD, h = 1"), (5, "EM, exact")];
        for (style, (i, name)) in shown.into_iter().enumerate() {
            let (algorithm, h, burn_in) = runs[i];
            let mut points = trace(&outcomes[i]);
            if algorithm != &EM {
                points = averaged(&points, burn_in);
            }
            let end = points.last().map_or(f64::NAN, |p| p.1);
            points.retain(|p| p.0 <= last);
            panel.line(name, points, STYLES[style]);
            if last > 100.0 {
                let (label, h, burn_in) = match algorithm.name {
                    "em" => ("EM".to_string(), "–".to_string(), "–".to_string()),
                    _ => (algorithm.to_string().to_uppercase(), format!("{h:.4}"), burn_in.to_string()),
                };
                let row =
                    [label, h, burn_in, format!("{end:.4}"), format!("{truth:.4}"), signed(end - truth, 4)];
                table.rows.push(row.map(Into::into).to_vec());
            }
        }
        panel.level("θ_∗, closed form", truth, TRUTH);
        panels.push(panel);
    }
    Shown {
        title: "Fig. 1: the toy hierarchical model",
        setting: "D_x = 100 latent variables, N = 10 particles, K = 300 steps, all initial values 0; data drawn at θ = 1.".into(),
        fewer: String::new(),
        figure: Some(Figure {
            name: "",
            panels,
            description: "Estimates of theta against the step: PGD with three step sizes, and PGD, PQN, PMGD and EM with optimal ones".into(),
            note: String::new(),
        }),
        picture: None,
        tables: vec![table],
        notes: vec![
            format!("With h = 2.05/(2 + D_x) the spectral radius is 1.03: the grey trace grows without bound and is drawn up to k = {gone}, where it leaves the panel."),
        ],
    }
}

/// A difference with its sign.
fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{value:+.decimals$}").replace('-', "−");
    if text.chars().all(|c| "+−0.".contains(c)) { text.replace(['+', '−'], "") } else { text }
}

/// The runs of Fig. 2: particle numbers and step sizes of PMGD, then those of marginal MH.
const FIG2_PARTICLES: [usize; 5] = [1, 2, 4, 50, 100];
const FIG2_STEPS: [f64; 5] = [0.5, 0.25, 0.125, 0.03, 0.015];
const FIG2_MH: [(f64, usize); 4] = [(0.5, 1), (0.5, 2), (0.5, 4), (0.25, 50)];

pub fn fig2_jobs(_plan: Plan) -> Vec<Job> {
    let keep = Keep { variance: true, ..Keep::default() };
    let by_n = FIG2_PARTICLES.map(|n| task(1, &PMGD, n, 0.015, 20_000, keep));
    let by_h = FIG2_STEPS.map(|h| task(1, &PMGD, 100, h, 20_000, keep));
    let mh = FIG2_MH.map(|(h, n)| task(1, &MARGINAL_MH, n, h, 10_000, keep));
    let job = |name: &str, tasks: &[Task]| Job::new(format!("fig2-{name}"), tasks.to_vec());
    vec![job("particles", &by_n), job("steps", &by_h), job("mh", &mh)]
}

pub fn fig2(_plan: Plan, outcomes: &Outcomes) -> Shown {
    let mut table = Table::new(
        "fig2",
        "Posterior variance at the end of each run, and its closed-form limit",
        &[
            "Algorithm",
            "h",
            "N",
            "K",
            "Variance of q̄ at K",
            "Limit, closed form",
            "Difference",
            "Standard error",
        ],
    );
    let by_n: Vec<(f64, usize)> = FIG2_PARTICLES.iter().map(|n| (0.015, *n)).collect();
    let by_h: Vec<(f64, usize)> = FIG2_STEPS.iter().map(|h| (*h, 100)).collect();
    let parts = [
        ("particles", "PMGD, h = 0.015", by_n, 20_000.0),
        ("steps", "PMGD, N = 100", by_h, 20_000.0),
        ("mh", "marginal MH", FIG2_MH.to_vec(), 10_000.0),
    ];
    let mut panels = Vec::new();
    for (part, title, runs, last) in parts {
        let y = Axis::new("variance of q̄_K", 0.2, 1.4);
        let mut panel = Panel::new(title, Axis::log("K", 10.0, last), y);
        for (i, ((h, n), outcome)) in runs.into_iter().zip(&outcomes[&format!("fig2-{part}")]).enumerate() {
            let points = outcome.variances.iter().map(|(k, v)| (*k as f64, *v)).collect();
            let name = match part {
                "particles" => format!("N = {n}"),
                "steps" => format!("h = {h}"),
                _ => format!("h = {h}, N = {n}"),
            };
            panel.line(name, points, STYLES[i]);
            let (label, limit, error) = match part {
                "mh" => ("marginal MH", (1.0 + 1.0 / n as f64) / 2.0, None),
                _ => ("PMGD", pmgd_variance(n as f64, 1.0, h), Some(pmgd_error(n as f64, h, last))),
            };
            panel.marks.push(((last, limit), STYLES[i]));
            let end = outcome.variances.last().map_or(f64::NAN, |(_, v)| *v);
            let row = [
                label.into(),
                h.to_string(),
                n.to_string(),
                motes_app::numbers::thousands(&last.to_string()),
                format!("{end:.4}"),
                format!("{limit:.4}"),
                signed(end - limit, 4),
                error.map_or("–".into(), |e| format!("{e:.4}")),
            ];
            table.rows.push(row.map(Into::into).to_vec());
        }
        panel.level("posterior, closed form", 0.5, TRUTH);
        panels.push(panel);
    }
    Shown {
        title: "Fig. 2: bias in the posterior variance of the toy model",
        setting: "D_x = 1; the variance of the time-averaged posterior approximation without burn-in, as a function of the number of steps K. K = 20,000 for PMGD, 10,000 for marginal MH.".into(),
        fewer: String::new(),
        figure: Some(Figure {
            name: "",
            panels,
            description: "Variance estimates against the number of steps, for several particle numbers, step sizes, and with accept-reject".into(),
            note: "Marks on the right edge: the limit in closed form, of PMGD 2/(N(2 − h)) + (1 − 1/N)/(2(1 − h)), of marginal MH (1 + 1/N)/2.".into(),
        }),
        picture: None,
        tables: vec![table],
        notes: vec![
            "Bias B2 (few particles) shows in a, bias B1 (large steps) in b; the accept-reject step of c removes B1 for every h. The variance of the posterior itself is 0.5.".into(),
            "With h = 0.015 and one particle, 20,000 steps are worth some 300 independent draws: such an estimate is off by 8 % on average. Standard errors follow from the AR(1) processes that PMGD is on this model; the way from the start at 0 is not in them.".into(),
        ],
    }
}

/// The spectral radius of the mean-field recursion's 2 x 2 matrix, whose eigenvalues are real.
fn radius(m: [[f64; 2]; 2]) -> f64 {
    let (trace, det) = (m[0][0] + m[1][1], m[0][0] * m[1][1] - m[0][1] * m[1][0]);
    let root = (0.25 * trace * trace - det).max(0.0).sqrt();
    (0.5 * trace + root).abs().max((0.5 * trace - root).abs())
}

/// The step in (0, 3) at which a radius is smallest, found by trisection: radii fall to one minimum, then rise.
fn minimise(radius: impl Fn(f64) -> f64) -> (f64, f64) {
    let (mut a, mut b) = (0.0, 3.0);
    for _ in 0..200 {
        let (left, right) = (a + (b - a) / 3.0, b - (b - a) / 3.0);
        if radius(left) < radius(right) { b = right } else { a = left }
    }
    (0.5 * (a + b), radius(0.5 * (a + b)))
}

pub fn radii(_plan: Plan, _outcomes: &Outcomes) -> Shown {
    let mut table = Table::new(
        "radii",
        "Optimal step sizes and rates, in closed form and found numerically",
        &["Algorithm", "D_x", "h, closed form", "h, found", "Rate ρ, closed form", "ρ, found"],
    );
    let mut panels = Vec::new();
    for d in [2.0, 10.0, 100.0] {
        let mut panel = Panel::new(
            &format!("D_x = {d}"),
            Axis::log("step size h", 0.002, 3.0),
            Axis::new("spectral radius ρ", 0.0, 1.6),
        );
        let grid: Vec<f64> = (0..=600).map(|i| 0.002 * libm::pow(1500.0, i as f64 / 600.0)).collect();
        let curves: [(&str, &dyn Fn(f64) -> f64); 3] =
            [("PGD", &|h| rho_g(d, h)), ("PQN", &|h| rho_n(h)), ("PMGD", &|h| rho_m(h))];
        // The matrices A_h^G, A_h^N and the factor 1 - h themselves, without the algebra that follows in the paper.
        let found = [
            minimise(|h| radius([[1.0 - h * d, h * d], [h, 1.0 - 2.0 * h]])),
            minimise(|h| radius([[1.0 - h, h], [h, 1.0 - 2.0 * h]])),
            minimise(|h| (1.0 - h).abs()),
        ];
        for (i, (name, rho)) in curves.into_iter().enumerate() {
            let style = Style { mark: Mark::None, ..STYLES[i] };
            let (h, rate) = optimal(d)[i];
            let shown = format!("{name}, optimal h = {}", short(h));
            panel.line("", grid.iter().map(|h| (*h, rho(*h))).filter(|p| p.1 < 3.0).collect(), style);
            panel.marks.push(((h, rate), STYLES[i]));
            panel.keys.push((STYLES[i], shown));
            let row = [
                name.into(),
                d.to_string(),
                format!("{h:.5}"),
                format!("{:.5}", found[i].0),
                format!("{rate:.5}"),
                format!("{:.5}", found[i].1),
            ];
            table.rows.push(row.map(Into::into).to_vec());
        }
        panel.level("", 1.0, TRUTH);
        panel.keys.push((TRUTH, "ρ = 1: stable below".into()));
        panels.push(panel);
    }
    Shown {
        title: "Spectral radii and optimal step sizes (App. F.1)",
        setting: "The mean-field rates of PGD, PQN and PMGD on the toy model, for D_x = 2, 10 and 100.".into(),
        fewer: String::new(),
        figure: Some(Figure {
            name: "",
            panels,
            description: "Spectral radii of PGD, PQN and PMGD against the step size, with their minima marked".into(),
            note: "Marks: the optimal steps h_G = 2/(2 + D_x), h_N = 2/3, h_M = 1 with their rates, in closed form.".into(),
        }),
        picture: None,
        tables: vec![table],
        notes: vec![
            "The paper's text once gives PQN's best rate as 2/3; it is √5/3 = 0.745, as in its own display. The step that attains it is 2/3.".into(),
        ],
    }
}

fn short(h: f64) -> String {
    let text = format!("{h:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_are_those_of_the_matrices() {
        for d in [1.0, 2.0, 4.0, 10.0, 100.0, 1e4] {
            for h in [1e-4, 0.01, 0.3, 2.0 / 3.0, 1.0, 1.7] {
                let g = radius([[1.0 - h * d, h * d], [h, 1.0 - 2.0 * h]]);
                assert!((rho_g(d, h) - g).abs() < 1e-9 * (1.0 + g), "{d} {h}");
                let n = radius([[1.0 - h, h], [h, 1.0 - 2.0 * h]]);
                assert!((rho_n(h) - n).abs() < 1e-12, "{h}");
            }
        }
    }

    #[test]
    fn optimal_steps_minimise_the_radii() {
        for d in [1.0, 4.0, 10.0, 100.0] {
            let found = [minimise(|h| rho_g(d, h)), minimise(rho_n), minimise(rho_m)];
            for (found, (h, rate)) in found.into_iter().zip(optimal(d)) {
                assert!(
                    (found.0 - h).abs() < 1e-9 && (found.1 - rate).abs() < 1e-9,
                    "{d}: {found:?}, {h} {rate}"
                );
            }
        }
        // App. F.1: rho_G >= rho_N whenever D >= 4, with equality there.
        assert!((optimal(4.0)[0].1 - optimal(4.0)[1].1).abs() < 1e-15);
    }

    #[test]
    fn averages_start_at_k_b() {
        let trace = [(0.0, 5.0), (1.0, 4.0), (2.0, 2.0), (3.0, 4.0)];
        assert_eq!(averaged(&trace, 2), [(0.0, 5.0), (1.0, 4.0), (2.0, 2.0), (3.0, 3.0)]);
    }
}
