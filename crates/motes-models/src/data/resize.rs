//! Bilinear resizing of 8-bit images with Pillow's arithmetic, which PyTorch's transforms use: a triangle that widens where
//! images shrink, fixed-point weights, rounding to bytes after each direction.
//!
//! Own code: the resizers of the `image` crate round differently, and pixels would differ from the authors'.

const BITS: u32 = 22;

/// For each output pixel, where its input pixels begin and their weights.
fn weights(from: usize, to: usize) -> Vec<(usize, Vec<i64>)> {
    let scale = from as f64 / to as f64;
    let width = scale.max(1.0);
    let one = |out: usize| {
        let centre = (out as f64 + 0.5) * scale;
        let first = ((centre - width + 0.5) as i64).max(0) as usize;
        let end = ((centre + width + 0.5) as usize).min(from);
        let triangle = |i: usize| (1.0 - ((i as f64 - centre + 0.5) / width).abs()).max(0.0);
        let raw: Vec<f64> = (first..end).map(triangle).collect();
        let sum: f64 = raw.iter().sum();
        (first, raw.iter().map(|w| (0.5 + w / sum * f64::from(1 << BITS)) as i64).collect())
    };
    (0..to).map(one).collect()
}

fn blend(weights: &[i64], pixels: impl Iterator<Item = u8>) -> u8 {
    let sum: i64 = weights.iter().zip(pixels).map(|(w, p)| w * i64::from(p)).sum();
    ((sum + (1 << (BITS - 1))) >> BITS).clamp(0, 255) as u8
}

/// Resizes one plane of `width` columns.
pub fn resize(pixels: &[u8], width: usize, to_width: usize, to_height: usize) -> Vec<u8> {
    let height = pixels.len() / width;
    let across = |pixels: &[u8]| -> Vec<u8> {
        let columns = weights(width, to_width);
        let row = |row: &[u8]| -> Vec<u8> {
            columns.iter().map(|(first, w)| blend(w, row[*first..].iter().copied())).collect()
        };
        pixels.chunks_exact(width).flat_map(row).collect()
    };
    let narrowed = if width == to_width { pixels.to_vec() } else { across(pixels) };
    if height == to_height {
        return narrowed;
    }
    let rows = weights(height, to_height);
    let pixel = |first: usize, w: &[i64], x: usize| {
        blend(w, narrowed[first * to_width + x..].iter().step_by(to_width).copied())
    };
    rows.iter()
        .flat_map(|(first, w)| (0..to_width).map(|x| pixel(*first, w, x)).collect::<Vec<u8>>())
        .collect()
}

/// Brings the shorter side of a plane to `side` and cuts the middle out of the longer one.
pub fn fit_square(pixels: &[u8], width: usize, side: usize) -> Vec<u8> {
    let height = pixels.len() / width;
    let longer = |long: usize, short: usize| (side * long / short).max(side);
    let (w, h) = if width <= height { (side, longer(height, width)) } else { (longer(width, height), side) };
    let resized = resize(pixels, width, w, h);
    // Halves are rounded to even, as in Python.
    let middle = |len: usize| ((len - side) as f64 / 2.0).round_ties_even() as usize;
    let (left, top) = (middle(w), middle(h));
    (top..top + side).flat_map(|y| resized[y * w + left..y * w + left + side].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_of_one_value_keeps_it() {
        for (width, height) in [(28, 28), (5, 9), (178, 218), (32, 32), (300, 40)] {
            assert!(fit_square(&vec![77; width * height], width, 32).iter().all(|p| *p == 77));
        }
    }

    /// Doubling a row of two pixels: the weights are 1, 3/4, 1/4 by hand.
    #[test]
    fn a_row_by_hand() {
        assert_eq!(resize(&[0, 100], 2, 4, 1), [0, 25, 75, 100]);
        assert_eq!(resize(&[0, 100], 1, 1, 4), [0, 25, 75, 100]);
        // Halving four: the triangle spans four pixels with weights 1/8, 3/8, 3/8, 1/8, cut at the edges.
        assert_eq!(resize(&[0, 0, 80, 80], 4, 2, 1), [11, 69]);
    }

    /// The digests of what Pillow 13 makes of the same pixels (`Image.resize(size, Image.BILINEAR)`).
    #[test]
    fn pixels_are_pillows() {
        let mnist = super::super::ImageSet::mnist(1, None).unwrap();
        assert_eq!(mnist.sha256(), "8d573851142a441ded57947b8d575573d1f4c3ff7299061737bdce033a1ed8fe");
        let picture = |width: usize, height: usize| -> Vec<u8> {
            let pixel = |x: usize, y: usize| (x * 7 + y * 13 + x * y / 11) as u8;
            (0..height).flat_map(|y| (0..width).map(move |x| pixel(x, y))).collect()
        };
        assert_eq!(crc32fast::hash(&fit_square(&picture(178, 218), 178, 32)), 2910152256);
        assert_eq!(crc32fast::hash(&fit_square(&picture(50, 20), 50, 32)), 3263854075);
    }

    #[test]
    fn the_middle_is_kept() {
        let wide: Vec<u8> = (0..2).flat_map(|_| [1, 2, 3, 4, 5, 6]).collect();
        assert_eq!(fit_square(&wide, 6, 2), [3, 4, 3, 4]);
    }
}
