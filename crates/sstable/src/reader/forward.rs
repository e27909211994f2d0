//! Reads the rows and markers of slices in clustering order.

mod ahead;

use std::sync::Arc;

use espalier_mutation::{
    ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, PositionRef, Unfiltered,
};

use super::{row_index::RowIndex, row_source::RowSource, skip::Skip, slice_markers::marker_at};
use crate::{
    data::decode::{HeadKind, UnfilteredHead},
    error::{Result, SSTableError},
};

/// Number of skipped rows, markers and slices after which the reader offers to yield.
const SKIPS_AT_ONCE: u32 = 64;

/// Counts a skipped row, marker or slice, and offers to yield after [`SKIPS_AT_ONCE`] of them.
#[inline]
async fn count_skip(skipped: &mut u32) {
    *skipped += 1;
    if skipped.is_multiple_of(SKIPS_AT_ONCE) {
        espalier_runtime::maybe_yield().await;
    }
}

/// Walks a partition forward.
///
/// Invariant: `source` stands at a row, a marker or the end of the partition, and `open` is the
/// range deletion in force there.
#[derive(Debug)]
pub(super) struct ForwardRows {
    pub(super) source: RowSource,
    slices: Arc<ClusteringSlices>,
    slice: usize,
    is_inside: bool,
    open: DeletionTime,
    skip: Option<Skip>,
    /// The position of the partition and its row index, if the partition has one.
    index: Option<(u64, RowIndex)>,
    /// True if the reader knows whether the partition has a row index.
    is_index_sought: bool,
    is_finished: bool,
}

impl ForwardRows {
    /// Starts from a source that stands after the partition's head. The reader reads and skips all
    /// that precedes the slices.
    pub(super) fn new(source: RowSource, slices: Arc<ClusteringSlices>) -> Self {
        Self {
            source,
            slices,
            slice: 0,
            is_inside: false,
            open: DeletionTime::LIVE,
            skip: None,
            index: None,
            is_index_sought: false,
            is_finished: false,
        }
    }

    /// Starts from a source that stands after the partition's head. If there is a row index and the
    /// first slice has a start, the source may stand anywhere.
    pub(super) async fn enter(
        source: RowSource,
        slices: Arc<ClusteringSlices>,
        partition_start: u64,
        index: Option<RowIndex>,
    ) -> Result<Self> {
        let mut rows = Self::new(source, slices);
        rows.index = index.map(|index| (partition_start, index));
        rows.is_index_sought = true;
        let slices = rows.slices.clone();
        if let Some(slice) = slices.slices.first()
            && !slice.start.is_unbounded()
        {
            rows.jump(slice.start.position(), true).await?;
        }
        Ok(rows)
    }

    /// Skips to a position, by the row index if there is one; see
    /// [`UnfilteredStream`](espalier_mutation::UnfilteredStream).
    pub(super) async fn skip_to(&mut self, to: &ClusteringBound) -> Result<()> {
        let comparator = self.source.comparator();
        let reported = match &self.skip {
            Some(skip) if comparator.compare(to.position(), skip.to.position()).is_le() => {
                return Ok(());
            }
            Some(skip) => skip.reported,
            None if self.is_inside => self.open,
            None => DeletionTime::LIVE,
        };
        self.skip = Some(Skip { to: to.clone(), reported });
        self.jump_to_skip().await
    }

    /// If there is a row index, goes to the block that holds the first item to be read after the
    /// skip.
    async fn jump_to_skip(&mut self) -> Result<()> {
        let Some(Skip { to, .. }) = &self.skip else { return Ok(()) };
        let (slices, to) = (self.slices.clone(), to.clone());
        let comparator = self.source.comparator();
        let mut rest = slices.slices.iter().skip(self.slice);
        let slice =
            rest.find(|slice| comparator.compare(slice.end.position(), to.position()).is_gt());
        let Some(slice) = slice else { return Ok(()) };
        let begins_later = comparator.compare(slice.start.position(), to.position()).is_gt();
        let target = if begins_later { &slice.start } else { &to };
        self.jump(target.position(), false).await
    }

