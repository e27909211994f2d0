//! Ranges of a table in which no row is visible, as reads have found them: a read that comes into one goes on behind it.
//!
//! A queue that was worked off, or a table whose rows were all deleted, is full of tombstones in memtables and of what they cover in files. To walk
//! them takes a second for each million, and whoever looks for the first row walks all of them. So who has walked a run of them leaves a
//! note from where to where it reached (decision 0024).
//!
//! | module | what it does |
//! | --- | --- |
//! | `place` | places among all rows of a table |
//! | `walk` | what a read learns |
//! | `known` | what a read of a partition is told |
//! | `ranges` | the list of them |
//! | `wanted` | where to look for more |
//! | `follow` | ranges grow when the row behind them is deleted |
//!
//! **Invariant.** No read that begins now sees a row in a range, if its clock is not behind that of who found it. It does not matter where the
//! tombstones lie: flushes and compactions change nothing. A write of anything but tombstones takes its row out of the range that it falls
//! into, in the moment when it is applied. What comes otherwise (imports, truncations that are undone, other columns) forgets all ranges.
//!
//! **Learning.** A read knows the table as it was when it looked, and others write meanwhile. So while anybody learns, all rows that are
//! written are noted, and are taken out of what is learned in the end. The row that ends what is learned may be deleted meanwhile, too: where
//! there were deletions, it is looked at again.
//!
//! **Memory bound.** [`MOST_RANGES`](ranges::MOST_RANGES) ranges and [`MOST_NOTED`] rows for each table and shard, two keys each, and twice as many
//! places as ranges where to look, a key each.

mod follow;
mod known;
mod place;
mod ranges;
mod walk;
mod wanted;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use espalier_mutation::{
    DecoratedKeyRef, KeyBound, PartitionUpdate, RowContent, schema::TableMetadata,
};
use espalier_runtime::sync::Notify;

pub(crate) use follow::run as run_follower;
pub(crate) use known::DeadAtOpening;
pub(crate) use place::Place;
pub(crate) use walk::DeadWalk;

use place::path_of;
use ranges::RangeList;
use wanted::Wanted;

use crate::{
    memtable::{is_dead, path},
    read::ReadPosition,
};

/// Rows that were written while somebody learned. If there are more, what was learned meanwhile is lost.
const MOST_NOTED: usize = 1024;

/// Rows deleted after which the beginnings of their partition and of the table are looked at.
const DELETIONS_BEFORE_LOOK: u64 = 8192;

/// The ranges of a table on a shard.
pub(crate) struct DeadRanges {
    /// Runs of fewer dropped fragments are walked.
    fewest_dropped: u64,
    /// Writes of rows that are not dead, so far.
    live_writes: Cell<u64>,
    /// Deletions so far.
    deletions: Cell<u64>,
    /// Times that a read passed over one.
    passes: Cell<u64>,
    /// Pages that ended among dead rows.
    cut_pages: Cell<u64>,
    /// Notified when there is more to be learned.
    followed: Notify,
    /// Nothing is known, and nobody learns.
    is_idle: Cell<bool>,
    /// Times that data came otherwise than by a write.
    changes: Cell<u64>,
    /// Memtables that took writes so far.
    memtables: Cell<u64>,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Reads keep the list as it was when they began.
    ranges: RangeList,
    learners: usize,
    /// Where rows were written while somebody learned: their number among `live_writes`, and the places around them.
    noted: Vec<(u64, Place, Place)>,
    /// Who began to learn before so many live writes has missed some.
    lost_before: u64,
    wanted: Wanted,
}

/// The ranges for one read, with what the table was when its view was taken.
#[derive(Clone)]
pub(crate) struct DeadAccess {
    ranges: Rc<DeadRanges>,
    changes: u64,
    memtables: u64,
    /// Who reads a range of partitions only to learn stops after so many dead fragments.
    most_walked: Option<u64>,
}

impl DeadAccess {
    /// Whether all that is written now is in the view of the read.
    fn is_current(&self) -> bool {
        self.is_of_same_data() && self.memtables == self.ranges.memtables.get()
    }

    /// Where a read goes on that has come to `place`, if that is in a range, and what it took to find that.
    #[inline]
    pub(crate) fn beyond(&self, bound: &KeyBound, now_s: u32) -> Option<(Place, u64)> {
        if self.ranges.is_idle.get() || !self.is_of_same_data() {
            return None;
        }
        self.ranges.beyond(&Place::start(bound), now_s)
    }

