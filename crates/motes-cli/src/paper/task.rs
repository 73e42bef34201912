//! One run of the paper: its data, its settings, and what is kept of it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use motes::algorithms::MEAN_FIELD;
use motes::noise::{Noise, Purpose};
use motes::settings::Settings;
use motes::{Ended, Flow, Observer, Real, StepInfo};
use motes_app::Error;
use motes_app::carry::{self, Start, Watch};
use motes_app::choices::Choices;
use motes_app::config::Config;
use motes_app::job::{self, Job, Length, Precise};
use motes_models::data::{self, Classification, Moments, mnist, wisconsin};
use motes_models::options::Table;
use motes_models::registry::{Given, Precision};
use serde::{Deserialize, Serialize};

use super::training::Trained;
use crate::progress::Interrupt;

/// A run, described completely.
#[derive(Clone, Debug, Serialize)]
pub struct Task {
    pub data: Data,
    pub settings: Settings,
    pub keep: Keep,
}

/// What the run is fitted to.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Data {
    /// Ex. 1 with data drawn at theta = 1.
    Toy { dim: usize },
    /// Sec. 3.1: the breast cancer data, split as scikit-learn does with this random state.
    Logistic { split: u32 },
    /// Sec. 3.2: a thousand 4s and 9s, split with this random state.
    Network { split: u32 },
}

impl Data {
    /// The digest of what is embedded; generated data belong to the version.
    fn sha256(self) -> &'static str {
        static DIGESTS: OnceLock<[String; 2]> = OnceLock::new();
        let [cancer, digits] = DIGESTS.get_or_init(|| {
            let digits = data::sha256(mnist::IMAGES) + &data::sha256(mnist::LABELS);
            [data::sha256(wisconsin::BYTES), digits]
        });
        match self {
            Data::Toy { .. } => "generated",
            Data::Logistic { .. } => cancer,
            Data::Network { .. } => digits,
        }
    }
}

/// What is kept besides the averages and the time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Keep {
    /// theta, every so many steps; 0 for never.
    pub trace_every: u64,
    /// The variance of q-bar's first coordinate as a function of the step.
    pub variance: bool,
    /// This coordinate of the final cloud.
    pub coordinate: Option<usize>,
    /// Test error and LPPD.
    pub metrics: bool,
    /// The test error of the authors' formula (erratum 9), for logistic regression.
    pub authors: bool,
}

/// What a run leaves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The loop without test metrics.
    pub seconds: f64,
    /// theta-bar and the variance of theta_k over the steps after burn-in.
    pub theta_mean: Vec<f64>,
    pub theta_variance: Vec<f64>,
    pub test_error: Option<f64>,
    pub lppd: Option<f64>,
    /// The test error with the harmonic mean of the sigmoids.
    pub authors_error: Option<f64>,
    /// k, then theta_k.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<Vec<f64>>,
    /// k and the LPPD of that cloud alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lppds: Vec<(u64, f64)>,
    /// k and the variance of q-bar_k.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variances: Vec<(u64, f64)>,
    /// One coordinate of the final cloud, or of the clouds kept; of a variational Gaussian, its mean and variance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub coordinate: Vec<f64>,
    /// The step at which the run diverged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverged: Option<u64>,
    /// What a generator can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<Trained>,
}

impl Task {
    /// Everything that determines the outcome, as text.
    pub fn identity(&self) -> String {
        let task = serde_json::to_string(self).expect("a task is plain data");
        format!("{task} {}", self.data.sha256())
    }

    /// Roughly how long it takes on one core, in seconds.
    pub fn seconds(&self) -> f64 {
        let per_particle = match self.data {
            Data::Toy { dim } => 2e-9 * dim as f64 + 1e-8,
            Data::Logistic { .. } => 1e-6,
            Data::Network { .. } => 6e-4,
        };
        self.settings.steps as f64 * (1e-6 + per_particle * self.settings.particles as f64)
    }

    /// Carries it out in the pool of the calling thread; `None` if it was interrupted.
    pub fn carry_out(&self, interrupt: &Interrupt) -> Result<Option<Outcome>, String> {
        let (model, option, value) = match self.data {
            Data::Toy { dim } => ("hierarchical", "dim", dim.into()),
            Data::Logistic { split } => ("logistic", "split-seed", split.into()),
            Data::Network { split } => ("bnn", "split-seed", split.into()),
        };
        let mut options = Table::from_iter([(option.to_string(), value)]);
        if let Data::Toy { .. } = self.data {
            options.insert("groups".into(), 1.into()); // one latent vector, as in the paper
        }
        let entry = job::entry_of(model)?;
        let problem = entry.load(options, Given::Options).map_err(|e| e.to_string())?;
        let authors = match self.data {
            Data::Logistic { split } if self.keep.authors => Some(Authors::new(&cancer_test(split)?)),
            _ => None,
        };
        let job = Job {
            // Nothing is recorded but what the watcher keeps.
            config: Config {
                model: model.into(),
                run: Choices {
                    algorithm: Some(self.settings.algorithm),
                    no_assess: Some(true),
                    trace_every: Some(u64::MAX),
                    ..Choices::default()
                },
                ..Config::default()
            },
            settings: self.settings.clone(),
            precision: problem.defaults().precision,
            length: Length::Steps,
            auto: false,
            problem,
        };
        let outcome = match job.precision {
            Precision::F32 => self.run::<f32>(job, authors, interrupt),
            Precision::F64 => self.run::<f64>(job, authors, interrupt),
        };
        Ok(outcome?)
    }

