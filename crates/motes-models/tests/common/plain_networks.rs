//! The networks as compositions of the plain layers, in `f64`.

use motes_models::generator::layers::{self, BatchNorm, Convolution};
use motes_models::generator::{Decoder, Mode, Network, Tensor};

const PIXELS: usize = 256;

/// Single precision, exactly.
pub fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// The error's root mean square relative to that of the truth.
pub fn error(value: &[f32], truth: &[f64]) -> f64 {
    assert_eq!(value.len(), truth.len());
    let squares: f64 = truth.iter().map(|t| t * t).sum();
    assert!(squares > 0.0, "a truth of zeros checks nothing");
    let off: f64 = value.iter().zip(truth).map(|(&v, t)| (f64::from(v) - t).powi(2)).sum();
    (off / squares).sqrt()
}

/// Parameters, and a gradient as long, by name.
struct Named {
    tensors: Vec<Tensor>,
    values: Vec<f64>,
}

impl Named {
    fn range(&self, name: &str) -> std::ops::Range<usize> {
        let tensor = self.tensors.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"));
        tensor.offset..tensor.offset + tensor.shape.iter().product::<usize>()
    }

    fn get(&self, name: &str) -> &[f64] {
        &self.values[self.range(name)]
    }

    fn get_mut(&mut self, name: &str) -> &mut [f64] {
        let range = self.range(name);
        &mut self.values[range]
    }

    fn zeros(&self) -> Self {
        Self { tensors: self.tensors.clone(), values: vec![0.0; self.values.len()] }
    }
}

/// What a pass gives, of half the squared distance to a target.
pub struct Truth {
    pub loss: f64,
    pub images: Vec<f64>,
    pub latents: Vec<f64>,
    pub parameters: Vec<f64>,
    pub statistics: Vec<f64>,
}

/// The generator network.
pub struct PlainNetwork {
    channels: usize,
    parameters: Named,
    statistics: Named,
}

/// A layer's output before and behind its normalisation.
struct Normed {
    norm: BatchNorm,
    z: Vec<f64>,
    v: Vec<f64>,
}

impl PlainNetwork {
    pub fn new(channels: usize, network: &Network) -> Self {
        let named =
            |tensors: &[Tensor], values: &[f32]| Named { tensors: tensors.to_vec(), values: wide(values) };
        Self {
            channels,
            parameters: named(network.tensors(), network.parameters()),
            statistics: named(network.statistics_tensors(), network.statistics()),
        }
    }

    /// Normalises, moves the running statistics in train mode, and applies GELU.
    fn normalise(&mut self, name: &str, mode: Mode, z: Vec<f64>, pixels: usize) -> (Normed, Vec<f64>) {
        let channels = self.parameters.get(&format!("{name}.weight")).len();
        let names = [format!("{name}.running_mean"), format!("{name}.running_var")];
        let norm = if mode == Mode::Train {
            let norm = BatchNorm::of_batch(&z, channels, pixels);
            let count = (z.len() / channels) as f64;
            for c in 0..channels {
                let mean = &mut self.statistics.get_mut(&names[0])[c];
                *mean = 0.9 * *mean + 0.1 * norm.mean[c];
                let variance = &mut self.statistics.get_mut(&names[1])[c];
                *variance = 0.9 * *variance + 0.1 * norm.variance[c] * count / (count - 1.0);
            }
            norm
        } else {
            let [mean, variance] = names.map(|n| self.statistics.get(&n).to_vec());
            BatchNorm { mean, variance, own: false, pixels }
        };
        let mut v = vec![0.0; z.len()];
        let p = &self.parameters;
        norm.forward(&z, p.get(&format!("{name}.weight")), p.get(&format!("{name}.bias")), &mut v);
        let a = v.iter().map(|&v| layers::gelu(v).0).collect();
        (Normed { norm, z, v }, a)
    }

    /// From behind GELU to in front of the normalisation.
    fn denormalise(&self, name: &str, normed: &Normed, d_a: &[f64], gradient: &mut Named) -> Vec<f64> {
        let d_v: Vec<f64> = d_a.iter().zip(&normed.v).map(|(d, &v)| d * layers::gelu(v).1).collect();
        let gamma = self.parameters.get(&format!("{name}.weight"));
        let (mut d_z, mut d_gamma, mut d_beta) =
            (vec![0.0; d_v.len()], vec![0.0; gamma.len()], vec![0.0; gamma.len()]);
        normed.norm.backward(&normed.z, gamma, &d_v, (&mut d_z, &mut d_gamma, &mut d_beta));
        gradient.get_mut(&format!("{name}.weight")).copy_from_slice(&d_gamma);
        gradient.get_mut(&format!("{name}.bias")).copy_from_slice(&d_beta);
        d_z
    }

    fn convolution(i: usize) -> Convolution {
        let kernel = [5, 3][i % 2];
        Convolution { inputs: 64, outputs: 64, size: 16, kernel, stride: 1, padding: kernel / 2 }
    }

