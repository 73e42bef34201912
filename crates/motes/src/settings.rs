//! The settings of a run: plain data, validated once, before any computing.

mod words;

pub use words::{
    Algorithm, Growth, InitParticles, JointUpdate, Preconditioner, StepDecay, WarmStart, unknown,
};

use serde::{Deserialize, Serialize};

use crate::{Error, Model, Real, model::require};

/// Everything that determines a run, apart from the model and the precision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// The number of particles N (of chain states, for SOUL).
    pub particles: usize,
    /// The number of steps K.
    pub steps: u64,
    /// Steps left out of the averages, k_b of eq. estimators.
    pub burn_in: u64,
    /// The step size h.
    pub step_size: f64,
    /// How the step size decays.
    pub step_decay: Option<StepDecay>,
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
    /// The initial value of every theta component.
    pub init_theta: f64,
    /// Where particles start.
    pub init_particles: InitParticles,
    /// The seed of all randomness.
    pub seed: u64,
    /// Data terms per mini-batch; `None` for all of them.
    pub batch: Option<usize>,
    /// Predictive metrics of the cloud are traced every so many steps; 0 for never.
    pub metrics_every: u64,
    /// Clouds are kept at post-burn-in steps divisible by this times a power of two; 0 keeps none.
    pub keep_clouds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            algorithm: Algorithm::Pgd,
            particles: 100,
            steps: 1000,
            burn_in: 500,
            step_size: 0.01,
            step_decay: None,
            grow: Growth::default(),
            preconditioner: Preconditioner::None,
            adjust: false,
            adjust_after: 0,
            joint_update: JointUpdate::Pgd,
            variational_adam: false,
            warm_start: None,
            init_theta: 0.0,
            init_particles: InitParticles::Value(0.0),
            seed: 0,
            batch: None,
            metrics_every: 0,
            keep_clouds: 1,
        }
    }
}

impl Settings {
    /// h_k, the step size of the step from k to k + 1.
    pub fn step_size_at(&self, k: u64) -> f64 {
        match self.step_decay {
            None => self.step_size,
            Some(d) => self.step_size * (1.0 + k as f64 / d.scale).powf(-d.power),
        }
    }

    /// The largest number of particles the run will have.
    pub fn max_particles(&self) -> usize {
        self.grow.0.last().map_or(self.particles, |(_, n)| *n)
    }

    /// Whether there are particles: only EM has none.
    pub fn has_cloud(&self) -> bool {
        self.algorithm != Algorithm::Em
    }

    /// Whether clouds stand for the posterior: not for EM, which is exact, nor for mean-field, whose Gaussian does.
    pub fn averages_clouds(&self) -> bool {
        !matches!(self.algorithm, Algorithm::Em | Algorithm::MeanField)
    }

    /// Whether there is any accept-reject step.
    pub fn accepts(&self) -> bool {
        self.adjust || matches!(self.algorithm, Algorithm::MarginalMh | Algorithm::JointMh)
    }

    /// Whether theta follows from the particles, so that no initial value can be chosen.
    pub fn theta_is_computed(&self) -> bool {
        matches!(self.algorithm, Algorithm::Pmgd | Algorithm::MarginalMh)
    }

    /// Whether theta moves by the plain gradient, so that the curvature in theta limits the step size.
    pub(crate) fn plain_gradient(&self) -> bool {
        self.preconditioner == Preconditioner::None
            && match self.algorithm {
                Algorithm::Pgd | Algorithm::Soul | Algorithm::MeanField => true,
                Algorithm::JointMh => self.joint_update == JointUpdate::Pgd,
                _ => false,
            }
    }

    /// Refuses, with a remedy, what cannot be run with this model.
    pub fn validate<F: Real>(&self, model: &dyn Model<F>) -> Result<(), Error> {
        self.validate_numbers().map_err(Error::Settings)?;
        self.validate_needs(model)
    }

