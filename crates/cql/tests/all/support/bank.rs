//! A bank: accounts in two tables, and a ledger that each transfer writes in the same transaction.
//! The balances must always agree with the ledger.

use std::{pin::pin, time::Duration};

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{
    file::{FileSystem, simulated::SimulatedDisk},
    time,
};
use futures_util::future::{Either, select};

use super::shards::on_shards;

/// Number of accounts.
pub const ACCOUNTS: i64 = 6;
/// The balance of each account at the beginning.
pub const BALANCE: i64 = 100;

/// Executes a statement.
pub async fn query(
    processor: &QueryProcessor,
    text: &str,
) -> Result<QueryResult, espalier_cql::Error> {
    processor.query(text, &mut ClientState::default(), &QueryOptions::default()).await
}

/// Returns the rows of bigints that a query returns; null is 0.
pub async fn numbers(processor: &QueryProcessor, text: &str) -> Vec<Vec<i64>> {
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

/// Returns the table of an account, the account's key, and an assignment to the static column, or
/// an empty text if the table has no static column.
pub fn place(id: i64) -> (&'static str, String, &'static str) {
    if id % 2 == 0 {
        ("ks.even", format!("id = {id}"), "")
    } else {
        ("ks.odd", format!("k = {id} AND id = {id}"), ", moves = 1")
    }
}

/// Returns the text of a transfer.
pub fn transfer(number: i64, source: i64, target: i64, amount: i64) -> String {
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

/// Returns the outcome of a statement, or `None` if it has no outcome 5 ms after the power went
/// off. A transaction over several shards then waits for the disk.
pub async fn outcome_of(
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

/// Makes a transfer. Returns true if the condition of the transfer held, or `None` if the transfer
/// was not acknowledged.
pub async fn attempt(
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
pub async fn check(processor: &QueryProcessor, what: &str) -> Vec<i64> {
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
pub fn bank(shards: usize) -> SimulatedDisk {
    let file_system = FileSystem::simulated(1);
    on_shards(shards, &file_system, |processor| async move { create(&processor).await });
    file_system.simulated_disk().unwrap().clone()
}
