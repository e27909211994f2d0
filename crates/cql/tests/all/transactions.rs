//! Transactions over shards: a crash keeps all of a transaction or nothing, and no transaction sees
//! a part of another.
//!
//! Money moves between accounts in two tables, and each transfer writes a row of a ledger in the
//! same transaction. The balances must always be what the ledger says.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{
    file::{FileSystem, simulated::SimulatedDisk},
    random::Generator,
    spawn_local, time,
};
use espalier_storage::StorageConfiguration;
use futures_util::future::{Either, select};

use crate::support::shards::{configuration, on_shards, on_shards_with};

const ACCOUNTS: i64 = 6;
const BALANCE: i64 = 100;

async fn query(processor: &QueryProcessor, text: &str) -> Result<QueryResult, espalier_cql::Error> {
    processor.query(text, &mut ClientState::default(), &QueryOptions::default()).await
}

/// Returns the rows of bigints that a query returns; null is 0.
async fn numbers(processor: &QueryProcessor, text: &str) -> Vec<Vec<i64>> {
    let QueryResult::Rows(rows) = query(processor, text).await.unwrap() else {
        panic!("{text}: no rows")
    };
    let mut content = rows.content.as_slice();
    let mut number = || {
        let (length, rest) = content.split_first_chunk::<4>().unwrap();
        let length = i32::from_be_bytes(*length).max(0) as usize;
        let (value, rest) = rest.split_at(length);
        content = rest;
        value.try_into().map_or(0, i64::from_be_bytes)
    };
    let columns = rows.metadata.columns.len();
    (0..rows.row_count).map(|_| (0..columns).map(|_| number()).collect()).collect()
}

async fn create(processor: &QueryProcessor) {
    let statements = [
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.even (id bigint PRIMARY KEY, balance bigint)",
        "CREATE TABLE ks.odd (k bigint, id bigint, balance bigint, moves bigint static, \
         PRIMARY KEY (k, id))",
        "CREATE TABLE ks.ledger (id bigint PRIMARY KEY, source bigint, target bigint, \
         amount bigint)",
    ];
    for statement in statements {
        query(processor, statement).await.unwrap();
    }
    for id in 0..ACCOUNTS {
        let (table, key, _) = place(id);
        let columns = if key.contains("AND") { "k, id" } else { "id" };
        let values = if key.contains("AND") { format!("{id}, {id}") } else { id.to_string() };
        let text = format!("INSERT INTO {table} ({columns}, balance) VALUES ({values}, {BALANCE})");
        query(processor, &text).await.unwrap();
    }
}

/// Returns the table of an account, its key, and the assignment that counts its moves.
fn place(id: i64) -> (&'static str, String, &'static str) {
    if id % 2 == 0 {
        ("ks.even", format!("id = {id}"), "")
    } else {
        ("ks.odd", format!("k = {id} AND id = {id}"), ", moves = 1")
    }
}

fn transfer(number: i64, source: i64, target: i64, amount: i64) -> String {
    let (from, from_key, from_moves) = place(source);
    let (to, to_key, to_moves) = place(target);
    format!(
        "BEGIN TRANSACTION \
         LET a = (SELECT balance FROM {from} WHERE {from_key}); \
         LET b = (SELECT balance FROM {to} WHERE {to_key}); \
         SELECT a.balance, b.balance; \
         IF a.balance >= {amount} AND b.balance IS NOT NULL THEN \
         UPDATE {from} SET balance -= {amount}{from_moves} WHERE {from_key}; \
         UPDATE {to} SET balance += {amount}{to_moves} WHERE {to_key}; \
         INSERT INTO ks.ledger (id, source, target, amount) \
         VALUES ({number}, {source}, {target}, {amount}); \
         END IF COMMIT TRANSACTION"
    )
}

/// Returns the outcome of a statement; `None` if it has none some time after the power is off,
/// because a transaction over several shards waits for the disk then.
async fn outcome_of(
    processor: &QueryProcessor,
    power: &SimulatedDisk,
    text: &str,
) -> Option<Result<QueryResult, espalier_cql::Error>> {
    let power_off = async {
        while !power.is_power_off() {
            time::sleep(Duration::from_millis(1)).await;
        }
        time::sleep(Duration::from_millis(5)).await;
    };
    match select(pin!(query(processor, text)), pin!(power_off)).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right(_) => None,
    }
}

/// Makes a transfer. Returns whether it was acknowledged, and whether its condition held.
async fn attempt(
    processor: &QueryProcessor,
    power: &SimulatedDisk,
    number: i64,
    source: i64,
    target: i64,
    amount: i64,
) -> Option<bool> {
    match outcome_of(processor, power, &transfer(number, source, target, amount)).await? {
        Ok(QueryResult::Rows(rows)) => {
            let balance = i64::from_be_bytes(*rows.content[4..].first_chunk().unwrap());
            Some(balance >= amount)
        }
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    }
}

