//! The bit set and its hash.

use std::fmt;

use bytes::Bytes;
use espalier_mutation::murmur3;

use super::FilterSize;
use crate::versions::FilterWords;

/// A bloom filter. Bit i is bit i%8 of byte i/8.
#[derive(Clone, PartialEq, Eq)]
pub struct BloomFilter {
    hash_count: u32,
    bits: Vec<u8>,
}

impl fmt::Debug for BloomFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BloomFilter({} hashes, {} bytes)", self.hash_count, self.bits.len())
    }
}

impl BloomFilter {
    /// A filter without keys.
    pub fn new(size: FilterSize) -> Self {
        let length = usize::try_from(size.words * 8).unwrap_or(8);
        Self { hash_count: size.hash_count, bits: vec![0; length] }
    }

    /// A filter of the same size without keys.
    pub fn emptied(&self) -> Self {
        Self { hash_count: self.hash_count, bits: vec![0; self.bits.len()] }
    }

    pub(super) fn from_parts(hash_count: u32, bits: Vec<u8>) -> Self {
        Self { hash_count, bits }
    }

    /// How many bits each key sets.
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

    /// Adds keys by the two halves of their Murmur3 hashes. Many at once take less time: no bit waits for the memory of another.
    pub fn add_hashes(&mut self, hashes: &[(u64, u64)]) {
        hashes.iter().for_each(|hash| self.add_hash(*hash));
    }

    /// Adds a key by the two halves of its Murmur3 hash.
    #[inline]
    pub fn add_hash(&mut self, hash: (u64, u64)) {
        for index in positions(hash, self.hash_count, self.bits.len()) {
            if let Some(byte) = self.bits.get_mut(index / 8) {
                *byte |= 1 << (index % 8);
            }
        }
    }

    /// False if no such key was added; true means perhaps.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(murmur3::hash(key))
    }

    /// The same by the two halves of the key's Murmur3 hash.
    pub fn may_contain_hash(&self, hash: (u64, u64)) -> bool {
        positions(hash, self.hash_count, self.bits.len())
            .all(|index| self.bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1))
    }

    /// The part of its bits that is set, 0 to 1. A key that was not added passes with this to the power of
    /// [`BloomFilter::hash_count`].
    pub fn fill(&self) -> f64 {
        let set: u64 = self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
        set as f64 / (self.bits.len() as f64 * 8.0).max(1.0)
    }

    /// Bytes that the filter takes.
    pub fn memory_size(&self) -> usize {
        self.bits.len()
    }

    /// The filter as the bytes of Filter.db.
    pub fn to_bytes(&self, words: FilterWords) -> Bytes {
        super::file::write(self, words)
    }
}

/// The bits of a key: `h2 + j·h1` for each hash j, as a signed remainder made positive.
fn positions(hash: (u64, u64), hash_count: u32, length: usize) -> impl Iterator<Item = usize> {
    let bits = (length as i64).saturating_mul(8).max(1);
    let (step, start) = (hash.0 as i64, hash.1 as i64);
    (0..i64::from(hash_count)).map(move |j| {
        let index = start.wrapping_add(j.wrapping_mul(step)) % bits;
        index.unsigned_abs() as usize
    })
}
