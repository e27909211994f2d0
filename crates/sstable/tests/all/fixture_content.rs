//! Tests that scans and look-ups in files of Apache Cassandra 5.0.9 find the content of Cassandra's
//! own dump.

use crate::support;

use std::sync::Arc;

use espalier_mutation::{
    ClusteringSlices, DecoratedKey, Direction, UnfilteredStream, reconcile::MergedPartition,
};
use espalier_sstable::{ColumnSelection, SSTableError, dump::Dump};
use support::{Case, assert_same_content, block_on, cases_of_run, dump, open, rows, union_table};

#[test]
fn every_fixture_sstable_has_its_expected_content() {
    let mut read = 0;
    for case in cases_of_run() {
        for descriptor in &case.sstables {
            let reader =
                block_on(open(descriptor)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let lines = block_on(dump(&reader)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let name = format!("{} {descriptor}", case.name);
            assert_same_content(&name, &lines, &case.expected_of(descriptor));
            read += 1;
        }
    }
    println!("{read} SSTables read");
}

/// Looks up every key through filter and index, and reconciles the SSTables of a case.
async fn merged(case: &Case) -> Result<Vec<String>, SSTableError> {
    let mut readers = Vec::new();
    for descriptor in &case.sstables {
        readers.push(open(descriptor).await?);
    }
    let table = union_table(&readers);
    let mut keys: Vec<DecoratedKey> = Vec::new();
    for reader in &readers {
        reader.set_table(table.clone())?;
        let slices = Arc::new(ClusteringSlices::all());
        let range = espalier_mutation::KeyRange::full();
        let mut scan = reader.scan(range, slices, &ColumnSelection::All).await?;
        while let Some(partition) = scan.next_partition().await? {
            keys.push(partition.header().key.clone());
        }
    }
    keys.sort();
    keys.dedup();
    let mut lines = Vec::new();
    for key in keys {
        let mut streams = Vec::new();
        for reader in &readers {
            let slices = Arc::new(ClusteringSlices::all());
            let all = ColumnSelection::All;
            streams.extend(reader.read_partition(&key, slices, Direction::Forward, &all).await?);
        }
        assert!(!streams.is_empty(), "a key is lost: {key:?}");
        let merged = MergedPartition::new(table.clone(), Direction::Forward, streams).await?;
        let mut merged = merged.unwrap();
        lines.extend(Dump { table: &table, full_values: false }.header(merged.header()));
        lines.extend(rows(&table, &mut merged).await?);
    }
    Ok(lines)
}

#[test]
fn merged_fixtures_have_every_key_and_their_expected_content() {
    for case in cases_of_run() {
        let lines = block_on(merged(&case)).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert_same_content(&case.name, &lines, &case.text("expected.jsonl").unwrap());
    }
}
