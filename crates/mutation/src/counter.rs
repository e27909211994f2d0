//! Reads, builds and merges counter contexts, the values of counter cells. Source:
//! docs/formats/data.md.
//!
//! A context is a be16 header count H; H × be16 index of a shard (top bit set: a global shard);
//! then shards of 32 bytes: 16-byte id, be64 clock, be64 count, sorted by id. Espalier makes global
//! shards only. Cassandra before 2.1 also wrote shards of other kinds, and a merge preserves their
//! kinds. Among shards with the same id, a global shard wins over the rest; without a global shard,
//! local shards add up and win over remote ones. Early ScyllaDB sorted ids as signed numbers;
//! [`sorted`] corrects the order.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Cell, ColumnData, Row};

/// One node's share of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterShard {
    /// The id of the node that counted.
    pub id: [u8; 16],
    /// The clock, which grows with each change.
    pub clock: i64,
    /// The node's share of the total.
    pub count: i64,
}

const SHARD_LENGTH: usize = 32;
/// Marks the index of a global shard in the header.
const GLOBAL: u16 = 0x8000;

/// The kind of a shard, in ascending order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShardKind {
    /// Not in the header: another node's share, as known when the context was written.
    Remote,
    /// A change that a node of Cassandra before 2.1 counted itself.
    Local,
    /// The whole share of a node.
    Global,
}

/// Returns the shards of a context. A malformed rest is ignored here; [`is_well_formed`] detects
/// it.
pub fn shards(context: &[u8]) -> impl Iterator<Item = CounterShard> + '_ {
    let header = match context {
        [high, low, ..] => 2 + 2 * usize::from(i16::from_be_bytes([*high, *low]).max(0) as u16),
        _ => context.len(),
    };
    context.get(header..).unwrap_or_default().chunks_exact(SHARD_LENGTH).filter_map(|shard| {
        Some(CounterShard {
            id: shard.get(..16)?.try_into().ok()?,
            clock: i64::from_be_bytes(shard.get(16..24)?.try_into().ok()?),
            count: i64::from_be_bytes(shard.get(24..32)?.try_into().ok()?),
        })
    })
}

/// Returns whether the length of a context fits its header.
pub fn is_well_formed(context: &[u8]) -> bool {
    match context {
        [] => true,
        [high, low, ..] => {
            let headers = i16::from_be_bytes([*high, *low]);
            headers >= 0
                && context.len().checked_sub(2 + 2 * headers as usize).is_some_and(|rest| {
                    rest % SHARD_LENGTH == 0 && headers as usize <= rest / SHARD_LENGTH
                })
        }
        _ => false,
    }
}

/// Returns the length in bytes of a context's header, which lists the local and global shards.
pub fn header_length(context: &[u8]) -> usize {
    let count = context.first_chunk().map_or(0, |count| i16::from_be_bytes(*count));
    (2 + 2 * usize::from(count.unsigned_abs())).min(context.len())
}

/// Returns the sum of all shards, which wraps around on overflow.
pub fn total(context: &[u8]) -> i64 {
    shards(context).fold(0, |sum, shard| sum.wrapping_add(shard.count))
}

/// Makes a context of global shards. `shards` must be sorted by id.
pub fn build(shards: &[CounterShard]) -> Bytes {
    build_with_kinds(shards.iter().map(|shard| (*shard, ShardKind::Global)))
}

fn build_with_kinds(
    shards: impl ExactSizeIterator<Item = (CounterShard, ShardKind)> + Clone,
) -> Bytes {
    let in_header = shards.clone().filter(|(_, kind)| *kind != ShardKind::Remote).count();
    let mut context = BytesMut::with_capacity(2 + 2 * in_header + shards.len() * SHARD_LENGTH);
    context.put_u16(in_header as u16);
    for (index, (_, kind)) in shards.clone().enumerate() {
        match kind {
            ShardKind::Remote => {}
            ShardKind::Local => context.put_u16(index as u16),
            ShardKind::Global => context.put_u16(index as u16 | GLOBAL),
        }
    }
    for (shard, _) in shards {
        context.put_slice(&shard.id);
        context.put_i64(shard.clock);
        context.put_i64(shard.count);
    }
    context.freeze()
}

