//! The number of shards changes at each start, and power fails at random moments, during starts
//! too. Afterwards every acknowledged write is there, and truncated data stays gone.

use std::sync::{Arc, Mutex};

use espalier_runtime::{file::FileSystem, random::Generator};
use espalier_storage::{Node, StorageConfiguration};

use crate::support::{shards::on_shards, *};

fn small() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.segment_bytes = 16 << 10;
    configuration.commit_log.total_bytes = 192 << 10;
    configuration
}

/// The state of the written names: acknowledged ones must be there, doubtful ones may be there.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    acknowledged: Vec<String>,
    doubtful: Vec<String>,
    is_created: bool,
}

async fn names(database: &Node) -> Option<Vec<String>> {
    let narrow = table(database, "narrow");
    let target = espalier_storage::ReadTarget::Range(espalier_mutation::KeyRange::full());
    let read = database.read(command(&narrow, target)).await.ok()?;
    let name = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    Some(read.partitions.iter().map(|partition| name(&partition.key.key)).collect())
}

async fn check(database: &Node, sent: &Sent, context: &str) {
    let Some(found) = names(database).await else { return };
    let state = sent.0.lock().unwrap();
    for name in &state.acknowledged {
        assert!(found.contains(name), "{context}: {name} was acknowledged");
    }
    for name in &found {
        let is_known = state.acknowledged.contains(name) || state.doubtful.contains(name);
        assert!(is_known, "{context}: {name} should not be there");
    }
}

async fn write(database: &Node, sent: &Sent, prefix: &str, random: &mut Generator) {
    let narrow = table(database, "narrow");
    for number in 0..60 {
        if random.below(50) == 0 {
            let _ = database.flush("ks", None).await;
        }
        if random.below(60) == 0 {
            let mut state = std::mem::take(&mut *sent.0.lock().unwrap());
            let before = std::mem::take(&mut state.acknowledged);
            let doubtful = std::mem::take(&mut state.doubtful);
            if database.truncate(narrow.id).await.is_err() {
                state.doubtful = before.into_iter().chain(doubtful).collect();
            }
            *sent.0.lock().unwrap() = state;
        }
        let name = format!("{prefix}-{number}");
        let value = "x".repeat(random.below(600) as usize);
        let outcome = database.apply(insert(&narrow, &name, None, 1, &[("v", &value)])).await;
        let mut state = sent.0.lock().unwrap();
        match outcome {
            Ok(()) => state.acknowledged.push(name),
            Err(_) => state.doubtful.push(name),
        }
    }
}

fn lives(seed: u64) {
    let mut random = Generator::from_seed(seed);
    let mut file_system = FileSystem::simulated(seed);
    let sent = Sent::default();
    for life in 0..5 {
        let disk = file_system.simulated_disk().unwrap().clone();
        let is_created = sent.0.lock().unwrap().is_created;
        if is_created && random.below(4) > 0 {
            disk.power_off_after(random.below(700));
        }
        let shards = 1 + random.below(3) as usize;
        let context = format!("seed {seed} life {life} on {shards} shards");
        let writer_seed = random.next_u64();
        let (given, is_last_whole) = (sent.clone(), random.below(4) == 0);
        let outcome = on_shards(shards, &file_system, small(), move |database| {
            let (sent, context) = (given.clone(), context.clone());
            async move {
                let mut random = Generator::from_seed(writer_seed);
                if !is_created {
                    create(&database, vec![narrow_table()]).await;
                    sent.0.lock().unwrap().is_created = true;
                }
                check(&database, &sent, &context).await;
                write(&database, &sent, &format!("{life}"), &mut random).await;
                if is_last_whole {
                    let _ = database.shutdown().await;
                }
            }
        });
        if let Err(error) = outcome {
            assert!(error.to_string().contains("power is off"), "seed {seed} life {life}: {error}");
        }
        file_system = FileSystem::on(disk.crash(random.next_u64()));
    }
    let context = format!("seed {seed}, at the end");
    on_shards(2, &file_system, small(), move |database| {
        let (sent, context) = (sent.clone(), context.clone());
        async move { check(&database, &sent, &context).await }
    })
    .unwrap();
}

#[test]
fn writes_survive_crashes_on_any_number_of_shards() {
    espalier_testing::seeds(15).for_each(lives);
}
