//! The settings of a run: plain data, validated once, before any computing.

mod words;

pub use words::{
    Growth, InitParticles, InitTheta, JointUpdate, Preconditioner, StepDecay, WarmStart, unknown,
};

use serde::{Deserialize, Serialize};

use crate::algorithms::{Algorithm, PGD};
use crate::moves::Move;
use crate::printable::Number;
use crate::rules::Rule;
use crate::{Error, Model, Real, model::require};

/// More parameters than this are not fitted by auto.
pub const MOST_PARAMETERS: usize = 200;
/// The steps of a run that something else ends: a time, or its algorithm.
pub const UNBOUNDED: u64 = 1 << 52;
/// With fewer particles, auto cannot tell how they differ.
const LEAST_PARTICLES: usize = 8;

/// Everything that determines a run, apart from the model and the precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which algorithm.
    pub algorithm: &'static Algorithm,
    /// The number of particles N (of chain states, for SOUL).
    pub particles: usize,
    /// The number of steps K.
    pub steps: u64,
    /// Steps left out of the averages, k_b of eq. 13.
    pub burn_in: u64,
    /// The step size h.
    pub step_size: f64,
    /// The Monte Carlo error of theta to reach, in units of its standard error (auto).
    pub tolerance: f64,
    /// The most evaluations of value and gradients to spend, for each particle (auto).
    pub max_evaluations: u64,
    /// How the step size decays.
    pub step_decay: Option<StepDecay>,
    /// The step size of theta where it follows its gradient; h if `None`. It decays as h does.
    pub theta_rate: Option<f64>,
    /// When the number of particles grows.
    pub grow: Growth,
    /// What multiplies the theta-gradient (pgd, soul, joint-mh).
    pub preconditioner: Preconditioner,
    /// Whether each particle's move is accepted or rejected (MALA).
    pub adjust: bool,
    /// Unadjusted steps before any accept-reject begins.
    pub adjust_after: u64,
    /// The theta-update that joint-mh proposes with.
    pub joint_update: JointUpdate,
    /// Whether mean-field moves its Gaussian by Adam rather than by plain gradient steps.
    pub variational_adam: bool,
    /// A single-particle run that comes first.
    pub warm_start: Option<WarmStart>,
    /// Where theta starts.
    pub init_theta: InitTheta,
    /// Where particles start.
    pub init_particles: InitParticles,
    /// The seed of all randomness.
    pub seed: u64,
    /// How many moves a particle makes in a step (abp, short-run).
    pub transitions: u32,
    /// How fast velocities are forgotten (kiplmc).
    pub friction: f64,
    /// The learning rate of an inference network (vae).
    pub encoder_rate: f64,
    /// Groups per mini-batch, or data terms where there is one group; `None` for all of them.
    pub batch: Option<usize>,
    /// Predictive metrics of the cloud are traced every so many steps; 0 for never.
    pub metrics_every: u64,
    /// Clouds are kept at post-burn-in steps divisible by this times a power of two; 0 keeps none.
    pub keep_clouds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            algorithm: &PGD,
            particles: 100,
            steps: 1000,
            burn_in: 500,
            step_size: 0.01,
            tolerance: 0.05,
            max_evaluations: 15_000,
            step_decay: None,
            theta_rate: None,
            grow: Growth::default(),
            preconditioner: Preconditioner::None,
            adjust: false,
            adjust_after: 0,
            joint_update: JointUpdate::Pgd,
            variational_adam: false,
            warm_start: None,
            init_theta: InitTheta::Model,
            init_particles: InitParticles::Value(0.0),
            seed: 0,
            transitions: 10,
            friction: 1.0,
            encoder_rate: 1e-3,
            batch: None,
            metrics_every: 0,
            keep_clouds: 1,
        }
    }
}

