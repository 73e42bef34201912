//! What an algorithm is made of, and what follows from it.

use crate::Error;
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Settings;
use crate::state::Per;

/// What an adaptive preconditioner remembers.
pub(crate) const PRECONDITIONER: &str = "preconditioner";
/// The velocities of the particles, and of theta.
pub(crate) const VELOCITY: &str = "velocity";
pub(crate) const THETA_VELOCITY: &str = "theta.velocity";
/// The means and the (unconstrained) variances s of a variational Gaussian, D_x of each.
pub(crate) const VARIATIONAL: &str = "variational";
/// What Adam remembers of both where it moves them.
pub(crate) const VARIATIONAL_ADAM: &str = "variational.adam";

/// A theta-rule, a particle move and their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Composition {
    /// How theta moves.
    pub rule: Rule,
    /// How particles move once accept-reject steps have begun (or always, where there are none).
    pub movement: Move,
    /// Which of the two sees the other's old value.
    pub order: Order,
}

/// The order of the two updates in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Both from (theta_k, X_k).
    Together,
    /// X_{k+1} from theta_k, then theta_{k+1} from X_{k+1}.
    ParticlesFirst,
}

/// Where on its way through the cloud a move collects what moves theta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collect {
    /// At the old particles, as it evaluates them anyway.
    Before,
    /// At the new particles.
    After,
    /// Nowhere: theta is made before the particles move, or without them.
    Never,
}

impl Composition {
    /// Whether there are particles.
    pub fn has_cloud(&self) -> bool {
        self.movement != Move::Nothing
    }

    /// Whether clouds stand for the posterior: those of a variational Gaussian do not, for the Gaussian itself does.
    pub fn averages_clouds(&self) -> bool {
        !matches!(self.movement, Move::Nothing | Move::Variational)
    }

    /// Whether particles go on from where they were, so that there may be more of them later, or a run to start them from.
    pub fn keeps_particles(&self) -> bool {
        self.averages_clouds() && !self.draws_afresh() && !self.ends_itself()
    }

    /// Whether particles are drawn anew in each step, without regard to where they were.
    pub fn draws_afresh(&self) -> bool {
        matches!(self.movement, Move::Fresh | Move::Transitions { fresh: true, .. })
    }

    /// Whether it decides itself when it ends, and what its clouds are worth: then it has neither a number of steps nor a burn-in.
    pub fn ends_itself(&self) -> bool {
        self.movement == Move::Hamiltonian
    }

    /// Whether there is any accept-reject step.
    pub fn accepts(&self) -> bool {
        matches!(self.movement, Move::Mala | Move::WholeCloud | Move::Hamiltonian)
    }

    /// Whether particles need room beside them: for where they may go, or for the noise of their velocities.
    pub(crate) fn proposes(&self) -> bool {
        matches!(self.movement, Move::Mala | Move::WholeCloud | Move::Kinetic { .. })
    }

    /// Whether theta follows from the particles, so that no initial value can be chosen.
    pub fn theta_is_computed(&self) -> bool {
        self.rule == Rule::MStep
    }

    /// Whether theta moves along its gradient.
    pub fn follows_gradient(&self) -> bool {
        matches!(self.rule, Rule::Gradient { .. })
    }

    /// What rule and move remember between steps: the arrays' names, what there is one of, and how many numbers for each.
    pub fn memory(&self, settings: &Settings) -> Vec<(&'static str, Per, usize)> {
        let mut list = Vec::new();
        if let Rule::Gradient { preconditioner, .. } = self.rule {
            // An inference network is moved by Adam, whatever moves the rest.
            let least = if self.movement == Move::Fresh { 2 } else { 0 };
            let width = crate::rules::memory_len(preconditioner, 1).max(least);
            list.push((PRECONDITIONER, Per::Theta, width));
        }
        if let Rule::Kinetic { .. } = self.rule {
            list.push((THETA_VELOCITY, Per::Theta, 1));
        }
        if let Move::Kinetic { .. } = self.movement {
            list.push((VELOCITY, Per::Row, 1));
        }
        if self.movement == Move::Variational {
            list.push((VARIATIONAL, Per::Coordinate, 2));
            list.push((VARIATIONAL_ADAM, Per::Coordinate, if settings.variational_adam { 4 } else { 0 }));
        }
        list.retain(|(.., width)| *width > 0);
        list
    }

    /// The same without accept-reject steps, as a warm start runs it.
    pub fn unadjusted(mut self) -> Self {
        if self.accepts() {
            self.movement = Move::Ula;
        }
        self
    }

    /// Where moves collect what moves theta.
    pub(crate) fn collect(&self) -> Collect {
        match (self.movement, self.order) {
            (Move::Nothing, _) => Collect::Never,
            _ if self.theta_first() => Collect::Never,
            (_, Order::Together) => Collect::Before,
            (_, Order::ParticlesFirst) => Collect::After,
        }
    }

