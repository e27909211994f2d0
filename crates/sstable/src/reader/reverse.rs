//! Reads the rows and markers of slices against clustering order.
//!
//! The reader walks a block of the row index (or the whole partition, if it has no index) forward
//! once, over the heads of the rows, and records where the rows begin. Then it decodes the rows
//! from the last to the first. Memory: 16 bytes for each row of a block.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, PositionRef,
    RangeTombstoneMarker, Unfiltered,
};

use super::{
    row_index::{Block, RowIndex},
    row_source::RowSource,
    skip::Skip,
    slice_markers::marker_at,
};
use crate::{
    data::decode::{HeadKind, HeadPosition},
    error::{Result, SSTableError},
};

/// Number of heads, or of steps without a fragment, after which the walk offers to yield.
const HEADS_AT_ONCE: usize = 64;

/// An item of the block: a row's position, or a marker itself, since markers are few and the walk
/// needs them.
#[derive(Debug)]
enum Entry {
    Row(u64),
    Marker(Box<RangeTombstoneMarker>),
}

/// Walks a partition in reverse.
///
/// Invariant: `open` is the range deletion in force just after the last of `entries`.
#[derive(Debug)]
pub(super) struct ReverseRows {
    source: RowSource,
    partition_start: u64,
    index: Option<RowIndex>,
    slices: Arc<ClusteringSlices>,
    /// The number of unfinished slices; the last of them is the current one.
    slices_left: usize,
    is_inside: bool,
    open: DeletionTime,
    skip: Option<Skip>,
    entries: Vec<Entry>,
    block: BlockState,
}

/// The block to which `entries` belong.
#[derive(Debug)]
enum BlockState {
    /// No block was read yet.
    Start,
    /// A block that may have other blocks before it: its offset, the deletion that is open at its
    /// start, and the position of its first row or marker.
    Block { offset: u64, open: DeletionTime, first: HeadPosition },
    /// The first block of the partition.
    First,
}

impl ReverseRows {
    pub(super) fn position(&self) -> u64 {
        self.source.stream.position()
    }

    /// Starts from a source that stands after the partition's head or, if there is a row index,
    /// anywhere.
    pub(super) fn new(
        source: RowSource,
        slices: Arc<ClusteringSlices>,
        partition_start: u64,
        index: Option<RowIndex>,
    ) -> Self {
        Self {
            source,
            partition_start,
            index,
            slices_left: slices.slices.len(),
            slices,
            is_inside: false,
            open: DeletionTime::LIVE,
            skip: None,
            entries: Vec::new(),
            block: BlockState::Start,
        }
    }

