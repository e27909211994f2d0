//! Rows as they lie in the file, for those who copy them: a place in the bytes instead of an object with values of its own.
//!
//! Plain is what most rows are: a liveness, perhaps a deletion, and simple cells; see [`RowView`]. Everything else, range
//! tombstone markers above all, is for [`ScannedPartition`](super::ScannedPartition), which goes on where this stops.

use std::cmp::Ordering;

use bytes::Bytes;
use espalier_mutation::ClusteringComparator;

use crate::{
    data::{
        clustering_values::values_in,
        column_map::FileLayout,
        decode::{CellView, RowView, ViewedRow, target_of},
    },
    index::big::promoted_index::BlockPosition,
};

/// What comes next in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A row that can be copied as it lies.
    Plain,
    /// Something else.
    Other,
    /// The end of the partition.
    End,
}

/// A row where it lies.
#[derive(Clone, Copy, Debug)]
pub struct PlainRow<'a> {
    row: ViewedRow<'a>,
    bytes: &'a Bytes,
}

impl<'a> PlainRow<'a> {
    pub(super) fn new(view: &'a RowView, bytes: &'a Bytes, layout: &'a FileLayout) -> Self {
        Self { row: ViewedRow { view, bytes, layout }, bytes }
    }

    /// Whether nothing is in it, because its cells were of columns that have been dropped.
    pub fn is_empty(&self) -> bool {
        self.row.view.is_empty()
    }

    /// All of it but its place.
    #[inline]
    pub(crate) fn content(&self) -> &ViewedRow<'a> {
        &self.row
    }

    /// Clustering values.
    #[inline]
    pub(crate) fn clustering(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone {
        values_in(self.bytes, &self.row.view.clustering)
    }

    /// Makes `position` that of this row. Its values share the bytes of the row.
    #[inline]
    pub(crate) fn place(&self, position: &mut Option<BlockPosition>) {
        let spans = &self.row.view.clustering;
        let values = spans.iter().map(|span| span.map(|(from, to)| self.bytes.slice(from..to)));
        BlockPosition::set_row(position, values);
    }

    /// In clustering order, with a row of the same table.
    #[inline]
    pub fn compare(&self, other: &PlainRow<'_>, comparator: &ClusteringComparator) -> Ordering {
        let pairs = self.clustering().zip(other.clustering()).enumerate();
        let mut orders =
            pairs.map(|(index, (left, right))| comparator.compare_value(index, left, right));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Whether a merge of both, at the same place, is this one as it is: every column of `other` has a later cell here, and
    /// nothing here can be covered. It may be so even where this says that it is not.
    pub fn hides(&self, other: &PlainRow<'_>) -> bool {
        let (mine, theirs) = (self.row.view, other.row.view);
        let later = mine.liveness.timestamp;
        // All cells here are as old as the liveness.
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
    fn has_column(&self, other: &PlainRow<'_>, cell: &CellView) -> bool {
        let wanted = target_of(cell, other.row.layout);
        let is_wanted = |mine: &CellView| target_of(mine, self.row.layout) == wanted;
        // Mostly both files have the same columns.
        let cells = &self.row.view.cells;
        let guess = cells.get(cell.column);
        guess.is_some_and(is_wanted) || cells.iter().any(is_wanted)
    }

    /// Whether there may be something in it that could be purged at second `now_s`, when deletions done before `gc_before_s`
    /// are old enough: something has expired, or was deleted long ago. A deletion of the row counts whatever its age, for it may
    /// cover what is beside it.
    #[inline]
    pub fn has_garbage(&self, now_s: u32, gc_before_s: u32) -> bool {
        let RowView { liveness, deletion, cells, is_plain, .. } = self.row.view;
        let is_kept = |cell: &CellView| match cell.is_tombstone() {
            true => cell.local_deletion_time >= gc_before_s,
            false => self.row.cell(cell).is_live(now_s),
        };
        !deletion.is_live()
            || !(liveness.is_none() || liveness.is_live(now_s))
            || !(*is_plain && !liveness.is_none() || cells.iter().all(is_kept))
    }
}
