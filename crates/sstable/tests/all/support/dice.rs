//! `Dice` generates pseudo-random numbers that are the same in every run.

/// A generator with its seed, which must not be 0.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % bound
    }
}
