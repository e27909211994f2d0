//! Walks over the rows of one partition of a memtable in place: no row becomes an object.
//!
//! The walk covers rows up to the first boundary of a range deletion. From there on, the stream of
//! fragments ([`UnfilteredStream`](espalier_mutation::UnfilteredStream)) continues.

use std::{ops::ControlFlow, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Clustering, ClusteringSlices, DecoratedKey, Direction, PackedRow, encoding::body::BodyReader,
    path, schema::TableMetadata,
};
use espalier_trie::prefetch::prefetch_range;

use super::{
    Memtable, MemtablePartition,
    content::Content,
    partition::SLICES_OF_A_FILL,
    row_format::split_stored,
    walk::{At, View},
};
use crate::MemtableError;

/// Rows whose memory is prefetched together, so that their cache misses overlap. Arbitrary.
const AT_ONCE: usize = 32;
/// Bytes of a row that are prefetched.
const PREFETCHED_BYTES: usize = 128;

/// The reason why a walk over rows has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsWalked {
    /// The walk has read the maximum number of rows of one call.
    More,
    /// The caller wanted no more.
    Stopped,
    /// The next fragment is no row, or the walk does not handle it; the caller continues with the
    /// stream.
    Other,
    /// The partition is at its end.
    End,
}

/// A row as the memtable holds it, not yet reconciled with the deletion of its partition.
#[derive(Clone, Copy, Debug)]
pub struct StoredRow<'a> {
    /// The row without its clustering.
    pub packed: PackedRow<'a>,
    path: &'a [u8],
    /// The clustering values, if the path does not preserve them.
    kept: Option<&'a [u8]>,
}

impl StoredRow<'_> {
    /// Returns the clustering.
    ///
    /// # Errors
    ///
    /// Fails if the stored form is damaged.
    pub fn clustering(&self, table: &TableMetadata) -> Result<Clustering, MemtableError> {
        if table.clustering_columns().is_empty() {
            return Ok(Clustering::empty());
        }
        let corrupt = |error: &dyn std::error::Error| MemtableError::corrupt(table, error);
        match self.kept {
            Some(kept) => BodyReader::new(Bytes::copy_from_slice(kept))
                .clustering()
                .map_err(|error| corrupt(&error)),
            None => path::clustering(table.comparator(), self.path).map_err(|e| corrupt(&e)),
        }
    }

    /// Appends the clustering values, each behind its length as a be32 (−1: null).
    ///
    /// # Errors
    ///
    /// Fails if the stored form is damaged.
    #[inline]
    pub fn append_clustering(
        &self,
        table: &TableMetadata,
        out: &mut Vec<u8>,
    ) -> Result<(), MemtableError> {
        if self.kept.is_none() {
            if table.clustering_columns().is_empty() {
                return Ok(());
            }
            return path::append_values(table.comparator(), self.path, out)
                .map_err(|error| MemtableError::corrupt(table, &error));
        }
        self.clustering(table)?.append_to(table.clustering_columns().len(), out);
        Ok(())
    }
}

impl MemtablePartition {
    /// Opens the slices of a partition for [`Self::walk_rows`]. Returns `None` if the memtable has
    /// nothing of it.
    ///
    /// Unlike [`Self::open`], it reads no rows yet. The first walk shows the state at its own
    /// moment, and later walks show the same state. The caller must not wait between this call and
    /// the first walk.
    ///
    /// # Errors
    ///
    /// Returns an error if the static row cannot be decoded.
    pub fn open_in_place(
        memtable: &Rc<Memtable>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
    ) -> Result<Option<Self>, MemtableError> {
        Self::unread(memtable, table, key, slices, Direction::Forward, usize::MAX)
    }

