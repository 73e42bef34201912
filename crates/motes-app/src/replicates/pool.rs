//! What replicates come to together: those that agree are pooled, and it is said which do not.

use motes::printable::Number;
use motes::summary::{
    Coefficient, Effect, LikelihoodSummary, PosteriorSummary, ReplicateSummary, ReplicatesSummary, intervals,
};
use motes::{Diagnostics, Summary};

use super::ends_itself;
use super::r_hat::{Trace, of_estimates, of_paths};
use crate::config::Config;
use crate::show::in_a_row;

/// Estimates that lie further apart than so many Monte Carlo errors, and this much of a standard error, are not of one place.
const ERRORS: f64 = 4.0;
const OF_SE: f64 = 0.2;
/// Paths with a larger R-hat are not of one place.
const R_HAT: f64 = 1.1;
/// Log-likelihoods that differ by less than so many Monte Carlo errors, and this, are equal.
const EQUAL: f64 = 0.1;
/// Verdicts that say themselves that theta need not be in one place.
const OF_MANY_PLACES: [&str; 5] = ["flat", "boundary", "weakly-identified", "runaway", "predictions-only"];

/// A replicate and what it has come to.
pub struct Part<'a> {
    /// What it is called.
    pub name: String,
    /// Its summary.
    pub summary: &'a Summary,
    /// Its trace.
    pub trace: Trace<'a>,
}

impl Part<'_> {
    fn estimate(&self) -> &[f64] {
        let theta = &self.summary.theta;
        theta.mean.as_deref().unwrap_or(&theta.last)
    }

    fn error(&self, i: usize) -> Option<f64> {
        self.summary.theta.mc_error.get(i).copied().flatten()
    }

    fn se(&self, i: usize) -> Option<f64> {
        self.summary.theta.se.get(i).copied().flatten()
    }

    fn likelihood(&self) -> Option<(f64, f64)> {
        let l = self.summary.log_likelihood.as_ref()?;
        Some((l.value?, l.mc_error.unwrap_or(0.0)))
    }

    fn ok(&self) -> bool {
        self.summary.diagnostics.verdict == "ok"
    }

    /// Whether two estimates are further apart than chance explains.
    fn is_apart(&self, other: &Part<'_>) -> bool {
        let (a, b) = (self.estimate(), other.estimate());
        (0..a.len().min(b.len())).any(|i| {
            let way = (a[i] - b[i]).abs();
            let known = self.error(i).zip(other.error(i));
            let far = known.is_some_and(|(a, b)| way > ERRORS * libm::hypot(a, b));
            far && self
                .se(i)
                .zip(other.se(i))
                .is_none_or(|(a, b)| way > OF_SE * (0.5 * (a * a + b * b)).sqrt())
        })
    }

    /// Whether the log-likelihood is as high as that of another, as far as it is known.
    fn is_as_high_as(&self, other: &Part<'_>) -> bool {
        match self.likelihood().zip(other.likelihood()) {
            Some(((a, error_a), (b, error_b))) => {
                (a - b).abs() < ERRORS * libm::hypot(error_a, error_b) + EQUAL
            }
            None => false,
        }
    }
}

