//! The memory of the row cache stays within its limit, whatever readers hold and flushes add.

use std::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};

use espalier_mutation::{
    Cell, Clustering, ClusteringBound, ColumnData, DeletionTime, Liveness, Mutation,
    PartitionUpdate, RangeTombstone, Row,
    counter::{self, CounterShard},
    schema::TableMetadata,
};
use espalier_runtime::{file::FileSystem, preempt};
use espalier_storage::{Node, ReadLimits, ReadTarget};

use crate::{
    row_cache::{compare, settings},
    support::*,
};

async fn insert_rows(
    database: &Node,
    table: &TableMetadata,
    rows: std::ops::Range<i32>,
    timestamp: i64,
    length: usize,
) {
    let value = "v".repeat(length);
    for at in rows {
        let update = insert(table, "p", Some(at), timestamp, &[("v", &value)]);
        database.apply(update).await.unwrap();
    }
}

#[test]
fn two_caches_of_a_thread_have_an_account_each() {
    let file_systems = [FileSystem::simulated(1), FileSystem::simulated(2)];
    run(async {
        let mut databases = Vec::new();
        for file_system in &file_systems {
            let database = open(file_system, settings(8 << 20)).await.unwrap();
            database.store().row_cache().set_limit(1 << 20);
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            insert_rows(&database, &wide, 0..300, 1, 2000).await;
            database.flush("ks", None).await.unwrap();
            databases.push((database, wide));
        }
        for (database, wide) in &databases {
            assert!(database.store().row_cache().metrics().used_bytes < 10_000);
            read_partition(database, wide, "p").await.unwrap();
            let metrics = database.store().row_cache().metrics();
            assert!((600_000..800_000).contains(&metrics.used_bytes), "{metrics:?}");
            assert_eq!((metrics.rows, metrics.row_evictions), (300, 0), "{metrics:?}");
        }
        for (database, _) in databases {
            database.shutdown().await.unwrap();
        }
    });
}

#[test]
fn evicted_rows_that_a_reader_keeps_count_as_used() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(8 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..400, 1, 2000).await;
        database.flush("ks", None).await.unwrap();
        read_partition(&database, &wide, "p").await.unwrap();
        assert!(database.store().row_cache().metrics().used_bytes > 800_000);
        {
            preempt::force_yields(Some(1));
            let mut reading = pin!(read_partition(&database, &wide, "p"));
            for _ in 0..20 {
                let polled = reading.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending());
            }
            preempt::force_yields(None);
            database.store().row_cache().set_limit(400_000);
            let metrics = database.store().row_cache().metrics();
            assert!((20..200).contains(&metrics.row_evictions), "{metrics:?}");
            assert!(metrics.used_bytes > 800_000, "the reader has them still: {metrics:?}");
            assert_eq!(reading.await.unwrap().rows.len(), 400);
        }
        database.store().row_cache().set_limit(1000);
        assert!(database.store().row_cache().metrics().used_bytes <= 1000);
    });
}

#[test]
fn rows_that_grow_by_flushes_do_not_pass_the_limit() {
    const LIMIT: usize = 1 << 20;
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(LIMIT)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..2000, 1, 40).await;
        database.flush("ks", None).await.unwrap();
        let target = ReadTarget::Partition(key("p"));
        let all = command(&wide, target);
        compare(&database, &all, 1000, "small rows").await;
        insert_rows(&database, &wide, 0..100, 2, 60_000).await;
        database.flush("ks", None).await.unwrap();
        let metrics = database.store().row_cache().metrics();
        assert!(metrics.row_merges == 100 && metrics.used_bytes <= LIMIT as u64, "{metrics:?}");
        compare(&database, &all, 1000, "some large rows").await;
    });
}

