//! The empty-range cache: ranges of a table in which reads have found no visible row. A read that
//! comes into such a range skips to its end.
//!
//! A queue whose items were all consumed, or a table whose rows were all deleted, is full of
//! tombstones in memtables and of the rows they cover in files. A walk takes a second for each
//! million of these, and each read of the first row would walk all of them. So a read that has
//! walked a run of dead rows records the range (docs/decisions/0024-empty-ranges.md).
//!
//! | module | what it does |
//! | --- | --- |
//! | `place` | positions among all rows of a table |
//! | `recorder` | the recorder: finds empty ranges during a read |
//! | `lookup` | shows the empty ranges to a read of one partition |
//! | `ranges` | the list of empty ranges |
//! | `queue` | the queue of places to be walked in the background |
//!
//! The prefetcher (`engine::prefetch`) extends ranges when the row behind them is deleted.
//!
//! **Invariant.** A read that begins after a range was recorded sees no row in it, unless the
//! read's clock is behind that of the recording read. It does not matter where the tombstones are:
//! flushes and compactions change nothing. A write of anything but tombstones removes the position
//! of its row from the range when the write is applied. Data that comes in another way (import, an
//! undone truncation, other columns) clears the cache.
//!
//! **Recording.** A read sees the table as of the moment when it took its view, and other writes
//! continue meanwhile. So while any recorder is active, the cache notes all live rows that are
//! written, and cuts their positions out of the range that is recorded in the end. The recorder of
//! a step of the prefetcher is active from its beginning. Other reads rarely meet dead rows, so
//! their recorders become active only when a run is long enough to be recorded. If a row was
//! written between the start of the run and that moment, the recorder drops the run. The row that
//! ends the range may be deleted meanwhile, too. So if there were deletions, the range is queued
//! for another walk.
//!
//! **Memory bound.** For each table and shard, [`MAX_RANGES`](ranges::MAX_RANGES) ranges and
//! [`MAX_RECORDED`] noted rows, of two keys each. The queue has up to twice as many entries as the
//! list of ranges, of one key each, and 16 KiB of counters.

mod lookup;
mod place;
mod queue;
mod ranges;
mod recorder;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use espalier_memtable::is_dead;
use espalier_mutation::{
    DecoratedKeyRef, KeyBound, PartitionUpdate, RowContent, path, schema::TableMetadata,
};
use espalier_runtime::sync::Notify;

pub(crate) use place::Place;
pub(crate) use recorder::EmptyRangeRecorder;

use place::path_of;
use queue::Queue;
use ranges::RangeList;

use crate::ReadPosition;

/// The maximum number of rows noted while recorders are active. If more are written, the findings
/// of these recorders are dropped.
const MAX_RECORDED: usize = 1024;

/// At each multiple of this number of deletions in a table, the beginnings of the table and of the
/// partition of the last deletion are queued.
const DELETIONS_BEFORE_LOOK: u64 = 8192;

/// The empty ranges of a table on a shard.
pub(crate) struct EmptyRanges {
    /// The minimum length of a recorded run, in dropped fragments; shorter runs are walked.
    min_dropped: u64,
    /// The number of writes so far of rows that are not dead.
    live_writes: Cell<u64>,
    /// The number of deletions so far.
    deletions: Cell<u64>,
    /// The number of times that a read skipped a range.
    passes: Cell<u64>,
    /// The number of pages that ended among dead rows.
    cut_pages: Cell<u64>,
    /// Wakes the prefetcher when the queue gets an entry.
    prefetched: Notify,
    /// Set while there are no ranges and no active recorders.
    is_idle: Cell<bool>,
    /// The number of times that data came in another way than by a write.
    changes: Cell<u64>,
    /// The number of times that a new memtable has begun to take writes.
    memtables: Cell<u64>,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Reads keep the list as it was when they began.
    ranges: RangeList,
    recorders: usize,
    /// Rows written while recorders are active: their number among `live_writes`, and the places
    /// around them.
    noted: Vec<(u64, Place, Place)>,
    /// A recorder that began before the live write with this number has missed live writes.
    lost_before: u64,
    queue: Queue,
}