    pub fn run(&mut self, mode: Mode, x: &[f64], target: &[f64]) -> Truth {
        let images = x.len() / 64;
        let (features, long, d_y) = (1024, 64 * PIXELS, self.channels * 1024);
        let up = Convolution { inputs: 64, outputs: 4, size: 16, kernel: 5, stride: 1, padding: 2 };
        let out =
            Convolution { inputs: self.channels, outputs: 64, size: 32, kernel: 4, stride: 2, padding: 1 };

        let mut z = vec![0.0; images * features];
        for (x, z) in x.chunks(64).zip(z.chunks_mut(features)) {
            layers::linear(x, self.parameters.get("lin.weight"), self.parameters.get("lin.bias"), z);
        }
        let (bn_lin, a_lin) = self.normalise("bn_lin", mode, z, 1);
        let mut z = vec![0.0; images * long];
        for (a, z) in a_lin.chunks(features).zip(z.chunks_mut(long)) {
            up.transposed(a, self.parameters.get("up.weight"), z);
        }
        let (bn_up, mut h) = self.normalise("bn_up", mode, z, PIXELS);
        let (mut inputs, mut norms) = (vec![], vec![]);
        let mut skip = h.clone();
        for i in 0..4 {
            let mut z = vec![0.0; images * long];
            for (a, z) in h.chunks(long).zip(z.chunks_mut(long)) {
                Self::convolution(i).forward(a, self.parameters.get(&format!("conv.{i}.weight")), z);
                layers::add_bias(z, self.parameters.get(&format!("conv.{i}.bias")));
            }
            inputs.push(h);
            let normed;
            (normed, h) = self.normalise(&format!("bn.{i}"), mode, z, PIXELS);
            norms.push(normed);
            if i % 2 == 1 {
                h.iter_mut().zip(&skip).for_each(|(h, s)| *h += s);
                skip = h.clone();
            }
        }
        let mut decoded = vec![0.0; images * d_y];
        for (a, z) in h.chunks(long).zip(decoded.chunks_mut(d_y)) {
            out.transposed(a, self.parameters.get("out.weight"), z);
            layers::add_bias(z, self.parameters.get("out.bias"));
        }
        let mut d = decoded.clone();
        let mut loss = 0.0;
        for ((d, t), f) in d.iter_mut().zip(target).zip(&mut decoded) {
            let (value, slope) = layers::tanh(*f);
            *f = value;
            loss += 0.5 * (value - t).powi(2);
            *d = (value - t) * slope;
        }

        let mut gradient = self.parameters.zeros();
        let mut d_h = vec![0.0; images * long];
        for ((d, a), d_h) in d.chunks(d_y).zip(h.chunks(long)).zip(d_h.chunks_mut(long)) {
            out.forward(d, self.parameters.get("out.weight"), d_h);
            out.weight_gradient(d, a, gradient.get_mut("out.weight"));
            layers::bias_gradient(d, gradient.get_mut("out.bias"));
        }
        let mut d_skip = d_h.clone();
        for i in (0..4).rev() {
            let d_z = self.denormalise(&format!("bn.{i}"), &norms[i], &d_h, &mut gradient);
            for ((d, a), d_h) in d_z.chunks(long).zip(inputs[i].chunks(long)).zip(d_h.chunks_mut(long)) {
                Self::convolution(i).transposed(d, self.parameters.get(&format!("conv.{i}.weight")), d_h);
                Self::convolution(i).weight_gradient(a, d, gradient.get_mut(&format!("conv.{i}.weight")));
                layers::bias_gradient(d, gradient.get_mut(&format!("conv.{i}.bias")));
            }
            if i % 2 == 0 {
                d_h.iter_mut().zip(&d_skip).for_each(|(d, s)| *d += s);
                d_skip = d_h.clone();
            }
        }
        let d_z = self.denormalise("bn_up", &bn_up, &d_h, &mut gradient);
        let mut d_a = vec![0.0; images * features];
        for ((d, a), d_a) in d_z.chunks(long).zip(a_lin.chunks(features)).zip(d_a.chunks_mut(features)) {
            up.forward(d, self.parameters.get("up.weight"), d_a);
            up.weight_gradient(d, a, gradient.get_mut("up.weight"));
        }
        let d_z = self.denormalise("bn_lin", &bn_lin, &d_a, &mut gradient);
        let mut latents = vec![0.0; x.len()];
        let (mut d_w, mut d_b) = (vec![0.0; features * 64], vec![0.0; features]);
        for ((d, x), d_x) in d_z.chunks(features).zip(x.chunks(64)).zip(latents.chunks_mut(64)) {
            layers::linear_backward(x, self.parameters.get("lin.weight"), d, (d_x, &mut d_w, &mut d_b));
        }
        gradient.get_mut("lin.weight").copy_from_slice(&d_w);
        gradient.get_mut("lin.bias").copy_from_slice(&d_b);
        let statistics = self.statistics.values.clone();
        Truth { loss, images: decoded, latents, parameters: gradient.values, statistics }
    }
}

