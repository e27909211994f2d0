//! Tests SSTables of ScyllaDB's tests that are read with a table that differs from the file's.

use crate::support;

use std::sync::Arc;

use espalier_mutation::{
    Clustering, ClusteringSlices, ColumnData, DecoratedKey, Direction, Liveness, Unfiltered,
    UnfilteredStream,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_sstable::{ColumnSelection, SSTableError};
use espalier_types::CqlType;
use support::{
    block_on, content, dump,
    scylla::{open_as_it_is, sstable},
};

fn builder(keyspace: &str, name: &str) -> TableBuilder {
    TableBuilder::new(keyspace, name, TableId(uuid::Uuid::nil()))
}

fn refusal(folder: &str, name: &str, table: TableBuilder) -> Option<String> {
    let descriptor = sstable(folder, name)?;
    let opened = block_on(open_as_it_is(&descriptor, Some(Arc::new(table.build()))));
    Some(opened.map(|_| ()).unwrap_err().to_string())
}

#[test]
fn columns_of_another_type_and_unknown_columns_are_refused() {
    let (folder, name) = ("incompatible_serialized_type", "mc-122-big");
    let keys = builder("test_ks", "test_table")
        .partition_key("key1", CqlType::Text)
        .clustering("key2", CqlType::Text, false)
        .clustering("key3", CqlType::Text, false);
    let with_int = keys.clone().regular("val", CqlType::Int);
    let Some(error) = refusal(folder, name, with_int) else { return };
    let file = "mc-122-big-Statistics.db is of another table: column 'val'";
    let reason = "is not that of table test_ks.test_table: expected int, got text";
    assert!(error.contains(&format!("{file} {reason}")), "{error}");

    let error = refusal(folder, name, keys.clone()).unwrap();
    let reason = "is in the file, but table test_ks.test_table neither has nor had it";
    assert!(error.contains(&format!("{file} {reason}")), "{error}");

    // The table may have dropped the column. The cells of the column are then left out.
    let descriptor = sstable(folder, name).unwrap();
    let dropped = keys.regular("val", CqlType::Text).drop_column("val", i64::MAX).build();
    let reader = block_on(open_as_it_is(&descriptor, Some(Arc::new(dropped)))).unwrap();
    assert!(block_on(dump(&reader)).unwrap().iter().all(|line| !line.contains("\"n\":")));
}

fn static_compact() -> TableMetadata {
    builder("ks", "cf")
        .partition_key("pk", CqlType::Text)
        .regular("c1", CqlType::Text)
        .regular("c2", CqlType::Text)
        .build()
}

/// Cassandra stored the columns of such a table as static columns.
#[test]
fn a_compact_table_without_clustering_columns_has_rows() {
    let folder = "cassandra_static_compact/ks/cf-1c6ace40fad111e7b9cf000000000002";
    let Some(descriptor) = sstable(folder, "mc-1-big") else { return };
    let table = Arc::new(static_compact());
    let reader = block_on(open_as_it_is(&descriptor, Some(table.clone()))).unwrap();
    let scanned = block_on(content(&reader)).unwrap();
    let [(header, rows)] = scanned.as_slice() else { panic!("{scanned:?}") };
    assert_eq!((&header.key.key[..], &header.static_row), (&b"a"[..], &None));
    let [Unfiltered::Row(row)] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((&row.clustering, row.liveness), (&Clustering::empty(), Liveness::NONE));
    for (name, value) in [("c1", "abc"), ("c2", "cde")] {
        let Some(ColumnData::Simple(cell)) = row.column(table.column(name).unwrap().id) else {
            panic!("{row:?}");
        };
        assert_eq!((cell.timestamp, &cell.value[..]), (1_551_785_032_379_079, value.as_bytes()));
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let read = block_on(async {
            let key = DecoratedKey::new("a".into());
            let (slices, all) = (Arc::new(ClusteringSlices::all()), ColumnSelection::All);
            let mut stream = reader.read_partition(&key, slices, direction, &all).await?.unwrap();
            let first = stream.next().await?;
            Ok::<_, SSTableError>((stream.header().static_row.clone(), first, stream.next().await?))
        });
        assert_eq!(read.unwrap(), (None, Some(rows[0].clone()), None));
    }
}

/// A table is rejected if it lacks a column of the file, or has a static column.
#[test]
fn another_table_than_the_compact_one_is_refused() {
    let folder = "cassandra_static_compact/ks/cf-1c6ace40fad111e7b9cf000000000002";
    let less = static_compact().rebuild();
    let only = builder("ks", "cf").partition_key("pk", CqlType::Text).regular("c1", CqlType::Text);
    let Some(error) = refusal(folder, "mc-1-big", only) else { return };
    assert!(error.contains("column 'c2' is in the file"), "{error}");
    let error = refusal(folder, "mc-1-big", less.static_column("s", CqlType::Int)).unwrap();
    assert!(error.contains("1 clustering columns where table ks.cf has 0"), "{error}");
}