impl Settings {
    /// A fit by auto with nothing chosen, of a model that has a prior to draw from or not.
    pub fn auto(has_prior: bool, seed: u64) -> Settings {
        Settings {
            algorithm: &crate::algorithms::AUTO,
            particles: 32,
            steps: UNBOUNDED,
            burn_in: 0,
            adjust_after: 0,
            init_particles: InitParticles::unless_told(has_prior),
            seed,
            ..Settings::default()
        }
    }

    /// h_k, the step size of the step from k to k + 1.
    pub fn step_size_at(&self, k: u64) -> f64 {
        self.decayed(self.step_size, k)
    }

    /// The step sizes of particles and theta for the step from k to k + 1.
    pub(crate) fn step_sizes_at(&self, k: u64) -> crate::step::StepSizes {
        let h = self.step_size_at(k);
        crate::step::StepSizes { h, rate: self.theta_rate.map_or(h, |rate| self.decayed(rate, k)) }
    }

    fn decayed(&self, size: f64, k: u64) -> f64 {
        match self.step_decay {
            None => size,
            Some(d) => size * libm::pow(1.0 + k as f64 / d.scale, -d.power),
        }
    }

    /// The largest number of particles the run will have.
    pub fn max_particles(&self) -> usize {
        self.grow.0.last().map_or(self.particles, |(_, n)| *n)
    }

    /// Whether theta moves by the plain gradient at the rate h, so that the curvature in theta limits the step size.
    fn plain_gradient(&self) -> bool {
        let plain = matches!(
            self.composition().rule,
            Rule::Gradient { preconditioner: Preconditioner::None, .. } | Rule::Kinetic { .. }
        );
        plain && self.theta_rate.is_none()
    }

    /// Refuses, with a remedy, what cannot be run with this model.
    pub fn validate<F: Real>(&self, model: &dyn Model<F>) -> Result<(), Error> {
        self.check_numbers().map_err(Error::Settings)?;
        self.check_growth().map_err(Error::Settings)?;
        self.check_taken().map_err(Error::Settings)?;
        self.check_accept_reject().map_err(Error::Settings)?;
        self.composition().refuse_nonsense()?;
        self.check_needs(model)
    }

    fn check_numbers(&self) -> Result<(), String> {
        if self.particles == 0 {
            return Err("`particles=0` leaves no cloud; ask for at least 1".into());
        }
        if self.steps == 0 {
            return Err("`steps=0` would do nothing; ask for at least 1".into());
        }
        if self.burn_in >= self.steps {
            return Err(format!(
                "`burn-in={}` leaves nothing of {} steps to average; choose a smaller burn-in or more steps",
                self.burn_in, self.steps
            ));
        }
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !(positive(self.tolerance) && self.tolerance <= 1.0) {
            return Err(format!(
                "`tolerance={}` is not a share of the standard error; use a number up to 1, such as 0.05",
                Number(self.tolerance)
            ));
        }
        if self.max_evaluations == 0 {
            return Err("`max-evaluations=0` would do nothing; ask for some thousands".into());
        }
        if !positive(self.step_size) {
            return Err(format!(
                "`step-size={}` is not a positive number; leave it out or write auto to have one chosen",
                Number(self.step_size)
            ));
        }
        if let Some(rate) = self.theta_rate.filter(|rate| !positive(*rate)) {
            return Err(format!(
                "`theta-rate={}` is not a positive number; leave it out to use the step size",
                Number(rate)
            ));
        }
        if let Some(bad) = self.init_theta.values().iter().find(|v| !v.is_finite()) {
            return Err(format!("`init-theta={bad}` is not finite; choose a number"));
        }
        if let InitParticles::Value(v) = self.init_particles
            && !v.is_finite()
        {
            return Err(format!("`init-particles={v}` is not finite; choose a number or prior"));
        }
        if let Some(decay) = self.step_decay.filter(|d| !d.is_sound()) {
            return Err(format!(
                "`step-decay={decay}` is not p,k0 with 0 <= p <= 10 and k0 > 0; write for example 0.6,100"
            ));
        }
        if self.warm_start.is_some_and(|w| w.steps == 0) {
            return Err("a warm start of 0 steps does nothing; leave it out or ask for at least 1".into());
        }
        if self.transitions == 0 {
            return Err("`transitions=0` leaves the particles where they are; use 1 or more".into());
        }
        if !positive(self.friction) {
            return Err(format!("`friction={}` is not a positive number; use for example 1", self.friction));
        }
        if !positive(self.encoder_rate) {
            return Err(format!(
                "`encoder-rate={}` is not a positive number; use for example 0.001",
                self.encoder_rate
            ));
        }
        if self.batch == Some(0) {
            return Err("`batch=0` leaves no data; use 1 or more, or leave it out".into());
        }
        Ok(())
    }

