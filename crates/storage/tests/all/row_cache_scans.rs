//! Scans of small tables read files once, and then only memory, also after flushes. To check this,
//! the tests make the files unreadable.

use std::sync::Arc;

use espalier_mutation::{KeyBound, KeyRange, Token, schema::TableMetadata};
use espalier_runtime::file::{
    FileSystem, Operation,
    simulated::{Effect, Fault, SimulatedDisk},
};
use espalier_storage::{Node, ReadCommand, ReadResult, ReadTarget};

use crate::{model::read_in_pages, row_cache::settings, support::*};

/// Makes data and indexes unreadable.
fn break_files(disk: &SimulatedDisk) {
    for part in ["Data.db", "Partitions.db", "Rows.db"] {
        disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path(part));
    }
}

async fn write(database: &Node, table: &TableMetadata, partitions: std::ops::Range<u32>) {
    let has_rows = !table.clustering_columns().is_empty();
    for at in partitions {
        for row in 0..if has_rows { 5 } else { 1 } {
            let clustering = has_rows.then_some(row);
            let insert = insert(table, &format!("p{at}"), clustering, 10, &[("v", "x")]);
            database.apply(insert).await.unwrap();
        }
    }
}

fn rows(result: &ReadResult) -> usize {
    result.partitions.iter().map(|partition| partition.rows.len()).sum()
}

fn scan(table: &Arc<TableMetadata>) -> ReadCommand {
    command(table, ReadTarget::Range(KeyRange::full()))
}

/// Runs `check` with a table of 100 partitions in one file.
fn with_table(
    definition: fn() -> TableMetadata,
    cache_bytes: usize,
    check: impl AsyncFn(Node, Arc<TableMetadata>, SimulatedDisk),
) {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let mut settings = settings(cache_bytes);
        // With this limit only rows stay in memory.
        settings.caches.page_cache_bytes = cache_bytes;
        let database = open(&file_system, settings).await.unwrap();
        let definition = definition();
        let name = definition.name.clone();
        create(&database, vec![definition]).await;
        let table = table(&database, &name);
        write(&database, &table, 0..100).await;
        database.flush("ks", None).await.unwrap();
        check(database, table, disk).await;
    });
}

#[test]
fn the_second_scan_reads_no_file() {
    for definition in [narrow_table, wide_table] {
        with_table(definition, 1 << 20, async |database, table, disk| {
            let first = database.read(scan(&table)).await.unwrap();
            break_files(&disk);
            assert!(
                database.read(ReadCommand { bypass_cache: true, ..scan(&table) }).await.is_err()
            );
            let again = database.read(scan(&table)).await.unwrap();
            assert_eq!((&again.partitions, &again.next), (&first.partitions, &first.next));
            assert_eq!(read_in_pages(&database, scan(&table), 7).await, first.partitions);
            // A part of the range, and keys that are in no file.
            let key = first.partitions[40].key.clone();
            let range =
                KeyRange { start: KeyBound::BeforeToken(key.token), end: KeyBound::Unbounded };
            let part = command(&table, ReadTarget::Range(range));
            assert_eq!(database.read(part).await.unwrap().partitions, first.partitions[40..]);
            let misses = database.store().row_cache().metrics().reads_with_misses;
            assert!(read_partition(&database, &table, "absent").await.is_none());
            assert_eq!(database.store().row_cache().metrics().reads_with_misses, misses);
        });
    }
}

#[test]
fn a_paged_scan_is_cached_like_an_unpaged_one() {
    for definition in [narrow_table, wide_table] {
        for page in [1, 3, 5, 64] {
            with_table(definition, 1 << 20, async |database, table, disk| {
                let first = read_in_pages(&database, scan(&table), page).await;
                assert_eq!(first.len(), 100);
                break_files(&disk);
                assert_eq!(database.read(scan(&table)).await.unwrap().partitions, first);
            });
        }
    }
}

