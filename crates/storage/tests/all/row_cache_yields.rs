//! The row cache handles very many rows in small steps: when a flush adds them, when a deletion
//! covers them, when they are invalidated or evicted, and when a read skips them.
//!
//! Each case is checked twice. The first check takes every possible yield and counts the rows that
//! change between two turns of the event loop; this number is the same in every run. The second
//! check asks the stall detector how long a task held the core. Its bound is generous because these
//! are not release builds, and the best of several attempts counts because the machine may do other
//! work. `espalier bench cache` measures the same with millions of rows (docs/benchmarks.md).

use std::{future::Future, pin::Pin, rc::Rc, sync::Arc};

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringSlice, ClusteringSlices, DeletionTime, Mutation,
    PartitionUpdate, RangeTombstone, schema::TableMetadata,
};
use espalier_runtime::{
    file::FileSystem,
    preempt::{self, take_stall_report},
    spawn_local,
};
use espalier_storage::{Node, ReadLimits, ReadTarget, RowCacheMetrics};

use crate::{row_cache::settings, support::*};

const ROWS: i32 = 20_000;
/// Returns the number of rows under one range tombstone: in a full run, as many as users reported
/// (scylladb#8626).
fn covered_rows() -> i32 {
    if espalier_testing::runs_all() { 137_000 } else { 30_000 }
}

/// Number of large rows. As many small rows are read without a yield.
const LARGE_ROWS: i32 = 256;
const LARGE_ROW_BYTES: usize = 128 << 10;
/// Number of empty slices. Each leaves two entries in the cache.
const EMPTY_SLICES: i32 = 10_000;

/// Maximum time in µs: ten times the budget of a task.
const MAX_US: u64 = 5_000;
const ATTEMPTS: usize = 8;

/// The work that is watched.
struct Work(Pin<Box<dyn Future<Output = ()>>>);

impl Work {
    fn new(work: impl Future<Output = ()> + 'static) -> Self {
        Self(Box::pin(work))
    }
}

/// A database with a table for partitions of many rows.
struct Fixture {
    database: Node,
    wide: Arc<TableMetadata>,
}

impl Fixture {
    async fn open() -> Self {
        let database = open(&FileSystem::simulated(1), settings(1 << 30)).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        Self { database, wide }
    }

    async fn write(&self, partition: &str, rows: i32, timestamp: i64) {
        let value = format!("value {timestamp}");
        for first in (0..rows).step_by(1000) {
            let mut update = PartitionUpdate::new(self.wide.id, key(partition));
            let some = first..(first + 1000).min(rows);
            let rows = some.map(|at| row(&self.wide, Some(at), timestamp, &[("v", &value)]));
            update.rows.extend(rows);
            self.database.apply(Mutation { updates: vec![update] }).await.unwrap();
        }
    }

    /// Deletes the rows below `end`.
    async fn delete(&self, partition: &str, end: i32, timestamp: i64) {
        let end =
            ClusteringBound { kind: BoundKind::ExclusiveEnd, values: [Some(int(end))].into() };
        let mut update = PartitionUpdate::new(self.wide.id, key(partition));
        update.range_tombstones.push(RangeTombstone {
            start: ClusteringBound::bottom(),
            end,
            deletion: DeletionTime::new(timestamp, NOW),
        });
        self.database.apply(Mutation { updates: vec![update] }).await.unwrap();
    }

    async fn flush(&self) {
        self.database.flush("ks", None).await.unwrap();
    }

    /// Returns the number of rows of a partition, up to a limit.
    async fn count(&self, partition: &str, most: usize) -> usize {
        let target = ReadTarget::Partition(key(partition));
        let mut command = command(&self.wide, target);
        command.limits = ReadLimits { rows: most, ..ReadLimits::NONE };
        let result = self.database.read(command).await.unwrap();
        result.partitions.first().map_or(0, |partition| partition.rows.len())
    }

    /// Makes a partition that is in a file and in the cache.
    async fn cache(&self, partition: &str, rows: i32) {
        self.write(partition, rows, 1).await;
        self.flush().await;
        assert_eq!(self.count(partition, usize::MAX).await, rows as usize);
        assert!(self.metrics().rows >= rows as u64, "{:?}", self.metrics());
    }

