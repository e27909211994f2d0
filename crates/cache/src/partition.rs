//! A stream of one partition through the cache: cached rows come from memory, gaps are read from
//! files, and the rows read there are added to the cache.
//!
//! The stream reads from memory without yielding, some fragments at a time. If these are not all,
//! it takes a snapshot of the partition, so that it shows one state from first to last (rule 9 of
//! docs/cache.md). It reads the files of the view with which it was opened. It adds the rows of a
//! gap to the cache as long as its ticket is valid (rule 4).
//!
//! Memory: the buffer holds at most [`MAX_FILL`] fragments, and a marker before the last one. Its
//! values and clusterings exceed [`MAX_FILL_BYTES`] by at most one row, whether or not the row is
//! added to the cache. The row behind a gap and the merge of the files come on top.

use std::{collections::VecDeque, sync::Arc};

use espalier_memtable::MemtableError;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlices, DecoratedKey, DeletionTime, Direction,
    PartitionHeader, RangeTombstoneMarker, Row, Unfiltered, UnfilteredStream, path,
};
use espalier_runtime::{maybe_yield, trace};
use espalier_trie::memory::{Snapshot, Subtrie};

use crate::{
    CacheAccess, CacheError, CacheView, Inner,
    dead::DeadRows,
    disk::{Disk, Gap},
    entry::Entry,
    lookup::trace_look,
    place::{are_adjacent, is_behind, is_row},
    walk::Walk,
};

const MIN_FILL: usize = 4;
pub(super) const MAX_FILL: usize = 256;
/// Bytes copied into the buffer at a time, some ten microseconds (arbitrary, as for memtables).
pub(super) const MAX_FILL_BYTES: usize = 128 << 10;
/// Retired blocks freed when a stream releases its snapshot, some ten microseconds (arbitrary).
const FREED_AT_ONCE: u32 = 512;

/// A stream of one partition of a table with clustering or static columns. See
/// [`UnfilteredStream`].
pub struct CachedPartition<V: CacheView> {
    pub(super) access: CacheAccess,
    pub(super) view: V,
    /// The partition's path, with the table's number in front.
    pub(super) prefix: Vec<u8>,
    pub(super) header: PartitionHeader,
    pub(super) slices: Arc<ClusteringSlices>,
    slices_done: usize,
    pub(super) range: Option<Range>,
    snapshot: Option<Snapshot<Entry>>,
    /// True if the stream no longer reads the cache, because the cache is ahead of the view or has
    /// nothing of the rest of the partition.
    is_from_files: bool,
    pub(super) buffer: VecDeque<Unfiltered>,
    pub(super) fill: FillSize,
    pub(super) gap: Option<Gap>,
    pub(super) disk: Option<Disk<V::Stream>>,
    pub(super) rows: RowCounts,
    dead_rows: DeadRows,
}

/// The size of the fills of the buffer.
pub(super) struct FillSize {
    /// The number of fragments that the next fill reads.
    pub(super) next: usize,
    /// Bytes of the fragments that the present fill has read.
    pub(super) bytes: usize,
}

/// The rows that a stream has read: from the cache (`hits`) and from SSTables (`misses`).
#[derive(Default)]
pub(super) struct RowCounts {
    hits: u64,
    pub(super) misses: u64,
}

/// The slice in progress: the paths of the position reached and of the far bound, and the deletion
/// that was returned last.
pub(super) struct Range {
    pub(super) at: Vec<u8>,
    pub(super) far: Vec<u8>,
    pub(super) open: DeletionTime,
}

