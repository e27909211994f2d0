//! Orders UUIDs by ranks, which are unsigned integers of 128 bits.
//!
//! The type `uuid` sorts by version first. UUIDs of version 1 then sort by time, and those of other
//! versions by their bytes. The last 8 bytes, unsigned, decide ties. The type `timeuuid` sorts by
//! time, and the last 8 bytes decide ties as *signed* bytes. Comparison and the byte-comparable
//! form both use these integers, so they cannot disagree.

/// Returns the rank of a UUID of any version in a column of type `uuid`.
#[inline]
pub(crate) fn uuid_rank(bytes: [u8; 16]) -> u128 {
    let (high, low) = split(bytes);
    let version = high >> 12 & 0xF;
    let ranked = if version == 1 {
        time_first(high)
    } else {
        version << 60 | high >> 4 & 0x0FFF_FFFF_FFFF_F000 | high & 0xFFF
    };
    join(ranked, low)
}

/// Returns the UUID of a rank made by [`uuid_rank`].
#[inline]
pub(crate) fn uuid_of_rank(rank: u128) -> [u8; 16] {
    let (ranked, low) = split(rank.to_be_bytes());
    let version = ranked >> 60;
    let high = if version == 1 {
        time_last(ranked)
    } else {
        (ranked << 4 & 0xFFFF_FFFF_FFFF_0000) | version << 12 | ranked & 0xFFF
    };
    join(high, low).to_be_bytes()
}

/// Returns the rank of a UUID in a column of type `timeuuid`.
#[inline]
pub(crate) fn timeuuid_rank(bytes: [u8; 16]) -> u128 {
    let (high, low) = split(bytes);
    join(time_first(high), low ^ SIGNED_BYTES)
}

/// Returns the UUID of a rank made by [`timeuuid_rank`].
#[inline]
pub(crate) fn timeuuid_of_rank(rank: u128) -> [u8; 16] {
    let (ranked, low) = split(rank.to_be_bytes());
    join(time_last(ranked), low ^ SIGNED_BYTES).to_be_bytes()
}

const SIGNED_BYTES: u64 = 0x8080_8080_8080_8080;

/// Turns `time_low, time_mid, time_high` into `time_high, time_mid, time_low`; the version moves
/// with `time_high`.
fn time_first(high: u64) -> u64 {
    high << 48 | high << 16 & 0xFFFF_0000_0000 | high >> 32
}

fn time_last(ranked: u64) -> u64 {
    ranked >> 48 | ranked >> 16 & 0xFFFF_0000 | ranked << 32
}

fn split(bytes: [u8; 16]) -> (u64, u64) {
    let wide = u128::from_be_bytes(bytes);
    ((wide >> 64) as u64, wide as u64)
}

fn join(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranks_are_bijections(bytes: [u8; 16]) {
            prop_assert_eq!(uuid_of_rank(uuid_rank(bytes)), bytes);
            prop_assert_eq!(timeuuid_of_rank(timeuuid_rank(bytes)), bytes);
        }
    }
}
