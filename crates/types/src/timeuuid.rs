//! Makes and reads version 1 UUIDs: a time in units of 100 ns, a clock sequence and a node.
//!
//! Time and randomness come from the caller. The bounds of a millisecond are those of Cassandra's
//! `minTimeuuid` and `maxTimeuuid`. They enclose every timeuuid of that millisecond in the order of
//! the type `timeuuid`, which compares the last eight bytes as signed bytes.

/// Units of 100 ns from 1582-10-15 (the UUID epoch) to 1970-01-01.
pub const UNIX_EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;
/// Units of 100 ns in a millisecond.
pub const TICKS_PER_MILLISECOND: i64 = 10_000;
/// The clock sequence and node of the smallest timeuuid of a millisecond.
pub const MIN_CLOCK_SEQ_AND_NODE: u64 = 0x8080_8080_8080_8080;
/// The clock sequence and node of the largest timeuuid of a millisecond.
pub const MAX_CLOCK_SEQ_AND_NODE: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// Makes a timeuuid for `ticks` units of 100 ns since 1582-10-15.
///
/// Only the low 60 bits of `ticks` fit (until the year 5236). `clock_seq_and_node` is the last 8
/// bytes, including the variant bits.
pub fn from_ticks(ticks: u64, clock_seq_and_node: u64) -> [u8; 16] {
    let high = ticks << 32 | ticks >> 16 & 0xFFFF_0000 | ticks >> 48 & 0x0FFF | 0x1000;
    (u128::from(high) << 64 | u128::from(clock_seq_and_node)).to_be_bytes()
}

/// Makes a timeuuid for a time in µs since 1970. Times before 1582 or after 5236 wrap around.
pub fn from_unix_micros(unix_us: i64, clock_seq_and_node: u64) -> [u8; 16] {
    let ticks = unix_us.wrapping_mul(10).wrapping_add(UNIX_EPOCH_TICKS);
    from_ticks(ticks as u64, clock_seq_and_node)
}

/// Returns the units of 100 ns since 1582-10-15 of a version 1 UUID; `None` for anything else.
pub fn ticks(uuid: &[u8]) -> Option<u64> {
    let high = u64::from_be_bytes(*uuid.first_chunk()?);
    if uuid.len() != 16 || high >> 12 & 0xF != 1 {
        return None;
    }
    Some(high >> 32 | (high & 0xFFFF_0000) << 16 | (high & 0x0FFF) << 48)
}

/// Returns the µs since 1970 of a version 1 UUID, rounded down; `None` for anything else.
pub fn unix_timestamp_micros(uuid: &[u8]) -> Option<i64> {
    ticks(uuid).map(|ticks| (ticks as i64 - UNIX_EPOCH_TICKS).div_euclid(10))
}

/// Returns the ms since 1970 of a version 1 UUID; `None` for anything else. Before 1970, the µs
/// are rounded to ms towards zero, as in Cassandra.
pub fn unix_timestamp_millis(uuid: &[u8]) -> Option<i64> {
    unix_timestamp_micros(uuid).map(|micros| micros / 1000)
}

/// Returns the smallest timeuuid of a millisecond since 1970. It is a bound, not a unique id.
pub fn min_for_millis(unix_ms: i64) -> [u8; 16] {
    from_ticks(millis_to_ticks(unix_ms), MIN_CLOCK_SEQ_AND_NODE)
}

/// Returns the largest timeuuid of a millisecond since 1970. It is a bound, not a unique id.
pub fn max_for_millis(unix_ms: i64) -> [u8; 16] {
    let last = millis_to_ticks(unix_ms).wrapping_add(TICKS_PER_MILLISECOND as u64 - 1);
    from_ticks(last, MAX_CLOCK_SEQ_AND_NODE)
}

fn millis_to_ticks(unix_ms: i64) -> u64 {
    unix_ms.wrapping_mul(TICKS_PER_MILLISECOND).wrapping_add(UNIX_EPOCH_TICKS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CqlType;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    #[test]
    fn bounds_of_the_epoch_are_cassandras() {
        let text = |bytes| uuid::Uuid::from_bytes(bytes).to_string();
        assert_eq!(text(min_for_millis(0)), "13814000-1dd2-11b2-8080-808080808080");
        assert_eq!(text(max_for_millis(0)), "1381670f-1dd2-11b2-7f7f-7f7f7f7f7f7f");
    }

    proptest! {
        #[test]
        fn bounds_enclose_their_millisecond(ms in 0i64..4_000_000_000_000, sub_ticks in 0u64..10_000, node: u64) {
            let ticks = (ms * TICKS_PER_MILLISECOND + UNIX_EPOCH_TICKS) as u64 + sub_ticks;
            let id = from_ticks(ticks, node);
            prop_assert_eq!(super::ticks(&id), Some(ticks));
            prop_assert_eq!(unix_timestamp_millis(&id), Some(ms));
            prop_assert_ne!(CqlType::Timeuuid.compare(&min_for_millis(ms), &id), Ordering::Greater);
            prop_assert_ne!(CqlType::Timeuuid.compare(&id, &max_for_millis(ms)), Ordering::Greater);
            prop_assert_eq!(CqlType::Timeuuid.compare(&id, &min_for_millis(ms + 1)), Ordering::Less);
        }
    }
}
