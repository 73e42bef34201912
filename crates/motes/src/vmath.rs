//! Elementwise functions on slices and on arrays of lanes, vectorised by the compiler.

mod double;
mod single;
#[cfg(test)]
mod tests;

pub(crate) use double::ln_positive as ln_positive_f64;
pub(crate) use single::{MANTISSA, SQRT_HALF, ln_parts as ln_parts_f32};

use crate::simd::dispatch;

macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident, $float:ty = $module:ident :: $scalar:ident;)*) => {
        /// The same functions on an array of lanes, for use inside dispatched kernels.
        ///
        /// Sixteen lanes or more run as fast as slices; fewer are unrolled before they can be
        /// vectorised well.
        pub mod lanes {
            $(
                $(#[$meta])*
                #[inline(always)]
                pub fn $name<const FMA: bool, const N: usize>(mut x: [$float; N]) -> [$float; N] {
                    for v in &mut x {
                        *v = super::$module::$scalar::<FMA>(*v);
                    }
                    x
                }
            )*
        }
        pub(crate) mod kernels {
            $(
                #[inline(always)]
                pub(crate) fn $name<const FMA: bool>(x: &mut [$float]) {
                    for v in x {
                        *v = super::$module::$scalar::<FMA>(*v);
                    }
                }
            )*
        }
        $(dispatch! { $(#[$meta])* pub fn $name(x: &mut [$float]) = kernels::$name })*
    };
}

functions! {
    /// Replaces each x by e^x.
    exp_f32, f32 = single::exp;
    /// Replaces each x by e^x.
    exp_f64, f64 = double::exp;
    /// Replaces each x by its natural logarithm; NaN below zero.
    ln_f32, f32 = single::ln;
    /// Replaces each x by its natural logarithm; NaN below zero.
    ln_f64, f64 = double::ln;
    /// Replaces each x by 1 / (1 + e^-x), accurate at both ends.
    sigmoid_f32, f32 = single::sigmoid;
    /// Replaces each x by 1 / (1 + e^-x), accurate at both ends.
    sigmoid_f64, f64 = double::sigmoid;
    /// Replaces each x by ln(1 + e^x), accurate at both ends.
    softplus_f32, f32 = single::softplus;
    /// Replaces each x by ln(1 + e^x), accurate at both ends.
    softplus_f64, f64 = double::softplus;
    /// Replaces each x by its hyperbolic tangent.
    tanh_f32, f32 = single::tanh;
    /// Replaces each x by its hyperbolic tangent.
    tanh_f64, f64 = double::tanh;
}