    /// Whether theta must be made in a pass of its own before the particles move: a chain forgets the old cloud on its
    /// way, and an M-step may need all of it at once.
    pub(crate) fn theta_first(&self) -> bool {
        let moves = matches!(self.movement, Move::Ula | Move::Mala | Move::Kinetic { .. });
        let forgets = matches!(self.movement, Move::Chain | Move::Transitions { .. } | Move::Fresh);
        self.order == Order::Together && (forgets || (moves && self.rule == Rule::MStep))
    }

    /// Refuses what cannot be: every other combination of rule, move and order works.
    pub fn refuse_nonsense(&self) -> Result<(), Error> {
        let refused = match (self.rule, self.movement, self.order) {
            (Rule::ExactEm, Move::Nothing, _) => return Ok(()),
            (Rule::ExactEm, ..) => {
                "exact EM has no particles to move; let nothing move, or choose another theta-rule"
            }
            (Rule::Louis, Move::Hamiltonian, Order::ParticlesFirst) => return Ok(()),
            (Rule::Louis, ..) | (_, Move::Hamiltonian, _) => {
                "Newton steps by Louis's identity and Hamiltonian moves adapt to each other; use both, the particles first"
            }
            (_, Move::Nothing, _) => "this theta-rule needs particles; choose a move, or exact EM",
            (Rule::MStep, Move::WholeCloud, Order::Together) => {
                "accepting the whole cloud with an M-step needs theta_* of the proposed cloud; let the particles go first"
            }
            (Rule::Gradient { noise: true, .. }, Move::WholeCloud, _) => {
                "accepting theta and the whole cloud together allows no noise on theta; leave that noise out"
            }
            (Rule::Kinetic { .. }, Move::WholeCloud, _) => {
                "accepting theta and the whole cloud together needs a proposal that knows nothing of the past; leave velocities out"
            }
            (Rule::Gradient { .. } | Rule::Newton, Move::WholeCloud, Order::ParticlesFirst) => {
                "accepting theta and the whole cloud together needs both from the old values; let them move together"
            }
            (_, Move::Variational, Order::ParticlesFirst) => {
                "a variational Gaussian and theta move by the same draws; let them move together"
            }
            _ => return Ok(()),
        };
        Err(Error::Settings(refused.into()))
    }
}

impl Settings {
    /// What the named algorithm is made of.
    pub fn composition(&self) -> Composition {
        (self.algorithm.compose)(self)
    }

    /// Whether a setting, named as in files, means anything to the algorithm. That follows from what the algorithm is made of.
    pub fn takes(&self, setting: &str) -> bool {
        use crate::settings::{JointUpdate, Preconditioner};
        let now = self.composition();
        let differ = |a: Settings, b: Settings| a.composition() != b.composition();
        match setting {
            "particles" => now.has_cloud(),
            "batch" => now.has_cloud() && !now.ends_itself(),
            "steps" | "burn-in" => !now.ends_itself(),
            "tolerance" | "max-evaluations" => now.ends_itself(),
            "step-size" | "step-decay" => {
                now.has_cloud() && now.movement != Move::Fresh && !now.ends_itself()
            }
            "init-particles" => now.has_cloud() && !now.draws_afresh(),
            "grow" | "warm-start" => now.keeps_particles(),
            "transitions" => matches!(now.movement, Move::Transitions { .. }),
            "friction" => matches!(now.movement, Move::Kinetic { .. }),
            "encoder-rate" => now.movement == Move::Fresh,
            "adjust" => {
                differ(Settings { adjust: true, ..self.clone() }, Settings { adjust: false, ..self.clone() })
            }
            "adjust-after" => now.accepts() && !now.ends_itself(),
            "preconditioner" => {
                let with = |preconditioner| Settings { preconditioner, ..self.clone() };
                differ(with(Preconditioner::Diagonal), with(Preconditioner::None))
            }
            "joint-update" => {
                let with = |joint_update| Settings { joint_update, ..self.clone() };
                differ(with(JointUpdate::Pgd), with(JointUpdate::Pqn))
            }
            "theta-rate" => now.follows_gradient() && now.movement != Move::WholeCloud,
            "init-theta" => !now.theta_is_computed(),
            "variational-adam" => now.movement == Move::Variational,
            _ => true,
        }
    }

    /// Whether there are particles.
    pub fn has_cloud(&self) -> bool {
        self.composition().has_cloud()
    }

    /// Whether clouds stand for the posterior.
    pub fn averages_clouds(&self) -> bool {
        self.composition().averages_clouds()
    }

    /// Whether clouds are worth keeping: of a batch of groups that are drawn afresh, the cloud holds others from steps long
    /// past.
    pub(crate) fn clouds_can_be_kept(&self) -> bool {
        let stale = self.batch.is_some() && self.composition().draws_afresh();
        self.averages_clouds() && !stale
    }

    /// Whether there is any accept-reject step.
    pub fn accepts(&self) -> bool {
        self.composition().accepts()
    }

    /// Whether theta follows from the particles, so that no initial value can be chosen.
    pub fn theta_is_computed(&self) -> bool {
        self.composition().theta_is_computed()
    }
}
