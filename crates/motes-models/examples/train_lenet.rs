//! Trains the classifier behind `frechet_lenet` and writes its weights: data/lenet.safetensors came from
//! `cargo run --release -p motes-models --example train_lenet`. It takes some minutes.
//!
//! `--hold-out` trains on the first 8,000 of the 10,000 training images and tests on the rest: whoever changes the training
//! should choose by that, and never by the test images.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use motes::files::{Durable, write_atomically};
use motes_models::data::{ImageSet, mnist, read_labels};
use motes_models::features::{Lenet, LenetTraining};

const HELD_OUT: usize = 2000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let hold_out = words.first().is_some_and(|w| w == "--hold-out");
    if words.len() > 1 || (words.len() == 1 && (words[0].starts_with('-') && !hold_out)) {
        eprintln!("train_lenet takes --hold-out, or the file to write; leave everything else out");
        return ExitCode::from(2);
    }
    let standard = concat!(env!("CARGO_MANIFEST_DIR"), "/data/lenet.safetensors").to_string();
    match if hold_out { choose() } else { train(words.first().unwrap_or(&standard)) } {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("train_lenet: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn trained(images: &[f32], labels: &[u8]) -> Lenet {
    let (training, began) = (LenetTraining::default(), Instant::now());
    training.run(images, labels, &mut |e| {
        let seconds = began.elapsed().as_secs_f64();
        println!("epoch {} of {}: loss {:.5} ({seconds:.0} s)", e.epoch, training.epochs, e.loss);
    })
}

/// Says how many images are classified rightly.
fn test(lenet: &mut Lenet, what: &str, images: &[f32], labels: &[u8]) {
    let right = lenet.classify(images).iter().zip(labels).filter(|(a, b)| a == b).count();
    println!(
        "{what}: {right} of {} images right, {:.2} %",
        labels.len(),
        100.0 * right as f64 / labels.len() as f64
    );
}

fn choose() -> Result<(), String> {
    let (images, labels) = training_images()?;
    let first = labels.len() - HELD_OUT;
    let (images, held_images) = images.split_at(first * Lenet::PIXELS);
    let mut lenet = trained(images, &labels[..first]);
    test(&mut lenet, "trained on", images, &labels[..first]);
    test(&mut lenet, "held out", held_images, &labels[first..]);
    Ok(())
}

fn train(file: &str) -> Result<(), String> {
    let (images, labels) = training_images()?;
    let mut lenet = trained(&images, &labels);
    test(&mut lenet, "training images", &images, &labels);
    let tests = ImageSet::mnist_test(1).map_err(|e| e.to_string())?;
    let labels = read_labels(mnist::TEST_LABELS, mnist::NAMES[3]).map_err(|e| e.to_string())?;
    test(&mut lenet, "test images", &tests.values(0..labels.len()), &labels);
    write_atomically(Path::new(file), Durable::No, |out| lenet.save(out)).map_err(|e| e.to_string())?;
    println!("{file}");
    Ok(())
}

fn training_images() -> Result<(Vec<f32>, Vec<u8>), String> {
    let labels = read_labels(mnist::LABELS, mnist::NAMES[1]).map_err(|e| e.to_string())?;
    let images = ImageSet::mnist(1, None).map_err(|e| e.to_string())?;
    Ok((images.values(0..labels.len()), labels))
}
