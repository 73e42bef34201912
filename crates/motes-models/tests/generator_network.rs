//! The generator network and the encoder against compositions of the plain layers in `f64`, and their bits for any number of threads.

use crate::common::plain_networks;

use motes::Pool;
use motes::noise::{Noise, Purpose};
use motes_models::generator::layers::{Convolution, softplus};
use motes_models::generator::{Decoder, Encoder, Mode, Network, Wanted};
use plain_networks::{PlainConvNet, PlainNetwork, error, wide};

fn normals(step: u64, len: usize) -> Vec<f32> {
    let mut x = vec![0.0; len];
    Noise::new(11, Purpose::Check).normals_f32(step, 0, &mut x);
    x
}

/// Moves every parameter and statistic away from its initial value, so that gamma, beta and the biases all matter.
fn shake(network: &mut Network) {
    let noise = normals(100, network.parameters().len());
    network.parameters_mut().iter_mut().zip(&noise).for_each(|(p, n)| *p += 0.02 * n);
    let noise = normals(101, network.statistics().len());
    network.statistics_mut().iter_mut().zip(&noise).for_each(|(s, n)| *s += 0.1 * n.abs());
}

/// Half the squared distance to a target.
fn squares<'a>(target: &'a [f32], d_y: usize) -> impl Fn(usize, &[f32], &mut [f32]) -> f64 + Sync + 'a {
    move |i, image, d_image| {
        let mut loss = 0.0;
        for ((d, &f), &t) in d_image.iter_mut().zip(image).zip(&target[i * d_y..]) {
            *d = f - t;
            loss += 0.5 * f64::from(*d).powi(2);
        }
        loss
    }
}

#[test]
fn as_many_parameters_as_the_paper_says() {
    let decoder = [1, 3].map(|c| Network::new(c, 0).parameters().len());
    assert_eq!(decoder, [355_457, 357_507]);
    let encoder = [1, 3].map(|c| Encoder::new(c, 0).parameters().len());
    assert_eq!(encoder, [1_119_552, 1_119_840]);
    let network = Network::new(3, 0);
    assert_eq!((network.d_x(), network.d_y()), (64, 3072));
    let (last, total) = (network.tensors().last().unwrap(), network.parameters().len());
    assert_eq!((last.name.as_str(), last.offset + 3), ("out.bias", total));
    assert_eq!(network.statistics().len(), 2 * (1024 + 5 * 64));
}

#[test]
fn initial_weights_are_uniform_as_pytorchs() {
    let network = Network::new(3, 5);
    let fan_in = |name: &str| match name.split('.').next().unwrap() {
        "lin" => 64.0,
        "up" => 1600.0,
        "conv" if name.starts_with("conv.0") || name.starts_with("conv.2") => 1600.0,
        "conv" => 576.0,
        "out" => 48.0,
        other => panic!("{other}"),
    };
    for tensor in network.tensors() {
        let len = tensor.shape.iter().product();
        let values = &network.parameters()[tensor.offset..][..len];
        if tensor.name.starts_with("bn") {
            let expected = if tensor.name.ends_with("weight") { 1.0 } else { 0.0 };
            assert!(values.iter().all(|&v| v == expected), "{}", tensor.name);
            continue;
        }
        let bound = 1.0 / f64::sqrt(fan_in(&tensor.name));
        assert!(values.iter().all(|v| f64::from(v.abs()) <= bound), "{}", tensor.name);
        // The mean square of a uniform is a third of its bound's, with standard deviation sqrt(4/45) per draw.
        let square = values.iter().map(|&v| (f64::from(v) / bound).powi(2)).sum::<f64>() / len as f64;
        let error = (4.0 / 45.0 / len as f64).sqrt();
        assert!((square - 1.0 / 3.0).abs() < 4.5 * error, "{}: {square}", tensor.name);
    }
    assert_ne!(network.parameters(), Network::new(3, 6).parameters());
}

