//! Threads that read a memtable while its shard writes to it see each write to a partition as a
//! whole or not at all.
// The threads of an embedder are not the runtime's.
#![allow(clippy::disallowed_methods)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use espalier_memtable::MemtableReader;
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, DeletionTime, Direction, Mutation, PartitionUpdate,
    RangeTombstone,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_runtime::{
    file::FileSystem,
    random::Generator,
    time::{self, Instant},
};
use espalier_storage::{MemtableKind, Structure};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::*;

const ROWS: i32 = 40;

/// Returns an update that deletes the previous content, and writes all rows of a version but every
/// fifth.
fn version_of(wide: &TableMetadata, version: i64) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(wide.id, key("p"));
    let value = version.to_string();
    for number in 0..ROWS {
        if (i64::from(number) + version) % 5 != 0 {
            update.rows.push(row(wide, Some(number), 2 * version, &[("v", &value)]));
        }
    }
    let deletion = DeletionTime::new(2 * version - 1, NOW);
    if version % 2 == 0 {
        update.deletion = deletion;
    } else {
        let bound = |kind, number| ClusteringBound { kind, values: [Some(int(number))].into() };
        update.range_tombstones.push(RangeTombstone {
            start: bound(BoundKind::InclusiveStart, 0),
            end: bound(BoundKind::InclusiveEnd, ROWS),
            deletion,
        });
    }
    update
}

/// Reads until `is_over` is set. Adds the versions that it sees to `seen`.
fn read(
    reader: &MemtableReader,
    wide: &TableMetadata,
    is_over: &AtomicBool,
    seed: u64,
    seen: &AtomicUsize,
) {
    let mut random = Generator::from_seed(seed);
    let mut last = 0;
    while !is_over.load(Ordering::Relaxed) {
        let snapshot = reader.partition(&key("p")).unwrap().unwrap();
        let direction = if random.below(2) == 0 { Direction::Forward } else { Direction::Reverse };
        let mut first = None;
        // A snapshot returns the same rows again, however much was written meanwhile.
        for _ in 0..1 + random.below(3) {
            let rows: Vec<_> = snapshot.rows(direction).map(Result::unwrap).collect();
            assert_eq!(rows.len() as i32, ROWS - ROWS / 5);
            let version = text(wide, &rows[0], "v").unwrap();
            for row in &rows {
                assert_eq!(text(wide, row, "v").as_ref(), Some(&version));
            }
            let number: i64 = version.parse().unwrap();
            assert_eq!(*first.get_or_insert(number), number);
            let gone = i32::try_from((5 - number % 5) % 5).unwrap();
            assert!(snapshot.row(&Clustering::new([int(gone)])).unwrap().is_none());
            assert!(snapshot.row(&Clustering::new([int(gone + 1)])).unwrap().is_some());
        }
        let version = first.unwrap();
        assert!(version >= last, "version {version} after {last}");
        seen.fetch_add((version > last).into(), Ordering::Relaxed);
        last = version;
    }
}

#[test]
fn a_write_is_seen_wholly_or_not_at_all() {
    for shards in [1, 3] {
        with_memtables(MemtableKind { structure: Structure::Trie, shards }, || {
            let file_system = FileSystem::simulated(1);
            run(async {
                let database = open(&file_system, configuration()).await.unwrap();
                create(&database, vec![wide_table()]).await;
                let wide = table(&database, "wide");
                let write = async |version| {
                    let updates = vec![version_of(&wide, version)];
                    database.apply(Mutation { updates }).await.unwrap();
                };
                write(1).await;
                let reader = database.store().memtable_reader(&wide).unwrap();
                let is_over = Arc::new(AtomicBool::new(false));
                let seen: Arc<[AtomicUsize; 3]> = Arc::default();
                let readers: Vec<_> = (0..3usize)
                    .map(|number| {
                        let (reader, wide) = (reader.clone(), wide.clone());
                        let (is_over, seen) = (is_over.clone(), seen.clone());
                        let seed = number as u64;
                        thread::spawn(move || read(&reader, &wide, &is_over, seed, &seen[number]))
                    })
                    .collect();
                drop(reader);
                let began = Instant::now();
                let mut version = 1;
                while version < 300 || (began.elapsed().as_secs() < 1 && version < 20_000) {
                    version += 1;
                    write(version).await;
                }
                // Other processes may have the core of a reader for a while.
                let is_unseen = || seen.iter().any(|seen| seen.load(Ordering::Relaxed) <= 3);
                while is_unseen() && began.elapsed().as_secs() < 60 {
                    time::sleep(Duration::from_millis(10)).await;
                    version += 1;
                    write(version).await;
                }
                is_over.store(true, Ordering::Relaxed);
                for reader in readers {
                    reader.join().unwrap();
                }
                assert!(!is_unseen(), "{seen:?} versions were seen");
                // The memory that the readers held is freed, and total memory is as without
                // readers.
                write(version + 1).await;
                let memory = database.store().memtable_memory("ks", "wide").unwrap();
                assert!(memory.structure_bytes < 64 << 10, "{memory:?}");
            });
        });
    }
}

#[test]
fn single_row_partitions_are_whole_too() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let narrow = TableBuilder::new("ks", "narrow", TableId(Uuid::from_u128(0xa2)))
            .partition_key("k", CqlType::Blob)
            .regular("v", CqlType::Blob)
            .regular("w", CqlType::Blob);
        create(&database, vec![narrow.build()]).await;
        let narrow = table(&database, "narrow");
        let newest = Arc::new(AtomicI64::new(0));
        let write = async |version: i64| {
            // Even versions delete the partition and write it again in one update. Every third
            // version writes its columns one by one.
            let value = version.to_string();
            let mut update = PartitionUpdate::new(narrow.id, key("p"));
            let columns = [("v", value.as_str()), ("w", &value)];
            let size = if version % 3 == 0 { 1 } else { 2 };
            for columns in columns.chunks(size) {
                update.rows.push(row(&narrow, None, 2 * version, columns));
            }
            if version % 2 == 0 {
                update.deletion = DeletionTime::new(2 * version - 1, NOW);
            }
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
            newest.store(version, Ordering::Release);
        };
        write(1).await;
        let reader = database.store().memtable_reader(&narrow).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let reads = Arc::new(AtomicUsize::new(0));
        let thread = {
            let (narrow, is_over, newest) = (narrow.clone(), is_over.clone(), newest.clone());
            let reads = reads.clone();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let least = newest.load(Ordering::Acquire);
                    let snapshot = reader.partition(&key("p")).unwrap().unwrap();
                    let row = snapshot.row(&Clustering::empty()).unwrap().unwrap();
                    let version: i64 = text(&narrow, &row, "v").unwrap().parse().unwrap();
                    assert!(version >= least);
                    assert_eq!(text(&narrow, &row, "w"), text(&narrow, &row, "v"));
                    let deleted = snapshot.header().deletion.marked_for_delete_at;
                    assert!(deleted < 2 * version && (version == 1 || deleted >= 2 * version - 3));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let began = Instant::now();
        let mut version = 1;
        while version < 1000 || (began.elapsed().as_secs() < 1 && version < 100_000) {
            version += 1;
            write(version).await;
        }
        // Other processes may have the core of the reader for a while.
        let is_unread = || reads.load(Ordering::Relaxed) <= 10;
        while is_unread() && began.elapsed().as_secs() < 60 {
            time::sleep(Duration::from_millis(10)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert!(!is_unread());
    });
}