fn shards_with_kinds(context: &[u8]) -> Vec<(CounterShard, ShardKind)> {
    let mut all: Vec<_> = shards(context).map(|shard| (shard, ShardKind::Remote)).collect();
    let count = context.first_chunk().map_or(0, |count| u16::from_be_bytes(*count));
    let indices = context.get(2..).unwrap_or_default().chunks_exact(2).take(usize::from(count));
    for index in indices {
        let index = u16::from_be_bytes([index[0], index[1]]);
        if let Some((_, kind)) = all.get_mut(usize::from(index & !GLOBAL)) {
            *kind = if index & GLOBAL != 0 { ShardKind::Global } else { ShardKind::Local };
        }
    }
    all
}

/// Merges two contexts. For each id the higher clock wins, at equal clocks the higher count; the
/// module's head gives the rules for shards that are not global.
pub fn merge(left: &[u8], right: &[u8]) -> Bytes {
    let mut all = shards_with_kinds(left);
    all.extend(shards_with_kinds(right));
    all.sort_by_key(|(shard, _)| shard.id);
    all.dedup_by(|(next, kind), (kept, kept_kind)| {
        if next.id != kept.id {
            return false;
        }
        if (*kind, *kept_kind) == (ShardKind::Local, ShardKind::Local) {
            kept.clock = kept.clock.wrapping_add(next.clock);
            kept.count = kept.count.wrapping_add(next.count);
        } else if (*kind, next.clock, next.count) > (*kept_kind, kept.clock, kept.count) {
            (*kept, *kept_kind) = (*next, *kind);
        }
        true
    });
    build_with_kinds(all.into_iter())
}

/// Returns the context with its shards sorted by id, each id once. Returns the same bytes if the
/// shards are sorted already or the context is malformed.
pub fn sorted(context: Bytes) -> Bytes {
    let ids = |context: &[u8]| shards(context).map(|shard| shard.id).is_sorted_by(|a, b| a < b);
    if ids(&context) || !is_well_formed(&context) { context } else { merge(&context, &[]) }
}

/// Joins two rows of one update that have the same clustering, and whose counter cells hold changes
/// (be64) instead of contexts.
///
/// The changes add up, and a deletion wins over them.
pub fn join_changes(into: &mut Row, from: Row) {
    into.deletion = into.deletion.max(from.deletion);
    for (id, right) in from.columns {
        match into.columns.binary_search_by_key(&id, |(column, _)| *column) {
            Err(place) => into.columns.insert(place, (id, right)),
            Ok(place) => {
                if let (ColumnData::Simple(left), ColumnData::Simple(right)) =
                    (&mut into.columns[place].1, right)
                {
                    *left = join_cells(left, right);
                }
            }
        }
    }
}

fn join_cells(left: &Cell, right: Cell) -> Cell {
    match (left.is_tombstone(), right.is_tombstone()) {
        (true, _) => left.clone(),
        (false, true) => right,
        (false, false) => {
            let timestamp = left.timestamp.max(right.timestamp);
            let sum = change(&left.value).wrapping_add(change(&right.value));
            Cell::live(timestamp, Bytes::copy_from_slice(&sum.to_be_bytes()))
        }
    }
}

