//! The items of the paper: which runs each needs, and what is shown of them.

mod generator;
mod logistic;
mod network;
mod toy;

use serde::{Deserialize, Serialize};

use super::figure::Figure;
use super::replicates::{Job, Outcomes};
use super::table::Table;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Replicates of the logistic regression; the paper has 100.
    pub logistic: u32,
    /// Long runs for the stationary variance; the paper has none.
    pub long: u32,
    /// Replicates of the neural network; the paper has 10.
    pub network: u32,
    pub generators: Generators,
}

/// How large the generator's trainings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generators {
    pub replicates: u32,
    /// M.
    pub images: usize,
    /// N, of PGD.
    pub particles: usize,
    pub batch: usize,
    /// K.
    pub steps: u64,
    /// Test images to inpaint.
    pub inpainted: usize,
}

impl Plan {
    pub const FULL: Plan = Plan {
        logistic: 100,
        long: 10,
        network: 10,
        generators: Generators {
            replicates: 3,
            images: 10_000,
            particles: 10,
            batch: 128,
            steps: 39_500,
            inpainted: 1000,
        },
    };
    /// Some minutes, and half an hour for the generators.
    pub const QUICK: Plan = Plan {
        logistic: 20,
        long: 4,
        network: 3,
        generators: Generators {
            replicates: 1,
            images: 1000,
            particles: 2,
            batch: 64,
            steps: 800,
            inpainted: 32,
        },
    };

    /// So many replicates of everything; long runs are for precision, not for comparison, and stay few.
    pub fn replicates(self, r: u32) -> Plan {
        let generators = Generators { replicates: r, ..self.generators };
        Plan { logistic: r, long: self.long.min(r), network: r, generators }
    }
}

/// What an item shows.
pub struct Shown {
    pub title: &'static str,
    /// The setting in a sentence or two.
    pub setting: String,
    /// What must stand on every table and figure if it is not the paper's own setting.
    pub fewer: String,
    pub figure: Option<Figure>,
    pub picture: Option<Picture>,
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
}

/// A grid of grey images of 32 x 32 pixels with values in [-1, 1].
pub struct Picture {
    pub images: Vec<f32>,
    pub columns: usize,
    pub description: String,
}

/// One figure or table of the paper.
pub struct Item {
    pub name: &'static str,
    /// Whether it is left out unless it is named.
    pub named: bool,
    pub jobs: fn(Plan) -> Vec<Job>,
    pub show: fn(Plan, &Outcomes) -> Shown,
}

/// All items, in the order in which they are done: what takes longest comes last.
pub const ITEMS: [Item; 9] = [
    Item { name: "fig1", named: false, jobs: toy::fig1_jobs, show: toy::fig1 },
    Item { name: "fig2", named: false, jobs: toy::fig2_jobs, show: toy::fig2 },
    Item { name: "radii", named: false, jobs: |_| Vec::new(), show: toy::radii },
    Item { name: "fig3", named: false, jobs: logistic::fig3_jobs, show: logistic::fig3 },
    Item { name: "table1", named: false, jobs: logistic::replicate_jobs, show: logistic::table1 },
    Item { name: "table3", named: false, jobs: logistic::table3_jobs, show: logistic::table3 },
    Item { name: "fig4", named: false, jobs: network::fig4_jobs, show: network::fig4 },
    Item { name: "table2", named: false, jobs: network::table2_jobs, show: network::table2 },
    Item { name: "table4", named: true, jobs: generator::table4_jobs, show: generator::table4 },
];

/// Says that there are fewer replicates than in the paper, if there are.
fn fewer(replicates: u32, paper: u32) -> String {
    if replicates == paper {
        return String::new();
    }
    let compared = if replicates < paper { "fewer" } else { "more" };
    format!("{replicates} replicates, {compared} than the paper's {paper}.")
}
