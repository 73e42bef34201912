//! Vectors of a fixed number of lanes, and one kernel compiled for each level of instructions, chosen once at run time.
//!
//! There are two kinds of kernels, and [`dispatch!`] makes a function of either:
//!
//! - Plain loops, `fn kernel<const FMA: bool>(..)`, which the compiler vectorises by itself. Most are as fast as they can be.
//! - Kernels on vectors, `fn kernel<S: Isa>(simd: S, ..)`, where sums must stay in registers across a loop: the compiler
//!   does not see to that.
//!
//! The levels are AVX-512 (as of Ice Lake and Zen 4), AVX2 with FMA, NEON, and a portable one without fused multiply-add. What is
//! computed must not depend on the level, as long as it has fused multiply-add: lanes either run over results that do not meet, or
//! their number is fixed (`Real::Lanes`: 64 bytes on every machine) and so is the order of their sum ([`Vector::total`]).
//!
//! # Why fearless_simd
//!
//! Only this module names the crate behind the vectors. It is `fearless_simd`: its vectors have the same width on every level, its
//! face is safe, and it was as fast as intrinsics. Measured on 2026-11-18 on two virtual cores of an AMD EPYC (Zen 5), minima by
//! turns, the same bits: the generator's product of 48 x 64 x 64 took 2.72 us with AVX2 intrinsics, 2.73 with the crate on AVX2,
//! and 1.38 with the crate on AVX-512 (284 GFLOP/s); the network's sparse product of 40 units took 6.88 us by intrinsics, 6.89 with the crate
//! on AVX2, and 3.93 a particle, two at a time, on AVX-512. Building the crate takes some three seconds.
//!
//! `pulp` has only the native width and no conversions of integers, `wide` no choice at run time, `std::simd` needs a nightly
//! compiler. Two cautions: `min` and `max` may return either argument where one is NaN, so clamp by comparing and selecting or in
//! an order that a test holds, and `mul_add` is fused on all levels but the portable one, where `mul_add_precise` would be a slow
//! call.
//!
//! Set the environment variable `MOTES_SIMD` to `avx512`, `avx2`, `neon` or `portable` to run on a lower level than
//! the processor's: the tests do so.

use std::sync::LazyLock;

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
pub use fearless_simd::Level;
pub use fearless_simd::prelude::*;
#[cfg(target_arch = "x86_64")]
pub use fearless_simd::x86::{Avx2, Avx512};
pub use fearless_simd::{Simd, f32x8, f32x16, f64x4, f64x8, i32x16, i64x8, u32x8, u32x16, u64x4, u64x8};

use crate::sentence::foreign;
use crate::{Error, Real};

/// Instructions that kernels on vectors can be compiled for. A value of such a type is the proof that the processor has them.
pub trait Isa: Simd {
    /// Whether a multiply-add is rounded once: then the results are those of all levels that have it.
    const FMA: bool;
}

/// The level that every processor of the architecture has.
#[cfg(target_arch = "x86_64")]
pub type Portable = fearless_simd::x86::Sse2;
/// The level that every processor of the architecture has.
#[cfg(target_arch = "aarch64")]
pub type Portable = fearless_simd::aarch64::Neon;
/// The level that every processor of the architecture has.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub type Portable = fearless_simd::Fallback;

impl Isa for Portable {
    const FMA: bool = cfg!(target_arch = "aarch64");
}
#[cfg(target_arch = "x86_64")]
impl Isa for Avx2 {
    const FMA: bool = true;
}
#[cfg(target_arch = "x86_64")]
impl Isa for Avx512 {
    const FMA: bool = true;
}

/// The proof that there are the instructions that every processor of the architecture has.
#[inline(always)]
pub fn portable() -> Portable {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE2.
    return unsafe { Portable::assume_supported() };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every AArch64 processor that programs for an operating system run on has NEON.
    return unsafe { Portable::assume_supported() };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Portable::new();
}

/// The environment variable that lowers the level.
pub const VARIABLE: &str = "MOTES_SIMD";

