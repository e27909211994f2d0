//! The read command that storage takes, and its result.
//!
//! | module | contents |
//! | --- | --- |
//! | `flat_rows` | the rows of a scan in one buffer |
//! | `search` | the values that a read looks up in secondary indexes |

mod flat_rows;
mod search;

use std::{sync::Arc, time::Duration};

use espalier_mutation::{
    Clustering, ClusteringSlices, DecoratedKey, Direction, KeyRange, Row,
    schema::{ColumnId, TableMetadata},
};

pub(crate) use flat_rows::partition_bytes;
pub use flat_rows::{FlatColumns, FlatPartition, FlatRows};
pub use search::{
    FormBound, FoundPlaces, IndexSearch, IndexTerm, IndexValues, MAX_SEARCH_STREAMS, NearestBound,
};

/// A read command. It is cheap to clone and to send to the shard that owns the data.
#[derive(Clone, Debug)]
pub struct ReadCommand {
    /// The table, in the version that the caller has.
    pub table: Arc<TableMetadata>,
    /// One partition or a range of them.
    pub target: ReadTarget,
    /// The rows to read of each partition.
    pub slices: Arc<ClusteringSlices>,
    /// Order of the rows; partitions are always in ring order.
    pub direction: Direction,
    /// The columns to return.
    pub columns: ColumnSelection,
    /// The time of the read, in seconds since 1970. Data that expires up to then is not visible.
    pub now_s: u32,
    /// The limits at which the read stops.
    pub limits: ReadLimits,
    /// The position where an earlier read stopped.
    pub resume: Option<ReadPosition>,
    /// The conditions on indexed columns. The read may use the indexes to skip rows that do not
    /// meet the conditions, but it may also return such rows.
    pub search: Option<Arc<IndexSearch>>,
    /// True if the read leaves caches unchanged: it uses neither the row cache nor the empty-range
    /// cache, and it uses cached pages without counting as an access or adding pages.
    pub bypass_cache: bool,
    /// The values to return in [`ReadResult::flat`], in place of [`ReadResult::partitions`]. They
    /// belong to selected columns. A read with a [`Self::search`] ignores this field and fills
    /// [`ReadResult::partitions`].
    pub flat: Option<Arc<FlatColumns>>,
}

/// Maximum row limit of a short range read. Arbitrary: so many rows take a few pages of each file.
const SHORT_ROWS: usize = 64;

impl ReadCommand {
    /// Returns a command that reads all of a target as of a second since 1970.
    pub fn of_all(table: Arc<TableMetadata>, target: ReadTarget, now_s: u32) -> Self {
        Self {
            table,
            target,
            slices: Arc::new(ClusteringSlices::all()),
            direction: Direction::Forward,
            columns: ColumnSelection::All,
            now_s,
            limits: ReadLimits::NONE,
            resume: None,
            search: None,
            bypass_cache: false,
            flat: None,
        }
    }

    /// Returns whether a range read is short. A short read uses the page cache, as look-ups do,
    /// because it returns few rows, and later reads are likely to need the same pages.
    pub(crate) fn is_short(&self) -> bool {
        self.limits.rows <= SHORT_ROWS
    }

    /// Returns whether a range read bypasses the row cache. A long scan of flat rows does so,
    /// because it reads a row of a file at a lower cost than a cached row.
    pub(crate) fn scans_files(&self) -> bool {
        self.flat.is_some() && !self.is_short()
    }
}

/// The partitions to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// One partition.
    Partition(DecoratedKey),
    /// All partitions in a range.
    Range(KeyRange),
}

/// The columns to return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnSelection {
    /// All columns of the table.
    All,
    /// These columns, in ascending order of their ids. Cells of other columns still make a row
    /// exist.
    Only(Arc<[ColumnId]>),
}

impl ColumnSelection {
    /// Returns whether the column is selected.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => {
                debug_assert!(ids.is_sorted(), "a selection has columns in ascending order");
                ids.binary_search(&id).is_ok()
            }
        }
    }
}

/// The limits of a read. A partition that has only a static row counts as a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Maximum rows in all.
    pub rows: usize,
    /// Maximum rows of one partition.
    pub rows_per_partition: usize,
    /// Maximum bytes of values and keys. The row that reaches the limit is the last one.
    pub bytes: usize,
    /// Maximum dead fragments that the read drops before it stops at the next opportunity. For the
    /// fragments behind the last returned row, the limit is a tenth of this once the read has spent
    /// `LONG_WALK` on them, and a hundredth after twice that time. Within a partition, the merge
    /// checks the limit at the first row that it drops after each 256 dropped fragments. It does
    /// not check the limit at the markers of range deletions, because a read resumes behind a row.
    pub tombstones: usize,
    /// A read that has dropped dead fragments stops at the next multiple of this many rows, so that
    /// the caller can count the dropped fragments of each such window.
    pub window_rows: usize,
}

