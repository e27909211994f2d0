//! Streams one partition of a memtable as rows and range tombstone markers.
//!
//! Two walks, over the rows and over the deletion branch, are merged by comparing paths. The stream
//! reads some fragments at a time without yielding, so that an ordinary read looks at the trie
//! once; if it has to read again, it takes a snapshot. Memory: at most [`MAX_FILL`] fragments and
//! [`MAX_FILL_BYTES`], but one row at least.

use std::{collections::VecDeque, rc::Rc, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    ClusteringBound, ClusteringSlices, DecoratedKey, DeletionTime, Direction, PartitionHeader,
    RangeTombstoneMarker, Unfiltered, UnfilteredStream, encoding::body::BodyReader, path,
    schema::TableMetadata,
};

use espalier_runtime::maybe_yield;

use super::{
    Memtable,
    content::Boundary,
    store::StoreSnapshot,
    tombstone_run::NextTombstoneRun,
    walk::{At, View},
};
use crate::MemtableError;

/// The number of fragments that are read at first after a skip.
const FIRST_FILL: usize = 16;
const MIN_FILL: usize = 4;
const MAX_FILL: usize = 256;
/// Bytes of rows copied into the buffer at a time, some ten microseconds (arbitrary).
const MAX_FILL_BYTES: usize = 128 << 10;
/// Slices examined without yielding, if none of them has a row.
pub(super) const SLICES_OF_A_FILL: usize = 128;
/// Pieces of retired memory freed when a stream releases its snapshot, some ten microseconds
/// (arbitrary).
const FREED_AT_ONCE: u32 = 512;

/// A stream of one partition of one memtable. See [`UnfilteredStream`].
pub struct MemtablePartition {
    pub(super) memtable: Rc<Memtable>,
    pub(super) table: Arc<TableMetadata>,
    header: PartitionHeader,
    /// The partition's path.
    prefix: Vec<u8>,
    pub(super) direction: Direction,
    slices: Arc<ClusteringSlices>,
    /// The number of slices that are done, in the direction of the walk.
    pub(super) slices_done: usize,
    /// The present slice.
    pub(super) range: Option<Range>,
    /// The partition as it was at the first fill, if that did not read all of it.
    snapshot: Option<StoreSnapshot>,
    /// True if the memtable had any boundary at the opening. `has_runs` says this of tombstone
    /// runs.
    has_boundaries: bool,
    has_runs: bool,
    run: NextTombstoneRun,
    pub(super) buffer: VecDeque<Unfiltered>,
    next_fill: usize,
    /// Bytes of the rows that the present fill has read.
    filled_bytes: usize,
}

/// The slice in progress: the paths of the position reached and of the far bound, and the deletion
/// in force at that position.
pub(super) struct Range {
    pub(super) at: Vec<u8>,
    pub(super) far: Vec<u8>,
    pub(super) open: DeletionTime,
}

impl MemtablePartition {
    /// Opens the slices of a partition. Returns `None` if the memtable has nothing of it.
    /// `wanted_rows` is the number of rows that will be read if all of them are visible; the first
    /// fill reads about that many, from `MIN_FILL` to `MAX_FILL`.
    ///
    /// # Errors
    ///
    /// Returns an error if a stored row or bound cannot be decoded.
    pub fn open(
        memtable: &Rc<Memtable>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
        direction: Direction,
        wanted_rows: usize,
    ) -> Result<Option<Self>, MemtableError> {
        let partition = Self::unread(memtable, table, key, slices, direction, wanted_rows)?;
        let Some(mut partition) = partition else { return Ok(None) };
        partition.fill()?;
        partition.keep_state();
        Ok(Some(partition))
    }

    /// Opens the slices of a partition, and reads only its header.
    pub(super) fn unread(
        memtable: &Rc<Memtable>,
        table: &Arc<TableMetadata>,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
        direction: Direction,
        wanted_rows: usize,
    ) -> Result<Option<Self>, MemtableError> {
        let mut prefix = Vec::with_capacity(key.key.len() + 16);
        path::put_partition(key.borrowed(), &mut prefix);
        let header =
            memtable.format.header(table, key, memtable.store.borrow().subtrie(&prefix))?;
        let Some(header) = header else { return Ok(None) };
        Ok(Some(Self {
            memtable: memtable.clone(),
            table: table.clone(),
            header,
            prefix,
            direction,
            slices: slices.clone(),
            slices_done: 0,
            range: None,
            snapshot: None,
            has_boundaries: memtable.has_boundaries.get(),
            has_runs: memtable.has_runs.get(),
            run: NextTombstoneRun::default(),
            buffer: VecDeque::new(),
            next_fill: wanted_rows.saturating_add(1).clamp(MIN_FILL, MAX_FILL),
            filled_bytes: 0,
        }))
    }

