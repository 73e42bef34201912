//! The bits of the kernels, one table for every level of instructions that has fused multiply-add and one for the portable level.

use std::process::Command;

use motes::noise::{Noise, Purpose};
use motes::simd::{VARIABLE, fused, level_name, levels};
use motes::vmath;

const LEN: usize = 8192;

/// FNV-1a.
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

fn single(x: &[f32]) -> u64 {
    digest(x.iter().flat_map(|x| x.to_le_bytes()))
}

fn double(x: &[f64]) -> u64 {
    digest(x.iter().flat_map(|x| x.to_le_bytes()))
}

/// From -80 to 80, in steps that are no round numbers; of a logarithm, from almost 0.
fn arguments(first: f64) -> Vec<f64> {
    (0..LEN).map(|i| first + (80.0 - first) * ((i as f64 + 0.37) / LEN as f64)).collect()
}

fn table() -> Vec<(&'static str, u64)> {
    let noise = Noise::new(1, Purpose::Check);
    let (mut x, mut y) = (vec![0.0f32; LEN], vec![0.0f64; LEN]);
    let mut table = Vec::new();
    noise.normals_f32(3, 7, &mut x);
    table.push(("normals_f32", single(&x)));
    noise.normals_f64(3, 7, &mut y);
    table.push(("normals_f64", double(&y)));
    noise.uniforms(4, 7, &mut y);
    table.push(("uniforms", double(&y)));
    let (grad, grad_f64) = (x.clone(), y.clone());
    noise.langevin_f32(5, 7, &mut x, &grad, 0.01, 1e3);
    table.push(("langevin_f32", single(&x)));
    noise.langevin_f64(5, 7, &mut y, &grad_f64, 0.01, 1e3);
    table.push(("langevin_f64", double(&y)));
    macro_rules! functions {
        ($($f32:ident $f64:ident $first:literal;)*) => {$(
            let points = arguments($first);
            let mut x: Vec<f32> = points.iter().map(|x| *x as f32).collect();
            vmath::$f32(&mut x);
            table.push((stringify!($f32), single(&x)));
            let mut x = points;
            vmath::$f64(&mut x);
            table.push((stringify!($f64), double(&x)));
        )*};
    }
    functions! {
        exp_f32 exp_f64 -80.0;
        ln_f32 ln_f64 1e-9;
        sigmoid_f32 sigmoid_f64 -80.0;
        softplus_f32 softplus_f64 -80.0;
        tanh_f32 tanh_f64 -80.0;
    }
    table
}

/// `GOLDEN=print cargo test -p motes --test golden -- --nocapture` prints the table of the level.
#[test]
fn kernels_give_the_golden_bits() {
    let found: String = table().iter().map(|(name, hash)| format!("{name} {hash:016x}\n")).collect();
    if std::env::var_os("GOLDEN").is_some() {
        println!("{}\n{found}", level_name());
    }
    let golden = if fused() { include_str!("golden_fma.txt") } else { include_str!("golden_no_fma.txt") };
    assert_eq!(found, golden, "on {}", level_name());
}

/// The other test in a process of its own for each level that the processor has.
#[test]
fn every_level_gives_the_golden_bits() {
    for (level, _) in levels().into_iter().filter(|(level, _)| *level != level_name()) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let done = command.args(["--exact", "kernels_give_the_golden_bits"]).env(VARIABLE, level).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{level}: {}", String::from_utf8_lossy(&done.stdout));
    }
}
