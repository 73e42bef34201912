//! Pseudo-random numbers (splitmix64), the same everywhere.

/// A small generator.
pub struct Dice(u64);

impl Dice {
    /// That of a case.
    pub fn of(name: &str, case: u64) -> Self {
        // FNV-1a of the name, so that targets do not share their cases.
        let name = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Dice(name ^ case.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// One of some things.
    pub fn of_these<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }
}
