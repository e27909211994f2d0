//! Flushed memtables free their memory, whatever else runs.

use std::time::Duration;

use espalier_runtime::{file::FileSystem, preempt, spawn_local, time::ManualClock};
use espalier_storage::CompactionKind;

use crate::support::*;

/// Yields often enough to free memory, which happens in steps.
async fn yield_core() {
    for _ in 0..1000 {
        preempt::yield_now().await;
    }
}

/// A compaction takes much longer than a memtable lives. If it kept the memtables of its start,
/// writes would wait for its end.
#[test]
fn a_compaction_keeps_no_memtable() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000);
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.autocompaction = false;
        // The compaction pauses after its first bytes, until the clock advances.
        configuration.compaction_bytes_per_second = Some(1);
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "x".repeat(200);
        let write = async |name: &str| {
            for number in 0..3000 {
                let name = format!("{name} {number}");
                database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
            }
        };
        for name in ["first", "second"] {
            write(name).await;
            database.flush("ks", None).await.unwrap();
        }
        write("third").await;
        let full_bytes = database.store().metrics().memtable_bytes;
        assert!(full_bytes > 500_000, "{full_bytes}");

        let names = sstable_names(&file_system, &narrow).await;
        let other = database.clone();
        let compaction = spawn_local(async move {
            other.compactions().compact_sstables("ks", "narrow", names).await
        });
        while database.store().metrics().compactions.running == 0 {
            preempt::yield_now().await;
        }
        yield_core().await;
        database.flush("ks", None).await.unwrap();
        for _ in 0..100 {
            if database.store().metrics().memtable_bytes < full_bytes / 2 {
                break;
            }
            yield_core().await;
        }
        let metrics = database.store().metrics();
        assert_eq!((metrics.compactions.running, metrics.compactions.done), (1, 0));
        assert!(metrics.memtable_bytes < full_bytes / 2, "{metrics:?}");

        let other = database.clone();
        let stopped =
            spawn_local(async move { other.compactions().stop(&CompactionKind::ALL).await });
        while database.store().metrics().compactions.running > 0 {
            clock.advance(Duration::from_secs(1));
            preempt::yield_now().await;
        }
        stopped.await;
        _ = compaction.await;
    });
}
