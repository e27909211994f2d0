//! Compares a list of range tombstones with a model that has one deletion for each value.

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, DeletionTime, PositionRef, RangeTombstone,
    RangeTombstoneList,
};
use espalier_types::CqlType;
use proptest::prelude::*;

fn comparator() -> ClusteringComparator {
    ClusteringComparator { types: vec![(CqlType::Blob, false)].into() }
}

fn bound(at: u8) -> ClusteringBound {
    // Position 2n lies before the value n, position 2n + 1 after it.
    let kind =
        if at.is_multiple_of(2) { BoundKind::InclusiveStart } else { BoundKind::ExclusiveStart };
    ClusteringBound { kind, values: [Some(Bytes::from(vec![at / 2]))].into() }
}

proptest! {
    #[test]
    fn agrees_with_model(ranges in prop::collection::vec((0..20u8, 0..20u8, 1..5i64, 0..3u32), 0..12)) {
        let comparator = comparator();
        let mut list = RangeTombstoneList::default();
        let mut model = [DeletionTime::LIVE; 40];
        for (start, end, timestamp, time) in ranges {
            let deletion = DeletionTime::new(timestamp, time);
            list.add(&comparator, &RangeTombstone { start: bound(start), end: bound(end), deletion });
            // Value n lies between positions 2n and 2n + 1.
            for value in 0..10u8 {
                let covers = start <= 2 * value && 2 * value < end;
                // At equal timestamps the first range stays, as in Cassandra's memtable.
                if covers && timestamp > model[value as usize].marked_for_delete_at {
                    model[value as usize] = deletion;
                }
            }
        }
        for value in 0..10u8 {
            let values = [Some(Bytes::from(vec![value]))];
            let found = list.deletion_at(&comparator, PositionRef { values: &values, weight: 0 });
            prop_assert_eq!(found, model[value as usize], "value {}", value);
        }
        let mut open = DeletionTime::LIVE;
        let mut last: Option<ClusteringBound> = None;
        for marker in list.markers() {
            prop_assert_eq!(marker.before, open);
            prop_assert_ne!(marker.before, marker.after);
            if let Some(last) = &last {
                prop_assert!(comparator.compare(last.position(), marker.position.position()).is_lt());
            }
            open = marker.after;
            last = Some(marker.position);
        }
        prop_assert!(open.is_live());
    }
}
