//! Marginals: exact quantiles, and Gaussian kernel density estimates on a grid.

/// Bins enough that a kernel of Silverman's width covers many of them.
const BINS: usize = 2048;
/// Kernels are cut off here, in bandwidths.
const REACH: f64 = 4.5;

/// The distribution of one coordinate.
#[derive(Clone, Debug, PartialEq)]
pub struct Marginal {
    /// The 5 % quantile.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The 95 % quantile.
    pub q95: f64,
    /// `None` where all values are equal.
    pub density: Option<Density>,
}

/// A density on an even grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Density {
    /// The first point.
    pub start: f64,
    /// Between points.
    pub step: f64,
    /// At the points.
    pub values: Vec<f64>,
    /// Of the kernel.
    pub bandwidth: f64,
}

/// Quantiles and density of a sample; `None` if it has no finite spread to speak of (empty, or not all finite).
pub fn marginal(values: &[f64], points: usize) -> Option<Marginal> {
    let n = values.len() as f64;
    let mean = lanes(values, 0.0, |s, v| s + v).iter().sum::<f64>() / n;
    if !mean.is_finite() {
        return None;
    }
    let sd = lanes(values, 0.0, |s, v| s + (v - mean) * (v - mean)).iter().sum::<f64>();
    let sd = (sd / (n - 1.0).max(1.0)).sqrt();
    let min = lanes(values, f64::MAX, |m, v| if v < m { v } else { m }).into_iter().fold(f64::MAX, f64::min);
    let max = lanes(values, f64::MIN, |m, v| if v > m { v } else { m }).into_iter().fold(f64::MIN, f64::max);
    let bins = Bins::of(values, min.max(mean - 6.0 * sd), max.min(mean + 6.0 * sd));
    let [q05, q25, q50, q75, q95] = bins.quantiles(values, [0.05, 0.25, 0.5, 0.75, 0.95]);
    let h = silverman(sd, q75 - q25, n);
    let density = (h > 0.0 && max > min).then(|| {
        // A few stray values must not make the grid too coarse for all others.
        let spread = 3.0 * (q95 - q05).max(q75 - q25).max(2.0 * h);
        let (lo, hi) = (min.max(q50 - spread), max.min(q50 + spread));
        if bins.width > h / 8.0 || bins.lo < lo || bins.hi > hi {
            Bins::of(values, lo, hi).density(h, n, points)
        } else {
            bins.density(h, n, points)
        }
    });
    Some(Marginal { q05, q50, q95, density })
}

/// Folds in eight lanes, which a compiler keeps in vector registers.
#[inline(always)]
fn lanes(values: &[f64], start: f64, fold: impl Fn(f64, f64) -> f64) -> [f64; 8] {
    let mut out = [start; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        out.iter_mut().zip(chunk).for_each(|(o, v)| *o = fold(*o, *v));
    }
    out.iter_mut().zip(rest).for_each(|(o, v)| *o = fold(*o, *v));
    out
}

/// Silverman's rule of thumb for Gaussian kernels.
fn silverman(sd: f64, iqr: f64, n: f64) -> f64 {
    let scale = if iqr > 0.0 { sd.min(iqr / 1.34) } else { sd };
    0.9 * scale * libm::pow(n, -0.2)
}

/// Counts on an even grid; the first and the last count are for what lies below and above it.
struct Bins {
    lo: f64,
    hi: f64,
    width: f64,
    counts: Vec<u32>,
    /// The bin of each value, which never decreases as values increase.
    places: Vec<u16>,
}

impl Bins {
    fn of(values: &[f64], lo: f64, hi: f64) -> Self {
        // A little wider, so that the highest value is still inside.
        let width = (hi - lo) / BINS as f64 * (1.0 + 1e-9);
        let per_width = if width > 0.0 { 1.0 / width } else { 0.0 };
        let mut counts = vec![0; BINS + 2];
        let place = |v: &f64| ((v - lo) * per_width + 1.0).clamp(0.0, (BINS + 1) as f64) as u16;
        let places: Vec<u16> = values.iter().map(place).collect();
        places.iter().for_each(|p| counts[usize::from(*p)] += 1);
        Bins { lo, hi, width, counts, places }
    }