    fn validate_numbers(&self) -> Result<(), String> {
        use Algorithm as A;
        let algorithm = self.algorithm;
        if self.particles == 0 {
            return Err("--particles 0 leaves no cloud; ask for at least 1".into());
        }
        if self.steps == 0 {
            return Err("--steps 0 would do nothing; ask for at least 1".into());
        }
        if self.burn_in >= self.steps {
            return Err(format!(
                "--burn-in {} leaves nothing of {} steps to average; choose a smaller burn-in or more steps",
                self.burn_in, self.steps
            ));
        }
        if !(self.step_size > 0.0 && self.step_size.is_finite()) {
            return Err(format!(
                "--step-size {} is not a positive number; leave it out or write auto to have one chosen",
                self.step_size
            ));
        }
        if !self.init_theta.is_finite() {
            return Err(format!("--init-theta {} is not finite; choose a number", self.init_theta));
        }
        if let InitParticles::Value(v) = self.init_particles
            && !v.is_finite()
        {
            return Err(format!("--init-particles {v} is not finite; choose a number or prior"));
        }
        if let Some(decay) = self.step_decay.filter(|d| !d.is_sound()) {
            return Err(format!(
                "--step-decay {decay} is not p,k0 with 0 <= p <= 10 and k0 > 0; write for example 0.6,100"
            ));
        }
        if self.warm_start.is_some_and(|w| w.steps == 0) {
            return Err("a warm start of 0 steps does nothing; leave it out or ask for at least 1".into());
        }
        if !self.grow.is_sound() {
            return Err(format!("--grow {} does not rise; let steps and particle numbers rise", self.grow));
        }
        if let Some((k, n)) = self.grow.0.first() {
            if *n < self.particles {
                return Err(format!(
                    "--grow {} starts below --particles {}; let the numbers rise from there",
                    self.grow, self.particles
                ));
            }
            if *k == 0 {
                return Err(format!(
                    "--grow {} changes the number at step 0; set that number with --particles",
                    self.grow
                ));
            }
        }
        if algorithm == A::Em {
            if self.adjust {
                return Err("em has no particles to accept or reject; leave --adjust out".into());
            }
            if self.preconditioner != Preconditioner::None {
                return Err("em takes no gradient steps; leave --preconditioner out".into());
            }
            if !self.grow.0.is_empty() || self.warm_start.is_some() {
                return Err("em has no particles; leave --grow and --warm-start out".into());
            }
        }
        if algorithm == A::MeanField && (!self.grow.0.is_empty() || self.warm_start.is_some()) {
            return Err(
                "mean-field draws its particles anew each step; leave --grow and --warm-start out".into()
            );
        }
        if algorithm == A::MeanField && self.init_particles == InitParticles::Prior {
            return Err(
                "mean-field starts from a Gaussian around one value; give a number to --init-particles"
                    .into(),
            );
        }
        if self.batch == Some(0) {
            return Err("--batch 0 leaves no data; use 1 or more, or leave it out".into());
        }
        if self.batch.is_some() && (self.accepts() || algorithm == A::Em) {
            return Err(format!(
                "accept-reject steps and em need all data, so {} refuses --batch; leave one of them out",
                if self.adjust { "--adjust".into() } else { algorithm.to_string() }
            ));
        }
        if self.accepts() && self.adjust_after >= self.steps {
            return Err(format!(
                "--adjust-after {} leaves none of {} steps to accept or reject; choose a smaller number",
                self.adjust_after, self.steps
            ));
        }
        if self.adjust && !matches!(algorithm, A::Pgd | A::Pqn | A::Pmgd) {
            return Err(format!(
                "--adjust works with pgd, pqn and pmgd, not with {algorithm}; leave it out or change the algorithm"
            ));
        }
        let gradient_rule = match algorithm {
            A::Pgd | A::Soul | A::MeanField => true,
            A::JointMh => self.joint_update == JointUpdate::Pgd,
            _ => false,
        };
        if self.preconditioner != Preconditioner::None && !gradient_rule {
            return Err(format!(
                "--preconditioner {} needs a gradient step in theta, which {algorithm} does not take; leave it out or use pgd or soul",
                self.preconditioner
            ));
        }
        if algorithm == A::JointMh
            && !matches!(self.preconditioner, Preconditioner::None | Preconditioner::Diagonal)
        {
            return Err(format!(
                "joint-mh's proposal must not depend on the past, so --preconditioner {} is refused; use none or diagonal",
                self.preconditioner
            ));
        }
        if self.theta_is_computed() && self.init_theta != 0.0 {
            return Err(format!(
                "{algorithm} computes theta from the particles; leave --init-theta out and use --init-particles"
            ));
        }
        if let Some(warm) = self.warm_start
            && let Some(a @ (A::Em | A::MeanField | A::MarginalMh | A::JointMh)) = warm.algorithm
        {
            return Err(format!("a warm start cannot run {a}; choose pgd, pqn, pmgd or soul"));
        }
        Ok(())
    }

