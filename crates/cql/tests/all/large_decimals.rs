//! Decimals of many digits in columns with indexes and in functions.

use bytes::Bytes;
use espalier_cql::{ClientState, QueryOptions, QueryProcessor, Value, Values};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_types::{
    collection,
    literal::{MAX_LARGE_NUMBERS, MAX_NUMBER_BYTES},
};

use super::support::node::{execute, open, rows};

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
             m map<int, decimal>, f frozen<list<decimal>>, c 'CompositeType(DecimalType)')",
            "CREATE INDEX ON k.t (d)",
            "CREATE INDEX ON k.t (s)",
            "CREATE INDEX ON k.t (ENTRIES(m))",
            "CREATE INDEX ON k.t (FULL(f))",
            "CREATE INDEX ON k.t (c)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let fits = [&[0, 0, 0, 1], vec![1; MAX_NUMBER_BYTES - 4].as_slice()].concat();
        let large = [&[0, 0, 0, 1], vec![1; MAX_NUMBER_BYTES].as_slice()].concat();
        let list = |value: &[u8], count: usize| {
            collection::list_of(std::iter::repeat_n(value, count)).to_vec()
        };
        let composite = |value: &[u8]| {
            let length = u16::try_from(value.len()).unwrap().to_be_bytes();
            [&length[..], value, &[0]].concat()
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
            ("UPDATE k.t SET c = ? WHERE k = 1", composite(&fits), composite(&large)),
            ("SELECT k FROM k.t WHERE d = ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE s CONTAINS ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE m[1] = ?", fits.clone(), large.clone()),
            ("SELECT k FROM k.t WHERE f = ?", list(&fits, most), list(&large, 1)),
            ("SELECT k FROM k.t WHERE c = ?", composite(&fits), composite(&large)),
        ] {
            execute_with(&processor, statement, &accepted).await.unwrap();
            let message = execute_with(&processor, statement, &refused).await.unwrap_err();
            assert!(message.contains("16384"), "{statement}: {message}");
        }
        // No index lists this column.
        execute_with(&processor, "UPDATE k.t SET e = ? WHERE k = 1", &large).await.unwrap();
    });
}

/// The byte-comparable form of a row's key omits the trailing zeros of its decimal.
#[test]
fn an_index_lists_rows_whose_decimals_end_with_many_zeros() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int, d decimal, v int, PRIMARY KEY (k, d))",
            "CREATE INDEX ON k.t (v)",
            "INSERT INTO k.t (k, d, v) VALUES (2, 1, 7)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let zeros = "0".repeat(2000);
        let insert = format!("INSERT INTO k.t (k, d, v) VALUES (1, 1{zeros}e2147483648, 7)");
        execute(&processor, &insert).await.unwrap();
        for is_flushed in [false, true] {
            if is_flushed {
                processor.database().flush("k", None).await.unwrap();
            }
            let (count, _) = rows(&processor, "SELECT * FROM k.t WHERE v = 7", None).await;
            assert_eq!(count, 2, "flushed: {is_flushed}");
        }
    });
}

/// The message of a statement that computes too much without a yield.
const TOO_MUCH: &str = "computes too much with numbers of many digits";

/// Serialises 1 x 10^-scale.
fn one_at(scale: i32) -> Vec<u8> {
    [&scale.to_be_bytes()[..], &[1]].concat()
}

#[test]
fn a_sum_of_decimals_ends_where_each_needs_many_zeros() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, l frozen<list<decimal>>)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        // The sum has 40,000 digits after its first element. The scales of the other elements
        // alternate.
        let mut list = vec![one_at(40_000)];
        list.extend((0..2000).map(|index| one_at(index % 2)));
        for (count, is_accepted) in [(100, true), (2000, false)] {
            let list = collection::list_of(list[..=count].iter().map(Vec::as_slice));
            execute_with(&processor, "INSERT INTO k.t (k, l) VALUES (1, ?)", &list).await.unwrap();
            for function in ["collection_sum", "collection_avg"] {
                let query = format!("SELECT {function}(l) FROM k.t");
                let answer = execute(&processor, &query).await;
                assert_eq!(answer.is_ok(), is_accepted, "{query} of {count}");
                assert!(answer.err().is_none_or(|message| message.contains(TOO_MUCH)));
            }
        }
    });
}

#[test]
fn a_row_or_statement_of_many_logarithms_is_refused() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        let digits = "7".repeat(1000);
        for statement in [
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE k.t (k int PRIMARY KEY, d decimal, l list<decimal>)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        // Each row counts alone: together, these rows exceed the limit of a row.
        for key in 0..12 {
            let insert = format!("INSERT INTO k.t (k, d) VALUES ({key}, {digits})");
            execute(&processor, &insert).await.unwrap();
        }
        execute(&processor, "SELECT log10(d) FROM k.t").await.unwrap();
        execute(&processor, "SELECT max(log10(d)) FROM k.t").await.unwrap();
        let calls = |argument: &str| vec![format!("log10({argument})"); 12].join(", ");
        for statement in [
            format!("SELECT {} FROM k.t WHERE k = 1", calls("d")),
            format!("SELECT {} FROM k.t", calls("d")),
            format!("UPDATE k.t SET l = [{}] WHERE k = 1", calls(&digits)),
        ] {
            let message = execute(&processor, &statement).await.unwrap_err();
            assert!(message.contains(TOO_MUCH), "{message}");
            // The statements of a client begin in polls of their own.
            espalier_runtime::yield_now().await;
        }
    });
}