    /// A page of the read ends among dead rows. Who asked for it asks on at once: somebody walks ahead, if nothing else is wanted, and does not rest.
    pub(crate) fn note_cut_page(&self, table: &TableMetadata, end: &ReadPosition) {
        let ranges = &self.ranges;
        ranges.cut_pages.set(ranges.cut_pages.get() + 1);
        // One place is enough to be ahead of who reads; where rows were just deleted it is wanted already.
        if ranges.inner.borrow().wanted.is_empty() {
            let partition = path_of(end.key.borrowed());
            ranges.want(match &end.clustering {
                Some(clustering) => Place::around(table, &partition, &clustering.values).1,
                None => Place::behind_partition(&partition),
            });
        }
    }

    fn is_of_same_data(&self) -> bool {
        self.changes == self.ranges.changes.get()
    }
}

impl DeadRanges {
    /// None are known. Runs of at least `fewest_dropped` fragments are worth a range. Who waits for `followed` is told that there is more to be learned.
    pub(crate) fn new(fewest_dropped: u32, followed: Notify) -> Self {
        Self {
            fewest_dropped: u64::from(fewest_dropped.max(1)),
            live_writes: Cell::new(0),
            deletions: Cell::new(0),
            passes: Cell::new(0),
            cut_pages: Cell::new(0),
            followed,
            is_idle: Cell::new(true),
            changes: Cell::new(0),
            memtables: Cell::new(0),
            inner: RefCell::default(),
        }
    }

    /// For a read whose view is taken in the same moment.
    pub(crate) fn access(self: &Rc<Self>) -> DeadAccess {
        let (changes, memtables) = (self.changes.get(), self.memtables.get());
        DeadAccess { ranges: self.clone(), changes, memtables, most_walked: None }
    }

    /// Another memtable takes writes.
    pub(crate) fn begin_memtable(&self) {
        self.memtables.set(self.memtables.get() + 1);
    }

    /// Forgets all: there may be rows that nobody wrote here.
    pub(crate) fn forget(&self) {
        self.changes.set(self.changes.get() + 1);
        self.inner.borrow_mut().ranges = RangeList::default();
        self.settle();
    }

