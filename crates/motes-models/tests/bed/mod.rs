//! The test bed of fits without tuning: models whose maximum-likelihood estimate, standard errors and likelihood are known.
//!
//! Every truth is computed without the model's code, from the marginal likelihood in closed form or by quadrature; what takes
//! more than two seconds is stored, next to the command that prints it.

mod factor;
mod gaussian;
pub mod glmm;
mod heavy;
pub mod irt;
mod lmm;
mod mixed;
pub mod numeric;
pub mod pima;
pub mod rows;
pub mod verify;
pub mod volatility;
pub mod weak;

use motes::Model;

use rows::{Of, Rows};

/// What is known of a model's likelihood p_theta(y).
#[derive(Clone, Debug)]
pub struct Truth {
    /// Its maximiser. Where the likelihood only approaches its supremum as a parameter grows, that one is infinite.
    pub theta: Vec<f64>,
    /// The roots of the diagonal of the inverse observed information; infinite for what the data do not determine.
    pub se: Vec<f64>,
    /// ln p_theta(y) there, with all constants.
    pub log_likelihood: Option<f64>,
}

/// How a fit must end.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// As `ok`, and right.
    Right,
    /// With one of these verdicts.
    Says(&'static [&'static str]),
}

/// A model with its truth.
pub struct Case {
    pub name: &'static str,
    pub model: Box<dyn Model<f64>>,
    pub truth: Option<Truth>,
    pub expect: Expect,
    pub slow: bool,
}

/// A case that is not slow.
fn case(model: impl Rows + 'static, truth: Option<Truth>, expect: Expect) -> Case {
    Case { name: model.name(), model: Box::new(Of(model)), truth, expect, slow: false }
}

/// The numbers of a table with a head.
fn table(text: &str) -> Vec<Vec<f64>> {
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().parse().expect("a number")).collect();
    text.lines().skip(1).map(cells).collect()
}

/// All of them.
pub fn cases() -> Vec<Case> {
    [
        gaussian::cases(),
        glmm::cases(),
        lmm::cases(),
        irt::cases(),
        mixed::cases(),
        heavy::cases(),
        factor::cases(),
        volatility::cases(),
        pima::cases(),
        weak::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
