//! The generator network: Tab. 4's inpainting of MNIST.

use motes::Algorithm;
use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::settings::{InitParticles, Preconditioner};
use motes_app::choices::{Choices, StepSize};
use motes_app::config::Config;
use motes_app::generator::tasks::{HOLE, hole};
use motes_models::data::{ImageSet, value_of};
use motes_models::generator::{BatchNorm, NAME, Options};
use motes_models::registry::Precision;

use super::{Generators, Picture, Plan, Shown};
use crate::paper::replicates::{Job, Outcomes};
use crate::paper::table::{Place, Table};
use crate::paper::task::Outcome;
use crate::paper::training::{SHOWN, Trained, Training};
use crate::paper::verdict::{Printed, Stats};
use motes_app::numbers::{grouped, thousands};

/// A row of the table.
struct Row {
    name: &'static str,
    /// In the names of files.
    slug: &'static str,
    algorithm: &'static Algorithm,
    batchnorm: BatchNorm,
    /// The paper's mean squared error, in hundredths.
    paper: Option<Printed>,
    /// Why ours may differ at the paper's own scale.
    why: &'static str,
}

const NO_REASON: &str = "no reason known";

static ROWS: [Row; 5] = [
    row("PGD", "pgd", &PGD, Some(("4.1", "0.3")), NO_REASON),
    Row { batchnorm: BatchNorm::OnePass, ..row("PGD, one pass", "pgd-one-pass", &PGD, None, "") },
    row("ABP", "abp", &ABP, Some(("5.2", "0.1")), NO_REASON),
    row("SR", "short-run", &SHORT_RUN, Some(("7.4", "0.3")), NO_REASON),
    row("VAE", "vae", &VAE, Some(("10", "0.7")), "the authors' code maximises another bound (5)"),
];

const fn row(
    name: &'static str,
    slug: &'static str,
    algorithm: &'static Algorithm,
    paper: Option<(&'static str, &'static str)>,
    why: &'static str,
) -> Row {
    let paper = match paper {
        Some((mean, sd)) => Some(Printed::new(mean, sd, 3)),
        None => None,
    };
    Row { name, slug, algorithm, batchnorm: BatchNorm::TwoPass, paper, why }
}

impl Generators {
    /// Whether a result can be compared with the paper's.
    fn is_the_papers_scale(&self) -> bool {
        let size = |g: &Generators| (g.images, g.particles, g.batch, g.steps);
        size(self) == size(&Plan::FULL.generators)
    }

    /// What is not as in the paper, in a sentence; nothing if all is.
    fn differences(&self) -> String {
        let paper = Plan::FULL.generators;
        let count = |n: u64| thousands(&n.to_string());
        let number = |what: &str, ours: u64, paper: u64| {
            (ours != paper)
                .then(|| format!("{what} ({} in the paper)", count(paper)).replace('#', &count(ours)))
        };
        let all = [
            number("M = # training images", self.images as u64, paper.images as u64),
            number("N = # particles", self.particles as u64, paper.particles as u64),
            number("batches of #", self.batch as u64, paper.batch as u64),
            number("K = # steps", self.steps, paper.steps),
            number("images inpainted: #", self.inpainted as u64, paper.inpainted as u64),
            number("replicates: #", self.replicates.into(), paper.replicates.into()),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        let scale =
            if self.is_the_papers_scale() { "Not as in the paper" } else { "Another scale than the paper's" };
        if all.is_empty() { String::new() } else { format!("{scale}: {}.", all.join(", ")) }
    }

    fn job(&self, row: &Row, replicate: u32) -> Job {
        let pgd = row.algorithm == &PGD;
        let mut run = Choices {
            algorithm: Some(row.algorithm),
            particles: Some(if pgd { self.particles } else { 1 }),
            steps: Some(self.steps),
            burn_in: Some(self.steps / 2),
            step_size: Some(StepSize::Value(1e-4)),
            preconditioner: Some(Preconditioner::Rmsprop),
            batch: Some(self.batch),
            transitions: Some(10),
            encoder_rate: Some(1e-3),
            theta_rate: Some(1e-3),
            init_particles: Some(InitParticles::Prior),
            seed: Some(replicate.into()),
            precision: Some(Precision::F32),
            trace_every: Some(1),
            keep_clouds: Some(0),
            no_assess: Some(true),
            ..Choices::default()
        };
        run.leave_to(row.algorithm);
        let options = Options {
            images: Some(self.images),
            channels: Some(1),
            sigma: Some(0.01),
            batchnorm: Some(row.batchnorm),
            pictures_every: Some(0),
            ..Options::default()
        };
        let config = Config { model: NAME.into(), run, options: options.table(), ..Config::default() };
        let name = format!("generator-{}-{}-{}-{replicate}", row.slug, self.images, self.steps);
        Job::training(name, Training { config, inpainted: self.inpainted })
    }

    /// What a row's replicates left.
    fn outcomes<'a>(&self, row: &Row, outcomes: &'a Outcomes) -> Vec<(&'a Outcome, &'a Trained)> {
        let one = |r| {
            let outcome = &outcomes[&self.job(row, r).name][0];
            (outcome, outcome.trained.as_ref().expect("a training was stored"))
        };
        (0..self.replicates).map(one).collect()
    }
}

