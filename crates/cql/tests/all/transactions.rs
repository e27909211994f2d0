//! Transactions over shards: no transaction reads only a part of another one's writes.

use std::sync::{Arc, Mutex};

use espalier_cql::{QueryProcessor, QueryResult};
use espalier_runtime::{
    file::{FileSystem, simulated::SimulatedDisk},
    random::Generator,
    spawn_local,
};

use crate::support::{
    bank::{ACCOUNTS, BALANCE, attempt, bank, check, numbers, outcome_of, place, query, transfer},
    shards::on_shards,
};

#[test]
fn readers_in_transactions_see_no_part_of_another() {
    for seed in espalier_testing::seeds(20) {
        let disk = bank(2);
        let power = disk.clone();
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let noted = acknowledged.clone();
        let crashed = on_shards(2, &FileSystem::on(disk), move |processor| {
            let (power, noted) = (power.clone(), noted.clone());
            async move {
                let mut random = Generator::from_seed(seed);
                power.power_off_after(2_000 + random.below(2_000));
                let writers = (0..8).map(|writer| {
                    let (processor, power) = (processor.clone(), power.clone());
                    let noted = noted.clone();
                    spawn_local(
                        async move { write(&processor, &power, seed, writer, &noted).await },
                    )
                });
                let writers: Vec<_> = writers.collect();
                let reader = spawn_local({
                    let (processor, power) = (processor.clone(), power.clone());
                    async move { read(&processor, &power, seed).await }
                });
                for writer in writers {
                    writer.await;
                }
                reader.await;
                power.crash(seed)
            }
        });
        let crashed = FileSystem::on(crashed);
        let transfers = on_shards(2, &crashed, move |processor| async move {
            check(&processor, &format!("seed {seed}")).await
        });
        for number in acknowledged.lock().unwrap().iter() {
            assert!(transfers.contains(number), "seed {seed}: transfer {number} is lost");
        }
    }
}

/// Makes transfers until the power is off.
async fn write(
    processor: &QueryProcessor,
    power: &SimulatedDisk,
    seed: u64,
    writer: i64,
    noted: &Mutex<Vec<i64>>,
) {
    let mut random = Generator::from_seed(seed * 100 + writer as u64);
    for step in 0..40 {
        let source = random.below(ACCOUNTS as u64) as i64;
        let target = (source + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let (number, amount) = (writer * 1000 + step, 1 + random.below(60) as i64);
        match attempt(processor, power, number, source, target, amount).await {
            Some(true) => noted.lock().unwrap().push(number),
            Some(false) => {}
            None => return,
        }
    }
}

/// Reads all balances in transactions until the power is off, and checks that their sum is the
/// same.
async fn read(processor: &QueryProcessor, power: &SimulatedDisk, seed: u64) {
    let reads = (0..ACCOUNTS).map(|id| {
        let (table, key, _) = place(id);
        format!("LET a{id} = (SELECT balance FROM {table} WHERE {key}); ")
    });
    let names: Vec<_> = (0..ACCOUNTS).map(|id| format!("a{id}.balance")).collect();
    let text = format!(
        "BEGIN TRANSACTION {}SELECT {}; COMMIT TRANSACTION",
        reads.collect::<String>(),
        names.join(", ")
    );
    for _ in 0..60 {
        let outcome = outcome_of(processor, power, &text).await;
        let Some(Ok(QueryResult::Rows(rows))) = outcome else { return };
        let balances = rows.content.chunks(12);
        let sum: i64 =
            balances.map(|value| i64::from_be_bytes(*value[4..].first_chunk().unwrap())).sum();
        assert_eq!(sum, ACCOUNTS * BALANCE, "seed {seed}");
    }
}

#[test]
fn keys_are_evaluated_once() {
    let disk = bank(3);
    let count = on_shards(3, &FileSystem::on(disk), |processor| async move {
        let table = "CREATE TABLE ks.u (id uuid, at timeuuid, v bigint, PRIMARY KEY (id, at))";
        query(&processor, table).await.unwrap();
        let insert = "INSERT INTO ks.u (id, at, v) VALUES (uuid(), now(), 1)";
        for _ in 0..20 {
            query(&processor, insert).await.unwrap();
            query(&processor, &format!("{insert} IF NOT EXISTS")).await.unwrap();
            let transaction = format!("BEGIN TRANSACTION {insert}; {insert}; COMMIT TRANSACTION");
            query(&processor, &transaction).await.unwrap();
        }
        numbers(&processor, "SELECT count(*) FROM ks.u").await[0][0]
    });
    assert_eq!(count, 80);
}

/// More transactions wait for the same rows than one shard may have calls to another.
#[test]
fn a_crowd_at_one_row_does_not_stop_the_shards() {
    let disk = bank(3);
    on_shards(3, &FileSystem::on(disk), |processor| async move {
        let crowd: Vec<_> = (0..5_000)
            .map(|number| {
                let processor = processor.clone();
                spawn_local(async move {
                    let (source, target) = if number % 2 == 0 { (0, 5) } else { (5, 0) };
                    query(&processor, &transfer(number, source, target, 1)).await.unwrap();
                })
            })
            .collect();
        for member in crowd {
            member.await;
        }
        assert_eq!(check(&processor, "a crowd").await.len(), 5_000);
    });
}
