//! What is asked of storage, and what it answers.

use std::{sync::Arc, time::Duration};

use espalier_mutation::{
    Clustering, ClusteringSlices, DecoratedKey, Direction, KeyRange, Row,
    schema::{ColumnId, TableMetadata},
};

/// A read. Cheap to clone and to send to the shard that owns the data.
#[derive(Clone, Debug)]
pub struct ReadCommand {
    /// The table, as the caller knows it.
    pub table: Arc<TableMetadata>,
    /// One partition or a range of them.
    pub target: ReadTarget,
    /// Which rows of each partition.
    pub slices: Arc<ClusteringSlices>,
    /// Order of the rows; partitions always come in ring order.
    pub direction: Direction,
    /// Which columns to return.
    pub columns: ColumnSelection,
    /// Second at which cells are live or expired.
    pub now_s: u32,
    /// When to stop.
    pub limits: ReadLimits,
    /// Where an earlier read stopped.
    pub resume: Option<ReadPosition>,
    /// Whether caches are left as they are: what is in them is used, but neither counted as used nor added to.
    pub bypass_cache: bool,
}

/// A range read for so many rows or fewer is a short one. An arbitrary choice: some pages of each file.
const SHORT_ROWS: usize = 64;

impl ReadCommand {
    /// A read of all that there is of a target, as of a second.
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
            bypass_cache: false,
        }
    }

    /// Whether a read of a range of partitions goes through the page cache, as look-ups do, and not around it, as scans do: it wants some
    /// rows only, and the same ones are likely to be asked for again.
    pub(crate) fn is_short(&self) -> bool {
        self.limits.rows <= SHORT_ROWS
    }
}

/// Which partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// One.
    Partition(DecoratedKey),
    /// All in a range.
    Range(KeyRange),
}

/// Which columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnSelection {
    /// All that are in the table.
    All,
    /// These; in any order. Rows exist by the others too.
    Only(Arc<[ColumnId]>),
}

impl ColumnSelection {
    /// Whether the column is wanted.
    pub fn contains(&self, id: ColumnId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.contains(&id),
        }
    }
}

/// When a read stops. A partition that has only a static row counts as a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Rows in all.
    pub rows: usize,
    /// Rows of one partition.
    pub rows_per_partition: usize,
    /// Bytes of values and keys; the row that reaches it is the last one.
    pub bytes: usize,
    /// Fragments that are read and dropped, for they are dead: after some more the read ends where it is. Behind the last row that is returned it ends
    /// after a tenth of them if it has looked for [`LONG_WALK`], and after a hundredth if for twice that; in a partition that is covered it looks
    /// every few hundred.
    pub tombstones: usize,
}

/// A page that has walked over dead rows for so long should end. An arbitrary choice, a fifth of what an answer may take: on a busy core
/// others have their turns meanwhile, and if they have had most of it the page ends with fewer.
pub(crate) const LONG_WALK: Duration = Duration::from_millis(1);

impl ReadLimits {
    /// Everything.
    pub const NONE: ReadLimits = ReadLimits {
        rows: usize::MAX,
        rows_per_partition: usize::MAX,
        bytes: usize::MAX,
        tombstones: usize::MAX,
    };
}

/// Where a read goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The partition reached.
    pub key: DecoratedKey,
    /// The last row returned, or dropped; `None`: go on behind the partition.
    pub clustering: Option<Clustering>,
    /// Rows of this partition returned so far.
    pub rows_of_partition: usize,
}

/// The answer to a [`ReadCommand`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadResult {
    /// In ring order; none is empty of rows and static row both.
    pub partitions: Vec<PartitionRows>,
    /// There may be more behind it.
    pub next: Option<ReadPosition>,
    /// It ended there by the limit on tombstones.
    pub is_cut_by_tombstones: bool,
}

/// What was found of a partition, reconciled: only what is live, no deletions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRows {
    /// Its key.
    pub key: DecoratedKey,
    /// Its static row, if it is live.
    pub static_row: Option<Row>,
    /// Its rows, in the order asked for.
    pub rows: Vec<Row>,
}
