//! Tracks the tombstone run that a stream of a partition is in, or that comes next.

use espalier_mutation::Direction;

use super::{
    tombstone_runs::{self, Run},
    walk::View,
};

/// The state of the search for the next run.
#[derive(Default)]
enum KnownRun {
    /// There was no look-up yet.
    #[default]
    Unknown,
    /// No run follows.
    NoRun,
    /// The start and the end of the run, in clustering order.
    At(Run),
}

/// The tombstone run of a walk. It takes one look-up for each run that the walk passes.
#[derive(Default)]
pub(super) struct NextTombstoneRun {
    known: KnownRun,
    /// True if the row that was read last is in the run.
    is_in: bool,
    /// The number of fragments before the run that were read and not returned yet.
    fragments_before: usize,
}

impl NextTombstoneRun {
    /// Records that the walk read a row, with `fragments_before` fragments before it that were not
    /// returned yet.
    #[inline]
    pub(super) fn read(
        &mut self,
        view: &View<'_>,
        direction: Direction,
        row_path: &[u8],
        fragments_before: usize,
    ) {
        let is_behind = |(start, end): &Run| match direction {
            Direction::Forward => row_path > end.as_slice(),
            Direction::Reverse => row_path < start.as_slice(),
        };
        match &self.known {
            KnownRun::NoRun => return,
            KnownRun::At(run) if !is_behind(run) => {}
            _ => {
                let next = tombstone_runs::next_run(view.partition, direction, row_path);
                self.known = next.map_or(KnownRun::NoRun, KnownRun::At);
                self.is_in = false;
            }
        }
        let KnownRun::At((start, end)) = &self.known else { return };
        let is_in = start.as_slice() <= row_path && row_path <= end.as_slice();
        if is_in && !self.is_in {
            self.fragments_before = fragments_before;
        }
        self.is_in = is_in;
    }

    /// Records that a fragment was returned.
    #[inline]
    pub(super) fn give(&mut self) {
        self.fragments_before = self.fragments_before.saturating_sub(1);
    }

    /// Records that rows were left out, so that `fragments` fragments remain to be returned.
    pub(super) fn skip(&mut self, fragments: usize) {
        self.is_in &= fragments > 0;
        self.fragments_before = self.fragments_before.min(fragments);
    }

    /// Returns the far end of the run, if all fragments from the next one on are in it.
    pub(super) fn far_end(&self, direction: Direction) -> Option<&[u8]> {
        let KnownRun::At((start, end)) = &self.known else { return None };
        let is_in = self.is_in && self.fragments_before == 0;
        is_in.then_some(if direction == Direction::Forward { end } else { start })
    }
}