    /// Calls `take` with the next rows, without waiting: at most `most` rows, from at most
    /// [`SLICES_OF_A_FILL`] slices. The row at which `take` breaks counts as taken.
    ///
    /// # Errors
    ///
    /// Returns an error if a stored row cannot be decoded, and the error of `take`.
    pub fn walk_rows(
        &mut self,
        most: usize,
        take: &mut impl FnMut(&StoredRow<'_>) -> Result<ControlFlow<()>, MemtableError>,
    ) -> Result<RowsWalked, MemtableError> {
        let is_forward = self.direction == Direction::Forward;
        // The stream removes cells from before the drop of a column that was added again.
        let may_hold_dropped = self.memtable.may_hold_dropped(&self.table);
        if !self.buffer.is_empty() || !is_forward || may_hold_dropped {
            self.keep_state();
            return Ok(RowsWalked::Other);
        }
        let walked = self.with_view(|partition, view| partition.walk_view(&view, most, take));
        self.keep_state();
        walked
    }

    fn walk_view(
        &mut self,
        view: &View<'_>,
        most: usize,
        take: &mut impl FnMut(&StoredRow<'_>) -> Result<ControlFlow<()>, MemtableError>,
    ) -> Result<RowsWalked, MemtableError> {
        let mut left = most;
        let slices_done = self.slices_done.saturating_add(SLICES_OF_A_FILL);
        while !self.is_done() {
            if self.slices_done >= slices_done {
                return Ok(RowsWalked::More);
            }
            let mut range = match self.range.take() {
                Some(range) => range,
                None => self.enter_slice(view),
            };
            if !self.buffer.is_empty() || !range.open.is_live() {
                self.range = Some(range);
                return Ok(RowsWalked::Other);
            }
            let boundary = {
                let boundaries = view.boundaries(self.direction, &range.at, &range.far);
                boundaries.at().map(|_| boundaries.key().to_vec())
            };
            let end = boundary.as_ref().unwrap_or(&range.far);
            let mut at = std::mem::take(&mut range.at);
            let walked = self.walk_up_to(view, (&mut at, end), &mut left, take);
            range.at = at;
            match walked? {
                RowsWalked::End if boundary.is_none() => self.leave_slice(&range),
                walked => {
                    self.range = Some(range);
                    return Ok(match walked {
                        RowsWalked::End => RowsWalked::Other,
                        walked => walked,
                    });
                }
            }
        }
        Ok(RowsWalked::End)
    }

    /// Takes the rows behind `at` and before `end`, and moves `at` to the last one.
    fn walk_up_to(
        &self,
        view: &View<'_>,
        (at, end): (&mut Vec<u8>, &[u8]),
        left: &mut usize,
        take: &mut impl FnMut(&StoredRow<'_>) -> Result<ControlFlow<()>, MemtableError>,
    ) -> Result<RowsWalked, MemtableError> {
        let mut paths = Vec::new();
        let mut rows = view.rows(self.direction, at, end);
        loop {
            if *left == 0 {
                return Ok(RowsWalked::More);
            }
            let mut found: [(&[u8], usize); AT_ONCE] = [(&[], 0); AT_ONCE];
            let mut count = 0;
            paths.clear();
            for slot in found.iter_mut().take(*left) {
                let Some(At::Row(content)) = rows.at() else { break };
                let bytes = content.row_bytes().unwrap_or_default();
                if matches!(content, Content::Heap(_)) {
                    prefetch_range(bytes, 0, bytes.len().min(PREFETCHED_BYTES));
                }
                paths.extend_from_slice(rows.key());
                *slot = (bytes, paths.len());
                count += 1;
                rows.advance();
            }
            if count == 0 {
                return Ok(RowsWalked::End);
            }
            *left -= count;
            let found = found.iter().take(count);
            if self.take_rows(&paths, found.copied(), at, take)?.is_break() {
                return Ok(RowsWalked::Stopped);
            }
        }
    }

    /// Takes rows; each comes with the end of its path in `paths`. Moves `at` to the last one.
    fn take_rows<'a>(
        &self,
        paths: &[u8],
        found: impl Iterator<Item = (&'a [u8], usize)>,
        at: &mut Vec<u8>,
        take: &mut impl FnMut(&StoredRow<'_>) -> Result<ControlFlow<()>, MemtableError>,
    ) -> Result<ControlFlow<()>, MemtableError> {
        let (mut start, mut flow) = (0, ControlFlow::Continue(()));
        let mut last: &[u8] = &[];
        for (stored, end) in found {
            let path = paths.get(start..end).unwrap_or_default();
            let is_exact = self.memtable.format.is_exact;
            let (kept, packed) = split_stored(is_exact, stored);
            let packed = PackedRow::new(packed)
                .map_err(|source| MemtableError::packed_row(&self.table, source))?;
            let kept = (!is_exact).then_some(kept);
            (start, last) = (end, path);
            flow = take(&StoredRow { packed, path, kept })?;
            if flow.is_break() {
                break;
            }
        }
        at.clear();
        at.extend_from_slice(last);
        Ok(flow)
    }
}
