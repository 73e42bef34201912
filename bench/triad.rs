//! Memory bandwidth: `triad THREADS` prints the best of some passes, counting each byte read or written once.

use std::hint::black_box;
use std::time::Instant;

fn main() {
    let threads: usize = std::env::args().nth(1).and_then(|t| t.parse().ok()).unwrap_or(2);
    // Three arrays of 128 MB, far beyond any cache.
    let len = 32 << 20;
    let (mut a, b, c) = (vec![1.0f32; len], vec![2.0f32; len], vec![3.0f32; len]);
    let chunk = len.div_ceil(threads);
    let triad = best(12 * len, || {
        std::thread::scope(|s| {
            for ((a, b), c) in a.chunks_mut(chunk).zip(b.chunks(chunk)).zip(c.chunks(chunk)) {
                s.spawn(move || a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + 0.5 * c));
            }
        });
        black_box(&a);
    });
    println!("triad a = b + s c, 3 x 128 MB, {threads} threads {triad:.2}");
    // The traffic of a step: 40 MB read and written in place.
    let x = &mut a[..10_000_000];
    let chunk = x.len().div_ceil(threads);
    let update = best(8 * x.len(), || {
        std::thread::scope(|s| {
            for x in x.chunks_mut(chunk) {
                s.spawn(move || x.iter_mut().for_each(|x| *x = 0.5 * *x + 1.0));
            }
        });
        black_box(&*x);
    });
    println!("update x = s x + t, 40 MB in place, {threads} threads {update:.2}");
}

fn best(bytes: usize, mut pass: impl FnMut()) -> f64 {
    let mut seconds = f64::MAX;
    for _ in 0..30 {
        let began = Instant::now();
        pass();
        seconds = seconds.min(began.elapsed().as_secs_f64());
    }
    bytes as f64 / seconds / 1e9
}
