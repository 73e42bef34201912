//! Steps of the weights against a gradient, in single precision as PyTorch makes them.

const EPSILON: f32 = 1e-8;

/// Plain gradient descent.
pub fn plain(weights: &mut [f32], gradient: &[f32], rate: f32) {
    weights.iter_mut().zip(gradient).for_each(|(w, g)| *w -= rate * g);
}

/// RMSProp: decay 0.99, epsilon outside the root, not centred, no bias correction.
pub fn rmsprop(weights: &mut [f32], gradient: &[f32], memory: &mut [f32], rate: f32) {
    for ((w, g), v) in weights.iter_mut().zip(gradient).zip(memory) {
        *v = 0.99 * *v + 0.01 * g * g;
        *w -= rate * g / (v.sqrt() + EPSILON);
    }
}

/// Adam with its usual constants; k counts steps from 0, `memory` holds both moments.
pub fn adam(weights: &mut [f32], gradient: &[f32], memory: &mut [f32], k: u64, rate: f32) {
    let (first, second) = memory.split_at_mut(weights.len());
    let t = (k + 1) as f64;
    let unbias1 = (1.0 - 0.9f64.powf(t)) as f32;
    let root_unbias2 = (1.0 - 0.999f64.powf(t)).sqrt() as f32;
    for (((w, g), m), v) in weights.iter_mut().zip(gradient).zip(first).zip(second) {
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.999 * *v + 0.001 * g * g;
        *w -= rate / unbias1 * *m / (v.sqrt() / root_unbias2 + EPSILON);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps with gradients 3 and then -4 from 0, worked out by hand from the published updates.
    #[test]
    fn two_steps_by_hand() {
        type Step<'a> = &'a dyn Fn(&mut [f32], &[f32], &mut [f32], u64);
        let two = |step: Step<'_>| {
            let (mut w, mut memory) = ([0f32], [0f32; 2]);
            [(0, 3.0), (1, -4.0)].map(|(k, g)| {
                let before = w[0];
                step(&mut w, &[g], &mut memory, k);
                f64::from(w[0] - before)
            })
        };
        let close = |got: [f64; 2], want: [f64; 2]| {
            assert!((0..2).all(|i| (got[i] - want[i]).abs() < 1e-5), "{got:?} {want:?}");
        };
        close(two(&|w, g, _, _| plain(w, g, 0.1)), [-0.3, 0.4]);
        close(two(&|w, g, m, _| rmsprop(w, g, &mut m[..1], 0.1)), [-1.0, 0.4 / (0.0891f64 + 0.16).sqrt()]);
        let m = (0.9 * 0.3 - 0.4) / 0.19;
        let v = (0.999 * 0.009 + 0.016) / (1.0 - 0.999f64.powi(2));
        close(two(&|w, g, m, k| adam(w, g, m, k, 0.1)), [-0.1, -0.1 * m / v.sqrt()]);
    }
}
