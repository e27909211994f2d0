//! Statements that have waited for their turn.

use std::time::Duration;

use bytes::Bytes;
use espalier_mutation::{Clustering, DecoratedKey};
use espalier_runtime::{
    block_on,
    file::FileSystem,
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};
use espalier_storage::TurnRows;

use crate::support::node::{self, execute, open};

/// A lease counts from the write, not from the arrival of its statement.
#[test]
fn a_time_to_live_begins_after_the_wait_for_the_turn() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k bigint PRIMARY KEY, v int)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let table = database.schema().table("ks", "t").unwrap().clone();
        let key = DecoratedKey::new(Bytes::copy_from_slice(&7i64.to_be_bytes()));
        let mut rows = TurnRows::new(&table, key.borrowed());
        rows.add_row(&table, &Clustering::empty());
        let clock = ManualClock::new(time::now_micros());
        let _installed = clock.install();
        let turn = database.take_turn(rows).await;
        let lease = spawn_local(async move {
            let text = "INSERT INTO ks.t (k, v) VALUES (7, 1) IF NOT EXISTS USING TTL 5";
            execute(&processor, text).await.unwrap();
            node::rows(&processor, "SELECT v FROM ks.t WHERE k = 7", None).await.0
        });
        for _ in 0..100 {
            yield_now().await;
        }
        clock.advance(Duration::from_secs(6));
        drop(turn);
        assert_eq!(lease.await, 1, "the lease has expired before it was granted");
    });
}
