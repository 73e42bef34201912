//! What can be chosen for a run of any model: the table `[run]` of a config, and the flags that all models share.

use std::str::FromStr;

use motes::Algorithm;
use motes::record::Recording;
use motes::sentence::{foreign, foreign_path};
use motes::settings::{
    Growth, InitParticles, InitTheta, JointUpdate, Preconditioner, Settings, StepDecay, UNBOUNDED, WarmStart,
};
use motes_models::options::{self, Flag, Kind, Setting, one_of, with_guess};
use motes_models::registry::{Defaults, Entry, Precision, ThetaRate};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::replicates;

motes_models::options! {
    /// The choices for a run.
    pub struct Choices {
        "Algorithm" {
            /// {algorithms} [default: the model's own]
            algorithm: &'static Algorithm => "NAME";
            /// The number of particles N [default: the model's own]
            particles: usize => "N";
            /// The Monte Carlo error of theta to reach, in units of its standard error ({takers}) [default: 0.05]
            tolerance: f64 => "T" signed;
            /// The most evaluations of value and gradients to spend on each particle ({takers}) [default: 15000]
            max_evaluations: u64 => "E";
            /// The number of steps K [default: the model's own]
            steps: u64 => "K";
            /// Steps left out of the averages [default: K/2]
            burn_in: u64 => "B";
            /// The step size h, or auto: half the inverse of the largest curvature, but at most the model's default [default: auto]
            step_size: StepSize => "H" signed;
            /// Let the step size decay as H (1 + k/k0)^-p [default: it stays the same]
            step_decay: StepDecay => "p,k0";
            /// Use N particles from step k on; new ones are copies of old ones, chosen by the seed
            grow: Growth => "k:N,...";
            /// The preconditioner of the theta-gradient: none, diagonal, adagrad, rmsprop or adam [default: the model's own]
            preconditioner: Preconditioner => "NAME";
            /// Accept or reject the move of each particle in each group (MALA; {takers})
            adjust: bool => "BOOL";
            /// Unadjusted steps before any accept-reject begins [default: half the burn-in]
            adjust_after: u64 => "A";
            /// The theta-update of {takers}: pgd or pqn [default: pgd]
            joint_update: JointUpdate => "NAME";
            /// Make K steps with a single particle first, and start from where it ends
            warm_start: WarmStart => "[ALG:]1xK";
            /// Use mini-batches: move B groups in each step or, where there is one group, use B data terms
            batch: usize => "B";
            /// Moves of each particle in a step ({takers}) [default: 10]
            transitions: u32 => "n";
            /// How fast velocities are forgotten ({takers}) [default: 1]
            friction: f64 => "G" signed;
            /// The learning rate of an inference network ({takers}) [default: 0.001]
            encoder_rate: f64 => "R" signed;
            /// The step size of theta, where it follows its gradient [default: h]
            theta_rate: f64 => "R" signed;
            /// Move the Gaussian of {takers} by Adam [default: the model's own]
            variational_adam: bool => "BOOL";
            /// The initial value of all components of theta, or a file with one number per line [default: the model's own]
            init_theta: StartTheta => "X|FILE" signed;
            /// The initial value of all particles, or draws from the prior, or standard normals [default: the model's own]
            init_particles: InitParticles => "X|prior|normal" signed;
            /// The seed of all randomness [default: 0]
            seed: u64 => "S";
            /// The precision of particles, f32 or f64 [default: the model's own]
            precision: Precision => "P";
            /// Fit R times with different seeds, by auto from scattered starts, and pool the fits that agree [default: 1]
            replicates: u64 => "R";
        }
        "Judging" {
            /// Skip the adjusted pass at the estimate, which finds standard errors and biases [default: made if possible]
            no_assess: bool => "BOOL";
            /// The level of all intervals [default: 0.95]
            level: f64 => "P" signed;
        }
        "Recording" {
            /// Steps between rows of trace.csv [default: 1]
            trace_every: u64 => "n";
            /// Steps between rows of trace.csv that have test metrics of the cloud [default: none]
            metrics_every: u64 => "n";
            /// Keep clouds only from steps divisible by n; 0 keeps none [default: 1, thinned to 10,000 particles]
            keep_clouds: u64 => "n";
            /// Steps between checkpoints [default: every ten seconds or so]
            checkpoint_every: u64 => "n";
        }
    }
}

/// Particles of a fit by auto.
const AUTO_PARTICLES: usize = 32;

/// A step size as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "NumberOrWord", into = "NumberOrWord")]
pub enum StepSize {
    /// As chosen.
    Value(f64),
    /// From the model and its curvature.
    Auto,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrWord {
    Number(f64),
    Word(String),
}

impl FromStr for StepSize {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(h) => Ok(StepSize::Value(h)),
            Err(_) if text == "auto" => Ok(StepSize::Auto),
            Err(_) => {
                let problem =
                    format!("'{}' is neither a number nor auto; write for example 0.01", foreign(text));
                Err(with_guess(problem, text, &["auto"]))
            }
        }
    }
}