/// The level that the kernels run on, and what was wrong with the environment's wish.
static CHOSEN: LazyLock<(Level, Option<String>)> = LazyLock::new(|| {
    let best = Level::new();
    let wish = std::env::var_os(VARIABLE).filter(|wish| !wish.is_empty());
    let Some(wish) = wish else { return (best, None) };
    let there: Vec<(&str, Level)> = levels();
    match there.iter().find(|(name, _)| wish == *name) {
        Some((_, level)) => (*level, None),
        None => {
            let names: Vec<&str> = there.iter().map(|(name, _)| *name).collect();
            let wish = foreign(wish.to_string_lossy());
            let names = names.join(", ");
            let sentence = format!(
                "the environment variable {VARIABLE} is {wish}, which is no level of vector instructions that this \
                 processor has; unset it, or choose one of {names}"
            );
            (best, Some(sentence))
        }
    }
});

/// The levels that this processor has, best first, by the words for them.
pub fn levels() -> Vec<(&'static str, Level)> {
    let mut levels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let best = Level::new();
        levels.extend(best.as_avx512().map(|simd| ("avx512", Level::Avx512(simd))));
        levels.extend(best.as_avx2().map(|simd| ("avx2", Level::Avx2(simd))));
    }
    levels.push((if cfg!(target_arch = "aarch64") { "neon" } else { "portable" }, portable().level()));
    levels
}

/// The level that the kernels run on, decided once.
#[inline(always)]
pub fn level() -> Level {
    CHOSEN.0
}

/// The word for the level that the kernels run on.
pub fn level_name() -> &'static str {
    let here = std::mem::discriminant(&level());
    let found = levels().into_iter().find(|(_, level)| std::mem::discriminant(level) == here);
    found.map_or("portable", |(name, _)| name)
}

/// Refuses an environment that asks for a level which is unknown or not there; without this call it is as if nothing were asked.
pub fn check_environment() -> Result<(), Error> {
    CHOSEN.1.as_ref().map_or(Ok(()), |sentence| Err(Error::Settings(sentence.clone())))
}

/// Vectors of a fixed number of lanes, whatever the processor's are.
pub trait Vector<S: Simd>: SimdFloat<S> {
    /// The sum of the lanes, by halves.
    fn total(self) -> Self::Element;
}

impl<S: Simd> Vector<S> for f32x16<S> {
    #[inline(always)]
    fn total(self) -> f32 {
        let (a, b) = self.split();
        let (a, b) = (a + b).split();
        let [a, b, c, d] = (a + b).to_array();
        (a + c) + (b + d)
    }
}

impl<S: Simd> Vector<S> for f64x8<S> {
    #[inline(always)]
    fn total(self) -> f64 {
        let (a, b) = self.split();
        let (a, b) = (a + b).split();
        let [a, b] = (a + b).to_array();
        a + b
    }
}

impl<S: Simd> Vector<S> for f64x4<S> {
    #[inline(always)]
    fn total(self) -> f64 {
        let (a, b) = self.split();
        let [a, b] = (a + b).to_array();
        a + b
    }
}

/// A cache line, and as much as the widest vector: what is packed into lines is aligned for vectors, which could not be read
/// as fast across two lines.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; 64]);

/// Lines to hold so many numbers.
pub fn lines<F: Pod>(len: usize) -> usize {
    (len * size_of::<F>()).div_ceil(size_of::<Line>())
}

/// Numbers in memory that is aligned for vectors.
#[derive(Clone, Debug)]
pub struct Aligned<F> {
    lines: Vec<Line>,
    len: usize,
    of: std::marker::PhantomData<F>,
}

impl<F: Real> Aligned<F> {
    /// So many zeros.
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![Line::zeroed(); lines::<F>(len)], len, of: std::marker::PhantomData }
    }
}

impl<F: Real> std::ops::Deref for Aligned<F> {
    type Target = [F];
    #[inline(always)]
    fn deref(&self) -> &[F] {
        &cast_slice(&self.lines)[..self.len]
    }
}

impl<F: Real> std::ops::DerefMut for Aligned<F> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [F] {
        &mut cast_slice_mut(&mut self.lines)[..self.len]
    }
}

/// What decides how results are rounded: `"fma"` or `"no fma"`. All levels that have fused multiply-add give the same bits,
/// whatever the processor.
pub fn instruction_set() -> &'static str {
    if fused() { "fma" } else { "no fma" }
}

