//! Turns on rows of two shards.

use std::time::Duration;

use espalier_cql::{ClientState, ErrorCode, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{file::FileSystem, spawn_local, time};
use espalier_storage::StorageConfiguration;

use crate::support::{
    node::execute,
    shards::{configuration, on_shards, on_shards_with},
    turns::{hold, key_of_shard, release},
};

/// The protocol's code of the consistency level SERIAL.
const SERIAL: u16 = 8;

/// Creates a table with a row on each of two shards, and returns their keys.
async fn create(processor: &QueryProcessor) -> [i64; 2] {
    for statement in [
        "CREATE KEYSPACE ks WITH replication = \
         {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k bigint PRIMARY KEY, v int)",
    ] {
        execute(processor, statement).await.unwrap();
    }
    let keys = [key_of_shard(processor, 0, 0), key_of_shard(processor, 1, 0)];
    for key in keys {
        write(processor, key, 1).await;
    }
    keys
}

async fn write(processor: &QueryProcessor, key: i64, value: i32) {
    let text = format!("INSERT INTO ks.t (k, v) VALUES ({key}, {value})");
    execute(processor, &text).await.unwrap();
}

/// Reads the value of a row, which exists.
async fn read(processor: &QueryProcessor, key: i64, consistency: u16) -> i32 {
    let options = QueryOptions { consistency, ..QueryOptions::default() };
    let text = format!("SELECT v FROM ks.t WHERE k = {key}");
    let answer = processor.query(&text, &mut ClientState::default(), &options).await.unwrap();
    let QueryResult::Rows(rows) = answer else { panic!("{answer:?}") };
    i32::from_be_bytes(*rows.content[4..].first_chunk().unwrap())
}

/// One shard has the writes of a transaction already, and another shard lacks them. A read at
/// SERIAL of either row waits. Otherwise one read could return new data, and a later read of the
/// other row could return old data.
#[test]
fn a_serial_read_waits_until_all_shards_have_a_transaction() {
    on_shards(2, &FileSystem::simulated(1), |processor| async move {
        let [first, second] = create(&processor).await;
        hold(&processor, 0, first).await;
        hold(&processor, 1, second).await;
        write(&processor, first, 2).await;
        assert_eq!(read(&processor, first, 1).await, 2);
        let reads = [first, second].map(|key| {
            let processor = processor.clone();
            spawn_local(async move { read(&processor, key, SERIAL).await })
        });
        time::sleep(Duration::from_millis(20)).await;
        assert!(reads.iter().all(|read| !read.is_finished()));
        write(&processor, second, 2).await;
        release(&processor, 0).await;
        release(&processor, 1).await;
        for read in reads {
            assert_eq!(read.await, 2);
        }
    });
}

/// A statement that gives up at the second shard ends its turn at the first shard.
#[test]
fn a_transaction_that_gives_up_at_a_shard_leaves_the_others() {
    let mut timeouts = configuration().timeouts;
    // Long enough for a call to a shard that waits for its core.
    timeouts.cas_contention = Duration::from_secs(2);
    let configuration = StorageConfiguration { timeouts, ..configuration() };
    on_shards_with(2, &FileSystem::simulated(1), configuration, |processor| async move {
        let [first, second] = create(&processor).await;
        hold(&processor, 1, second).await;
        let update = |key: i64| format!("UPDATE ks.t SET v = 2 WHERE k = {key}");
        let transaction =
            format!("BEGIN TRANSACTION {}; {}; COMMIT TRANSACTION", update(first), update(second));
        // The call to another shard reaches its deadline, too.
        let conditional = format!("{} IF v = 1", update(second));
        for statement in [transaction, conditional] {
            let options = QueryOptions::default();
            let mut client = ClientState::default();
            let error = processor.query(&statement, &mut client, &options).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::WriteTimeout, "{error}");
            assert!(error.message.contains("Other statements held its rows for 2s"), "{error}");
        }
        execute(&processor, &format!("{} IF v = 1", update(first))).await.unwrap();
        release(&processor, 1).await;
        assert_eq!(read(&processor, first, SERIAL).await, 2);
        assert_eq!(read(&processor, second, SERIAL).await, 1);
    });
}