    /// Skips to a position, and leaves the current block if the position lies in an earlier one;
    /// see [`UnfilteredStream`](espalier_mutation::UnfilteredStream).
    pub(super) async fn skip_to(&mut self, to: &ClusteringBound) -> Result<()> {
        let comparator = self.source.comparator();
        let reported = match &self.skip {
            Some(skip) if comparator.compare(to.position(), skip.to.position()).is_ge() => {
                return Ok(());
            }
            Some(skip) => skip.reported,
            None if self.is_inside => self.open,
            None => DeletionTime::LIVE,
        };
        if let (Some(index), BlockState::Block { offset, .. }) = (&self.index, &self.block) {
            let block = index.last_block_below(comparator, Some(to.position())).await?;
            if block.is_some_and(|block| block.start < *offset) {
                self.entries.clear();
            }
        }
        self.skip = Some(Skip { to: to.clone(), reported });
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<Option<Unfiltered>> {
        let slices = self.slices.clone();
        let mut skipped = 0usize;
        loop {
            if self.skip.is_some()
                && let Some(closing) = self.leave_skipped_slices()
            {
                return Ok(Some(closing));
            }
            let current = self.slices_left.checked_sub(1).and_then(|i| slices.slices.get(i));
            let Some(slice) = current else { return Ok(None) };
            let Some(entry) = self.entries.pop() else {
                if !self.load_block_before(slice).await? {
                    self.slices_left = 0;
                    return if self.open.is_live() {
                        Ok(self.arrive())
                    } else {
                        Err(self.source.corrupt("a range deletion is open at the start"))
                    };
                }
                continue;
            };
            let found = if self.skip.is_some() {
                match self.step_over(entry).await? {
                    Some(entry) => {
                        self.entries.push(entry);
                        self.arrive()
                    }
                    None => None,
                }
            } else {
                match entry {
                    Entry::Row(position) => self.visit_row(slice, position).await?,
                    Entry::Marker(marker) => self.visit_marker(slice, marker),
                }
            };
            if found.is_some() {
                return Ok(found);
            }
            skipped += 1;
            if skipped.is_multiple_of(HEADS_AT_ONCE) {
                espalier_runtime::maybe_yield().await;
            }
        }
    }

    /// Leaves the slices that lie wholly after the target of the skip. Ends the skip if the next
    /// slice does not need it.
    fn leave_skipped_slices(&mut self) -> Option<Unfiltered> {
        let (slices, mut skip) = (self.slices.clone(), self.skip.take()?);
        let (comparator, to) = (self.source.comparator(), skip.to.position());
        while let Some(slice) = self.slices_left.checked_sub(1).and_then(|i| slices.slices.get(i)) {
            if comparator.compare(slice.start.position(), to).is_lt() {
                if comparator.compare(slice.end.position(), to).is_gt() {
                    self.skip = Some(skip);
                }
                return None;
            }
            self.slices_left -= 1;
            self.is_inside = false;
            if !skip.reported.is_live() {
                let reported = std::mem::replace(&mut skip.reported, DeletionTime::LIVE);
                self.skip = Some(skip);
                return Some(marker_at(&slice.start, DeletionTime::LIVE, reported));
            }
        }
        None
    }

    /// Returns the entry if it lies before the target of the skip, in clustering order.
    async fn step_over(&mut self, entry: Entry) -> Result<Option<Entry>> {
        let Some(skip) = &self.skip else { return Ok(Some(entry)) };
        match &entry {
            Entry::Row(position) => {
                self.source.stream.seek(*position);
                let Some(head) = self.source.head().await? else {
                    return Err(self.source.corrupt("a row that was read before is missing"));
                };
                let is_before = self.source.compare(&head, skip.to.position()).is_lt();
                Ok(is_before.then_some(entry))
            }
            Entry::Marker(marker) => {
                let (position, to) = (marker.position.position(), skip.to.position());
                if self.source.comparator().compare(position, to).is_lt() {
                    return Ok(Some(entry));
                }
                self.open = marker.before;
                Ok(None)
            }
        }
    }

    /// Ends the skip at its target, or at the beginning of the partition. Returns a marker if the
    /// range deletion in force changed on the way.
    fn arrive(&mut self) -> Option<Unfiltered> {
        let skip = self.skip.take()?;
        self.is_inside = true;
        (skip.reported != self.open).then(|| marker_at(&skip.to, self.open, skip.reported))
    }

    /// Returns the end of the part of the slice that is still to be read.
    fn wanted_end<'a>(&'a self, slice: &'a ClusteringSlice) -> PositionRef<'a> {
        match &self.skip {
            // The target lies inside of the slice, because the skip would have ended otherwise.
            Some(skip) => skip.to.position(),
            None => slice.end.position(),
        }
    }

    /// Returns the fragment that a row adds to the stream. If this is a marker at a slice's bound,
    /// the caller must visit the row again.
    async fn visit_row(
        &mut self,
        slice: &ClusteringSlice,
        position: u64,
    ) -> Result<Option<Unfiltered>> {
        self.source.stream.seek(position);
        let Some(head) = self.source.head().await? else {
            return Err(self.source.corrupt("a row that was read before is missing"));
        };
        if !self.is_inside {
            if self.source.compare(&head, slice.end.position()).is_ge() {
                return Ok(None);
            }
            if let Some(opening) = self.enter_slice(slice) {
                self.entries.push(Entry::Row(position));
                return Ok(Some(opening));
            }
        }
        if self.source.compare(&head, slice.start.position()).is_le() {
            self.entries.push(Entry::Row(position));
            return Ok(self.leave_slice(slice));
        }
        match self.source.take(head).await? {
            Unfiltered::Row(row) if row.is_empty() => Ok(None),
            unfiltered => Ok(Some(unfiltered)),
        }
    }

    fn visit_marker(
        &mut self,
        slice: &ClusteringSlice,
        marker: Box<RangeTombstoneMarker>,
    ) -> Option<Unfiltered> {
        let comparator = self.source.comparator();
        let position = marker.position.position();
        let is_behind = comparator.compare(position, slice.end.position()).is_ge();
        let is_before = comparator.compare(position, slice.start.position()).is_le();
        if !self.is_inside {
            if is_behind {
                self.open = marker.before;
                return None;
            }
            if let Some(opening) = self.enter_slice(slice) {
                self.entries.push(Entry::Marker(marker));
                return Some(opening);
            }
        }
        if is_before {
            self.entries.push(Entry::Marker(marker));
            return self.leave_slice(slice);
        }
        self.open = marker.before;
        Some(Unfiltered::Marker(*marker))
    }

    fn enter_slice(&mut self, slice: &ClusteringSlice) -> Option<Unfiltered> {
        self.is_inside = true;
        let open = self.open;
        (!open.is_live()).then(|| marker_at(&slice.end, open, DeletionTime::LIVE))
    }

    fn leave_slice(&mut self, slice: &ClusteringSlice) -> Option<Unfiltered> {
        self.is_inside = false;
        self.slices_left -= 1;
        let open = self.open;
        (!open.is_live()).then(|| marker_at(&slice.start, DeletionTime::LIVE, open))
    }

    /// Reads the heads of the block before the current one; at first, of the block that holds the
    /// end of `slice`. Returns false if there is no such block.
    async fn load_block_before(&mut self, slice: &ClusteringSlice) -> Result<bool> {
        let mut state = std::mem::replace(&mut self.block, BlockState::First);
        let Some(index) = &self.index else {
            return match state {
                // The source stands after the partition's head, and the whole partition is the
                // block.
                BlockState::Start => {
                    self.walk(None, DeletionTime::LIVE).await?;
                    self.open = DeletionTime::LIVE;
                    Ok(!self.entries.is_empty())
                }
                _ => Ok(false),
            };
        };
        let block = match &state {
            BlockState::First => return Ok(false),
            BlockState::Start => self.block_of_end(index, slice).await?,
            BlockState::Block { offset, .. } if !self.is_inside || self.skip.is_some() => {
                let block = self.block_of_end(index, slice).await?;
                if block.is_some_and(|block| block.end < *offset) {
                    // This omits skipped blocks and the blocks between two slices.
                    state = BlockState::Start;
                    block
                } else {
                    self.block_below(index, &state).await?
                }
            }
            BlockState::Block { .. } => self.block_below(index, &state).await?,
        };
        match block {
            Some(block) => self.load_block(block, &state, slice).await?,
            None if matches!(state, BlockState::Start) => {
                return Err(self.index_corrupt("a row index without blocks"));
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Finds the last block that may have rows before the end of `slice`.
    async fn block_of_end(
        &self,
        index: &RowIndex,
        slice: &ClusteringSlice,
    ) -> Result<Option<Block>> {
        let end = self.wanted_end(slice);
        let end = (!end.values.is_empty()).then_some(end);
        index.last_block_below(self.source.comparator(), end).await
    }

    /// Finds the block before the one of `state`.
    async fn block_below(&self, index: &RowIndex, state: &BlockState) -> Result<Option<Block>> {
        let BlockState::Block { first, offset, .. } = state else { return Ok(None) };
        index.block_before(self.source.comparator(), first.position(), *offset).await
    }

    async fn load_block(
        &mut self,
        block: Block,
        above: &BlockState,
        slice: &ClusteringSlice,
    ) -> Result<()> {
        if let BlockState::Block { offset, .. } = above
            && block.end != *offset
        {
            return Err(self.index_corrupt("blocks do not follow one another"));
        }
        self.source.stream.seek(self.partition_start.saturating_add(block.start));
        self.source.stream.expect(self.partition_start.saturating_add(block.end));
        let Some(head) = self.source.head().await? else {
            return Err(self.index_corrupt("a block without rows"));
        };
        let is_first = head.previous == block.start;
        if is_first && !block.open_deletion.is_live() {
            return Err(self.index_corrupt("a deletion is open before the first row"));
        }
        let first = self.walk(Some(block), block.open_deletion).await?;
        // From here on the reader goes backward and does not want the bytes after the block again.
        self.source.stream.expect(0);
        match above {
            BlockState::Block { open, .. } if *open != self.open => {
                return Err(
                    self.index_corrupt("the deletion open at a block is not that of the rows")
                );
            }
            BlockState::Start => self.check_nothing_above(slice).await?,
            _ => {}
        }
        self.block = match first.filter(|_| !is_first) {
            None => BlockState::First,
            Some(first) => {
                BlockState::Block { offset: block.start, open: block.open_deletion, first }
            }
        };
        Ok(())
    }

    /// Checks that the item after the first block that was read is not inside of the slice.
    async fn check_nothing_above(&mut self, slice: &ClusteringSlice) -> Result<()> {
        match self.source.head().await? {
            Some(head) if self.source.compare(&head, self.wanted_end(slice)).is_lt() => {
                Err(self.index_corrupt("a slice reaches beyond the block that the index gives"))
            }
            None if !self.open.is_live() => {
                Err(self.source.corrupt("a range deletion is open at the end"))
            }
            _ => Ok(()),
        }
    }

    /// Walks over the heads from here to the end of `block`, or to the end of the partition. Leaves
    /// in `open` the deletion in force after the last entry. Returns the position of the first
    /// entry, if there is a `block`.
    async fn walk(
        &mut self,
        block: Option<Block>,
        open: DeletionTime,
    ) -> Result<Option<HeadPosition>> {
        self.open = open;
        self.entries.clear();
        let mut first = None;
        let end = block.map(|block| self.partition_start.saturating_add(block.end));
        while end.is_none_or(|end| self.source.stream.position() < end) {
            let Some(head) = self.source.head().await? else { break };
            let position = self.source.stream.position();
            if self.entries.is_empty() && end.is_some() {
                first = Some(head.to_position(self.source.stream.window()));
            }
            match head.head.kind {
                HeadKind::Row => {
                    self.source.skip(&head);
                    self.entries.push(Entry::Row(position));
                }
                HeadKind::Marker(_) => {
                    let marker = self.source.take_marker(head).await?;
                    if marker.before != self.open {
                        let reason = "a marker ends another deletion than was open";
                        return Err(self.source.corrupt(reason));
                    }
                    self.open = marker.after;
                    self.entries.push(Entry::Marker(Box::new(marker)));
                }
            }
            if self.entries.len().is_multiple_of(HEADS_AT_ONCE) {
                espalier_runtime::maybe_yield().await;
            }
        }
        let offset = self.source.stream.position().saturating_sub(self.partition_start);
        match block {
            Some(block) if !block.can_end_at(offset) => {
                Err(self.index_corrupt("a block does not end where a row ends"))
            }
            None if !self.open.is_live() => {
                Err(self.source.corrupt("a range deletion is open at the end"))
            }
            _ => Ok(first),
        }
    }

    fn index_corrupt(&self, reason: &'static str) -> SSTableError {
        match &self.index {
            Some(index) => index.corrupt(reason),
            None => self.source.corrupt(reason),
        }
    }
}
