//! Numbers that look random and are the same in every run.

/// Its seed; not 0.
pub struct Dice(pub u64);

impl Dice {
    /// One of the numbers under `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) as usize % bound
    }
}