impl TryFrom<NumberOrWord> for StepSize {
    type Error = String;
    fn try_from(raw: NumberOrWord) -> Result<Self, String> {
        match raw {
            NumberOrWord::Number(h) => Ok(StepSize::Value(h)),
            NumberOrWord::Word(word) => word.parse(),
        }
    }
}

impl From<StepSize> for NumberOrWord {
    fn from(step: StepSize) -> Self {
        match step {
            // JSON does not know the others: they are refused with their names later.
            StepSize::Value(h) if !h.is_finite() => NumberOrWord::Word(h.to_string()),
            StepSize::Value(h) => NumberOrWord::Number(h),
            StepSize::Auto => NumberOrWord::Word("auto".into()),
        }
    }
}

motes_models::settings!(StepSize: Text);

impl Setting for StartTheta {
    const KIND: Kind = Kind::Text;

    fn parse(text: &str) -> Result<Value, String> {
        text.parse::<StartTheta>().map(|v| v.write())
    }

    /// Numbers alone: a config that named a file would depend on what is in it.
    fn read(value: &Value) -> Result<Self, String> {
        options::read(value, "a number or a list of numbers")
    }

    fn write(&self) -> Value {
        options::write(self)
    }
}

/// Where theta starts, as it is written: a number for all components, or a list of one for each, which flags name by a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "NumberOrMany", into = "NumberOrMany")]
pub struct StartTheta(pub InitTheta);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NumberOrMany {
    Number(f64),
    Many(Vec<f64>),
    // JSON does not know numbers that are not finite: they are refused with their names later.
    Word(NotFinite),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct NotFinite(f64);

impl TryFrom<String> for NotFinite {
    type Error = String;
    fn try_from(word: String) -> Result<Self, String> {
        word.parse()
            .map(NotFinite)
            .map_err(|_| format!("'{}' is neither a number nor a list of numbers", foreign(&word)))
    }
}

impl From<NotFinite> for String {
    fn from(value: NotFinite) -> String {
        value.0.to_string()
    }
}

impl From<NumberOrMany> for StartTheta {
    fn from(raw: NumberOrMany) -> Self {
        StartTheta(match raw {
            NumberOrMany::Number(value) | NumberOrMany::Word(NotFinite(value)) => InitTheta::Value(value),
            NumberOrMany::Many(values) => InitTheta::Vector(values),
        })
    }
}

impl From<StartTheta> for NumberOrMany {
    fn from(start: StartTheta) -> Self {
        match start.0 {
            InitTheta::Value(value) if !value.is_finite() => NumberOrMany::Word(NotFinite(value)),
            InitTheta::Value(value) => NumberOrMany::Number(value),
            InitTheta::Vector(values) => NumberOrMany::Many(values),
            InitTheta::Model => NumberOrMany::Many(Vec::new()),
        }
    }
}

impl FromStr for StartTheta {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(value) = text.parse() {
            return Ok(StartTheta(InitTheta::Value(value)));
        }
        let path = std::path::Path::new(text);
        let bytes =
            motes_models::data::read_file(path, "the numbers for theta").map_err(|e| e.to_string())?;
        let content = String::from_utf8_lossy(&bytes);
        let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let number = |(i, line): (usize, &str)| {
            line.trim().parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| {
                format!(
                    "{}, line {}: '{}' is not a finite number; write one number per line",
                    foreign_path(path),
                    i + 1,
                    foreign(line.trim())
                )
            })
        };
        let values = lines.map(number).collect::<Result<Vec<f64>, String>>()?;
        if values.is_empty() {
            return Err(format!("{} holds no numbers; write one number per line", foreign_path(path)));
        }
        Ok(StartTheta(InitTheta::Vector(values)))
    }
}

/// Whether a choice means anything to an algorithm; without a cloud there is none to keep.
fn takes(named: &Settings, key: &str) -> bool {
    named.takes(key) && (key != "keep-clouds" || named.has_cloud())
}

/// What help says where each model has a default of its own.
const OF_THE_MODEL: &str = "[default: the model's own]";

