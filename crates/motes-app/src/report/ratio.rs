//! Likelihood-ratio tests between runs.

use motes::Summary;
use motes::printable::printable;

use super::read::Run;
use super::words::{fixed, grouped, significant};

/// A test of a smaller model against a larger one.
pub struct Test {
    /// The places of both in the list of runs.
    pub smaller: usize,
    pub larger: usize,
    /// 2 (l1 - l0).
    pub statistic: f64,
    /// The Monte Carlo error of that.
    pub mc_error: Option<f64>,
    pub degrees: usize,
    /// The p-value by the chi-squared distribution.
    pub p: f64,
    /// The p-values at two Monte Carlo errors above and below the statistic.
    pub p_range: Option<[f64; 2]>,
    /// What should be known about it, in sentences.
    pub notes: Vec<String>,
}

/// What every test takes for granted.
pub const ASSUMED: &str = "The p-value is from the chi-squared distribution. It is valid if the smaller model is a special case of the larger one and there are enough data, which a program cannot see.";

/// A test for each run against the next smaller one, or a sentence that says why there is none.
pub fn tests(runs: &[Run]) -> Vec<Result<Test, String>> {
    // One sentence is enough for many runs of one model.
    if let [first, _, _, ..] = runs
        && runs.iter().all(|run| run.d_theta == first.d_theta)
    {
        let count = grouped(first.d_theta as u64);
        return vec![Err(format!(
            "No likelihood-ratio test: all runs have the same number of parameters, {count}."
        ))];
    }
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|i| runs[*i].d_theta);
    order.windows(2).map(|pair| test(runs, pair[0], pair[1])).collect()
}

/// What a run is called in sentences.
pub fn called(run: &Run) -> String {
    printable(&run.dir.to_string_lossy()).into_owned()
}

/// The settings that decide which observations a likelihood is of, besides the file of data.
const OBSERVED: [&str; 7] =
    ["target", "test", "test-fraction", "split-seed", "dim", "true-theta", "data-seed"];

fn test(runs: &[Run], smaller: usize, larger: usize) -> Result<Test, String> {
    let (a, b) = (&runs[smaller], &runs[larger]);
    let names = format!("{} and {}", called(a), called(b));
    let none = |why: String| Err(format!("No likelihood-ratio test between {names}: {why}."));
    if let Some(run) = [a, b].into_iter().find(|run| !run.complete()) {
        return none(format!("{} has not finished", called(run)));
    }
    let (Some(s0), Some(s1)) = (&a.summary, &b.summary) else { return none("a summary is missing".into()) };
    if s0.model != s1.model {
        return none(format!("they are of different models, {} and {}", s0.model, s1.model));
    }
    let of_both = |key: &str| (a.setting(key), b.setting(key));
    let mut notes = Vec::new();
    let rows = |s: &Summary| s.log_likelihood.as_ref().and_then(|l| l.n);
    match of_both("data-sha256") {
        (Some(x), Some(y)) if x == y => {}
        // The data of a model that is written by its user are the user's affair.
        (None, None) => match (rows(s0), rows(s1)) {
            (Some(x), Some(y)) if x != y => {
                return none(format!(
                    "they were fitted to different data, with n = {} and n = {}",
                    grouped(x),
                    grouped(y)
                ));
            }
            _ => notes.push(
                "The data of these models are not recorded: the test is valid if both were fitted to the same."
                    .into(),
            ),
        },
        _ => return none("they were fitted to different data".into()),
    }
    if let Some(key) = OBSERVED.into_iter().find(|key| of_both(key).0 != of_both(key).1) {
        return none(format!("they differ in {key}, so they were fitted to different observations"));
    }
    if a.d_theta == b.d_theta {
        return none(format!("they have the same number of parameters, {}", grouped(a.d_theta as u64)));
    }
    let likelihood = |run: &Run| {
        let l = run.summary.as_ref()?.log_likelihood.as_ref()?;
        Some((l.value.filter(|v| v.is_finite())?, l.mc_error, l.complete))
    };
    let [(l0, e0, c0), (l1, e1, c1)] = match [likelihood(a), likelihood(b)] {
        [Some(x), Some(y)] => [x, y],
        [None, _] => return none(format!("{} has no log-likelihood", called(a))),
        [_, None] => return none(format!("{} has no log-likelihood", called(b))),
    };
    if c0 != c1 {
        return none(
            "the density of one has all its constants, and that of the other is as it was given".into(),
        );
    }
    let degrees = b.d_theta - a.d_theta;
    let statistic = 2.0 * (l1 - l0);
    let mc_error = e0.zip(e1).map(|(x, y)| 2.0 * libm::hypot(x, y));
    let p_at = |statistic: f64| chi_squared_tail(statistic, degrees);
    if !c0 {
        notes.push("Both densities are taken as they are given; the test is valid if they leave out the same constants.".into());
    }
    for (run, s) in [(a, s0), (b, s1)].into_iter().filter(|(_, s)| s.diagnostics.verdict != "ok") {
        notes.push(format!(
            "The verdict of {} is {}: its log-likelihood may not be that of the maximum.",
            called(run),
            printable(&s.diagnostics.verdict)
        ));
    }
    if statistic < 0.0 {
        notes.push("The larger model has the smaller log-likelihood, which is impossible at the maximum: it is Monte Carlo error, or the smaller model is not a special case of the larger one.".into());
    }
    let only = s1.theta.names.iter().filter(|name| !s0.theta.names.contains(name));
    if let Some(name) = only.into_iter().find(|name| is_log_sd(name)) {
        notes.push(format!(
            "If the smaller model sets the variance behind {} to 0, that is on the boundary: then half of the p-value, {}, is the right one for one such variance.",
            printable(name),
            p_text(0.5 * p_at(statistic))
        ));
    }
    Ok(Test {
        smaller,
        larger,
        statistic,
        mc_error,
        degrees,
        p: p_at(statistic),
        p_range: mc_error.map(|e| [p_at(statistic + 2.0 * e), p_at(statistic - 2.0 * e)]),
        notes,
    })
}