/// Flushes add rows below headers that no reader uses. The headers become the oldest entries, and
/// cannot be evicted before their rows. Younger entries are evicted all the same.
#[test]
fn headers_that_are_older_than_their_rows_do_not_stop_the_hand() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(96 << 10)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let name = |at: i32| format!("partition {at}");
        for at in 0..300 {
            let row = insert(&wide, &name(at), Some(0), 1, &[("v", "first")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        for at in 0..300 {
            read_partition(&database, &wide, &name(at)).await.unwrap();
        }
        for at in 0..300 {
            let row = insert(&wide, &name(at), Some(1), 1, &[("v", "second")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        for at in 1000..3000 {
            let row = insert(&wide, &name(at), Some(0), 1, &[("v", "third")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        for at in 1000..3000 {
            read_partition(&database, &wide, &name(at)).await.unwrap();
            let before = database.store().row_cache().metrics();
            read_partition(&database, &wide, &name(at)).await.unwrap();
            let after = database.store().row_cache().metrics();
            // The earlier flushes have used up the free room.
            if at < 1010 {
                continue;
            }
            assert_eq!(
                after.reads_without_misses,
                before.reads_without_misses + 1,
                "{at} {after:?}"
            );
        }
    });
}

/// Deleted shares of a counter do not come back with shares that a flush adds. As in a merge of
/// files, all deletions apply before shares are merged.
#[test]
fn deleted_shares_of_counters_stay_deleted() {
    let shares = |table: &TableMetadata, id: u8, timestamp: i64| {
        let cell = || {
            let share = CounterShard { id: [id; 16], clock: 1, count: 10 };
            ColumnData::Simple(Cell::live(timestamp, counter::build(&[share])))
        };
        let mut update = PartitionUpdate::new(table.id, key("p"));
        for at in 0..4 {
            let mut row = Row::empty(Clustering::new([int(at)]));
            row.columns.push((table.column("n").unwrap().id, cell()));
            update.rows.push(row);
        }
        let mut row = Row::empty(Clustering::empty());
        row.columns.push((table.column("all").unwrap().id, cell()));
        update.static_row = Some(row);
        update
    };
    for is_range in [false, true] {
        for is_one_flush in [false, true] {
            let file_system = FileSystem::simulated(1);
            run(async {
                let database = open(&file_system, settings(1 << 20)).await.unwrap();
                create(&database, vec![counter_table()]).await;
                let counts = table(&database, "counts");
                let all = command(&counts, ReadTarget::Partition(key("p")));
                let context = format!("by range {is_range}, in one flush {is_one_flush}");
                let first = Mutation { updates: vec![shares(&counts, 1, 5)] };
                database.apply(first).await.unwrap();
                database.flush("ks", None).await.unwrap();
                compare(&database, &all, 3, &context).await;
                let mut deletion = PartitionUpdate::new(counts.id, key("p"));
                if is_range {
                    deletion.range_tombstones.push(RangeTombstone {
                        start: ClusteringBound::bottom(),
                        end: ClusteringBound::top(),
                        deletion: DeletionTime::new(10, NOW),
                    })
                } else {
                    deletion.deletion = DeletionTime::new(10, NOW)
                }
                database.apply(Mutation { updates: vec![deletion] }).await.unwrap();
                if !is_one_flush {
                    database.flush("ks", None).await.unwrap();
                }
                let second = Mutation { updates: vec![shares(&counts, 2, 20)] };
                database.apply(second).await.unwrap();
                database.flush("ks", None).await.unwrap();
                compare(&database, &all, 3, &context).await;
                let metrics = database.store().row_cache().metrics();
                assert!(metrics.row_merges + metrics.row_insertions > 4, "{metrics:?}");
            });
        }
    }
}

/// Rule 18 of docs/cache.md, for each way in which rows enter the cache.
#[test]
fn rows_beyond_a_16th_of_the_cache_are_not_kept() {
    const LARGE: usize = 100_000;
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table(), narrow_table()]).await;
        let (wide, narrow) = (table(&database, "wide"), table(&database, "narrow"));
        let large = "v".repeat(LARGE);
        let write = async |table: &TableMetadata, partition, clustering, timestamp, value: &str| {
            let insert = insert(table, partition, clustering, timestamp, &[("v", value)]);
            database.apply(insert).await.unwrap();
        };
        let write_static = async |partition, timestamp| {
            let mut update = PartitionUpdate::new(wide.id, key(partition));
            let mut row = row(&wide, None, timestamp, &[("s", &large)]);
            row.liveness = Liveness::NONE;
            update.static_row = Some(row);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
        };
        let compare_all = async |table, context: &str| {
            database.flush("ks", None).await.unwrap();
            for partition in ["p", "q", "r", "s"] {
                let command = command(table, ReadTarget::Partition(key(partition)));
                compare(&database, &command, 1, context).await;
            }
            let metrics = database.store().row_cache().metrics();
            assert!(metrics.used_bytes < LARGE as u64 / 2, "{context}: {metrics:?}");
            metrics.rows
        };
        write(&narrow, "p", None, 1, &large).await;
        write(&narrow, "q", None, 1, "small").await;
        let rows = compare_all(&narrow, "a partition of one row that is read").await;
        assert_eq!(rows, 1);
        write(&narrow, "r", None, 2, &large).await;
        compare_all(&narrow, "one that is flushed where it was known that there is none").await;
        write(&narrow, "q", None, 2, &large).await;
        let rows = compare_all(&narrow, "one that grows by a flush").await;
        assert_eq!(rows, 0);

        write(&wide, "p", Some(1), 1, &large).await;
        write(&wide, "p", Some(2), 1, "small").await;
        write(&wide, "q", Some(1), 1, "small").await;
        let rows = compare_all(&wide, "a row that is read").await;
        assert_eq!(rows, 2);
        write(&wide, "q", Some(2), 2, &large).await;
        let rows = compare_all(&wide, "a row that is flushed into a known range").await;
        assert_eq!(rows, 2);
        write(&wide, "q", Some(1), 3, &large).await;
        let rows = compare_all(&wide, "a row that grows by a flush").await;
        assert_eq!(rows, 1);
        write_static("r", 1).await;
        compare_all(&wide, "a static row that is flushed").await;
        write_static("s", 1).await;
        write(&wide, "s", Some(1), 1, "small").await;
        database.flush("ks", None).await.unwrap();
        database.forget_cached_rows().await;
        compare_all(&wide, "a static row that is read").await;
        database.shutdown().await.unwrap();
    });
}

/// A cached static row stays if the limit is lowered and the row exceeds a 16th of it. Only a flush
/// that makes the row larger has an effect: the cache forgets the table.
#[test]
fn static_rows_that_have_become_too_large_stay_until_they_grow() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        let write_static = async |length, timestamp| {
            let mut update = PartitionUpdate::new(wide.id, key("p"));
            let value = "v".repeat(length);
            let mut row = row(&wide, None, timestamp, &[("s", &value)]);
            row.liveness = Liveness::NONE;
            update.static_row = Some(row);
            database.apply(Mutation { updates: vec![update] }).await.unwrap();
            database.flush("ks", None).await.unwrap();
        };
        let misses_of_another = async || {
            let before = database.store().row_cache().metrics().reads_with_misses;
            assert_eq!(read_partition(&database, &wide, "q").await.unwrap().rows.len(), 1);
            database.store().row_cache().metrics().reads_with_misses - before
        };
        write_static(50_000, 1).await;
        let other = insert(&wide, "q", Some(1), 1, &[("v", "x")]);
        database.apply(other).await.unwrap();
        insert_rows(&database, &wide, 0..1, 1, 10).await;
        database.flush("ks", None).await.unwrap();
        let all = command(&wide, ReadTarget::Partition(key("p")));
        compare(&database, &all, 1, "before").await;
        misses_of_another().await;
        assert_eq!(misses_of_another().await, 0);

        // A 16th of the limit is less than the static row.
        database.store().row_cache().set_limit(640 << 10);
        insert_rows(&database, &wide, 1..2, 1, 10).await;
        database.flush("ks", None).await.unwrap();
        assert_eq!(misses_of_another().await, 0, "a flush without a static row");
        compare(&database, &all, 1, "a flush without a static row").await;
        write_static(50_000, 2).await;
        assert_eq!(misses_of_another().await, 0, "a flush with one of the same length");
        compare(&database, &all, 1, "a flush with one of the same length").await;
        write_static(50_001, 3).await;
        assert_eq!(misses_of_another().await, 1, "a flush that makes it larger");
        compare(&database, &all, 1, "a flush that makes it larger").await;
        database.shutdown().await.unwrap();
    });
}

