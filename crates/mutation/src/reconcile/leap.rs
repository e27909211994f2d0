//! Leaps of the merge: over rows of one source that a deletion of another covers, and over runs of dead rows.
//!
//! Each head is known, so that the deletion that a source has open reaches at least to its head. A source in which nothing
//! is as new as that deletion has only covered rows before that head, and need not give them. Readers of what is visible
//! also need no row before the place where the first source may have one that is not dead. What is left out would have
//! been dropped: the merge gives the same rows, and the same markers, with and without leaps.

use std::cmp::Ordering;

use super::{UnfilteredMerger, merge::Source, rows::apply_deletion};
use crate::{
    BoundKind, ClusteringBound, DeletionTime, Direction, PositionRef, Row, Unfiltered,
    UnfilteredStream,
};

/// Fragments dropped one after another before the merge looks for a leap. An arbitrary choice: a leap may cost a source
/// a descent in its row index, which is worth some rows; if it can leap again and again, these are what it pays in between.
pub(super) const DROPS_BEFORE_LEAP: u32 = 16;

/// What is known of a partition besides what its streams tell.
pub trait KnownDead {
    /// Where the stretch ends, on the way in `direction`, that `position` lies in and in which no row is visible; `None` if it is in none.
    fn dead_until(
        &self,
        position: PositionRef<'_>,
        direction: Direction,
    ) -> Option<ClusteringBound>;
}

/// What the reader of a merge wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Rows, tombstones and markers, to write them somewhere.
    Everything,
    /// Rows in which there is more than tombstones.
    VisibleRows,
}

impl Wanted {
    /// Whether what was written at or before `timestamp` matters nowhere under `deletion`.
    pub(super) fn is_covered(self, timestamp: i64, deletion: DeletionTime) -> bool {
        match self {
            // Of two deletions at the same time the later by the clock stays.
            Self::Everything => !deletion.is_live() && timestamp < deletion.marked_for_delete_at,
            Self::VisibleRows => deletion.deletes(timestamp),
        }
    }

    pub(super) fn drops(self, row: &Row) -> bool {
        self == Self::VisibleRows && row.is_dead_for_ever()
    }
}

impl<S: UnfilteredStream> UnfilteredMerger<S> {
    /// Tells sources to skip what the merge would only drop.
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

    /// Drops what is before a place that is known to be dead up to there: what deletes it may have been passed over.
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

    /// The sources that can skip, and to where; and up to where nothing is visible, whatever heads there are.
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
                known = self.known_dead_until(first);
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

    /// Where at the earliest the deletions may end that other sources have open and that cover all of this source.
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

    fn dead_until(&self, source: &Source<S>) -> Option<ClusteringBound> {
        let is_dead = match source.head.as_ref()? {
            _ if self.wanted == Wanted::Everything => false,
            Unfiltered::Row(row) => {
                // What the stream itself has in force at its head is known; it may be what makes the row dead.
                let mut row = row.clone();
                apply_deletion(&mut row, self.partition_deletion.max(source.open));
                self.wanted.drops(&row)
            }
            Unfiltered::Marker(_) => true,
        };
        if is_dead { source.stream.dead_until() } else { None }
    }

    fn known_dead_until(&self, position: Option<PositionRef<'_>>) -> Option<ClusteringBound> {
        self.known_dead.as_ref()?.dead_until(position?, self.direction)
    }

    fn later<'a>(&self, left: PositionRef<'a>, right: Option<PositionRef<'a>>) -> PositionRef<'a> {
        match right {
            Some(right) if self.order(right, left).is_gt() => right,
            _ => left,
        }
    }

    /// Compares in the direction of the walk.
    pub(super) fn order(&self, left: PositionRef<'_>, right: PositionRef<'_>) -> Ordering {
        let order = self.table.comparator().compare(left, right);
        match self.direction {
            Direction::Forward => order,
            Direction::Reverse => order.reverse(),
        }
    }

    /// A position as a bound, a row's as the one in front of it.
    fn bound_at(&self, position: PositionRef<'_>) -> ClusteringBound {
        let is_before = match position.weight {
            0 => self.direction == Direction::Forward,
            weight => weight < 0,
        };
        let kind = if is_before { BoundKind::InclusiveStart } else { BoundKind::InclusiveEnd };
        ClusteringBound { kind, values: position.values.into() }
    }
}
