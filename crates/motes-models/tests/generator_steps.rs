//! The generator as a model of the core against the trainer that it had of its own: steps of each algorithm.

use std::sync::Arc;

use motes::algorithms::{ABP, PGD, SHORT_RUN, VAE};
use motes::settings::{InitParticles, Preconditioner};
use motes::{Flow, Model, Pool, Settings, StepInfo};
use motes_models::data::ImageSet;
use motes_models::generator::{self as old, BatchNorm, Encoder, Generator, Inference, Network, Trainer};

/// The root mean square of the differences relative to that of the changes.
fn off(ours: &[f64], theirs: &[f32], start: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let (mut wrong, mut moved) = (0.0, 0.0);
    for ((a, b), s) in ours.iter().zip(theirs).zip(start) {
        wrong += (a - f64::from(*b)).powi(2);
        moved += (f64::from(*b) - s).powi(2);
    }
    if wrong == 0.0 { 0.0 } else { (wrong / moved).sqrt() }
}

#[test]
fn steps_are_those_of_the_trainer() {
    let images = Arc::new(ImageSet::mnist(1, Some(21)).unwrap());
    let cases = [
        (&PGD, old::Algorithm::Pgd, BatchNorm::TwoPass),
        (&PGD, old::Algorithm::Pgd, BatchNorm::OnePass),
        (&ABP, old::Algorithm::Abp, BatchNorm::TwoPass),
        (&SHORT_RUN, old::Algorithm::ShortRun, BatchNorm::TwoPass),
        (&VAE, old::Algorithm::Vae, BatchNorm::TwoPass),
    ];
    for (algorithm, before, batchnorm) in cases {
        let (seed, steps, h) = (3, 2, 1e-6);
        let settings = old::Settings {
            algorithm: before,
            particles: 1,
            chain: 3,
            batch: 8,
            step_size: h,
            batchnorm,
            seed,
            ..old::Settings::default()
        };
        let vae = before == old::Algorithm::Vae;
        let (mut network, mut encoder) = (Network::new(1, seed), Encoder::new(1, seed));
        let mut seen = Vec::new();
        let mut trainer =
            Trainer::new(settings, &*images, &mut network, vae.then_some(&mut encoder as &mut dyn Inference))
                .unwrap();
        (0..steps).for_each(|_| seen.push(trainer.step().unwrap()));
        let (cloud, drawn) = (trainer.state().cloud.clone(), trainer.posterior().unwrap());

        let mut model =
            Generator::new(images.clone(), Box::new(|seed| Box::new(Network::new(1, seed))), 0.01, batchnorm)
                .unwrap();
        if vae {
            model = model.with_inference(Box::new(|seed| Box::new(Encoder::new(1, seed))));
        }
        let settings = Settings {
            algorithm,
            particles: 1,
            steps,
            burn_in: 0,
            step_size: h,
            theta_rate: Some(1e-3),
            preconditioner: Preconditioner::Rmsprop,
            init_particles: InitParticles::Prior,
            transitions: 3,
            batch: Some(8),
            seed,
            ..Settings::default()
        };
        let state = Pool::new(Some(2)).unwrap().install(|| {
            let mut state = motes::start(&model, &settings).unwrap();
            let mut k = 0;
            let mut watch = |info: &StepInfo<'_, f32>| {
                if let [loss, error, x_rms] = *info.scalars {
                    let old = seen[k];
                    k += 1;
                    for (ours, theirs) in [(loss, old.loss), (error, old.error), (x_rms, old.x_rms)] {
                        let apart = (ours / theirs - 1.0).abs();
                        assert!(apart < 1e-4, "{algorithm}, step {k}: {ours} and {theirs}");
                    }
                }
                Flow::Continue
            };
            motes::run(&model, &settings, &mut state, None, &mut [&mut watch]).unwrap();
            assert_eq!(k, steps as usize);
            state
        });
        let (mut theta, mut buffers) = (vec![0.0; model.d_theta()], vec![0.0; model.buffers()]);
        model.start(seed, &mut theta, &mut buffers);
        use motes_models::generator::Decoder;
        let mut weights = network.parameters().to_vec();
        if vae {
            weights.extend_from_slice(encoder.parameters());
        }
        let of_theta = off(&state.theta, &weights, &theta);
        let of_buffers = off(&state.buffers, network.statistics(), &buffers);
        let last = if cloud.is_empty() { &drawn } else { &cloud };
        let x: Vec<f64> = state.cloud.as_slice().iter().map(|v| f64::from(*v)).collect();
        // A VAE's posterior has ten draws of each image, of which the first is ours.
        let of_x = off(&x, &last[..x.len()], &vec![0.0; x.len()]);
        println!("{algorithm} {batchnorm:?}: theta {of_theta:.1e}, statistics {of_buffers:.1e}, x {of_x:.1e}");
        assert!(of_theta < 1e-3 && of_buffers < 1e-3 && of_x < 1e-3);
    }
}
