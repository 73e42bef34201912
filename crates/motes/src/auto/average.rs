//! Averaging: theta takes ever smaller steps around the maximum, and is judged at growing intervals.

use nalgebra::{DMatrix, DVector};

use super::memory::{Memory, Sizes};
use super::metric::{FLOOR, Metric};
use super::{Fitter, ThetaStep};
use crate::printable::Number;
use crate::sentence::foreign;
use crate::{Real, State};

/// Batches of information matrices.
const MATRICES: usize = 10;
/// The standard errors' own error, relative to them, that is aimed at.
const SE_ERROR: f64 = 0.1;
/// A Newton step may miss the maximum by this share of its length: curvature is known to a tenth or two.
const DOUBT: f64 = 0.2;
/// Nothing is known to more digits of its standard error than this.
const ROUNDING: f64 = 1e-6;
/// How often averaging may be given up for another search.
const RETURNS: u32 = 5;

/// What is known about theta at some sweep of this stage.
struct Judgement {
    /// The metric of the information that theta has had lately.
    metric: Metric,
    estimate: Vec<f64>,
    se: DVector<f64>,
    se_error: DVector<f64>,
    covariance: DMatrix<f64>,
    mc_error: DVector<f64>,
    /// The largest Monte Carlo error in units of the standard error, and whose it is.
    worst: (usize, f64),
    /// The component whose standard error is known worst, and the error of that as a share of it.
    unsure: (usize, f64),
    /// The largest distance between the averages of theta and of one-step Newton estimates, in standard errors.
    gap: f64,
    /// The largest ratio of the error that the particles suggest and that which time suggests.
    mix: f64,
    /// Directions along which the likelihood is flat, or curves upwards, or may be either.
    flat: Vec<usize>,
    /// Components that are mostly along flat directions.
    vague: Vec<usize>,
    upwards: Vec<usize>,
    undetermined: Vec<usize>,
    /// The mean score along flat directions in units of its error.
    slope: f64,
    /// Whether halves agree, errors are known and nothing moves.
    steady: bool,
}

