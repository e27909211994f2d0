//! Counter contexts: the value of a counter cell. Source: reference 9.9.
//!
//! be16 header count H; H × be16 index (top bit set: a global shard); then shards of 32 bytes: 16-byte id, be64 clock,
//! be64 count, sorted by id. We write global shards only. Readers tolerate wrong order and foreign kinds.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Cell, ColumnData, Row};

/// One node's share of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterShard {
    /// Id of the node that counted.
    pub id: [u8; 16],
    /// Grows with each change.
    pub clock: i64,
    /// The share.
    pub count: i64,
}

const SHARD_LENGTH: usize = 32;

/// The shards of a context; malformed rests are ignored here, `validate` names them.
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

/// Whether the length fits the header.
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

/// The sum of all shards.
pub fn total(context: &[u8]) -> i64 {
    shards(context).fold(0, |sum, shard| sum.wrapping_add(shard.count))
}

/// A context of global shards, from shards sorted by id.
pub fn build(shards: &[CounterShard]) -> Bytes {
    let mut context = BytesMut::with_capacity(2 + shards.len() * (2 + SHARD_LENGTH));
    context.put_u16(shards.len() as u16);
    for index in 0..shards.len() {
        context.put_u16(index as u16 | 0x8000);
    }
    for shard in shards {
        context.put_slice(&shard.id);
        context.put_i64(shard.clock);
        context.put_i64(shard.count);
    }
    context.freeze()
}

/// Merges two contexts: for each id the higher clock wins, ties by the higher count.
pub fn merge(left: &[u8], right: &[u8]) -> Bytes {
    let mut all: Vec<CounterShard> = shards(left).chain(shards(right)).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id).then((b.clock, b.count).cmp(&(a.clock, a.count))));
    all.dedup_by_key(|shard| shard.id);
    build(&all)
}

/// Joins two rows of one update with the same clustering, whose counter cells hold changes (be64) instead of contexts:
/// the changes add up, and a deletion wins over them.
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

/// The change that a cell of an update holds; 0 if it is none.
pub fn change(value: &[u8]) -> i64 {
    value.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// `context` after node `id` has added `delta`; the clock grows to `clock_at_least` or by one.
pub fn add(context: &[u8], id: [u8; 16], delta: i64, clock_at_least: i64) -> Bytes {
    let mine = shards(context).filter(|shard| shard.id == id).max_by_key(|shard| shard.clock);
    let changed = match mine {
        Some(shard) => CounterShard {
            id,
            clock: clock_at_least.max(shard.clock.wrapping_add(1)),
            count: shard.count.wrapping_add(delta),
        },
        None => CounterShard { id, clock: clock_at_least, count: delta },
    };
    merge(context, &build(&[changed]))
}
