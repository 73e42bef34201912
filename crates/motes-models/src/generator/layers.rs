//! Every layer's forward and backward in plain loops, generic over the precision: what the fast kernels are compared with.
//!
//! Arrays are laid out as PyTorch's: images are `[channel][row][column]`, weights outermost dimension first. Gradients
//! are overwritten, except those of weights and biases, which are added to. These loops are checked against finite
//! differences in `f64`; the kernels of [`super::Network`] and [`super::Encoder`] against these loops.

use motes::Real;

/// A convolution's shape; a transposed convolution is the same map read backwards.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
    /// Rows, and columns, of the input.
    pub size: usize,
    /// Rows, and columns, of the kernel.
    pub kernel: usize,
    /// Steps of the kernel over the input.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: usize,
}

impl Convolution {
    /// Rows, and columns, of the output.
    pub fn output_size(&self) -> usize {
        (self.size + 2 * self.padding - self.kernel) / self.stride + 1
    }

    /// Calls `visit(input, weight, output)` with the indices of each product; weights are `[output][input][row][column]`.
    fn products(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (size, out) = (self.size, self.output_size());
        let place =
            |o: usize, k: usize| (o * self.stride + k).checked_sub(self.padding).filter(|&i| i < size);
        for o in 0..self.outputs {
            for i in 0..self.inputs {
                for (ky, kx) in (0..self.kernel).flat_map(|ky| (0..self.kernel).map(move |kx| (ky, kx))) {
                    let weight = ((o * self.inputs + i) * self.kernel + ky) * self.kernel + kx;
                    for y in 0..out {
                        let Some(row) = place(y, ky) else { continue };
                        for x in 0..out {
                            if let Some(column) = place(x, kx) {
                                visit((i * size + row) * size + column, weight, (o * out + y) * out + x);
                            }
                        }
                    }
                }
            }
        }
    }

    /// `output = input * weights`, without a bias.
    pub fn forward<F: Real>(&self, input: &[F], weights: &[F], output: &mut [F]) {
        output.fill(F::default());
        self.products(|i, w, o| output[o] += input[i] * weights[w]);
    }

    /// The gradient with respect to the input; with the roles swapped, the forward of the transposed convolution.
    pub fn transposed<F: Real>(&self, d_output: &[F], weights: &[F], d_input: &mut [F]) {
        d_input.fill(F::default());
        self.products(|i, w, o| d_input[i] += d_output[o] * weights[w]);
    }

    /// Adds the gradient with respect to the weights, of the convolution and of its transpose alike.
    pub fn weight_gradient<F: Real>(&self, input: &[F], d_output: &[F], d_weights: &mut [F]) {
        self.products(|i, w, o| d_weights[w] += d_output[o] * input[i]);
    }
}

/// Adds a bias to each plane of an image.
pub fn add_bias<F: Real>(image: &mut [F], bias: &[F]) {
    for (plane, &b) in image.chunks_exact_mut(image.len() / bias.len()).zip(bias) {
        plane.iter_mut().for_each(|v| *v += b);
    }
}

/// Adds the gradient with respect to the bias of [`add_bias`].
pub fn bias_gradient<F: Real>(d_image: &[F], d_bias: &mut [F]) {
    for (plane, b) in d_image.chunks_exact(d_image.len() / d_bias.len()).zip(d_bias) {
        plane.iter().for_each(|&d| *b += d);
    }
}

/// `y = W x + b` for one x; weights are `[output][input]`.
pub fn linear<F: Real>(x: &[F], weights: &[F], bias: &[F], y: &mut [F]) {
    for ((y, row), &b) in y.iter_mut().zip(weights.chunks_exact(x.len())).zip(bias) {
        *y = b;
        row.iter().zip(x).for_each(|(&w, &x)| *y += w * x);
    }
}

/// The gradients of [`linear`]: `d_x` overwritten, the others added to.
pub fn linear_backward<F: Real>(
    x: &[F],
    weights: &[F],
    d_y: &[F],
    (d_x, d_weights, d_bias): (&mut [F], &mut [F], &mut [F]),
) {
    d_x.fill(F::default());
    let rows = weights.chunks_exact(x.len()).zip(d_weights.chunks_exact_mut(x.len()));
    for ((&d, (row, d_row)), d_b) in d_y.iter().zip(rows).zip(d_bias) {
        *d_b += d;
        for j in 0..x.len() {
            d_x[j] += d * row[j];
            d_row[j] += d * x[j];
        }
    }
}

/// Batch normalisation of `[image][channel][pixel]`, with the statistics of one call.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// The mean of each channel.
    pub mean: Vec<f64>,
    /// The variance of each channel, biased when it is that of a batch.
    pub variance: Vec<f64>,
    /// Whether these are the batch's own statistics, through which the gradient flows as well.
    pub own: bool,
    /// Values per channel of one image.
    pub pixels: usize,
}

/// What batch normalisation adds to a variance.
pub const EPSILON: f64 = 1e-5;

impl BatchNorm {
    /// With the statistics of the batch itself.
    pub fn of_batch<F: Real>(z: &[F], channels: usize, pixels: usize) -> Self {
        let count = (z.len() / channels) as f64;
        let mut result = Self { mean: vec![0.0; channels], variance: vec![0.0; channels], own: true, pixels };
        for (i, plane) in z.chunks_exact(pixels).enumerate() {
            result.mean[i % channels] += plane.iter().map(|v| v.f64()).sum::<f64>() / count;
        }
        for (i, plane) in z.chunks_exact(pixels).enumerate() {
            let m = result.mean[i % channels];
            result.variance[i % channels] += plane.iter().map(|v| (v.f64() - m).powi(2)).sum::<f64>() / count;
        }
        result
    }

