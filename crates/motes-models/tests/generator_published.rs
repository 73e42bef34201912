//! The generator's training against the loss that the paper's authors published with their notebook.

use motes_models::data::ImageSet;
use motes_models::generator::{Network, Settings, Targets, Trainer};

/// PGD on the first 10,000 digits with the defaults, which are the notebook's: the mean loss of epochs 0 to 2.
const PUBLISHED: [f64; 3] = [1_797_246.0, 1_305_444.0, 1_071_283.0];

/// `cargo test --release -p motes-models --test generator_published -- --ignored --nocapture`.
#[test]
#[ignore = "eight minutes on two cores"]
fn the_first_epochs_follow_the_published_loss() {
    let images = ImageSet::mnist(1, None).unwrap();
    let settings = Settings::default();
    let steps = images.count().div_ceil(settings.batch);
    let mut network = Network::new(1, settings.seed);
    let mut trainer = Trainer::new(settings, &images, &mut network, None).unwrap();
    for (epoch, published) in PUBLISHED.into_iter().enumerate() {
        let loss = (0..steps).map(|_| trainer.step().unwrap().loss).sum::<f64>() / steps as f64;
        println!("epoch {epoch}: {loss:.0}, published {published:.0}, ratio {:.3}", loss / published);
        assert!((loss / published - 1.0).abs() < 0.1, "epoch {epoch}: {loss}");
    }
}