impl Test {
    /// The statistic with as many decimals as its Monte Carlo error allows.
    pub fn statistic_text(&self) -> String {
        match self.mc_error {
            Some(e) => format!("{} (MC error {})", fixed(self.statistic, 3), significant(e, 2)),
            None => fixed(self.statistic, 3),
        }
    }

    /// The p-value, with what Monte Carlo error leaves open of it.
    pub fn p_text(&self) -> String {
        match self.p_range {
            Some([low, high]) if p_text(low) != p_text(high) => {
                format!("{} ({} to {} within two MC errors)", p_text(self.p), p_text(low), p_text(high))
            }
            _ => p_text(self.p),
        }
    }
}

/// A p-value as people read it.
pub fn p_text(p: f64) -> String {
    match p {
        p if p < 1e-16 => "below 1e−16".into(),
        p if p < 1e-3 => significant(p, 2),
        p => fixed(p, 4),
    }
}

/// Whether the name of a parameter suggests the logarithm of a standard deviation or variance.
fn is_log_sd(name: &str) -> bool {
    let name = name.to_lowercase();
    let Some(rest) = name.strip_prefix("log").or_else(|| name.strip_prefix("ln")) else { return false };
    let rest = rest.trim_start_matches([' ', '_', '-', '(', '.']);
    let words: Vec<&str> = rest.split(|c: char| !c.is_alphabetic()).filter(|w| !w.is_empty()).collect();
    let known = ["sd", "std", "stdev", "sigma", "tau", "var", "variance", "v", "s", "omega", "scale"];
    words
        .iter()
        .any(|word| known.iter().any(|k| word == k) || word.starts_with("sigma") || word.starts_with("tau"))
}

/// The probability that a chi-squared variable exceeds x.
pub fn chi_squared_tail(x: f64, degrees: usize) -> f64 {
    if x.is_nan() {
        return f64::NAN;
    }
    if x <= 0.0 { 1.0 } else { upper_gamma(0.5 * degrees as f64, 0.5 * x) }
}

