//! Checks that shadowable row deletions are written as each family of versions stores them, and
//! read again.

use crate::support;

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, Liveness, PartitionHeader, Row, Unfiltered,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    ChunkFormat, Descriptor, PageCache, SSTableId, SSTableReader,
    dump::{Dump, ReadableDump},
    versions::Version,
};
use espalier_types::CqlType;
use support::{
    block_on, content,
    generate::Partition,
    writing::{options, write},
};

fn row(number: i32, liveness: Liveness, ordinary: DeletionTime, shadowable: DeletionTime) -> Row {
    let mut row = Row::empty(Clustering::new([number.to_be_bytes().to_vec().into()]));
    (row.liveness, row.deletion, row.shadowable_deletion) = (liveness, ordinary, shadowable);
    row
}

const EARLY: DeletionTime = DeletionTime::new(5_000, 100);
const LATE: DeletionTime = DeletionTime::new(7_000, 200);
const NONE: DeletionTime = DeletionTime::LIVE;

fn table() -> Arc<TableMetadata> {
    let builder = TableBuilder::new("ks", "view", TableId(uuid::Uuid::nil()));
    Arc::new(builder.partition_key("k", CqlType::Int).clustering("c", CqlType::Int, false).build())
}

/// Writes the rows and reads them again.
fn through_a_file(version: Version, rows: &[Row]) -> Vec<Row> {
    let table = table();
    let key = DecoratedKey::new(1i32.to_be_bytes().to_vec().into());
    let header = PartitionHeader { key, deletion: NONE, static_row: None };
    let unfiltereds = rows.iter().cloned().map(Unfiltered::Row).collect();
    let partitions = [Partition { header, unfiltereds }];
    block_on(async {
        let file_system = FileSystem::simulated(3);
        let directory = Path::new("/data/ks/view");
        file_system.create_dir_all(directory).await.unwrap();
        let id = SSTableId::Generation(1.try_into().unwrap());
        let descriptor = Descriptor::new(directory, version.features().unwrap(), id);
        let options = options(descriptor.clone(), &table, &partitions, ChunkFormat::PLAIN, 1024);
        write(&file_system, options, &partitions).await.unwrap();
        let cache = PageCache::new(1 << 20);
        let opened = SSTableReader::open(&file_system, descriptor, Some(table), &cache);
        let reader = opened.await.unwrap();
        let stats = &reader.statistics().stats;
        assert_eq!((stats.min_timestamp, stats.max_timestamp), (5_000, 7_000), "{version}");
        let mut partitions = content(&reader).await.unwrap();
        let (_, unfiltereds) = partitions.remove(0);
        unfiltereds
            .into_iter()
            .map(|unfiltered| match unfiltered {
                Unfiltered::Row(row) => row,
                Unfiltered::Marker(marker) => panic!("{marker:?}"),
            })
            .collect()
    })
}

fn rows() -> [Row; 4] {
    let live = Liveness::live(6_000);
    [
        row(1, Liveness::NONE, NONE, EARLY),
        row(2, live, NONE, LATE),
        row(3, live, EARLY, LATE),
        row(4, live, EARLY, NONE),
    ]
}

#[test]
fn files_of_scylla_hold_both() {
    for version in [Version::ME, Version::MT] {
        assert_eq!(through_a_file(version, &rows()), rows(), "{version}");
    }
}

/// These versions can store one deletion of a row. Of two deletions, the later one is kept, as an
/// ordinary deletion.
#[test]
fn files_of_cassandra_hold_one() {
    let mut expected = rows();
    (expected[2].deletion, expected[2].shadowable_deletion) = (LATE, NONE);
    for version in [Version::DA, Version::OA, Version::NB] {
        assert_eq!(through_a_file(version, &rows()), expected, "{version}");
    }
}

#[test]
fn both_dumps_print_shadowable_deletions() {
    let table = table();
    let lines = |row: &Row| {
        let unfiltered = Unfiltered::Row(row.clone());
        let raw = Dump { table: &table, full_values: false }.unfiltered(&unfiltered);
        let mut readable = Vec::new();
        ReadableDump::new(table.clone(), false).write_unfiltered(&unfiltered, &mut readable);
        [raw, String::from_utf8(readable).unwrap()]
    };
    let [alone, _, both, ordinary] = rows();
    for line in lines(&alone) {
        assert!(line.contains(r#","deleted":{"ts":5000,"ldt":100},"shadowable":true"#), "{line}");
    }
    for line in lines(&both) {
        let expected =
            r#","deleted":{"ts":5000,"ldt":100},"shadowable_deleted":{"ts":7000,"ldt":200}"#;
        assert!(line.contains(expected), "{line}");
    }
    assert!(lines(&ordinary).iter().all(|line| !line.contains("shadowable")));
}
