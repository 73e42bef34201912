//! Threefry4x32, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).

/// Twelve rounds pass BigCrush, and are the fewest recommended.
const ROUNDS: usize = 12;

/// Counters that are encrypted side by side, one per lane.
pub(super) const LANES: usize = 8;

const ROTATIONS: [(u32, u32); 8] =
    [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)];

/// Encrypts one counter.
#[inline(always)]
pub(super) fn threefry4x32<const ROUNDS: usize>(key: [u32; 4], counter: [u32; 4]) -> [u32; 4] {
    let [a, b, c, d] = key;
    let keys = [a, b, c, d, 0x1bd1_1bda ^ a ^ b ^ c ^ d];
    let mut x = counter;
    for (x, key) in x.iter_mut().zip(keys) {
        *x = x.wrapping_add(key);
    }
    // Unrolled by hand: the lanes are vectorised only if no loop over rounds is left inside.
    macro_rules! rounds {
        ($($quad:literal)*) => { $(
            if 4 * $quad < ROUNDS {
                four_rounds::<$quad, ROUNDS>(&mut x, keys);
            }
        )* };
    }
    rounds!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
    x
}

/// The rounds from `4 * QUAD` on, and the key injection that closes them.
#[inline(always)]
fn four_rounds<const QUAD: usize, const ROUNDS: usize>(x: &mut [u32; 4], keys: [u32; 5]) {
    // Words 1 and 3 change partners every round.
    let order = [(1, 3), (3, 1), (1, 3), (3, 1)];
    macro_rules! round {
        ($($i:literal)*) => { $(
            if 4 * QUAD + $i < ROUNDS {
                let (i, j) = order[$i];
                let (first, second) = ROTATIONS[4 * (QUAD % 2) + $i];
                x[0] = x[0].wrapping_add(x[i]);
                x[i] = x[i].rotate_left(first) ^ x[0];
                x[2] = x[2].wrapping_add(x[j]);
                x[j] = x[j].rotate_left(second) ^ x[2];
            }
        )* };
    }
    round!(0 1 2 3);
    if 4 * QUAD + 3 < ROUNDS {
        let injection = QUAD + 1;
        x[0] = x[0].wrapping_add(keys[injection % 5]);
        x[1] = x[1].wrapping_add(keys[(injection + 1) % 5]);
        x[2] = x[2].wrapping_add(keys[(injection + 2) % 5]);
        x[3] = x[3].wrapping_add(keys[(injection + 3) % 5]).wrapping_add(injection as u32);
    }
}

/// The words of one block: counter (block, step), each 64 bits, low half first.
#[inline(always)]
pub(super) fn block(key: [u32; 4], step: u64, block: u64) -> [u32; 4] {
    let counter = [block as u32, (block >> 32) as u32, step as u32, (step >> 32) as u32];
    threefry4x32::<ROUNDS>(key, counter)
}

/// The words of L blocks, those of the batch with this number if they were counted in batches of L.
#[inline(always)]
pub(super) fn batch<const L: usize>(key: [u32; 4], step: u64, batch: u64) -> [[u32; L]; 4] {
    let [mut w, mut x, mut y, mut z] = [[0; L]; 4];
    for lane in 0..L {
        [w[lane], x[lane], y[lane], z[lane]] = block(key, step, batch * L as u64 + lane as u64);
    }
    [w, x, y, z]
}