/// Each requested range leaves an entry at each of its ends.
#[test]
fn a_scan_passes_many_adjacent_range_ends() {
    with_table(narrow_table, 1 << 20, async |database, table, disk| {
        let expected = database.read(scan(&table)).await.unwrap();
        database.forget_cached_rows().await;
        let token = expected.partitions[40].key.token.0;
        let bound = |at| KeyBound::BeforeToken(Token(token + 1 + at));
        for at in 0..2500 {
            let range = KeyRange { start: bound(at), end: bound(at + 1) };
            let part = command(&table, ReadTarget::Range(range));
            assert!(database.read(part).await.unwrap().partitions.is_empty());
        }
        assert_eq!(database.read(scan(&table)).await.unwrap(), expected);
        // A row that is only in the memtable lies between the entries as well.
        let insert = insert(&table, "m", None, 10, &[("v", "x")]);
        database.apply(insert).await.unwrap();
        let around = ReadCommand { bypass_cache: true, ..scan(&table) };
        let expected = database.read(around).await.unwrap();
        break_files(&disk);
        assert_eq!(database.read(scan(&table)).await.unwrap(), expected);
        assert_eq!(read_in_pages(&database, scan(&table), 7).await, expected.partitions);
    });
}

#[test]
fn flushed_rows_are_continuous_in_the_row_cache() {
    for definition in [narrow_table, wide_table] {
        with_table(definition, 1 << 20, async |database, table, disk| {
            database.read(scan(&table)).await.unwrap();
            write(&database, &table, 50..200).await;
            database.flush("ks", None).await.unwrap();
            let expected = database.read(ReadCommand { bypass_cache: true, ..scan(&table) }).await;
            break_files(&disk);
            let got = database.read(scan(&table)).await.unwrap();
            assert_eq!((got.partitions.len(), &got), (200, &expected.unwrap()));
        });
    }
}

#[test]
fn an_evicted_partition_is_read_from_files_again() {
    with_table(narrow_table, 1 << 20, async |database, table, _| {
        let expected = database.read(scan(&table)).await.unwrap();
        let used = database.store().row_cache().metrics().used_bytes as usize;
        database.store().row_cache().set_limit(used * 9 / 10);
        database.store().row_cache().set_limit(1 << 20);
        let before = database.store().row_cache().metrics();
        assert!((1..100).contains(&before.partitions), "{before:?}");
        assert_eq!(database.read(scan(&table)).await.unwrap(), expected);
        let after = database.store().row_cache().metrics();
        assert!(after.reads_with_misses > before.reads_with_misses, "{after:?}");
        assert_eq!((after.partitions, after.rows), (100, 100));
    });
}

#[test]
fn a_scan_does_not_keep_a_large_table_nor_count_as_a_use() {
    // A hundred partitions of five rows are estimated at 55 kB, more than a 16th of this cache.
    with_table(wide_table, 512 << 10, async |database, table, _| {
        let before = database.store().row_cache().metrics();
        assert_eq!(rows(&database.read(scan(&table)).await.unwrap()), 500);
        assert_eq!(database.store().row_cache().metrics(), before);
        // A partition that another read has cached does not help a scan that lacks its
        // surroundings.
        read_partition(&database, &table, "p7").await.unwrap();
        let before = database.store().row_cache().metrics();
        assert_eq!(rows(&database.read(scan(&table)).await.unwrap()), 500);
        assert_eq!(database.store().row_cache().metrics(), before);
    });
}

#[test]
fn a_flush_evicts_no_rows_for_partitions_that_were_not_read() {
    with_table(narrow_table, 600 << 10, async |database, table, _| {
        database.read(scan(&table)).await.unwrap();
        write(&database, &table, 100..12_000).await;
        database.flush("ks", None).await.unwrap();
        let metrics = database.store().row_cache().metrics();
        assert_eq!((metrics.row_evictions, metrics.partition_evictions), (0, 0), "{metrics:?}");
        assert!(metrics.partitions > 500, "{metrics:?}");
        assert_eq!(rows(&database.read(scan(&table)).await.unwrap()), 12_000);
    });
}

#[test]
fn many_keys_that_are_in_no_file_are_passed_in_steps() {
    for definition in [narrow_table, wide_table] {
        with_table(definition, 1 << 20, async |database, table, disk| {
            for at in 0..1000 {
                assert!(read_partition(&database, &table, &format!("no{at}")).await.is_none());
            }
            let first = database.read(scan(&table)).await.unwrap();
            break_files(&disk);
            let again = database.read(scan(&table)).await.unwrap();
            assert_eq!((&again.partitions, &again.next), (&first.partitions, &first.next));
            assert_eq!(read_in_pages(&database, scan(&table), 7).await, first.partitions);
            assert!(read_partition(&database, &table, "nobody").await.is_none());
        });
    }
}
