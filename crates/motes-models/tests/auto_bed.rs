//! The test bed itself: are its models' derivatives right, and its truths the truth?

use crate::bed;

use motes::{At, Want};

use bed::numeric::{Chance, information};
use bed::verify::{Opinion, by_draws, by_laplace, by_quadrature, by_sampling};
use bed::{Case, Truth, pima::Pima, volatility::Volatility};

#[test]
fn derivatives_agree_with_differences() {
    for case in bed::cases() {
        for seed in 0..3 {
            for check in motes::check_model(case.model.as_ref(), seed).unwrap() {
                assert!(check.passed(), "{}: {check:?}", case.name);
            }
        }
    }
}

#[test]
fn a_block_of_many_groups_is_its_rows() {
    for case in bed::cases() {
        let model = case.model.as_ref();
        let (d, d_x, hessians) = (model.d_theta(), model.d_x(), model.gives().hessian);
        let mut chance = Chance(6);
        let groups: Vec<u32> = (0..model.groups() as u32).rev().step_by(3).take(5).collect();
        let theta: Vec<f64> = chance.normals(d).iter().map(|z| 0.3 * z).collect();
        let (x, mut scratch) =
            (chance.normals(3 * groups.len() * d_x), vec![f64::NAN; model.scratch_len(15)]);
        // Everything at once of all rows, and of each by itself.
        let mut ask = |groups: &[u32], x: &[f64]| {
            let rows = x.len() / d_x;
            let mut out = [rows, rows * d_x, d, rows * d, d * d].map(|n| vec![f64::NAN; n]);
            let [l, gx, gt, s, h] = &mut out;
            let want = Want {
                log_density: Some(l),
                grad_x: Some(gx),
                scores: Some(s),
                hessian: Some(&mut h[..]).filter(|_| hessians),
                ..Want::gradients(gt, &mut [], &mut scratch)
            };
            model.evaluate(At { groups, ..At::new(&theta, x) }, want).unwrap();
            out
        };
        let [l, gx, gt, s, h] = ask(&groups, &x);
        let (mut sum, mut matrix) = (vec![0.0; d], vec![0.0; d * d]);
        for (i, row) in x.chunks_exact(d_x).enumerate() {
            let one = ask(&groups[i / 3..=i / 3], row);
            let of_row = [&l[i..=i], &gx[i * d_x..(i + 1) * d_x], &s[i * d..(i + 1) * d]];
            assert_eq!(of_row, [&one[0][..], &one[1], &one[3]], "{}: row {i}", case.name);
            sum.iter_mut().zip(&one[2]).for_each(|(sum, v)| *sum += v);
            matrix.iter_mut().zip(&one[4]).for_each(|(sum, v)| *sum += v);
        }
        assert_eq!(gt, sum, "{}", case.name);
        let size = h.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for (given, sum) in h.iter().zip(&matrix).filter(|_| hessians) {
            assert!((given - sum).abs() <= 1e-12 * size, "{}: {given} and not {sum}", case.name);
        }
    }
}

/// The truth where all of it is finite: ln tau = -15 stands for the boundary, and a unit for what is not determined.
fn finite(truth: &Truth) -> (Vec<f64>, Vec<f64>) {
    let theta = truth.theta.iter().map(|t| t.max(-15.0)).collect();
    let unit = truth.se.iter().map(|s| if s.is_finite() { *s } else { 0.05 }).collect();
    (theta, unit)
}

/// Integration over x of what the model itself answers.
fn second_opinion(case: &Case, theta: &[f64], unit: &[f64]) -> Opinion {
    let model = case.model.as_ref();
    let d = model.d_theta();
    // Two hundred parameters have the code of a hundred, and Louis's identity takes a square of them at each point.
    let louis = d <= 100;
    if case.name == "volatility" {
        let (paths, logs) = Volatility::default().paths(theta, 241, 10_000);
        return by_draws(model, theta, &paths, &logs);
    }
    match (model.d_x(), d) {
        (1, ..10) => {
            let mut opinion = by_quadrature(model, theta, 3000, louis);
            if opinion.information.is_none() {
                let score = |t: &[f64]| (0.0, by_quadrature(model, t, 1000, false).score);
                let scaled = information(&score, theta, unit);
                opinion.information = Some(scaled.map_with_location(|i, j, v| v / (unit[i] * unit[j])));
            }
            opinion
        }
        (1, _) => by_quadrature(model, theta, 200, louis),
        _ => by_laplace(model, theta, unit, louis).unwrap_or_else(|| by_sampling(model, theta, 4000)),
    }
}

#[test]
fn truths_agree_with_integrals_of_what_models_answer() {
    for case in bed::cases() {
        let Some(truth) = &case.truth else { continue };
        let (theta, unit) = finite(truth);
        let opinion = second_opinion(&case, &theta, &unit);
        let value = truth.log_likelihood.expect("a log-likelihood");
        let off = opinion.log_likelihood - value;
        // The kink of a Laplace density leaves 1e-8 of the trapezoidal rule.
        assert!(
            off.abs() < 3e-8 * value.abs() + 4.0 * opinion.errors.0,
            "{}: {} and not {value}",
            case.name,
            opinion.log_likelihood
        );
        let determined = truth.se.iter().all(|s| s.is_finite());
        let inverse = opinion.information.and_then(|matrix| matrix.try_inverse()).filter(|_| determined);
        let (mut steepest, mut ratio_off, mut chance) = (0.0f64, 0.0f64, 0.0f64);
        for i in (0..theta.len()).filter(|i| truth.theta[*i].is_finite()) {
            let (score, error) = (unit[i] * opinion.score[i], unit[i] * opinion.errors.1[i]);
            assert!(score.abs() < 1e-4 + 4.0 * error, "{}: score {score:e} +- {error:e} in {i}", case.name);
            (steepest, chance) = (steepest.max(score.abs()), chance.max(error));
            if let Some(inverse) = &inverse {
                let off = (inverse[(i, i)].sqrt() / truth.se[i] - 1.0).abs();
                // Of chance: with 200,000 paths instead of 10,000 the largest deviation falls from 9 % to 1 %.
                let allowed = if error > 0.0 { 0.15 } else { 1e-3 };
                assert!(off < allowed, "{}: the standard error of {i} is off by {off:e}", case.name);
                ratio_off = ratio_off.max(off);
            }
        }
        let se = if inverse.is_some() { format!("{ratio_off:.0e}") } else { "not compared".into() };
        println!(
            "{}: log-likelihood off by {:.0e} (chance {:.0e}), score times SE {steepest:.0e} (chance {chance:.0e}), SE {se}",
            case.name,
            off.abs(),
            opinion.errors.0
        );
    }
}

#[test]
#[ignore = "prints the truths that are stored"]
fn stored_truths() {
    println!("volatility {:?}", Volatility::default().compute());
    println!("pima {:?}", Pima::default().compute(2_000_000));
}

#[test]
#[ignore = "prints all truths"]
fn print_truths() {
    for case in bed::cases() {
        let Some(truth) = &case.truth else { continue };
        let (m, few) = (&case.model, truth.theta.len().min(8));
        println!("{} theta {} groups {} x {}", case.name, m.d_theta(), m.groups(), m.d_x());
        println!("  {:.5?} +- {:.5?} {:.6?}", &truth.theta[..few], &truth.se[..few], truth.log_likelihood);
    }
}