    /// Takes a snapshot after the first read, unless that read everything; releases it at the end.
    pub(super) fn keep_state(&mut self) {
        if self.is_done() {
            self.release_snapshot();
        } else if self.snapshot.is_none() {
            self.snapshot = Some(self.memtable.store.borrow().snapshot(&self.prefix));
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.slices_done >= self.slices.slices.len()
    }

    /// Reads the next fragments into the buffer, or none if the next [`SLICES_OF_A_FILL`] slices
    /// have none.
    fn fill(&mut self) -> Result<(), MemtableError> {
        let result = self.with_view(Self::fill_from);
        if self.is_done() {
            self.release_snapshot();
        }
        result
    }

    /// Calls `look` with the partition in the state that the stream shows.
    pub(super) fn with_view<R>(&mut self, look: impl FnOnce(&mut Self, View<'_>) -> R) -> R {
        let memtable = self.memtable.clone();
        let (snapshot, prefix) = (self.snapshot.take(), std::mem::take(&mut self.prefix));
        let result = {
            let store = memtable.store.borrow();
            let partition = match &snapshot {
                Some(snapshot) => snapshot.subtrie(&store),
                None => store.subtrie(&prefix),
            };
            look(self, View { partition, has_boundaries: self.has_boundaries })
        };
        (self.snapshot, self.prefix) = (snapshot, prefix);
        result
    }

    /// Releases the snapshot, and frees a bounded part of the memory that was retained for it;
    /// later writes free the rest.
    fn release_snapshot(&mut self) {
        if self.snapshot.take().is_some()
            && let Ok(mut store) = self.memtable.store.try_borrow_mut()
        {
            store.free_retired(FREED_AT_ONCE);
            drop(store);
            self.memtable.settle();
        }
    }

    fn fill_from(&mut self, view: View<'_>) -> Result<(), MemtableError> {
        let wanted = self.next_fill;
        self.next_fill = (wanted * 4).min(MAX_FILL);
        self.filled_bytes = 0;
        let slices_done = self.slices_done.saturating_add(SLICES_OF_A_FILL);
        while !self.is_filled(wanted) && !self.is_done() && self.slices_done < slices_done {
            let mut range = match self.range.take() {
                Some(range) => range,
                None => self.enter_slice(&view),
            };
            let is_finished = self.walk_slice(&view, &mut range, wanted)?;
            if is_finished {
                self.leave_slice(&range);
            } else {
                self.range = Some(range);
            }
        }
        Ok(())
    }

    fn is_filled(&self, wanted: usize) -> bool {
        self.buffer.len() >= wanted || self.filled_bytes >= MAX_FILL_BYTES
    }

    /// Enters the next slice at its near bound, where a range deletion that reaches into the slice
    /// opens.
    pub(super) fn enter_slice(&mut self, view: &View<'_>) -> Range {
        let slices = self.slices.clone();
        let (near, far) = slices.bounds(self.direction, self.slices_done);
        let mut range = Range { at: Vec::new(), far: Vec::new(), open: DeletionTime::LIVE };
        path::put_bound(self.table.comparator(), near, &mut range.at);
        path::put_bound(self.table.comparator(), far, &mut range.far);
        let is_forward = self.direction == Direction::Forward;
        range.open = view.deletion_before(&range.at, is_forward);
        if !range.open.is_live() {
            self.push_marker(near.clone(), DeletionTime::LIVE, range.open);
        }
        range
    }

    pub(super) fn leave_slice(&mut self, range: &Range) {
        if !range.open.is_live() {
            let far = self.slices.bounds(self.direction, self.slices_done).1.clone();
            self.push_marker(far, range.open, DeletionTime::LIVE);
        }
        self.slices_done += 1;
    }

    /// Buffers a marker where the deletion in force changes in the direction of the walk.
    fn push_marker(&mut self, position: ClusteringBound, from: DeletionTime, to: DeletionTime) {
        let marker = RangeTombstoneMarker::of_change(position, from, to, self.direction);
        self.buffer.push_back(Unfiltered::Marker(marker));
    }

    /// Continues the walk in a slice. Returns `true` at its end, and `false` when the buffer has
    /// `wanted` fragments or too many bytes.
    fn walk_slice(
        &mut self,
        view: &View<'_>,
        range: &mut Range,
        wanted: usize,
    ) -> Result<bool, MemtableError> {
        let far = std::mem::take(&mut range.far);
        let mut rows = view.rows(self.direction, &range.at, &far);
        let mut boundaries = view.boundaries(self.direction, &range.at, &far);
        let is_finished = loop {
            if self.is_filled(wanted) {
                break false;
            }
            let boundary_is_next = match (rows.at(), boundaries.at()) {
                (None, None) => break true,
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(_), Some(_)) => match self.direction {
                    Direction::Forward => boundaries.key() < rows.key(),
                    Direction::Reverse => boundaries.key() > rows.key(),
                },
            };
            let walk = if boundary_is_next { &mut boundaries } else { &mut rows };
            range.at.clear();
            range.at.extend_from_slice(walk.key());
            match walk.at() {
                Some(At::Row(content)) => {
                    if self.has_runs {
                        self.run.read(view, self.direction, &range.at, self.buffer.len());
                    }
                    let row = self.memtable.format.row(&self.table, &range.at, content)?;
                    self.filled_bytes += content.heap_bytes();
                    self.buffer.push_back(Unfiltered::Row(row));
                }
                Some(At::Boundary(boundary)) => {
                    let next = match self.direction {
                        Direction::Forward => boundary.after,
                        Direction::Reverse => view.deletion_before(&range.at, false),
                    };
                    let position = bound(&self.table, &range.at, boundary)?;
                    let open = std::mem::replace(&mut range.open, next);
                    self.push_marker(position, open, next);
                }
                None => {}
            }
            walk.advance();
        };
        drop((rows, boundaries));
        range.far = far;
        Ok(is_finished)
    }
}

impl Drop for MemtablePartition {
    fn drop(&mut self) {
        self.release_snapshot();
    }
}

impl UnfilteredStream for MemtablePartition {
    type Error = MemtableError;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, MemtableError> {
        while self.buffer.is_empty() && !self.is_done() {
            // The caller may discard all fragments and never yield itself.
            maybe_yield().await;
            self.fill()?;
        }
        self.run.give();
        Ok(self.buffer.pop_front())
    }

