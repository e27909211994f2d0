//! This module computes the number of bits and hashes of a filter for a false positive chance.

/// Maximum number of bits per key. More bits bring no gain.
const MAX_BITS_PER_KEY: u32 = 20;
/// Number of bits added to every filter.
const EXCESS_BITS: u64 = 20;
/// Maximum number of words, which is a signed 32-bit integer in the file.
const MAX_WORDS: u64 = i32::MAX as u64;

/// Minimum false positive chance that a filter with [`MAX_BITS_PER_KEY`] bits per key reaches.
pub const MIN_CHANCE: f64 = 6.71e-5;

/// The size of a filter: hashes per key and 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSize {
    /// Number of bits that each key sets.
    pub hash_count: u32,
    /// Number of words of the bit set.
    pub words: u64,
}

/// Returns the chance of a false positive with `hash_count` hashes and `bits` bits for each key. It
/// is rounded to three digits, because Cassandra chooses sizes by a table of such numbers.
fn chance(bits: u32, hash_count: u32) -> f64 {
    let exact = (1.0 - (-f64::from(hash_count) / f64::from(bits)).exp()).powi(hash_count as i32);
    let digits = 2 - exact.log10().floor() as i32;
    (exact * 10f64.powi(digits)).round() / 10f64.powi(digits)
}

fn best_hash_count(bits: u32) -> u32 {
    (1..=bits).min_by(|&a, &b| chance(bits, a).total_cmp(&chance(bits, b))).unwrap_or(1)
}

impl FilterSize {
    /// Returns the size for `keys` keys, as Cassandra chooses it: the minimum number of bits that
    /// reaches the chance with its best hash count, then the minimum number of hashes that still
    /// reaches it. Returns `None` for a chance of 1, which means no filter.
    pub fn for_keys(keys: u64, false_positive_chance: f64) -> Option<FilterSize> {
        if false_positive_chance.is_nan() || false_positive_chance >= 1.0 {
            return None;
        }
        let wanted = false_positive_chance.max(MIN_CHANCE);
        let bits = (2..MAX_BITS_PER_KEY)
            .find(|&bits| chance(bits, best_hash_count(bits)) <= wanted)
            .unwrap_or(MAX_BITS_PER_KEY);
        let mut hash_count = best_hash_count(bits);
        while hash_count > 1 && chance(bits, hash_count - 1) <= wanted {
            hash_count -= 1;
        }
        let bits = keys.saturating_mul(u64::from(bits)).saturating_add(EXCESS_BITS);
        Some(FilterSize { hash_count, words: bits.div_ceil(64).min(MAX_WORDS) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_cassandra() {
        let shape = |chance| {
            let size = FilterSize::for_keys(64_000, chance).unwrap();
            (size.hash_count, (size.words * 64 / 64_000) as u32)
        };
        assert_eq!(shape(0.1), (3, 5));
        assert_eq!(shape(0.01), (5, 10));
        assert_eq!(shape(0.001), (7, 15));
        assert_eq!(shape(0.0001), (10, 20));
        assert_eq!(shape(0.5), (1, 2));
        assert_eq!(FilterSize::for_keys(1, 1.0), None);
    }

    #[test]
    fn small_and_absurd_counts() {
        assert_eq!(FilterSize::for_keys(0, 0.01).unwrap().words, 1);
        assert_eq!(FilterSize::for_keys(u64::MAX, 0.01).unwrap().words, MAX_WORDS);
        assert!(FilterSize::for_keys(10, 0.0).is_some());
    }
}
