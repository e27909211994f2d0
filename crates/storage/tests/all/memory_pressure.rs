//! Memtables stay within their memory: the largest one is flushed, writers wait, and if the disk
//! refuses the flush they get an error.

use std::time::Duration;

use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    spawn_local, time,
};

use crate::support::*;

#[test]
pub fn writers_are_held_back_and_memory_is_bounded() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.memtables.bytes = 2 << 20;
        configuration.commit_log.segment_bytes = 256 << 10;
        configuration.commit_log.total_bytes = 64 << 20;
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (database, narrow) = (database.clone(), narrow.clone());
                spawn_local(async move {
                    let value = "v".repeat(2000);
                    for number in 0..1000 {
                        let name = format!("{writer}-{number}");
                        let mutation = insert(&narrow, &name, None, 1, &[("v", &value)]);
                        database.apply(mutation).await.unwrap();
                        let used = database.store().metrics().memtable_bytes;
                        assert!(used < 3 << 20, "{used} bytes of 2 MiB");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await;
        }
        let metrics = database.store().metrics();
        assert!(metrics.flushes.done >= 3, "{metrics:?}");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 4000);
    });
}

#[test]
fn writes_fail_with_the_flush_error_and_resume_later() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.memtables.bytes = 1 << 20;
        configuration.commit_log.total_bytes = 64 << 20;
        configuration.timeouts.write = Duration::from_millis(200);
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let disk = file_system.simulated_disk().unwrap();
        disk.inject(Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-"));
        let value = "v".repeat(2000);
        let mut number = 0;
        let error = loop {
            let name = number.to_string();
            let outcome = database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await;
            match outcome {
                Ok(()) => number += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("memtables are full") && error.contains("No space left"), "{error}");
        assert!(read_partition(&database, &narrow, "0").await.is_some());
        assert!(
            database.store().try_apply(&insert(&narrow, "x", None, 1, &[("v", "1")])).is_none()
        );
        disk.clear_faults();
        // The flush is retried within a second or two.
        let mut outcome = Err(());
        for _ in 0..600 {
            time::sleep(Duration::from_millis(100)).await;
            let later = insert(&narrow, "x", None, 1, &[("v", "1")]);
            outcome = database.apply(later).await.map_err(drop);
            if outcome.is_ok() {
                break;
            }
        }
        assert!(outcome.is_ok(), "writes fail although the disk works again");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), number + 1);
    });
}

#[test]
fn a_replay_waits_for_flushes_that_fail_at_first() {
    let file_system = FileSystem::simulated(1);
    const ROWS: usize = 1000;
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let value = "v".repeat(2000);
        for number in 0..ROWS {
            let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", &value)]);
            database.apply(mutation).await.unwrap();
        }
        // The node stops here, without a flush.
    });
    let disk = file_system.simulated_disk().unwrap();
    let mut fault = Fault::always(Operation::Create, Effect::NoSpace).on_path("narrow-");
    fault.count = 2;
    disk.inject(fault);
    run(async {
        let mut configuration = configuration();
        configuration.memtables.bytes = 1 << 20;
        let database = open(&file_system, configuration).await.unwrap();
        let metrics = database.store().metrics();
        assert!(metrics.flushes.failed >= 2 && metrics.flushes.done >= 1, "{metrics:?}");
        let narrow = table(&database, "narrow");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), ROWS);
        database.shutdown().await.unwrap();
    });
}

#[test]
fn all_memory_of_a_memtable_is_structure_content_or_free() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let before = database.store().metrics().memtable_bytes;
        for number in 0..3000 {
            // Short rows lie in the trie's slots, long ones do not.
            let value = "v".repeat(if number % 2 == 0 { 4 } else { 1000 });
            let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", &value)]);
            database.apply(mutation).await.unwrap();
        }
        let memory = database.store().memtable_memory(&narrow.keyspace, &narrow.name).unwrap();
        assert_eq!((memory.partitions, memory.rows), (3000, 3000));
        assert!((1_500_000..2_000_000).contains(&memory.content_bytes), "{memory:?}");
        assert!((30_000..300_000).contains(&memory.structure_bytes), "{memory:?}");
        let all = memory.structure_bytes + memory.content_bytes + memory.free_bytes;
        assert_eq!(all, database.store().metrics().memtable_bytes - before);
        assert_eq!(database.store().memtable_memory("nothing", "narrow"), None);
    });
}
