//! Tests that packing and unpacking a row gives the same row, and that damaged bytes never cause a
//! panic.

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DeletionTime, Liveness, Row, pack_row,
    schema::ColumnId, unpack_row,
};
use proptest::prelude::*;

fn cells() -> impl Strategy<Value = Cell> {
    let timestamp = prop_oneof![Just(7i64), any::<i64>()];
    let value = prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    (timestamp, value, 0..3u8, 1..5u32, 0..4u32).prop_map(|(timestamp, value, kind, ttl, time)| {
        match kind {
            0 => Cell::live(timestamp, value),
            1 => Cell::expiring(timestamp, ttl, time, value),
            _ => Cell::tombstone(timestamp, time),
        }
    })
}

fn deletions() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![
        Just(DeletionTime::LIVE),
        (0..9i64, 0..9u32).prop_map(|(t, l)| DeletionTime::new(t, l))
    ]
}

fn rows() -> impl Strategy<Value = Row> {
    let complex = (
        deletions(),
        prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), cells()), 0..5),
    )
        .prop_map(|(deletion, cells)| {
            let cells = cells.into_iter().map(|(path, cell)| (Bytes::from(path), cell)).collect();
            ColumnData::Complex(ComplexColumn { deletion, cells })
        });
    let data = prop_oneof![cells().prop_map(ColumnData::Simple), complex];
    let liveness = prop_oneof![
        Just(Liveness::NONE),
        Just(Liveness::live(7)),
        (1..5u32, 0..4u32).prop_map(|(ttl, local_expiration)| Liveness {
            timestamp: 7,
            ttl,
            local_expiration
        })
    ];
    let columns = prop::collection::btree_map(0..400u32, data, 0..8);
    (liveness, deletions(), deletions(), columns).prop_map(
        |(liveness, deletion, shadowable_deletion, columns)| Row {
            clustering: Clustering::empty(),
            liveness,
            deletion,
            shadowable_deletion,
            columns: columns.into_iter().map(|(id, data)| (ColumnId(id), data)).collect(),
        },
    )
}

proptest! {
    #[test]
    fn round_trip(row in rows()) {
        let mut packed = Vec::new();
        pack_row(&row, &mut packed);
        prop_assert_eq!(unpack_row(Clustering::empty(), &packed.into()).unwrap(), row);
    }

    #[test]
    fn damage_never_panics(row in rows(), flip in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<prop::sample::Index>()) {
        let mut packed = Vec::new();
        pack_row(&row, &mut packed);
        let cut = cut.index(packed.len() + 1);
        let flip = flip.index(packed.len());
        packed[flip] ^= 1 << bit;
        let _ = unpack_row(Clustering::empty(), &packed.clone().into());
        packed.truncate(cut);
        let _ = unpack_row(Clustering::empty(), &packed.into());
    }
}

#[test]
fn an_ordinary_row_is_small() {
    let mut row = Row { liveness: Liveness::live(7), ..Row::empty(Clustering::empty()) };
    row.set_cell(ColumnId(1), Cell::live(7, Bytes::from_static(b"12345678")));
    let mut packed = Vec::new();
    pack_row(&row, &mut packed);
    assert_eq!(packed.len(), 9 + 3 + 8);
}