pub fn table4_jobs(plan: Plan) -> Vec<Job> {
    let g = plan.generators;
    (0..g.replicates).flat_map(|r| ROWS.iter().map(move |row| g.job(row, r))).collect()
}

pub fn table4(plan: Plan, outcomes: &Outcomes) -> Shown {
    let g = plan.generators;
    let columns = [
        "Algorithm",
        "N, n",
        "Paper, MSE × 100",
        "Ours, MSE × 100",
        "Standard error over images",
        "Ours, hole alone × 100",
        "Training loss",
        "Seconds a step",
    ];
    let mut table = Table::new("table4", "Tab. 4: inpainting of MNIST, mean ± sd over replicates", &columns);
    for row in &ROWS {
        let done = g.outcomes(row, outcomes);
        let of = |value: &dyn Fn(&Outcome, &Trained) -> f64| Stats::of(done.iter().map(|(o, t)| value(o, t)));
        let (particles, number) = match row.algorithm {
            a if a == &PGD => (g.particles, format!("N = {}", g.particles)),
            a if a == &VAE => (1, "–".into()),
            _ => (1, "n = 10".into()),
        };
        let at = |quantity| Place { algorithm: row.name, particles, quantity, convention: "MNIST".into() };
        let mse = of(&|_, t| 100.0 * t.mse);
        let mse = match g.is_the_papers_scale() {
            true => table.cell(at("inpainting MSE x 100"), mse, row.paper, Some(row.why), 2),
            false => table.cell_at_another_scale(at("inpainting MSE x 100"), mse, row.paper, 2),
        };
        let scatter = of(&|_, t| 100.0 * t.mse_error).map(|s| format!("{:.2}", s.mean));
        let hole = table.cell(at("MSE in the hole x 100"), of(&|_, t| 100.0 * t.mse_hole), None, None, 1);
        table.cell(at("training loss"), of(&|_, t| t.loss), None, None, 0);
        let loss = of(&|_, t| t.loss).map_or("–".into(), |s| grouped(s.mean));
        let time = table.cell(at("time, s"), of(&|o, _| o.seconds / g.steps as f64), None, None, 3);
        let paper = row.paper.map_or("–".into(), |p| p.shown());
        let scatter = scatter.unwrap_or("–".into());
        table.rows.push(vec![
            row.name.into(),
            number.into(),
            paper.into(),
            mse,
            scatter.into(),
            hole,
            loss.into(),
            time,
        ]);
    }
    let mean = |row: &Row, value: &dyn Fn(&Outcome, &Trained) -> f64| {
        let done = g.outcomes(row, outcomes);
        done.iter().map(|(o, t)| value(o, t)).sum::<f64>() / done.len() as f64
    };
    let one_pass = |value: &dyn Fn(&Outcome, &Trained) -> f64| (mean(&ROWS[1], value), mean(&ROWS[0], value));
    let (time, mse, loss) =
        (one_pass(&|o, _| o.seconds), one_pass(&|_, t| 100.0 * t.mse), one_pass(&|_, t| t.loss));
    let compared = match g.is_the_papers_scale() {
        true => "",
        false => {
            "Nothing here confirms or contradicts the paper's numbers: trained for so few steps on so few images, the algorithms are at another point of their way. "
        }
    };
    let mut notes = vec![
        format!("{compared}MSE is over all 1,024 pixels of f(x), the seen ones too, with values in [−1, 1]; the hole has 144 of them. The latents are searched for as in the paper: Adam from 4 starts, and for each image the one that fits the seen pixels best."),
        format!(
            "(7) PGD takes theta's gradient with the statistics of the batch and the particles' with the running ones, in two passes as the authors. One pass with the batch's for both took {:.2} of the time here and ended at an MSE × 100 of {:.2} instead of {:.2}, and a training loss of {} instead of {}.",
            time.0 / time.1,
            mse.0,
            mse.1,
            grouped(loss.0),
            grouped(loss.1)
        ),
        "(5) The VAE maximises the evidence lower bound; the authors' loss has the sign of the KL divergence wrong and counts the prior twice, so their row shows something else. Its training loss is the negative bound; the others' is −log p(x, y) of an image without its constants, the mean over the last epoch.".into(),
        "(6) h = 1e-4 and a learning rate of 1e-3 for theta, as in the authors' notebook; the paper says h = 1e-3 with the same rate.".into(),
        "The paper's other columns are not here: CelebA is not built in (`motes fit generator --data img_align_celeba` trains on it), and FID needs the weights of the Inception network.".into(),
    ];
    if g.particles != 10 {
        notes.push(format!(
            "ABP and SR keep the paper's 10 transitions, so their steps cost more than those of PGD with {} particles; in the paper both numbers are 10, and the costs are about equal.",
            g.particles
        ));
    }
    notes.push("Times are of training on one core of the machine named below, by the clock; other work makes them longer.".into());
    Shown {
        title: "Tab. 4: generator network, inpainting",
        setting: format!(
            "Printed as Tab. 3, in Sec. 3.3. The first {} training images of MNIST, {} in a batch, K = {} steps, σ = 0.01, h = 1e-4; test images with a hole of 12 × 12 pixels, the first {} of them.",
            thousands(&g.images.to_string()),
            g.batch,
            thousands(&g.steps.to_string()),
            thousands(&g.inpainted.to_string())
        ),
        fewer: g.differences(),
        figure: None,
        picture: Some(picture(&g, outcomes)),
        tables: vec![table],
        notes,
    }
}