    fn hat(&self, channel: usize, z: f64) -> f64 {
        (z - self.mean[channel]) / (self.variance[channel] + EPSILON).sqrt()
    }

    /// `v = gamma (z - mean) / sqrt(variance + eps) + beta`.
    pub fn forward<F: Real>(&self, z: &[F], gamma: &[F], beta: &[F], v: &mut [F]) {
        let planes = z.chunks_exact(self.pixels).zip(v.chunks_exact_mut(self.pixels));
        for (i, (z, v)) in planes.enumerate() {
            let c = i % gamma.len();
            for (v, z) in v.iter_mut().zip(z) {
                *v = F::of(gamma[c].f64() * self.hat(c, z.f64()) + beta[c].f64());
            }
        }
    }

    /// The gradients of [`BatchNorm::forward`]: `d_z` overwritten, the others added to.
    pub fn backward<F: Real>(
        &self,
        z: &[F],
        gamma: &[F],
        d_v: &[F],
        (d_z, d_gamma, d_beta): (&mut [F], &mut [F], &mut [F]),
    ) {
        let (channels, count) = (gamma.len(), (z.len() / gamma.len()) as f64);
        let (mut sum, mut sum_hat) = (vec![0.0; channels], vec![0.0; channels]);
        let channel = |i: usize| i / self.pixels % channels;
        for (i, (d, z)) in d_v.iter().zip(z).enumerate() {
            sum[channel(i)] += d.f64();
            sum_hat[channel(i)] += d.f64() * self.hat(channel(i), z.f64());
        }
        for (i, (d_z, (d, z))) in d_z.iter_mut().zip(d_v.iter().zip(z)).enumerate() {
            let c = channel(i);
            let through = if self.own { (sum[c] + self.hat(c, z.f64()) * sum_hat[c]) / count } else { 0.0 };
            *d_z = F::of(gamma[c].f64() / (self.variance[c] + EPSILON).sqrt() * (d.f64() - through));
        }
        for c in 0..channels {
            d_gamma[c] += F::of(sum_hat[c]);
            d_beta[c] += F::of(sum[c]);
        }
    }
}

/// The error function, by its series near zero and its continued fraction beyond; full `f64` accuracy, and slow.
fn erf(x: f64) -> f64 {
    if x.abs() < 2.0 {
        let (mut term, mut sum) = (x, x);
        for k in 1..200 {
            term *= -x * x / f64::from(k);
            sum += term / f64::from(2 * k + 1);
            if term.abs() < 1e-18 * sum.abs() {
                break;
            }
        }
        return std::f64::consts::FRAC_2_SQRT_PI * sum;
    }
    let mut fraction = 0.0;
    for k in (1..200).rev() {
        fraction = f64::from(k) / 2.0 / (x.abs() + fraction);
    }
    (1.0 - libm::exp(-x * x) / (std::f64::consts::PI.sqrt() * (x.abs() + fraction))).copysign(x)
}

/// GELU in its erf form, `v Phi(v)`, and its derivative `Phi(v) + v phi(v)`.
pub fn gelu<F: Real>(v: F) -> (F, F) {
    let v = v.f64();
    let phi = 0.5 * (1.0 + erf(v * std::f64::consts::FRAC_1_SQRT_2));
    let density = libm::exp(-0.5 * v * v) / (2.0 * std::f64::consts::PI).sqrt();
    (F::of(v * phi), F::of(phi + v * density))
}

/// The hyperbolic tangent and its derivative.
pub fn tanh<F: Real>(v: F) -> (F, F) {
    let t = libm::tanh(v.f64());
    (F::of(t), F::of(1.0 - t * t))
}

/// `max(v, 0)` and its derivative, zero at zero.
pub fn relu<F: Real>(v: F) -> (F, F) {
    if v > F::default() { (v, F::of(1.0)) } else { (F::default(), F::default()) }
}

/// `ln(1 + e^v)` and its derivative, the sigmoid.
pub fn softplus<F: Real>(v: F) -> (F, F) {
    let v = v.f64();
    (F::of(v.max(0.0) + libm::log1p(libm::exp(-v.abs()))), F::of(1.0 / (1.0 + libm::exp(-v))))
}

/// The largest of each 2 x 2 square of a plane of `size` rows, and where it stood; a last odd row or column is left out.
pub fn max_pool<F: Real>(plane: &[F], size: usize, pooled: &mut [F], from: &mut [u32]) {
    let half = size / 2;
    for (i, (p, from)) in pooled.iter_mut().zip(from).enumerate() {
        let corner = 2 * (i / half) * size + 2 * (i % half);
        let mut best = corner;
        for j in [corner + 1, corner + size, corner + size + 1] {
            // As PyTorch, a NaN wins and the first of equals stays.
            if plane[j] > plane[best] || plane[j].f64().is_nan() {
                best = j;
            }
        }
        (*p, *from) = (plane[best], best as u32);
    }
}

/// The gradient of [`max_pool`].
pub fn max_pool_backward<F: Real>(d_pooled: &[F], from: &[u32], d_plane: &mut [F]) {
    d_plane.fill(F::default());
    for (&d, &i) in d_pooled.iter().zip(from) {
        d_plane[i as usize] += d;
    }
}

#[cfg(test)]
mod tests;
