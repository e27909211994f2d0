//! The recorder is a read's access to the empty-range cache: it returns the known ranges, and
//! records each run of dead rows that the read meets. It may be off.
//!
//! Usually visible rows follow one another, and then the recorder costs one comparison a row:
//! places are built only after a fragment was dropped.

use espalier_mutation::{
    Clustering, ClusteringBound, ClusteringSlices, DecoratedKey, Direction, KeyBound, path,
    reconcile::KnownEmpty,
};

use super::{EmptyRangeAccess, Place, Step, place::path_of};
use crate::ReadCommand;

/// A recorder of runs of dead rows during a read. The read goes forward over partitions, or in
/// either direction within one partition.
pub(crate) struct EmptyRangeRecorder<'a> {
    /// `None` if the recorder is off.
    access: Option<&'a EmptyRangeAccess>,
    command: &'a ReadCommand,
    /// The ranges of the present partition, as they were when its sources were opened.
    known: Option<Box<dyn KnownEmpty>>,
    start: Start,
    /// Fragments dropped since the run began, including the weights of the ranges passed.
    dropped: u64,
    /// All fragments that this read itself has dropped. The weights of the ranges that it passed do
    /// not count.
    walked: u64,
    /// The read has seen those of the first `since` live writes whose rows are in the run.
    since: u64,
    /// The number of live writes when the present partition was opened.
    opened: u64,
    /// The number of deletions when the read began.
    deletions: u64,
    /// True if the read is of one partition.
    is_within: bool,
    /// True if live writes are noted for this recorder.
    is_registered: bool,
    /// Set if the recorder missed live writes of the present run. The recorder then records nothing
    /// in the present partition.
    is_blind: bool,
    /// Set if nothing more can be recorded.
    is_over: bool,
}

/// The start of the present run.
enum Start {
    /// The run begins with the next partition.
    Unknown,
    /// In front of the present partition.
    Partition,
    /// Behind the row that was returned last.
    Row,
    At(Place),
}

impl<'a> EmptyRangeRecorder<'a> {
    /// Creates a recorder that is off.
    pub(crate) fn off(command: &'a ReadCommand) -> Self {
        Self::new(None, command)
    }

    /// Creates a recorder of a read over partitions from a bound on.
    pub(crate) fn over_partitions(
        access: Option<&'a EmptyRangeAccess>,
        command: &'a ReadCommand,
        start: &KeyBound,
    ) -> Self {
        let mut recorder = Self::new(access, command);
        recorder.start = Start::At(Place::start(start));
        recorder.is_over |= !Self::records_for(command);
        recorder
    }

    /// Returns whether a read over partitions can record: it must read whole partitions forward.
    pub(crate) fn records_for(command: &ReadCommand) -> bool {
        command.slices.is_all() && command.direction == Direction::Forward
    }

    /// Creates a recorder of a read of a slice of one partition. The caller opens the sources of
    /// the partition at the same moment.
    pub(crate) fn within(
        access: Option<&'a EmptyRangeAccess>,
        command: &'a ReadCommand,
        key: &DecoratedKey,
        slices: &ClusteringSlices,
    ) -> Self {
        let mut recorder = Self::new(access, command);
        recorder.is_within = true;
        match recorder.open(key) {
            Some(count) => (recorder.since, recorder.opened) = (count, count),
            None => recorder.is_over = true,
        }
        match slices.slices.as_slice() {
            [slice] if !command.table.clustering_columns().is_empty() => {
                let near = command.direction.order(&slice.start, &slice.end).0;
                let mut bound = Vec::new();
                path::put_bound(command.table.comparator(), near, &mut bound);
                recorder.start = Start::At(Place::within(&path_of(key.borrowed()), &bound));
            }
            _ => recorder.is_over = true,
        }
        recorder
    }

