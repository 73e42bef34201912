//! The classifier of digits against the plain layers in `f64`, what its training and its built-in weights reach, and what the
//! Frechet distance of its features tells apart.

use crate::common::plain_networks;

use motes::Pool;
use motes::noise::{Noise, Purpose};
use motes_models::data::{ImageSet, mnist, read_labels};
use motes_models::features::{Gaussian, Lenet, LenetTraining, frechet};
use motes_models::generator::layers::Convolution;
use plain_networks::{PlainConvNet, error, wide};

fn test_digits() -> (Vec<f32>, Vec<u8>) {
    let labels = read_labels(mnist::TEST_LABELS, "labels").unwrap();
    (ImageSet::mnist_test(1).unwrap().values(0..labels.len()), labels)
}

fn right(lenet: &mut Lenet, images: &[f32], labels: &[u8]) -> usize {
    lenet.classify(images).iter().zip(labels).filter(|(a, b)| a == b).count()
}

#[test]
fn features_loss_and_gradient_agree_with_the_plain_layers() {
    // One block and a part of one, at trained weights, where the features are not all alike, and at initial ones.
    let (images, labels) = test_digits();
    let (images, labels) = (&images[..9 * Lenet::PIXELS], &labels[..9]);
    for mut lenet in [Lenet::trained(), Lenet::new(4)] {
        let stages = [
            Convolution { inputs: 1, outputs: 16, size: 32, kernel: 5, stride: 1, padding: 0 },
            Convolution { inputs: 16, outputs: 32, size: 14, kernel: 5, stride: 1, padding: 0 },
        ];
        let softmax = |z: &[f64]| -> Vec<f64> {
            let sum: f64 = z.iter().map(|z| z.exp()).sum();
            z.iter().map(|z| z.exp() / sum).collect()
        };
        let plain = PlainConvNet::new(stages, lenet.tensors(), lenet.parameters());
        let truth = plain.run(&wide(images), |i, z| {
            let mut p = softmax(z);
            p[usize::from(labels[i])] -= 1.0;
            p.iter().map(|p| p / labels.len() as f64).collect()
        });
        assert!(error(&lenet.features(images), &truth.hidden) < 1e-5);
        let rows = truth.outputs.chunks(10).zip(labels);
        let loss: f64 = rows.map(|(z, &l)| -softmax(z)[usize::from(l)].ln()).sum::<f64>() / 9.0;
        let mut gradient = vec![f32::NAN; lenet.parameters().len()];
        let value = lenet.cross_entropy(images, labels, &mut gradient);
        assert!((value / loss - 1.0).abs() < 1e-4, "{value} and {loss}");
        for tensor in lenet.tensors() {
            let range = tensor.offset..tensor.offset + tensor.shape.iter().product::<usize>();
            let off = error(&gradient[range.clone()], &truth.parameters[range]);
            assert!(off < 1e-4, "{}: {off:e}", tensor.name);
        }
    }
}

#[test]
fn the_built_in_weights_read_almost_all_test_digits() {
    let (images, labels) = test_digits();
    assert_eq!(labels.len(), 2000);
    let right = right(&mut Lenet::trained(), &images, &labels);
    assert!(right >= 1970, "{right} of 2000 is less than 98.5 %");
    assert_eq!(Lenet::new(0).parameters().len(), 78_138);
}

#[test]
fn weights_come_back_from_a_file() {
    let mut file = Vec::new();
    let lenet = Lenet::trained();
    lenet.save(&mut file).unwrap();
    let mut other = Lenet::new(1);
    assert_ne!(other.parameters(), lenet.parameters());
    other.load(&file).unwrap();
    assert_eq!(other.parameters(), lenet.parameters());
    assert!(other.load(&file[..1000]).unwrap_err().contains("is not a safetensors file"));
}

/// A short training: it learns, and gives the same bits for any number of threads.
#[test]
fn training_learns_and_threads_change_no_bit() {
    let labels = &read_labels(mnist::LABELS, "labels").unwrap()[..500];
    let images = ImageSet::mnist(1, Some(500)).unwrap().values(0..500);
    let training = LenetTraining { epochs: 3, ..LenetTraining::default() };
    let run = |threads| {
        let mut losses = Vec::new();
        let mut told = |e: motes_models::features::Epoch| losses.push(e.loss);
        let pool = Pool::new(Some(threads)).unwrap();
        let lenet = pool.install(|| training.run(&images, labels, &mut told));
        (lenet, losses)
    };
    let ((mut one, losses), (three, others)) = (run(1), run(3));
    let bits = |lenet: &Lenet| lenet.parameters().iter().map(|p| p.to_bits()).collect::<Vec<_>>();
    assert!(bits(&one) == bits(&three) && losses == others);
    assert!(losses.len() == 3 && losses[2] < losses[0], "{losses:?}");
    let (images, labels) = test_digits();
    let right = right(&mut one, &images, &labels);
    assert!(right > 1200, "{right} of 2000 after three passes over 500 images; guessing gives 200");
}

#[test]
fn real_digits_are_nearer_to_real_digits_than_anything_else_is() {
    let mut lenet = Lenet::trained();
    let (images, labels) = test_digits();
    let mut of = |images: &[f32]| Gaussian::of(&wide(&lenet.features(images)), Lenet::FEATURES).unwrap();
    let (first, second) = images.split_at(1000 * Lenet::PIXELS);
    let real = of(first);
    let floor = frechet(&real, &of(second)).unwrap();
    let mut noise = vec![0.0; first.len()];
    Noise::new(1, Purpose::Check).normals_f32(0, 0, &mut noise);
    noise.iter_mut().for_each(|v| *v = v.tanh());
    let dim: Vec<f32> = second.iter().map(|v| 0.5 * v - 0.5).collect();
    let upside: Vec<f32> = second.chunks(Lenet::PIXELS).flat_map(|i| i.iter().rev().copied()).collect();
    let ones: Vec<f32> = second
        .chunks(Lenet::PIXELS)
        .zip(&labels[1000..])
        .filter(|(_, l)| **l == 1)
        .flat_map(|(image, _)| image.iter().copied())
        .collect();
    for (what, images) in [("noise", &noise), ("dim", &dim), ("upside down", &upside), ("only ones", &ones)] {
        let far = frechet(&real, &of(images)).unwrap();
        println!("{what}: {far:.1}, and {floor:.1} for real digits");
        assert!(far > 5.0 * floor, "{what}: {far}, and {floor} for real digits");
    }
}