    /// Scans a small table. From then on the shard has a continuous range of partitions and keeps
    /// it so.
    async fn cache_a_range_of_partitions(&self) {
        create(&self.database, vec![narrow_table()]).await;
        let narrow = table(&self.database, "narrow");
        self.database.apply(insert(&narrow, "p", None, 1, &[("v", "x")])).await.unwrap();
        self.flush().await;
        let misses = async || {
            read_all(&self.database, &narrow).await;
            self.metrics().reads_with_misses
        };
        assert_eq!(misses().await, misses().await, "the second scan reads no file");
    }

    async fn forget(&self) {
        self.database.forget_cached_rows().await;
        while self.metrics().rows > 0 {
            preempt::yield_now().await;
        }
    }

    fn metrics(&self) -> RowCacheMetrics {
        self.database.store().row_cache().metrics()
    }
}

/// Returns the number of rows that were changed between two moments.
fn changed(before: &RowCacheMetrics, after: &RowCacheMetrics) -> u64 {
    let count = |metrics: &RowCacheMetrics| {
        metrics.row_merges
            + metrics.row_insertions
            + metrics.row_removals
            + metrics.row_evictions
            + metrics.row_hits
    };
    count(after) - count(before)
}

/// Runs the work of `prepare` repeatedly. The work must change at least `least` rows, and at most
/// `max_at_once` in one turn.
fn check<P>(least: u64, max_at_once: u64, prepare: impl Fn(Rc<Fixture>) -> P)
where
    P: Future<Output = Work>,
{
    let (largest, all) = count_turns(&prepare);
    assert!(all >= least, "only {all} rows were changed");
    let mut longest_us = u64::MAX;
    for _ in 0..ATTEMPTS {
        longest_us = longest_us.min(time_turns(&prepare));
        if longest_us <= MAX_US {
            break;
        }
    }
    let is_good = largest <= max_at_once && longest_us <= MAX_US;
    assert!(is_good, "{largest} rows of {all} were changed at once, in {longest_us} us");
}

/// Returns the maximum of rows changed in one turn, and their total.
fn count_turns<P: Future<Output = Work>>(prepare: &impl Fn(Rc<Fixture>) -> P) -> (u64, u64) {
    run(async {
        let fixture = Rc::new(Fixture::open().await);
        let work = prepare(fixture.clone()).await;
        let began = fixture.metrics();
        let (mut largest, mut before) = (0, began);
        preempt::force_every_yield(true);
        let work = spawn_local(work.0);
        while !work.is_finished() {
            preempt::yield_now().await;
            let now = fixture.metrics();
            largest = largest.max(changed(&before, &now));
            before = now;
        }
        preempt::force_every_yield(false);
        // Runs the assertions of the work.
        work.await;
        fixture.database.shutdown().await.unwrap();
        (largest, changed(&began, &before))
    })
}

/// Returns the longest time for which a task held the core, in µs.
fn time_turns<P: Future<Output = Work>>(prepare: &impl Fn(Rc<Fixture>) -> P) -> u64 {
    run(async {
        let fixture = Rc::new(Fixture::open().await);
        let work = prepare(fixture.clone()).await;
        preempt::yield_now().await;
        take_stall_report();
        spawn_local(work.0).await;
        let longest_us = take_stall_report().longest_us;
        fixture.database.shutdown().await.unwrap();
        longest_us
    })
}

#[test]
fn a_flush_into_a_cached_partition_yields() {
    check(ROWS as u64, 32, async |fixture| {
        fixture.cache("p", ROWS).await;
        fixture.write("p", ROWS, 2).await;
        Work::new(async move { fixture.flush().await })
    });
}

#[test]
fn forgetting_many_rows_yields() {
    check(ROWS as u64, 64, async |fixture| {
        fixture.cache("p", ROWS).await;
        Work::new(async move { fixture.forget().await })
    });
}

