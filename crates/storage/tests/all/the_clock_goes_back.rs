//! The clock is set back between two lives of a node. Positions in the new commit log are not taken
//! for positions that files of the earlier life hold, nor for positions before a truncation. Later
//! changes of the schema win over earlier ones.

use std::time::Duration;

use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    random,
    time::{self, ManualClock},
};
use espalier_storage::SnapshotTable;

use crate::support::*;

const LATE_US: i64 = 1_700_000_001_000_000;
const EARLY_US: i64 = 1_700_000_000_990_000;

/// Runs a life from `start_us` on a thread of its own, because timestamps of one thread only grow.
#[allow(clippy::disallowed_methods)]
fn live(
    file_system: &FileSystem,
    start_us: i64,
    body: impl AsyncFnOnce(espalier_storage::Node) + Send,
) {
    let life = move || {
        let clock = ManualClock::new(start_us).moving_when_idle();
        let _installed = clock.install();
        block_on(async {
            let mut configuration = configuration();
            configuration.commit_log.segment_bytes = 8 << 10;
            configuration.commit_log.total_bytes = 4 << 20;
            body(open(file_system, configuration).await.unwrap()).await;
        });
    };
    std::thread::scope(|scope| scope.spawn(life).join().unwrap());
}

async fn write(database: &espalier_storage::Node, prefix: &str, count: usize) {
    let narrow = table(database, "narrow");
    let value = "v".repeat(3500);
    for number in 0..count {
        let name = format!("{prefix}{number}");
        database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await.unwrap();
    }
}

async fn count(database: &espalier_storage::Node) -> usize {
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

#[test]
fn later_changes_of_the_schema_win_over_earlier_ones() {
    for is_flushed in [false, true] {
        let mut file_system = FileSystem::simulated(1);
        live(&file_system, LATE_US, async |database| {
            create(&database, vec![narrow_table(), wide_table()]).await;
            if is_flushed {
                database.shutdown().await.unwrap();
            }
        });
        let changed = wide_table().rebuild().regular("x", espalier_types::CqlType::Blob).build();
        for life in 0..2 {
            live(&file_system, EARLY_US, async |database| {
                if life == 0 {
                    let change = |schema: &espalier_mutation::schema::Schema| {
                        let schema = without_table(schema, "narrow");
                        Ok::<_, ()>(Some(with_tables(&schema, vec![changed.rebuild().build()])))
                    };
                    database.change_schema(change).await.unwrap().unwrap();
                    let wide = table(&database, "wide");
                    let row = insert(&wide, "a", Some(1), 1, &[("x", "1")]);
                    database.apply(row).await.unwrap();
                }
                assert!(database.store().schema().table("ks", "narrow").is_none());
                let wide = table(&database, "wide");
                let shown = show(&wide, &read_all(&database, &wide).await);
                assert_eq!(shown, ["a/1 x=1"]);
            });
            file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(life));
        }
    }
}

/// A table comes back with its old id from a snapshot, in a life that began with the clock behind
/// the time of the id. The id then seems to be of this life.
#[test]
fn a_table_created_again_with_its_old_id_keeps_its_rows() {
    let file_system = FileSystem::simulated(1);
    let old_id = std::sync::Mutex::new(None);
    let made_again = || {
        let mut metadata = narrow_table();
        metadata.id = old_id.lock().unwrap().unwrap();
        metadata
    };
    live(&file_system, LATE_US, async |database| {
        *old_id.lock().unwrap() = Some(TableId(random::timeuuid_now()));
        create(&database, vec![made_again()]).await;
        write(&database, "a", 1).await;
        let wanted = SnapshotTable { id: made_again().id, describe: |_, _| "schema".into() };
        database.snapshots().take("kept".into(), vec![wanted], true).await.unwrap();
        let change = |schema: &Schema| Ok::<_, ()>(Some(without_table(schema, "narrow")));
        database.change_schema(change).await.unwrap().unwrap();
        database.shutdown().await.unwrap();
    });
    live(&file_system, EARLY_US, async |database| {
        time::sleep(Duration::from_secs(1)).await;
        assert!(time::now_micros() > LATE_US);
        create(&database, vec![made_again()]).await;
        write(&database, "b", 60).await;
        database.shutdown().await.unwrap();
    });
    live(&file_system, LATE_US, async |database| assert_eq!(count(&database).await, 60));
}