/// Returns the change that a cell of an update holds; 0 if the value is shorter than 8 bytes.
pub fn change(value: &[u8]) -> i64 {
    value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Returns `context` after node `id` has added `delta`. The clock grows by one, and at least to
/// `clock_at_least`. Returns `None` if the clock has the greatest value already, because the change
/// would lose against the present share.
pub fn add(context: &[u8], id: [u8; 16], delta: i64, clock_at_least: i64) -> Option<Bytes> {
    let mine = shards(context).filter(|shard| shard.id == id).max_by_key(|shard| shard.clock);
    let changed = match mine {
        Some(shard) => CounterShard {
            id,
            clock: clock_at_least.max(shard.clock.checked_add(1)?),
            count: shard.count.wrapping_add(delta),
        },
        None => CounterShard { id, clock: clock_at_least, count: delta },
    };
    Some(merge(context, &build(&[changed])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u8, clock: i64, count: i64) -> CounterShard {
        CounterShard { id: [id; 16], clock, count }
    }

    fn context(shards: &[(CounterShard, ShardKind)]) -> Bytes {
        build_with_kinds(shards.iter().copied())
    }

    use ShardKind::{Global, Local, Remote};

    #[test]
    fn a_share_with_the_greatest_clock_takes_no_change() {
        let mine = |clock| build(&[shard(1, clock, 10)]);
        let later = add(&mine(i64::MAX - 1), [1; 16], -3, 5).unwrap();
        assert_eq!(later, build(&[shard(1, i64::MAX, 7)]));
        assert_eq!(add(&later, [1; 16], 1, i64::MAX), None);
    }

    #[test]
    fn signed_order_becomes_unsigned() {
        let (low, high) = (shard(0x01, 3, 30), shard(0x81, 4, 40));
        let wrong = build(&[high, low]);
        assert_eq!(sorted(wrong.clone()), build(&[low, high]));
        assert_eq!(total(&wrong), 70);
        // The merge also corrects the order if the other context is right, and does not count an
        // equal share twice.
        assert_eq!(merge(&wrong, &build(&[high])), build(&[low, high]));
        let right = build(&[low, high]);
        assert_eq!(sorted(right.clone()).as_ptr(), right.as_ptr());
    }

    #[test]
    fn contexts_without_shards() {
        for empty in [&[][..], &[0, 0]] {
            assert!(is_well_formed(empty));
            assert_eq!(total(empty), 0);
            let one = build(&[shard(1, 1, 5)]);
            assert_eq!(merge(empty, &one), one);
            assert_eq!(merge(&one, empty), one);
        }
        assert_eq!(merge(&[0, 0], &[]), Bytes::from_static(&[0, 0]));
        let malformed = Bytes::from_static(&[0, 1, 0x80, 0, 1, 2, 3]);
        assert_eq!(sorted(malformed.clone()), malformed);
    }

    #[test]
    fn a_merge_keeps_the_kinds_in_the_counter_header() {
        let mixed =
            context(&[(shard(1, 1, 1), Local), (shard(2, 2, 2), Remote), (shard(3, 3, 3), Global)]);
        assert_eq!(mixed[..6], [0, 2, 0, 0, 0x80, 2]);
        assert_eq!(merge(&mixed, &[]), mixed);
        assert_eq!(total(&mixed), 6);
    }

    #[test]
    fn the_kinds_of_shards_with_one_id_decide_their_merge() {
        let one = |shard, kind| context(&[(shard, kind)]);
        for (left, right, expected) in [
            ((shard(1, 2, 20), Global), (shard(1, 1, 99), Global), (shard(1, 2, 20), Global)),
            ((shard(1, 1, 10), Global), (shard(1, 1, 20), Global), (shard(1, 1, 20), Global)),
            ((shard(1, 1, 10), Global), (shard(1, 9, 90), Local), (shard(1, 1, 10), Global)),
            ((shard(1, 1, 10), Local), (shard(1, 9, 90), Remote), (shard(1, 1, 10), Local)),
            ((shard(1, 1, 10), Local), (shard(1, 9, 90), Local), (shard(1, 10, 100), Local)),
            ((shard(1, 1, 10), Remote), (shard(1, 9, 90), Remote), (shard(1, 9, 90), Remote)),
        ] {
            let expected = one(expected.0, expected.1);
            assert_eq!(merge(&one(left.0, left.1), &one(right.0, right.1)), expected);
            assert_eq!(merge(&one(right.0, right.1), &one(left.0, left.1)), expected);
        }
    }
}
