use std::rc::Rc;

use bytes::Bytes;
use espalier_memtable::{Memtable, MemtableBudget, MemtableKind};
use espalier_mutation::{put_entry_value, schema::TableMetadata};
use espalier_runtime::{ShardContext, block_on, file::FileSystem};
use espalier_sstable::{SSTable, SecondaryIndexWriter};
use espalier_types::{CqlType, byte_comparable::TERMINATOR};

use super::*;
use crate::{
    FormBound, IndexTerm,
    table::TableView,
    test_database::{index_of, open_sstable, table_builder, write_sstable},
};

const INDEX: &str = "by_v";
/// The form of the value of each entry.
const FORM: &[u8] = b"form";

/// Returns the only row of each SSTable.
fn row() -> (DecoratedKey, Clustering) {
    let key = DecoratedKey::new(Bytes::from_static(b"key"));
    (key, Clustering::new([Bytes::from_static(&[0, 0, 0, 1])]))
}

/// Returns the entry of the row.
fn entry_of_row(table: &TableMetadata) -> Vec<u8> {
    let ((key, clustering), mut entry) = (row(), Vec::new());
    put_entry_value(FORM, &mut entry);
    path::put_partition(key.borrowed(), &mut entry);
    path::put_row(table.comparator(), &clustering.values, &mut entry);
    entry
}

/// Writes an SSTable whose component of the index has this entry.
async fn sstable(table: &Arc<TableMetadata>, entry: &[u8]) -> Rc<SSTable> {
    let (file_system, (key, clustering)) = (FileSystem::simulated(1), row());
    let mut writer = write_sstable(&file_system, table, &key, clustering, &[0; 4]).await;
    let signature = table.index(INDEX).unwrap().signature(table);
    let descriptor = writer.descriptor();
    let index = SecondaryIndexWriter::create(&file_system, descriptor, INDEX, &signature, true);
    let mut index = index.await.unwrap();
    index.add(entry).unwrap();
    writer.add_secondary_index(index).await.unwrap();
    open_sstable(&file_system, table, writer).await
}

#[test]
fn a_malformed_entry_condemns_only_the_sstable_that_has_it() {
    let builder = table_builder("t", 1).partition_key("k", CqlType::Blob);
    let builder = builder.clustering("c", CqlType::Int, false).regular("v", CqlType::Int);
    let table = Arc::new(builder.indexes(vec![index_of(INDEX, "v")]).build());
    let good = entry_of_row(&table);
    let mut cut = good[..good.len() - 3].to_vec();
    cut.push(TERMINATOR);
    let bound = || Some(FormBound { form: FORM.to_vec(), inclusive: true });
    let searches = [
        IndexValues::OneOf(vec![FORM.to_vec()]),
        IndexValues::Between { lower: bound(), upper: bound() },
    ];
    block_on(async {
        for values in searches {
            let sstables = [sstable(&table, &good).await, sstable(&table, &cut).await];
            let (core, budget) = (ShardContext { index: 0, count: 1 }, MemtableBudget::new(0, 0));
            let memtable = Memtable::new(&table, MemtableKind::default(), core, budget);
            let view = TableView::new(Rc::new(memtable)).with_sstables(sstables.iter().cloned());
            let access = TableAccess { view: &Rc::new(view), cache: None, empty: None };
            let target = ReadTarget::Range(KeyRange::full());
            let command = ReadCommand::of_all(table.clone(), target, 1);
            let search = IndexSearch { terms: vec![IndexTerm { index: INDEX.into(), values }] };
            let (own, mut remaining) = (KeyRange::full(), Remaining::of(&command.limits));
            let read = read_indexed(access, &command, &search, &own, &mut remaining).await;
            assert!(matches!(read, Ok(Indexed::Scan { .. })));
            let damaged = sstables.map(|sstable| sstable.reader().forgotten_secondary_indexes());
            assert_eq!(damaged, [0, 1]);
        }
    });
}

#[test]
fn a_read_takes_few_places_of_a_long_partition_at_once() {
    let place = |partition: u8, row: u16| [&[partition][..], &row.to_be_bytes()].concat();
    let mut places: Vec<Vec<u8>> = (0..600).map(|row| place(1, row)).collect();
    places.extend((0..3).map(|row| place(2, row)));
    let (mut rest, mut counts) = (places.as_slice(), Vec::new());
    while let Some(first) = rest.first() {
        let count = count_within(&first[..1], rest);
        counts.push(count);
        rest = &rest[count..];
    }
    assert_eq!(counts, [PLACES_AT_ONCE, PLACES_AT_ONCE, 600 - 2 * PLACES_AT_ONCE, 3]);
}
