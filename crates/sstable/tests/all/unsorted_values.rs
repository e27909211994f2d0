//! Checks that verification reports unsorted sets and maps in one cell or key, because a look-up of
//! an equal value does not find an unsorted one.

use crate::support;

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, DeletionTime, Liveness, PartitionHeader, Row,
    Unfiltered,
    schema::{TableBuilder, TableId},
};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{SSTableWriter, WriterOptions, verify::verify};
use espalier_types::{CqlType, collection};
use support::{block_on, writing::descriptor};

fn set_of_ints() -> CqlType {
    CqlType::Set { element: Arc::new(CqlType::Int), frozen: true }
}

fn set(elements: &[i32]) -> Bytes {
    collection::list_of(elements.iter().map(|element| element.to_be_bytes()))
}

/// Returns the problems that verification finds in a file of one partition with this key,
/// clustering and cell.
async fn problems(key: Bytes, clustering: Bytes, value: Bytes) -> Vec<String> {
    let tuple = CqlType::Tuple([set_of_ints()].into());
    let table = TableBuilder::new("ks", "t", TableId(uuid::Uuid::from_u128(1)))
        .partition_key("k", set_of_ints())
        .clustering("c", set_of_ints(), false)
        .regular("v", tuple)
        .build();
    let column = table.column("v").unwrap().id;
    let file_system = FileSystem::simulated(5);
    file_system.create_dir_all("/data/ks/t").await.unwrap();
    let descriptor = descriptor(Path::new("/data/ks/t"), 1);
    let options = WriterOptions::for_table(descriptor.clone(), Arc::new(table)).unwrap();
    let mut writer = SSTableWriter::create(&file_system, options).await.unwrap();
    let (key, deletion) = (DecoratedKey::new(key), DeletionTime::LIVE);
    writer.start_partition(PartitionHeader { key, deletion, static_row: None }).unwrap();
    let mut row = Row::empty(Clustering::new([clustering]));
    row.liveness = Liveness::live(10);
    row.columns.push((column, ColumnData::Simple(Cell::live(10, value))));
    writer.add(Unfiltered::Row(row)).await.unwrap();
    writer.end_partition().await.unwrap();
    writer.finish().await.unwrap().unwrap();
    let report = verify(&file_system, &descriptor).await.unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn unsorted_sets_are_findings_that_name_key_and_column() {
    let in_tuple = |elements: &[i32]| collection::tuple_of([Some(set(elements))]);
    block_on(async {
        let none = problems(set(&[1, 3]), set(&[-1, 0]), in_tuple(&[1, 2])).await;
        assert!(none.is_empty(), "{none:?}");
        for (key, clustering, value, severity, column) in [
            (&[3, 1][..], &[1][..], &[1][..], "failure", "column k"),
            (&[1, 1], &[1], &[1], "failure", "column k"),
            (&[1, 3], &[2, 1], &[1], "failure", "column c"),
            // Cassandra also stores this value as the client sent it.
            (&[1, 3], &[1], &[2, 1], "warning", "column v"),
        ] {
            let found = problems(set(key), set(clustering), in_tuple(value)).await;
            let [problem] = found.as_slice() else { panic!("{found:?}") };
            assert!(problem.starts_with(severity), "{problem}");
            let key = set(key).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            for part in [column, &format!("key 0x{key}"), "a set or map is not sorted"] {
                assert!(problem.contains(part), "{problem}");
            }
        }
    });
}