/// Two convolutions with ReLU and pooling, then two linear layers with a ReLU between them.
pub struct PlainConvNet {
    stages: [Convolution; 2],
    parameters: Named,
}

/// What it gives for each image, and the gradient of a function of that.
pub struct Passed {
    pub hidden: Vec<f64>,
    pub outputs: Vec<f64>,
    pub parameters: Vec<f64>,
}

impl PlainConvNet {
    pub fn new(stages: [Convolution; 2], tensors: &[Tensor], parameters: &[f32]) -> Self {
        Self { stages, parameters: Named { tensors: tensors.to_vec(), values: wide(parameters) } }
    }

    /// `slope(image, outputs)` is the function's gradient with respect to an image's outputs.
    pub fn run(&self, y: &[f64], slope: impl Fn(usize, &[f64]) -> Vec<f64>) -> Passed {
        let mut gradient = self.parameters.zeros();
        let (mut hiddens, mut outputs) = (vec![], vec![]);
        let pixels = self.stages[0].inputs * self.stages[0].size.pow(2);
        for (i, y) in y.chunks(pixels).enumerate() {
            let mut a = vec![y.to_vec()];
            let (mut before, mut places) = (vec![], vec![]);
            for (stage, name) in self.stages.iter().zip(["c1", "c2"]) {
                let size = stage.output_size();
                let (area, quarter) = (size * size, (size / 2) * (size / 2));
                let mut z = vec![0.0; stage.outputs * area];
                stage.forward(a.last().unwrap(), self.parameters.get(&format!("{name}.weight")), &mut z);
                layers::add_bias(&mut z, self.parameters.get(&format!("{name}.bias")));
                let r: Vec<f64> = z.iter().map(|&z| layers::relu(z).0).collect();
                let (mut pooled, mut from) =
                    (vec![0.0; stage.outputs * quarter], vec![0; stage.outputs * quarter]);
                for ((r, p), f) in
                    r.chunks(area).zip(pooled.chunks_mut(quarter)).zip(from.chunks_mut(quarter))
                {
                    layers::max_pool(r, size, p, f);
                }
                a.push(pooled);
                before.push(z);
                places.push(from);
            }
            let (w, b) = (["f1.weight", "f2.weight"], ["f1.bias", "f2.bias"]);
            let [mut z3, mut z4] = b.map(|b| vec![0.0; self.parameters.get(b).len()]);
            layers::linear(&a[2], self.parameters.get(w[0]), self.parameters.get(b[0]), &mut z3);
            let hidden: Vec<f64> = z3.iter().map(|&z| layers::relu(z).0).collect();
            layers::linear(&hidden, self.parameters.get(w[1]), self.parameters.get(b[1]), &mut z4);

            let mut d = slope(i, &z4);
            for (input, layer, z) in [(&hidden, 1, Some(&z3)), (&a[2], 0, None)] {
                let mut d_x = vec![0.0; input.len()];
                let (mut d_w, mut d_b) = (gradient.get(w[layer]).to_vec(), gradient.get(b[layer]).to_vec());
                let weights = self.parameters.get(w[layer]);
                layers::linear_backward(input, weights, &d, (&mut d_x, &mut d_w, &mut d_b));
                gradient.get_mut(w[layer]).copy_from_slice(&d_w);
                gradient.get_mut(b[layer]).copy_from_slice(&d_b);
                if let Some(z) = z {
                    d_x.iter_mut().zip(z).for_each(|(d, &z)| *d *= layers::relu(z).1);
                }
                d = d_x;
            }
            for l in [1, 0] {
                let (stage, name) = (&self.stages[l], ["c1", "c2"][l]);
                let size = stage.output_size();
                let (area, quarter) = (size * size, (size / 2) * (size / 2));
                let mut d_z = vec![0.0; before[l].len()];
                for ((d, f), d_z) in
                    d.chunks(quarter).zip(places[l].chunks(quarter)).zip(d_z.chunks_mut(area))
                {
                    layers::max_pool_backward(d, f, d_z);
                }
                d_z.iter_mut().zip(&before[l]).for_each(|(d, &z)| *d *= layers::relu(z).1);
                stage.weight_gradient(&a[l], &d_z, gradient.get_mut(&format!("{name}.weight")));
                layers::bias_gradient(&d_z, gradient.get_mut(&format!("{name}.bias")));
                d = vec![0.0; a[l].len()];
                stage.transposed(&d_z, self.parameters.get(&format!("{name}.weight")), &mut d);
            }
            hiddens.extend(hidden);
            outputs.extend(z4);
        }
        Passed { hidden: hiddens, outputs, parameters: gradient.values }
    }
}
