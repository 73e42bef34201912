//! Named algorithms: each is a composition of a theta-rule, a particle move and their order.

mod em;
mod joint_mh;
mod marginal_mh;
mod mean_field;
mod pgd;
mod pmgd;
mod pqn;
mod soul;

pub use em::em;
pub use joint_mh::joint_mh;
pub use marginal_mh::marginal_mh;
pub use mean_field::mean_field;
pub use pgd::pgd;
pub use pmgd::pmgd;
pub use pqn::pqn;
pub use soul::soul;

use crate::Error;
use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::{Algorithm, Settings};

/// What an algorithm is made of.
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
        let moves = matches!(self.movement, Move::Ula | Move::Mala);
        self.order == Order::Together && (self.movement == Move::Chain || (moves && self.rule == Rule::MStep))
    }

    /// Refuses what cannot be: every other combination of rule, move and order works.
    pub(crate) fn refuse_nonsense(&self) -> Result<(), Error> {
        let refused = match (self.rule, self.movement, self.order) {
            (Rule::ExactEm, Move::Nothing, _) => return Ok(()),
            (Rule::ExactEm, ..) => {
                "exact EM has no particles to move; let nothing move, or choose another theta-rule"
            }
            (_, Move::Nothing, _) => "this theta-rule needs particles; choose a move, or exact EM",
            (Rule::MStep, Move::WholeCloud, Order::Together) => {
                "accepting the whole cloud with an M-step needs theta_* of the proposed cloud; let the particles go first"
            }
            (Rule::Gradient(_) | Rule::Newton, Move::WholeCloud, Order::ParticlesFirst) => {
                "accepting theta and the whole cloud together needs both from the old values; let them move together"
            }
            (_, Move::Variational, Order::ParticlesFirst) => {
                "a variational Gaussian and theta move by the same draws; let them move together"
            }
            _ => return Ok(()),
        };
        Err(Error::Settings(refused.into()))
    }

    /// The composition that the settings name.
    pub fn of(settings: &Settings) -> Self {
        let particle_move = if settings.adjust { Move::Mala } else { Move::Ula };
        match settings.algorithm {
            Algorithm::Pgd => pgd(settings.preconditioner, particle_move),
            Algorithm::Pqn => pqn(particle_move),
            Algorithm::Pmgd => pmgd(particle_move),
            Algorithm::Soul => soul(settings.preconditioner),
            Algorithm::Em => em(),
            Algorithm::MeanField => mean_field(settings.preconditioner),
            Algorithm::MarginalMh => marginal_mh(),
            Algorithm::JointMh => joint_mh(settings.joint_update, settings.preconditioner),
        }
    }

    /// The composition of a warm start: the named algorithm, or the run's own, without accept-reject steps.
    pub fn of_warm_start(settings: &Settings) -> Self {
        let mut own = Composition::of(&Settings {
            algorithm: settings.warm_start.and_then(|w| w.algorithm).unwrap_or(settings.algorithm),
            adjust: false,
            ..settings.clone()
        });
        if own.movement == Move::WholeCloud {
            own.movement = Move::Ula;
        }
        own
    }
}
