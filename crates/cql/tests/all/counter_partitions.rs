//! Counters of many partitions in one statement.

use espalier_runtime::{block_on, file::FileSystem};

use crate::support::node::{execute, open, rows};

#[test]
fn partitions_of_one_statement_share_syncs() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        for statement in [
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, n counter)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        let keys: Vec<_> = (0..128).map(|key| key.to_string()).collect();
        let update = format!("UPDATE ks.t SET n = n + 1 WHERE k IN ({})", keys.join(", "));
        let before = database.store().metrics().commit_log.sync_batches;
        execute(&processor, &update).await.unwrap();
        let batches = database.store().metrics().commit_log.sync_batches - before;
        assert!(batches < 64, "{batches} syncs for 128 partitions");
        let batch = format!("BEGIN COUNTER BATCH {update}; {update}; APPLY BATCH");
        execute(&processor, &batch).await.unwrap();
        let (count, _) = rows(&processor, "SELECT k FROM ks.t", None).await;
        assert_eq!(count, 128);
        let (_, sum) = rows(&processor, "SELECT sum(n) FROM ks.t", None).await;
        assert_eq!(sum[4..], (3i64 * 128).to_be_bytes());
    });
}