#[test]
fn outputs_gradients_and_statistics_agree_with_the_plain_layers() {
    for (channels, mode) in [(1, Mode::Train), (3, Mode::Eval), (1, Mode::Eval)] {
        let images = 3;
        let mut network = Network::new(channels, 1);
        shake(&mut network);
        let d_y = network.d_y();
        let (x, target) = (normals(0, images * 64), normals(1, images * d_y));
        let mut plain = PlainNetwork::new(channels, &network);
        let truth = plain.run(mode, &wide(&x), &wide(&target));

        if mode == Mode::Eval {
            let mut decoded = vec![0.0; images * d_y];
            network.decode(&x, &mut decoded);
            assert!(error(&decoded, &truth.images) < 1e-5);
            // Without the parameters it takes another way.
            let mut latents = vec![0.0; x.len()];
            let wanted = Wanted { latents: Some(&mut latents), ..Wanted::default() };
            let loss = network.backward(mode, &x, &squares(&target, d_y), wanted);
            assert!((loss / truth.loss - 1.0).abs() < 1e-6);
            assert!(error(&latents, &truth.latents) < 1e-5, "{:e}", error(&latents, &truth.latents));
        }
        let before = network.statistics().to_vec();
        let (mut parameters, mut latents) =
            (vec![f32::NAN; network.parameters().len()], vec![f32::NAN; x.len()]);
        let wanted =
            Wanted { parameters: Some(&mut parameters), latents: Some(&mut latents), ..Wanted::default() };
        let loss = network.backward(mode, &x, &squares(&target, d_y), wanted);
        assert!((loss / truth.loss - 1.0).abs() < 1e-6);
        assert!(error(&latents, &truth.latents) < 5e-5, "{:e}", error(&latents, &truth.latents));
        for tensor in network.tensors() {
            let range = tensor.offset..tensor.offset + tensor.shape.iter().product::<usize>();
            let in_front = ["lin.bias", "conv.0.bias", "conv.1.bias", "conv.2.bias", "conv.3.bias"];
            if mode == Mode::Train && in_front.contains(&tensor.name.as_str()) {
                assert!(parameters[range].iter().all(|&g| g == 0.0), "{}", tensor.name);
                continue;
            }
            let off = error(&parameters[range.clone()], &truth.parameters[range]);
            assert!(off < 5e-5, "{}: {off:e}", tensor.name);
        }
        match mode {
            Mode::Train => assert!(error(network.statistics(), &truth.statistics) < 1e-6),
            Mode::Eval => assert_eq!(network.statistics(), before),
        }
    }
}

#[test]
fn same_bits_for_any_number_of_threads() {
    // Two blocks and a part of one, and several images more than go together.
    let images = 53;
    let x = normals(0, images * 64);
    let results: Vec<_> = [1, 2, 3]
        .into_iter()
        .map(|threads| {
            // Made before the pool, as a caller may.
            let mut network = Network::new(1, 2);
            Pool::new(Some(threads)).unwrap().install(|| {
                let d_y = network.d_y();
                let target = normals(1, images * d_y);
                let (mut g, mut d) = (vec![0.0; network.parameters().len()], vec![0.0; x.len()]);
                let wanted = Wanted { parameters: Some(&mut g), latents: Some(&mut d), ..Wanted::default() };
                let train = network.backward(Mode::Train, &x, &squares(&target, d_y), wanted);
                let mut eval_d = vec![0.0; x.len()];
                let wanted = Wanted { latents: Some(&mut eval_d), ..Wanted::default() };
                let eval = network.backward(Mode::Eval, &x, &squares(&target, d_y), wanted);
                let mut decoded = vec![0.0; images * d_y];
                network.decode(&x, &mut decoded);
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let statistics = bits(network.statistics());
                (
                    train.to_bits(),
                    eval.to_bits(),
                    [bits(&g), bits(&d), bits(&eval_d), bits(&decoded), statistics],
                )
            })
        })
        .collect();
    assert!(results[0] == results[1] && results[0] == results[2]);
}