impl<F: Real> Fitter<'_, F> {
    /// Takes note of a sweep and a step, and judges theta when it is time.
    pub(super) fn averaged(
        &mut self,
        state: &mut State<F>,
        memory: &mut Memory,
        step: &ThetaStep,
        observed: Option<Vec<f64>>,
    ) {
        memory.theta.add(&state.theta);
        memory.newton.add(&step.newton);
        memory.mean_score.add(&step.score);
        if let Some(observed) = observed {
            memory.observed.add(&observed);
        }
        memory.score_sums.iter_mut().zip(&self.sweeper.scores).for_each(|(sum, s)| *sum += s);
        self.judge_average(state, memory);
    }

    /// Judges theta when it is time, and ends its stage if there is no more to wait for.
    pub(super) fn judge_average(&mut self, state: &mut State<F>, memory: &mut Memory) {
        let before = (memory.progress.next_check, memory.progress.worst);
        self.judge_when_due(state, memory);
        // What is taken back with the end is all that came of this.
        if let Some(end) = &mut memory.progress.ended {
            (end.next_check, end.worst) = before;
        }
    }

    fn judge_when_due(&mut self, state: &mut State<F>, memory: &mut Memory) {
        let sweeps = state.k - memory.progress.began + 1;
        let spent = self.spent(memory);
        if sweeps < memory.progress.next_check && !spent {
            return;
        }
        if sweeps >= memory.progress.next_check {
            memory.progress.next_check = (sweeps as f64 * 1.3) as u64 + 1;
        }
        let Some(found) = self.judge(memory, sweeps) else {
            if spent {
                self.end_averaging(state, memory, None, "too-short");
            }
            return;
        };
        memory.progress.worst = Some(found.worst.1);
        let certain = found.undetermined.is_empty() && found.upwards.is_empty() && found.slope < 3.0;
        let fixed = memory.progress.fixed;
        let reached =
            found.worst.1 < self.tolerance && found.steady && (fixed || found.gap < 2.0 * self.tolerance);
        let boundary = !memory.progress.runs_away.is_empty();
        let verdict = if reached && certain && found.mix < 4.0 {
            match (boundary, found.flat.is_empty()) {
                (true, _) => "boundary",
                (_, true) if memory.progress.plateau.is_none() => "ok",
                (_, true) => "weakly-identified",
                (_, false) => "flat",
            }
        } else if !spent {
            let lost = sweeps > 100 && found.gap > 1.0 && !fixed && !boundary;
            if lost && memory.progress.returns < RETURNS {
                memory.search_again(&state.theta, state.k + 1);
            }
            return;
        } else if found.mix >= 4.0 {
            "poor-mixing"
        } else if !found.upwards.is_empty() {
            "not-a-maximum"
        } else if boundary || found.slope >= 3.0 {
            "boundary"
        } else if !found.undetermined.is_empty() {
            "weakly-identified"
        } else {
            "not-reached"
        };
        self.end_averaging(state, memory, Some(found), verdict);
    }

    fn judge(&self, memory: &Memory, sweeps: u64) -> Option<Judgement> {
        let Sizes { d_theta: d, n, .. } = self.sizes;
        let matrices: Vec<DMatrix<f64>> = memory
            .observed
            .tail_batches(MATRICES)
            .iter()
            .map(|batch| DMatrix::from_row_slice(d, d, batch))
            .collect();
        let batches = memory.newton.tail_batches(((0.8 * sweeps as f64).sqrt() as usize).max(8));
        if matrices.len() < 4 || batches.len() < 8 {
            return None;
        }
        // At the beginning of the stage theta went to and fro, and the curvature where it was is not that at the maximum.
        let lately = memory.observed.tail_mean();
        let scatter: Vec<f64> = memory.information.iter().zip(&lately).map(|(i, o)| i - o).collect();
        let metric = Metric::new(&memory.information, &scatter, d);
        let covariance = metric.covariance();
        let se = covariance.diagonal().map(f64::sqrt);
        // Particles as replicates, and batches of sweeps: where particles are stuck, only the former tell.
        let of_particles: Vec<Vec<f64>> = memory
            .score_sums
            .chunks_exact(d)
            .map(|sums| {
                let mean = DVector::from_iterator(d, sums.iter().map(|s| s / sweeps as f64));
                (&covariance * mean).data.into()
            })
            .collect();
        let (by_particles, by_time) = (error_of_mean(&of_particles, d), error_of_mean(&batches, d));
        let negligible = 0.2 * self.tolerance;
        let is_held = |i: usize| memory.progress.runs_away.contains(&(i as u32));
        let mix = (0..d)
            .filter(|i| by_particles[*i] > negligible * se[*i] && !is_held(*i))
            .map(|i| by_particles[i] / by_time[i].max(1e-300))
            .fold(0.0, f64::max);

        let shares: Vec<Vec<f64>> =
            matrices.iter().map(|m| metric.b.column_iter().map(|b| (m * b).dot(&b)).collect()).collect();
        let share_error = error_of_mean(&shares, d);
        let share = &metric.share;
        let upwards: Vec<usize> = (0..d).filter(|i| share[*i] < -0.05 - 2.0 * share_error[*i]).collect();
        let is_flat = |i: usize| {
            share[i] < 0.003 + 2.0 * share_error[i] && share_error[i] < 0.006 && !upwards.contains(&i)
        };
        let flat: Vec<usize> = (0..d).filter(|i| is_flat(*i)).collect();
        let undetermined: Vec<usize> = (0..d)
            .filter(|i| share[*i] < 2.0 * share_error[*i] && !is_flat(*i) && !upwards.contains(i))
            .collect();
        let safe = metric.safe_share();

        // The average lags behind the maximum; the mean of one-step Newton estimates does not, where curvature is known.
        let (averaged, newton) = (memory.theta.tail_mean(), memory.newton.tail_mean());
        let way = DVector::from_fn(d, |i, _| newton[i] - averaged[i]);
        let known = |i: usize| {
            share[i] >= FLOOR && !flat.contains(&i) && !undetermined.contains(&i) && !memory.progress.fixed
        };
        let along = &metric.inverse * &way;
        let made = metric.back(&DVector::from_fn(d, |i, _| if known(i) { along[i] } else { 0.0 }));
        let estimate: Vec<f64> = averaged.iter().zip(made.iter()).map(|(t, m)| t + m).collect();
        // What is left of the way is no noise, but an error all the same, and so is rounding.
        let mc_error = DVector::from_fn(d, |i, _| {
            let noise = if n >= 8 { by_particles[i].max(by_time[i]) } else { by_time[i] };
            let left =
                if memory.progress.fixed { 0.0 } else { libm::hypot(way[i] - made[i], DOUBT * made[i]) };
            libm::hypot(libm::hypot(noise, left), ROUNDING * se[i])
        });

        // Components whose variance is mostly along flat directions are not judged by themselves, nor is what ran away.
        let (judged, vague) = (0..d).filter(|i| !is_held(*i)).partition::<Vec<usize>, _>(|i| {
            let along: f64 = flat.iter().map(|f| metric.b[(*i, *f)].powi(2) / safe[*f]).sum();
            along < 0.5 * covariance[(*i, *i)]
        });

        let variances: Vec<Vec<f64>> =
            matrices.iter().map(|m| (&covariance * m * &covariance).diagonal().data.into()).collect();
        // A standard error that changes with theta is known no better than theta: its slope is seen as theta goes to and fro.
        let thetas = memory.theta.tail_batches(variances.len());
        let noise = error_of_mean(&variances, d);
        let se_error = DVector::from_fn(d, |i, _| {
            let slope = slope(thetas.iter().rev().zip(variances.iter().rev()).map(|(t, v)| (t[i], v[i])));
            let moved = if memory.progress.fixed { 0.0 } else { slope * mc_error[i] };
            0.5 * libm::hypot(noise[i], moved) / se[i]
        });
        let halves = |batches: &[Vec<f64>]| {
            let (first, second) = batches.split_at(batches.len() / 2);
            let mean =
                |half: &[Vec<f64>], i: usize| half.iter().map(|b| b[i]).sum::<f64>() / half.len() as f64;
            DVector::from_fn(d, |i, _| (mean(second, i) - mean(first, i)).abs())
        };
        let (split, drift) = (halves(&batches), halves(&memory.theta.tail_batches(8)));
        let largest = |of: &dyn Fn(usize) -> f64| judged.iter().map(|i| of(*i)).fold(0.0, f64::max);
        let gap = largest(&|i| way[i].abs() / se[i]);
        let steady = largest(&|i| split[i] / (2.0 * mc_error[i].max(1e-300))) < 3.0
            && largest(&|i| drift[i] / se[i]) < 4.0 * self.tolerance
            && largest(&|i| se_error[i] / se[i]) < SE_ERROR;
        let component = |of: &dyn Fn(usize) -> f64| {
            let all = judged.iter().map(|i| (*i, of(*i)));
            all.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((0, 0.0))
        };
        let mut worst = component(&|i| mc_error[i] / se[i]);
        let unsure = component(&|i| se_error[i] / se[i]);
        if !flat.is_empty() {
            // Where some directions are flat, the others are judged as well as the components.
            for i in (0..d).filter(|i| !flat.contains(i) && share[*i] > 0.0) {
                let along = |rows: &[Vec<f64>]| {
                    let rows: Vec<Vec<f64>> = rows
                        .iter()
                        .map(|row| {
                            vec![metric.inverse.row(i).transpose().dot(&DVector::from_column_slice(row))]
                        })
                        .collect();
                    error_of_mean(&rows, 1)[0] * share[i].sqrt()
                };
                let error = along(&of_particles).max(along(&batches));
                if error > worst.1 {
                    worst = (worst.0, error);
                }
            }
        }
        let slopes = memory.mean_score.tail_batches(batches.len());
        let slope = flat
            .iter()
            .map(|f| {
                let rows: Vec<Vec<f64>> = slopes
                    .iter()
                    .map(|row| vec![metric.b.column(*f).dot(&DVector::from_column_slice(row))])
                    .collect();
                let mean = rows.iter().map(|r| r[0]).sum::<f64>() / rows.len() as f64;
                mean.abs() / libm::hypot(error_of_mean(&rows, 1)[0], ROUNDING)
            })
            .fold(0.0, f64::max);
        Some(Judgement {
            metric,
            estimate,
            se,
            se_error,
            covariance,
            mc_error,
            worst,
            unsure,
            gap,
            mix,
            flat,
            vague,
            upwards,
            undetermined,
            slope,
            steady,
        })
    }

    /// Writes down what was found, and lets the cloud sample the posterior there.
    fn end_averaging(
        &mut self,
        state: &mut State<F>,
        memory: &mut Memory,
        found: Option<Judgement>,
        verdict: &str,
    ) {
        let names: Vec<String> = self.sweeper.model.theta_names().iter().map(foreign).collect();
        let more = (4.0 * self.max_evaluations) as u64;
        let longer = format!("allow more with `max-evaluations={more}`");
        let directions = |found: &Judgement, list: &[usize]| {
            let listed: Vec<String> =
                list.iter().take(3).map(|i| direction(&found.metric, *i, &names)).collect();
            listed.join("; ")
        };
        let advice = match (&found, verdict) {
            (_, "ok") => None,
            (None, _) => Some(format!("there were too few sweeps to judge theta by; {longer}")),
            (Some(found), "flat") => Some(format!(
                "the likelihood does not change along {}: only what varies across is determined; fix one of these parameters",
                directions(found, &found.flat)
            )),
            (Some(found), "poor-mixing") => Some(format!(
                "the particles disagree {} times more than their movement explains, so some are caught in different modes or do not move; write the model so that its posterior has one mode, or start elsewhere with `init-particles`",
                Number(found.mix.round())
            )),
            (Some(found), "not-a-maximum") => Some(format!(
                "theta stands where the likelihood curves upwards along {}, as between two maxima; start elsewhere with `init-theta`",
                directions(found, &found.upwards)
            )),
            (Some(found), "boundary") => Some(match memory.progress.runs_away[..] {
                [j] => format!(
                    "the likelihood does not change as {} goes to {}, so the maximum is on the boundary there; the other estimates are those on the boundary: leave out what that parameter scales",
                    names[j as usize],
                    infinity(state.theta[j as usize] < 0.0)
                ),
                [j, i, ..] => format!(
                    "the likelihood does not change as {} goes to {} and {} to {}, so the maximum is on the boundary there; the other estimates are those on the boundary: leave out what those parameters scale",
                    names[j as usize],
                    infinity(state.theta[j as usize] < 0.0),
                    names[i as usize],
                    infinity(state.theta[i as usize] < 0.0)
                ),
                [] => format!(
                    "the likelihood still rises along {} where it is almost flat, as towards a boundary; simplify the model, or {longer}",
                    directions(found, &found.flat)
                ),
            }),
            (Some(found), "weakly-identified") if found.undetermined.is_empty() => {
                memory.progress.plateau.map(|(j, down)| {
                    format!(
                        "the likelihood hardly falls as {} goes to {}, so the data cannot tell it from the boundary there and its standard error means little; leave out what that parameter scales, or use more data",
                        names[j as usize],
                        infinity(down)
                    )
                })
            }
            (Some(found), "weakly-identified") => Some(format!(
                "the data hold next to nothing about {}; simplify the model, or {longer}",
                directions(found, &found.undetermined)
            )),
            (Some(found), _) if found.worst.1 >= self.tolerance => Some(format!(
                "the evaluations were spent while the Monte Carlo error of {} was {} of its standard error; {longer}",
                names[found.worst.0],
                Number((1000.0 * found.worst.1).round() / 1000.0)
            )),
            (Some(found), _) if found.unsure.1 >= SE_ERROR => Some(format!(
                "the estimates are as accurate as was asked for, but the evaluations were spent while the standard error of {} was known to within {} % only; {longer}",
                names[found.unsure.0],
                (100.0 * found.unsure.1).round()
            )),
            (Some(_), _) => {
                Some(format!("the evaluations were spent before the estimates had come to rest; {longer}"))
            }
        };
        memory.progress.verdict = Some(verdict.into());
        memory.progress.advice = advice;
        memory.progress.unchecked = verdict == "ok" && !memory.progress.fixed;
        let mut unknown: Vec<usize> = Vec::new();
        match found {
            None => memory.estimate.copy_from_slice(&memory.theta.tail_mean()),
            Some(found) => {
                memory.estimate.copy_from_slice(&found.estimate);
                memory.mc_error.copy_from_slice(found.mc_error.as_slice());
                memory.se.copy_from_slice(found.se.as_slice());
                memory.se_mc_error.copy_from_slice(found.se_error.as_slice());
                memory.covariance.copy_from_slice(found.covariance.as_slice());
                let complete = found.metric.complete_variances();
                for ((share, complete), observed) in
                    memory.share.iter_mut().zip(complete).zip(&found.covariance.diagonal())
                {
                    *share = complete / observed;
                }
                unknown = found.vague;
            }
        }
        if memory.estimate.iter().any(|t| !t.is_finite()) || memory.theta.tail().len() == 0 {
            memory.estimate.copy_from_slice(&state.theta);
        }
        let Memory { progress, estimate, se, mc_error, se_mc_error, .. } = memory;
        for j in progress.runs_away.iter().map(|j| *j as usize) {
            estimate[j] = state.theta[j];
            unknown.push(j);
        }
        for j in unknown {
            [&mut *se, mc_error, se_mc_error].into_iter().for_each(|of| of[j] = f64::NAN);
        }
        self.start_sampling(state, memory);
    }
}