/// Test images, the same with their holes, and what each algorithm puts there.
fn picture(g: &Generators, outcomes: &Outcomes) -> Picture {
    let columns = SHOWN.min(g.inpainted);
    let test = ImageSet::mnist_test(1).expect("embedded data are sound");
    let original = test.values(0..columns);
    let hole = hole(HOLE).expect("the paper's hole is one");
    let masked = original.iter().enumerate().map(|(i, v)| if hole[i % hole.len()] { 0.0 } else { *v });
    let mut images: Vec<f32> = original.iter().copied().chain(masked).collect();
    for row in &ROWS {
        let (_, trained) = g.outcomes(row, outcomes)[0];
        images.extend(trained.images.iter().map(|byte| value_of(*byte)));
    }
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let description = format!(
        "From above: test images, the same with a hole, and inpainted by {}",
        names.join("; ").replace("PGD, one pass", "PGD in one pass")
    );
    Picture { images, columns, description }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_scale_is_said_and_the_papers_is_not() {
        assert_eq!(Plan::FULL.generators.differences(), "");
        let quick = Plan::QUICK.generators.differences();
        assert!(
            quick.starts_with(
                "Another scale than the paper's: M = 1,000 training images (10,000 in the paper), N = 2"
            ),
            "{quick}"
        );
        let fewer = Generators { replicates: 1, ..Plan::FULL.generators };
        assert_eq!(fewer.differences(), "Not as in the paper: replicates: 1 (3 in the paper).");
    }

    #[test]
    fn half_an_hour_is_enough_for_a_quick_table_and_a_day_is_not_for_a_full_one() {
        let seconds = |plan| table4_jobs(plan).iter().map(Job::seconds).sum::<f64>();
        let minutes = seconds(Plan::QUICK) / 60.0 / 2.0;
        assert!((15.0..25.0).contains(&minutes), "{minutes}");
        let days = seconds(Plan::FULL) / 86_400.0 / 2.0;
        assert!((3.0..10.0).contains(&days), "{days}");
    }
}