/// Whether the level has fused multiply-add.
pub fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return level().as_avx2().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    return Portable::FMA;
}

/// The sum of all lanes by halves: a chain of additions one after the other would take as long as a small step.
#[inline(always)]
pub fn sum_lanes<const N: usize>(mut lanes: [f64; N]) -> f64 {
    let mut n = N;
    while n > 1 {
        n /= 2;
        for i in 0..n {
            lanes[i] += lanes[n + i];
        }
    }
    lanes[0]
}

/// `a * b + c`, rounded once if `FMA`; without the instruction `mul_add` would be a slow call.
macro_rules! fma {
    ($float:ident) => {
        #[inline(always)]
        pub(crate) fn $float<const FMA: bool>(a: $float, b: $float, c: $float) -> $float {
            if FMA { a.mul_add(b, c) } else { a * b + c }
        }
    };
}

/// Multiply-add by element type: `fma::f32::<FMA>(a, b, c)`.
pub(crate) mod fma {
    fma!(f32);
    fma!(f64);
}

/// Evaluates a polynomial, coefficients from the constant term up, by Estrin's scheme: its short
/// chains leave the processor more to do at once than Horner's. A macro, because a loop over
/// coefficients would keep the loop around it from being vectorised.
macro_rules! poly {
    ($float:ident, $x:expr, $($c:expr),+ $(,)?) => {{
        let x = $x;
        $crate::simd::poly!(@ $float x [] $($c,)+)
    }};
    (@ $float:ident $x:ident [] $c:expr,) => { $c };
    (@ $float:ident $x:ident [$($done:expr,)*] $a:expr, $b:expr, $($rest:expr,)*) => {
        $crate::simd::poly!(
            @ $float $x [$($done,)* $crate::simd::fma::$float::<FMA>($b, $x, $a),] $($rest,)*
        )
    };
    (@ $float:ident $x:ident [$($done:expr,)*] $($last:expr,)?) => {{
        let _square = $x * $x;
        $crate::simd::poly!(@ $float _square [] $($done,)* $($last,)?)
    }};
}
pub(crate) use poly;

/// Defines a function that runs a kernel compiled for the level that has been chosen, see [`level`]. The kernel must be
/// `#[inline(always)]`, so that its body is compiled inside a function that carries the target features; so must
/// be what it calls, closures included.
///
/// - `= kernel`, plain loops: `kernel::<true>(..)` where there is fused multiply-add, else `kernel::<false>(..)`; with a type
///   parameter, `kernel::<F, true>(..)`.
/// - `= simd kernel`, on vectors: `kernel::<S>(simd, ..)` or `kernel::<F, S>(simd, ..)` with S: [`Isa`].
///
/// The lists of features are those of the types of `fearless_simd`: with any fewer, its methods would not be inlined.
#[macro_export]
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$f:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = simd $kernel:path) => {
        $(#[$meta])*
        $vis fn $name $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
            use $kernel as kernel;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(
                    enable = "adx,aes,avx512bitalg,avx512bw,avx512cd,avx512dq,avx512f,avx512ifma,avx512vbmi,avx512vbmi2,avx512vl,avx512vnni,avx512vpopcntdq,bmi1,bmi2,cmpxchg16b,fma,fxsr,gfni,lzcnt,movbe,pclmulqdq,popcnt,rdrand,rdseed,sha,vaes,vpclmulqdq,xsave,xsavec,xsaveopt,xsaves"
                )]
                fn widest $(<$f: $bound>)? (simd: $crate::simd::Avx512, $($arg: $ty),*) $(-> $ret)? {
                    kernel::<$($f,)? $crate::simd::Avx512>(simd, $($arg),*)
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,cmpxchg16b,f16c,fma,fxsr,lzcnt,movbe,popcnt,xsave")]
                fn wide $(<$f: $bound>)? (simd: $crate::simd::Avx2, $($arg: $ty),*) $(-> $ret)? {
                    kernel::<$($f,)? $crate::simd::Avx2>(simd, $($arg),*)
                }
                match $crate::simd::level() {
                    // SAFETY: the level is the proof that the processor has all these instructions.
                    $crate::simd::Level::Avx512(simd) => return unsafe { widest(simd, $($arg),*) },
                    // SAFETY: the same.
                    $crate::simd::Level::Avx2(simd) => return unsafe { wide(simd, $($arg),*) },
                    _ => (),
                }
            }
            kernel::<$($f,)? $crate::simd::Portable>($crate::simd::portable(), $($arg),*)
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$f:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $kernel:path) => {
        $(#[$meta])*
        $vis fn $name $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
            use $kernel as kernel;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(
                    enable = "adx,aes,avx512bitalg,avx512bw,avx512cd,avx512dq,avx512f,avx512ifma,avx512vbmi,avx512vbmi2,avx512vl,avx512vnni,avx512vpopcntdq,bmi1,bmi2,cmpxchg16b,fma,fxsr,gfni,lzcnt,movbe,pclmulqdq,popcnt,rdrand,rdseed,sha,vaes,vpclmulqdq,xsave,xsavec,xsaveopt,xsaves"
                )]
                fn widest $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
                    kernel::<$($f,)? true>($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,cmpxchg16b,f16c,fma,fxsr,lzcnt,movbe,popcnt,xsave")]
                fn wide $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
                    kernel::<$($f,)? true>($($arg),*)
                }
                match $crate::simd::level() {
                    // SAFETY: the level is the proof that the processor has all these instructions.
                    $crate::simd::Level::Avx512(_) => return unsafe { widest($($arg),*) },
                    // SAFETY: the same.
                    $crate::simd::Level::Avx2(_) => return unsafe { wide($($arg),*) },
                    _ => (),
                }
            }
            kernel::<$($f,)? { <$crate::simd::Portable as $crate::simd::Isa>::FMA }>($($arg),*)
        }
    };
}
pub use dispatch;