/// The flags of a run of one model. Their help has the model's own defaults, and the algorithms that it can be fitted by.
pub fn flags_of(entry: &dyn Entry) -> Vec<Flag> {
    let defaults = entry.defaults();
    let default = |name| match name {
        "algorithm" => Some(defaults.algorithm.to_string()),
        "particles" if defaults.algorithm.ends_itself() => {
            Some(format!("{AUTO_PARTICLES} by auto, else {}", defaults.particles))
        }
        "particles" => Some(defaults.particles.to_string()),
        "steps" if entry.flags().iter().any(|flag| flag.name == "epochs") => Some("as `epochs` says".into()),
        "steps" => Some(defaults.steps.to_string()),
        "preconditioner" => Some(defaults.preconditioner.to_string()),
        "variational-adam" => Some(defaults.variational_adam.to_string()),
        "precision" => Some(options::write(&defaults.precision).as_str()?.into()),
        _ => None,
    };
    let (all, those) = (one_of(motes::ALGORITHMS), one_of(entry.algorithms()));
    let own = |flag: &Flag| {
        let mut help = flag.help.replace(&all, &those);
        if let Some(default) = default(flag.name) {
            help = help.replace(OF_THE_MODEL, &format!("[default: {default}]"));
        }
        if let ("theta-rate", Some(ThetaRate::Value(rate))) = (flag.name, defaults.theta_rate) {
            help = help.replace("[default: h]", &format!("[default: {rate}]"));
        }
        if help == flag.help { *flag } else { Flag { help: help.leak(), ..*flag } } // once for each model
    };
    Choices::flags().iter().map(own).collect()
}

impl Choices {
    /// These choices, and the other's where there are none.
    pub fn or(&self, other: &Choices) -> Choices {
        let mut table = other.table();
        table.extend(self.table());
        Choices::of(&table).expect("choices that were made before")
    }

    /// Sets aside what was written out for another algorithm and need not suit the one that is chosen instead.
    pub fn make_way_for(&mut self, flags: &Choices) {
        if let Some(algorithm) = flags.algorithm.filter(|a| Some(*a) != self.algorithm) {
            (self.preconditioner, self.adjust, self.adjust_after) = (None, None, None);
            self.joint_update = None;
            self.leave_to(algorithm);
        }
    }

    /// Leaves out what an algorithm has no use for, so that one set of choices serves several.
    pub fn leave_to(&mut self, algorithm: &'static Algorithm) {
        let named = self.named(algorithm);
        let mut table = self.table();
        table.retain(|key, _| takes(&named, key));
        *self = Choices::of(&table).expect("choices that were made before");
    }

    /// As much of the settings as says what else an algorithm takes.
    fn named(&self, algorithm: &'static Algorithm) -> Settings {
        let joint_update = self.joint_update.unwrap_or(JointUpdate::Pgd);
        Settings { algorithm, joint_update, adjust: self.adjust.unwrap_or(false), ..Settings::default() }
    }

    /// Refuses choices that mean nothing to the algorithm.
    fn refuse_idle(&self, named: &Settings) -> Result<(), Error> {
        let algorithm = named.algorithm;
        for (key, value) in self.table() {
            // What is written out as not chosen.
            let not_chosen = value == false || value == "none";
            if takes(named, &key) || not_chosen {
                continue;
            }
            return Err(match key.as_str() {
                "steps" | "burn-in" if named.composition().ends_itself() => format!(
                    "{algorithm} finds its own length; leave `{key}` out or name `algorithm=pgd`"
                ),
                _ if named.composition().ends_itself() => format!(
                    "{algorithm} finds its own steps, so `{key}` has no meaning; leave it out or name `algorithm=pgd`"
                ),
                "tolerance" | "max-evaluations" => format!(
                    "`{key}` is for auto, and {algorithm} makes the steps it is asked for; leave it out or use `algorithm=auto`"
                ),
                _ if !named.has_cloud() => {
                    format!("{algorithm} is exact and has no particles, so `{key}` has no meaning; leave it out")
                }
                // Where there is more to say, the settings themselves say it.
                "adjust" | "preconditioner" | "grow" | "warm-start" | "theta-rate" | "init-theta" => continue,
                _ => format!("`{key}` means nothing to {algorithm} here; leave it out"),
            }
            .into());
        }
        Ok(())
    }