    fn validate_needs<F: Real>(&self, model: &dyn Model<F>) -> Result<(), Error> {
        use Algorithm as A;
        let name = model.name();
        let newton = |algorithm: Algorithm| {
            require(
                model.gives().hessian.then_some(()),
                name,
                algorithm,
                "the theta-Hessian",
                "use --algorithm pgd, or pmgd, which can maximise numerically",
            )
        };
        let warm = self.warm_start.and_then(|w| w.algorithm);
        if self.algorithm == A::Pqn || warm == Some(A::Pqn) {
            newton(A::Pqn)?;
        }
        if self.algorithm == A::JointMh && self.joint_update == JointUpdate::Pqn {
            newton(A::JointMh)?;
        }
        if self.algorithm == A::Em {
            let remedy = "use --algorithm pgd, pqn, pmgd or soul";
            require(model.exact_em(), name, A::Em, "exact E- and M-steps", remedy)?;
        }
        if self.accepts() {
            let remedy = "leave the accept-reject step out: pgd, pqn, pmgd and soul run without --adjust";
            let piece = "the log density";
            let given = model.gives().log_density.then_some(());
            require(given, name, "an accept-reject step", piece, remedy)?;
        }
        if self.preconditioner == Preconditioner::Diagonal {
            let remedy = "use --preconditioner rmsprop or adam";
            let piece = "the numbers of terms of its theta-gradient";
            require(model.theta_terms(), name, "--preconditioner diagonal", piece, remedy)?;
        }
        if let Some(batch) = self.batch {
            let terms = require(model.data_terms(), name, "--batch", "mini-batches", "leave it out")?;
            if batch > terms {
                return Err(Error::Settings(format!(
                    "--batch {batch} is more than the {terms} data terms there are; use a smaller one or leave it out"
                )));
            }
        }
        if self.metrics_every > 0 {
            let remedy = "give it one, or leave it out";
            require(model.predictive(), name, "--metrics-every", "a test set", remedy)?;
        }
        if self.init_particles == InitParticles::Prior {
            let remedy = "give a number to --init-particles";
            require(model.prior(), name, "--init-particles prior", "a prior sampler", remedy)?;
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
        if self.plain_gradient() && model.gives().hessian {
            let x = vec![F::of(0.0); model.d_x()];
            let theta = vec![self.init_theta; model.d_theta()];
            let mut matrix = vec![0.0; theta.len() * theta.len()];
            let mut scratch = vec![F::of(0.0); model.scratch_len(1)];
            let at = crate::At { theta: &theta, x: &x, batch: None, parallel: true };
            let want = crate::Want { hessian: Some(&mut matrix), ..crate::Want::nothing(&mut scratch) };
            if model.evaluate(at, want).is_ok() {
                let largest = crate::rules::row_sum_norm(&matrix, theta.len());
                if largest > 0.0 && largest.is_finite() {
                    h = h.min(1.0 / largest);
                }
            }
        }
        h
    }
}
