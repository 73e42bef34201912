//! How the classifier of digits is trained: Adam on images that are turned, scaled and moved a little, at a falling rate.

use std::convert::Infallible;

use motes::blocks::for_each;
use motes::noise::{Noise, Purpose};

use super::Lenet;
use crate::data::SIDE;
use crate::generator::adam;

/// The most that an image is turned (in radians), scaled and sheared (as a fraction), and moved (in pixels).
const TURN: f64 = 0.2;
const SCALE: f64 = 0.12;
const SHEAR: f64 = 0.15;
const SHIFT: f64 = 2.0;

/// What a training is made of; the default is how the built-in weights came about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LenetTraining {
    /// Passes over the images.
    pub epochs: u64,
    /// Images of a step.
    pub batch: usize,
    /// Adam's rate at the first step; it falls on a straight line to zero.
    pub rate: f64,
    /// The seed of the initial weights, of the order of the images and of what is done to them.
    pub seed: u64,
}

impl Default for LenetTraining {
    fn default() -> Self {
        Self { epochs: 40, batch: 64, rate: 2e-3, seed: 0 }
    }
}

/// What is told after each pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: u64,
    /// The mean cross-entropy over the pass.
    pub loss: f64,
}

impl LenetTraining {
    /// Trains a network on grey images in [-1, 1] and their digits; same bits for any number of threads.
    ///
    /// # Panics
    /// If there are no images, the batch is empty, or there is not one digit for each image.
    pub fn run(&self, images: &[f32], labels: &[u8], told: &mut dyn FnMut(Epoch)) -> Lenet {
        let count = labels.len();
        assert!(
            count > 0 && self.batch > 0 && images.len() == count * Lenet::PIXELS,
            "a digit for each image of {} values",
            Lenet::PIXELS
        );
        let mut lenet = Lenet::new(self.seed);
        let parameters = lenet.parameters().len();
        let (mut gradient, mut memory) = (vec![0.0; parameters], vec![0.0; 2 * parameters]);
        let (mut batch, mut digits) = (vec![0.0; self.batch * Lenet::PIXELS], Vec::new());
        let steps = self.epochs * count.div_ceil(self.batch) as u64;
        let mut k = 0;
        for epoch in 0..self.epochs {
            let mut loss = 0.0;
            for chosen in shuffled(count, self.seed, epoch).chunks(self.batch) {
                let batch = &mut batch[..chosen.len() * Lenet::PIXELS];
                let Ok(()) = for_each(true, (batch, Lenet::PIXELS), |i, out| {
                    let from = &images[chosen[i] * Lenet::PIXELS..][..Lenet::PIXELS];
                    Warp::drawn(self.seed, epoch, chosen[i]).apply(from, out);
                    Ok::<_, Infallible>(())
                });
                digits.clear();
                digits.extend(chosen.iter().map(|&i| labels[i]));
                loss += chosen.len() as f64 * lenet.cross_entropy(batch, &digits, &mut gradient);
                let rate = self.rate * (1.0 - k as f64 / steps as f64);
                adam(lenet.parameters_mut(), &gradient, &mut memory, k, rate as f32);
                k += 1;
            }
            told(Epoch { epoch: epoch + 1, loss: loss / count as f64 });
        }
        lenet
    }
}

/// The order of the images in a pass: that of one uniform draw for each.
fn shuffled(count: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut keys = vec![0.0; count];
    Noise::new(seed, Purpose::Batch).uniforms(epoch, 0, &mut keys);
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    order
}

/// Where each pixel of a changed image is looked up: an affine map about the middle.
struct Warp {
    matrix: [[f64; 2]; 2],
    shift: [f64; 2],
}

impl Warp {
    fn drawn(seed: u64, epoch: u64, image: usize) -> Self {
        let mut u = [0.0; 6];
        Noise::new(seed, Purpose::Data).uniforms(epoch, 6 * image as u64, &mut u);
        let [turn, x, y, shear, right, down] = u.map(|u| 2.0 * u - 1.0);
        let (sin, cos) = libm::sincos(TURN * turn);
        let (x, y, shear) = (1.0 + SCALE * x, 1.0 + SCALE * y, SHEAR * shear);
        Warp {
            matrix: [[x * cos, y * (shear * cos - sin)], [x * sin, y * (shear * sin + cos)]],
            shift: [SHIFT * right, SHIFT * down],
        }
    }

    /// The changed image, linear between pixels; beyond the edge is background.
    fn apply(&self, from: &[f32], out: &mut [f32]) {
        const BACKGROUND: f64 = -1.0;
        let middle = (SIDE as f64 - 1.0) / 2.0;
        let [[a, b], [c, d]] = self.matrix;
        let pixel = |x: i64, y: i64| {
            let there = |v: i64| (0..SIDE as i64).contains(&v);
            if there(x) && there(y) { f64::from(from[y as usize * SIDE + x as usize]) } else { BACKGROUND }
        };
        for (i, out) in out.iter_mut().enumerate() {
            let (x, y) = ((i % SIDE) as f64 - middle, (i / SIDE) as f64 - middle);
            let (x, y) = (a * x + b * y + middle + self.shift[0], c * x + d * y + middle + self.shift[1]);
            let (left, top) = (x.floor(), y.floor());
            let (right, down) = (x - left, y - top);
            let (left, top) = (left as i64, top as i64);
            let row = |y: i64| pixel(left, y) * (1.0 - right) + pixel(left + 1, y) * right;
            *out = (row(top) * (1.0 - down) + row(top + 1) * down) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of a turn, a pixel to the right, and nothing at all, on an image whose every pixel is another.
    #[test]
    fn images_are_turned_and_moved() {
        let image: Vec<f32> = (0..Lenet::PIXELS).map(|i| i as f32 / 1024.0).collect();
        let apply = |matrix, shift| {
            let mut out = vec![0.0; Lenet::PIXELS];
            Warp { matrix, shift }.apply(&image, &mut out);
            out
        };
        let one = [[1.0, 0.0], [0.0, 1.0]];
        assert_eq!(apply(one, [0.0, 0.0]), image);
        let moved = apply(one, [-1.0, 0.0]);
        assert!((0..Lenet::PIXELS).all(|i| moved[i] == if i % SIDE == 0 { -1.0 } else { image[i - 1] }));
        let turned = apply([[0.0, -1.0], [1.0, 0.0]], [0.0, 0.0]);
        assert!((0..Lenet::PIXELS).all(|i| turned[i] == image[i % SIDE * SIDE + SIDE - 1 - i / SIDE]));
        let half = apply(one, [0.5, 0.0]);
        assert_eq!(half[40], (image[40] + image[41]) / 2.0);
    }

    /// Draws stay within their bounds and differ from image to image and from pass to pass.
    #[test]
    fn draws_differ_and_stay_within_bounds() {
        let all: Vec<Warp> = (0..1000).map(|i| Warp::drawn(3, i % 2, i as usize / 2)).collect();
        let most = all.iter().map(|w| w.shift[0].abs().max(w.shift[1].abs())).fold(0.0, f64::max);
        assert!(most < SHIFT && most > 0.98 * SHIFT);
        let mut shifts: Vec<f64> = all.iter().map(|w| w.shift[0]).collect();
        shifts.sort_by(f64::total_cmp);
        shifts.dedup();
        assert_eq!(shifts.len(), 1000);
        let mut order = shuffled(100, 0, 1);
        assert_ne!(order, shuffled(100, 0, 2));
        order.sort();
        assert!(order.into_iter().eq(0..100));
    }
}
