//! The kernels at every level against plain loops, and with equal bits wherever there is fused multiply-add.

use super::*;
use crate::levels::{at_every_level, is_fused};
use motes::noise::{Noise, Purpose};

pub(in crate::bnn) fn normals<F: Real>(len: usize, seed: u64) -> Vec<F> {
    let mut x = vec![F::default(); len];
    F::normals(&Noise::new(seed, Purpose::Check), 0, 0, &mut x);
    x
}

/// Sums as the kernels are to make them: a chain over the terms for each lane.
fn chain<F: Real>(fused: bool, start: F, terms: impl Iterator<Item = (F, F)>) -> F {
    terms.fold(start, |sum, (a, b)| if fused { fma::<F, true>(a, b, sum) } else { a * b + sum })
}

/// The products at every level: exactly the chains, in strips of whole vectors of every width.
fn products_are_chains<F: Real>() {
    for width in (1..=2 * MOST_VECTORS).map(|i| i * 64 / size_of::<F>() / 2) {
        let (rows, columns) = (10, 11);
        let (matrix, strip) = (normals::<F>(rows * 20, 1), normals::<F>(columns * width, 2));
        let start = normals::<F>(rows * width, 3);
        let list: Vec<u32> = (0..columns as u32).map(|i| (7 * i) % 20).collect();
        let pairs = &matrix.as_chunks::<2>().0[..rows / 2 * columns];
        let entries: Vec<Entry<F>> = (0..25u32)
            .map(|i| Entry { column: 3 * i % 11, values: [matrix[i as usize], matrix[i as usize + 30]] })
            .collect();
        let ends = [2, 9, 9, 25];
        // Strips are of whole vectors, five at most unless these are narrow.
        let bytes = width * size_of::<F>();
        let fits =
            |vector: usize| bytes.is_multiple_of(vector) && (vector < 32 || bytes <= MOST_VECTORS * vector);
        for pick in [Pick::From(5), Pick::List(&list)] {
            let block = Block { matrix: &matrix, stride: 20, rows: Pick::From(0), columns: pick };
            let all = at_every_level!(simd => {
                let mut out = start.clone();
                if fits(vector(simd)) {
                    dense_kernel(simd, width, block, &strip, &mut out);
                }
                out
            });
            for (level, out) in all.into_iter().filter(|(level, _)| fits(vector_of(level))) {
                for (at, out) in out.into_iter().enumerate() {
                    let (row, lane) = (at / width, at % width);
                    let terms =
                        (0..columns).map(|k| (matrix[row * 20 + pick.get(k)], strip[k * width + lane]));
                    assert_eq!(out, chain(is_fused(level), start[at], terms), "{level}, {width} lanes");
                }
            }
        }
        for fresh in [true, false] {
            let all = at_every_level!(simd => {
                let mut out = start.clone();
                if fits(vector(simd)) {
                    packed_kernel(simd, width, fresh, pairs, &strip, &mut out);
                }
                out
            });
            for (level, out) in all.into_iter().filter(|(level, _)| fits(vector_of(level))) {
                for (at, out) in out.into_iter().enumerate() {
                    let (row, lane) = (at / width, at % width);
                    let terms = (0..columns)
                        .map(|k| (pairs[row / 2 * columns + k][row % 2], strip[k * width + lane]));
                    let from = if fresh { F::default() } else { start[at] };
                    assert_eq!(out, chain(is_fused(level), from, terms), "{level}, {width} lanes");
                }
            }
        }
        let all = at_every_level!(simd => {
            let mut out = start.clone();
            if fits(vector(simd)) {
                sparse_kernel(simd, width, &entries, &ends, &strip, &mut out);
            }
            out
        });
        for (level, out) in all.into_iter().filter(|(level, _)| fits(vector_of(level))) {
            for (at, out) in out.into_iter().enumerate() {
                let (row, lane) = (at / width, at % width);
                let of_pair = match ends.get(row / 2..row / 2 + 2) {
                    Some(ends) => &entries[ends[0] as usize..ends[1] as usize],
                    None => &[],
                };
                let terms =
                    of_pair.iter().map(|e| (e.values[row % 2], strip[e.column as usize * width + lane]));
                assert_eq!(out, chain(is_fused(level), start[at], terms), "{level}, {width} lanes");
            }
        }
    }
}

/// Bytes of a level's vectors.
fn vector<S: Isa>(_: S) -> usize {
    size_of::<S::f32s>()
}

/// The same by the level's word.
fn vector_of(level: &str) -> usize {
    at_every_level!(simd => vector(simd)).into_iter().find(|(name, _)| *name == level).expect("a level").1
}

#[test]
fn products_are_chains_in_both_precisions() {
    products_are_chains::<f32>();
    products_are_chains::<f64>();
}

fn agree<F: Real>(a: &[F], b: &[F], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a.f64() - b.f64()).abs() <= tolerance, "{a:?} {b:?}");
    }
}

/// What lies between the products, with and without fused multiply-add; the panels stand in wider rows.
fn what_lies_between_agrees<F: Real>(tolerance: f64) {
    for nv in 1..=MOST_VECTORS {
        let width = nv * lanes::<F>();
        let strip = 2 * width;
        let t = normals::<F>(11 * strip, 2);
        let (v, r) = (normals::<F>(2 * width, 5), normals::<F>(2 * 11, 6));
        let panel = |row: usize| &t[row * strip + width..][..width];
        let truth: Vec<F> = (0..11)
            .map(|row| F::of(panel(row).iter().zip(&v).map(|(t, v)| t.f64() * v.f64()).sum::<f64>()))
            .collect();
        let (mut a, mut b) = (vec![F::default(); 11], vec![F::default(); 11]);
        dot(&t[width..], strip, &v[..width], &mut a);
        dot_kernel::<F, false>(&t[width..], strip, &v[..width], &mut b);
        agree(&a, &truth, tolerance);
        agree(&b, &truth, tolerance);
        let run = |wide: bool| {
            let mut t = t.clone();
            let (mut grad_v, mut sum) = (normals::<F>(2 * width, 7), normals::<F>(width, 8));
            let sums = Sums { grad_v: &mut grad_v, deltas: &mut sum };
            if wide {
                deltas(&mut t[width..], strip, &v, &r, 11, sums);
            } else {
                deltas_kernel::<F, false>(&mut t[width..], strip, &v, &r, 11, sums);
            }
            [t, grad_v, sum].concat()
        };
        let both = [run(true), run(false)];
        agree(&both[0], &both[1], tolerance);
        for both in both {
            for (at, (&new, &old)) in both.iter().zip(&t).enumerate() {
                let (row, lane) = (at / strip, (at % strip).wrapping_sub(width));
                let u = |lane: usize| {
                    (0..2).map(|l| r[l * 11 + row].f64() * v[l * width + lane].f64()).sum::<f64>()
                };
                let expected = if lane < width { (1.0 - old.f64() * old.f64()) * u(lane) } else { old.f64() };
                assert!((new.f64() - expected).abs() <= tolerance, "{new:?} {expected}");
            }
        }
    }
    let x = normals::<F>(77, 9);
    assert!((squares(&x) - squares_kernel::<F, false>(&x)).abs() < 1e-12);
}

#[test]
fn what_lies_between_agrees_in_both_precisions() {
    what_lies_between_agrees::<f32>(1e-4);
    what_lies_between_agrees::<f64>(1e-13);
}