/// Read-ahead of a reader is bounded in bytes even where nothing is added to the cache.
#[test]
fn large_rows_that_may_not_be_added_are_read_few_at_a_time() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(16 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..200, 1, 40_000).await;
        database.flush("ks", None).await.unwrap();
        let mut first_row = command(&wide, ReadTarget::Partition(key("p")));
        first_row.limits = ReadLimits { bytes: 1, ..ReadLimits::NONE };
        let mut polls = 0;
        loop {
            polls += 1;
            let before = database.store().row_cache().metrics().row_misses;
            let mut reading = pin!(database.read(first_row.clone()));
            preempt::force_yields(Some(1));
            let mut context = Context::from_waker(Waker::noop());
            let is_over = (0..polls).any(|_| reading.as_mut().poll(&mut context).is_ready());
            preempt::force_yields(None);
            if is_over {
                break;
            }
            // From here on the read adds nothing.
            database.forget_cached_rows().await;
            assert_eq!(reading.await.unwrap().partitions[0].rows.len(), 1);
            let misses = database.store().row_cache().metrics().row_misses - before;
            assert!((1..10).contains(&misses), "{misses} rows after {polls} polls");
        }
        assert!(polls > 3, "{polls} polls");
        database.shutdown().await.unwrap();
    });
}

/// A header, an entry behind all rows and an entry between rows are not rows.
#[test]
fn forgetting_cached_rows_counts_only_rows() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, settings(1 << 20)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        insert_rows(&database, &wide, 0..100, 1, 10).await;
        database.flush("ks", None).await.unwrap();
        read_partition(&database, &wide, "p").await.unwrap();
        let before = database.store().row_cache().metrics();
        assert_eq!((before.rows, before.row_removals), (100, 0), "{before:?}");
        database.forget_cached_rows().await;
        while database.store().row_cache().metrics().partitions
            + database.store().row_cache().metrics().rows
            > 0
        {
            preempt::yield_now().await;
        }
        assert_eq!(database.store().row_cache().metrics().row_removals, 100);
        database.shutdown().await.unwrap();
    });
}
