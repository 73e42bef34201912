//! The generator's training against the loss that the paper's authors published with their notebook.

use motes::algorithms::PGD;
use motes::settings::{InitParticles, Preconditioner};
use motes::{Flow, Settings, StepInfo};
use motes_models::options::Table;
use motes_models::registry::{self, Given};

/// PGD on the first 10,000 digits with the defaults, which are the notebook's: the mean loss of epochs 0 to 2.
const PUBLISHED: [f64; 3] = [1_797_246.0, 1_305_444.0, 1_071_283.0];

/// `cargo test --release -p motes-models --test all generator_published -- --ignored --nocapture`; MOTES_EPOCHS=1 for the first alone.
#[test]
#[ignore = "eight minutes on two cores"]
fn the_first_epochs_follow_the_published_loss() {
    let epochs = std::env::var("MOTES_EPOCHS").map_or(PUBLISHED.len(), |n| n.parse().unwrap());
    let problem = registry::find("generator").unwrap().load(Table::new(), Given::Options).unwrap();
    let defaults = problem.defaults();
    let batch = defaults.batch.unwrap();
    let per_epoch = 10_000usize.div_ceil(batch);
    let settings = Settings {
        algorithm: &PGD,
        particles: defaults.particles,
        steps: (epochs * per_epoch) as u64,
        burn_in: 0,
        step_size: defaults.step_size,
        theta_rate: Some(1e-3),
        preconditioner: Preconditioner::Rmsprop,
        init_particles: InitParticles::Prior,
        batch: Some(batch),
        ..Settings::default()
    };
    let model = problem.single(&settings).unwrap();
    let mut losses = Vec::new();
    let mut watch = |info: &StepInfo<'_, f32>| {
        losses.extend(info.scalars.first());
        Flow::Continue
    };
    let mut state = motes::start(&*model, &settings).unwrap();
    motes::run(&*model, &settings, &mut state, None, &mut [&mut watch]).unwrap();
    for (epoch, (losses, published)) in losses.chunks(per_epoch).zip(PUBLISHED).enumerate() {
        let loss = losses.iter().sum::<f64>() / losses.len() as f64;
        println!("epoch {epoch}: {loss:.0}, published {published:.0}, ratio {:.3}", loss / published);
        assert!((loss / published - 1.0).abs() < 0.1, "epoch {epoch}: {loss}");
    }
}