/// The regularised upper incomplete gamma function Q(a, x) for a > 0: by its series below the mode, and by a continued
/// fraction (Lentz's method) beyond, where each converges fast.
fn upper_gamma(a: f64, x: f64) -> f64 {
    const STEPS: usize = 100_000;
    if x <= 0.0 {
        return 1.0;
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    let front = libm::exp(a * libm::log(x) - x - ln_gamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..STEPS {
            term *= x / (a + n as f64);
            sum += term;
            if term < sum * f64::EPSILON {
                break;
            }
        }
        return (1.0 - front * sum).clamp(0.0, 1.0);
    }
    let tiny = f64::MIN_POSITIVE / f64::EPSILON;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut h = d;
    for n in 1..STEPS {
        let n = n as f64;
        let an = -n * (n - a);
        b += 2.0;
        let away = |v: f64| if v.abs() < tiny { tiny } else { v };
        d = 1.0 / away(an * d + b);
        c = away(b + an / c);
        h *= d * c;
        if (d * c - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    (front * h).clamp(0.0, 1.0)
}

/// The logarithm of the gamma function for positive arguments (Lanczos's approximation, g = 7).
fn ln_gamma(a: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let a = a - 1.0;
    let sum = (1..TERMS.len()).fold(TERMS[0], |sum, i| sum + TERMS[i] / (a + i as f64));
    let t = a + 7.5;
    0.5 * libm::log(2.0 * std::f64::consts::PI) + (a + 0.5) * libm::log(t) - t + libm::log(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gamma_function_at_known_places() {
        let half = std::f64::consts::PI.sqrt().ln();
        for (a, want) in [(0.5, half), (1.0, 0.0), (2.0, 0.0), (5.0, 24f64.ln()), (1.5, half - 2f64.ln())] {
            assert!((ln_gamma(a) - want).abs() < 1e-13, "{a}: {}", ln_gamma(a));
        }
        // ln 100! by Stirling's series.
        let n = 101f64;
        let series = (n - 0.5) * n.ln() - n + 0.5 * (2.0 * std::f64::consts::PI).ln() + 1.0 / (12.0 * n)
            - 1.0 / (360.0 * n.powi(3));
        assert!((ln_gamma(101.0) - series).abs() < 1e-10);
    }

    #[test]
    fn tails_of_chi_squared_are_those_of_tables() {
        for (x, degrees, p) in [
            (3.841_458_820_694_124, 1, 0.05),
            (6.634_896_601_021_214, 1, 0.01),
            (10.827_566_170_662_733, 1, 0.001),
            (5.991_464_547_107_979, 2, 0.05),
            (18.307_038_053_275_146, 10, 0.05),
            (3.940_299_136_190_618, 10, 0.95),
            (124.342_113_404_004_22, 100, 0.05),
        ] {
            let found = chi_squared_tail(x, degrees);
            assert!((found / p - 1.0).abs() < 1e-10, "{x} {degrees}: {found}");
        }
    }

    #[test]
    fn even_degrees_have_closed_forms() {
        // Q(m, y) = exp(-y) sum_{i < m} y^i / i!, far into the tail too.
        for m in [1usize, 2, 5, 30] {
            for x in [0.01, 0.7, 3.0, 11.0, 58.0, 62.0, 400.0] {
                let y = 0.5 * x;
                let mut term = f64::exp(-y);
                let mut want = 0.0;
                for i in 0..m {
                    want += term;
                    term *= y / (i + 1) as f64;
                }
                let found = chi_squared_tail(x, 2 * m);
                assert!(
                    (found - want).abs() <= 1e-11 * want.max(1e-3 * f64::from(u8::from(x < 1.0))),
                    "{m} {x}: {found} {want}"
                );
            }
        }
        assert_eq!(chi_squared_tail(-1.0, 3), 1.0);
        assert_eq!(chi_squared_tail(f64::INFINITY, 3), 0.0);
        assert!(chi_squared_tail(f64::NAN, 3).is_nan());
        assert!(chi_squared_tail(1e6, 1) < 1e-300);
    }

    #[test]
    fn names_that_suggest_a_variance() {
        for name in
            ["log tau", "log_sigma", "log V", "log_sd[2]", "logsigma_b", "log(variance)", "ln_tau2", "log s"]
        {
            assert!(is_log_sd(name), "{name}");
        }
        for name in ["theta", "logit", "sigma", "beta", "log_odds", "slope", "login"] {
            assert!(!is_log_sd(name), "{name}");
        }
    }

    #[test]
    fn p_values_read_well() {
        assert_eq!(
            [0.04999, 3.21e-5, 1e-40, 1.0].map(p_text),
            ["0.0500", "0.000032", "below 1e−16", "1.0000"]
        );
    }
}
