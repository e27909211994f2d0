//! Makes the range deletions of a partition disjoint.
//!
//! The memtable visits each boundary that lies inside a range deletion. If the ranges of a batch
//! overlap, the memtable would visit a boundary once for each of them, which takes quadratic time
//! in one step. Here, a sweep over all bounds takes O(n log n), and yields.

use std::{cmp::Reverse, collections::BTreeMap};

use espalier_mutation::{
    ClusteringBound, ClusteringComparator, DeletionTime, RangeTombstone, path,
};
use espalier_runtime::maybe_yield;

/// The rank of a deletion. Where deletions overlap, the one of the least rank is in force: the one
/// of the latest timestamp, and among equal timestamps the first in the batch.
type Rank = (Reverse<i64>, usize);

/// A position at which ranges begin or end.
struct Boundary {
    bound: ClusteringBound,
    /// The ranges that begin here, with their deletions, and those that end here.
    changes: Vec<(Rank, Option<DeletionTime>)>,
}

/// Returns disjoint ranges, in ascending order, that delete the same as `tombstones`. There are
/// fewer than twice as many of them as `tombstones`.
pub(super) async fn disjoint(
    comparator: &ClusteringComparator,
    tombstones: Vec<RangeTombstone>,
) -> Vec<RangeTombstone> {
    if tombstones.len() < 2 {
        return tombstones;
    }
    let mut boundaries: BTreeMap<Vec<u8>, Boundary> = BTreeMap::new();
    for (number, RangeTombstone { start, end, deletion }) in tombstones.into_iter().enumerate() {
        maybe_yield().await;
        let [mut first, mut last] = [Vec::new(), Vec::new()];
        path::put_bound(comparator, &start, &mut first);
        path::put_bound(comparator, &end, &mut last);
        if first >= last || deletion.is_live() {
            continue;
        }
        let rank = (Reverse(deletion.marked_for_delete_at), number);
        for (path, bound, deletion) in [(first, start, Some(deletion)), (last, end, None)] {
            let boundary = boundaries.entry(path);
            let boundary = boundary.or_insert_with(|| Boundary { bound, changes: Vec::new() });
            boundary.changes.push((rank, deletion));
        }
    }
    let mut disjoint = Vec::with_capacity(boundaries.len());
    let mut active: BTreeMap<Rank, DeletionTime> = BTreeMap::new();
    let mut open: Option<(ClusteringBound, DeletionTime)> = None;
    for Boundary { bound, changes } in boundaries.into_values() {
        for (rank, deletion) in changes {
            maybe_yield().await;
            match deletion {
                Some(deletion) => active.insert(rank, deletion),
                None => active.remove(&rank),
            };
        }
        let deletion = active.first_key_value().map(|(_, deletion)| *deletion);
        if deletion == open.as_ref().map(|(_, deletion)| *deletion) {
            continue;
        }
        let next = deletion.map(|deletion| (bound.position().to_bound(true), deletion));
        if let Some((start, deletion)) = std::mem::replace(&mut open, next) {
            let end = bound.position().to_bound(false);
            disjoint.push(RangeTombstone { start, end, deletion });
        }
    }
    disjoint
}

#[cfg(test)]
mod tests {
    use espalier_mutation::{BoundKind, RangeTombstoneList};
    use espalier_runtime::block_on;
    use espalier_types::CqlType;
    use proptest::prelude::*;

    use super::*;

    /// Returns a bound of a table with two clustering columns.
    fn bound(values: &[i8], kind: BoundKind) -> ClusteringBound {
        let value = |value: &i8| Some(i32::from(*value).to_be_bytes().to_vec().into());
        ClusteringBound { kind, values: values.iter().map(value).collect() }
    }

    fn tombstone() -> impl Strategy<Value = RangeTombstone> {
        let values = || proptest::collection::vec(0..4i8, 0..=2);
        (values(), values(), any::<[bool; 2]>(), -1..4i64, 0..3u32).prop_map(
            |(first, last, inclusive, timestamp, second)| {
                let start = [BoundKind::ExclusiveStart, BoundKind::InclusiveStart];
                let end = [BoundKind::ExclusiveEnd, BoundKind::InclusiveEnd];
                RangeTombstone {
                    start: bound(&first, start[usize::from(inclusive[0])]),
                    end: bound(&last, end[usize::from(inclusive[1])]),
                    deletion: if timestamp < 0 {
                        DeletionTime::LIVE
                    } else {
                        DeletionTime::new(timestamp, second)
                    },
                }
            },
        )
    }

    proptest! {
        #![proptest_config(espalier_testing::properties(1000))]

        /// The ranges are those that remain if the deletions come one after another.
        #[test]
        fn disjoint_ranges_delete_the_same(
            tombstones in proptest::collection::vec(tombstone(), 2..12),
        ) {
            let int = (CqlType::Int, false);
            let comparator = ClusteringComparator { types: [int.clone(), int].into() };
            let mut list = RangeTombstoneList::default();
            for tombstone in &tombstones {
                list.add(&comparator, tombstone);
            }
            let disjoint = block_on(disjoint(&comparator, tombstones));
            prop_assert_eq!(disjoint, list.ranges().collect::<Vec<_>>());
        }
    }
}
