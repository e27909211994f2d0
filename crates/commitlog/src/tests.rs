//! These tests check that mutations survive a round trip through records, and that damaged bytes
//! cause no panic.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnData, ComplexColumn, DecoratedKey,
    DeletionTime, Liveness, Mutation, PartitionUpdate, RangeTombstone, Row,
    encoding::body::{BodyError, BodyReader},
    schema::{ColumnId, TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;
use proptest::prelude::*;
use uuid::Uuid;

use super::{
    ColumnMapping, CommitLogError, EncodedMutation, KIND_COLUMNS, KIND_MUTATION, Translation,
    decode_mutation,
};

fn table() -> TableMetadata {
    let map =
        CqlType::Map { key: Arc::new(CqlType::Int), value: Arc::new(CqlType::Blob), frozen: false };
    TableBuilder::new("ks", "t", TableId(Uuid::from_u128(9)))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Blob, false)
        .static_column("s", CqlType::Blob)
        .regular("m", map)
        .regular("v", CqlType::Blob)
        .build()
}

fn value() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![
        Just(DeletionTime::LIVE),
        (0..9i64, 0..9u32).prop_map(|(timestamp, time)| DeletionTime::new(timestamp, time)),
    ]
}

fn row(column: u32) -> impl Strategy<Value = Row> {
    (value(), value(), deletion(), any::<bool>(), any::<bool>()).prop_map(
        move |(clustering, value, deletion, is_inserted, has_map)| {
            let mut row = Row::empty(Clustering::new([clustering]));
            row.deletion = deletion;
            if is_inserted {
                row.liveness = Liveness::live(5);
            }
            if has_map && column == 4 {
                let cells = vec![(Bytes::from_static(b"\0\0\0\x07"), Cell::live(3, value.clone()))];
                let complex = ComplexColumn { deletion, cells };
                row.columns.push((ColumnId(3), ColumnData::Complex(complex)));
            }
            row.columns.push((ColumnId(column), ColumnData::Simple(Cell::live(4, value))));
            row
        },
    )
}

fn bound(kind: BoundKind) -> impl Strategy<Value = ClusteringBound> {
    prop::collection::vec(prop::option::of(value()), 0..2)
        .prop_map(move |values| ClusteringBound { kind, values: values.into() })
}

fn update() -> impl Strategy<Value = PartitionUpdate> {
    let range = (bound(BoundKind::InclusiveStart), bound(BoundKind::ExclusiveEnd), deletion())
        .prop_map(|(start, end, deletion)| RangeTombstone { start, end, deletion });
    (
        value(),
        deletion(),
        prop::option::of(row(2)),
        prop::collection::vec(row(4), 0..4),
        prop::collection::vec(range, 0..3),
    )
        .prop_map(|(key, deletion, static_row, rows, range_tombstones)| {
            let mut update = PartitionUpdate::new(table().id, DecoratedKey::new(key));
            update.deletion = deletion;
            update.static_row =
                static_row.map(|row| Row { clustering: Clustering::empty(), ..row });
            update.rows = rows;
            update.range_tombstones = range_tombstones;
            update
        })
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop::collection::vec(update(), 0..4).prop_map(|updates| Mutation { updates })
}

fn translation(
    mapping: Bytes,
    now: Option<TableMetadata>,
) -> Result<(u32, Translation), BodyError> {
    let mut reader = BodyReader::new(mapping);
    assert_eq!(reader.byte(), Ok(KIND_COLUMNS));
    Translation::decode(&mut reader, |_| now.map(Arc::new))
}

fn decode(body: Bytes, translation: &Translation) -> Result<(Mutation, usize), BodyError> {
    let mut reader = BodyReader::new(body);
    match reader.byte()? {
        KIND_MUTATION => {
            decode_mutation(&mut reader, |number| (number == 7).then_some(translation))
        }
        _ => Err(reader.error("another kind")),
    }
}

fn encode(mutation: &Mutation) -> EncodedMutation {
    let mut encoded = EncodedMutation::default();
    encoded.encode(mutation, usize::MAX, |_| 7).unwrap();
    encoded
}