    fn run<F: Precise>(
        &self,
        job: Job,
        authors: Option<Authors>,
        interrupt: &Interrupt,
    ) -> Result<Option<Outcome>, Error> {
        let model = F::model(&*job.problem, &self.settings)?;
        let model = &*model;
        let settings = &self.settings;
        let mut watcher = Watcher {
            keep: self.keep,
            burn_in: settings.burn_in,
            clouds: settings.averages_clouds(),
            interrupt,
            authors,
            moments: [0.0; 3],
            own_time: Duration::ZERO,
            outcome: Outcome::default(),
        };
        let ran = carry::carry_out(job, model, Start::Memory, None, &mut watcher, interrupt.stop());
        let Watcher { mut outcome, authors, own_time, .. } = watcher;
        let carry::Outcome { state, summary, seconds, ended, .. } = match ran {
            Ok(ran) => ran,
            Err(Error::Run(motes::Error::Diverged { step, .. })) => {
                outcome.diverged = Some(step); // what led there is kept
                return Ok(Some(outcome));
            }
            Err(other) => return Err(other),
        };
        if ended == Ended::Early {
            return Ok(None);
        }
        outcome.seconds = (seconds - own_time.as_secs_f64()).max(0.0);
        outcome.theta_mean = state.averages.theta_mean().unwrap_or_default();
        outcome.theta_variance = (0..model.d_theta()).map(|i| state.batches.variance(i)).collect();
        if self.keep.metrics {
            let named = |name: &str| summary.metrics.as_ref().and_then(|m| m.get(name));
            (outcome.test_error, outcome.lppd) = (named("test_error"), named("lppd"));
        }
        let gaussian = (settings.algorithm == &MEAN_FIELD).then(|| {
            let (mean, variance) = motes::summary::posterior_moments(model, &state).expect("a Gaussian");
            (mean, variance)
        });
        if let Some(i) = self.keep.coordinate {
            outcome.coordinate = match &gaussian {
                Some((mean, variance)) => vec![mean[i], variance[i]],
                None if state.kept.rows() > 0 => {
                    state.kept.by_particle().skip(i).step_by(state.cloud.width()).map(Real::f64).collect()
                }
                None => {
                    state.cloud.by_particle().skip(i).step_by(state.cloud.width()).map(Real::f64).collect()
                }
            };
        }
        outcome.authors_error = authors.map(|mut authors| {
            if let Some((mean, variance)) = gaussian {
                authors.add_draws(settings.seed, &mean, &variance);
            }
            authors.error()
        });
        Ok(Some(outcome))
    }
}

/// The rows that the breast cancer data are tested on, standardised over all rows.
fn cancer_test(split: u32) -> Result<Classification, Error> {
    let table = data::read_table(wisconsin::BYTES, wisconsin::NAME)?;
    let drop: Vec<String> = wisconsin::DROP.iter().map(|s| s.to_string()).collect();
    let mut all = data::classification(&table, None, &drop)?;
    Moments::of(&all.features, &all.feature_names)?.apply(&mut all.features);
    let split = data::train_test_split(all.rows(), 0.2, split)?;
    Ok(all.select(&split.test))
}

/// Collects what is to be kept.
struct Watcher<'a> {
    keep: Keep,
    burn_in: u64,
    clouds: bool,
    interrupt: &'a Interrupt,
    authors: Option<Authors>,
    /// Count, sum and sum of squares of the first coordinate.
    moments: [f64; 3],
    /// Time that is not the algorithm's.
    own_time: Duration,
    outcome: Outcome,
}