    fn check_growth(&self) -> Result<(), String> {
        if !self.grow.is_sound() {
            return Err(format!("`grow={}` does not rise; let steps and particle numbers rise", self.grow));
        }
        match self.grow.0.first() {
            Some((_, n)) if *n < self.particles => Err(format!(
                "`grow={}` starts below `particles={}`; let the numbers rise from there",
                self.grow, self.particles
            )),
            Some((0, _)) => Err(format!(
                "`grow={}` changes the number at step 0; set that number with `particles`",
                self.grow
            )),
            _ => Ok(()),
        }
    }

    /// Refuses settings that mean nothing to the algorithm.
    fn check_taken(&self) -> Result<(), String> {
        let (name, composition) = (self.algorithm, self.composition());
        if self.adjust && !self.takes("adjust") {
            return Err(match composition.has_cloud() {
                false => format!("{name} has no particles to accept or reject; leave `adjust` out"),
                true => {
                    let with = names_of(|a| a.takes("adjust", self));
                    format!(
                        "`adjust` works with {with}, not with {name}; leave it out or change the algorithm"
                    )
                }
            });
        }
        if self.preconditioner != Preconditioner::None && !self.takes("preconditioner") {
            let with =
                names_of(|a| a.takes("preconditioner", self) && a.takes("grow", self) && !a.accepts(self));
            return Err(match composition.has_cloud() {
                false => format!("{name} takes no gradient steps; leave `preconditioner` out"),
                true => format!(
                    "`preconditioner={}` needs a gradient step in theta without noise, which {name} does not take; leave it out or use {}",
                    self.preconditioner,
                    with.replace(" and ", " or ")
                ),
            });
        }
        if self.theta_rate.is_some() && !self.takes("theta-rate") {
            return Err(format!(
                "theta takes no gradient steps of its own in {name}; leave `theta-rate` out"
            ));
        }
        let grows = !self.grow.0.is_empty() || self.warm_start.is_some();
        if grows && !self.takes("grow") {
            return Err(match composition.has_cloud() {
                false => format!("{name} has no particles; leave `grow` and `warm-start` out"),
                true => {
                    format!("{name} draws new particles in each step; leave `grow` and `warm-start` out")
                }
            });
        }
        if self.init_particles == InitParticles::Prior && composition.movement == Move::Variational {
            return Err(format!(
                "{name} starts from a Gaussian around one value; give a number to `init-particles`"
            ));
        }
        if self.init_theta != InitTheta::Model && !self.takes("init-theta") {
            return Err(format!(
                "{name} computes theta from the particles; leave `init-theta` out and use `init-particles`"
            ));
        }
        if let Some(warm) = self.warm_start.and_then(|w| w.algorithm)
            && !can_warm_start(warm, self)
        {
            let with = names_of(|a| can_warm_start(a, self));
            return Err(format!("a warm start cannot run {warm}; choose {}", with.replace(" and ", " or ")));
        }
        Ok(())
    }

    fn check_accept_reject(&self) -> Result<(), String> {
        let composition = self.composition();
        if composition.accepts() && self.adjust_after >= self.steps {
            return Err(format!(
                "`adjust-after={}` leaves none of {} steps to accept or reject; choose a smaller number",
                self.adjust_after, self.steps
            ));
        }
        // A proposal that depends on the past has no reverse.
        let remembers = !matches!(self.preconditioner, Preconditioner::None | Preconditioner::Diagonal);
        if remembers && composition.movement == Move::WholeCloud && composition.follows_gradient() {
            return Err(format!(
                "{}'s proposal must not depend on the past, so `preconditioner={}` is refused; use none or diagonal",
                self.algorithm, self.preconditioner
            ));
        }
        Ok(())
    }

