//! Draws the three pictures of docs/particles.md: the toy model, whose truth is known in closed form.
//!
//! `cargo run --release -p motes-models --example particles` writes docs/images/particles/*.svg.

#![allow(clippy::disallowed_methods)]

use motes::algorithms::PGD;
use motes::settings::InitParticles;
use motes::summary::quantile;
use motes::{Flow, Pool, Settings, StepInfo, run, start};
use motes_models::Hierarchical;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

const D: usize = 20;
const N: usize = 32;
const STEPS: u64 = 80;
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(213, 94, 0);
const SKY: RGBColor = RGBColor(86, 180, 233);
const TEXT: (&str, i32) = ("sans-serif", 15);

type Failure = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn main() -> Result<(), Failure> {
    std::fs::create_dir_all("docs/images/particles")?;
    let y = Hierarchical::<f64>::generate(D, 1.0, 0);
    let model = Hierarchical::<f64>::grouped(&y);
    let theta_star = model.theta_star();
    let pool = Pool::new(None)?;

    let settings = Settings {
        algorithm: &PGD,
        particles: N,
        steps: STEPS,
        burn_in: 0,
        step_size: 0.04,
        init_particles: InitParticles::Value(4.0),
        ..Settings::default()
    };
    let (mut thetas, mut first) = (Vec::new(), Vec::new());
    let mut watch = |info: &StepInfo<'_, f64>| {
        thetas.push((info.k as f64, info.theta[0]));
        first.extend(info.cloud.group(0).iter().map(|x| (info.k as f64, *x)));
        Flow::Continue
    };
    pool.install(|| -> Result<(), motes::Error> {
        let mut state = start(&model, &settings)?;
        run(&model, &settings, &mut state, None, &mut [&mut watch]).map(drop)
    })?;
    path(&thetas, &first, theta_star, 0.5 * (y[0] + theta_star))?;

    let settings = Settings::auto(true, 0);
    let state = pool.install(|| -> Result<_, motes::Error> {
        let mut state = start(&model, &settings)?;
        run(&model, &settings, &mut state, None, &mut [])?;
        Ok(state)
    })?;
    let found = state.auto.as_deref().ok_or("auto left nothing behind")?.found();
    let clouds = state.kept.data.chunks(D * settings.particles);
    let draws = |group: usize| -> Vec<f64> {
        let of_cloud = |cloud: &[f64]| cloud[group * settings.particles..][..settings.particles].to_vec();
        let mut draws: Vec<f64> = clouds.clone().flat_map(of_cloud).collect();
        draws.sort_by(f64::total_cmp);
        draws
    };
    posterior(&draws(0), 0.5 * (y[0] + theta_star))?;
    let clouds: Vec<Vec<f64>> = (0..D).map(draws).collect();
    groups(&y, &clouds, found.estimate[0], found.se[0])?;
    println!(
        "theta {:.4} (closed form {theta_star:.4}), standard error {:.4} (closed form {:.4})",
        found.estimate[0],
        found.se[0],
        (2.0 / D as f64).sqrt()
    );
    Ok(())
}

/// An empty chart with axes in the style of all three pictures.
fn axes<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    [x, y]: [std::ops::Range<f64>; 2],
    [x_desc, y_desc]: [&str; 2],
) -> Result<Chart<'a, 'b>, Failure> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(48)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .x_desc(x_desc)
        .y_desc(y_desc)
        .x_labels(7)
        .y_labels(7)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .label_style(TEXT)
        .draw()?;
    Ok(chart)
}

/// A number beside an axis, without decimals that say nothing.
fn tick(value: &f64) -> String {
    ((value * 10.0).round() / 10.0).to_string()
}

fn across(chart: &mut Chart<'_, '_>, to: f64, y: f64) -> Result<(), Failure> {
    chart.draw_series(DashedLineSeries::new([(0.0, y), (to, y)], 6, 4, BLACK.stroke_width(1)))?;
    Ok(())
}

