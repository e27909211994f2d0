//! A clock that is set back between two lives of a node: the places of the new commit log are not taken for places that
//! files of the earlier life hold, nor for places before a truncation.

use espalier_runtime::{block_on, file::FileSystem, time::ManualClock};

use crate::support::*;

const LATE_US: i64 = 1_700_000_001_000_000;
const EARLY_US: i64 = 1_700_000_000_990_000;

/// A life at `start_us`; each writes `count` rows of half a segment and more, so that each takes a segment.
fn live(
    file_system: &FileSystem,
    start_us: i64,
    body: impl AsyncFnOnce(espalier_storage::Database),
) {
    let clock = ManualClock::new(start_us).moving_when_idle();
    let _installed = clock.install();
    block_on(async {
        let mut configuration = configuration();
        configuration.commitlog_segment_bytes = 8 << 10;
        configuration.commitlog_total_bytes = 4 << 20;
        body(open(file_system, configuration).await.unwrap()).await;
    });
}

async fn write(database: &espalier_storage::Database, prefix: &str, count: usize) {
    let narrow = table(database, "narrow");
    let value = "v".repeat(3500);
    for number in 0..count {
        let name = format!("{prefix}{number}");
        database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
    }
}

async fn count(database: &espalier_storage::Database) -> usize {
    let narrow = table(database, "narrow");
    read_all(database, &narrow).await.partitions.len()
}

#[test]
fn new_writes_are_not_taken_for_flushed_ones() {
    let file_system = FileSystem::simulated(1);
    live(&file_system, LATE_US, async |database| {
        create(&database, vec![narrow_table()]).await;
        write(&database, "a", 60).await;
        database.shutdown().await.unwrap();
    });
    live(&file_system, EARLY_US, async |database| {
        assert_eq!(count(&database).await, 60);
        write(&database, "b", 60).await;
    });
    let file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    live(&file_system, LATE_US, async |database| assert_eq!(count(&database).await, 120));
}

#[test]
fn new_writes_are_not_taken_for_truncated_ones() {
    let file_system = FileSystem::simulated(1);
    live(&file_system, LATE_US, async |database| {
        create(&database, vec![narrow_table()]).await;
        write(&database, "a", 60).await;
        database.truncate(table(&database, "narrow").id).await.unwrap();
        database.shutdown().await.unwrap();
    });
    live(&file_system, EARLY_US, async |database| {
        assert_eq!(count(&database).await, 0);
        write(&database, "b", 60).await;
    });
    let file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    live(&file_system, LATE_US, async |database| assert_eq!(count(&database).await, 60));
}
