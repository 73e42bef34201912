//! Axes: where a value stands, and round numbers to write beside it.

/// One direction of a plot.
#[derive(Clone, Debug)]
pub struct Axis {
    pub label: String,
    pub min: f64,
    pub max: f64,
    pub log: bool,
}

impl Axis {
    pub fn new(label: &str, min: f64, max: f64) -> Self {
        Axis { label: label.into(), min, max, log: false }
    }

    pub fn log(label: &str, min: f64, max: f64) -> Self {
        Axis { label: label.into(), min, max, log: true }
    }

    /// An axis that holds all these values, with a little room.
    pub fn around(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let finite = values.into_iter().filter(|v| v.is_finite());
        let (min, max) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if min > max {
            return Axis::new(label, 0.0, 1.0);
        }
        let room = if max > min { 0.05 * (max - min) } else { 0.5 };
        Axis::new(label, min - room, max + room)
    }

    /// 0 at the minimum, 1 at the maximum.
    pub fn fraction(&self, value: f64) -> f64 {
        if self.log {
            let position = if value > 0.0 { libm::log(value / self.min) } else { -1e3 };
            return position / libm::log(self.max / self.min);
        }
        (value - self.min) / (self.max - self.min)
    }

    /// Round values inside, about `wanted` of them, with their labels.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let inside = |v: &f64| (-1e-9..=1.0 + 1e-9).contains(&self.fraction(*v));
        if self.log {
            let decades = libm::log10(self.max / self.min);
            let digits: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let powers = libm::log10(self.min).floor() as i32..=libm::log10(self.max).ceil() as i32;
            let values = powers.flat_map(|p| digits.iter().map(move |d| d * 10f64.powi(p)));
            return values.filter(inside).map(|v| (v, plain(v))).collect();
        }
        let rough = (self.max - self.min) / wanted as f64;
        let unit = libm::pow(10.0, libm::log10(rough).floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * unit).find(|s| *s >= 0.999 * rough);
        let step = step.unwrap_or(10.0 * unit);
        let decimals = (0..9).find(|d| ((step * 10f64.powi(*d)).fract()).abs() < 1e-6).unwrap_or(9) as usize;
        let (first, last) = ((self.min / step).ceil() as i64, (self.max / step).floor() as i64);
        (first..=last)
            .map(|i| i as f64 * step)
            .map(|v| (v, format!("{:.decimals$}", v + 0.0).replace('-', "−")))
            .map(
                |(v, label)| {
                    if label == format!("−{:.decimals$}", 0.0) {
                        (v, label[3..].into())
                    } else {
                        (v, label)
                    }
                },
            )
            .collect()
    }
}

fn plain(value: f64) -> String {
    let value: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    if value >= 1000.0 {
        return motes_app::numbers::thousands(&format!("{value:.0}"));
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |axis: Axis| axis.ticks(5).into_iter().map(|(_, l)| l).collect::<Vec<_>>();
        assert_eq!(labels(Axis::new("", 0.0, 300.0)), ["0", "100", "200", "300"]);
        assert_eq!(labels(Axis::new("", -0.16, -0.08)), ["−0.16", "−0.14", "−0.12", "−0.10", "−0.08"]);
        assert_eq!(labels(Axis::new("", -1.0, 1.0)), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(Axis::log("", 1.0, 20_000.0)), ["1", "10", "100", "1,000", "10,000"]);
        assert_eq!(labels(Axis::log("", 0.01, 2.0)), ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]);
    }

    #[test]
    fn places_are_fractions() {
        assert_eq!(Axis::new("", 1.0, 3.0).fraction(2.0), 0.5);
        assert!((Axis::log("", 1.0, 100.0).fraction(10.0) - 0.5).abs() < 1e-12);
    }
}
