//! What a stream of a partition knows of the run of dead rows that it is in, or that comes next.

use espalier_mutation::Direction;

use super::{
    dead_runs::{self, Run},
    walk::View,
};

/// The run of a walk. One look for each run that the walk comes by.
#[derive(Default)]
pub(super) struct RunAhead {
    /// Its start and end, in clustering order; `None` before the first look.
    run: Option<Option<Run>>,
    /// Whether the row that was read last is in it.
    is_in: bool,
    /// How many of the fragments that were read before it have not been given.
    fragments_before: usize,
}

impl RunAhead {
    /// Notes that the walk came to a row, with so many fragments before it that were not given.
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
                self.run = Some(dead_runs::next_run(view.partition, direction, row_path));
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

    /// Notes that a fragment was given.
    #[inline]
    pub(super) fn give(&mut self) {
        self.fragments_before = self.fragments_before.saturating_sub(1);
    }

    /// Notes that rows were left out, so that so many fragments remain that were not given.
    pub(super) fn skip(&mut self, fragments: usize) {
        self.is_in &= fragments > 0;
        self.fragments_before = self.fragments_before.min(fragments);
    }

    /// The far end of the run that all fragments from the next one on are in.
    pub(super) fn far_end(&self, direction: Direction) -> Option<&[u8]> {
        let (start, end) = self.run.as_ref()?.as_ref()?;
        let is_in = self.is_in && self.fragments_before == 0;
        is_in.then_some(if direction == Direction::Forward { end } else { start })
    }
}
