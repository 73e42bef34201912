//! Adam in single precision, for searches of latents and for the classifier: the weights of a generator are moved by the core.

const EPSILON: f32 = 1e-8;

/// A step against the gradient; k counts steps from 0, `memory` holds both moments.
pub fn adam(values: &mut [f32], gradient: &[f32], memory: &mut [f32], k: u64, rate: f32) {
    let (first, second) = memory.split_at_mut(values.len());
    let t = (k + 1) as f64;
    let unbias1 = (1.0 - libm::pow(0.9, t)) as f32;
    let root_unbias2 = (1.0 - libm::pow(0.999, t)).sqrt() as f32;
    for (((w, g), m), v) in values.iter_mut().zip(gradient).zip(first).zip(second) {
        *m = 0.9 * *m + 0.1 * g;
        *v = 0.999 * *v + 0.001 * g * g;
        *w -= rate / unbias1 * *m / (v.sqrt() / root_unbias2 + EPSILON);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps with gradients 3 and then -4 from 0, worked out by hand from the published update.
    #[test]
    fn two_steps_by_hand() {
        let (mut w, mut memory) = ([0f32], [0f32; 2]);
        let moved = [(0, 3.0), (1, -4.0)].map(|(k, g)| {
            let before = w[0];
            adam(&mut w, &[g], &mut memory, k, 0.1);
            f64::from(w[0] - before)
        });
        let m = (0.9 * 0.3 - 0.4) / 0.19;
        let v = (0.999 * 0.009 + 0.016) / (1.0 - 0.999f64.powi(2));
        let want = [-0.1, -0.1 * m / v.sqrt()];
        assert!((0..2).all(|i| (moved[i] - want[i]).abs() < 1e-5), "{moved:?} {want:?}");
    }
}
