//! Power fails at random moments. Afterwards the node has every acknowledged write, and no write
//! that was never sent.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use espalier_mutation::KeyRange;
use espalier_runtime::{
    block_on,
    file::FileSystem,
    random::{self, Generator},
    spawn_local,
};
use espalier_storage::{CommitLogSync, Node, ReadTarget, StorageConfiguration};

use crate::support::*;

/// Last value sent and last value acknowledged, for each row. Values only grow.
type Sent = Rc<RefCell<BTreeMap<(String, i32), (i64, i64)>>>;

fn small() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.segment_bytes = 16 << 10;
    configuration.commit_log.total_bytes = 64 << 10;
    configuration
}

async fn write(database: Node, seed: u64, writes: u64, sent: Sent) {
    let mut random = Generator::from_seed(seed);
    let wide = table(&database, "wide");
    for _ in 0..writes {
        let row = (format!("p{}", random.below(3)), random.below(4) as i32);
        let value = {
            let mut sent = sent.borrow_mut();
            let (last, _) = sent.entry(row.clone()).or_insert((0, 0));
            *last += 1;
            *last
        };
        let padding = "x".repeat(random.below(300) as usize);
        let values = [("v", value.to_string()), ("w", padding)];
        let values: Vec<(&str, &str)> = values.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let mutation = insert(&wide, &row.0, Some(row.1), value, &values);
        match database.apply(mutation).await {
            Ok(()) => {
                let mut sent = sent.borrow_mut();
                let (_, acknowledged) = sent.get_mut(&row).unwrap();
                *acknowledged = value.max(*acknowledged);
            }
            Err(_) => return, // the power is off
        }
    }
}

/// Checks the values of all rows. Returns false if the read fails.
async fn check(database: &Node, sent: &Sent, context: &str) -> bool {
    let wide = table(database, "wide");
    let mut found = BTreeMap::new();
    let everything = command(&wide, ReadTarget::Range(KeyRange::full()));
    let Ok(read) = database.read(everything).await else { return false };
    for partition in read.partitions {
        let name = String::from_utf8(partition.key.key.to_vec()).unwrap();
        for row in &partition.rows {
            let clustering = row.clustering.values[0].as_deref().unwrap();
            let clustering = i32::from_be_bytes(*clustering.first_chunk().unwrap());
            let value: i64 = text(&wide, row, "v").unwrap().parse().unwrap();
            found.insert((name.clone(), clustering), value);
        }
    }
    for (row, (last, acknowledged)) in sent.borrow().iter() {
        let value = found.remove(row).unwrap_or(0);
        assert!(
            (*acknowledged..=*last).contains(&value),
            "{context}: row {row:?} is {value}, acknowledged {acknowledged}, sent {last}"
        );
    }
    assert!(found.is_empty(), "{context}: rows that were never sent: {found:?}");
    true
}

/// Runs several lives of a node on one disk, each ended by a crash.
fn lives(seed: u64, sync: CommitLogSync) {
    random::seed(seed);
    let mut random = Generator::from_seed(seed);
    let mut file_system = FileSystem::simulated(seed);
    let sent = Sent::default();
    let mut is_created = false;
    for life in 0..4 {
        let disk = file_system.simulated_disk().unwrap().clone();
        let with_power_cut = is_created && random.below(4) > 0;
        if with_power_cut {
            disk.power_off_after(random.below(900));
        }
        let mut configuration = small();
        configuration.commit_log.sync = sync;
        let flush_after = random.below(40);
        let writer_seed = random.next_u64();
        let opened = block_on(async {
            espalier_runtime::preempt::force_yields(Some(writer_seed));
            let Ok(database) = open(&file_system, configuration).await else { return false };
            if !is_created {
                create(&database, vec![wide_table()]).await;
                is_created = true;
            }
            if !check(&database, &sent, &format!("seed {seed} life {life}")).await {
                return false;
            }
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (database, sent) = (database.clone(), sent.clone());
                    spawn_local(write(database, writer_seed + writer, 60, sent))
                })
                .collect();
            for _ in 0..flush_after {
                espalier_runtime::yield_now().await;
            }
            let _ = database.flush("ks", None).await;
            for writer in writers {
                writer.await;
            }
            if random.below(4) == 0 {
                let _ = database.shutdown().await;
            }
            true
        });
        espalier_runtime::preempt::force_yields(None);
        assert!(opened || with_power_cut, "seed {seed} life {life}: cannot open or read");
        file_system = FileSystem::on(disk.crash(random.next_u64()));
    }
    block_on(async {
        let database = open(&file_system, small()).await.unwrap();
        assert!(check(&database, &sent, &format!("seed {seed}, at the end")).await);
    });
}

#[test]
fn writes_acknowledged_under_group_commit_survive_crashes() {
    espalier_testing::seeds(60).for_each(|seed| lives(seed, CommitLogSync::default()));
}

#[test]
fn writes_acknowledged_under_batch_commit_survive_crashes() {
    espalier_testing::seeds(10).for_each(|seed| lives(seed, CommitLogSync::Batch));
}
