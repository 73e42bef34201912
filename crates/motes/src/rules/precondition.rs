//! Preconditioners: the matrix Lambda of eq. 16, fixed or adapted with k.

use crate::settings::Preconditioner;

const EPSILON: f64 = 1e-8;

/// How many numbers a preconditioner remembers for d parameters.
pub fn memory_len(kind: Preconditioner, d: usize) -> usize {
    match kind {
        Preconditioner::None | Preconditioner::Diagonal => 0,
        Preconditioner::Adagrad | Preconditioner::Rmsprop => d,
        Preconditioner::Adam => 2 * d,
    }
}

/// Turns the mean gradient of step k (counted from 0) into the direction that h multiplies, in place.
///
/// RMSProp is PyTorch's: decay 0.99, epsilon outside the root, not centred, no bias correction.
pub fn precondition(
    kind: Preconditioner,
    terms: Option<&[f64]>,
    k: u64,
    gradient: &mut [f64],
    memory: &mut [f64],
) {
    match kind {
        Preconditioner::None => {}
        Preconditioner::Diagonal => {
            if let Some(terms) = terms {
                gradient.iter_mut().zip(terms).for_each(|(g, t)| *g /= t);
            }
        }
        Preconditioner::Adagrad => {
            for (g, v) in gradient.iter_mut().zip(memory) {
                *v += *g * *g;
                *g /= v.sqrt() + EPSILON;
            }
        }
        Preconditioner::Rmsprop => {
            for (g, v) in gradient.iter_mut().zip(memory) {
                *v = 0.99 * *v + 0.01 * *g * *g;
                *g /= v.sqrt() + EPSILON;
            }
        }
        Preconditioner::Adam => {
            let (first, second) = memory.split_at_mut(gradient.len());
            adam_direction(k, gradient, first, second);
        }
    }
}

/// Adam's direction at step k in place of the gradient, by its two moments.
pub(crate) fn adam_direction(k: u64, gradient: &mut [f64], first: &mut [f64], second: &mut [f64]) {
    let t = (k + 1) as f64;
    let (unbias1, unbias2) = (1.0 - libm::pow(0.9, t), 1.0 - libm::pow(0.999, t));
    for ((g, m), v) in gradient.iter_mut().zip(first).zip(second) {
        *m = 0.9 * *m + 0.1 * *g;
        *v = 0.999 * *v + 0.001 * *g * *g;
        *g = (*m / unbias1) / ((*v / unbias2).sqrt() + EPSILON);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps with gradients 3 and then -4, worked out by hand from the published updates.
    #[test]
    fn two_steps_by_hand() {
        let two = |kind| {
            let mut memory = vec![0.0; memory_len(kind, 1)];
            [3.0, -4.0].map(|g: f64| {
                let mut gradient = [g];
                let k = if g > 0.0 { 0 } else { 1 };
                precondition(kind, Some(&[8.0]), k, &mut gradient, &mut memory);
                gradient[0]
            })
        };
        let close = |got: [f64; 2], want: [f64; 2]| {
            assert!((0..2).all(|i| (got[i] - want[i]).abs() < 1e-6), "{got:?} {want:?}");
        };
        close(two(Preconditioner::None), [3.0, -4.0]);
        close(two(Preconditioner::Diagonal), [0.375, -0.5]);
        close(two(Preconditioner::Adagrad), [1.0, -0.8]);
        close(two(Preconditioner::Rmsprop), [10.0, -4.0 / (0.0891f64 + 0.16).sqrt()]);
        let m = (0.9 * 0.3 - 0.4) / 0.19;
        let v = (0.999 * 0.009 + 0.016) / (1.0 - 0.999f64.powi(2));
        close(two(Preconditioner::Adam), [1.0, m / v.sqrt()]);
    }
}
