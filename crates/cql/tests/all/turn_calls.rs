//! Calls to another shard that wait for a turn leave room for the calls of the turn's holder.

use std::time::Duration;

use espalier_runtime::{file::FileSystem, time};
use futures_util::future::join_all;

use crate::support::{
    node::execute,
    shards::on_shards,
    turns::{hold, key_of_shard, release},
};

/// While a turn is held, clients give up more statements than one shard may have calls to another.
/// The calls of these statements continue to wait for the turn. The holder of the turn can call the
/// other shard nevertheless.
#[test]
fn statements_that_are_given_up_leave_room_for_other_calls() {
    let file_system = FileSystem::simulated(1);
    on_shards(2, &file_system, |processor| async move {
        for statement in [
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k bigint PRIMARY KEY, v int)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let key = key_of_shard(&processor, 1, 0);
        execute(&processor, &format!("INSERT INTO ks.t (k, v) VALUES ({key}, 0)")).await.unwrap();
        hold(&processor, 1, key).await;
        let conditional = format!("UPDATE ks.t SET v = 1 WHERE k = {key} IF v = 0");
        let transaction = format!(
            "BEGIN TRANSACTION LET a = (SELECT v FROM ks.t WHERE k = {key}); SELECT a.v; \
             UPDATE ks.t SET v = 2 WHERE k = {key}; COMMIT TRANSACTION"
        );
        for statement in [&conditional, &transaction] {
            for _ in 0..2 {
                let crowd = (0..2_500).map(|_| async {
                    let statement = execute(&processor, statement);
                    let outcome = time::timeout(Duration::from_millis(1), statement).await;
                    assert!(outcome.is_err(), "the turn was not held");
                });
                join_all(crowd).await;
            }
            let call = processor.database().on_shard(1, |_| async {});
            // The shard may be behind by thousands of statements. If there is no room, the call
            // waits for the end of the turn.
            let answer = time::timeout(Duration::from_secs(120), call).await;
            assert!(answer.is_ok(), "no room for a call after {statement}");
        }
        release(&processor, 1).await;
        // All calls have ended, so there is room for further statements.
        let crowd = (0..1_000).map(|_| execute(&processor, &conditional));
        join_all(crowd).await.into_iter().for_each(|outcome| assert!(outcome.is_ok()));
    });
}
