//! Gives a read of one partition the empty ranges of the moment at which the read opened its
//! sources, so that ranges and sources show the same writes.

use std::rc::Rc;

use espalier_mutation::{
    ClusteringBound, DecoratedKey, Direction, PositionRef, path, reconcile::KnownEmpty,
};
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR, encode_ordered_clustering};

use super::{EmptyRangeAccess, EmptyRanges, Place, place::path_of, ranges::RangeList};
use crate::ReadCommand;

struct KnownInPartition {
    ranges: RangeList,
    all: Rc<EmptyRanges>,
    partition: Vec<u8>,
    command: ReadCommand,
}

impl EmptyRangeAccess {
    /// Returns the empty ranges for a read that opens its sources now, and the number of writes so
    /// far of rows that are not dead. Returns `None` for both if the sources do not show all
    /// writes.
    #[inline]
    pub(super) fn at_opening(
        &self,
        command: &ReadCommand,
        key: &DecoratedKey,
    ) -> (Option<Box<dyn KnownEmpty>>, Option<u64>) {
        if !self.shows_all_writes() {
            return (None, None);
        }
        let has_none = self.ranges.is_idle.get() || command.table.clustering_columns().is_empty();
        let known = if has_none { None } else { self.known_in(command, key) };
        (known, Some(self.ranges.live_writes.get()))
    }

    fn known_in(&self, command: &ReadCommand, key: &DecoratedKey) -> Option<Box<dyn KnownEmpty>> {
        let ranges = self.ranges.inner.borrow().ranges.clone();
        let partition = path_of(key.borrowed());
        // Ranges that begin behind the partition or end before it are of no use.
        let behind = Place::behind_partition(&partition);
        if ranges.last_before(&behind)?.end.path() <= partition.as_slice() {
            return None;
        }
        Some(Box::new(KnownInPartition {
            ranges,
            all: self.ranges.clone(),
            partition,
            command: command.clone(),
        }))
    }
}

impl KnownEmpty for KnownInPartition {
    fn empty_until(
        &self,
        position: PositionRef<'_>,
        direction: Direction,
    ) -> Option<ClusteringBound> {
        let comparator = self.command.table.comparator();
        let terminator = match position.weight {
            0 => TERMINATOR,
            weight if weight < 0 => LT_NEXT,
            _ => GT_NEXT,
        };
        let mut at = self.partition.clone();
        encode_ordered_clustering(&comparator.types, position.values, terminator, &mut at);
        let range = self.ranges.at(&at, self.command.now_s)?;
        self.all.count_pass();
        let (place, outside) = match direction {
            Direction::Forward => (&range.end, ClusteringBound::top()),
            Direction::Reverse => (&range.start, ClusteringBound::bottom()),
        };
        match place.in_partition(&self.partition) {
            Some(bound) if bound.first().is_some_and(|first| is_bound(*first)) => {
                path::bound(comparator, bound).ok()
            }
            _ => Some(outside),
        }
    }
}

/// Returns whether a path within a partition that begins with `first` is a bound among the
/// partition's rows.
fn is_bound(first: u8) -> bool {
    first >= path::BOTTOM && first != path::BEHIND
}