    /// Exact quantiles, interpolated between order statistics as NumPy does by default.
    fn quantiles<const Q: usize>(&self, values: &[f64], levels: [f64; Q]) -> [f64; Q] {
        let positions = levels.map(|q| q * (values.len() - 1) as f64);
        let mut starts = Vec::with_capacity(self.counts.len());
        let mut below = 0usize;
        for count in &self.counts {
            starts.push(below);
            below += *count as usize;
        }
        let bin_of = |rank: usize| starts.partition_point(|start| *start <= rank) - 1;
        let mut wanted = vec![false; self.counts.len()];
        for p in positions {
            wanted[bin_of(p.floor() as usize)] = true;
            wanted[bin_of(p.ceil() as usize)] = true;
        }
        // Only the few values in bins that hold a wanted rank need sorting.
        let inside = |(p, _): &(&u16, &f64)| wanted[usize::from(**p)];
        let mut near: Vec<f64> = self.places.iter().zip(values).filter(inside).map(|(_, v)| *v).collect();
        near.sort_by(f64::total_cmp);
        let mut offset = vec![0; self.counts.len()];
        let mut seen = 0;
        for b in 0..self.counts.len() {
            offset[b] = seen;
            seen += if wanted[b] { self.counts[b] as usize } else { 0 };
        }
        let at = |rank: usize| {
            let b = bin_of(rank);
            near[offset[b] + rank - starts[b]]
        };
        positions.map(|p| {
            let (a, b) = (at(p.floor() as usize), at(p.ceil() as usize));
            a + (b - a) * p.fract()
        })
    }