impl<F: Real> Observer<F> for Watcher<'_> {
    fn observe(&mut self, info: &StepInfo<'_, F>) -> Flow {
        if self.keep.trace_every > 0 && info.k.is_multiple_of(self.keep.trace_every) {
            let row = std::iter::once(info.k as f64).chain(info.theta.iter().copied());
            self.outcome.trace.push(row.collect());
        }
        if let Some(lppd) = info.metrics.and_then(|m| m.get("lppd")) {
            self.outcome.lppds.push((info.k, lppd));
        }
        if self.keep.variance && info.k > 0 {
            let [count, sum, squares] = &mut self.moments;
            for x in info.cloud.as_slice().chunks_exact(info.cloud.d()).map(|x| x[0].f64()) {
                *count += 1.0;
                *sum += x;
                *squares += x * x;
            }
            if on_log_grid(info.k) {
                let mean = *sum / *count;
                self.outcome.variances.push((info.k, *squares / *count - mean * mean));
            }
        }
        if let Some(authors) = self.authors.as_mut().filter(|_| self.clouds && info.k > self.burn_in) {
            let began = Instant::now();
            authors.add(info.cloud.as_slice());
            self.own_time += began.elapsed();
        }
        self.interrupt.flow()
    }
}

impl<F: Real> Watch<F> for Watcher<'_> {
    fn stopped(&self) -> bool {
        self.interrupt.is_set()
    }
}

/// Some 40 steps to each power of ten, and every thousandth.
fn on_log_grid(k: u64) -> bool {
    let place = |k: u64| (libm::log10(k as f64) * 40.0).floor();
    k < 20 || place(k) != place(k - 1) || k.is_multiple_of(1000)
}

/// The authors' `predict` (erratum 9): class 1 where 1 / mean(1 + e^(-f.x)) exceeds one half.
struct Authors {
    labels: Vec<u8>,
    /// Column after column.
    features: Vec<f64>,
    /// Sums over particles of e^(-f.x), a row each.
    sums: Vec<f64>,
    scratch: Vec<f64>,
    particles: f64,
}

impl Authors {
    fn new(test: &Classification) -> Self {
        let (m, d) = (test.rows(), test.feature_names.len());
        let features = (0..m * d).map(|i| test.features[i % m * d + i / m]).collect();
        let labels = test.labels.clone();
        Authors { labels, features, sums: vec![0.0; m], scratch: vec![0.0; m], particles: 0.0 }
    }

    fn add<F: Real>(&mut self, x: &[F]) {
        let m = self.labels.len();
        for x in x.chunks_exact(self.features.len() / m) {
            self.scratch.fill(0.0);
            for (x, column) in x.iter().zip(self.features.chunks_exact(m)) {
                let minus = -x.f64();
                self.scratch.iter_mut().zip(column).for_each(|(z, f)| *z += minus * f);
            }
            motes::vmath::exp_f64(&mut self.scratch);
            self.sums.iter_mut().zip(&self.scratch).for_each(|(s, e)| *s += e);
            self.particles += 1.0;
        }
    }

    /// As many draws from a product Gaussian as the authors take.
    fn add_draws(&mut self, seed: u64, mean: &[f64], variance: &[f64]) {
        let noise = Noise::new(seed, Purpose::Check);
        let mut x = vec![0.0; mean.len() * 100];
        for step in 0..201 {
            noise.normals_f64(step, 0, &mut x);
            for x in x.chunks_exact_mut(mean.len()) {
                x.iter_mut().zip(mean.iter().zip(variance)).for_each(|(x, (m, v))| *x = m + v.sqrt() * *x);
            }
            self.add(&x);
        }
    }

    fn error(&self) -> f64 {
        let wrong = |(sum, label): &(&f64, &u8)| (**sum < self.particles) != (**label == 1);
        self.sums.iter().zip(&self.labels).filter(wrong).count() as f64 / self.labels.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authors_formula_is_the_harmonic_mean() {
        let test = Classification {
            features: vec![1.0, -2.0, 0.5],
            feature_names: vec!["f".into()],
            labels: vec![1, 1, 0],
            target: "l".into(),
            classes: vec!["a".into(), "b".into()],
            weights: None,
            rows_dropped: 0,
        };
        // Sigmoids of f.x for x = -3 and 2: the arithmetic means are 0.46, 0.51 and 0.46, the harmonic ones 0.09, 0.04 and 0.30.
        let mut authors = Authors::new(&test);
        authors.add(&[-3.0, 2.0]);
        for (i, f) in [1.0f64, -2.0, 0.5].into_iter().enumerate() {
            let harmonic = 2.0 / ((1.0 + (3.0 * f).exp()) + (1.0 + (-2.0 * f).exp()));
            let ours = 1.0 / (1.0 + authors.sums[i] / authors.particles);
            assert!((ours - harmonic).abs() < 1e-14, "{ours} {harmonic}");
        }
        assert_eq!(authors.error(), 2.0 / 3.0);
    }

    #[test]
    fn the_grid_is_even_in_the_logarithm() {
        let grid: Vec<u64> = (1..=20_000).filter(|k| on_log_grid(*k)).collect();
        assert!(grid.len() < 200 && grid.contains(&1) && grid.contains(&20_000), "{}", grid.len());
        assert!(grid.windows(2).all(|w| w[1] as f64 <= w[0] as f64 * 1.07 + 1.0));
    }
}
