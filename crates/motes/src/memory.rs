//! How much memory a run will need, told before anything is allocated.

mod limits;

pub use limits::available;

use crate::kept::{MAX_BYTES, MAX_PARTICLES};
use crate::settings::{Algorithm, Settings};

/// The sizes that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// D_theta.
    pub d_theta: usize,
    /// D_x.
    pub d_x: usize,
    /// Bytes of the data and of what the model derives from them.
    pub data_bytes: u128,
    /// Bytes of one particle coordinate.
    pub real_bytes: usize,
}

/// Refuses, with the arithmetic, a run that cannot fit into the memory that is available.
pub fn check(shape: Shape, settings: &Settings) -> Result<(), String> {
    match available() {
        Some(bytes) => check_against(shape, settings, bytes),
        None => Ok(()),
    }
}

fn check_against(shape: Shape, settings: &Settings, available: u128) -> Result<(), String> {
    let (n, d, real) = (settings.max_particles() as u128, shape.d_x as u128, shape.real_bytes as u128);
    let clouds: u128 = match settings.algorithm {
        Algorithm::Em => 0,
        Algorithm::MarginalMh | Algorithm::JointMh => 2,
        _ => 1,
    };
    // N and D_x may each be anything up to 2^64: the products saturate.
    let cloud = n.saturating_mul(d).saturating_mul(real);
    let kept = if settings.keep_clouds == 0 || clouds == 0 || cloud > MAX_BYTES as u128 {
        0
    } else {
        (MAX_PARTICLES as u128 * d * real).min(MAX_BYTES as u128)
    };
    let theta = 16 * (shape.d_theta as u128) * (shape.d_theta as u128);
    let all_clouds = clouds.saturating_mul(cloud);
    let rest = 3 * 8 * d + kept + theta + shape.data_bytes;
    let need = all_clouds.saturating_add(rest);
    if need <= available {
        return Ok(());
    }
    let remedy = if real > 4 {
        "fewer particles, smaller data or --precision f32"
    } else {
        "fewer particles or a smaller model"
    };
    Err(format!(
        "this run needs {}: {clouds} x {n} particles x {d} coordinates x {real} bytes = {} for clouds, {} for data and averages, but {} are available; use {remedy}",
        size(need),
        size(all_clouds),
        size(rest),
        size(available)
    ))
}

/// A number of bytes as people read it.
pub fn size(bytes: u128) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_shows_the_arithmetic() {
        let shape = Shape { d_theta: 1, d_x: 1 << 20, data_bytes: 8 << 20, real_bytes: 8 };
        let settings = Settings { particles: 1024, ..Settings::default() };
        assert!(check_against(shape, &settings, 9 << 30).is_ok());
        let refusal = check_against(shape, &settings, 1 << 30).unwrap_err();
        assert!(
            refusal.contains("1 x 1024 particles x 1048576 coordinates x 8 bytes = 8.0 GiB"),
            "{refusal}"
        );
        assert!(refusal.contains("but 1.0 GiB are available"), "{refusal}");
    }
}
