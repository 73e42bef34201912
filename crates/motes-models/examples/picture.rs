//! Draws the picture of the README: every algorithm on the toy model, beside what is known exactly.
//!
//! `cargo run --release -p motes-models --example picture` writes docs/images/toy.svg.

#![allow(clippy::disallowed_methods)]

use motes::algorithms::{Algorithm, EM, PGD, PMGD, PQN, SOUL};
use motes::{Flow, Pool, Settings, StepInfo, run, start};
use motes_models::Hierarchical;
use plotters::prelude::*;

const D: usize = 100;
const STEPS: u64 = 150;

/// Colours that colour-blind people tell apart (Okabe and Ito), each with a width of its own for print in grey.
const RUNS: [(&Algorithm, f64, RGBColor); 5] = [
    (&PGD, 2.0 / (2.0 + D as f64), RGBColor(0, 114, 178)),
    (&PQN, 0.1, RGBColor(230, 159, 0)),
    (&PMGD, 0.1, RGBColor(0, 158, 115)),
    (&SOUL, 0.01, RGBColor(204, 121, 167)),
    (&EM, 1.0, RGBColor(86, 86, 86)),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let y = Hierarchical::<f64>::generate(D, 1.0, 0);
    let model = Hierarchical::<f64>::new(&y);
    let truth = model.theta_star();
    let pool = Pool::new(None)?;

    let mut traces = Vec::new();
    for (algorithm, step_size, colour) in RUNS {
        let settings =
            Settings { algorithm, particles: 10, steps: STEPS, burn_in: 0, step_size, ..Settings::default() };
        let mut trace = Vec::new();
        let mut watch = |info: &StepInfo<'_, f64>| {
            trace.push((info.k as f64, info.theta[0]));
            Flow::Continue
        };
        pool.install(|| -> Result<(), motes::Error> {
            let mut state = start(&model, &settings)?;
            run(&model, &settings, &mut state, None, &mut [&mut watch]).map(drop)
        })?;
        traces.push((algorithm, step_size, colour, trace));
    }

    let settings =
        Settings { algorithm: &PMGD, steps: 2000, burn_in: 500, step_size: 0.02, ..Settings::default() };
    let state = pool.install(|| -> Result<_, motes::Error> {
        let mut state = start(&model, &settings)?;
        run(&model, &settings, &mut state, None, &mut [])?;
        Ok(state)
    })?;
    let first: Vec<f64> = state.kept.data.iter().step_by(D).copied().collect();
    let exact_mean = 0.5 * (y[0] + truth);

    let path = "docs/images/toy.svg";
    let root = SVGBackend::new(path, (960, 380)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(580);
    let text = ("sans-serif", 15).into_font();

    let top = traces.iter().flat_map(|t| &t.3).fold(truth, |m, p| m.max(p.1));
    let mut chart = ChartBuilder::on(&left)
        .caption("theta, estimated by five algorithms", ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..STEPS as f64, -0.02..top + 0.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .x_desc("step k")
        .y_desc("theta")
        .x_label_formatter(&|k| format!("{k:.0}"))
        .label_style(text.clone())
        .draw()?;
    for (i, (algorithm, h, colour, trace)) in traces.into_iter().enumerate() {
        let style = colour.stroke_width([2, 3, 1, 2, 2][i]);
        chart
            .draw_series(LineSeries::new(trace, style))?
            .label(if algorithm == &EM { "em (exact)".into() } else { format!("{algorithm}, h = {h:.2}") })
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    chart
        .draw_series(DashedLineSeries::new(
            [(0.0, truth), (STEPS as f64, truth)],
            6,
            4,
            BLACK.stroke_width(1),
        ))?
        .label("theta_*, in closed form")
        .legend(|(x, y)| {
            plotters::element::DashedPathElement::new([(x, y), (x + 22, y)], 6, 4, BLACK.stroke_width(1))
        });
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.15))
        .label_font(text.clone())
        .draw()?;

    let density = |x: f64| (-(x - exact_mean) * (x - exact_mean)).exp() / std::f64::consts::PI.sqrt();
    let (low, high, bins) = (exact_mean - 2.6, exact_mean + 2.6, 52);
    let width = (high - low) / bins as f64;
    let mut counts = vec![0usize; bins];
    for x in &first {
        let bin = (x - low) / width;
        if (0.0..bins as f64).contains(&bin) {
            counts[bin as usize] += 1;
        }
    }
    let mut chart = ChartBuilder::on(&right)
        .caption("posterior of x_1: particles and truth", ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(38)
        .y_label_area_size(40)
        .build_cartesian_2d(low..high, 0.0..0.68)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .x_desc("x_1")
        .x_labels(6)
        .label_style(text)
        .draw()?;
    let sky = RGBColor(86, 180, 233).mix(0.6);
    chart.draw_series(counts.iter().enumerate().map(|(i, count)| {
        let height = *count as f64 / first.len() as f64 / width;
        Rectangle::new([(low + i as f64 * width, 0.0), (low + (i + 1) as f64 * width, height)], sky.filled())
    }))?;
    let curve = (0..=200).map(|i| low + (high - low) * i as f64 / 200.0).map(|x| (x, density(x)));
    chart.draw_series(LineSeries::new(curve, BLACK.stroke_width(2)))?;
    root.present()?;
    println!("{path}: {} kept particles, exact mean {exact_mean:.3}", first.len());
    Ok(())
}
