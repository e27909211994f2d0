//! Leaps of a merge: it skips rows of one source that another source's deletion covers, and runs of
//! invisible rows.
//!
//! Each source's head is known, so the deletion that source A has open reaches at least to A's
//! head. If all data of source B is older than that deletion, the deletion covers all rows of B
//! before A's head, and B need not return them. A merge of visible rows also needs no row before
//! the first place where any source may have a row that is not dead. The merge would drop
//! everything that a leap omits, so it gives the same rows and markers with and without leaps.

use std::cmp::Ordering;

use super::{MergedPartition, merge::Source, rows::apply_deletion};
use crate::{
    BoundKind, ClusteringBound, DeletionTime, Direction, PositionRef, Row, Unfiltered,
    UnfilteredStream,
};

/// The number of consecutive dropped fragments after which the merge looks for a leap. Arbitrary: a
/// leap may cost a source a descent in its row index, which takes as long as some rows. A merge
/// that leaps repeatedly drops this many fragments in between.
pub(super) const DROPS_BEFORE_LEAP: u32 = 16;

/// A source of ranges without visible rows besides the streams of a partition: the empty-range
/// cache.
pub trait KnownEmpty {
    /// Returns the end, on the walk in `direction`, of the range around `position` in which no row
    /// is visible; `None` if `position` lies in no such range.
    fn empty_until(
        &self,
        position: PositionRef<'_>,
        direction: Direction,
    ) -> Option<ClusteringBound>;
}

/// The data that the reader of a merge wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Rows, tombstones and markers, to be written somewhere.
    Everything,
    /// Rows that hold more than tombstones.
    VisibleRows,
}

impl Wanted {
    /// Returns whether data written at or before `timestamp` has no effect anywhere under
    /// `deletion`.
    pub(super) fn is_covered(self, timestamp: i64, deletion: DeletionTime) -> bool {
        match self {
            // If two deletions have the same timestamp, the one with the later wall clock stays.
            Self::Everything => !deletion.is_live() && timestamp < deletion.marked_for_delete_at,
            Self::VisibleRows => deletion.deletes(timestamp),
        }
    }

    pub(super) fn drops(self, row: &Row) -> bool {
        self == Self::VisibleRows && row.is_dead_for_ever()
    }
}

impl<S: UnfilteredStream> MergedPartition<S> {
    /// Makes sources skip fragments that the merge would drop.
    pub(super) async fn leap(&mut self) -> Result<(), S::Error> {
        if self.sources.len() == 1 && self.wanted == Wanted::Everything {
            return Ok(());
        }
        let (leaps, known) = self.leaps();
        for (index, bound) in leaps {
            self.sources[index].stream.skip_to(&bound).await?;
        }
        match known {
            Some(end) => self.drop_before(&end).await,
            None => Ok(()),
        }
    }

    /// Drops the heads before `end`, up to which no row is visible. The deletions of these rows may
    /// have been skipped.
    async fn drop_before(&mut self, end: &ClusteringBound) -> Result<(), S::Error> {
        for index in 0..self.sources.len() {
            while let Some(head) = &self.sources[index].head
                && self.order(head.position(), end.position()).is_lt()
            {
                self.dropped += 1;
                let source = &mut self.sources[index];
                let head = source.head.take();
                source.head = source.stream.next().await?;
                if let Some(Unfiltered::Marker(marker)) = head {
                    source.open = marker.deletion_behind(self.direction);
                }
            }
        }
        self.settle_open();
        Ok(())
    }

    /// Returns the sources that can skip, each with its target, and the bound up to which the
    /// empty-range cache reports no visible row, whatever the heads are.
    fn leaps(&self) -> (Vec<(usize, ClusteringBound)>, Option<ClusteringBound>) {
        let covered: Vec<_> = (0..self.sources.len()).map(|index| self.covered_to(index)).collect();
        let dead: Vec<_> = self.sources.iter().map(|source| self.dead_until(source)).collect();
        let mut known = None;
        let mut leaps = Vec::new();
        let first_visible = match self.wanted {
            Wanted::Everything => None,
            Wanted::VisibleRows => {
                let reaches = self.sources.iter().zip(&covered).zip(&dead);
                let reaches = reaches.filter_map(|((source, covered), dead)| {
                    let dead = dead.as_ref().map(ClusteringBound::position);
                    let head = source.head.as_ref().map(Unfiltered::position)?;
                    Some(self.later(self.later(head, *covered), dead))
                });
                let first = reaches.min_by(|left, right| self.order(*left, *right));
                known = self.known_empty_until(first);
                let known = known.as_ref().map(ClusteringBound::position);
                first.map(|first| self.later(first, known))
            }
        };
        for (index, source) in self.sources.iter().enumerate() {
            let Some(head) = source.head.as_ref().map(Unfiltered::position) else { continue };
            let target = self.later(self.later(head, covered[index]), first_visible);
            if self.order(target, head).is_gt() {
                leaps.push((index, self.bound_at(target)));
            }
        }
        (leaps, known)
    }

    /// Returns the furthest head up to which another source's open deletion covers all of this
    /// source. The deletion may reach further.
    fn covered_to(&self, index: usize) -> Option<PositionRef<'_>> {
        let newest = self.sources[index].stream.maximum_timestamp();
        let mut covered: Option<PositionRef<'_>> = None;
        for (other, source) in self.sources.iter().enumerate() {
            if other == index || !self.wanted.is_covered(newest, source.open) {
                continue;
            }
            if let Some(head) = &source.head {
                covered = Some(self.later(head.position(), covered));
            }
        }
        covered
    }

    /// Returns the end of the run of tombstones that a source's stream reports at its dead head.
    fn dead_until(&self, source: &Source<S>) -> Option<ClusteringBound> {
        let is_dead = match source.head.as_ref()? {
            _ if self.wanted == Wanted::Everything => false,
            Unfiltered::Row(row) => {
                // The deletion that the stream itself has open at its head is known, and may be the
                // one that makes the row dead.
                let mut row = row.clone();
                apply_deletion(&mut row, self.header.deletion.max(source.open));
                self.wanted.drops(&row)
            }
            Unfiltered::Marker(_) => true,
        };
        if is_dead { source.stream.empty_until() } else { None }
    }

    fn known_empty_until(&self, position: Option<PositionRef<'_>>) -> Option<ClusteringBound> {
        self.known_empty.as_ref()?.empty_until(position?, self.direction)
    }

    fn later<'a>(&self, left: PositionRef<'a>, right: Option<PositionRef<'a>>) -> PositionRef<'a> {
        match right {
            Some(right) if self.order(right, left).is_gt() => right,
            _ => left,
        }
    }

    /// Compares positions in the direction of the walk.
    pub(super) fn order(&self, left: PositionRef<'_>, right: PositionRef<'_>) -> Ordering {
        let order = self.table.comparator().compare(left, right);
        match self.direction {
            Direction::Forward => order,
            Direction::Reverse => order.reverse(),
        }
    }

    /// Returns a position as a bound. A row's position becomes the bound in front of the row on the
    /// walk.
    pub(super) fn bound_at(&self, position: PositionRef<'_>) -> ClusteringBound {
        let is_before = match position.weight {
            0 => self.direction == Direction::Forward,
            weight => weight < 0,
        };
        let kind = if is_before { BoundKind::InclusiveStart } else { BoundKind::InclusiveEnd };
        ClusteringBound { kind, values: position.values.into() }
    }
}