#[test]
fn an_images_numbers_do_not_depend_on_its_batch() {
    let mut network = Network::new(1, 3);
    shake(&mut network);
    let x = normals(0, 8 * 64);
    let d_y = network.d_y();
    let (mut all, mut one) = (vec![0.0; 8 * d_y], vec![0.0; d_y]);
    network.decode(&x, &mut all);
    for i in [0, 5, 7] {
        network.decode(&x[i * 64..][..64], &mut one);
        assert_eq!(one, all[i * d_y..][..d_y]);
    }
    let mut gradient = vec![f32::NAN; network.parameters().len()];
    let wanted = Wanted { parameters: Some(&mut gradient), ..Wanted::default() };
    let loss = network.backward(Mode::Train, &[], &|_, _, _| f64::NAN, wanted);
    assert!(loss == 0.0 && gradient.iter().all(|&g| g == 0.0), "nothing comes of no images");
}

#[test]
fn changed_parameters_and_statistics_are_taken_up() {
    let mut network = Network::new(1, 4);
    let x = normals(0, 64);
    let decode = |network: &mut Network| {
        let mut image = vec![0.0; 1024];
        network.decode(&x, &mut image);
        image
    };
    let start = decode(&mut network);
    shake(&mut network);
    let shaken = decode(&mut network);
    assert_ne!(start, shaken);
    // A pass in train mode moves the running statistics, and so what is decoded.
    network.backward(
        Mode::Train,
        &normals(1, 5 * 64),
        &|_, _, d| {
            d.fill(0.0);
            0.0
        },
        Wanted::default(),
    );
    assert_ne!(shaken, decode(&mut network));
}

#[test]
fn the_encoder_agrees_with_the_plain_layers() {
    for channels in [1, 3] {
        // One block and a part of one.
        let images = 9;
        let mut encoder = Encoder::new(channels, 1);
        let y: Vec<f32> = normals(0, images * channels * 1024).iter().map(|y| y.tanh()).collect();
        let (d_mean, d_variance) = (normals(1, images * 64), normals(2, images * 64));
        let stages = [
            Convolution { inputs: channels, outputs: 16, size: 32, kernel: 3, stride: 1, padding: 2 },
            Convolution { inputs: 16, outputs: 32, size: 17, kernel: 3, stride: 1, padding: 1 },
        ];
        let plain = PlainConvNet::new(stages, encoder.tensors(), encoder.parameters());
        let truth = plain.run(&wide(&y), |i, outputs| {
            let mut d = wide(&d_mean[i * 64..][..64]);
            let slopes = outputs[64..].iter().map(|&z| softplus(z).1);
            d.extend(wide(&d_variance[i * 64..][..64]).iter().zip(slopes).map(|(d, slope)| d * slope));
            d
        });
        let half = |second: usize| -> Vec<f64> {
            truth.outputs.chunks(64).skip(second).step_by(2).flatten().copied().collect()
        };
        let true_mean = half(0);
        let true_variance: Vec<f64> = half(1).iter().map(|&z| softplus(z).0 + 1e-3).collect();
        let bits: Vec<_> = [1, 2, 3]
            .into_iter()
            .map(|threads| {
                Pool::new(Some(threads)).unwrap().install(|| {
                    let (mut mean, mut variance) = (vec![0.0; images * 64], vec![0.0; images * 64]);
                    encoder.forward(&y, &mut mean, &mut variance);
                    assert!(error(&mean, &true_mean) < 1e-5 && error(&variance, &true_variance) < 1e-5);
                    let mut gradient = vec![f32::NAN; encoder.parameters().len()];
                    encoder.backward(&d_mean, &d_variance, &mut gradient);
                    for tensor in encoder.tensors() {
                        let range = tensor.offset..tensor.offset + tensor.shape.iter().product::<usize>();
                        let off = error(&gradient[range.clone()], &truth.parameters[range]);
                        assert!(off < 1e-5, "{}: {off:e}", tensor.name);
                    }
                    [mean, variance, gradient].map(|x| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                })
            })
            .collect();
        assert!(bits[0] == bits[1] && bits[0] == bits[2]);
    }
}