    fn maximum_timestamp(&self) -> i64 {
        self.memtable.statistics.borrow().maximum_timestamp
    }

    fn empty_until(&self) -> Option<ClusteringBound> {
        let far = self.run.far_end(self.direction)?;
        path::far_end(self.table.comparator(), far, self.direction).ok()
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), MemtableError> {
        self.next_fill = FIRST_FILL;
        let comparator = self.table.comparator();
        let is_forward = self.direction == Direction::Forward;
        let direction = self.direction;
        self.buffer.retain(|fragment| !fragment.is_row_before(position, comparator, direction));
        self.run.skip(self.buffer.len());
        let Some(mut range) = self.range.take() else { return Ok(()) };
        let mut target = Vec::new();
        path::put_bound(comparator, position, &mut target);
        let is_ahead = |place: &[u8], of: &[u8]| if is_forward { place > of } else { place < of };
        if !is_ahead(&range.far, &target) {
            // The marker at the far bound is the one that closes the slice.
            range.at.clone_from(&range.far);
        } else if is_ahead(&target, &range.at) {
            let open = self.with_view(|_, view| view.deletion_before(&target, is_forward));
            if open != range.open {
                self.push_marker(position.clone(), range.open, open);
                range.open = open;
            }
            range.at = target;
        }
        self.range = Some(range);
        Ok(())
    }
}

/// Returns a stored bound. The bound's kind shows only on which side of its values the bound lies.
fn bound(
    table: &TableMetadata,
    bound_path: &[u8],
    boundary: &Boundary,
) -> Result<ClusteringBound, MemtableError> {
    let Some(kept) = &boundary.kept_values else {
        return path::bound(table.comparator(), bound_path)
            .map_err(|error| MemtableError::corrupt(table, &error));
    };
    let kind = path::kind_of(bound_path.last().copied().unwrap_or_default());
    let mut reader = BodyReader::new(Bytes::clone(kept));
    let values = reader.values().map_err(|error| MemtableError::corrupt(table, &error))?;
    Ok(ClusteringBound { kind, values })
}
