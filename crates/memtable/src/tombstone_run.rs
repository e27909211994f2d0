//! Tracks the tombstone run that a stream of a partition is in, or that comes next.

use espalier_mutation::Direction;

use super::{
    tombstone_runs::{self, Run},
    walk::View,
};

/// The tombstone run of a walk. It takes one look-up for each run that the walk passes.
#[derive(Default)]
pub(super) struct NextTombstoneRun {
    /// The run's start and end, in clustering order; `None` before the first look-up, and
    /// `Some(None)` if no run follows.
    run: Option<Option<Run>>,
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
        match &self.run {
            Some(None) => return,
            Some(Some(run)) if !is_behind(run) => {}
            _ => {
                self.run = Some(tombstone_runs::next_run(view.partition, direction, row_path));
                self.is_in = false;
            }
        }
        let is_in = self
            .run
            .iter()
            .flatten()
            .any(|(start, end)| start.as_slice() <= row_path && row_path <= end.as_slice());
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
        let (start, end) = self.run.as_ref()?.as_ref()?;
        let is_in = self.is_in && self.fragments_before == 0;
        is_in.then_some(if direction == Direction::Forward { end } else { start })
    }
}
