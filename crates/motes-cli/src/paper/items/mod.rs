//! The items of the paper: which runs each needs, and what is shown of them.

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
}

impl Plan {
    pub const FULL: Plan = Plan { logistic: 100, long: 10, network: 10 };
    pub const QUICK: Plan = Plan { logistic: 20, long: 4, network: 3 };

    /// So many replicates of everything; long runs are for precision, not for comparison, and stay few.
    pub fn replicates(self, r: u32) -> Plan {
        Plan { logistic: r, long: self.long.min(r), network: r }
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
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
}

/// One figure or table of the paper.
pub struct Item {
    pub name: &'static str,
    pub jobs: fn(Plan) -> Vec<Job>,
    pub show: fn(Plan, &Outcomes) -> Shown,
}

/// All items, in the order in which they are done: what takes longest comes last.
pub const ITEMS: [Item; 8] = [
    Item { name: "fig1", jobs: toy::fig1_jobs, show: toy::fig1 },
    Item { name: "fig2", jobs: toy::fig2_jobs, show: toy::fig2 },
    Item { name: "radii", jobs: |_| Vec::new(), show: toy::radii },
    Item { name: "fig3", jobs: logistic::fig3_jobs, show: logistic::fig3 },
    Item { name: "table1", jobs: logistic::replicate_jobs, show: logistic::table1 },
    Item { name: "table3", jobs: logistic::table3_jobs, show: logistic::table3 },
    Item { name: "fig4", jobs: network::fig4_jobs, show: network::fig4 },
    Item { name: "table2", jobs: network::table2_jobs, show: network::table2 },
];

/// Says that there are fewer replicates than in the paper, if there are.
fn fewer(replicates: u32, paper: u32) -> String {
    if replicates == paper {
        return String::new();
    }
    let compared = if replicates < paper { "fewer" } else { "more" };
    format!("{replicates} replicates, {compared} than the paper's {paper}.")
}
