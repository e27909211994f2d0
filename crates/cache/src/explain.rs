//! Reports to the operator which parts of a partition the row cache of a shard holds.

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, DecoratedKey, DeletionTime, path,
    schema::TableMetadata,
};
use espalier_runtime::maybe_yield;
use espalier_trie::cursor::Direction;

use super::{
    Inner, TableCache,
    entry::Entry,
    place::{FIRST, are_adjacent, is_row},
};

/// The maximum number of ranges in a report (arbitrary).
const MAX_REPORTED_RANGES: usize = 256;
/// Entries examined without a yield, which takes some 10 µs.
const ENTRIES_PER_STEP: usize = 256;

/// A report on one partition in the row cache of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheExplanation {
    /// The node has no row cache, so every read goes to the files.
    NodeIsOff,
    /// The table's `caching` option turns the cache off.
    TableIsOff,
    /// The cache has nothing of the partition: for example, no read has asked for the partition
    /// since the start, or the cache has evicted or forgotten it.
    Unknown,
    /// The cache has the partition, or a part of it.
    Known(ContinuousPartition),
}

/// A partition that is cached, at least in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinuousPartition {
    /// The partition's deletion in the files, or [`DeletionTime::LIVE`].
    pub deletion: DeletionTime,
    /// True if the partition has a static row in the files.
    pub has_static_row: bool,
    /// The number of rows held.
    pub rows: u64,
    /// Bytes of the rows and the static row, without the memory of their entries.
    pub row_bytes: u64,
    /// The continuous ranges, in clustering order. A read between two of them goes to the files.
    pub ranges: Vec<ExplainedRange>,
    /// The number of further ranges that are not listed.
    pub unreported_ranges: u64,
}

/// A continuous range: the cache holds all rows in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRange {
    /// The start of the range.
    pub start: ClusteringBound,
    /// The end of the range.
    pub end: ClusteringBound,
    /// The number of rows in the range.
    pub rows: u64,
}

impl TableCache {
    /// Reports which parts of a partition the cache holds. The walk over a long partition yields,
    /// so the report may or may not show a change that happens during the walk.
    pub async fn explain(&self, table: &TableMetadata, key: &DecoratedKey) -> CacheExplanation {
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
        let Some((deletion, static_bytes)) = self.cache.0.borrow().known_header(&prefix) else {
            return self.explain_absent(&prefix);
        };
        let mut walk = RangeWalk::default();
        while self.cache.0.borrow().walk_some(&prefix, &mut walk) {
            maybe_yield().await;
        }
        walk.end_range();
        let reported = walk.ranges.iter().filter_map(|range| range.explained(table.comparator()));
        CacheExplanation::Known(ContinuousPartition {
            deletion,
            has_static_row: static_bytes > 0,
            rows: walk.rows,
            row_bytes: static_bytes + walk.row_bytes,
            ranges: reported.collect(),
            unreported_ranges: walk.unreported_ranges,
        })
    }

    /// Explains a partition of one row, which is cached as a whole or not at all.
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

    /// Explains a partition without an entry. If the range around it is continuous, no file has it;
    /// otherwise the cache knows nothing of it.
    fn explain_absent(&self, path: &[u8]) -> CacheExplanation {
        if self.cache.0.borrow().are_partitions_continuous(path) {
            complete(DeletionTime::LIVE, 0, 0)
        } else {
            CacheExplanation::Unknown
        }
    }
}

/// Explains a partition that is wholly cached and has no static row.
fn complete(deletion: DeletionTime, rows: u64, row_bytes: u64) -> CacheExplanation {
    let (start, end) = (ClusteringBound::bottom(), ClusteringBound::top());
    CacheExplanation::Known(ContinuousPartition {
        deletion,
        has_static_row: false,
        rows,
        row_bytes,
        ranges: vec![ExplainedRange { start, end, rows }],
        unreported_ranges: 0,
    })
}

impl Inner {
    /// Returns the deletion of a partition with a header, and the bytes of its static row.
    fn known_header(&self, prefix: &[u8]) -> Option<(DeletionTime, u64)> {
        let header = self.trie.get(prefix).filter(|entry| entry.is_header())?;
        Some((header.deletion(), header.row_bytes().len() as u64))
    }

    /// Continues a walk for some entries. Returns `false` at the end of the partition.
    fn walk_some(&self, prefix: &[u8], walk: &mut RangeWalk) -> bool {
        let mut entries = self.trie.subtrie(prefix).entries(Direction::Forward);
        entries.seek(&walk.at);
        for _ in 0..ENTRIES_PER_STEP {
            let Some((place, entry)) = entries.next_entry() else { return false };
            // The header is at the empty place.
            if place > walk.at.as_slice() {
                walk.add(place, entry);
            }
        }
        true
    }
}

/// The positions of the first and the last entry of a continuous range.
#[derive(Default)]
struct Places {
    start: Vec<u8>,
    end: Vec<u8>,
    rows: u64,
}

impl Places {
    fn explained(&self, comparator: &ClusteringComparator) -> Option<ExplainedRange> {
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
        Some(ExplainedRange {
            start: bound(&self.start, InclusiveStart, InclusiveStart, ExclusiveStart)?,
            end: bound(&self.end, InclusiveEnd, ExclusiveEnd, InclusiveEnd)?,
            rows: self.rows,
        })
    }
}

#[derive(Default)]
struct RangeWalk {
    /// The position of the last entry.
    at: Vec<u8>,
    range: Option<Places>,
    rows: u64,
    row_bytes: u64,
    ranges: Vec<Places>,
    unreported_ranges: u64,
}

impl RangeWalk {
    fn add(&mut self, place: &[u8], entry: &Entry) {
        let goes_on = entry.is_continuous() || are_adjacent(&self.at, place);
        if !goes_on {
            self.end_range();
        }
        let rows = u64::from(entry.is_row());
        let range = self.range.get_or_insert_with(|| {
            // The beginning of the partition has no entry. If the first entry is continuous, its
            // range begins there.
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
        // A range that is no longer continuous leaves a single position between rows.
        if range.start == range.end && !is_row(&range.start) {
            return;
        }
        if self.ranges.len() < MAX_REPORTED_RANGES {
            self.ranges.push(range)
        } else {
            self.unreported_ranges += 1
        }
    }
}
