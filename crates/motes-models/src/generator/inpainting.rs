//! The search for latents whose decoded image agrees with the seen pixels of a given one (eq. 73).

use std::sync::atomic::{AtomicU64, Ordering};

use motes::Flow;
use motes::noise::{Noise, Purpose};

use super::adam;
use super::{Decoder, Mode, Wanted};

/// Images that are searched for together: the rest waits, so that memory stays small.
const TOGETHER: usize = 32;

/// How the search is made; the default is the paper's: Adam from 4 starts, its rate halved on plateaus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Starts for each image, drawn from the prior; the best one counts.
    pub starts: usize,
    /// Steps at most.
    pub steps: u64,
    /// Steps without a better loss after which a start is given up.
    pub give_up: u64,
    /// The first learning rate.
    pub rate: f64,
    /// The seed of the starts.
    pub seed: u64,
}

impl Default for Search {
    fn default() -> Self {
        Search { starts: 4, steps: 1000, give_up: 50, rate: 1.0, seed: 0 }
    }
}

/// What a search has found for each image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The latents.
    pub x: Vec<f32>,
    /// The images that they decode to.
    pub images: Vec<f32>,
    /// The sum of squared errors over the seen values.
    pub losses: Vec<f64>,
}

/// One start of one image.
struct Start {
    image: usize,
    x: Vec<f32>,
    memory: Vec<f32>,
    plateau: Plateau,
    best: (f64, Vec<f32>),
    since_best: u64,
}

/// PyTorch's ReduceLROnPlateau: factor 0.5, patience 10, relative threshold 1e-4, least rate 1e-5.
struct Plateau {
    rate: f64,
    best: f64,
    bad: u32,
}

impl Plateau {
    fn see(&mut self, loss: f64) {
        if loss < self.best * (1.0 - 1e-4) {
            (self.best, self.bad) = (loss, 0);
        } else {
            self.bad += 1;
        }
        if self.bad > 10 {
            (self.rate, self.bad) = ((self.rate * 0.5).max(1e-5), 0);
        }
    }
}

/// Searches for the latents of each image, seeing only the values where `seen` holds. `told` hears after each step how
/// many images' worth of the search is done and may stop it, which then has found nothing. Images are searched for independently:
/// none depends on its company.
pub fn inpaint(
    decoder: &mut dyn Decoder,
    images: &[f32],
    seen: &[bool],
    search: &Search,
    told: &mut dyn FnMut(usize) -> Flow,
) -> Option<Found> {
    let (d_x, d_y) = (decoder.d_x(), decoder.d_y());
    let mut found = Found::default();
    for (chunk, targets) in images.chunks(TOGETHER * d_y).enumerate() {
        let first = chunk * TOGETHER;
        let best = search_chunk(decoder, targets, seen, search, first, told)?;
        for (loss, x) in best {
            found.losses.push(loss);
            found.x.extend(x);
        }
    }
    found.images.resize(found.losses.len() * d_y, 0.0);
    for (x, images) in found.x.chunks(TOGETHER * d_x).zip(found.images.chunks_mut(TOGETHER * d_y)) {
        decoder.decode(x, images);
    }
    Some(found)
}

fn search_chunk(
    decoder: &mut dyn Decoder,
    targets: &[f32],
    seen: &[bool],
    search: &Search,
    first: usize,
    told: &mut dyn FnMut(usize) -> Flow,
) -> Option<Vec<(f64, Vec<f32>)>> {
    let (d_x, d_y) = (decoder.d_x(), decoder.d_y());
    let count = targets.len() / d_y;
    let noise = Noise::new(search.seed, Purpose::Inpainting);
    let mut running: Vec<Start> = Vec::new();
    for image in 0..count {
        for start in 0..search.starts {
            let mut x = vec![0.0; d_x];
            noise.normals_f32(start as u64, ((first + image) * d_x) as u64, &mut x);
            running.push(Start {
                image,
                memory: vec![0.0; 2 * d_x],
                plateau: Plateau { rate: search.rate, best: f64::INFINITY, bad: 0 },
                best: (f64::INFINITY, x.clone()),
                since_best: 0,
                x,
            });
        }
    }
    let mut best: Vec<(f64, Vec<f32>)> = vec![(f64::INFINITY, vec![0.0; d_x]); count];
    let (mut x, mut gradient) = (Vec::new(), Vec::new());
    let losses: Vec<AtomicU64> = running.iter().map(|_| AtomicU64::new(0)).collect();
    for k in 0..search.steps {
        if running.is_empty() {
            break;
        }
        x.clear();
        running.iter().for_each(|s| x.extend_from_slice(&s.x));
        gradient.resize(x.len(), 0.0);
        let owners: Vec<usize> = running.iter().map(|s| s.image).collect();
        let loss = |i: usize, image: &[f32], gradient: &mut [f32]| {
            let target = &targets[owners[i] * d_y..][..d_y];
            let mut sum = 0.0;
            for j in 0..d_y {
                let difference = if seen[j] { image[j] - target[j] } else { 0.0 };
                gradient[j] = 2.0 * difference;
                sum += f64::from(difference * difference);
            }
            losses[i].store(sum.to_bits(), Ordering::Relaxed);
            sum
        };
        decoder.backward(Mode::Eval, &x, &loss, Wanted { latents: Some(&mut gradient), ..Wanted::default() });
        for (i, (start, gradient)) in running.iter_mut().zip(gradient.chunks_exact(d_x)).enumerate() {
            let loss = f64::from_bits(losses[i].load(Ordering::Relaxed));
            start.since_best += 1;
            if loss < start.best.0 {
                start.best.0 = loss;
                start.best.1.copy_from_slice(&start.x);
            }
            let rounded = (loss * 1000.0).round() / 1000.0;
            if rounded < start.plateau.best {
                start.since_best = 0;
            }
            adam(&mut start.x, gradient, &mut start.memory, k, start.plateau.rate as f32);
            start.plateau.see(rounded);
        }
        let last = k + 1 == search.steps;
        running.retain_mut(|s| {
            let goes_on = !last && s.since_best < search.give_up && s.x.iter().all(|v| v.is_finite());
            if !goes_on && s.best.0 < best[s.image].0 {
                best[s.image] = std::mem::take(&mut s.best);
            }
            goes_on
        });
        // Starts are in the order of their images.
        let at_work = running.chunk_by(|a, b| a.image == b.image).count();
        let by_steps = (count as u64 * (k + 1) / search.steps) as usize;
        if told(first + by_steps.max(count - at_work)) == Flow::Stop {
            return None;
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_halved_after_eleven_bad_steps() {
        let mut plateau = Plateau { rate: 1.0, best: f64::INFINITY, bad: 0 };
        plateau.see(1.0);
        for _ in 0..10 {
            plateau.see(1.0);
        }
        assert_eq!(plateau.rate, 1.0);
        plateau.see(0.99995); // not better by the threshold
        assert_eq!(plateau.rate, 0.5);
        for _ in 0..2000 {
            plateau.see(1.0);
        }
        assert_eq!(plateau.rate, 1e-5);
    }
}