proptest! {
    #[test]
    fn encoding_a_row_equals_encoding_its_mutation(key in value(), row in row(4)) {
        let mut update = PartitionUpdate::new(table().id, DecoratedKey::new(key.clone()));
        update.rows = vec![row.clone()];
        let expected = encode(&Mutation { updates: vec![update] });
        // Encode into a buffer that is not empty.
        let mut encoded = encode(&Mutation { updates: Vec::new() });
        encoded.encode_row(7, &key, &row.clustering.values, &row, usize::MAX).unwrap();
        prop_assert_eq!(&encoded.body, &expected.body);
        prop_assert_eq!(encoded.packed_row(0), expected.packed_row(0));
        encoded.pack(&row, usize::MAX).unwrap();
        prop_assert_eq!(encoded.packed_row(0), expected.packed_row(0));
    }

    #[test]
    fn round_trip(mutation in mutation()) {
        let encoded = encode(&mutation);
        let rows = mutation.updates.iter().map(|u| u.rows.len() + usize::from(u.static_row.is_some()));
        prop_assert_eq!(encoded.packed_rows.len(), rows.sum::<usize>());
        let (number, translation) =
            translation(ColumnMapping::new(7, &table()).body, Some(table())).unwrap();
        prop_assert_eq!(number, 7);
        let (decoded, skipped) = decode(encoded.body.into(), &translation).unwrap();
        prop_assert_eq!((decoded, skipped), (mutation, 0));
    }

    #[test]
    fn updates_of_tables_that_are_gone_are_counted(mutation in mutation()) {
        let (_, translation) = translation(ColumnMapping::new(7, &table()).body, None).unwrap();
        let (decoded, skipped) = decode(encode(&mutation).body.into(), &translation).unwrap();
        prop_assert_eq!((decoded.updates.len(), skipped), (0, mutation.updates.len()));
    }

    #[test]
    fn damage_is_an_error_or_another_mutation_but_never_a_panic(
        mutation in mutation(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, known) = translation(ColumnMapping::new(7, &table()).body, Some(table())).unwrap();
        let mut body = encode(&mutation).body;
        for (at, byte) in &damage {
            let at = at.index(body.len());
            body[at] = *byte;
        }
        let _ = decode(body.clone().into(), &known);
        body.truncate(cut.index(body.len()));
        let _ = decode(body.into(), &known);
        let mut mapping = ColumnMapping::new(7, &table()).body.to_vec();
        for (at, byte) in &damage {
            let at = at.index(mapping.len() - 1) + 1;
            mapping[at] = *byte;
        }
        let _ = translation(mapping.into(), Some(table()));
    }
}

/// A statement with INs writes one value to many rows, and named values let many columns of a row
/// have one value.
#[test]
fn rows_that_share_a_large_value_are_refused_before_the_copy() {
    const VALUE: usize = 1 << 20;
    const MAXIMUM: usize = 16 * VALUE;
    let value = Bytes::from(vec![1; VALUE]);
    let with_columns = |number: u32, count: u32| {
        let mut row = Row::empty(Clustering::new([Bytes::from(number.to_string())]));
        let cell = |id| (ColumnId(id), ColumnData::Simple(Cell::live(4, value.clone())));
        row.columns.extend((4..4 + count).map(cell));
        row
    };
    let mut encoded = EncodedMutation::default();
    let is_refused = |outcome, bytes: usize| match outcome {
        Err(CommitLogError::MutationTooLarge { bytes: counted, maximum: MAXIMUM }) => {
            (bytes..bytes + 1000).contains(&counted)
        }
        _ => false,
    };
    let mut update = PartitionUpdate::new(table().id, DecoratedKey::new(value.slice(..1)));
    update.rows.extend((0..15).map(|number| with_columns(number, 1)));
    let mut mutation = Mutation { updates: vec![update] };
    encoded.encode(&mutation, MAXIMUM, |_| 7).unwrap();
    assert!(encoded.body.len() > 15 * VALUE);
    mutation.updates[0].rows.extend((15..1000).map(|number| with_columns(number, 1)));
    assert!(is_refused(encoded.encode(&mutation, MAXIMUM, |_| 7), 16 * VALUE));
    assert_eq!(encoded.body.capacity(), 0);
    let row = with_columns(0, 1000);
    let clustering = &row.clustering.values;
    assert!(is_refused(encoded.encode_row(7, b"k", clustering, &row, MAXIMUM), 1000 * VALUE));
    assert!(is_refused(encoded.pack(&row, MAXIMUM), 1000 * VALUE));
    assert!(encoded.body.capacity() < VALUE);
}

