//! Decimals of many digits in columns with indexes.

use bytes::Bytes;
use espalier_cql::{ClientState, QueryOptions, QueryProcessor, Value, Values};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_types::{
    collection,
    literal::{MAX_LARGE_NUMBERS, MAX_NUMBER_BYTES},
};

use super::support::node::{execute, open};

/// Executes a statement with one value. If it fails, returns the message of the error.
async fn execute_with(
    processor: &QueryProcessor,
    statement: &str,
    value: &[u8],
) -> Result<(), String> {
    let client = ClientState::default();
    let prepared = processor.prepare(statement, &client).unwrap();
    let values = [Value::Bytes(Bytes::copy_from_slice(value))];
    let options = QueryOptions { values: Values::Positional(&values), ..QueryOptions::default() };
    let answer = processor.execute(&prepared, &client, &options).await;
    answer.map(|_| ()).map_err(|error| error.message)
}

#[test]
fn indexes_list_decimals_up_to_a_size() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, d decimal, e decimal, s set<decimal>, \
             m map<int, decimal>, f frozen<list<decimal>>)",
            "CREATE INDEX ON k.t (d)",
            "CREATE INDEX ON k.t (s)",
            "CREATE INDEX ON k.t (ENTRIES(m))",
            "CREATE INDEX ON k.t (FULL(f))",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let fits = [&[0, 0, 0, 1], vec![1; MAX_NUMBER_BYTES - 4].as_slice()].concat();
        let large = [&[0, 0, 0, 1], vec![1; MAX_NUMBER_BYTES].as_slice()].concat();
        let list = |value: &[u8], count: usize| {
            collection::list_of(std::iter::repeat_n(value, count)).to_vec()
        };
        let distinct = |count: u8| {
            let numbers: Vec<Vec<u8>> =
                (0..count).map(|last| [&fits[..fits.len() - 1], &[last]].concat()).collect();
            collection::list_of(numbers.iter().map(Vec::as_slice)).to_vec()
        };
        let most = MAX_LARGE_NUMBERS;
        for (statement, accepted, refused) in [
            ("INSERT INTO k.t (k, d) VALUES (1, ?)", fits.clone(), large.clone()),
            ("UPDATE k.t SET d = ? WHERE k = 1", fits.clone(), large.clone()),
            ("UPDATE k.t SET d = ? WHERE k = 1 IF EXISTS", fits.clone(), large.clone()),
            (
                "BEGIN BATCH UPDATE k.t SET d = ? WHERE k = 1; APPLY BATCH",
                fits.clone(),
                large.clone(),
            ),
            ("UPDATE k.t SET s = s + ? WHERE k = 1", list(&fits, 1), list(&large, 1)),
            ("UPDATE k.t SET s = ? WHERE k = 1", distinct(most as u8), distinct(most as u8 + 1)),
            ("UPDATE k.t SET m[1] = ? WHERE k = 1", fits.clone(), large.clone()),
            ("UPDATE k.t SET f = ? WHERE k = 1", list(&fits, most), list(&fits, most + 1)),
            ("SELECT k FROM k.t WHERE d = ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE s CONTAINS ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE m[1] = ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE f = ?", list(&fits, most), list(&large, 1)),
        ] {
            execute_with(&processor, statement, &accepted).await.unwrap();
            let message = execute_with(&processor, statement, &refused).await.unwrap_err();
            assert!(message.contains("16384"), "{statement}: {message}");
        }
        // No index lists this column.
        execute_with(&processor, "UPDATE k.t SET e = ? WHERE k = 1", &large).await.unwrap();
    });
}
