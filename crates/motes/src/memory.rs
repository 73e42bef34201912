//! How much memory a run will need, told before anything is allocated.

mod limits;

pub use limits::available;

use crate::moves::Move;
use crate::rules::Rule;
use crate::settings::Settings;
use crate::state::{Per, planned};

/// The sizes that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// D_theta.
    pub d_theta: usize,
    /// D_x, of each group.
    pub d_x: usize,
    /// M.
    pub groups: usize,
    /// Numbers that the model remembers from step to step.
    pub buffers: usize,
    /// Whether an M-step must learn an inverse Hessian, for want of a closed form.
    pub numerical_m_step: bool,
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
    let (n, real) = (settings.max_particles() as u128, shape.real_bytes as u128);
    let d = (shape.d_x as u128).saturating_mul(shape.groups as u128);
    let composition = settings.composition();
    // What a stepper works with besides the state: a whole-cloud move proposes a second cloud, a variational move keeps the
    // gradients of all particles, and a numerical M-step learns an inverse Hessian.
    let second = matches!(composition.movement, Move::WholeCloud | Move::Variational);
    let squared = (shape.d_theta as u128).saturating_mul(shape.d_theta as u128);
    let theta = match composition.rule {
        Rule::Newton => squared.saturating_mul(16),
        Rule::MStep if shape.numerical_m_step => squared.saturating_mul(16),
        Rule::MStep | Rule::Gradient { .. } | Rule::Kinetic { .. } | Rule::ExactEm => 0,
    };
    let (mut all_clouds, mut rest) = (0u128, theta.saturating_add(shape.data_bytes));
    for (_, per, bytes) in planned(shape, settings) {
        let sum = if per == Per::Row { &mut all_clouds } else { &mut rest };
        *sum = sum.saturating_add(bytes);
    }
    let clouds: u128 = if composition.has_cloud() { 1 + u128::from(second) } else { 0 };
    all_clouds = all_clouds.saturating_mul(clouds.max(1));
    let need = all_clouds.saturating_add(rest);
    if need <= available {
        return Ok(());
    }
    let remedy = if real > 4 {
        "fewer particles, smaller data or `precision=f32`"
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
        let shape = Shape {
            d_theta: 1,
            d_x: 1 << 10,
            groups: 1 << 10,
            buffers: 0,
            numerical_m_step: false,
            data_bytes: 8 << 20,
            real_bytes: 8,
        };
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