    /// The memtables that took writes so far, and all writes of rows and deletions.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.memtables.get(), self.live_writes.get() + self.deletions.get())
    }

    /// How many there are, and how often reads passed over one.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.inner.borrow().ranges.len(), self.passes.get())
    }

    /// Pages that ended among dead rows so far.
    fn cut_pages(&self) -> u64 {
        self.cut_pages.get()
    }

    fn count_pass(&self) {
        self.passes.set(self.passes.get() + 1);
    }

    /// The end of the range that a place is in, at second `now_s`.
    fn beyond(&self, place: &Place, now_s: u32) -> Option<(Place, u64)> {
        let inner = self.inner.borrow();
        let range = inner.ranges.at(place.path(), now_s)?;
        self.count_pass();
        Some((range.end.clone(), range.weight))
    }

    /// From now on all writes are noted.
    fn begin_learning(&self) {
        self.inner.borrow_mut().learners += 1;
        self.settle();
    }

    fn end_learning(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.learners -= 1;
        if inner.learners == 0 {
            inner.noted.clear();
        }
        drop(inner);
        self.settle();
    }

    fn settle(&self) {
        let inner = self.inner.borrow();
        self.is_idle.set(inner.ranges.is_empty() && inner.learners == 0);
    }

    /// Takes note of a write of one row that is about to be applied.
    #[inline]
    pub(crate) fn note_row<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &impl RowContent,
        packed: &[u8],
    ) {
        // A row that was deleted and written again in one is alive.
        let is_dead = !row.deletion().is_live() && is_dead(packed);
        if !(self.is_idle.get() && self.count_only(u64::from(!is_dead), u64::from(is_dead))) {
            self.note_row_at(table, key, clustering, is_dead);
        }
    }

    /// Counts writes where nothing else is to be done with them; `false`: there is, and they are not counted.
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
    fn note_row_at<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        is_dead: bool,
    ) {
        let partition = path_of(key);
        let (before, behind) = Place::around(table, &partition, clustering);
        if !is_dead {
            self.note_live(before, behind);
            return;
        }
        self.note_deletion(before, behind, &partition);
        if !table.clustering_columns().is_empty()
            && self.inner.borrow_mut().wanted.is_much_deleted(&partition)
        {
            self.want(Place::within(&partition, &[path::BOTTOM]));
        }
    }

    /// The same of an update; `packed` gives the packed form of the static row, if there is one, and of the rows, counted together.
    pub(crate) fn note_update<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        packed: impl Fn(usize) -> &'p [u8],
    ) {
        if self.is_idle.get() {
            let rows = usize::from(update.static_row.is_some()) + update.rows.len();
            let dead = (0..rows).filter(|row| is_dead(packed(*row))).count();
            let wide = usize::from(!update.deletion.is_live()) + update.range_tombstones.len();
            if self.count_only((rows - dead) as u64, (dead + wide) as u64) {
                return;
            }
        }
        let partition = path_of(update.key.borrowed());
        if !update.deletion.is_live() {
            let (before, behind) = Place::around_partition(&partition);
            self.note_deletion(before, behind, &partition);
        }
        for tombstone in &update.range_tombstones {
            let at = |bound| {
                let mut path = Vec::new();
                path::put_bound(table.comparator(), bound, &mut path);
                Place::within(&partition, &path)
            };
            self.note_deletion(at(&tombstone.start), at(&tombstone.end), &partition);
        }
        let mut index = 0;
        if update.static_row.is_some() {
            let (before, behind) = Place::around_static_row(&partition);
            match is_dead(packed(0)) {
                // A range ends in front of the partition where this is what it met.
                true => {
                    self.note_deletion(Place::before_partition(&partition), behind, &partition);
                }
                false => self.note_live(before, behind),
            }
            index = 1;
        }
        for row in &update.rows {
            let values = &row.clustering.values;
            let is_dead = is_dead(packed(index));
            index += 1;
            self.note_row_at(table, update.key.borrowed(), values, is_dead);
        }
    }

    /// Something that may be visible is written between two places.
    fn note_live(&self, before: Place, behind: Place) {
        let number = self.live_writes.get() + 1;
        self.live_writes.set(number);
        if self.is_idle.get() {
            return;
        }
        let mut inner = self.inner.borrow_mut();
        inner.ranges.take_out(&before, &behind);
        if inner.learners > 0 {
            if inner.noted.len() == MOST_NOTED {
                inner.noted.clear();
                inner.lost_before = number;
            }
            inner.noted.push((number, before, behind));
        }
    }

    /// What is between two places in a partition is deleted: it may be what kept a range from being longer.
    fn note_deletion(&self, before: Place, behind: Place, partition: &[u8]) {
        let count = self.deletions.get() + 1;
        self.deletions.set(count);
        let start = self.inner.borrow().ranges.start_of_end_within(&before, &behind);
        if let Some(start) = start {
            self.want(start);
        }
        if count.is_multiple_of(DELETIONS_BEFORE_LOOK) {
            self.want(Place::start(&KeyBound::Unbounded));
            self.want(Place::within(partition, &[path::BOTTOM]));
        }
    }

    /// Somebody is to look from there on.
    fn want(&self, place: Place) {
        if self.inner.borrow_mut().wanted.add(place) {
            self.followed.notify_one();
        }
    }

    /// Somebody is to look on from a place that was reached at second `now_s`: from the start of what is known in front of it, so that ranges
    /// are joined; if what was learned is lost, from there.
    fn want_on(&self, at: Place, now_s: u32) {
        let start = self.inner.borrow().ranges.start_of_end_at(&at, now_s);
        self.want(start.unwrap_or(at));
    }

    /// Whether there is more to be learned.
    fn is_wanted(&self) -> bool {
        !self.inner.borrow().wanted.is_empty()
    }

    /// Where to look for more, in turn.
    fn next_wanted(&self) -> Option<Place> {
        self.inner.borrow_mut().wanted.take()
    }

    /// Adds what somebody learned who has seen all but the live writes after the first `since`, less the rows written since. If there were more deletions
    /// than `deletions`, the row that ends it may not be there any more, and nobody knew of a range that ended there.
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
        // The lightest go where there are many.
        has_grown &= inner.ranges.at(from.path(), u32::MAX).is_some();
        drop(inner);
        self.settle();
        if has_grown && self.deletions.get() != deletions {
            self.want(from);
        }
    }
}
