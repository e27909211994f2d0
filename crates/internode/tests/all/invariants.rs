//! Tests updates that a peer could send but Cassandra does not. The decoder refuses them or drops a
//! part of them, so that storage never gets an update on which it cannot rely.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use espalier_internode::{
    DecodeError, MessagingVersion,
    message::Verb,
    payload::{ColumnList, Minima, Mutation, Partition, PartitionContent, Payload, Update},
};
use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, DeletionTime, Row, Unfiltered,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::vectors::Schema;

fn table() -> Arc<TableMetadata> {
    let (key, value) = (Arc::new(CqlType::Text), Arc::new(CqlType::Int));
    let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(7)))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .regular("m", CqlType::Map { key, value, frozen: false })
        .regular("v", CqlType::Int);
    Arc::new(table.build())
}

/// Returns the body of a MUTATION_REQ that writes one row, whose map has these entries.
fn message(key: &[u8], clustering: &[u8], entries: &[(&'static str, &'static [u8])]) -> Vec<u8> {
    let table = table();
    let id = |name: &str| table.column(name).unwrap().id;
    let cell = |value: &'static [u8]| Cell::live(10, Bytes::from_static(value));
    let entry = |(path, value): &(&'static str, &'static [u8])| {
        (Bytes::from_static(path.as_bytes()), cell(value))
    };
    let cells = entries.iter().map(entry).collect();
    let complex = ComplexColumn { deletion: DeletionTime::LIVE, cells };
    let mut row = Row::empty(Clustering::new([Bytes::copy_from_slice(clustering)]));
    row.columns.push((id("m"), ColumnData::Complex(complex)));
    row.columns.push((id("v"), ColumnData::Simple(cell(&[0, 0, 0, 1]))));
    row.columns.sort_by_key(|(id, _)| *id);
    let content = PartitionContent {
        minima: Minima { timestamp: 10, local_deletion_time: 0, ttl: 0 },
        static_row: None,
        regulars: ColumnList::of(table.regular_columns()),
        deletion: DeletionTime::LIVE,
        row_estimate: Some(1),
        unfiltered: vec![Unfiltered::Row(row)],
    };
    let key = Bytes::copy_from_slice(key);
    let partition = Partition { key, is_reversed: false, content: Some(content) };
    let mutation = Mutation { updates: vec![Update { table, partition }] };
    let mut bytes = Vec::new();
    Payload::Mutation(mutation).encode(MessagingVersion::V12, &mut bytes).unwrap();
    bytes
}

fn received(bytes: Vec<u8>) -> Result<espalier_mutation::Mutation, DecodeError> {
    let table = table();
    let schema = Schema(HashMap::from([(table.id, table)]));
    let (verb, version) = (Verb::MUTATION_REQ, MessagingVersion::V12);
    match Payload::decode(verb, version, &bytes.into(), &schema)? {
        Payload::Mutation(mutation) => mutation.into_mutation(),
        other => panic!("{other:?}"),
    }
}

const KEY: &[u8] = &[0, 0, 0, 1];
const ONE: &[u8] = &[0, 0, 0, 1];

#[test]
fn rows_that_storage_cannot_rely_on_are_refused() {
    let write = |entries| received(message(KEY, b"c", entries));
    assert!(write(&[("a", ONE), ("b", ONE)]).is_ok());
    for (entries, reason) in [
        (&[("b", ONE), ("a", ONE)][..], "do not ascend"),
        (&[("a", ONE), ("a", ONE)], "do not ascend"),
        (&[("a", &[1, 2, 3])], "not of the type"),
    ] {
        let error = write(entries).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    for (key, clustering) in [(&[1, 2, 3][..], &b"c"[..]), (&[], b"c"), (KEY, &[0xFF])] {
        assert!(received(message(key, clustering, &[("a", ONE)])).is_err(), "{key:?}");
    }
}

#[test]
fn a_column_without_content_does_not_reach_storage() {
    let mutation = received(message(KEY, b"c", &[])).unwrap();
    let row = &mutation.updates[0].rows[0];
    let v = table().column("v").unwrap().id;
    assert_eq!(row.columns.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [v]);
}

#[test]
fn columns_ascend_and_occur_once() {
    let names = [2, 1, b'v', 1, b'm'];
    for wrong in [[2, 1, b'm', 1, b'v'], [2, 1, b'v', 1, b'v'], [2, 1, b'm', 1, b'm']] {
        let mut bytes = message(KEY, b"c", &[("a", ONE)]);
        let at = bytes.windows(names.len()).position(|window| window == names).unwrap();
        bytes[at..at + names.len()].copy_from_slice(&wrong);
        let error = received(bytes).unwrap_err().to_string();
        assert!(error.contains("the columns of a message do not ascend"), "{error}");
    }
}
