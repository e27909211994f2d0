//! Counters of many partitions in one statement, and of one partition in many statements.

use espalier_cql::QueryProcessor;
use espalier_runtime::{block_on, file::FileSystem, spawn_local, yield_now};

use crate::support::node::{execute, open_with_keyspace, rows};

#[test]
fn partitions_of_one_statement_share_syncs() {
    block_on(async {
        let statements = ["CREATE TABLE ks.t (k int PRIMARY KEY, n counter)"];
        let (database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let keys: Vec<_> = (0..128).map(|key| key.to_string()).collect();
        let update = format!("UPDATE ks.t SET n = n + 1 WHERE k IN ({})", keys.join(", "));
        let sync_batches = || database.store().metrics().commit_log.sync_batches;
        // A statement that uses up its budget yields to the log, and other processes may have the
        // core meanwhile, so one statement of several counts.
        let (mut least, mut updates) = (u64::MAX, 0_i64);
        while least >= 64 && updates < 5 {
            let before = sync_batches();
            execute(&processor, &update).await.unwrap();
            least = least.min(sync_batches() - before);
            updates += 1;
        }
        assert!(least < 100, "{least} syncs for 128 partitions");
        let batch = format!("BEGIN COUNTER BATCH {update}; {update}; APPLY BATCH");
        execute(&processor, &batch).await.unwrap();
        let (count, _) = rows(&processor, "SELECT k FROM ks.t", None).await;
        assert_eq!(count, 128);
        let (_, sum) = rows(&processor, "SELECT sum(n) FROM ks.t", None).await;
        assert_eq!(sum[4..], ((updates + 2) * 128_i64).to_be_bytes());
    });
}

/// A reader sees all changes that a batch makes to one partition, or none of them.
#[test]
fn changes_of_one_partition_are_one_write() {
    block_on(async {
        let statements =
            ["CREATE TABLE ks.t (k int, c int, s counter static, n counter, PRIMARY KEY (k, c))"];
        let (database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let batch = "BEGIN COUNTER BATCH \
                     UPDATE ks.t SET n = n + 1 WHERE k = 1 AND c = 1; \
                     UPDATE ks.t SET n = n + 2 WHERE k = 1 AND c = 2; \
                     UPDATE ks.t SET s = s + 4 WHERE k = 1; \
                     UPDATE ks.t SET n = n + 8 WHERE k = 1 AND c = 1; \
                     UPDATE ks.t SET s = s + 16 WHERE k = 1; \
                     APPLY BATCH";
        let before = database.store().metrics().commit_log.sync_batches;
        execute(&processor, batch).await.unwrap();
        assert_eq!(database.store().metrics().commit_log.sync_batches, before + 1);
        let once = numbers(&processor).await;
        assert_eq!(once, [20, 9, 20, 2]);
        let writer = spawn_local({
            let processor = processor.clone();
            async move { execute(&processor, batch).await }
        });
        let twice: Vec<_> = once.iter().map(|number| 2 * number).collect();
        loop {
            let found = numbers(&processor).await;
            if found == twice {
                break;
            }
            assert_eq!(found, once);
            yield_now().await;
        }
        writer.await.unwrap();
    });
}

/// Returns the values of `s` and `n` of each row.
async fn numbers(processor: &QueryProcessor) -> Vec<i64> {
    let (_, content) = rows(processor, "SELECT s, n FROM ks.t", None).await;
    let values = content.chunks_exact(12).map(|value| value[4..].try_into().unwrap());
    values.map(i64::from_be_bytes).collect()
}
