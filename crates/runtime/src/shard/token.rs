//! Maps tokens to shards: the token ring is cut into `count` equal, contiguous ranges.
//!
//! This is ScyllaDB's biased-token map with an ignore-MSB of 0, which shard-aware drivers compute
//! too.

/// Returns the shard, of `count`, that owns `token`. A `count` of 0 counts as 1.
#[inline]
pub fn shard_of_token(token: i64, count: usize) -> usize {
    let biased = token.cast_unsigned() ^ (1 << 63);
    // The product is below 2^64 × count, so the shift leaves less than `count`.
    ((u128::from(biased) * count as u128) >> 64) as usize
}

/// Returns the first and last token of `shard` of `count`.
///
/// Panics if there is no such shard.
pub fn token_range_of_shard(shard: usize, count: usize) -> (i64, i64) {
    assert!(shard < count, "there is no shard {shard} of {count}");
    let first = first_biased(shard, count);
    let last = if shard + 1 == count { u64::MAX } else { first_biased(shard + 1, count) - 1 };
    (unbias(first), unbias(last))
}

/// Returns the least `b` with `(b × count) >> 64 == shard`.
fn first_biased(shard: usize, count: usize) -> u64 {
    (((shard as u128) << 64).div_ceil(count as u128)) as u64
}

fn unbias(biased: u64) -> i64 {
    (biased ^ (1 << 63)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_the_ring() {
        assert_eq!(shard_of_token(i64::MIN, 7), 0);
        assert_eq!(shard_of_token(i64::MAX, 7), 6);
        assert_eq!(shard_of_token(-1, 2), 0);
        assert_eq!(shard_of_token(0, 2), 1);
        assert_eq!(token_range_of_shard(0, 1), (i64::MIN, i64::MAX));
    }

    proptest! {
        #[test]
        fn ranges_are_contiguous_and_own_their_ends(count in 1usize..300) {
            let mut next = i64::MIN;
            for shard in 0..count {
                let (first, last) = token_range_of_shard(shard, count);
                prop_assert_eq!(first, next);
                prop_assert_eq!(shard_of_token(first, count), shard);
                prop_assert_eq!(shard_of_token(last, count), shard);
                next = last.wrapping_add(1);
            }
            prop_assert_eq!(next, i64::MIN);
        }

        #[test]
        fn every_token_lies_in_the_range_of_its_shard(token: i64, count in 1usize..5000) {
            let (first, last) = token_range_of_shard(shard_of_token(token, count), count);
            prop_assert!(first <= token && token <= last);
        }
    }
}
