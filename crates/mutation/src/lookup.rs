//! Look-ups of one row: the row as a source holds it, and the outcome that all sources share.

use crate::{CellRef, DeletionTime, PackError, PackedRow, Visibility, schema::ColumnId};

/// The outcome of a look-up of one row in memory.
///
/// A memtable, the row cache (which caches the rows of all SSTables), an SSTable, and the table of
/// a shard answer in this form. One contract holds for all of them:
///
/// 1. [`Lookup::Row`] and [`Lookup::Absent`] are final for the source at the moment of the call:
///    the caller asks no slower path of that source.
/// 2. [`Lookup::MissingPage`] and [`Lookup::Unknown`] say nothing about the row. The caller asks
///    again with the page, asks the next source, or starts a general read, which handles every
///    case.
/// 3. A look-up has no errors. Damage is `Unknown`, and the general read meets it again and
///    reports it.
/// 4. The caller's function runs at most once, and only for `Row`. Without an answer the look-up
///    has changed nothing but statistics, the recency of cache entries, the content of reused
///    buffers, and the missing page that it records.
/// 5. The [`FoundRow`] borrows from the source or from a reused buffer, and is valid only within
///    that function, which must not call the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<R> {
    /// The source has something of the partition, maybe without the row. The value is the result
    /// of the caller's function.
    Row(R),
    /// The source has nothing of the partition.
    Absent,
    /// A page of an SSTable is not in memory; the look-up can resume once the page is.
    MissingPage,
    /// The answer is not known here. Another shard may own the partition, several sources may have
    /// a part of the row, the caller may have another version of the table, the data may be
    /// damaged, or the case is rare and not handled. The look-up does not report which.
    Unknown,
}

impl<R> Lookup<R> {
    /// Returns the result for the row, or `absent` if the source has nothing of its partition.
    /// Returns `None` if the answer is not known.
    #[inline]
    pub fn known_or(self, absent: impl FnOnce() -> R) -> Option<R> {
        match self {
            Self::Row(result) => Some(result),
            Self::Absent => Some(absent()),
            Self::MissingPage | Self::Unknown => None,
        }
    }
}

/// A row as a source holds it, not yet reconciled with the deletions that cover it. It may have
/// cells that have expired, and cells of dropped columns.
#[derive(Clone, Copy, Debug)]
pub struct FoundRow<'a> {
    /// The deletion of the partition.
    pub partition_deletion: DeletionTime,
    /// The range deletion in force at the row.
    pub range_deletion: DeletionTime,
    /// The row, if the source has it.
    pub row: Option<PackedRow<'a>>,
}

impl<'a> FoundRow<'a> {
    /// A partition without a row and without deletions.
    pub const NOTHING: FoundRow<'static> = FoundRow {
        partition_deletion: DeletionTime::LIVE,
        range_deletion: DeletionTime::LIVE,
        row: None,
    };

    /// Passes the visible cells of simple columns to `take`, in ascending order of their columns.
    /// Returns whether a reader at second `now_s` sees the row; see [`Visibility::visible_cells`].
    ///
    /// # Errors
    ///
    /// Returns an error if the row is malformed.
    #[inline]
    pub fn visible_cells(
        &self,
        now_s: u32,
        is_known: impl Fn(ColumnId) -> bool,
        take: impl FnMut(ColumnId, CellRef<'a>),
    ) -> Result<bool, PackError> {
        let Some(row) = &self.row else { return Ok(false) };
        let above = self.partition_deletion.max(self.range_deletion);
        Visibility::of_packed(row, above, now_s).visible_packed_cells(row, is_known, take)
    }
}