    fn check_needs<F: Real>(&self, model: &dyn Model<F>) -> Result<(), Error> {
        let (name, gives) = (model.name(), model.gives());
        let warm = self.warm_start.and_then(|w| w.algorithm);
        for algorithm in std::iter::once(self.algorithm).chain(warm) {
            match (algorithm.compose)(self).rule {
                Rule::Newton => {
                    let remedy = "use `algorithm=pgd`, or pmgd, which can maximise numerically";
                    require(gives.hessian.then_some(()), name, algorithm, "the theta-Hessian", remedy)?;
                }
                Rule::ExactEm => {
                    let remedy = "use `algorithm=pgd`, pqn, pmgd or soul";
                    require(model.exact_em(), name, algorithm, "exact E- and M-steps", remedy)?;
                }
                Rule::Louis => self.check_auto(model)?,
                Rule::Gradient { .. } | Rule::Kinetic { .. } | Rule::MStep => {}
            }
        }
        match self.composition().movement {
            Move::Transitions { fresh: true, .. } => {
                let remedy = "use `algorithm=abp`, whose particles go on from where they were";
                require(model.prior(), name, self.algorithm, "a prior sampler", remedy)?;
            }
            Move::Fresh => {
                let remedy = "use `algorithm=pgd`, which needs none";
                require(model.encoder(), name, self.algorithm, "an inference network", remedy)?;
            }
            _ => {}
        }
        if self.accepts() {
            let remedy = "leave the accept-reject step out: pgd, pqn, pmgd and soul run without `adjust`";
            let given = gives.log_density.then_some(());
            require(given, name, "an accept-reject step", "the log density", remedy)?;
        }
        if self.preconditioner == Preconditioner::Diagonal {
            let remedy = "use `preconditioner=rmsprop` or adam";
            let piece = "the numbers of terms of its theta-gradient";
            require(model.theta_terms(), name, "`preconditioner=diagonal`", piece, remedy)?;
        }
        if let Some(batch) = self.batch {
            let (of, what) = match model.groups() {
                1 => (model.data_terms(), "data terms"),
                groups => (Some(groups), "groups"),
            };
            let of = require(of, name, "`batch`", "mini-batches", "leave it out")?;
            if batch > of {
                return Err(Error::Settings(format!(
                    "`batch={batch}` is more than the {of} {what} there are; use a smaller one or leave it out"
                )));
            }
            self.check_batched(model.groups()).map_err(Error::Settings)?;
        }
        if self.metrics_every > 0 {
            let remedy = "give it one, or leave it out";
            require(model.predictive(), name, "`metrics-every`", "a test set", remedy)?;
        }
        if self.init_particles == InitParticles::Prior {
            let remedy = "give a number to `init-particles`";
            require(model.prior(), name, "`init-particles=prior`", "a prior sampler", remedy)?;
        }
        if let InitTheta::Vector(values) = &self.init_theta
            && values.len() != model.d_theta()
        {
            return Err(Error::Settings(format!(
                "`init-theta` has {} numbers and the model {} has {} parameters; give a number for each",
                values.len(),
                crate::sentence::foreign(name),
                model.d_theta()
            )));
        }
        Ok(())
    }