    pub(super) async fn next(&mut self) -> Result<Option<Unfiltered>> {
        let mut skipped = 0u32;
        loop {
            if self.is_finished {
                return Ok(None);
            }
            // Boxed, so that this future does not enlarge the future of steps that skip nothing.
            if self.skip.is_some()
                && let Some(marker) = Box::pin(self.pass_skipped()).await?
            {
                return Ok(Some(marker));
            }
            let slices = self.slices.clone();
            let Some(slice) = slices.slices.get(self.slice) else { return Ok(None) };
            let Some(head) = self.source.head().await? else {
                self.is_finished = true;
                return if self.open.is_live() {
                    Ok(None)
                } else {
                    Err(self.source.corrupt("a range deletion is open at the end"))
                };
            };
            if !self.is_inside {
                if self.source.compare(&head, slice.start.position()).is_le() {
                    self.step_over(head).await?;
                    count_skip(&mut skipped).await;
                    continue;
                }
                self.is_inside = true;
                if !self.open.is_live() {
                    return Ok(Some(marker_at(&slice.start, DeletionTime::LIVE, self.open)));
                }
            }
            if self.source.compare(&head, slice.end.position()).is_ge() {
                if let Some(closing) = self.leave_slice(slice, Some(&head)).await? {
                    return Ok(Some(closing));
                }
                count_skip(&mut skipped).await;
                continue;
            }
            match self.source.take(head).await? {
                Unfiltered::Row(row) if row.is_empty() => {}
                Unfiltered::Row(row) => {
                    if is_single_row(slice, row.clustering.values.len()) && self.open.is_live() {
                        // Nothing else can be in this slice, so the next row need not be read.
                        self.leave_slice(slice, None).await?;
                    }
                    return Ok(Some(Unfiltered::Row(row)));
                }
                Unfiltered::Marker(marker) => {
                    self.check_open(marker.before)?;
                    self.open = marker.after;
                    return Ok(Some(Unfiltered::Marker(marker)));
                }
            }
        }
    }

    /// Walks to the target of the skip. Returns a marker if the skip leaves a slice in which a
    /// range deletion was reported, or if another range deletion is in force at the target.
    async fn pass_skipped(&mut self) -> Result<Option<Unfiltered>> {
        let (slices, Some(mut skip)) = (self.slices.clone(), self.skip.take()) else {
            return Ok(None);
        };
        let to = skip.to.position();
        while let Some(slice) = slices.slices.get(self.slice)
            && self.source.comparator().compare(slice.end.position(), to).is_le()
        {
            self.slice += 1;
            self.is_inside = false;
            if !skip.reported.is_live() {
                let reported = std::mem::replace(&mut skip.reported, DeletionTime::LIVE);
                self.skip = Some(skip);
                return Ok(Some(marker_at(&slice.end, reported, DeletionTime::LIVE)));
            }
        }
        let Some(slice) = slices.slices.get(self.slice) else { return Ok(None) };
        if self.source.comparator().compare(slice.start.position(), to).is_ge() {
            return Ok(None);
        }
        self.walk_to(to, u64::MAX).await?;
        self.is_inside = true;
        Ok((skip.reported != self.open).then(|| marker_at(&skip.to, skip.reported, self.open)))
    }

    /// Steps over everything before `to`, and over a marker at `to`. Returns false if it stopped
    /// after slightly more than `limit` bytes.
    async fn walk_to(&mut self, to: PositionRef<'_>, limit: u64) -> Result<bool> {
        let start = self.source.stream.position();
        let mut skipped = 0u32;
        while let Some(head) = self.source.head().await? {
            if self.source.compare(&head, to).is_gt() {
                break;
            }
            if self.source.stream.position().saturating_sub(start) > limit {
                return Ok(false);
            }
            self.step_over(head).await?;
            count_skip(&mut skipped).await;
        }
        Ok(true)
    }

    /// Returns whether a walk that began without the row index should look it up. Walks about
    /// `limit` bytes towards the target of the skip under way, and returns true if the target lies
    /// further on. Returns true at most once in a partition.
    pub(super) async fn wants_index(&mut self, limit: u64) -> Result<bool> {
        if self.is_index_sought {
            return Ok(false);
        }
        let Some(skip) = self.skip.take() else { return Ok(false) };
        self.is_index_sought = !self.walk_to(skip.to.position(), limit).await?;
        self.skip = Some(skip);
        Ok(self.is_index_sought)
    }

    /// Uses the row index from here on, and first for the skip under way.
    pub(super) async fn use_index(&mut self, partition_start: u64, index: RowIndex) -> Result<()> {
        self.index = Some((partition_start, index));
        self.jump_to_skip().await
    }

    /// Steps over everything before the current slice, and enters the slice unless a range deletion
    /// is open at its start. The caller has skipped to the slice.
    pub(super) async fn enter_slice(&mut self) -> Result<()> {
        let slices = self.slices.clone();
        let Some(slice) = slices.slices.get(self.slice).filter(|_| !self.is_inside) else {
            return Ok(());
        };
        self.walk_to(slice.start.position(), u64::MAX).await?;
        if self.open.is_live() {
            self.skip = None;
            self.is_inside = true;
        }
        Ok(())
    }

    /// Returns the start of the current slice, if rows or markers before the slice may come next.
    pub(super) fn start_ahead(&self) -> Option<&ClusteringBound> {
        let slice = self.slices.slices.get(self.slice).filter(|_| !self.is_inside)?;
        (!slice.start.is_unbounded()).then_some(&slice.start)
    }

