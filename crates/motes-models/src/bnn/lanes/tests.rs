//! The kernels that run here against their portable forms.

use super::*;
use motes::noise::{Noise, Purpose};

pub(in crate::bnn) fn normals<F: Real>(len: usize, seed: u64) -> Vec<F> {
    let mut x = vec![F::default(); len];
    F::normals(&Noise::new(seed, Purpose::Check), 0, 0, &mut x);
    x
}

fn agree<F: Real>(a: &[F], b: &[F], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a.f64() - b.f64()).abs() <= tolerance, "{a:?} {b:?}");
    }
}

/// The kernels that run here and their portable forms.
fn both_instruction_sets_agree<F: Real>(tolerance: f64) {
    for nv in 1..=MOST_VECTORS {
        let width = nv * lanes::<F>();
        let (rows, columns) = (6, 11);
        let (matrix, panel) = (normals::<F>(rows * 20, 1), normals::<F>(columns * width, 2));
        let list: Vec<u32> = (0..columns as u32).map(|i| (7 * i) % 20).collect();
        for pick in [Pick::From(5), Pick::List(&list)] {
            let block = Block { matrix: &matrix, stride: 20, rows: Pick::From(0), columns: pick };
            let start = normals::<F>(rows * width, 3);
            let (mut a, mut b) = (start.clone(), start);
            dense(nv, block, &panel, &mut a);
            // SAFETY: nothing is asked of the processor.
            unsafe { dense_kernel::<F, false>(nv, block, &panel, &mut b) };
            agree(&a, &b, tolerance);
        }
        let pairs = matrix.as_chunks::<2>().0;
        let (mut a, mut b) = (normals::<F>(rows * width, 4), normals::<F>(rows * width, 4));
        for fresh in [true, false] {
            packed(nv, fresh, &pairs[..rows / 2 * columns], &panel, &mut a);
            // SAFETY: nothing is asked of the processor.
            unsafe { packed_kernel::<F, false>(nv, fresh, &pairs[..rows / 2 * columns], &panel, &mut b) };
            agree(&a, &b, tolerance);
        }
        let entries: Vec<Entry<F>> = (0..25u32)
            .map(|i| Entry { column: 3 * i % 11, values: [matrix[i as usize], matrix[i as usize + 30]] })
            .collect();
        let ends = [2, 9, 9, 25];
        let (mut a, mut b) = (normals::<F>(rows * width, 4), normals::<F>(rows * width, 4));
        sparse(nv, &entries, &ends, &panel, &mut a);
        // SAFETY: nothing is asked of the processor.
        unsafe { sparse_kernel::<F, false>(nv, &entries, &ends, &panel, &mut b) };
        agree(&a, &b, tolerance);

        let (v, r) = (normals::<F>(2 * width, 5), normals::<F>(2 * 8, 6));
        let (mut a, mut b) = (vec![F::default(); columns], vec![F::default(); columns]);
        dot(&panel, &v[..width], &mut a);
        dot_kernel::<F, false>(&panel, &v[..width], &mut b);
        agree(&a, &b, tolerance);
        let run = |wide: bool| {
            let mut t = panel[..6 * width].to_vec();
            let (mut grad_v, mut sum) = (normals::<F>(2 * width, 7), normals::<F>(width, 8));
            let sums = Sums { grad_v: &mut grad_v, deltas: &mut sum };
            if wide {
                deltas(&mut t, &v, &r, 8, sums);
            } else {
                deltas_kernel::<F, false>(&mut t, &v, &r, 8, sums);
            }
            [t, grad_v, sum].concat()
        };
        agree(&run(true), &run(false), tolerance);
    }
    let x = normals::<F>(77, 9);
    assert!((squares(&x) - squares_kernel::<F, false>(&x)).abs() < 1e-12);
}

#[test]
fn both_instruction_sets_agree_in_single_precision() {
    both_instruction_sets_agree::<f32>(1e-4);
}

#[test]
fn both_instruction_sets_agree_in_double_precision() {
    both_instruction_sets_agree::<f64>(1e-13);
}
