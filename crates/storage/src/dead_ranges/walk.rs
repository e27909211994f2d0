//! What a read learns: from where to where it met nothing but dead rows.
//!
//! Most rows follow one another, and cost no more here than a comparison: places are made when something was dropped.

use espalier_mutation::{Clustering, ClusteringSlices, DecoratedKey, Direction, KeyBound};

use super::{DeadAccess, DeadAtOpening, Place, place::path_of};
use crate::{memtable::path, read::ReadCommand};

/// A read that notes runs of dead rows. It goes forward over partitions, and in one of them in either direction.
pub(crate) struct DeadWalk<'a> {
    access: &'a DeadAccess,
    command: &'a ReadCommand,
    start: Start,
    /// Fragments dropped since.
    dropped: u64,
    /// Those that it dropped itself, in all: not what it took others to find the ranges that it passed.
    walked: u64,
    /// The live writes of which it has seen all that are in the run.
    since: u64,
    /// The same for the partition that it is in.
    opened: u64,
    /// The deletions when it began.
    deletions: u64,
    /// It is of one partition.
    is_within: bool,
    /// Writes are noted for it.
    is_registered: bool,
    /// Nothing is learned in this partition: it was opened before writes were noted, and there were some.
    is_blind: bool,
    /// There is nothing more to be learned.
    is_over: bool,
}

/// Where the run began that a walk is in.
enum Start {
    /// It begins with the next partition.
    Unknown,
    /// In front of the partition that the walk is in.
    Partition,
    /// Behind the row that was given last.
    Row,
    At(Place),
}

impl<'a> DeadWalk<'a> {
    /// Over partitions from a bound on.
    pub(crate) fn over_partitions(
        access: &'a DeadAccess,
        command: &'a ReadCommand,
        start: &KeyBound,
    ) -> Self {
        let mut walk = Self::new(access, command);
        walk.start = Start::At(Place::start(start));
        walk.is_over |= !Self::learns_by(command);
        walk
    }

    /// Whether anything is learned over the partitions of a read: of all of them, forward.
    pub(crate) fn learns_by(command: &ReadCommand) -> bool {
        command.slices.is_all() && command.direction == Direction::Forward
    }

    /// Over a slice of a partition.
    pub(crate) fn within(
        access: &'a DeadAccess,
        command: &'a ReadCommand,
        key: &DecoratedKey,
        slices: &ClusteringSlices,
        opening: &DeadAtOpening,
    ) -> Self {
        let mut walk = Self::new(access, command);
        walk.is_within = true;
        match opening.live_writes {
            Some(count) => (walk.since, walk.opened) = (count, count),
            None => walk.is_over = true,
        }
        match slices.slices.as_slice() {
            [slice] if !command.table.clustering_columns().is_empty() => {
                let near = command.direction.order(&slice.start, &slice.end).0;
                let mut bound = Vec::new();
                path::put_bound(command.table.comparator(), near, &mut bound);
                walk.start = Start::At(Place::within(&path_of(key.borrowed()), &bound));
            }
            _ => walk.is_over = true,
        }
        walk
    }

    fn new(access: &'a DeadAccess, command: &'a ReadCommand) -> Self {
        let since = access.ranges.live_writes.get();
        Self {
            access,
            command,
            start: Start::Unknown,
            dropped: 0,
            walked: 0,
            since,
            opened: since,
            deletions: access.ranges.deletions.get(),
            is_within: false,
            is_registered: false,
            is_blind: false,
            is_over: !access.is_current(),
        }
    }

    /// Whether it is of no more use to who reads only to learn: it dropped as many fragments as it may at once, where a known range that it passed
    /// counts nothing, or nothing more is to be learned with the view that it has.
    pub(crate) fn has_walked_enough(&self) -> bool {
        self.access.most_walked.is_some_and(|most| self.is_over || self.walked >= most)
    }

    /// A partition comes next, and nothing is in front of it since the last one.
    #[inline]
    pub(crate) fn enter(&mut self, key: &DecoratedKey, opening: &DeadAtOpening) {
        if self.is_over {
            return;
        }
        let Some(live_writes) = opening.live_writes else {
            // What is written now is not seen any more.
            self.stop_before(key);
            return;
        };
        self.opened = live_writes;
        self.is_blind = false;
        if !matches!(self.start, Start::At(_)) {
            self.start = Start::Partition;
            self.since = self.opened;
        }
    }

    /// A known range was passed, which cost so much when it was found.
    pub(crate) fn pass_range(&mut self, weight: u64) {
        if matches!(self.start, Start::At(_)) {
            self.count(weight);
        } else {
            self.start = Start::Unknown;
        }
    }