/// The empty ranges for one read, with the state of the table when the read took its view.
#[derive(Clone)]
pub(crate) struct EmptyRangeAccess {
    ranges: Rc<EmptyRanges>,
    changes: u64,
    memtables: u64,
    /// The bounds of a step of the prefetcher; `None` for other reads.
    pub(crate) step: Option<Box<Step>>,
}

/// The bounds of a step of the prefetcher: a read that only records.
#[derive(Clone)]
pub(crate) struct Step {
    /// The step ends after this many dead fragments.
    pub(crate) max_walked: u64,
    /// The bound of a range deletion at which the step ended.
    pub(crate) stopped_at: RefCell<Option<Place>>,
}

impl EmptyRangeAccess {
    /// Returns the place at which the read ended early; `None` if it came to its end. `next` is the
    /// position in its result.
    pub(crate) fn reached(
        &self,
        table: &TableMetadata,
        next: Option<&ReadPosition>,
    ) -> Option<Place> {
        let stopped_at = self.step.as_ref().and_then(|step| step.stopped_at.take());
        stopped_at.or_else(|| next.map(|next| Place::behind(table, next)))
    }

    /// Returns whether the read's view shows all present writes: no data came in another way, and
    /// no new memtable takes writes.
    pub(crate) fn shows_all_writes(&self) -> bool {
        self.is_of_same_data() && self.memtables == self.ranges.memtables.get()
    }

    /// Returns the end of the range that contains `bound`, and the range's weight. `None` if no
    /// range contains it.
    #[inline]
    fn beyond(&self, bound: &KeyBound, now_s: u32) -> Option<(Place, u64)> {
        if self.ranges.is_idle.get() || !self.is_of_same_data() {
            return None;
        }
        self.ranges.beyond(&Place::start(bound), now_s)
    }

    /// Records that a page of the read ended among dead rows. The client mostly asks for the next
    /// page at once, so the end of the page is queued if the queue is empty, and the prefetcher
    /// gets more of the core.
    pub(crate) fn record_cut_page(&self, table: &TableMetadata, end: &ReadPosition) {
        let ranges = &self.ranges;
        ranges.cut_pages.set(ranges.cut_pages.get() + 1);
        // One queued place suffices to stay ahead of the client; places where rows were just
        // deleted are queued already.
        if ranges.inner.borrow().queue.is_empty() {
            ranges.queue_place(Place::behind(table, end));
        }
    }

    fn is_of_same_data(&self) -> bool {
        self.changes == self.ranges.changes.get()
    }
}

impl EmptyRanges {
    /// Creates an empty cache. Runs of at least `min_dropped` fragments are recorded. `prefetched`
    /// wakes the prefetcher.
    pub(crate) fn new(min_dropped: u32, prefetched: Notify) -> Self {
        Self {
            min_dropped: u64::from(min_dropped.max(1)),
            live_writes: Cell::new(0),
            deletions: Cell::new(0),
            passes: Cell::new(0),
            cut_pages: Cell::new(0),
            prefetched,
            is_idle: Cell::new(true),
            changes: Cell::new(0),
            memtables: Cell::new(0),
            inner: RefCell::default(),
        }
    }

    /// Returns the access for a read that takes its view at the same moment.
    pub(crate) fn access(self: &Rc<Self>) -> EmptyRangeAccess {
        let (changes, memtables) = (self.changes.get(), self.memtables.get());
        EmptyRangeAccess { ranges: self.clone(), changes, memtables, step: None }
    }

    /// Records that a new memtable takes writes.
    pub(crate) fn begin_memtable(&self) {
        self.memtables.set(self.memtables.get() + 1);
    }

    /// Forgets all ranges, because the table may have rows that were not written here.
    pub(crate) fn forget(&self) {
        self.changes.set(self.changes.get() + 1);
        self.inner.borrow_mut().ranges = RangeList::default();
        self.settle();
    }

