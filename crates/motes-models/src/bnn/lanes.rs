//! Arithmetic on lanes of hidden units: the tiles of the two products, and what lies between them.
//!
//! A *panel* is NV vectors of 32 bytes, a lane per hidden unit. The tiles of the products are two rows by five vectors,
//! which fill the sixteen registers.

use motes::Real;
use motes::simd::dispatch;
use motes::vmath;

/// The most vectors of a panel: two rows of as many sums, one vector and a broadcast fill the registers.
pub(super) const MOST_VECTORS: usize = 5;

/// Lanes of one 32-byte vector.
pub(super) const fn lanes<F>() -> usize {
    32 / size_of::<F>()
}

/// `a * b + c`, rounded once if `FMA`. [`Real`] has no such method; the casts vanish.
#[inline(always)]
fn fma<F: Real, const FMA: bool>(a: F, b: F, c: F) -> F {
    if !FMA {
        a * b + c
    } else if size_of::<F>() == 4 {
        bytemuck::cast(f32::mul_add(bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c)))
    } else {
        bytemuck::cast(f64::mul_add(bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c)))
    }
}

macro_rules! by_type {
    ($($(#[$meta:meta])* $name:ident = $single:ident, $double:ident;)*) => {$(
        $(#[$meta])*
        pub(super) fn $name<F: Real>(x: &mut [F]) {
            if size_of::<F>() == 4 {
                vmath::$single(bytemuck::cast_slice_mut(x));
            } else {
                vmath::$double(bytemuck::cast_slice_mut(x));
            }
        }
    )*};
}

by_type! {
    /// Replaces each x by its hyperbolic tangent.
    tanh = tanh_f32, tanh_f64;
    /// Replaces each x by e^x.
    exp = exp_f32, exp_f64;
    /// Replaces each x by 1 / (1 + e^-x).
    sigmoid = sigmoid_f32, sigmoid_f64;
}

/// The terms of a pair of sums: which row of the panel, and its two factors.
trait Terms<F> {
    fn len(&self) -> usize;
    fn term(&self, i: usize) -> (usize, F, F);
}

/// Two rows of a dense matrix against successive rows of the panel.
struct Successive<'a, F>(&'a [F], &'a [F]);

impl<F: Real> Terms<F> for Successive<'_, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, F, F) {
        (i, self.0[i], self.1[i])
    }
}

/// Chosen columns of two rows of a dense matrix against successive rows of the panel.
struct Chosen<'a, F>(&'a [F], &'a [F], &'a [u32]);

impl<F: Real> Terms<F> for Chosen<'_, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.2.len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, F, F) {
        let column = self.2[i] as usize;
        (i, self.0[column], self.1[column])
    }
}

/// Two rows of a dense matrix, interleaved, against successive rows of the panel.
impl<F: Real> Terms<F> for &[[F; 2]] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, F, F) {
        let [p, q] = self[i];
        (i, p, q)
    }
}

/// A column in which at least one row of a pair is not zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<F> {
    /// Which column, counted from the first of its tile.
    pub column: u32,
    /// The values of the two rows.
    pub values: [F; 2],
}

impl<F: Real> Terms<F> for &[Entry<F>] {
    #[inline(always)]
    fn len(&self) -> usize {
        (**self).len()
    }
    #[inline(always)]
    fn term(&self, i: usize) -> (usize, F, F) {
        let Entry { column, values: [p, q] } = self[i];
        (column as usize, p, q)
    }
}

/// Adds a pair of sums over rows of the panel to two rows of `out`, or writes them if `fresh`.
///
/// # Safety
///
/// With `FMA`, the processor must have AVX2 and FMA; so it is with all unsafe functions here.
#[inline(always)]
unsafe fn add_pair<F: Real, const FMA: bool, const L: usize, const NV: usize>(
    fresh: bool,
    terms: impl Terms<F>,
    panel: &[[[F; L]; NV]],
    out: &mut [[[F; L]; NV]; 2],
) {
    #[cfg(target_arch = "x86_64")]
    if FMA {
        if size_of::<F>() == 4 {
            // SAFETY: `FMA` says that the processor has AVX2 and FMA; four bytes are f32.
            return unsafe { add_pair_f32(fresh, terms, panel, out) };
        }
        // SAFETY: the same, and eight bytes are f64.
        return unsafe { add_pair_f64(fresh, terms, panel, out) };
    }
    let [mut p, mut q] = if fresh { [[[F::default(); L]; NV]; 2] } else { *out };
    for i in 0..terms.len() {
        let (k, a, b) = terms.term(i);
        for v in 0..NV {
            for l in 0..L {
                p[v][l] = fma::<F, FMA>(a, panel[k][v][l], p[v][l]);
                q[v][l] = fma::<F, FMA>(b, panel[k][v][l], q[v][l]);
            }
        }
    }
    *out = [p, q];
}

