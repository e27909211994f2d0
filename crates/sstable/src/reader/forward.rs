//! Rows and markers of slices in clustering order.

use std::sync::Arc;

use espalier_mutation::{ClusteringSlice, ClusteringSlices, DeletionTime, Unfiltered};

use super::{row_index::RowIndex, row_source::RowSource, slice_markers::marker_at};
use crate::{
    data::decode::{HeadKind, UnfilteredHead},
    error::{Result, SSTableError},
};

/// Rows between which a reader that skips asks whether it should give way.
const SKIPS_AT_ONCE: u32 = 64;

/// Walks a partition forward.
///
/// Invariant: `source` stands at a row, a marker or the end of the partition; `open` is the range deletion in force there.
#[derive(Debug)]
pub(super) struct ForwardRows {
    source: RowSource,
    slices: Arc<ClusteringSlices>,
    slice: usize,
    is_inside: bool,
    open: DeletionTime,
    /// Start of the partition, and its row index.
    index: Option<(u64, RowIndex)>,
    is_finished: bool,
}

impl ForwardRows {
    /// From a source that stands behind the partition's head, whatever precedes the slices will be read and skipped.
    pub(super) fn new(source: RowSource, slices: Arc<ClusteringSlices>) -> Self {
        Self {
            source,
            slices,
            slice: 0,
            is_inside: false,
            open: DeletionTime::LIVE,
            index: None,
            is_finished: false,
        }
    }

    /// From a source that stands behind the partition's head or, if there is an index, anywhere.
    pub(super) async fn enter(
        source: RowSource,
        slices: Arc<ClusteringSlices>,
        partition_start: u64,
        index: Option<RowIndex>,
    ) -> Result<Self> {
        let mut rows = Self::new(source, slices);
        rows.index = index.map(|index| (partition_start, index));
        let starts_inside =
            rows.slices.slices.first().is_some_and(|slice| !slice.start.is_unbounded());
        if starts_inside {
            rows.jump_to_slice(true).await?;
        }
        Ok(rows)
    }

    pub(super) async fn next(&mut self) -> Result<Option<Unfiltered>> {
        let mut skipped = 0u32;
        loop {
            let slices = self.slices.clone();
            let Some(slice) = slices.slices.get(self.slice) else { return Ok(None) };
            if self.is_finished {
                return Ok(None);
            }
            let Some(head) = self.source.head().await? else {
                self.is_finished = true;
                return match self.open.is_live() {
                    true => Ok(None),
                    false => Err(self.source.corrupt("a range deletion is open at the end")),
                };
            };
            if !self.is_inside {
                if self.source.compare(&head, slice.start.position()).is_le() {
                    self.step_over(head).await?;
                    skipped += 1;
                    if skipped.is_multiple_of(SKIPS_AT_ONCE) {
                        espalier_runtime::maybe_yield().await;
                    }
                    continue;
                }
                self.is_inside = true;
                if !self.open.is_live() {
                    return Ok(Some(marker_at(&slice.start, DeletionTime::LIVE, self.open)));
                }
            }
            if self.source.compare(&head, slice.end.position()).is_ge() {
                return match self.leave_slice(slice).await? {
                    Some(closing) => Ok(Some(closing)),
                    None => continue,
                };
            }
            match self.source.take(head).await? {
                Unfiltered::Row(row) if row.is_empty() => {}
                Unfiltered::Row(row) => {
                    if is_single_row(slice, row.clustering.values.len()) && self.open.is_live() {
                        // Nothing else can be in this slice: the next row need not be looked at.
                        self.leave_slice(slice).await?;
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

    async fn leave_slice(&mut self, slice: &ClusteringSlice) -> Result<Option<Unfiltered>> {
        let open = self.open;
        self.is_inside = false;
        self.slice += 1;
        if self.slice < self.slices.slices.len() {
            self.jump_to_slice(false).await?;
        }
        Ok((!open.is_live()).then(|| marker_at(&slice.end, open, DeletionTime::LIVE)))
    }

    async fn step_over(&mut self, head: UnfilteredHead) -> Result<()> {
        match head.kind {
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
        match before == self.open {
            true => Ok(()),
            false => Err(self.source.corrupt("a marker ends another deletion than was open")),
        }
    }

    /// Goes to the block in which the current slice begins, if there is an index and the block lies ahead (or
    /// `is_entering`, and there is no place yet).
    async fn jump_to_slice(&mut self, is_entering: bool) -> Result<()> {
        let (slices, slice) = (self.slices.clone(), self.slice);
        let Some((start, index)) = &self.index else { return Ok(()) };
        let Some(slice) = slices.slices.get(slice) else { return Ok(()) };
        let partition_start = *start;
        let comparator = self.source.comparator();
        let block = index.floor_block(comparator, slice.start.position()).await?;
        let position = partition_start.saturating_add(block.offset);
        if !is_entering && position <= self.source.stream.position() {
            return Ok(());
        }
        let before = self.source.stream.position();
        if self.is_right_place(partition_start, block.offset, slice).await? {
            self.source.stream.seek(position);
            self.open = block.open_deletion;
            return Ok(());
        }
        // A slice behind the last row leads to the end of the partition; what is to be skipped then is the last block only.
        let last = match &self.index {
            Some((_, index)) if is_entering => {
                index.last_block_below(self.source.comparator(), None).await?
            }
            _ => None,
        };
        if let Some(last) = last
            && self.is_right_place(partition_start, last.start, slice).await?
        {
            self.source.stream.seek(partition_start.saturating_add(last.start));
            self.open = last.open_deletion;
        } else if is_entering {
            // The index does not fit the data: read the partition from its beginning.
            self.source.stream.seek(partition_start);
            self.source.read_header().await?;
        } else {
            self.source.stream.seek(before);
        }
        Ok(())
    }

    /// Whether an unfiltered begins at `offset` of the partition, and the one before it lies before the slice, so that
    /// nothing is jumped over. Moves the source.
    async fn is_right_place(
        &mut self,
        partition_start: u64,
        offset: u64,
        slice: &ClusteringSlice,
    ) -> Result<bool> {
        self.source.stream.seek(partition_start.saturating_add(offset));
        let previous = match self.source.head().await {
            Ok(Some(head)) => head.previous,
            // Behind the last block stands the end of the partition. Whether it is this one's cannot be seen here.
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
                let length = (head.length as u64).saturating_add(head.body_length);
                let is_before = self.source.compare(&head, slice.start.position()).is_le();
                Ok(length == previous && is_before)
            }
            Ok(None) | Err(SSTableError::Corrupt { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Steps to the byte that ends the partition and over it, unless there are more than `limit` bytes to it: then false.
    pub(super) async fn skip_rest(&mut self, limit: u64) -> Result<bool> {
        let start = self.source.stream.position();
        let mut skipped = 0u32;
        while let Some(head) = self.source.head().await? {
            self.source.skip(&head);
            skipped += 1;
            if skipped.is_multiple_of(SKIPS_AT_ONCE) {
                espalier_runtime::maybe_yield().await;
            }
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

    pub(super) fn into_source(self) -> RowSource {
        self.source
    }
}

/// Whether the slice can hold one row only: both bounds include the same full clustering.
fn is_single_row(slice: &ClusteringSlice, columns: usize) -> bool {
    columns > 0 && slice.start.values.len() == columns && slice.start.values == slice.end.values
}