    /// A Gaussian kernel estimate of bandwidth h on a grid of at most `points` bin centres.
    fn density(&self, h: f64, n: f64, points: usize) -> Density {
        // Neighbouring bins are joined while a kernel still covers many.
        let join = ((h / (8.0 * self.width)) as usize).clamp(1, BINS / 64);
        let counts = self.counts[1..=BINS].chunks(join).map(|c| f64::from(c.iter().sum::<u32>()));
        let bins = BINS.div_ceil(join);
        let width = self.width * join as f64;
        let reach = (REACH * h / width).ceil() as usize;
        let margin = (3.0 * h / width).ceil() as usize;
        let kernel: Vec<f64> = (0..=2 * reach)
            .map(|i| {
                let z = (i as f64 - reach as f64) * width / h;
                libm::exp(-0.5 * z * z) / (n * h * (2.0 * std::f64::consts::PI).sqrt())
            })
            .collect();
        // Zeros on both sides, so that every grid point sees a full window.
        let pad = margin + reach;
        let mut padded = vec![0.0; bins + 2 * pad];
        padded[pad..].iter_mut().zip(counts).for_each(|(to, count)| *to = count);
        let centres = bins + 2 * margin;
        let stride = centres.div_ceil(points.max(2) - 1);
        let values = (0..centres.div_ceil(stride))
            .map(|i| {
                let window = &padded[i * stride..i * stride + kernel.len()];
                window.iter().zip(&kernel).map(|(c, k)| c * k).sum()
            })
            .collect();
        let start = self.lo + (0.5 - margin as f64) * width;
        Density { start, step: stride as f64 * width, values, bandwidth: h }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard normal quantile by bisection of an integral that Simpson's rule gives to 1e-7.
    fn normal_sample(n: usize) -> Vec<f64> {
        let cdf = |z: f64| {
            let (m, phi) = (100, |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt());
            let step = z / m as f64;
            let inner: f64 = (1..m).map(|i| phi(i as f64 * step) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
            0.5 + step / 3.0 * (phi(0.0) + inner + phi(z))
        };
        let mut sample: Vec<f64> = (0..n)
            .map(|i| {
                let target = (i as f64 + 0.5) / n as f64;
                let (mut a, mut b) = (-8.0, 8.0);
                for _ in 0..40 {
                    let middle = 0.5 * (a + b);
                    if cdf(middle) < target { a = middle } else { b = middle }
                }
                0.5 * (a + b)
            })
            .collect();
        // An order that is not sorted.
        let half = sample.split_off(n / 2);
        half.into_iter().zip(sample).flat_map(|(a, b)| [a, b]).collect()
    }

    #[test]
    fn quantiles_equal_numpys() {
        // numpy.quantile([3, 1, 4, 1, 5, 9, 2, 6], [0.05, 0.5, 0.95]) = [1, 3.5, 7.95]
        let m = marginal(&[3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0], 64).unwrap();
        assert_eq!((m.q05, m.q50), (1.0, 3.5));
        assert!((m.q95 - 7.95).abs() < 1e-12);
        let one = marginal(&[2.5], 64).unwrap();
        assert_eq!((one.q05, one.q50, one.q95, one.density), (2.5, 2.5, 2.5, None));
        assert_eq!(marginal(&[], 64), None);
        assert_eq!(marginal(&[1.0, f64::NAN], 64), None);
    }

    #[test]
    fn quantiles_are_those_of_sorting_whatever_the_shape() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for shape in 0..4 {
            let values: Vec<f64> = (0..997)
                .map(|i| match shape {
                    0 => uniform(),
                    1 => uniform().powi(-3),
                    2 => (uniform() * 5.0).floor(),
                    _ => {
                        if i == 500 {
                            1e12
                        } else {
                            uniform()
                        }
                    }
                })
                .collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let m = marginal(&values, 64).unwrap();
            for (got, q) in [(m.q05, 0.05), (m.q50, 0.5), (m.q95, 0.95)] {
                let p: f64 = q * 996.0;
                let (a, b) = (sorted[p.floor() as usize], sorted[p.ceil() as usize]);
                assert_eq!(got, a + (b - a) * p.fract(), "shape {shape}, level {q}");
            }
        }
    }

    #[test]
    fn the_density_of_normal_quantiles_is_a_wider_normal() {
        // The estimate's expectation is N(0, 1 + h^2).
        let sample = normal_sample(4000);
        let d = marginal(&sample, 128).unwrap().density.unwrap();
        assert!((d.bandwidth / (0.9 * 4000f64.powf(-0.2)) - 1.0).abs() < 0.01, "{}", d.bandwidth);
        let variance = 1.0 + d.bandwidth * d.bandwidth;
        let mut mass = 0.0;
        for (i, value) in d.values.iter().enumerate() {
            let x = d.start + i as f64 * d.step;
            let want = (-0.5 * x * x / variance).exp() / (2.0 * std::f64::consts::PI * variance).sqrt();
            assert!((value - want).abs() < 1e-3, "{x}: {value} for {want}");
            mass += value * d.step;
        }
        assert!((mass - 1.0).abs() < 1e-3, "{mass}");
        assert!(d.values.len() <= 128);
    }

    #[test]
    fn binning_does_not_show() {
        let sample: Vec<f64> = normal_sample(600).iter().map(|z| 1e3 + 1e-3 * z.abs().sqrt() * z).collect();
        let d = marginal(&sample, 96).unwrap().density.unwrap();
        let peak = d.values.iter().fold(0f64, |a, b| a.max(*b));
        for (i, value) in d.values.iter().enumerate() {
            let x = d.start + i as f64 * d.step;
            let kernel = |v: &f64| (-0.5 * ((x - v) / d.bandwidth).powi(2)).exp();
            let direct = sample.iter().map(kernel).sum::<f64>()
                / (600.0 * d.bandwidth * (2.0 * std::f64::consts::PI).sqrt());
            assert!((value - direct).abs() < 2e-3 * peak, "{x}: {value} for {direct}");
        }
    }

    #[test]
    fn stray_values_leave_the_density_sharp() {
        let mut sample = normal_sample(2000);
        sample.push(1e9);
        let d = marginal(&sample, 128).unwrap().density.unwrap();
        assert!(d.step < 0.3 && d.values.iter().any(|v| *v > 0.35), "step {}", d.step);
    }
}
