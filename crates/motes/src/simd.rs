//! One plain-Rust kernel, compiled twice: for AVX2 with FMA and for the baseline, chosen at run time.

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

/// Whether the AVX2 instantiations may run here; std caches the answer.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn wide() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// The instruction set the numerical kernels run on: `"avx2+fma"` or `"portable"`.
pub fn instruction_set() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if wide() {
        return "avx2+fma";
    }
    "portable"
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

/// Defines a function that runs `kernel::<true>` under AVX2 and FMA where the processor has them,
/// else `kernel::<false>`; with a type parameter, `kernel::<F, true>`. The kernel must be
/// `#[inline(always)]`, so that its body is compiled inside the function that carries the target
/// features.
///
/// A kernel of intrinsics is an `unsafe fn`: `true` asks for a processor that has both. It is given as
/// `= unsafe kernel`.
#[macro_export]
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$f:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = unsafe $kernel:path) => {
        $(#[$meta])*
        $vis fn $name $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
            use $kernel as kernel;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: this function is called only where there are AVX2 and FMA.
                    unsafe { kernel::<$($f,)? true>($($arg),*) }
                }
                if $crate::simd::wide() {
                    // SAFETY: the processor has just been found to have AVX2 and FMA.
                    return unsafe { wide($($arg),*) };
                }
            }
            // SAFETY: without `true` nothing is asked of the processor.
            unsafe { kernel::<$($f,)? false>($($arg),*) }
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$f:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $kernel:path) => {
        $(#[$meta])*
        $vis fn $name $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
            use $kernel as kernel;
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide $(<$f: $bound>)? ($($arg: $ty),*) $(-> $ret)? {
                    kernel::<$($f,)? true>($($arg),*)
                }
                if $crate::simd::wide() {
                    // SAFETY: the processor has just been found to have AVX2 and FMA.
                    return unsafe { wide($($arg),*) };
                }
            }
            kernel::<$($f,)? false>($($arg),*)
        }
    };
}
pub use dispatch;
