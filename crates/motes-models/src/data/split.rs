//! scikit-learn's train_test_split, number for number: MT19937 and NumPy's legacy shuffle.

use super::DataError;

/// Row numbers of the two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The rows to train on.
    pub train: Vec<usize>,
    /// The rows to test on.
    pub test: Vec<usize>,
}

/// Splits n rows as `train_test_split(test_size=fraction, random_state=seed)` does; fraction 0 trains on everything.
pub fn train_test_split(n: usize, fraction: f64, seed: u32) -> Result<Split, DataError> {
    if !(0.0..1.0).contains(&fraction) {
        return Err(DataError(format!(
            "`test-fraction={fraction}` is not a fraction; choose a number from 0 up to, but not including, 1"
        )));
    }
    if fraction == 0.0 {
        return Ok(Split { train: (0..n).collect(), test: Vec::new() });
    }
    let n_test = (fraction * n as f64).ceil() as usize;
    if n_test >= n {
        return Err(DataError(format!(
            "`test-fraction={fraction}` leaves none of {n} rows to train on; choose a smaller fraction or give more rows"
        )));
    }
    let mut rows = permutation(n, seed);
    let train = rows.split_off(n_test);
    Ok(Split { train, test: rows })
}

/// NumPy's `RandomState(seed).permutation(n)`.
pub(super) fn permutation(n: usize, seed: u32) -> Vec<usize> {
    let mut rng = Mt19937::new(seed);
    let mut rows: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        rows.swap(i, rng.up_to(i as u64) as usize);
    }
    rows
}

const LEN: usize = 624;
const MIDDLE: usize = 397;

/// The Mersenne Twister of Matsumoto and Nishimura.
struct Mt19937 {
    state: [u32; LEN],
    next: usize,
}

impl Mt19937 {
    fn new(seed: u32) -> Self {
        let mut state = [seed; LEN];
        for i in 1..LEN {
            let last = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { state, next: LEN }
    }

    fn next_u32(&mut self) -> u32 {
        if self.next == LEN {
            for i in 0..LEN {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % LEN] & 0x7fff_ffff);
                let twist = if y & 1 == 0 { 0 } else { 0x9908_b0df };
                self.state[i] = self.state[(i + MIDDLE) % LEN] ^ (y >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A number from 0 to `max`, both included: masked draws until one fits.
    fn up_to(&mut self, max: u64) -> u64 {
        let mask = u64::MAX >> max.leading_zeros().min(63);
        loop {
            let mut value = u64::from(self.next_u32());
            if max > u64::from(u32::MAX) {
                value = (value << 32) | u64::from(self.next_u32());
            }
            if value & mask <= max {
                return value & mask;
            }
        }
    }
}