/// The bounds of the range deletions of one statement share the values of the key.
#[test]
fn range_deletions_that_share_a_large_value_are_refused() {
    let value = Some(Bytes::from(vec![1; 60_000]));
    let bound = |kind| ClusteringBound { kind, values: [value.clone()].into() };
    let deletion = DeletionTime::new(1, 1);
    let (start, end) = (bound(BoundKind::InclusiveStart), bound(BoundKind::InclusiveEnd));
    let mut update = PartitionUpdate::new(table().id, DecoratedKey::new(Bytes::from_static(b"k")));
    update.range_tombstones = vec![RangeTombstone { start, end, deletion }; 10_000];
    let outcome =
        EncodedMutation::default().encode(&Mutation { updates: vec![update] }, 1 << 20, |_| 7);
    let Err(CommitLogError::MutationTooLarge { bytes, .. }) = outcome else { panic!() };
    assert!(bytes < 2 << 20, "{bytes}");
}

/// A statement was planned before column `v` was dropped, and written after it.
#[test]
fn cells_of_columns_dropped_before_the_write_are_discarded() {
    let id = table().column("v").unwrap().id;
    let mut update = PartitionUpdate::new(table().id, DecoratedKey::new(Bytes::from_static(b"k")));
    let mut row = Row::empty(Clustering::new([Bytes::from_static(b"c")]));
    row.columns.push((id, ColumnData::Simple(Cell::live(10, Bytes::from_static(b"v")))));
    update.rows.push(row);
    let dropped = table().rebuild().drop_column("v", 5).build();
    // After a restart, another column has the id.
    let other = TableBuilder::new("ks", "t", table().id)
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Blob, false)
        .static_column("s", CqlType::Blob)
        .regular("m", table().column("m").unwrap().column_type.clone())
        .regular("other", CqlType::Int)
        .build();
    assert_eq!(other.column("other").unwrap().id, id);
    let (_, translation) = translation(ColumnMapping::new(7, &dropped).body, Some(other)).unwrap();
    let mutation = Mutation { updates: vec![update] };
    let (decoded, _) = decode(encode(&mutation).body.into(), &translation).unwrap();
    assert_eq!(decoded.updates[0].rows[0].columns, []);
}

#[test]
fn decoding_finds_columns_by_name_after_schema_changes() {
    let old = table();
    let mut update = PartitionUpdate::new(old.id, DecoratedKey::new(Bytes::from_static(b"k")));
    let mut row = Row::empty(Clustering::new([Bytes::from_static(b"c")]));
    row.columns.push((ColumnId(4), ColumnData::Simple(Cell::live(10, Bytes::from_static(b"v")))));
    update.rows.push(row);
    let mutation = Mutation { updates: vec![update] };
    let mapping = ColumnMapping::new(7, &old).body;
    let column_of = |now: TableMetadata| {
        let id = now.column("v").map(|column| column.id);
        let (_, translation) = translation(mapping.clone(), Some(now)).unwrap();
        let (decoded, _) = decode(encode(&mutation).body.into(), &translation).unwrap();
        (decoded.updates[0].rows[0].columns.first().map(|(id, _)| *id), id)
    };
    // In turn: other columns precede `v`; `v` was dropped; `v` was dropped before the write and
    // added again; `v` was dropped after the write and added again.
    let shifted = TableBuilder::new("ks", "t", old.id)
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Blob, false)
        .regular("a", CqlType::Blob)
        .regular("b", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build();
    let (found, id) = column_of(shifted);
    assert!(found.is_some() && found == id);
    let dropped = old.rebuild().drop_column("v", 20).build();
    assert_eq!(column_of(dropped), (None, None));
    let again = |at| old.rebuild().drop_column("v", at).regular("v", CqlType::Blob).build();
    let (found, id) = column_of(again(9));
    assert!(found.is_some() && found == id);
    assert_eq!(column_of(again(10)).0, None);
}