/// The continuity of partitions changes when a partition is invalidated, while its rows are still
/// behind its header.
#[test]
fn forgetting_many_rows_of_continuous_partitions_yields() {
    check(covered_rows() as u64, 64, async |fixture| {
        fixture.cache_a_range_of_partitions().await;
        fixture.cache("p", covered_rows()).await;
        Work::new(async move { fixture.forget().await })
    });
}

#[test]
fn a_read_of_large_cached_rows_yields() {
    check(LARGE_ROWS as u64, LARGE_ROWS as u64, async |fixture| {
        let value = "v".repeat(LARGE_ROW_BYTES);
        for at in 0..LARGE_ROWS {
            let insert = insert(&fixture.wide, "p", Some(at), 1, &[("v", &value)]);
            fixture.database.apply(insert).await.unwrap();
        }
        fixture.flush().await;
        assert_eq!(fixture.count("p", usize::MAX).await, LARGE_ROWS as usize);
        assert_eq!(fixture.metrics().rows, LARGE_ROWS as u64);
        Work::new(async move {
            let misses = fixture.metrics().reads_with_misses;
            assert_eq!(fixture.count("p", usize::MAX).await, LARGE_ROWS as usize);
            assert_eq!(fixture.metrics().reads_with_misses, misses);
        })
    });
}

/// A scan does not read the cached entries of a partition; it adds the partition as a whole.
#[test]
fn a_scan_over_many_cached_positions_yields() {
    check(1, 64, async |fixture| {
        let last = insert(&fixture.wide, "p", Some(i32::MAX), 1, &[("v", "x")]);
        fixture.database.apply(last).await.unwrap();
        fixture.flush().await;
        let mut command = command(&fixture.wide, ReadTarget::Partition(key("p")));
        let slices =
            (0..EMPTY_SLICES).map(|at| ClusteringSlice::prefix([Some(int(2 * at))].into()));
        command.slices = Arc::new(ClusteringSlices { slices: slices.collect() });
        let empty = fixture.metrics().used_bytes;
        assert!(fixture.database.read(command).await.unwrap().partitions.is_empty());
        let used = fixture.metrics().used_bytes - empty;
        assert!(used > EMPTY_SLICES as u64 * 64, "{used}");
        Work::new(async move {
            read_all(&fixture.database, &fixture.wide).await;
            let misses = fixture.metrics().reads_with_misses;
            assert_eq!(fixture.count("p", usize::MAX).await, 1);
            assert_eq!(fixture.metrics().reads_with_misses, misses);
        })
    });
}

#[test]
fn a_range_tombstone_over_many_cached_rows_yields() {
    check(ROWS as u64 - 10, 32, async |fixture| {
        fixture.cache("p", ROWS).await;
        fixture.delete("p", ROWS - 5, 2).await;
        Work::new(async move {
            fixture.flush().await;
            assert_eq!(fixture.count("p", usize::MAX).await, 5);
        })
    });
}

#[test]
fn evicting_a_large_partition_yields() {
    // A step reads up to 16 rows, and each of them may make the clock hand pass some 50 entries.
    check(ROWS as u64, 16 * 50, async |fixture| {
        fixture.write("q", ROWS, 1).await;
        fixture.cache("p", ROWS).await;
        let before = fixture.metrics();
        fixture.database.store().row_cache().set_limit(before.used_bytes as usize);
        Work::new(async move {
            assert_eq!(fixture.count("q", usize::MAX).await, ROWS as usize);
            let evictions = fixture.metrics().row_evictions - before.row_evictions;
            assert!(evictions > ROWS as u64 / 10 * 8, "{evictions}");
        })
    });
}

/// The tombstone is in the memtable and its rows are in the cache, where a seek skips them.
#[test]
fn a_limited_read_behind_many_covered_rows_yields() {
    // The returned rows, and the rows that were read before the deletion was known.
    check(10, 300, async |fixture| {
        fixture.cache("p", covered_rows() + 10).await;
        fixture.delete("p", covered_rows(), 2).await;
        Work::new(async move {
            let before = fixture.metrics();
            assert_eq!(fixture.count("p", 10).await, 10);
            let after = fixture.metrics();
            assert_eq!(after.reads_with_misses, before.reads_with_misses);
        })
    });
}