/// Time of dropping dead rows after which a page should end. Arbitrary: a fifth of the target
/// latency of a request. Other tasks run within this time too, so on a busy core the page ends
/// after fewer rows.
pub(crate) const LONG_WALK: Duration = Duration::from_millis(1);

impl ReadLimits {
    /// Limits that never stop a read.
    pub const NONE: ReadLimits = ReadLimits {
        rows: usize::MAX,
        rows_per_partition: usize::MAX,
        bytes: usize::MAX,
        tombstones: usize::MAX,
        window_rows: usize::MAX,
    };
}

/// The position at which a read resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// Key of the partition that the read reached.
    pub key: DecoratedKey,
    /// The last row that was returned or dropped; `None` resumes behind the partition. Empty after
    /// a step of the prefetcher that stopped at a range deletion.
    pub clustering: Option<Clustering>,
    /// Number of rows of this partition that were returned so far.
    pub rows_of_partition: usize,
}

/// The result of a [`ReadCommand`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadResult {
    /// Partitions in ring order. Each has a row or a static row.
    pub partitions: Vec<PartitionRows>,
    /// The rows of a command with [`ReadCommand::flat`].
    pub flat: FlatRows,
    /// Position at which the next read resumes; `None` at the end.
    pub next: Option<ReadPosition>,
    /// True if the read stopped because of the tombstone limit.
    pub is_cut_by_tombstones: bool,
    /// Number of dead fragments that the read has dropped: tombstones, and rows and cells that are
    /// not visible. Fragments that the empty-range cache skipped do not count.
    pub dropped: u64,
    /// True if secondary indexes answered, rather than a read of the whole target.
    pub used_index: bool,
    /// Number of index entries that searches for ranges of values have read, and of vectors in
    /// memtables that searches for near vectors have compared.
    pub passed_entries: u64,
    /// The bound of the rows that a search for near vectors has left out. `None` if the search has
    /// left out no row, or if an earlier read has done the search.
    pub nearest_bound: Option<NearestBound>,
    /// The places behind [`Self::next`] that a search for near vectors has found, for the next
    /// read.
    pub nearest_places: Option<FoundPlaces>,
}

/// The reconciled content of a partition: only live rows, no deletions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRows {
    /// The partition key.
    pub key: DecoratedKey,
    /// The static row, if it is live.
    pub static_row: Option<Row>,
    /// The rows, in the order of the command.
    pub rows: Vec<Row>,
}

impl ReadResult {
    /// Returns the number of rows. A partition that has only a static row counts as one.
    pub fn row_count(&self) -> usize {
        let rows = self.partitions.iter().map(|partition| partition.rows.len().max(1));
        rows.sum::<usize>() + self.flat.row_count()
    }

    /// Returns the number of rows that are not static.
    pub fn live_rows(&self) -> usize {
        let rows = self.partitions.iter().map(|partition| partition.rows.len());
        rows.sum::<usize>() + self.flat.ends.len()
    }

    /// Returns the bytes of the result as [`ReadLimits::bytes`] counts them.
    pub(crate) fn bytes(&self) -> usize {
        let partitions = self.partitions.iter().map(PartitionRows::bytes);
        partitions.sum::<usize>() + self.flat.bytes()
    }

    /// Appends the result of the next shard.
    pub(crate) fn append(&mut self, next: Self) {
        // The rows of the first shard are moved: they may have megabytes, and copying these would
        // hold the core.
        if self.partitions.is_empty() {
            self.partitions = next.partitions;
        } else {
            self.partitions.extend(next.partitions);
        }
        self.flat.append(next.flat);
        self.is_cut_by_tombstones = next.is_cut_by_tombstones;
        self.dropped += next.dropped;
        self.used_index |= next.used_index;
        self.passed_entries += next.passed_entries;
        let bounds = self.nearest_bound.into_iter().chain(next.nearest_bound);
        self.nearest_bound = bounds.reduce(NearestBound::with);
        (self.next, self.nearest_places) = (next.next, next.nearest_places);
    }

    /// Returns the key of the last partition of the result.
    pub fn last_key(&self) -> Option<&DecoratedKey> {
        let last = self.partitions.last().map(|partition| &partition.key);
        self.flat.partitions.last().map(|partition| &partition.key).or(last)
    }
}

impl PartitionRows {
    /// Returns the bytes of the partition as [`ReadLimits::bytes`] counts them.
    pub fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(Row::page_bytes).sum::<usize>();
        partition_bytes(&self.key, self.static_row.as_ref()) + rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_contains_its_columns_and_no_others() {
        let only = ColumnSelection::Only([1, 3, 4, 9].map(ColumnId).into());
        let contained: Vec<u32> = (0..12).filter(|id| only.contains(ColumnId(*id))).collect();
        assert_eq!(contained, [1, 3, 4, 9]);
        assert!(ColumnSelection::All.contains(ColumnId(2)));
    }
}
