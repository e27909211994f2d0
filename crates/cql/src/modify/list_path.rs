//! Paths of list cells: timeuuids that keep the order of appends and reverse the order of prepends.
//!
//! Each shard counts ticks of 100 ns and uses no tick twice, so two appends in one statement keep
//! their order. A prepend uses a time mirrored at the start of 2010, so that later prepends sort
//! before earlier ones, as in Cassandra's files.

use std::cell::Cell;

use bytes::Bytes;
use espalier_types::timeuuid;

/// 2010-01-01 in units of 100 ns since 1582-10-15.
const MIRROR_TICKS: u64 = 122_192_928_000_000_000 + 12_623_040_000_000_000;
const UNIX_EPOCH_TICKS: u64 = 122_192_928_000_000_000;
/// Clock sequence and node of list paths, an arbitrary choice. The last 16 bits of the node hold
/// the number of the shard that counted the ticks, because two shards may append to one list at the
/// same time with the same ticks.
const CLOCK_SEQUENCE_AND_NODE: u64 = 0x8000_4553_5041_0000;

thread_local! {
    static LAST_TICKS: Cell<u64> = const { Cell::new(0) };
}

fn clock_sequence_and_node() -> u64 {
    let shard = espalier_runtime::current_shard().map_or(0, |shard| shard.index);
    CLOCK_SEQUENCE_AND_NODE | (shard as u64 & 0xffff)
}

fn next_ticks(now_us: i64) -> u64 {
    let now = UNIX_EPOCH_TICKS.wrapping_add((now_us.max(0) as u64).wrapping_mul(10));
    LAST_TICKS.with(|last| {
        let ticks = now.max(last.get() + 1);
        last.set(ticks);
        ticks
    })
}

/// Returns the path of the next appended element.
pub fn append(now_us: i64) -> Bytes {
    Bytes::copy_from_slice(&timeuuid::from_ticks(next_ticks(now_us), clock_sequence_and_node()))
}

/// Returns the path of the next prepended element. The path sorts before all earlier paths of this
/// shard.
pub fn prepend(now_us: i64) -> Bytes {
    let mirrored = (2 * MIRROR_TICKS).saturating_sub(next_ticks(now_us));
    Bytes::copy_from_slice(&timeuuid::from_ticks(mirrored, clock_sequence_and_node()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use espalier_types::CqlType;

    #[test]
    fn prepended_paths_sort_before_appended_ones() {
        let now = 1_750_000_000_000_000;
        let paths = [prepend(now), prepend(now), append(now), append(now)];
        assert!(CqlType::Timeuuid.compare(&paths[1], &paths[0]).is_lt());
        assert!(CqlType::Timeuuid.compare(&paths[0], &paths[2]).is_lt());
        assert!(CqlType::Timeuuid.compare(&paths[2], &paths[3]).is_lt());
    }
}