/// The summary of all replicates, of which there is at least one.
pub fn pooled(several: &Config, parts: &[Part<'_>]) -> Summary {
    let first = parts[0].summary;
    let d = first.theta.names.len();
    let own_way = ends_itself(first);
    let r_hat: Vec<Option<f64>> = match own_way {
        true => (0..d).map(|i| settled_r_hat(parts, i)).collect(),
        false => {
            let burn_in = several.run.burn_in.unwrap_or(0);
            of_paths(&parts.iter().map(|part| &part.trace).collect::<Vec<_>>(), burn_in, d)
        }
    };
    let places = places(parts);
    let best: Vec<&Part<'_>> = places[0].iter().map(|i| &parts[*i]).collect();
    let (verdict, advice) = verdict(several, parts, &places, if own_way { &[] } else { &r_hat });
    let mut summary = pool(&best);
    let seconds: f64 = parts.iter().map(|p| p.summary.time.seconds).sum();
    let steps: f64 = parts.iter().map(|p| p.summary.steps as f64).sum();
    summary.time.seconds = seconds;
    summary.time.steps_per_second = steps / seconds;
    summary.time.assess_seconds =
        parts.iter().filter_map(|p| p.summary.time.assess_seconds).reduce(|a, b| a + b);
    summary.settings = several.flat().into();
    summary.seed = several.run.seed.unwrap_or(first.seed);
    summary.steps = parts.iter().map(|p| p.summary.steps).max().unwrap_or(0);
    summary.diagnostics.verdict = verdict;
    summary.diagnostics.advice = advice;
    let one = |(i, part): (usize, &Part<'_>)| ReplicateSummary {
        name: part.name.clone(),
        seed: part.summary.seed,
        verdict: part.summary.diagnostics.verdict.clone(),
        pooled: places[0].contains(&i),
        theta: part.estimate().to_vec(),
        mc_error: part.summary.theta.mc_error.clone(),
        log_likelihood: part.likelihood().map(|(value, _)| value),
        log_likelihood_mc_error: part.likelihood().map(|(_, error)| error),
    };
    let runs = parts.iter().enumerate().map(one).collect();
    summary.replicates = Some(ReplicatesSummary { r_hat, runs });
    summary
}

/// R-hat of a component whose estimates have settled.
fn settled_r_hat(parts: &[Part<'_>], i: usize) -> Option<f64> {
    let known: Option<Vec<(f64, f64)>> =
        parts.iter().map(|p| Some((p.estimate()[i], p.se(i)?.powi(2)))).collect();
    let (means, squares): (Vec<f64>, Vec<f64>) = known?.into_iter().unzip();
    of_estimates(&means, &squares).filter(|_| parts.len() > 1)
}

/// The places where replicates ended, each with the numbers of those there. The first is the answer: the one of highest
/// log-likelihood or, among equals, of the most replicates. Those that know no Monte Carlo error have no place of their own.
fn places(parts: &[Part<'_>]) -> Vec<Vec<usize>> {
    let settled = |i: &usize| parts[*i].summary.theta.mc_error.iter().any(Option::is_some);
    let mut order: Vec<usize> = (0..parts.len()).filter(settled).collect();
    if order.is_empty() {
        order = (0..parts.len()).collect();
    }
    let height = |i: usize| parts[i].likelihood().map_or(f64::NEG_INFINITY, |(value, _)| value);
    order.sort_by(|a, b| height(*b).total_cmp(&height(*a))); // stable: equals stay in their order
    let mut places: Vec<Vec<usize>> = Vec::new();
    for i in order {
        match places.iter_mut().find(|place| !parts[i].is_apart(&parts[place[0]])) {
            Some(place) => place.push(i),
            None => places.push(vec![i]),
        }
    }
    let unknown = parts[places[0][0]].likelihood().is_none();
    let equal = |place: &[usize]| unknown || parts[place[0]].is_as_high_as(&parts[places[0][0]]);
    let candidates = (0..places.len()).filter(|p| equal(&places[*p]));
    let chosen = candidates.rev().max_by_key(|p| places[*p].len()).unwrap_or(0);
    places[..=chosen].rotate_right(1);
    places.iter_mut().for_each(|place| place.sort_unstable());
    places
}

/// What is to be said of all of them.
fn verdict(
    several: &Config,
    parts: &[Part<'_>],
    places: &[Vec<usize>],
    r_hat: &[Option<f64>],
) -> (String, Option<String>) {
    let bad: Vec<&Part<'_>> = parts.iter().filter(|part| !part.ok()).collect();
    let said = |part: &Part<'_>| part.summary.diagnostics.verdict.clone();
    let shared = bad.len() == parts.len()
        && OF_MANY_PLACES.iter().any(|word| bad.iter().all(|part| said(part) == *word));
    if places.len() > 1 && !shared {
        return ("disagree".into(), Some(apart(parts, places)));
    }
    let worst = r_hat.iter().enumerate().filter_map(|(i, r)| Some((i, (*r)?)));
    let worst = worst.max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|(_, r)| *r > R_HAT && !shared);
    // Paths that hardly vary may lie apart by more than that and still within what matters.
    if let Some((i, r)) = worst.filter(|(i, _)| spread(parts, *i).is_none_or(|spread| spread > OF_SE)) {
        let name = motes::sentence::foreign(&parts[0].summary.theta.names[i]);
        let more = several.run.steps.unwrap_or(0).saturating_mul(4);
        return (
            "disagree".into(),
            Some(format!(
                "R-hat of {name} is {}: the replicates lie further apart than each of them moves; run again with `steps={more}` or more, or use `algorithm=auto`",
                Number(r).with_decimals(2)
            )),
        );
    }
    let Some(first) = bad.first() else { return ("ok".into(), None) };
    let alike: Vec<&str> =
        bad.iter().filter(|part| said(part) == said(first)).map(|part| part.name.as_str()).collect();
    let advice = first.summary.diagnostics.advice.as_deref().unwrap_or("see its own report");
    (said(first), Some(format!("{}: {advice}", in_a_row(&alike))))
}

/// How far the estimates of a component are apart at the most, in standard errors.
fn spread(parts: &[Part<'_>], i: usize) -> Option<f64> {
    let se = parts.iter().map(|part| part.se(i)).collect::<Option<Vec<f64>>>()?;
    let estimates = parts.iter().map(|part| part.estimate()[i]);
    let (low, high) =
        estimates.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), t| (low.min(t), high.max(t)));
    Some((high - low) * se.len() as f64 / se.iter().sum::<f64>())
}

/// What is said of replicates that ended in several places, of which the first is the answer.
fn apart(parts: &[Part<'_>], places: &[Vec<usize>]) -> String {
    let names = |place: &[usize]| -> String {
        in_a_row(&place.iter().map(|i| parts[*i].name.as_str()).collect::<Vec<_>>())
    };
    // The one that is highest speaks for its place.
    let top = |place: &[usize]| {
        let height = |i: &usize| parts[*i].likelihood().map_or(f64::NEG_INFINITY, |(value, _)| value);
        place.iter().copied().max_by(|a, b| height(a).total_cmp(&height(b))).unwrap_or(0)
    };
    let each: Vec<String> = places
        .iter()
        .map(|place| match parts[top(place)].likelihood() {
            Some((value, _)) => {
                format!("{} (log-likelihood {})", names(place), Number(value).with_decimals(2))
            }
            None => names(place),
        })
        .collect();
    let (first, rest) = each.split_first().expect("a place");
    let answer = names(&places[0]);
    let best = &parts[top(&places[0])];
    let equal: Vec<String> = places[1..]
        .iter()
        .filter(|place| parts[top(place)].is_as_high_as(best))
        .map(|place| names(place))
        .collect();
    let have = if places[0].len() > 1 { "have" } else { "has" };
    let end = match (best.likelihood(), &equal[..]) {
        (None, _) => format!(
            "their log-likelihoods are not known, so nothing tells which is best; the estimates are those of {answer}"
        ),
        (_, []) => format!(
            "the estimates are those of {answer}, which {have} the highest log-likelihood; try more replicates, in case there is a higher one"
        ),
        (_, equal) => format!(
            "the log-likelihood of {answer} and of {} is the same within its error, so they are equally good, as when labels can be exchanged; the estimates are those of {answer}: fix the order of what can be exchanged",
            equal.join(" and of ")
        ),
    };
    let bad: Vec<String> = parts
        .iter()
        .filter(|part| !part.ok())
        .map(|part| format!("{} is {} by itself", part.name, part.summary.diagnostics.verdict))
        .collect();
    let bad = if bad.is_empty() { String::new() } else { format!(" ({})", bad.join(", ")) };
    format!("the replicates ended in different places: {first} and {}; {end}{bad}", rest.join(" and "))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn root_mean_square(values: &[f64]) -> f64 {
    mean(&values.iter().map(|v| v * v).collect::<Vec<_>>()).sqrt()
}

/// The Monte Carlo error of the mean of values with these.
fn error_of_mean(errors: &[f64]) -> f64 {
    root_mean_square(errors) / (errors.len() as f64).sqrt()
}

/// What some lists come to, entry by entry; unknown where one is.
fn across(lists: &[&[Option<f64>]], of: fn(&[f64]) -> f64) -> Vec<Option<f64>> {
    let len = lists.iter().map(|list| list.len()).min().unwrap_or(0);
    let entry = |i: usize| Some(of(&lists.iter().map(|list| list[i]).collect::<Option<Vec<f64>>>()?));
    (0..len).map(|i| entry(i).filter(|v| v.is_finite())).collect()
}

/// The same for lists of numbers that are all known.
fn means(lists: &[&[f64]]) -> Vec<f64> {
    let len = lists.iter().map(|list| list.len()).min().unwrap_or(0);
    (0..len).map(|i| mean(&lists.iter().map(|list| list[i]).collect::<Vec<f64>>())).collect()
}

/// The summary of replicates that agree.
fn pool(parts: &[&Part<'_>]) -> Summary {
    let mut summary = parts[0].summary.clone();
    let all: Vec<&Summary> = parts.iter().map(|part| part.summary).collect();
    let of_theta = |list: fn(&Summary) -> &Vec<Option<f64>>, of: fn(&[f64]) -> f64| {
        across(&all.iter().map(|s| list(s).as_slice()).collect::<Vec<_>>(), of)
    };
    let estimates: Vec<&[f64]> = parts.iter().map(|part| part.estimate()).collect();
    let theta = &mut summary.theta;
    let estimate = means(&estimates);
    theta.last = means(&all.iter().map(|s| s.theta.last.as_slice()).collect::<Vec<_>>());
    theta.se = of_theta(|s| &s.theta.se, root_mean_square);
    theta.se_mc_error = of_theta(|s| &s.theta.se_mc_error, error_of_mean);
    theta.information_share = of_theta(|s| &s.theta.information_share, mean);
    theta.mc_error = of_theta(|s| &s.theta.mc_error, error_of_mean);
    // What the replicates themselves say of their error counts as well, if they are enough to say anything.
    if parts.len() >= 4 {
        for (i, error) in theta.mc_error.iter_mut().enumerate() {
            let apart: Vec<f64> = estimates.iter().map(|e| e[i] - estimate[i]).collect();
            let between = root_mean_square(&apart) / ((parts.len() - 1) as f64).sqrt();
            *error = error.map(|own| own.max(between));
        }
    }
    theta.interval = intervals(&estimate, &theta.se, summary.level);
    theta.covariance = all.iter().map(|s| s.theta.covariance.as_ref()).collect::<Option<Vec<_>>>().map(|m| {
        let row = |i: usize| across(&m.iter().map(|m| m[i].as_slice()).collect::<Vec<_>>(), mean);
        (0..m[0].len()).map(row).collect()
    });
    theta.mean = all.iter().all(|s| s.theta.mean.is_some()).then_some(estimate);
    summary.log_likelihood = likelihood(&all);
    summary.posterior = posterior(&all);
    summary.coefficients = coefficients(&all);
    // Curves have no mean; each replicate has its own.
    summary.test = None;
    if let Some(metrics) = &mut summary.metrics {
        for (name, value) in &mut metrics.0 {
            let measured = all.iter().filter_map(|s| s.metrics.as_ref()?.get(name));
            *value = mean(&measured.collect::<Vec<_>>());
        }
    }
    let known = |of: &dyn Fn(&Diagnostics) -> Option<f64>| -> Option<Vec<f64>> {
        all.iter().map(|s| of(&s.diagnostics)).collect()
    };
    let diagnostics = Diagnostics {
        ess: of_theta(|s| &s.diagnostics.ess, |values| values.iter().sum()),
        drift: of_theta(|s| &s.diagnostics.drift, mean),
        distance: of_theta(|s| &s.diagnostics.distance, mean),
        acceptance: known(&|d| d.acceptance).map(|v| mean(&v)),
        shadow_acceptance: known(&|d| d.shadow_acceptance).map(|v| mean(&v)),
        evaluations: known(&|d| d.evaluations).map(|v| v.iter().sum()),
        posterior_error: known(&|d| d.posterior_error).map(|v| v.into_iter().fold(0.0, f64::max)),
        suggested_step_size: None,
        ..summary.diagnostics.clone()
    };
    summary.diagnostics = diagnostics;
    summary
}

fn likelihood(all: &[&Summary]) -> Option<LikelihoodSummary> {
    let known: Vec<&LikelihoodSummary> = all.iter().filter_map(|s| s.log_likelihood.as_ref()).collect();
    let mut pooled = (*known.first()?).clone();
    let values: Vec<f64> = known.iter().filter_map(|l| l.value).collect();
    if values.len() < all.len() {
        return known.iter().find(|l| l.value.is_none()).map(|l| (*l).clone());
    }
    let errors: Option<Vec<f64>> = known.iter().map(|l| l.mc_error).collect();
    let value = mean(&values);
    pooled.mc_error = errors.map(|errors| error_of_mean(&errors));
    pooled.set_value(Some(value), all[0].d_theta);
    Some(pooled)
}

/// Those of all replicates, as for the posterior.
fn coefficients(all: &[&Summary]) -> Option<Vec<Coefficient>> {
    let parts: Vec<&Vec<Coefficient>> =
        all.iter().map(|s| s.coefficients.as_ref()).collect::<Option<Vec<_>>>()?;
    let known = |values: Option<Vec<f64>>, of: fn(&[f64]) -> f64| values.map(|values| of(&values));
    let effect = |of: &dyn Fn(&Coefficient) -> Effect, i: usize| {
        let effects: Vec<Effect> = parts.iter().map(|part| of(&part[i])).collect();
        let centre = mean(&effects.iter().map(|e| e.mean).collect::<Vec<_>>());
        let squares: Vec<f64> = effects.iter().map(|e| e.sd * e.sd + (e.mean - centre).powi(2)).collect();
        let end = |end: usize| known(effects.iter().map(|e| Some(e.interval?[end])).collect(), mean);
        Effect {
            mean: centre,
            sd: mean(&squares).sqrt(),
            total_sd: known(effects.iter().map(|e| e.total_sd).collect(), root_mean_square),
            interval: end(0).zip(end(1)).map(|(low, high)| [low, high]),
        }
    };
    let of = |i: usize| Coefficient {
        original: effect(&|c| c.original, i),
        standardised: effect(&|c| c.standardised, i),
        sign_probability: known(parts.iter().map(|part| part[i].sign_probability).collect(), mean),
        ..parts[0][i].clone()
    };
    parts.iter().all(|part| part.len() == parts[0].len()).then(|| (0..parts[0].len()).map(of).collect())
}

/// Moments over all replicates; quantiles are means of theirs.
fn posterior(all: &[&Summary]) -> Option<PosteriorSummary> {
    let parts: Vec<&PosteriorSummary> =
        all.iter().map(|s| s.posterior.as_ref()).collect::<Option<Vec<_>>>()?;
    let mut pooled = parts[0].clone();
    pooled.mean = means(&parts.iter().map(|p| p.mean.as_slice()).collect::<Vec<_>>());
    let within = means(&parts.iter().map(|p| p.var.as_slice()).collect::<Vec<_>>());
    pooled.var = within
        .iter()
        .zip(&pooled.mean)
        .enumerate()
        .map(|(i, (v, m))| v + mean(&parts.iter().map(|p| (p.mean[i] - m).powi(2)).collect::<Vec<_>>()))
        .collect();
    let lists = |of: fn(&PosteriorSummary) -> Option<&Vec<Option<f64>>>, how: fn(&[f64]) -> f64| {
        let lists = parts.iter().map(|p| of(p).map(Vec::as_slice)).collect::<Option<Vec<_>>>()?;
        Some(across(&lists, how))
    };
    pooled.mc_error = lists(|p| p.mc_error.as_ref(), error_of_mean);
    pooled.total_sd = lists(|p| p.total_sd.as_ref(), root_mean_square);
    pooled.quantiles = parts.iter().map(|p| p.quantiles.as_ref()).collect::<Option<Vec<_>>>().map(|lists| {
        let level = |i: usize, level: usize| {
            let values: Option<Vec<f64>> = lists.iter().map(|list| list[i][level]).collect();
            values.map(|values| mean(&values))
        };
        (0..pooled.mean.len()).map(|i| [0, 1, 2].map(|at| level(i, at))).collect()
    });
    Some(pooled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A fit by auto that came to this estimate, with a standard error of 1.
    fn fitted(theta: f64, mc_error: f64, log_likelihood: f64, verdict: &str) -> Summary {
        let text = json!({
            "schema": 2, "model": "own", "algorithm": "auto", "seed": 0, "steps": 100, "particles": 32, "step_size": null,
            "d_theta": 1, "d_x": 1,
            "theta": {"names": ["a"], "last": [theta], "mean": [theta], "se": [1.0], "se_mc_error": [0.1],
                "mc_error": [mc_error], "interval": [[theta - 1.96, theta + 1.96]], "covariance": [[1.0]]},
            "log_likelihood": {"value": log_likelihood, "mc_error": 0.02, "method": "bridge", "aic": 0.0, "bic": 0.0, "n": 10},
            "posterior": {"names": ["x"], "mean": [theta], "var": [0.5]},
            "metrics": null, "predict_with": null, "data": null,
            "diagnostics": {"verdict": verdict, "advice": null, "acceptance": 0.8, "shadow_acceptance": null,
                "suggested_step_size": null, "evaluations": 1000.0},
            "time": {"seconds": 2.0, "steps_per_second": 50.0}, "version": "0"
        });
        Summary::parse(text.to_string().as_bytes()).unwrap()
    }

    fn together(fits: &[Summary]) -> Summary {
        let name = |i: usize| super::super::name(i as u64 + 1);
        let part = |(i, summary)| Part { name: name(i), summary, trace: Trace::Text(&[]) };
        let parts: Vec<Part<'_>> = fits.iter().enumerate().map(part).collect();
        let summary = pooled(&Config::default(), &parts);
        // What is written can be read.
        assert_eq!(Summary::parse(summary.to_json().as_bytes()).err(), None);
        summary
    }

    fn pooled_names(summary: &Summary) -> Vec<&str> {
        let runs = &summary.replicates.as_ref().unwrap().runs;
        runs.iter().filter(|run| run.pooled).map(|run| run.name.as_str()).collect()
    }

    #[test]
    fn those_that_agree_are_pooled() {
        let fits = [fitted(1.0, 0.04, -5.0, "ok"), fitted(1.06, 0.03, -5.01, "ok")];
        let all = together(&fits);
        assert_eq!((all.diagnostics.verdict.as_str(), &all.diagnostics.advice), ("ok", &None));
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} for {b}");
        close(Some(all.theta.mean.as_ref().unwrap()[0]), 1.03);
        close(all.theta.mc_error[0], 0.025); // sqrt(0.04^2 + 0.03^2) / 2
        close(all.theta.se[0], 1.0);
        close(all.replicates.as_ref().unwrap().r_hat[0], (1.0f64 + 0.0018).sqrt());
        let likelihood = all.log_likelihood.as_ref().unwrap();
        close(likelihood.value, -5.005);
        close(likelihood.aic, 2.0 + 10.01);
        close(likelihood.bic, 10f64.ln() + 10.01);
        let posterior = all.posterior.as_ref().unwrap();
        close(Some(posterior.mean[0]), 1.03);
        close(Some(posterior.var[0]), 0.5 + 0.0009);
        assert_eq!((all.time.seconds, all.diagnostics.evaluations), (4.0, Some(2000.0)));
        // Many Monte Carlo errors apart, but not by what matters; and the other way round.
        for (other, error) in [(1.15, 0.01), (1.7, 0.2)] {
            assert_eq!(
                together(&[fits[0].clone(), fitted(other, error, -5.0, "ok")]).diagnostics.verdict,
                "ok"
            );
        }
    }

    #[test]
    fn those_that_do_not_agree_are_named_with_their_likelihoods() {
        let fits =
            [fitted(-2.0, 0.04, -9.0, "ok"), fitted(1.0, 0.04, -5.0, "ok"), fitted(1.02, 0.04, -5.0, "ok")];
        let all = together(&fits);
        assert_eq!((all.diagnostics.verdict.as_str(), pooled_names(&all)), ("disagree", vec!["r2", "r3"]));
        assert!((all.theta.mean.as_ref().unwrap()[0] - 1.01).abs() < 1e-12);
        let advice = all.diagnostics.advice.unwrap();
        for piece in [
            "r2 and r3 (log-likelihood -5.00) and r1 (log-likelihood -9.00)",
            "r2 and r3, which have the highest",
        ] {
            assert!(advice.contains(piece), "{advice}");
        }
        // As where labels can be exchanged: equally good, and the most of them are the answer.
        let exchanged = [
            fitted(-1.0, 0.04, -5.02, "ok"),
            fitted(1.0, 0.04, -4.98, "ok"),
            fitted(-1.01, 0.04, -5.0, "ok"),
        ];
        let all = together(&exchanged);
        assert_eq!((all.diagnostics.verdict.as_str(), pooled_names(&all)), ("disagree", vec!["r1", "r3"]));
        assert!(all.diagnostics.advice.as_ref().unwrap().contains("equally good"), "{:?}", all.diagnostics);
    }

    #[test]
    fn one_that_is_not_ok_spoils_the_verdict() {
        let fits = [fitted(1.0, 0.04, -5.0, "ok"), fitted(1.0, 0.04, -5.0, "not-reached")];
        let all = together(&fits);
        assert_eq!(all.diagnostics.verdict, "not-reached");
        assert!(all.diagnostics.advice.unwrap().starts_with("r2: "));
        // A search that ended nowhere has no Monte Carlo error, and no say.
        let mut lost = fitted(40.0, 0.1, -50.0, "still-moving");
        lost.theta.mc_error = vec![None];
        let all = together(&[lost, fits[0].clone()]);
        assert_eq!((all.diagnostics.verdict.as_str(), pooled_names(&all)), ("still-moving", vec!["r2"]));
        // Where the likelihood is flat, different places are no news.
        let flat = [fitted(1.0, 0.01, -5.0, "flat"), fitted(9.0, 0.01, -5.0, "flat")];
        assert_eq!(together(&flat).diagnostics.verdict, "flat");
    }
}