/// Where a component goes that does not end.
fn infinity(below: bool) -> &'static str {
    if below { "minus infinity" } else { "infinity" }
}

/// The standard error of the mean of some rows, for each of d components.
fn error_of_mean(rows: &[Vec<f64>], d: usize) -> DVector<f64> {
    let n = rows.len() as f64;
    DVector::from_fn(d, |i, _| {
        let mean = rows.iter().map(|row| row[i]).sum::<f64>() / n;
        let squares = rows.iter().map(|row| (row[i] - mean) * (row[i] - mean)).sum::<f64>();
        (squares / (n - 1.0) / n).sqrt()
    })
}

/// The slope of the line through some points, by least squares.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n = points.clone().count() as f64;
    let mean = |of: fn((f64, f64)) -> f64| points.clone().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let squares: f64 = points.clone().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let products: f64 = points.map(|p| (p.0 - x) * (p.1 - y)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// A direction by the components that it is mostly made of.
fn direction(metric: &Metric, i: usize, names: &[String]) -> String {
    let b = metric.b.column(i);
    let largest = b.amax();
    let mut parts: Vec<(usize, f64)> = b.iter().map(|v| v / largest).enumerate().collect();
    parts.retain(|(_, v)| v.abs() > 0.3);
    parts.sort_by(|(_, a), (_, b)| b.abs().total_cmp(&a.abs()));
    let shown: Vec<String> = parts
        .iter()
        .take(4)
        .enumerate()
        .map(|(at, (j, v))| {
            let (sign, size) = (if *v < 0.0 { "- " } else { "+ " }, v.abs());
            let factor = if size > 0.995 { String::new() } else { format!("{size:.2} ") };
            format!("{}{factor}{}", if at == 0 && *v > 0.0 { "" } else { sign }, names[*j])
        })
        .collect();
    let more = if parts.len() > 4 { " ..." } else { "" };
    format!("{}{more}", shown.join(" "))
}
