//! What the cache knows of one partition, told to people.

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, DecoratedKey, DeletionTime,
    schema::TableMetadata,
};
use espalier_runtime::maybe_yield;
use espalier_trie::cursor::Direction;

use super::{
    Inner, TableCache,
    entry::Entry,
    place::{FIRST, are_adjacent, is_row},
};
use crate::memtable::path;

/// Ranges that are told one by one; an arbitrary choice: what fits on some screens.
const TOLD_RANGES: usize = 256;
/// Entries looked at without giving way: some ten microseconds.
const LOOKED_AT_ONCE: usize = 256;

/// What the row cache of a shard knows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheExplanation {
    /// The node has no row cache: every read asks the files.
    NodeIsOff,
    /// The table's `caching` turns it off.
    TableIsOff,
    /// Nothing: nobody has read it since the start, or since it was evicted or forgotten.
    Unknown,
    /// Something.
    Known(KnownPartition),
}

/// A partition of which something is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPartition {
    /// The partition's deletion in the files; live if it has none.
    pub deletion: DeletionTime,
    /// Whether it has a static row in the files.
    pub has_static_row: bool,
    /// Rows held.
    pub rows: u64,
    /// Bytes of these rows and the static one, without the entries.
    pub row_bytes: u64,
    /// Ranges of which all rows are held, in clustering order. A read of what is between two of them asks the files.
    pub ranges: Vec<KnownRange>,
    /// How many more ranges there are.
    pub untold_ranges: u64,
}

/// A range in which nothing is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRange {
    /// Where it begins.
    pub start: ClusteringBound,
    /// Where it ends.
    pub end: ClusteringBound,
    /// Rows in it.
    pub rows: u64,
}

impl TableCache {
    /// What is known of a partition. Long ones are walked in steps, so that what changes meanwhile is told as it was before or after.
    pub(crate) async fn explain(
        &self,
        table: &TableMetadata,
        key: &DecoratedKey,
    ) -> CacheExplanation {
        if self.cache.is_off() {
            return CacheExplanation::NodeIsOff;
        }
        if !self.is_enabled() {
            return CacheExplanation::TableIsOff;
        }
        let mut prefix = Vec::new();
        self.put_partition(self.ticket().number, key.borrowed(), &mut prefix);
        if self.format().is_single_row {
            return self.explain_single_row(&mut prefix);
        }
        let Some(mut known) = self.cache.0.borrow().known_header(&prefix) else {
            return self.explain_absent(&prefix);
        };
        let mut walk = RangeWalk::default();
        while self.cache.0.borrow().walk_some(&prefix, &mut walk) {
            maybe_yield().await;
        }
        walk.end_range();
        known.rows = walk.rows;
        known.row_bytes += walk.row_bytes;
        let told = walk.ranges.iter().filter_map(|range| range.told(table.comparator()));
        known.ranges = told.collect();
        known.untold_ranges = walk.untold_ranges;
        CacheExplanation::Known(known)
    }

    /// Of a partition that is one row all or nothing is known.
    fn explain_single_row(&self, path: &mut Vec<u8>) -> CacheExplanation {
        let inner = self.cache.0.borrow();
        path.push(path::FIRST_ROW);
        match inner.trie.get(path) {
            None => self.explain_absent(path),
            Some(entry) => {
                let bytes = entry.row_bytes().len() as u64;
                complete(entry.deletion(), u64::from(entry.is_row()), bytes)
            }
        }
    }

    /// Of a partition that has no entry: that no file has it, or nothing.
    fn explain_absent(&self, path: &[u8]) -> CacheExplanation {
        match self.cache.0.borrow().are_partitions_known(path) {
            true => complete(DeletionTime::LIVE, 0, 0),
            false => CacheExplanation::Unknown,
        }
    }
}

/// A partition of which all is known, without static row.
fn complete(deletion: DeletionTime, rows: u64, row_bytes: u64) -> CacheExplanation {
    let (start, end) = (ClusteringBound::bottom(), ClusteringBound::top());
    CacheExplanation::Known(KnownPartition {
        deletion,
        has_static_row: false,
        rows,
        row_bytes,
        ranges: vec![KnownRange { start, end, rows }],
        untold_ranges: 0,
    })
}

impl Inner {
    fn known_header(&self, prefix: &[u8]) -> Option<KnownPartition> {
        let header = self.trie.get(prefix).filter(|entry| entry.is_header())?;
        let row_bytes = header.row_bytes().len() as u64;
        Some(KnownPartition {
            deletion: header.deletion(),
            has_static_row: row_bytes > 0,
            rows: 0,
            row_bytes,
            ranges: Vec::new(),
            untold_ranges: 0,
        })
    }

    /// Walks on; `false` at the end.
    fn walk_some(&self, prefix: &[u8], walk: &mut RangeWalk) -> bool {
        let mut entries = self.trie.subtrie(prefix).entries(Direction::Forward);
        entries.seek(&walk.at);
        for _ in 0..LOOKED_AT_ONCE {
            let Some((place, entry)) = entries.next_entry() else { return false };
            // The header is at the empty place.
            if place > walk.at.as_slice() {
                walk.add(place, entry);
            }
        }
        true
    }
}

/// Places from the first to the last entry between which all is known.
#[derive(Default)]
struct Places {
    start: Vec<u8>,
    end: Vec<u8>,
    rows: u64,
}

impl Places {
    fn told(&self, comparator: &ClusteringComparator) -> Option<KnownRange> {
        let bound = |place: &[u8], of_row, before, behind| {
            let mut bound = path::bound(comparator, place).ok()?;
            bound.kind = match (is_row(place), bound.kind) {
                (true, _) => of_row,
                (false, BoundKind::InclusiveStart) => before,
                (false, _) => behind,
            };
            Some(bound)
        };
        use BoundKind::{ExclusiveEnd, ExclusiveStart, InclusiveEnd, InclusiveStart};
        Some(KnownRange {
            start: bound(&self.start, InclusiveStart, InclusiveStart, ExclusiveStart)?,
            end: bound(&self.end, InclusiveEnd, ExclusiveEnd, InclusiveEnd)?,
            rows: self.rows,
        })
    }
}

#[derive(Default)]
struct RangeWalk {
    /// The last entry's place.
    at: Vec<u8>,
    range: Option<Places>,
    rows: u64,
    row_bytes: u64,
    ranges: Vec<Places>,
    untold_ranges: u64,
}

impl RangeWalk {
    fn add(&mut self, place: &[u8], entry: &Entry) {
        let goes_on = entry.is_continuous() || are_adjacent(&self.at, place);
        if !goes_on {
            self.end_range();
        }
        let rows = u64::from(entry.is_row());
        let range = self.range.get_or_insert_with(|| {
            // Before the first entry there is none that would say where the partition begins.
            let start = if entry.is_continuous() { FIRST } else { place };
            Places { start: start.to_vec(), ..Places::default() }
        });
        range.rows += rows;
        self.rows += rows;
        if entry.is_row() {
            self.row_bytes += entry.row_bytes().len() as u64;
        }
        self.at.clear();
        self.at.extend_from_slice(place);
    }

    fn end_range(&mut self) {
        let Some(mut range) = self.range.take() else { return };
        range.end.clone_from(&self.at);
        // The end of a range that is not known any more.
        if range.start == range.end && !is_row(&range.start) {
            return;
        }
        match self.ranges.len() < TOLD_RANGES {
            true => self.ranges.push(range),
            false => self.untold_ranges += 1,
        }
    }
}