    /// The settings that the choices amount to; `h` resolves auto once the model is known.
    pub fn settings(&self, defaults: &Defaults) -> Result<Settings, Error> {
        let algorithm = self.algorithm.unwrap_or(defaults.algorithm);
        let named = self.named(algorithm);
        let takes = |setting: &str| named.takes(setting);
        self.refuse_idle(&named)?;
        replicates::check(self)?;
        // A whole cloud is accepted or rejected with a theta that no preconditioner has changed, unless one is asked for.
        let whole_cloud = Settings { adjust: false, ..named.clone() }.accepts();
        let batch = self.batch.or(defaults.batch.filter(|_| takes("batch")));
        let steps = self.steps.unwrap_or_else(|| match defaults.epochs {
            Some(epochs) => epochs.steps(batch),
            None => defaults.steps,
        });
        let step_size = match self.step_size {
            Some(StepSize::Value(h)) => h,
            _ => defaults.step_size,
        };
        let theta_rate = defaults.theta_rate.filter(|_| takes("theta-rate")).map(|rate| match rate {
            ThetaRate::Value(rate) => rate,
            ThetaRate::TimesStepSize(times) => times * step_size,
        });
        let ends_itself = named.composition().ends_itself();
        let alone = defaults.alone && (takes("transitions") || takes("encoder-rate"));
        let steps = if ends_itself { UNBOUNDED } else { steps };
        let burn_in = if ends_itself { 0 } else { self.burn_in.unwrap_or(steps / 2) };
        let settings = Settings {
            algorithm,
            particles: self.particles.unwrap_or(match ends_itself {
                true => AUTO_PARTICLES,
                false if alone => 1,
                false => defaults.particles,
            }),
            tolerance: self.tolerance.unwrap_or(named.tolerance),
            max_evaluations: self.max_evaluations.unwrap_or(named.max_evaluations),
            steps,
            burn_in,
            step_size,
            step_decay: self.step_decay,
            grow: self.grow.clone().unwrap_or_default(),
            preconditioner: self.preconditioner.unwrap_or(match takes("preconditioner") && !whole_cloud {
                true => defaults.preconditioner,
                false => Preconditioner::None,
            }),
            adjust: self.adjust.unwrap_or(false),
            adjust_after: self.adjust_after.unwrap_or(burn_in / 2),
            joint_update: named.joint_update,
            variational_adam: takes("variational-adam")
                && self.variational_adam.unwrap_or(defaults.variational_adam),
            warm_start: self.warm_start,
            theta_rate: self.theta_rate.or(theta_rate),
            init_theta: self.init_theta.clone().map_or(InitTheta::Model, |start| start.0),
            init_particles: self.init_particles.unwrap_or(match takes("grow") {
                _ if ends_itself => defaults.auto_start,
                true => defaults.init_particles,
                false => InitParticles::Value(0.0),
            }),
            seed: self.seed.unwrap_or(0),
            transitions: self.transitions.unwrap_or(10),
            friction: self.friction.unwrap_or(1.0),
            encoder_rate: self.encoder_rate.unwrap_or(1e-3),
            batch,
            metrics_every: self.metrics_every.unwrap_or(0),
            keep_clouds: self.keep_clouds.unwrap_or(1),
        };
        if let Some(level) = self.level.filter(|level| !(*level > 0.0 && *level < 1.0)) {
            return Err(format!("`level={level}` is not between 0 and 1; use for example 0.95").into());
        }
        for (flag, value) in [("trace-every", self.trace_every), ("checkpoint-every", self.checkpoint_every)]
        {
            if value == Some(0) {
                return Err(format!("`{flag}=0` is not a number of steps; use 1 or more").into());
            }
        }
        Ok(settings)
    }

    /// The choices with every default written out, so that a replay does not depend on them.
    pub fn resolved(&self, settings: &Settings, precision: Precision) -> Choices {
        let cloud = settings.has_cloud();
        let mut full = self.clone();
        full.algorithm = Some(settings.algorithm);
        if settings.takes("steps") {
            full.steps = Some(settings.steps);
            full.burn_in = Some(settings.burn_in);
        } else {
            full.tolerance = Some(settings.tolerance);
            full.max_evaluations = Some(settings.max_evaluations);
        }
        full.seed = Some(settings.seed);
        full.replicates = full.replicates.filter(|count| *count > 1);
        full.precision = Some(precision);
        full.trace_every.get_or_insert(1);
        if settings.takes("variational-adam") {
            full.variational_adam = Some(settings.variational_adam);
        }
        if cloud {
            full.particles = Some(settings.particles);
            if settings.takes("steps") {
                full.preconditioner = Some(settings.preconditioner);
                full.adjust = Some(settings.adjust);
            }
            full.keep_clouds = Some(settings.keep_clouds);
        }
        if settings.takes("step-size") {
            full.step_size = Some(StepSize::Value(settings.step_size));
        }
        if settings.takes("init-particles") {
            full.init_particles = Some(settings.init_particles);
        }
        if settings.takes("adjust-after") {
            full.adjust_after = Some(settings.adjust_after);
        }
        if settings.takes("transitions") {
            full.transitions = Some(settings.transitions);
        }
        if settings.takes("friction") {
            full.friction = Some(settings.friction);
        }
        if settings.takes("encoder-rate") {
            full.encoder_rate = Some(settings.encoder_rate);
        }
        full.batch = settings.batch;
        full.theta_rate = settings.theta_rate;
        if settings.takes("joint-update") {
            full.joint_update = Some(settings.joint_update);
        }
        full
    }

    /// How densely the run is recorded.
    pub fn recording(&self) -> Recording {
        Recording { trace_every: self.trace_every.unwrap_or(1), checkpoint_every: self.checkpoint_every }
    }
}