/// Checks the balances against the ledger. Returns the numbers of the transfers.
async fn check(processor: &QueryProcessor, what: &str) -> Vec<i64> {
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut transfers = Vec::new();
    for row in numbers(processor, "SELECT id, source, target, amount FROM ks.ledger").await {
        let [id, source, target, amount] = row[..] else { panic!("{row:?}") };
        balances[source as usize] -= amount;
        balances[target as usize] += amount;
        transfers.push(id);
    }
    let mut stored = numbers(processor, "SELECT id, balance FROM ks.even").await;
    stored.extend(numbers(processor, "SELECT id, balance FROM ks.odd").await);
    stored.sort();
    let expected = balances.into_iter().enumerate();
    let expected: Vec<_> = expected.map(|(id, balance)| vec![id as i64, balance]).collect();
    assert_eq!(stored, expected, "{what}: {transfers:?}");
    transfers.sort();
    transfers
}

/// Returns a disk with the tables and accounts.
fn bank(shards: usize) -> SimulatedDisk {
    let file_system = FileSystem::simulated(1);
    on_shards(shards, &file_system, |processor| async move { create(&processor).await });
    file_system.simulated_disk().unwrap().clone()
}

/// Returns how many operations on the disk a transfer has, those of other tasks included.
fn operations_of_a_commit(bank: &SimulatedDisk) -> u64 {
    let disk = bank.crash(0);
    let counted = disk.clone();
    on_shards_with(3, &FileSystem::on(disk), small_segments(), move |processor| {
        let counted = counted.clone();
        async move {
            let before = counted.operations();
            assert_eq!(attempt(&processor, &counted, 1, 0, 5, 30).await, Some(true));
            counted.operations() - before
        }
    })
}

/// Makes a transfer, cuts the power after some of its operations on the disk, and starts from the
/// image of the disk. Returns whether the transfer is there.
fn keeps_transfer(bank: &SimulatedDisk, operations: u64, seed: u64) -> bool {
    let mut random = Generator::from_seed(seed);
    let disk = bank.crash(0);
    let power = disk.clone();
    let cut_after = random.below(operations + 1);
    let (source, target) = (random.below(3) as i64, 3 + random.below(3) as i64);
    let (acknowledged, crashed) =
        on_shards_with(3, &FileSystem::on(disk), small_segments(), move |processor| {
            let power = power.clone();
            async move {
                power.power_off_after(cut_after);
                let acknowledged = attempt(&processor, &power, 1, source, target, 30).await;
                (acknowledged, power.crash(seed))
            }
        });
    let power = crashed.clone();
    let shards = 1 + random.below(3) as usize;
    let what = format!("seed {seed}, cut after {cut_after}, {shards} shards");
    let transfers =
        on_shards_with(shards, &FileSystem::on(crashed), small_segments(), move |processor| {
            let (what, power) = (what.clone(), power.clone());
            async move {
                let transfers = check(&processor, &what).await;
                // The shutdown need not flush.
                power.power_off_after(0);
                transfers
            }
        });
    let is_kept = transfers == [1];
    assert!(acknowledged.is_none() || is_kept, "seed {seed}: an acknowledged transfer is lost");
    is_kept
}

/// Returns settings with small segments of the commit log, because images of large ones take most
/// of the time.
fn small_segments() -> StorageConfiguration {
    StorageConfiguration { commitlog_segment_bytes: 32 << 10, ..configuration() }
}

/// Images whose nodes wait at the same time, for the retries of a transaction without a disk.
const IMAGES_AT_ONCE: usize = 8;

#[test]
fn a_crash_keeps_all_of_a_commit_or_nothing() {
    let bank = bank(3);
    let operations = operations_of_a_commit(&bank);
    let images = if espalier_testing::runs_all() { 10_000 } else { 400 };
    let seeds = Mutex::new(espalier_testing::seeds(images));
    let (whole, none) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..IMAGES_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(seed) = seeds.lock().unwrap().next() else { return };
                    let is_kept = keeps_transfer(&bank, operations, seed);
                    let count = if is_kept { &whole } else { &none };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let least = espalier_testing::at_least(40) as usize;
    let (whole, none) = (whole.into_inner(), none.into_inner());
    println!("{whole} images with the transfer, {none} without");
    assert!(whole > least && none > least, "{whole} whole, {none} none: the cuts fall in between");
}

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

/// Reads all balances in transactions until the power is off: their sum never changes.
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