/// One cloud and theta on their way.
fn path(thetas: &[(f64, f64)], first: &[(f64, f64)], theta_star: f64, mean: f64) -> Result<(), Failure> {
    let root = SVGBackend::new("docs/images/particles/path.svg", (960, 340)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(560);
    let end = STEPS as f64;
    let mut chart = axes(&left, "particles of one hidden level", [0.0..end, -1.2..4.3], ["step", "x"])?;
    let two_sd = 2.0 * 0.5_f64.sqrt();
    let band = Rectangle::new([(0.0, mean - two_sd), (end, mean + two_sd)], SKY.mix(0.25).filled());
    chart.draw_series([band])?;
    let every_other = first.iter().filter(|(step, _)| step % 2.0 == 0.0);
    chart.draw_series(every_other.map(|at| Circle::new(*at, 2, BLUE.mix(0.55).filled())))?;
    across(&mut chart, end, mean)?;
    let top = thetas.iter().fold(theta_star, |most, (_, theta)| most.max(*theta));
    let mut chart = axes(&right, "theta", [0.0..end, -0.1..top + 0.2], ["step", "theta"])?;
    chart.draw_series(LineSeries::new(thetas.iter().copied(), ORANGE.stroke_width(2)))?;
    across(&mut chart, end, theta_star)?;
    root.present()?;
    Ok(())
}

/// Draws of one hidden level beside the density that they should have.
fn posterior(draws: &[f64], mean: f64) -> Result<(), Failure> {
    let root = SVGBackend::new("docs/images/particles/posterior.svg", (640, 340)).into_drawing_area();
    root.fill(&WHITE)?;
    let (low, high, bins) = (mean - 2.6, mean + 2.6, 26);
    let width = (high - low) / f64::from(bins);
    let title = "posterior of one hidden level: draws and truth";
    let mut chart = axes(&root, title, [low..high, 0.0..0.66], ["x", "density"])?;
    chart.draw_series((0..bins).map(|bin| {
        let left = low + f64::from(bin) * width;
        let count = draws.iter().filter(|x| (left..left + width).contains(x)).count();
        let tall = count as f64 / draws.len() as f64 / width;
        Rectangle::new([(left, 0.0), (left + width, tall)], SKY.mix(0.6).filled())
    }))?;
    let density = |x: f64| (-(x - mean).powi(2)).exp() / std::f64::consts::PI.sqrt();
    let curve = (0..=200).map(|i| low + (high - low) * f64::from(i) / 200.0).map(|x| (x, density(x)));
    chart.draw_series(LineSeries::new(curve, BLACK.stroke_width(2)))?;
    root.present()?;
    Ok(())
}

/// All observations, the clouds of their hidden levels, and theta with its interval.
fn groups(y: &[f64], clouds: &[Vec<f64>], theta: f64, se: f64) -> Result<(), Failure> {
    let root = SVGBackend::new("docs/images/particles/groups.svg", (960, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut order: Vec<usize> = (0..y.len()).collect();
    order.sort_by(|a, b| y[*a].total_cmp(&y[*b]));
    let end = y.len() as f64;
    let (low, high) = (y[order[0]] - 0.6, y[order[y.len() - 1]] + 0.6);
    let title = "observations (circles), clouds of their hidden levels (bars), and theta";
    let mut chart = axes(&root, title, [0.0..end, low..high], ["observation, by size", "y, x and theta"])?;
    let half = 1.959_964 * se;
    let band = Rectangle::new([(0.0, theta - half), (end, theta + half)], ORANGE.mix(0.15).filled());
    chart.draw_series([band])?;
    chart.draw_series([PathElement::new([(0.0, theta), (end, theta)], ORANGE.stroke_width(2))])?;
    for (place, group) in order.into_iter().enumerate() {
        let at = place as f64 + 0.5;
        let [low, middle, high] =
            [0.05, 0.5, 0.95].map(|level| quantile(&clouds[group], level).unwrap_or(f64::NAN));
        chart.draw_series([PathElement::new([(at, low), (at, high)], BLUE.mix(0.75).stroke_width(6))])?;
        chart.draw_series([Circle::new((at, middle), 4, BLUE.filled())])?;
        chart.draw_series([Circle::new((at, y[group]), 5, BLACK.stroke_width(2))])?;
    }
    root.present()?;
    Ok(())
}