    /// So many fragments were dropped in a partition since its row `last`.
    pub(crate) fn pass_dead(&mut self, count: u64, key: &DecoratedKey, last: Option<&Clustering>) {
        self.walked += count;
        if count == 0 || self.is_over {
            return;
        }
        match (&self.start, last) {
            (Start::Partition, _) => {
                self.start = Start::At(Place::before_partition(&path_of(key.borrowed())))
            }
            (Start::Row, Some(last)) => {
                let (before, behind) = self.around(key, last);
                self.start = Start::At(self.command.direction.order(before, behind).1);
            }
            _ => {}
        }
        self.count(count);
    }

    fn count(&mut self, count: u64) {
        self.dropped += count;
        if self.is_over || self.is_registered || self.dropped < self.access.ranges.fewest_dropped {
            return;
        }
        // Nobody noted what was written since the run began: it counts if there was nothing.
        if self.since != self.access.ranges.live_writes.get() {
            self.start = Start::Unknown;
            self.dropped = 0;
            self.is_blind = true;
        }
        self.is_registered = true;
        self.access.ranges.begin_learning();
    }

    /// The partition's static row is visible.
    pub(crate) fn meet_static_row(&mut self, key: &DecoratedKey) {
        if self.is_over || self.is_within {
            return;
        }
        let partition = path_of(key.borrowed());
        self.end_run(&Place::before_partition(&partition));
        self.begin_run(Start::At(Place::within(&partition, &[path::BOTTOM])));
    }

    /// A row is visible.
    #[inline]
    pub(crate) fn meet_row(&mut self, key: &DecoratedKey, clustering: &Clustering) {
        if self.dropped > 0 && !self.is_over {
            let (before, behind) = self.around(key, clustering);
            self.end_run(&self.command.direction.order(before, behind).0);
        }
        self.begin_run(Start::Row);
    }

    /// The read ends behind a row, which may be dead.
    pub(crate) fn stop_behind(&mut self, key: &DecoratedKey, clustering: &Clustering) {
        if self.dropped > 0 && !self.is_over {
            let (before, behind) = self.around(key, clustering);
            self.end_run(&self.command.direction.order(before, behind).1);
        }
    }

    #[inline]
    fn begin_run(&mut self, start: Start) {
        self.start = if self.is_blind { Start::Unknown } else { start };
        self.since = self.opened;
    }

    /// The partition is at its end, or the rest of it is not looked at.
    pub(crate) fn leave(&mut self, is_at_end: bool) {
        if !is_at_end || !matches!(self.start, Start::At(_)) {
            self.start = Start::Unknown;
            self.dropped = 0;
        }
    }

    /// The slice of the partition was walked, to its end unless the walk has left it before.
    pub(crate) fn end_slice(&mut self, key: &DecoratedKey, slices: &ClusteringSlices) {
        if let [slice] = slices.slices.as_slice()
            && self.dropped > 0
            && !self.is_over
        {
            let far = self.command.direction.order(&slice.start, &slice.end).1;
            let mut bound = Vec::new();
            path::put_bound(self.command.table.comparator(), far, &mut bound);
            self.end_run(&Place::within(&path_of(key.borrowed()), &bound));
        }
    }

    /// There is nothing more up to a bound.
    pub(crate) fn end_at(&mut self, bound: &KeyBound) {
        if !self.is_over {
            self.end_run(&Place::end(bound));
        }
    }

    /// Nothing more is learned from this partition on.
    fn stop_before(&mut self, key: &DecoratedKey) {
        if !self.is_over {
            self.end_run(&Place::before_partition(&path_of(key.borrowed())));
            self.is_over = true;
        }
    }

    /// The places around a row.
    fn around(&self, key: &DecoratedKey, clustering: &Clustering) -> (Place, Place) {
        Place::around(&self.command.table, &path_of(key.borrowed()), &clustering.values)
    }

    fn end_run(&mut self, end: &Place) {
        let dropped = std::mem::take(&mut self.dropped);
        let start = std::mem::replace(&mut self.start, Start::Unknown);
        let DeadAccess { ranges, .. } = self.access;
        if let Start::At(start) = start
            && self.is_registered
            && dropped >= ranges.fewest_dropped
            && self.access.is_of_same_data()
        {
            let (start, end) = self.command.direction.order(start, end.clone());
            ranges.add(start, end, dropped, self.command.now_s, self.since, self.deletions);
        }
    }
}

impl Drop for DeadWalk<'_> {
    fn drop(&mut self) {
        if self.is_registered {
            self.access.ranges.end_learning();
        }
    }
}