    /// Returns the number of memtable switches, and the number of all writes of rows and deletions.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.memtables.get(), self.live_writes.get() + self.deletions.get())
    }

    /// Returns the number of ranges, and the number of times that reads skipped one.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.inner.borrow().ranges.len(), self.passes.get())
    }

    /// Returns the number of pages that ended among dead rows.
    pub(crate) fn cut_pages(&self) -> u64 {
        self.cut_pages.get()
    }

    fn count_pass(&self) {
        self.passes.set(self.passes.get() + 1);
    }

    /// Returns the end and the weight of the range that contains a place at second `now_s`.
    fn beyond(&self, place: &Place, now_s: u32) -> Option<(Place, u64)> {
        let inner = self.inner.borrow();
        let range = inner.ranges.at(place.path(), now_s)?;
        self.count_pass();
        Some((range.end.clone(), range.weight))
    }

    /// Starts a recorder: from here on all live writes are noted.
    fn begin_recording(&self) {
        self.inner.borrow_mut().recorders += 1;
        self.settle();
    }

    fn end_recording(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.recorders -= 1;
        if inner.recorders == 0 {
            inner.noted.clear();
        }
        drop(inner);
        self.settle();
    }

    fn settle(&self) {
        let inner = self.inner.borrow();
        self.is_idle.set(inner.ranges.is_empty() && inner.recorders == 0);
    }

    /// Records a write of one row that is about to be applied.
    #[inline]
    pub(crate) fn record_row<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &impl RowContent,
        packed: &[u8],
    ) {
        // A row that one write deletes and writes again is not dead.
        let is_dead = !row.deletion().is_live() && is_dead(packed);
        if !(self.is_idle.get() && self.count_only(u64::from(!is_dead), u64::from(is_dead))) {
            self.record_row_at(table, key, clustering, is_dead);
        }
    }

    /// Counts writes if nothing else has to be done with them. Returns `false`, without counting,
    /// if there is more to do.
    #[inline]
    fn count_only(&self, live: u64, deletions: u64) -> bool {
        let before = self.deletions.get();
        let after = before + deletions;
        if before / DELETIONS_BEFORE_LOOK != after / DELETIONS_BEFORE_LOOK {
            return false;
        }
        self.live_writes.set(self.live_writes.get() + live);
        self.deletions.set(after);
        true
    }

    #[cold]
    fn record_row_at<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        is_dead: bool,
    ) {
        let partition = path_of(key);
        let (before, behind) = Place::around(table, &partition, clustering);
        if !is_dead {
            self.record_live(before, behind);
            return;
        }
        self.record_deletion(before, behind, &partition);
        if !table.clustering_columns().is_empty()
            && self.inner.borrow_mut().queue.is_much_deleted(&partition)
        {
            self.queue_place(Place::within(&partition, &[path::BOTTOM]));
        }
    }

    /// Records an update that is about to be applied. `packed` returns the packed form of a row by
    /// its number. The static row, if there is one, comes before the other rows.
    pub(crate) fn record_update<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        packed: impl Fn(usize) -> &'p [u8],
    ) {
        if self.is_idle.get() {
            let rows = usize::from(update.static_row.is_some()) + update.rows.len();
            let empty = (0..rows).filter(|row| is_dead(packed(*row))).count();
            let wide = usize::from(!update.deletion.is_live()) + update.range_tombstones.len();
            if self.count_only((rows - empty) as u64, (empty + wide) as u64) {
                return;
            }
        }
        let partition = path_of(update.key.borrowed());
        if !update.deletion.is_live() {
            let (before, behind) = Place::around_partition(&partition);
            self.record_deletion(before, behind, &partition);
        }
        for tombstone in &update.range_tombstones {
            let at = |bound| {
                let mut path = Vec::new();
                path::put_bound(table.comparator(), bound, &mut path);
                Place::within(&partition, &path)
            };
            self.record_deletion(at(&tombstone.start), at(&tombstone.end), &partition);
        }
        if update.static_row.is_some() {
            let (before, behind) = Place::around_static_row(&partition);
            if is_dead(packed(0)) {
                // A range that ended at the visible static row ends in front of the partition.
                self.record_deletion(Place::before_partition(&partition), behind, &partition);
            } else {
                self.record_live(before, behind)
            }
        }
        let first = usize::from(update.static_row.is_some());
        for (index, row) in (first..).zip(&update.rows) {
            let (values, is_dead) = (&row.clustering.values, is_dead(packed(index)));
            self.record_row_at(table, update.key.borrowed(), values, is_dead);
        }
    }

    /// Records a write between two places that may be visible.
    fn record_live(&self, before: Place, behind: Place) {
        let number = self.live_writes.get() + 1;
        self.live_writes.set(number);
        if self.is_idle.get() {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        inner.ranges.take_out(&before, &behind);
        if inner.recorders > 0 {
            if inner.noted.len() == MAX_RECORDED {
                inner.noted.clear();
                inner.lost_before = number;
            }
            inner.noted.push((number, before, behind));
        }
    }

    /// Records a deletion between two places of a partition. If an empty range ends there, the
    /// deleted row may have bounded it, and the range may grow. So the start of the range is
    /// queued.
    fn record_deletion(&self, before: Place, behind: Place, partition: &[u8]) {
        let count = self.deletions.get() + 1;
        self.deletions.set(count);
        let start = self.inner.borrow().ranges.start_of_end_within(&before, &behind);
        if let Some(start) = start {
            self.queue_place(start);
        }
        if count.is_multiple_of(DELETIONS_BEFORE_LOOK) {
            self.queue_place(Place::start(&KeyBound::Unbounded));
            self.queue_place(Place::within(partition, &[path::BOTTOM]));
        }
    }

    /// Queues a place for the prefetcher.
    pub(crate) fn queue_place(&self, place: Place) {
        if self.inner.borrow_mut().queue.add(place) {
            self.prefetched.notify_one();
        }
    }

    /// Queues the walk that continues from a place reached at second `now_s`. The walk starts at
    /// the beginning of the range that ends there, so that the ranges are joined, or at the place
    /// itself if that range was lost.
    pub(crate) fn queue_from(&self, at: Place, now_s: u32) {
        let start = self.inner.borrow().ranges.start_of_end_at(&at, now_s);
        self.queue_place(start.unwrap_or(at));
    }

    /// Returns whether the queue has entries.
    pub(crate) fn is_queued(&self) -> bool {
        !self.inner.borrow().queue.is_empty()
    }

    pub(crate) fn next_queued(&self) -> Option<Place> {
        self.inner.borrow_mut().queue.take()
    }

    /// Records the range from `start` to `end` as empty. The reader saw the live writes
    /// 1..=`since`; rows written later are cut out of the range. If rows were deleted since the
    /// count was `deletions`, the row behind the range may be among them. Its deletion found no
    /// range that ended there and queued nothing, so the range is queued now for another walk.
    fn add(&self, start: Place, end: Place, weight: u64, as_of_s: u32, since: u64, deletions: u64) {
        let mut inner = self.inner.borrow_mut();
        if since < inner.lost_before || start >= end {
            return;
        }
        let mut written: Vec<(Place, Place)> = inner
            .noted
            .iter()
            .filter(|(number, before, _)| *number > since && *before < end)
            .map(|(_, before, behind)| (before.clone(), behind.clone()))
            .filter(|(_, behind)| *behind > start)
            .collect();
        written.sort();
        let parts = written.len() as u64 + 1;
        let mut from = start;
        for (before, behind) in written {
            if from < before {
                inner.ranges.insert(from.clone(), before, weight / parts, as_of_s);
            }
            from = from.max(behind);
        }
        let mut has_grown =
            from < end && inner.ranges.insert(from.clone(), end, weight / parts, as_of_s);
        // If the list was full, the range may have been dropped as the lightest.
        has_grown &= inner.ranges.at(from.path(), u32::MAX).is_some();
        drop(inner);
        self.settle();
        if has_grown && self.deletions.get() != deletions {
            self.queue_place(from);
        }
    }
}
