//! A logged batch over several shards is applied as a whole, even if the node stops in the middle.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use espalier_mutation::{
    Cell, Clustering, ColumnData, DecoratedKey, DeletionTime, Liveness, Mutation, PartitionUpdate,
    Row, schema::Schema,
};
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    random::Generator,
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};

use espalier_storage::{CommitLogError, StorageError};
use futures_util::FutureExt;

use crate::support::{shards::on_shards, *};

const PARTS: usize = 6;

/// Builds a row for each part, in partitions with this prefix in their names.
fn batch_of(
    narrow: &espalier_mutation::schema::TableMetadata,
    prefix: &str,
    value: &str,
) -> Mutation {
    let row = |part| insert(narrow, &format!("{prefix}{part}"), None, 1, &[("v", value)]);
    Mutation { updates: (0..PARTS).flat_map(|part| row(part).updates).collect() }
}

#[test]
fn a_batch_is_atomic_over_shards_and_crashes() {
    let mut file_system = FileSystem::simulated(1);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
    })
    .unwrap();
    let (mut whole, mut none) = (0, 0);
    for seed in espalier_testing::seeds(25) {
        let mut random = Generator::from_seed(seed);
        let disk = file_system.simulated_disk().unwrap().clone();
        // Every second seed cuts late, so that few seeds suffice for whole batches.
        let cut_after = 75 * (seed % 2) + random.below(75);
        let power = disk.clone();
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let list = acknowledged.clone();
        on_shards(3, &file_system, configuration(), move |database| {
            let (list, power) = (list.clone(), power.clone());
            async move {
                power.power_off_after(cut_after);
                let narrow = table(&database, "narrow");
                for batch in 0..20 {
                    let mutation = batch_of(&narrow, &format!("{seed}/{batch}/"), "1");
                    if database.batches().apply(mutation).await.is_err() {
                        return;
                    }
                    list.lock().unwrap().push(batch);
                }
            }
        })
        .unwrap();
        file_system = FileSystem::on(disk.crash(seed));
        let acknowledged = acknowledged.lock().unwrap().clone();
        let counts = on_shards(2, &file_system, configuration(), move |database| async move {
            let narrow = table(&database, "narrow");
            let mut counts = vec![0; 20];
            for partition in read_all(&database, &narrow).await.partitions {
                let name = String::from_utf8(partition.key.key.to_vec()).unwrap();
                let numbers: Vec<u64> = name.split('/').map(|n| n.parse().unwrap()).collect();
                if numbers[0] == seed {
                    counts[numbers[1] as usize] += 1;
                }
            }
            let batches = database.store().schema().table("system", "batches").unwrap().clone();
            let left = read_all(&database, &batches).await.partitions.len();
            assert_eq!(left, 0, "entries of finished batches are removed");
            counts
        })
        .unwrap();
        for (batch, count) in counts.iter().enumerate() {
            assert!([0, PARTS].contains(count), "seed {seed}: {count} parts of batch {batch}");
            assert!(*count == PARTS || !acknowledged.contains(&batch), "seed {seed} batch {batch}");
            match count {
                0 => none += 1,
                _ => whole += 1,
            }
        }
    }
    let least = espalier_testing::at_least(20) as usize;
    assert!(whole > least && none > least, "{whole} whole, {none} none: the cuts fall in between");
}

/// Makes a batch over all shards with a part that can never be written.
fn with_a_part_that_is_refused(
    narrow: &espalier_mutation::schema::TableMetadata,
    refused: PartitionUpdate,
) -> Mutation {
    let mut mutation = Mutation { updates: vec![refused] };
    mutation.updates.extend(batch_of(narrow, "", "1").updates);
    mutation
}

#[test]
fn a_batch_with_a_part_that_is_refused_is_refused_as_a_whole() {
    let file_system = FileSystem::simulated(1);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let mut negative = PartitionUpdate::new(narrow.id, key("0"));
        negative.deletion = DeletionTime::new(-5, NOW);
        let unknown = espalier_mutation::schema::TableId(uuid::Uuid::from_u128(0xdead));
        let mut missing = PartitionUpdate::new(unknown, key("0"));
        missing.deletion = DeletionTime::new(5, NOW);
        for refused in [negative, missing] {
            let batch = with_a_part_that_is_refused(&narrow, refused);
            assert!(database.batches().apply(batch).await.is_err());
        }
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 0);
    })
    .unwrap();
    on_shards(3, &file_system, configuration(), |database| async move {
        let narrow = table(&database, "narrow");
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), 0);
        let batches = database.store().schema().table("system", "batches").unwrap().clone();
        assert_eq!(read_all(&database, &batches).await.partitions.len(), 0);
    })
    .unwrap();
}

/// An event after the entry of a batch was written and before a start of the node that finds the
/// entry.
#[derive(Clone, Copy, PartialEq)]
enum Since {
    Nothing,
    Truncated,
    /// The table was dropped, and another one has its id.
    MadeAgain,
    /// More time than `gc_grace_seconds` has passed.
    Grace,
}