    /// Leaves the current slice. `head` is the item at which the source stands, if it was read. If
    /// this item does not lie before the next slice, no block further ahead can hold its start.
    async fn leave_slice(
        &mut self,
        slice: &ClusteringSlice,
        head: Option<&UnfilteredHead>,
    ) -> Result<Option<Unfiltered>> {
        let open = self.open;
        self.is_inside = false;
        self.slice += 1;
        let slices = self.slices.clone();
        if let Some(next) = slices.slices.get(self.slice)
            && let start = next.start.position()
            && head.is_none_or(|head| self.source.compare(head, start).is_lt())
        {
            self.jump(start, false).await?;
        }
        Ok((!open.is_live()).then(|| marker_at(&slice.end, open, DeletionTime::LIVE)))
    }

    async fn step_over(&mut self, head: UnfilteredHead) -> Result<()> {
        match head.head.kind {
            HeadKind::Row => self.source.skip(&head),
            HeadKind::Marker(_) => {
                let marker = self.source.take_marker(head).await?;
                self.check_open(marker.before)?;
                self.open = marker.after;
            }
        }
        Ok(())
    }

    fn check_open(&self, before: DeletionTime) -> Result<()> {
        if before == self.open {
            Ok(())
        } else {
            Err(self.source.corrupt("a marker ends another deletion than was open"))
        }
    }

    /// Goes to the block that holds `to`, if there is a row index and the block lies ahead. If
    /// `is_entering`, the source has no position in the partition yet, and the block may lie
    /// anywhere. If an index without checksums does not fit the rows, the source stays where it is
    /// or, if `is_entering`, goes to the partition's first row.
    async fn jump(&mut self, to: PositionRef<'_>, is_entering: bool) -> Result<()> {
        let Some((start, index)) = &self.index else { return Ok(()) };
        let partition_start = *start;
        let comparator = self.source.comparator();
        let block = index.floor_block(comparator, to).await?;
        let position = partition_start.saturating_add(block.offset);
        let before = self.source.stream.position();
        if !is_entering && position <= before {
            return Ok(());
        }
        let is_checked = index.file().has_checksums();
        if !self.source.stream.is_cached(position)
            && let Some(slice) = self.slices.slices.get(self.slice)
            && !slice.end.is_unbounded()
        {
            let end = index.end_offset(comparator, slice.end.position()).await?;
            self.source.stream.expect(partition_start.saturating_add(end));
        }
        // An index whose checksums are right needs no comparison with the rows.
        if is_checked || self.is_right_place(partition_start, block.offset, to).await? {
            self.source.stream.seek(position);
            self.open = block.open_deletion;
            return Ok(());
        }
        // If `to` lies after the last row, the index leads to the end of the partition, and the
        // check above fails. The reader then walks the last block only.
        let last = match &self.index {
            Some((_, index)) => index.last_block_below(self.source.comparator(), None).await?,
            None => None,
        };
        if let Some(last) = last
            && let position = partition_start.saturating_add(last.start)
            && (is_entering || position > before)
            && self.is_right_place(partition_start, last.start, to).await?
        {
            self.source.stream.seek(position);
            self.open = last.open_deletion;
        } else if is_entering {
            // The index does not fit the data, so the partition is read from its beginning.
            self.source.stream.seek(partition_start);
            self.source.read_header().await?;
        } else {
            self.source.stream.seek(before);
        }
        Ok(())
    }

    /// Returns whether a row or marker begins at `offset` of the partition and the preceding row or
    /// marker does not lie after `to`, so that the jump omits nothing. Moves the source.
    async fn is_right_place(
        &mut self,
        partition_start: u64,
        offset: u64,
        to: PositionRef<'_>,
    ) -> Result<bool> {
        self.source.stream.seek(partition_start.saturating_add(offset));
        let previous = match self.source.head().await {
            Ok(Some(head)) => head.previous,
            // The end of a partition follows the last block. The reader cannot tell here whether it
            // is the end of this partition.
            Ok(None) | Err(SSTableError::Corrupt { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(previous_offset) = offset.checked_sub(previous) else { return Ok(false) };
        if previous_offset == 0 {
            return Ok(true);
        }
        self.source.stream.seek(partition_start.saturating_add(previous_offset));
        match self.source.head().await {
            Ok(Some(head)) => {
                let is_before = self.source.compare(&head, to).is_le();
                Ok(head.length() as u64 == previous && is_before)
            }
            Ok(None) | Err(SSTableError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Steps over the rest of the partition and the byte that ends it. Returns false if it stopped
    /// after more than `limit` bytes.
    pub(super) async fn skip_rest(&mut self, limit: u64) -> Result<bool> {
        let start = self.source.stream.position();
        let mut skipped = 0u32;
        while let Some(head) = self.source.head().await? {
            self.source.skip(&head);
            count_skip(&mut skipped).await;
            if self.source.stream.position() - start > limit {
                return Ok(false);
            }
        }
        self.source.stream.skip(1);
        Ok(true)
    }

    pub(super) fn position(&self) -> u64 {
        self.source.stream.position()
    }
}

/// Returns whether the slice can contain only one row: both bounds include the same full
/// clustering.
fn is_single_row(slice: &ClusteringSlice, columns: usize) -> bool {
    columns > 0 && slice.start.values.len() == columns && slice.start.values == slice.end.values
}