    /// Refuses a model that auto cannot fit.
    pub(crate) fn check_auto<F: Real>(&self, model: &dyn Model<F>) -> Result<(), Error> {
        let (name, gives) = (model.name(), model.gives());
        let remedy = "use `algorithm=pgd`";
        require(gives.log_density.then_some(()), name, self.algorithm, "the log density", remedy)?;
        let scores = gives.scores.then_some(());
        require(scores, name, self.algorithm, "theta-gradients row by row (scores)", remedy)?;
        let d = model.d_theta();
        let sentence = if d > MOST_PARAMETERS {
            format!(
                "{} fits at most {MOST_PARAMETERS} parameters and the model {name} has {d}; {remedy}",
                self.algorithm
            )
        } else if model.predicts_from_final_cloud() {
            format!(
                "{} samples posteriors exactly, and those of networks such as the model {name} are too large for that; {remedy}",
                self.algorithm
            )
        } else if model.buffers() > 0 || model.whole_batch() {
            format!(
                "{} needs rows that do not depend on each other, unlike those of the model {name}; {remedy}",
                self.algorithm
            )
        } else if self.particles < LEAST_PARTICLES {
            format!(
                "`particles={}` are too few for {}, which judges errors by the differences between particles; use at least {LEAST_PARTICLES}",
                self.particles, self.algorithm
            )
        } else {
            return Ok(());
        };
        Err(Error::Settings(sentence))
    }

    /// Refuses what needs all data at once.
    fn check_batched(&self, groups: usize) -> Result<(), String> {
        let composition = self.composition();
        // A group accepts or rejects by itself; a part of the data terms says nothing of a ratio of densities.
        let accepts = match groups {
            1 => composition.accepts(),
            _ => composition.movement == Move::WholeCloud,
        };
        let computes = groups > 1 && composition.theta_is_computed();
        let kinetic = groups > 1 && matches!(composition.movement, Move::Kinetic { .. });
        if accepts || computes || kinetic || !composition.has_cloud() {
            return Err(format!(
                "{} needs all data in each step, so it refuses `batch`; leave one of them out",
                if self.adjust { "`adjust`".into() } else { self.algorithm.to_string() }
            ));
        }
        Ok(())
    }

    /// The step size that `auto` stands for: at most the model's default, half of 1 over the largest curvature in x,
    /// and, where theta takes plain gradient steps, 1 over the largest curvature in theta.
    pub fn auto_step_size<F: Real>(&self, model: &dyn Model<F>) -> f64 {
        let mut h = model.default_step_size();
        if let Some(c) = model.curvature().filter(|c| *c > 0.0) {
            h = h.min(0.5 / c);
        }
        // The Hessian of more parameters than are listed would be larger than all else.
        if self.plain_gradient() && model.gives().hessian && model.d_theta() <= crate::LISTED {
            let groups: Vec<u32> = (0..model.groups() as u32).collect();
            let x = vec![F::of(0.0); groups.len() * model.d_x()];
            let (theta, buffers) = self.init_theta.of_model(model, self.seed);
            let mut matrix = vec![0.0; theta.len() * theta.len()];
            let mut scratch = vec![F::of(0.0); model.scratch_len(groups.len())];
            let at = crate::At {
                buffers: &buffers,
                groups: &groups,
                parallel: true,
                ..crate::At::new(&theta, &x)
            };
            let want = crate::Want { hessian: Some(&mut matrix), ..crate::Want::nothing(&mut scratch) };
            if model.evaluate(at, want).is_ok() {
                let largest = crate::rules::row_sum_norm(&matrix, theta.len());
                if largest > 0.0 && largest.is_finite() {
                    h = h.min(1.0 / largest);
                }
            }
        }
        // A velocity drifts by h where a Langevin step makes sqrt(h).
        if let Move::Kinetic { .. } = self.composition().movement { h.sqrt() } else { h }
    }
}

/// The names of the algorithms that are wanted, as a list to read.
fn names_of(wanted: impl Fn(&'static Algorithm) -> bool) -> String {
    let names: Vec<&str> =
        crate::algorithms::ALGORITHMS.iter().filter(|a| wanted(a)).map(|a| a.name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Whether one particle can be moved by the algorithm before a run begins.
fn can_warm_start(algorithm: &'static Algorithm, settings: &Settings) -> bool {
    let composition = (algorithm.compose)(&Settings { adjust: false, ..settings.clone() });
    composition.keeps_particles() && !composition.accepts()
}
