//! Tests `compaction_throughput`: the bytes that it counts, and changes while compactions run.

use std::sync::Arc;
use std::time::Duration;

use espalier_runtime::{
    ShardContext, file::FileSystem, preempt, random::Generator, spawn_local, time::ManualClock,
};
use espalier_storage::{CompactionKind, Node, SharedStorage, StorageError};

use crate::support::*;

async fn yield_core() {
    for _ in 0..1000 {
        preempt::yield_now().await;
    }
}

/// Returns the bytes that the running compaction has read; `None` if none runs.
async fn read_bytes(database: &Node) -> Option<u64> {
    database.compactions().running().await.first().map(|one| one.completed_bytes)
}

/// Yields until the compactions wait: until they read nothing for a while. One round of yields may
/// be too short if other processes had the core in the slice of a compaction, because the scheduler
/// may charge the compaction for that time.
async fn let_compactions_wait(database: &Node) {
    let (mut last, mut idle_rounds) = (read_bytes(database).await, 0);
    while idle_rounds < 3 {
        yield_core().await;
        let now = read_bytes(database).await;
        idle_rounds = if now == last { idle_rounds + 1 } else { 0 };
        last = now;
    }
}

/// Yields until a compaction has read more than `bytes`.
async fn until_read(database: &Node, bytes: u64) {
    for _ in 0..1000 {
        if read_bytes(database).await.is_some_and(|read| read > bytes) {
            return;
        }
        yield_core().await;
    }
    panic!("no compaction reads more than {bytes} bytes");
}

/// Opens a database with a table of two files of 1.3 MB before compression. A compaction that reads
/// the given bytes per second waits until the clock advances.
async fn with_two_files(
    file_system: &FileSystem,
    bytes_per_second: u64,
    value: impl Fn(&mut Generator) -> String,
) -> Node {
    let mut configuration = configuration();
    configuration.autocompaction = false;
    configuration.compaction_bytes_per_second = Some(bytes_per_second);
    let shared = SharedStorage::new();
    let setting = format!("{bytes_per_second}B/s");
    shared.set_settings(vec![("compaction_throughput".into(), Some(setting))]);
    let context = ShardContext { index: 0, count: 1 };
    let opened = Node::open(context, file_system.clone(), Arc::new(configuration), shared);
    let database = opened.await.unwrap();
    create(&database, vec![narrow_table()]).await;
    let narrow = table(&database, "narrow");
    let mut random = Generator::from_seed(3);
    for round in 0..2 {
        for number in 0..6000 {
            let (name, value) = (format!("{round} {number}"), value(&mut random));
            database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
    }
    database
}

fn random_value(random: &mut Generator) -> String {
    incompressible_text(random, 200)
}

/// The limit applies to the bytes of files on disk.
#[test]
fn the_throughput_limit_applies_to_compressed_bytes() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000);
    let _installed = clock.install();
    for is_random in [false, true] {
        let file_system = FileSystem::simulated(3);
        run(async {
            let value = |random: &mut Generator| {
                if is_random { random_value(random) } else { "x".repeat(200) }
            };
            let database = with_two_files(&file_system, 1 << 20, value).await;
            let other = database.clone();
            let compaction =
                spawn_local(async move { other.compactions().compact("ks", None, false).await });
            let_compactions_wait(&database).await;
            let mut seconds = 0.0;
            while !compaction.is_finished() {
                clock.advance(Duration::from_millis(100));
                seconds += 0.1;
                let_compactions_wait(&database).await;
            }
            compaction.await.unwrap();
            let range = if is_random { 1.8..3.0 } else { 0.0..0.6 };
            assert!(range.contains(&seconds), "{seconds} s for 2.5 MiB before compression");
        });
    }
}

/// A compaction stops waiting for an old limit, and bytes that it read under the old limit do not
/// count under the next one.
#[test]
fn a_compaction_that_runs_takes_another_limit_at_once() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000);
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = with_two_files(&file_system, 1, random_value).await;
        let read = async || read_bytes(&database).await;
        let other = database.clone();
        let compaction =
            spawn_local(async move { other.compactions().compact("ks", None, false).await });
        until_read(&database, 0).await;
        let_compactions_wait(&database).await;
        let at_start = read().await.unwrap();
        assert!((1..1_000_000).contains(&at_start), "{at_start}");
        clock.advance(Duration::from_secs(30));
        let_compactions_wait(&database).await;
        assert!(read().await.unwrap() < 1_200_000, "256 KiB for each pause");

        // The compaction pauses after each quarter of a MiB.
        let before = read().await.unwrap();
        database.compactions().set_throughput(1).await;
        assert_eq!(database.compactions().bytes_per_second(), Some(1 << 20));
        until_read(&database, before).await;
        let_compactions_wait(&database).await;
        let next = read().await.unwrap();
        assert!(next < before + 900_000, "{before} {next}");

        database.compactions().set_throughput(0).await;
        assert_eq!(database.compactions().bytes_per_second(), None);
        compaction.await.unwrap();
        assert_eq!(database.store().metrics().compactions.done, 1);
        let settings = espalier_storage::system::table("system_views", "settings");
        let shown = show(&settings, &read_all(&database, &settings).await);
        assert!(format!("{shown:?}").contains("0MiB/s"), "{shown:?}");
    });
}

/// A stop request ends the wait for a file, even if a compaction of another kind has the file and
/// continues.
#[test]
fn a_stop_ends_a_compaction_that_waits_for_a_busy_file() {
    let _installed = ManualClock::new(i64::from(NOW) * 1_000_000).install();
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = with_two_files(&file_system, 1, random_value).await;
        let (first, second) = (database.clone(), database.clone());
        let holder =
            spawn_local(async move { first.compactions().compact("ks", None, false).await });
        until_read(&database, 0).await;
        let_compactions_wait(&database).await;
        let waiting =
            spawn_local(
                async move { second.compactions().upgrade_sstables("ks", None, false).await },
            );
        yield_core().await;
        assert!(!holder.is_finished() && !waiting.is_finished());
        database.compactions().stop(&[CompactionKind::Upgrade]).await;
        for _ in 0..1000 {
            if waiting.is_finished() {
                break;
            }
            yield_core().await;
        }
        assert!(waiting.is_finished() && !holder.is_finished());
        let ended = waiting.await;
        assert!(matches!(ended, Err(StorageError::CompactionStopped(_))), "{ended:?}");
        database.compactions().set_throughput(0).await;
        holder.await.unwrap();
    });
}
