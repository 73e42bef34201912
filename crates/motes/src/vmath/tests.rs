//! Accuracy against std, and the edges.

use super::*;

/// A dense grid over [low, high], and points that approach zero from both sides.
fn grid(low: f64, high: f64) -> Vec<f64> {
    let mut x: Vec<f64> = (0..=200_000).map(|i| low + (high - low) * f64::from(i) / 200_000.0).collect();
    for i in 0..4000 {
        let tiny = 2.0f64.powf(-f64::from(i) / 10.0);
        x.extend([tiny, -tiny]);
    }
    x.retain(|&x| x >= low && x <= high);
    x
}

macro_rules! check {
    ($name:ident, $float:ident, $low:expr, $high:expr, $tolerance:expr, $exact:expr) => {{
        let x: Vec<$float> = grid($low, $high).into_iter().map(|x| x as $float).collect();
        let (mut wide, mut portable) = (x.clone(), x.clone());
        $name(&mut wide);
        kernels::$name::<false>(&mut portable);
        for (i, &x) in x.iter().enumerate() {
            let want: f64 = $exact(f64::from(x));
            // Below the normal numbers only the absolute error can be small.
            let scale = want.abs().max(f64::from(<$float>::MIN_POSITIVE));
            for got in [wide[i], portable[i]] {
                let error = (f64::from(got) - want).abs() / scale;
                assert!(
                    error <= $tolerance,
                    "{}({x:e}) = {got:e}, not {want:e}: {error:e}",
                    stringify!($name)
                );
            }
        }
    }};
}

macro_rules! same {
    ($name:ident, $float:ident, [$($x:expr => $want:expr),* $(,)?]) => {
        $(
            let want: $float = $want;
            let mut wide = [$x; 11];
            $name(&mut wide);
            let mut portable = [$x; 11];
            kernels::$name::<false>(&mut portable);
            for got in wide.into_iter().chain(portable) {
                let equal = got.is_nan() && want.is_nan() || got == want;
                assert!(equal, "{}({:e}) = {got:e}, not {want:e}", stringify!($name), $x);
            }
        )*
    };
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[test]
fn single_precision() {
    check!(exp_f32, f32, -103.0, 88.7, 2.5e-7, f64::exp);
    check!(exp_f32, f32, -1.0, 1.0, 2.5e-7, f64::exp);
    check!(ln_f32, f32, f64::from(f32::MIN_POSITIVE) / 8e6, 3e38, 2.5e-7, f64::ln);
    check!(ln_f32, f32, 0.01, 3.0, 2.5e-7, f64::ln);
    check!(tanh_f32, f32, -12.0, 12.0, 3.6e-7, f64::tanh);
    check!(sigmoid_f32, f32, -100.0, 100.0, 3e-7, sigmoid);
    check!(softplus_f32, f32, -100.0, 100.0, 3e-7, softplus);
}

#[test]
fn double_precision() {
    check!(exp_f64, f64, -745.0, 709.7, 5e-16, f64::exp);
    check!(exp_f64, f64, -1.0, 1.0, 5e-16, f64::exp);
    check!(ln_f64, f64, 5e-324, 1.7e308, 5e-16, f64::ln);
    check!(ln_f64, f64, 0.01, 3.0, 5e-16, f64::ln);
    check!(tanh_f64, f64, -25.0, 25.0, 1e-15, f64::tanh);
    check!(sigmoid_f64, f64, -720.0, 720.0, 1e-15, sigmoid);
    check!(sigmoid_f64, f64, -4.0, 4.0, 1e-15, sigmoid);
    check!(softplus_f64, f64, -720.0, 720.0, 1e-15, softplus);
    check!(softplus_f64, f64, -4.0, 4.0, 1e-15, softplus);
}

macro_rules! edges {
    ($float:ident, $exp:ident, $ln:ident, $tanh:ident, $sigmoid:ident, $softplus:ident) => {{
        use std::$float::consts::LN_2;
        const INF: $float = $float::INFINITY;
        const NAN: $float = $float::NAN;
        const TINY: $float = $float::MIN_POSITIVE / 4.0;
        same!($exp, $float, [
            INF => INF, -INF => 0.0, NAN => NAN, 0.0 => 1.0, -0.0 => 1.0, TINY => 1.0, -TINY => 1.0,
            1e30 => INF, -1e30 => 0.0, $float::MAX => INF, $float::MIN => 0.0,
        ]);
        same!($ln, $float, [
            INF => INF, -INF => NAN, NAN => NAN, 0.0 => -INF, -0.0 => -INF, 1.0 => 0.0, -1.0 => NAN,
            -TINY => NAN, TINY => TINY.ln(), 2.0 => LN_2,
        ]);
        same!($tanh, $float, [
            INF => 1.0, -INF => -1.0, NAN => NAN, 0.0 => 0.0, -0.0 => -0.0, TINY => TINY, -TINY => -TINY,
            1e30 => 1.0, -1e30 => -1.0, $float::MAX => 1.0, $float::MIN => -1.0,
        ]);
        same!($sigmoid, $float, [
            INF => 1.0, -INF => 0.0, NAN => NAN, 0.0 => 0.5, -0.0 => 0.5, TINY => 0.5, -TINY => 0.5,
            1e30 => 1.0, -1e30 => 0.0, $float::MAX => 1.0, $float::MIN => 0.0,
        ]);
        same!($softplus, $float, [
            INF => INF, -INF => 0.0, NAN => NAN, 0.0 => LN_2, -0.0 => LN_2, TINY => LN_2, -TINY => LN_2,
            1e30 => 1e30, -1e30 => 0.0, $float::MAX => $float::MAX, $float::MIN => 0.0,
        ]);
    }};
}

#[test]
fn edges() {
    edges!(f32, exp_f32, ln_f32, tanh_f32, sigmoid_f32, softplus_f32);
    edges!(f64, exp_f64, ln_f64, tanh_f64, sigmoid_f64, softplus_f64);
}

#[test]
fn lanes_equal_slices() {
    let x = [-3.0, -1.0, -0.1, 0.0, 0.2, 1.0, 2.0, 5.0];
    let mut slice = x;
    kernels::tanh_f64::<false>(&mut slice);
    assert_eq!(lanes::tanh_f64::<false, 8>(x), slice);
}
