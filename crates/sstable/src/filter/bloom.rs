//! This module implements the bit set of a bloom filter and its hash functions.

use std::fmt;

use espalier_mutation::murmur3;
use espalier_trie::prefetch::prefetch_range;

use super::FilterSize;

/// Number of bits of a key that are prefetched. Half of all bits are set, so a look-up of an absent
/// key reads two bits on average.
const BITS_AHEAD: usize = 2;

/// A bloom filter. Bit i is bit i%8 of byte i/8.
#[derive(Clone, PartialEq, Eq)]
pub struct BloomFilter {
    hash_count: u32,
    bits: Vec<u8>,
    remainder: Remainder,
}

impl fmt::Debug for BloomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BloomFilter({} hashes, {} bytes)", self.hash_count, self.bits.len())
    }
}

impl BloomFilter {
    /// Creates a filter without keys.
    pub fn new(size: FilterSize) -> Self {
        let length = usize::try_from(size.words * 8).unwrap_or(8);
        Self::from_parts(size.hash_count, vec![0; length])
    }

    /// Creates a filter of the same size without keys.
    pub fn emptied(&self) -> Self {
        Self::from_parts(self.hash_count, vec![0; self.bits.len()])
    }

    pub(super) fn from_parts(hash_count: u32, bits: Vec<u8>) -> Self {
        let remainder = Remainder::of(bits.len() as u64);
        Self { hash_count, bits, remainder }
    }

    /// Returns the number of bits that each key sets.
    pub fn hash_count(&self) -> u32 {
        self.hash_count
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// Adds a serialised partition key.
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(murmur3::hash(key));
    }

    /// Adds a key by the two halves of its Murmur3 hash.
    #[inline]
    pub fn add_hash(&mut self, hash: (u64, u64)) {
        self.positions(hash).for_each(|position| self.set(position));
    }

    /// Sets a bit.
    #[inline]
    pub(super) fn set(&mut self, position: usize) {
        if let Some(byte) = self.bits.get_mut(position / 8) {
            *byte |= 1 << (position % 8);
        }
    }

    /// Prefetches the memory of a bit.
    #[inline]
    pub(super) fn prefetch(&self, position: usize) {
        prefetch_range(&self.bits, position / 8, position / 8 + 1);
    }

    /// Returns the bits of the key whose Murmur3 hash has these two halves.
    #[inline]
    pub(super) fn positions(&self, hash: (u64, u64)) -> impl Iterator<Item = usize> + use<> {
        positions(hash, self.hash_count, self.remainder)
    }

    /// Returns false if the key was certainly not added, and true if it may have been added.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(murmur3::hash(key))
    }

    /// Works like [`may_contain`](Self::may_contain), for a key given by the two halves of its
    /// Murmur3 hash.
    pub fn may_contain_hash(&self, hash: (u64, u64)) -> bool {
        self.positions(hash)
            .all(|index| self.bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1))
    }

    /// Prefetches the memory of the bits that [`BloomFilter::may_contain_hash`] reads first. A
    /// caller prefetches for several filters before it asks the first one.
    #[inline]
    pub fn look_ahead(&self, hash: (u64, u64)) {
        for index in self.positions(hash).take(BITS_AHEAD) {
            self.prefetch(index);
        }
    }

    /// Returns the fraction of the bits that are set, from 0 to 1. The chance that an absent key
    /// passes is this value to the power of [`BloomFilter::hash_count`].
    pub fn fill(&self) -> f64 {
        let set: u64 = self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        set as f64 / (self.bits.len() as f64 * 8.0).max(1.0)
    }

    /// Returns the length of the bit set in bytes.
    pub fn memory_size(&self) -> usize {
        self.bits.len()
    }
}

/// Returns the bits of a key: `h2 + j·h1` for each hash j. The format makes the signed remainder
/// positive, which equals the remainder of the absolute value.
fn positions(
    hash: (u64, u64),
    hash_count: u32,
    remainder: Remainder,
) -> impl Iterator<Item = usize> {
    let (step, start) = (hash.0 as i64, hash.1 as i64);
    (0..i64::from(hash_count)).map(move |j| {
        let number = start.wrapping_add(j.wrapping_mul(step)).unsigned_abs();
        remainder.of_number(number) as usize
    })
}

/// A divisor for remainders by the filter's number of bits. It multiplies, which takes a third of
/// the time of a division. A key needs one remainder for each hash.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Remainder {
    bits: u64,
    /// `u64::MAX / bits`, which is at most 2^64 / `bits`.
    reciprocal: u64,
}

impl Remainder {
    /// Creates the divisor for the number of bits in `bytes` bytes.
    fn of(bytes: u64) -> Self {
        // The limit keeps positions equal to those of a signed division. No memory is that large.
        let bits = bytes.saturating_mul(8).clamp(1, i64::MAX as u64);
        Self { bits, reciprocal: u64::MAX / bits }
    }

    /// Returns the remainder of `number`, which must be at most 2^63.
    #[inline]
    fn of_number(self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        // The quotient is right or one too small. Rounding the reciprocal down lowers the quotient
        // by at most number / 2^64, which is at most a half.
        let rest = number.wrapping_sub(quotient.wrapping_mul(self.bits));
        if rest >= self.bits { rest - self.bits } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn remainders_are_those_of_a_division(
            bytes in prop_oneof![0u64..64, 0u64..1 << 40, Just(u64::MAX / 8), any::<u64>()],
            number in prop_oneof![0u64..1000, 0u64..=1 << 63, Just(1u64 << 63)],
            multiple in 0u64..4,
        ) {
            let remainder = Remainder::of(bytes);
            let bits = remainder.bits;
            prop_assert_eq!(remainder.of_number(number), number % bits);
            // A wrong quotient shows at numbers near multiples of the divisor.
            let near = (number / bits).saturating_sub(multiple) * bits;
            for number in [near, near.saturating_sub(1), near + 1] {
                let number = number.min(1 << 63);
                prop_assert_eq!(remainder.of_number(number), number % bits);
            }
        }
    }
}