/// A batch with an entry that is still there when the node starts.
#[test]
fn an_entry_brings_back_nothing_that_was_removed_after_it() {
    for since in [Since::Nothing, Since::Truncated, Since::MadeAgain, Since::Grace] {
        let file_system = FileSystem::simulated(2);
        on_shards(3, &file_system, configuration(), move |database| async move {
            create(&database, vec![narrow_table()]).await;
            let (narrow, other) = (table(&database, "narrow"), database.clone());
            let batches = database.store().schema().table("system", "batches").unwrap().clone();
            let mutation = batch_of(&narrow, "", "1");
            let entry = loop {
                let (other, again) = (other.clone(), mutation.clone());
                let batch = spawn_local(async move { other.batches().apply(again).await });
                let mut found = None;
                while !batch.is_finished() {
                    let seen = read_all(&database, &batches).await.partitions.pop();
                    found = found.or(seen);
                    yield_now().await;
                }
                batch.await.unwrap();
                if let Some(found) = found {
                    break found;
                }
            };
            // Removes the parts, so that only the entry could bring them back; `Nothing` leaves
            // them.
            match since {
                Since::Nothing => {}
                Since::Truncated | Since::Grace => database.truncate(narrow.id).await.unwrap(),
                Since::MadeAgain => {
                    let drop = |schema: &Schema| -> Result<_, ()> {
                        Ok(Some(with_keyspace(schema, BTreeMap::new())))
                    };
                    database.change_schema(drop).await.unwrap().unwrap();
                    create(&database, vec![narrow_table()]).await;
                }
            }
            let entry_key = match since {
                Since::Grace => {
                    let age_s = i64::from(narrow.options.gc_grace_seconds) + 1;
                    key_of_time(time::now_micros() - age_s * 1_000_000)
                }
                _ => entry.key,
            };
            // Writes the entry again, as if its removal had been lost.
            let timestamp = time::next_timestamp_micros();
            let mut again = PartitionUpdate::new(batches.id, entry_key);
            for mut row in entry.rows {
                row.liveness = Liveness::live(timestamp);
                for (_, data) in &mut row.columns {
                    match data {
                        ColumnData::Simple(cell) => cell.timestamp = timestamp,
                        ColumnData::Complex(column) => {
                            column
                                .cells
                                .iter_mut()
                                .for_each(|(_, cell)| cell.timestamp = timestamp);
                        }
                    }
                }
                again.rows.push(row);
            }
            database.apply(Mutation { updates: vec![again] }).await.unwrap();
            database.shutdown().await.unwrap();
        })
        .unwrap();
        on_shards(3, &file_system, configuration(), move |database| async move {
            let narrow = table(&database, "narrow");
            let found = read_all(&database, &narrow).await.partitions.len();
            assert_eq!(found, if since == Since::Nothing { PARTS } else { 0 });
            let batches = database.store().schema().table("system", "batches").unwrap().clone();
            assert_eq!(read_all(&database, &batches).await.partitions.len(), 0);
        })
        .unwrap();
    }
}

/// Returns the key of a batch stored at a time, in µs since 1970.
fn key_of_time(us: i64) -> DecoratedKey {
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    let context = uuid::timestamp::context::NoContext;
    let at = uuid::Timestamp::from_unix(context, seconds as u64, us as u32 * 1000);
    let id = uuid::Uuid::new_v1(at, &[1, 2, 3, 4, 5, 6]);
    DecoratedKey::new(bytes::Bytes::copy_from_slice(id.as_bytes()))
}

/// A caller that asks for a whole batch gets an error if the node gives the batch up.
#[test]
fn a_whole_batch_that_is_given_up_is_an_error() {
    let file_system = FileSystem::simulated(5);
    let disk = file_system.simulated_disk().unwrap().clone();
    on_shards(2, &file_system, configuration(), move |database| {
        let disk = disk.clone();
        async move {
            create(&database, vec![narrow_table()]).await;
            let narrow = table(&database, "narrow");
            disk.inject(
                Fault::always(Operation::Sync, Effect::InputOutput).on_path("commitlog-1-"),
            );
            let clock = ManualClock::new(time::now_micros());
            let installed = clock.install();
            let error = loop {
                let (database, other) = (database.clone(), database.clone());
                let mutation = batch_of(&narrow, "", "1");
                let batch =
                    spawn_local(async move { database.batches().apply_whole(mutation).await });
                while !batch.is_finished() {
                    clock.advance(Duration::from_secs(3_600));
                    other.on_shard(1, |_| async {}).await;
                }
                match batch.await.unwrap_err() {
                    // The shard with the fault owns the entry, so the batch never began.
                    StorageError::CommitLog(CommitLogError::Write(_)) => {}
                    error => break error,
                }
            };
            drop(installed);
            disk.clear_faults();
            assert!(matches!(error, StorageError::BatchGivenUp { .. }), "{error}");
        }
    })
    .unwrap();
}

