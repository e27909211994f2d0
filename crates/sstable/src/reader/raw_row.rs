//! A raw row is a row that is read in place, for a writer that copies it. It refers to bytes of the
//! window and owns no values.
//!
//! Most rows can be read raw: all that have no complex column, no counter and no extended flags;
//! see [`RowRef`]. All other items, above all range tombstone markers, need a
//! [`ScannedPartition`](super::ScannedPartition), which continues where the raw rows stop.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringComparator, ColumnRef, DeletionTime, Liveness, RowContent,
    schema::ColumnId,
};

use crate::{
    data::{
        clustering_values::values_in,
        column_map::FileLayout,
        decode::{CellSpan, RawRowContent, RowRef, target_of},
    },
    index::big::promoted_index::BlockPosition,
};

/// The kind of the next item in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A raw row, which can be copied.
    Raw,
    /// Another kind of item.
    Other,
    /// The end of the partition.
    End,
}

/// A raw row: a row read in place.
#[derive(Clone, Copy, Debug)]
pub struct RawRow<'a> {
    row: RawRowContent<'a>,
    bytes: &'a Bytes,
}

impl<'a> RawRow<'a> {
    pub(super) fn new(view: &'a RowRef, bytes: &'a Bytes, layout: &'a FileLayout) -> Self {
        Self { row: RawRowContent { view, bytes, layout }, bytes }
    }

    /// Returns whether the row is empty, because its cells belong to dropped columns.
    pub fn is_empty(&self) -> bool {
        self.row.view.is_empty()
    }

    /// Returns the row's content without its clustering.
    #[inline]
    pub(crate) fn content(&self) -> &RawRowContent<'a> {
        &self.row
    }

    /// Returns the clustering values.
    #[inline]
    pub fn clustering(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone {
        values_in(self.bytes, &self.row.view.clustering)
    }

    /// Returns the clustering values, which share the bytes of the row.
    pub fn owned_clustering(&self) -> Clustering {
        let spans = &self.row.view.clustering;
        let values = spans.iter().map(|span| span.map(|(from, to)| self.bytes.slice(from..to)));
        Clustering { values: values.collect() }
    }

    /// Sets `position` to the position of this row. Its values share the bytes of the row.
    #[inline]
    pub(crate) fn place(&self, position: &mut Option<BlockPosition>) {
        let spans = &self.row.view.clustering;
        let values = spans.iter().map(|span| span.map(|(from, to)| self.bytes.slice(from..to)));
        BlockPosition::set_row(position, values);
    }

    /// Compares the clustering with that of another row of the same table.
    #[inline]
    pub fn compare(&self, other: &RawRow<'_>, comparator: &ClusteringComparator) -> Ordering {
        let pairs = self.clustering().zip(other.clustering()).enumerate();
        let mut orders =
            pairs.map(|(index, (left, right))| comparator.compare_value(index, left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Returns whether this row is the result of its merge with `other`, which has the same
    /// clustering: the liveness here is later, every column of `other` has a later cell here, and
    /// neither row has a deletion. May return false although the merge would give this row.
    pub fn hides(&self, other: &RawRow<'_>) -> bool {
        let (mine, theirs) = (self.row.view, other.row.view);
        let later = mine.liveness.timestamp;
        // All cells of this row have the timestamp of the liveness.
        mine.is_plain
            && !mine.liveness.is_none()
            && mine.deletion.is_live()
            && theirs.deletion.is_live()
            && theirs.liveness.timestamp < later
            && theirs
                .cells
                .iter()
                .all(|cell| cell.timestamp < later && self.has_column(other, cell))
    }

    #[inline]
    fn has_column(&self, other: &RawRow<'_>, cell: &CellSpan) -> bool {
        let wanted = target_of(cell, other.row.layout);
        let is_wanted = |mine: &CellSpan| target_of(mine, self.row.layout) == wanted;
        // Usually both files have the same columns.
        let cells = &self.row.view.cells;
        let guess = cells.get(cell.column);
        guess.is_some_and(is_wanted) || cells.iter().any(is_wanted)
    }

    /// Returns whether the row may hold something that can be purged at second `now_s`, when
    /// deletions before `gc_before_s` are old enough: an expired cell or liveness, or an old
    /// tombstone. A row deletion counts at any age, since it may cover other data of the row.
    #[inline]
    pub fn has_garbage(&self, now_s: u32, gc_before_s: u32) -> bool {
        let RowRef { liveness, deletion, cells, is_plain, .. } = self.row.view;
        let is_kept = |cell: &CellSpan| {
            if cell.is_tombstone() {
                cell.local_deletion_time >= gc_before_s
            } else {
                self.row.cell(cell).is_live(now_s)
            }
        };
        !deletion.is_live()
            || !(liveness.is_none() || liveness.is_live(now_s))
            || !(*is_plain && !liveness.is_none() || cells.iter().all(is_kept))
    }
}

impl RowContent for RawRow<'_> {
    #[inline]
    fn liveness(&self) -> Liveness {
        self.row.liveness()
    }

    #[inline]
    fn deletion(&self) -> DeletionTime {
        self.row.deletion()
    }

    #[inline]
    fn columns(&self) -> impl Iterator<Item = (ColumnId, ColumnRef<'_>)> {
        self.row.columns()
    }
}