impl<V: CacheView> CachedPartition<V> {
    /// Opens the slices of a partition. Returns `None` if no file has data of it.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or if data in the cache is damaged.
    pub async fn open(
        access: &CacheAccess,
        view: V,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
    ) -> Result<Option<Self>, V::Error> {
        let mut prefix = Vec::with_capacity(key.key.len() + 20);
        let CacheAccess { cache, ticket, .. } = access;
        cache.put_partition(ticket.number, key.borrowed(), &mut prefix);
        let header = cache.header(*ticket, view.table(), key, &prefix, access.is_use())?;
        let (wanted, dead_rows) = (view.wanted_rows(), DeadRows::new(view.table()));
        let mut partition = Self {
            access: access.clone(),
            view,
            prefix,
            header: PartitionHeader {
                key: key.clone(),
                deletion: DeletionTime::LIVE,
                static_row: None,
            },
            slices: slices.clone(),
            slices_done: 0,
            range: None,
            snapshot: None,
            is_from_files: false,
            buffer: VecDeque::new(),
            fill: FillSize { next: wanted.saturating_add(1).clamp(MIN_FILL, MAX_FILL), bytes: 0 },
            gap: None,
            disk: None,
            rows: RowCounts::default(),
            dead_rows,
        };
        trace_look(&header);
        partition.header = match header {
            Some(Some(header)) => header,
            // No file has the partition.
            Some(None) => return Ok(None),
            None => match partition.open_whole().await? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        partition.begin()?;
        Ok(Some(partition))
    }

    /// Reads from the cache for the first time, and takes a snapshot if there is more to come.
    fn begin(&mut self) -> Result<(), CacheError> {
        if self.is_done() {
            return Ok(());
        }
        let CacheAccess { cache, ticket, .. } = &self.access;
        self.is_from_files = !cache.is_valid(*ticket);
        self.fill()?;
        if !self.is_done() && !self.is_from_files {
            let inner = self.access.cache.cache.0.borrow();
            self.snapshot = Some(inner.trie.snapshot(&self.prefix));
        }
        Ok(())
    }

    /// If the cache has nothing of the rest of the partition, stops reading the cache and releases
    /// the snapshot, because a snapshot makes every change of the cache copy a path.
    fn leave_cache_for_last_gap(&mut self) {
        let is_last_slice = self.slices_done + 1 == self.slices.slices.len();
        let is_to_the_end = match (&self.gap, &self.range) {
            (Some(gap), Some(range)) => gap.entry.is_none() && gap.end == range.far,
            _ => false,
        };
        if is_last_slice && is_to_the_end {
            self.is_from_files = true;
            self.release_snapshot();
        }
    }

    fn is_done(&self) -> bool {
        self.slices_done >= self.slices.slices.len()
    }

    /// Returns the bound at a position or, for a row's position, the bound behind the row in the
    /// direction of the walk.
    pub(super) fn bound_at(&self, place: &[u8]) -> Result<ClusteringBound, CacheError> {
        let comparator = self.view.table().comparator();
        let is_forward = self.view.direction() == Direction::Forward;
        let mut bound = path::bound(comparator, place)
            .map_err(|error| MemtableError::corrupt(self.view.table(), &error))?;
        let is_behind = if is_row(place) { is_forward } else { bound.kind.weight() > 0 };
        bound.kind = match (is_behind, is_forward) {
            (true, true) => BoundKind::ExclusiveStart,
            (true, false) => BoundKind::InclusiveEnd,
            (false, true) => BoundKind::InclusiveStart,
            (false, false) => BoundKind::ExclusiveEnd,
        };
        Ok(bound)
    }

    /// Reads cached rows into the buffer, until it is full or a gap begins.
    fn fill(&mut self) -> Result<(), CacheError> {
        if self.is_from_files {
            let range = self.range.take().unwrap_or_else(|| self.enter_slice());
            if range.at == range.far {
                // The caller has skipped to the slice's end.
                self.range = Some(range);
                self.leave_slice();
                return Ok(());
            }
            self.gap = Some(Gap { end: range.far.clone(), entry: None });
            self.range = Some(range);
            return Ok(());
        }
        let cache = self.access.cache.clone();
        let is_use = self.access.is_use();
        let (snapshot, prefix) = (self.snapshot.take(), std::mem::take(&mut self.prefix));
        let result = match &snapshot {
            Some(snapshot) => self.fill_from(snapshot.subtrie(), &mut |_| {}),
            None => {
                let Inner { trie, eviction_ages, .. } = &mut *cache.cache.0.borrow_mut();
                let mut touch = |entry: &Entry| {
                    if is_use {
                        eviction_ages.touch(entry);
                    }
                };
                self.fill_from(trie.subtrie(&prefix), &mut touch)
            }
        };
        (self.snapshot, self.prefix) = (snapshot, prefix);
        let Self { access, view, header, prefix, dead_rows, .. } = self;
        dead_rows.remove(access, view, &header.key, prefix)?;
        if self.is_done() {
            self.release_snapshot()
        } else {
            self.leave_cache_for_last_gap()
        }
        result
    }

    fn fill_from<'a>(
        &mut self,
        partition: Subtrie<'a, Entry>,
        use_entry: &mut impl FnMut(&'a Entry),
    ) -> Result<(), CacheError> {
        let wanted = self.fill.next;
        self.fill.next = (wanted * 4).min(MAX_FILL);
        self.fill.bytes = 0;
        let before = self.buffer.len();
        // Limits the positions passed, because positions between rows may add no fragment.
        let mut steps = MAX_FILL;
        while !self.is_filled(wanted) && steps > 0 && self.gap.is_none() && !self.is_done() {
            let mut range = match self.range.take() {
                Some(range) => range,
                None => self.enter_slice(),
            };
            let is_finished =
                self.walk_slice(partition, &mut range, wanted, &mut steps, use_entry)?;
            self.range = Some(range);
            if is_finished {
                self.leave_slice();
            }
        }
        if trace::is_on() {
            self.buffer.iter().skip(before).for_each(|fragment| self.view.record(fragment));
        }
        Ok(())
    }

    pub(super) fn is_filled(&self, wanted: usize) -> bool {
        self.buffer.len() >= wanted || self.fill.bytes >= MAX_FILL_BYTES
    }

    fn enter_slice(&self) -> Range {
        let (near, far) = self.slices.bounds(self.view.direction(), self.slices_done);
        let mut range = Range { at: Vec::new(), far: Vec::new(), open: DeletionTime::LIVE };
        let comparator = self.view.table().comparator();
        path::put_bound(comparator, near, &mut range.at);
        path::put_bound(comparator, far, &mut range.far);
        range
    }

    /// Ends the slice in progress.
    pub(super) fn leave_slice(&mut self) {
        if let Some(mut range) = self.range.take() {
            range.at.clone_from(&range.far);
            // The path of a slice's bound can always be turned back into a bound, so this does not
            // fail.
            let _ = self.trace_deletion(&mut range, DeletionTime::LIVE);
        }
        self.slices_done += 1;
    }

    /// Buffers a marker at the position reached if the deletion in force changes there.
    pub(super) fn trace_deletion(
        &mut self,
        range: &mut Range,
        deletion: DeletionTime,
    ) -> Result<(), CacheError> {
        if range.open == deletion {
            return Ok(());
        }
        let position = self.bound_at(&range.at)?;
        let open = std::mem::replace(&mut range.open, deletion);
        let direction = self.view.direction();
        let marker = RangeTombstoneMarker::of_change(position, open, deletion, direction);
        self.fill.bytes += range.at.len();
        self.buffer.push_back(Unfiltered::Marker(marker));
        Ok(())
    }

    /// Continues the walk over the cached entries. Returns `true` at the end of the slice, `false`
    /// at a gap or when the buffer is full.
    fn walk_slice<'a>(
        &mut self,
        partition: Subtrie<'a, Entry>,
        range: &mut Range,
        wanted: usize,
        steps: &mut usize,
        use_entry: &mut impl FnMut(&'a Entry),
    ) -> Result<bool, CacheError> {
        let (mut walk, here) = Walk::new(partition, self.view.direction(), &range.at);
        here.into_iter().for_each(&mut *use_entry);
        while !self.is_filled(wanted) && *steps > 0 {
            *steps -= 1;
            let step = walk.next(&range.at);
            let (end, entry) = match &step.entry {
                Some((place, entry)) if is_behind(self.view.direction(), &range.far, place) => {
                    (place.clone(), Some(*entry))
                }
                _ => (range.far.clone(), None),
            };
            let (low, high) = self.view.direction().order(&range.at, &end);
            let is_nothing = low == high || are_adjacent(low, high);
            match step.range {
                Some(deletion) => {
                    if !is_nothing {
                        self.trace_deletion(range, deletion)?;
                    }
                }
                None if is_nothing => {}
                None => {
                    let entry = entry.map(|entry| self.known(&end, entry)).transpose()?;
                    self.gap = Some(Gap { end, entry });
                    return Ok(false);
                }
            }
            // An entry behind the slice counts as used too, because it gives the continuity of the
            // slice's end.
            step.entry.iter().for_each(|(_, entry)| use_entry(entry));
            let Some(entry) = entry else { return Ok(true) };
            let known = self.known(&end, entry)?;
            if let (_, Some(row)) = &known {
                self.dead_rows.meet(&end, row);
            }
            self.give_continuous(range, end, known)?;
        }
        Ok(false)
    }

    /// Returns the deletion at an entry, and its row.
    fn known(
        &mut self,
        place: &[u8],
        entry: &Entry,
    ) -> Result<(DeletionTime, Option<Row>), CacheError> {
        self.fill.bytes += place.len() + entry.row_bytes().len();
        let table = self.view.table();
        let row = if entry.is_row() {
            Some(self.access.cache.format().row_of(table, place, entry.row_bytes())?)
        } else {
            None
        };
        Ok((entry.deletion(), row))
    }

    /// Buffers the row at a cached position, if there is one. `place` becomes the position reached.
    pub(super) fn give_continuous(
        &mut self,
        range: &mut Range,
        place: Vec<u8>,
        (deletion, row): (DeletionTime, Option<Row>),
    ) -> Result<(), CacheError> {
        if let Some(row) = row {
            // As far as the cache knows, the deletion applies only to the row, so the marker is
            // directly before the row.
            if range.open != deletion {
                range.at = match self.view.direction() {
                    Direction::Forward => super::place::before(&place),
                    Direction::Reverse => super::place::behind(&place),
                };
            }
            self.trace_deletion(range, deletion)?;
            self.rows.hits += 1;
            self.buffer.push_back(Unfiltered::Row(row));
        }
        range.at = place;
        Ok(())
    }

    fn release_snapshot(&mut self) {
        if self.snapshot.take().is_some()
            && let Ok(mut inner) = self.access.cache.cache.0.try_borrow_mut()
        {
            inner.trie.free_retired(FREED_AT_ONCE);
        }
    }
}

impl<V: CacheView> Drop for CachedPartition<V> {
    fn drop(&mut self) {
        self.release_snapshot();
        let (hits, misses, has_missed) = (self.rows.hits, self.rows.misses, self.disk.is_some());
        if let Some(scan) = &self.access.scan
            && has_missed
        {
            scan.has_missed.set(true);
        }
        self.access.cache.count(|metrics| {
            metrics.row_hits += hits;
            metrics.row_misses += misses;
            if has_missed {
                metrics.reads_with_misses += 1
            } else {
                metrics.reads_without_misses += 1
            }
        });
    }
}

impl<V: CacheView> UnfilteredStream for CachedPartition<V> {
    type Error = V::Error;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, V::Error> {
        while self.buffer.is_empty() && !self.is_done() {
            maybe_yield().await;
            if self.gap.is_some() { Box::pin(self.read_gap()).await? } else { self.fill()? }
        }
        Ok(self.buffer.pop_front())
    }

    fn maximum_timestamp(&self) -> i64 {
        // All data of the cache is from the SSTables, of which the view returns the greatest
        // timestamp.
        self.view.maximum_timestamp()
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), V::Error> {
        let comparator = self.view.table().comparator();
        let direction = self.view.direction();
        self.buffer.retain(|fragment| !fragment.is_row_before(position, comparator, direction));
        let mut target = Vec::new();
        path::put_bound(comparator, position, &mut target);
        // The files skip when the next gap is read, from the position reached, which stays within
        // the slice.
        let Some(mut range) = self.range.take() else { return Ok(()) };
        if is_behind(direction, &target, &range.at) {
            let is_beyond = is_behind(direction, &target, &range.far);
            range.at = if is_beyond { range.far.clone() } else { target };
            // The gap may end before the new position, so the next fill looks for it again.
            self.gap = None;
        }
        self.range = Some(range);
        Ok(())
    }
}
