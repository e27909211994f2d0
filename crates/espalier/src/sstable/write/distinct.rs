//! How many different partitions there are, about: tokens are hashes, so those with `k` zero bits at their end are one of
//! 2^k, whatever the keys are. They are kept, and `k` grows when they become too many.
//!
//! Memory: 65,536 tokens. Error: about 0.4 % beyond that many partitions, none below.

use std::collections::HashSet;

const MOST_TOKENS: usize = 65_536;

/// A count of different tokens.
#[derive(Debug, Default)]
pub struct DistinctTokens {
    tokens: HashSet<i64>,
    zero_bits: u32,
}

impl DistinctTokens {
    /// Counts a token, if it was not counted before.
    pub fn add(&mut self, token: i64) {
        if token.trailing_zeros() < self.zero_bits {
            return;
        }
        self.tokens.insert(token);
        while self.tokens.len() > MOST_TOKENS {
            self.zero_bits += 1;
            let least = self.zero_bits;
            self.tokens.retain(|token| token.trailing_zeros() >= least);
        }
    }

    /// About how many different ones came.
    pub fn estimate(&self) -> u64 {
        (self.tokens.len() as u64) << self.zero_bits
    }
}

#[cfg(test)]
mod tests {
    use espalier_mutation::Token;

    use super::*;

    #[test]
    fn few_are_counted_exactly_and_many_nearly() {
        for (count, error) in [(0u64, 0.0), (1000, 0.0), (65_536, 0.0), (500_000, 0.02)] {
            let mut distinct = DistinctTokens::default();
            for key in (0..count).chain(0..count) {
                distinct.add(Token::of(&key.to_be_bytes()).0);
            }
            let difference = distinct.estimate().abs_diff(count) as f64;
            assert!(difference <= error * count as f64, "{count}: {}", distinct.estimate());
        }
    }
}