    fn new(access: Option<&'a EmptyRangeAccess>, command: &'a ReadCommand) -> Self {
        let since = access.map_or(0, |access| access.ranges.live_writes.get());
        // A step mostly drops all its fragments before it calls the recorder again. A live write
        // during the step would make the recorder blind, so the recorder of a step registers at the
        // beginning.
        let is_step = access.is_some_and(|access| access.step.is_some());
        if let Some(access) = access.filter(|_| is_step) {
            access.ranges.begin_recording();
        }
        Self {
            access,
            command,
            known: None,
            start: Start::Unknown,
            dropped: 0,
            walked: 0,
            since,
            opened: since,
            deletions: access.map_or(0, |access| access.ranges.deletions.get()),
            is_within: false,
            is_registered: is_step,
            is_blind: false,
            is_over: access.is_none_or(|access| !access.shows_all_writes()),
        }
    }

    /// Returns whether the read only records: it is a step of the prefetcher.
    pub(crate) fn is_step(&self) -> bool {
        self.step().is_some()
    }

    /// Returns the bounds of the step, if the read is one.
    fn step(&self) -> Option<&'a Step> {
        self.access?.step.as_deref()
    }

    /// Returns whether a read that only records should stop: it dropped as many fragments as one
    /// step may (ranges passed do not count), or its view allows no more recording.
    pub(crate) fn has_walked_enough(&self) -> bool {
        self.step().is_some_and(|step| self.is_over || self.walked >= step.max_walked)
    }

    /// Returns the number of fragments that the read may still drop before it stops; see
    /// [`Self::has_walked_enough`].
    pub(crate) fn left_to_walk(&self) -> u64 {
        self.step().map_or(u64::MAX, |step| step.max_walked.saturating_sub(self.walked))
    }

    /// Takes the known ranges of a partition. Returns the number of live writes so far, if the
    /// sources show all of them.
    #[inline]
    fn open(&mut self, key: &DecoratedKey) -> Option<u64> {
        let (known, live_writes) = self.access?.at_opening(self.command, key);
        self.known = known;
        live_writes
    }

    /// Returns the known ranges of the present partition.
    pub(crate) fn take_known(&mut self) -> Option<Box<dyn KnownEmpty>> {
        self.known.take()
    }

    /// Returns the end of the range that contains `bound`, and the range's weight. `None` if no
    /// range contains it.
    #[inline]
    pub(crate) fn beyond(&self, bound: &KeyBound) -> Option<(Place, u64)> {
        self.access?.beyond(bound, self.command.now_s)
    }

    /// Enters the next partition. There is no partition between the previous one and this one. The
    /// caller opens the sources of the partition at the same moment, without a wait in between.
    #[inline]
    pub(crate) fn enter(&mut self, key: &DecoratedKey) {
        let live_writes = self.open(key);
        if self.is_over {
            return;
        }
        let Some(live_writes) = live_writes else {
            // The view does not show writes from here on.
            self.end_run(&Place::before_partition(&path_of(key.borrowed())));
            self.is_over = true;
            return;
        };
        self.opened = live_writes;
        self.is_blind = false;
        if !matches!(self.start, Start::At(_)) {
            self.start = Start::Partition;
            self.since = self.opened;
        }
    }

    /// Counts a known range that the read has skipped, with this weight, in the present run.
    pub(crate) fn pass_range(&mut self, weight: u64) {
        if matches!(self.start, Start::At(_)) {
            self.count(weight);
        } else {
            self.start = Start::Unknown;
        }
    }

    /// Counts fragments dropped in a partition since its row `last`.
    pub(crate) fn pass_empty(&mut self, count: u64, key: &DecoratedKey, last: Option<&Clustering>) {
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
        let Some(EmptyRangeAccess { ranges, .. }) = self.access else { return };
        if self.is_over || self.is_registered || self.dropped < ranges.min_dropped {
            return;
        }
        // Live writes since the start of the run were not noted, so the run is dropped if there
        // were any.
        if self.since != ranges.live_writes.get() {
            self.start = Start::Unknown;
            self.dropped = 0;
            self.is_blind = true;
        }
        self.is_registered = true;
        ranges.begin_recording();
    }

    /// Ends the run at a visible static row of the partition.
    pub(crate) fn meet_static_row(&mut self, key: &DecoratedKey) {
        if self.is_over || self.is_within {
            return;
        }
        let partition = path_of(key.borrowed());
        self.end_run(&Place::before_partition(&partition));
        self.begin_run(Start::At(Place::within(&partition, &[path::BOTTOM])));
    }

    /// Returns whether fragments were dropped since the last visible row, so that the place of the
    /// next one matters.
    #[inline]
    pub(crate) fn is_in_run(&self) -> bool {
        self.dropped > 0
    }

    /// Records a visible row before which nothing was dropped.
    #[inline]
    pub(crate) fn pass_row(&mut self) {
        self.begin_run(Start::Row);
    }

    /// Ends the run at a visible row.
    #[inline]
    pub(crate) fn meet_row(&mut self, key: &DecoratedKey, clustering: &Clustering) {
        if self.dropped > 0 && !self.is_over {
            let (before, behind) = self.around(key, clustering);
            self.end_run(&self.command.direction.order(before, behind).0);
        }
        self.begin_run(Start::Row);
    }

    /// Ends the run behind a row, which may be dead, because the read ends there.
    pub(crate) fn stop_behind(&mut self, key: &DecoratedKey, clustering: &Clustering) {
        if self.dropped > 0 && !self.is_over {
            let (before, behind) = self.around(key, clustering);
            self.end_run(&self.command.direction.order(before, behind).1);
        }
    }

    /// Ends the run at a bound in a partition, because the step of the prefetcher ends there.
    pub(crate) fn stop_at(&mut self, key: &DecoratedKey, bound: &ClusteringBound) {
        let Some(step) = self.step() else { return };
        let mut rest = Vec::new();
        path::put_bound(self.command.table.comparator(), bound, &mut rest);
        let place = Place::within(&path_of(key.borrowed()), &rest);
        if self.dropped > 0 && !self.is_over {
            self.end_run(&place);
        }
        *step.stopped_at.borrow_mut() = Some(place);
    }

    #[inline]
    fn begin_run(&mut self, start: Start) {
        self.start = if self.is_blind { Start::Unknown } else { start };
        self.since = self.opened;
    }

    /// Leaves the partition, at its end or before it.
    pub(crate) fn leave(&mut self, is_at_end: bool) {
        if !is_at_end || !matches!(self.start, Start::At(_)) {
            self.start = Start::Unknown;
            self.dropped = 0;
        }
    }

    /// Ends the run at the far bound of the partition's slice, unless the run has ended before.
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

    /// Ends the run at a bound up to which there is nothing more.
    pub(crate) fn end_at(&mut self, bound: &KeyBound) {
        if !self.is_over {
            self.end_run(&Place::end(bound));
        }
    }

    /// Returns the places around a row.
    fn around(&self, key: &DecoratedKey, clustering: &Clustering) -> (Place, Place) {
        Place::around(&self.command.table, &path_of(key.borrowed()), &clustering.values)
    }

    fn end_run(&mut self, end: &Place) {
        let dropped = std::mem::take(&mut self.dropped);
        let start = std::mem::replace(&mut self.start, Start::Unknown);
        if let Start::At(start) = start
            && let Some(access) = self.access.filter(|_| self.is_registered)
            && dropped >= access.ranges.min_dropped
            && access.is_of_same_data()
        {
            let (start, end) = self.command.direction.order(start, end.clone());
            access.ranges.add(start, end, dropped, self.command.now_s, self.since, self.deletions);
        }
    }
}

impl Drop for EmptyRangeRecorder<'_> {
    fn drop(&mut self) {
        if let Some(access) = self.access.filter(|_| self.is_registered) {
            access.ranges.end_recording();
        }
    }
}