/// The entries of batches are removed as soon as the log can be written again, not only at the next
/// start.
#[test]
fn batch_entries_are_removed_after_a_failed_sync() {
    let file_system = FileSystem::simulated(3);
    let disk = file_system.simulated_disk().unwrap().clone();
    on_shards(3, &file_system, configuration(), move |database| {
        let disk = disk.clone();
        async move {
            create(&database, vec![narrow_table()]).await;
            let narrow = table(&database, "narrow");
            let batches = database.store().schema().table("system", "batches").unwrap().clone();
            let mut refused = 0;
            for failing in 1..10 {
                let mutation = batch_of(&narrow, &format!("{failing}/"), "1");
                let mut fault = Fault::nth(Operation::Sync, failing, Effect::InputOutput);
                fault = fault.on_path("commitlog-");
                disk.inject(fault);
                refused += usize::from(database.batches().apply(mutation).await.is_err());
                disk.clear_faults();
                let mut left = usize::MAX;
                for _ in 0..600 {
                    left = read_all(&database, &batches).await.partitions.len();
                    if left == 0 {
                        break;
                    }
                    time::sleep(Duration::from_millis(100)).await;
                }
                assert_eq!(left, 0, "with the {failing}th sync failing");
            }
            assert!(refused > 0, "no fault was met");
        }
    })
    .unwrap();
}

/// A part of each batch cannot be written. The node refuses further batches once the unfinished
/// ones have too many bytes.
#[test]
fn batches_that_fail_are_kept_within_bounds() {
    let file_system = FileSystem::simulated(4);
    let disk = file_system.simulated_disk().unwrap().clone();
    on_shards(3, &file_system, configuration(), move |database| {
        let disk = disk.clone();
        async move {
            create(&database, vec![narrow_table()]).await;
            let narrow = table(&database, "narrow");
            let batches = database.store().schema().table("system", "batches").unwrap().clone();
            let value = "v".repeat(60_000);
            let batch = |number: usize| batch_of(&narrow, &format!("{number}/"), &value);
            disk.inject(
                Fault::always(Operation::Sync, Effect::InputOutput).on_path("commitlog-1-"),
            );
            let mut refused = None;
            for number in 0..500 {
                let outcome = database.batches().apply(batch(number)).await;
                if let Err(StorageError::TooManyUnfinishedBatches { bytes }) = outcome {
                    refused = Some((number, bytes));
                    break;
                }
            }
            let (number, bytes) = refused.expect("no end of them");
            assert!(bytes < 17 << 20, "{bytes}");
            disk.clear_faults();
            // All batches are finished, and new ones are accepted.
            for _ in 0..600 {
                if read_all(&database, &batches).await.partitions.is_empty() {
                    break;
                }
                time::sleep(Duration::from_millis(100)).await;
            }
            database.batches().apply(batch(number)).await.unwrap();
            assert!(read_all(&database, &batches).await.partitions.is_empty());
        }
    })
    .unwrap();
}

/// The test drops each call after one poll. The node still applies the batches, and refuses further
/// ones while the unfinished ones have too many bytes.
#[test]
fn batches_without_callers_are_applied_as_a_whole() {
    let file_system = FileSystem::simulated(6);
    on_shards(3, &file_system, configuration(), |database| async move {
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let batches = database.store().schema().table("system", "batches").unwrap().clone();
        let value = "v".repeat(60_000);
        let batch = |number: usize| batch_of(&narrow, &format!("{number}/"), &value);
        let mut begun = 0;
        loop {
            // `now_or_never` polls the call once and drops it.
            match database.batches().apply(batch(begun)).now_or_never() {
                None => begun += 1,
                Some(Err(StorageError::TooManyUnfinishedBatches { .. })) => break,
                Some(outcome) => panic!("{outcome:?}"),
            }
            assert!(begun * PARTS * value.len() < 17 << 20, "no end of them");
        }
        let mut counts = (0, 0);
        for _ in 0..600 {
            let left = read_all(&database, &batches).await.partitions.len();
            counts = (read_all(&database, &narrow).await.partitions.len(), left);
            if counts == (begun * PARTS, 0) {
                break;
            }
            time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(counts, (begun * PARTS, 0), "partitions, and entries of batches");
        database.batches().apply(batch(begun)).await.unwrap();
    })
    .unwrap();
}

#[test]
fn batches_of_a_ring_are_left_to_its_member() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let batches = database.store().schema().table("system", "batches").unwrap().clone();
        let mut row = Row::empty(Clustering::empty());
        row.liveness = Liveness::live(10);
        let version = batches.column("version").unwrap().id;
        row.set_cell(version, Cell::live(10, bytes::Bytes::from_static(&[0, 0, 0, 13])));
        let mut update = PartitionUpdate::new(batches.id, key_of_time(1_700_000_000_000_000));
        update.rows.push(row);
        database.apply(Mutation { updates: vec![update] }).await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let batches = database.store().schema().table("system", "batches").unwrap().clone();
        assert_eq!(read_all(&database, &batches).await.partitions.len(), 1);
    });
}