/// Terms that are added without a branch between them: the end of so short a loop is foreseen.
#[cfg(target_arch = "x86_64")]
const UNROLLED: usize = 8;

/// [`add_pair`] by intrinsics: what the compiler makes of the plain one depends on the level of optimisation, tenfold.
#[cfg(target_arch = "x86_64")]
macro_rules! add_pair_wide {
    ($name:ident, $float:ty, $load:ident, $store:ident, $all:ident, $fmadd:ident) => {
        /// # Safety
        ///
        /// The processor must have AVX2 and FMA, F must be the type that this is for, and L vectors of it 32 bytes.
        #[inline(always)]
        unsafe fn $name<F: Real, const L: usize, const NV: usize>(
            fresh: bool,
            terms: impl Terms<F>,
            panel: &[[[F; L]; NV]],
            out: &mut [[[F; L]; NV]; 2],
        ) {
            use std::arch::x86_64::{$all, $fmadd, $load, $store};
            assert!(size_of::<[F; L]>() == 32 && size_of::<F>() == size_of::<$float>());
            // SAFETY: as above; every pointer is to L numbers, which is a vector.
            unsafe {
                let (mut p, mut q) = ([$all(0.0); NV], [$all(0.0); NV]);
                if !fresh {
                    for v in 0..NV {
                        p[v] = $load(out[0][v].as_ptr().cast());
                        q[v] = $load(out[1][v].as_ptr().cast());
                    }
                }
                // A macro, for a closure would not be inlined among the instructions that it may use.
                macro_rules! add {
                    ($i:expr) => {{
                        let (k, a, b) = terms.term($i);
                        let row = &panel[k];
                        let (a, b) =
                            ($all(bytemuck::cast::<F, $float>(a)), $all(bytemuck::cast::<F, $float>(b)));
                        for v in 0..NV {
                            let vector = $load(row[v].as_ptr().cast());
                            p[v] = $fmadd(a, vector, p[v]);
                            q[v] = $fmadd(b, vector, q[v]);
                        }
                    }};
                }
                let whole = terms.len() - terms.len() % UNROLLED;
                for first in (0..whole).step_by(UNROLLED) {
                    for i in 0..UNROLLED {
                        add!(first + i);
                    }
                }
                for i in whole..terms.len() {
                    add!(i);
                }
                for v in 0..NV {
                    $store(out[0][v].as_mut_ptr().cast(), p[v]);
                    $store(out[1][v].as_mut_ptr().cast(), q[v]);
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
add_pair_wide!(add_pair_f32, f32, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps);
#[cfg(target_arch = "x86_64")]
add_pair_wide!(add_pair_f64, f64, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd);

/// Some rows and columns of a row-major matrix.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, F> {
    pub matrix: &'a [F],
    pub stride: usize,
    /// The first row, or which rows; an odd one out is paired with itself.
    pub rows: Pick<'a>,
    /// The first column, or which columns; there are as many as the panel has rows.
    pub columns: Pick<'a>,
}

/// Successive numbers, or a list of them.
#[derive(Clone, Copy)]
pub(super) enum Pick<'a> {
    From(usize),
    List(&'a [u32]),
}

impl Pick<'_> {
    #[inline(always)]
    fn get(&self, i: usize) -> usize {
        match self {
            Pick::From(first) => first + i,
            Pick::List(list) => list[i.min(list.len() - 1)] as usize,
        }
    }
}

#[inline(always)]
unsafe fn dense_tile<F: Real, const FMA: bool, const L: usize, const NV: usize>(
    block: Block<'_, F>,
    panel: &[F],
    out: &mut [F],
) {
    let panel = panel.as_chunks::<L>().0.as_chunks::<NV>().0;
    let pairs = out.as_chunks_mut::<L>().0.as_chunks_mut::<NV>().0.as_chunks_mut::<2>().0;
    for (i, out) in pairs.iter_mut().enumerate() {
        let p = &block.matrix[block.rows.get(2 * i) * block.stride..][..block.stride];
        let q = &block.matrix[block.rows.get(2 * i + 1) * block.stride..][..block.stride];
        match block.columns {
            Pick::From(first) => {
                let (p, q) = (&p[first..][..panel.len()], &q[first..][..panel.len()]);
                // SAFETY: what is asked of the caller.
                unsafe { add_pair::<F, FMA, L, NV>(false, Successive(p, q), panel, out) };
            }
            // SAFETY: the same.
            Pick::List(list) => unsafe {
                add_pair::<F, FMA, L, NV>(false, Chosen(p, q, list), panel, out);
            },
        }
    }
}

#[inline(always)]
unsafe fn packed_tile<F: Real, const FMA: bool, const L: usize, const NV: usize>(
    fresh: bool,
    pairs: &[[F; 2]],
    panel: &[F],
    out: &mut [F],
) {
    let panel = panel.as_chunks::<L>().0.as_chunks::<NV>().0;
    let rows = out.as_chunks_mut::<L>().0.as_chunks_mut::<NV>().0.as_chunks_mut::<2>().0;
    for (pair, out) in pairs.chunks_exact(panel.len().max(1)).zip(rows) {
        // SAFETY: what is asked of the caller.
        unsafe { add_pair::<F, FMA, L, NV>(fresh, pair, panel, out) };
    }
}

#[inline(always)]
unsafe fn sparse_tile<F: Real, const FMA: bool, const L: usize, const NV: usize>(
    entries: &[Entry<F>],
    ends: &[u32],
    panel: &[F],
    out: &mut [F],
) {
    let panel = panel.as_chunks::<L>().0.as_chunks::<NV>().0;
    let pairs = out.as_chunks_mut::<L>().0.as_chunks_mut::<NV>().0.as_chunks_mut::<2>().0;
    for (ends, out) in ends.windows(2).zip(pairs) {
        let entries = &entries[ends[0] as usize..ends[1] as usize];
        // SAFETY: what is asked of the caller.
        unsafe { add_pair::<F, FMA, L, NV>(false, entries, panel, out) };
    }
}

/// Calls a tile with the constants for `$nv` vectors of type `$f`; what is not for it is compiled, but never called.
macro_rules! with_vectors {
    ($tile:ident, $f:ident, $nv:expr, $($arg:expr),*) => {
        match (size_of::<$f>(), $nv) {
            (4, 1) => $tile::<$f, FMA, 8, 1>($($arg),*),
            (4, 2) => $tile::<$f, FMA, 8, 2>($($arg),*),
            (4, 3) => $tile::<$f, FMA, 8, 3>($($arg),*),
            (4, 4) => $tile::<$f, FMA, 8, 4>($($arg),*),
            (4, _) => $tile::<$f, FMA, 8, 5>($($arg),*),
            (_, 1) => $tile::<$f, FMA, 4, 1>($($arg),*),
            (_, 2) => $tile::<$f, FMA, 4, 2>($($arg),*),
            (_, 3) => $tile::<$f, FMA, 4, 3>($($arg),*),
            (_, 4) => $tile::<$f, FMA, 4, 4>($($arg),*),
            (_, _) => $tile::<$f, FMA, 4, 5>($($arg),*),
        }
    };
}

dispatch! {
    /// Adds the product of a dense block and a panel of `nv` vectors to the rows of `out`.
    pub(super) fn dense<F: Real>(nv: usize, block: Block<'_, F>, panel: &[F], out: &mut [F]) = unsafe dense_kernel
}

#[inline(always)]
unsafe fn dense_kernel<F: Real, const FMA: bool>(nv: usize, block: Block<'_, F>, panel: &[F], out: &mut [F]) {
    // SAFETY: what is asked of the caller.
    unsafe { with_vectors!(dense_tile, F, nv, block, panel, out) }
}

dispatch! {
    /// Adds the product of interleaved pairs of dense rows and a panel of `nv` vectors to the rows of `out`, or writes it
    /// there if `fresh`.
    pub(super) fn packed<F: Real>(nv: usize, fresh: bool, pairs: &[[F; 2]], panel: &[F], out: &mut [F])
        = unsafe packed_kernel
}

#[inline(always)]
unsafe fn packed_kernel<F: Real, const FMA: bool>(
    nv: usize,
    fresh: bool,
    pairs: &[[F; 2]],
    panel: &[F],
    out: &mut [F],
) {
    // SAFETY: what is asked of the caller.
    unsafe { with_vectors!(packed_tile, F, nv, fresh, pairs, panel, out) }
}

dispatch! {
    /// Adds the product of sparse pairs of rows and a panel of `nv` vectors to the rows of `out`; pair i has the
    /// entries `ends[i]..ends[i + 1]`.
    pub(super) fn sparse<F: Real>(nv: usize, entries: &[Entry<F>], ends: &[u32], panel: &[F], out: &mut [F])
        = unsafe sparse_kernel
}

#[inline(always)]
unsafe fn sparse_kernel<F: Real, const FMA: bool>(
    nv: usize,
    entries: &[Entry<F>],
    ends: &[u32],
    panel: &[F],
    out: &mut [F],
) {
    // SAFETY: what is asked of the caller.
    unsafe { with_vectors!(sparse_tile, F, nv, entries, ends, panel, out) }
}

/// Calls a kernel with the number of lanes of type `$f`.
macro_rules! with_lanes {
    ($kernel:ident, $f:ident, $($arg:expr),*) => {
        if size_of::<$f>() == 4 {
            $kernel::<$f, FMA, 8>($($arg),*)
        } else {
            $kernel::<$f, FMA, 4>($($arg),*)
        }
    };
}

dispatch! {
    /// Adds the product of each row of a panel with v to `out`.
    pub(super) fn dot<F: Real>(panel: &[F], v: &[F], out: &mut [F]) = dot_kernel
}

#[inline(always)]
fn dot_kernel<F: Real, const FMA: bool>(panel: &[F], v: &[F], out: &mut [F]) {
    with_lanes!(dot_rows, F, panel, v, out)
}

#[inline(always)]
fn dot_rows<F: Real, const FMA: bool, const L: usize>(panel: &[F], v: &[F], out: &mut [F]) {
    let v = v.as_chunks::<L>().0;
    for (row, out) in panel.as_chunks::<L>().0.chunks_exact(v.len()).zip(out) {
        let mut sums = [F::default(); L];
        for (t, v) in row.iter().zip(v) {
            for l in 0..L {
                sums[l] = fma::<F, FMA>(t[l], v[l], sums[l]);
            }
        }
        let mut half = L / 2;
        while half > 0 {
            for l in 0..half {
                sums[l] += sums[l + half];
            }
            half /= 2;
        }
        *out += sums[0];
    }
}

/// What [`deltas`] adds up over the rows of a panel.
pub(super) struct Sums<'a, F> {
    /// The gradient for the output weights: a row of the panel's width for each class but the first.
    pub grad_v: &'a mut [F],
    /// The sum of the deltas.
    pub deltas: &'a mut [F],
}

dispatch! {
    /// Replaces each row t of a panel by delta = (1 - t^2) sum_l v_l r_l, where v has a row per class but the first,
    /// and r a row of `stride` numbers for each of these.
    pub(super) fn deltas<F: Real>(panel: &mut [F], v: &[F], r: &[F], stride: usize, sums: Sums<'_, F>)
        = deltas_kernel
}

#[inline(always)]
fn deltas_kernel<F: Real, const FMA: bool>(
    panel: &mut [F],
    v: &[F],
    r: &[F],
    stride: usize,
    sums: Sums<'_, F>,
) {
    with_lanes!(deltas_rows, F, panel, v, r, stride, sums)
}

#[inline(always)]
fn deltas_rows<F: Real, const FMA: bool, const L: usize>(
    panel: &mut [F],
    v: &[F],
    r: &[F],
    stride: usize,
    sums: Sums<'_, F>,
) {
    let (v, grad_v) = (v.as_chunks::<L>().0, sums.grad_v.as_chunks_mut::<L>().0);
    let total = sums.deltas.as_chunks_mut::<L>().0;
    let (nv, zero) = (total.len(), F::default());
    for (row, t) in panel.as_chunks_mut::<L>().0.chunks_exact_mut(nv).enumerate() {
        for i in 0..nv {
            let mut u = [zero; L];
            for (class, r) in r.chunks_exact(stride).enumerate() {
                let (v, grad_v) = (&v[class * nv + i], &mut grad_v[class * nv + i]);
                for l in 0..L {
                    u[l] = fma::<F, FMA>(r[row], v[l], u[l]);
                    grad_v[l] = fma::<F, FMA>(r[row], t[i][l], grad_v[l]);
                }
            }
            for l in 0..L {
                let t = &mut t[i][l];
                *t = fma::<F, FMA>(zero - u[l] * *t, *t, u[l]);
                total[i][l] += *t;
            }
        }
    }
}

dispatch! {
    /// Writes -precision x and returns the sum of squares of x.
    pub(super) fn prior<F: Real>(x: &[F], precision: F, grad: &mut [F]) -> f64 = prior_kernel
}

#[inline(always)]
fn prior_kernel<F: Real, const FMA: bool>(x: &[F], precision: F, grad: &mut [F]) -> f64 {
    let minus = F::default() - precision;
    for (g, x) in grad.iter_mut().zip(x) {
        *g = minus * *x;
    }
    squares_kernel::<F, FMA>(x)
}

dispatch! {
    /// The sum of squares of x.
    pub(super) fn squares<F: Real>(x: &[F]) -> f64 = squares_kernel
}

#[inline(always)]
fn squares_kernel<F: Real, const FMA: bool>(x: &[F]) -> f64 {
    let mut sums = [0.0; 16];
    let (chunks, rest) = x.as_chunks::<16>();
    for chunk in chunks {
        for l in 0..16 {
            let x = chunk[l].f64();
            sums[l] += x * x;
        }
    }
    for (s, x) in sums.iter_mut().zip(rest) {
        *s += x.f64() * x.f64();
    }
    sums.iter().sum()
}

#[cfg(test)]
pub(super) mod tests;
