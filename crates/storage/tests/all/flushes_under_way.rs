//! Rows that are written during a flush stay in memory until the next flush.

use std::time::Duration;

use espalier_runtime::{file::FileSystem, preempt, spawn_local, time::ManualClock};

use crate::support::*;

/// The flush scheduler checks every second, and must not regard a memtable that is being flushed as
/// one whose flush failed.
#[test]
fn writes_during_a_flush_do_not_cause_another_flush() {
    let clock = ManualClock::new(i64::from(NOW) * 1_000_000);
    let _installed = clock.install();
    let file_system = FileSystem::simulated(1);
    run(async {
        preempt::force_every_yield(true);
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let write = async |name: &str| {
            database.apply(insert(&narrow, name, None, 1, &[("v", "1")])).await.unwrap();
        };
        for number in 0..200 {
            write(&format!("first {number}")).await;
        }
        let flushes = database.store().metrics().flushes.done;
        let other = database.clone();
        let flush = spawn_local(async move { other.flush("ks", None).await });
        preempt::yield_now().await;
        write("meanwhile").await;
        let mut looks = 0;
        while database.store().metrics().flushes.done == flushes {
            clock.advance(Duration::from_secs(1));
            looks += 1;
            preempt::yield_now().await;
        }
        assert!(looks > 3, "{looks}");
        flush.await.unwrap();
        for _ in 0..1000 {
            preempt::yield_now().await;
        }
        assert_eq!(database.store().metrics().flushes.done, flushes + 1);
        assert_eq!(database.store().metrics().sstables, 1);
        preempt::force_every_yield(false);
    });
}