#[cfg(test)]
mod tests {
    use super::*;

    /// What kernels rely on, of each level that is here.
    #[inline(always)]
    fn facts<S: Isa>(simd: S) {
        let x: [f32; 16] = std::array::from_fn(|i| 0.1 + 1e3 * (i as f32).sin());
        let y: [f64; 8] = std::array::from_fn(|i| 0.1 + 1e3 * (i as f64).sin());
        let (u, v) = (f32x16::simd_from(simd, x), f64x8::simd_from(simd, y));
        // The sum by halves.
        let mut halves = x;
        for n in [8, 4, 2, 1] {
            for i in 0..n {
                halves[i] += halves[n + i];
            }
        }
        assert_eq!(u.total(), halves[0]);
        assert_eq!(v.total(), sum_lanes(y));
        // A multiply-add is rounded once, or else twice.
        let fused: [f32; 16] =
            std::array::from_fn(
                |i| if S::FMA { x[i].mul_add(x[i], x[15 - i]) } else { x[i] * x[i] + x[15 - i] },
            );
        let reversed = f32x16::simd_from(simd, std::array::from_fn::<f32, 16, _>(|i| x[15 - i]));
        assert_eq!(u.mul_add(u, reversed).to_array(), fused);
        // NaN compares as false, and is the result of `min` and `max` if it is their second argument: so a value can be kept
        // within bounds and stay NaN.
        let (nan, one) = (f32x16::splat(simd, f32::NAN), f32x16::splat(simd, 1.0));
        assert!(one.min(nan).to_array().iter().all(|x| x.is_nan()));
        assert!(one.max(nan).to_array().iter().all(|x| x.is_nan()));
        assert_eq!(nan.simd_gt(one).select(nan, one).to_array(), [1.0; 16]);
        let (nan, one) = (f64x8::splat(simd, f64::NAN), f64x8::splat(simd, 1.0));
        assert!(one.min(nan).to_array().iter().all(|x| x.is_nan()));
        assert!(one.max(nan).to_array().iter().all(|x| x.is_nan()));
        assert_eq!(nan.simd_gt(one).select(nan, one).to_array(), [1.0; 8]);
    }

    #[test]
    fn every_level_does_what_kernels_rely_on() {
        let all = levels();
        assert!(all.iter().any(|(name, _)| *name == level_name()));
        for (_, level) in all {
            match level {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512(simd) => simd.vectorize(
                    #[inline(always)]
                    || facts(simd),
                ),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2(simd) => simd.vectorize(
                    #[inline(always)]
                    || facts(simd),
                ),
                _ => facts(portable()),
            }
        }
    }
}
