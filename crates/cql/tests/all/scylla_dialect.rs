//! Statements and table properties that only ScyllaDB has, and writes to system tables.

use std::time::Duration;

use espalier_cql::{
    ClientState, ErrorCode, ErrorDetail, QueryOptions, QueryResult, Value, Values, Warnings,
};
use espalier_runtime::{block_on, file::FileSystem, time};
use espalier_storage::TurnKind;
use espalier_types::duration::Duration as CqlDuration;

use super::support::node::{open, rows};

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'} AND tablets = {'enabled': false}";

/// Returns the last column of each row of an answer, which must be a text.
fn texts(answer: QueryResult) -> Vec<String> {
    let QueryResult::Rows(rows) = answer else { panic!("no rows") };
    let (mut rest, mut found) = (rows.content.as_slice(), Vec::new());
    for _ in 0..rows.row_count {
        for column in 0..rows.metadata.columns.len() {
            let (length, tail) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap()).max(0) as usize;
            let (value, tail) = tail.split_at(length);
            if column == rows.metadata.columns.len() - 1 {
                found.push(String::from_utf8(value.to_vec()).unwrap());
            }
            rest = tail;
        }
    }
    found
}

#[test]
fn properties_of_tables_are_kept_and_described() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        let mut client = ClientState::default();
        let warnings = Warnings::default();
        let options = QueryOptions { warnings: Some(&warnings), ..QueryOptions::default() };
        let create = "CREATE TABLE k.t (k int PRIMARY KEY) WITH tombstone_gc = {'mode': 'repair'} AND \
                      cdc = {'enabled': 'true', 'ttl': '60'} AND paxos_grace_seconds = 1234 AND \
                      per_partition_rate_limit = {'max_reads_per_second': 100} AND in_memory = true";
        for statement in [KEYSPACE, create, "ALTER TABLE k.t WITH synchronous_updates = true"] {
            processor.query(statement, &mut client, &options).await.unwrap();
        }
        let warned = warnings.take();
        assert_eq!(warned.len(), 6, "{warned:?}");
        assert!(warned[0].contains("tombstone_gc"), "{warned:?}");
        let described = processor.query("DESCRIBE TABLE k.t", &mut client, &options).await.unwrap();
        let described = texts(described).remove(0);
        for property in [
            "AND cdc = {'enabled': 'true', 'ttl': '60'}",
            "AND extensions = {}",
            "AND in_memory = true",
            "AND paxos_grace_seconds = 1234",
            "AND per_partition_rate_limit = {'max_reads_per_second': '100'}",
            "AND synchronous_updates = true",
            "AND tombstone_gc = {'mode': 'repair'}",
        ] {
            assert!(described.contains(property), "{property}: {described}");
        }
        processor.query("DROP TABLE k.t", &mut client, &options).await.unwrap();
        processor.query(described.trim_end_matches(';'), &mut client, &options).await.unwrap();
        let again = processor.query("DESCRIBE TABLE k.t", &mut client, &options).await.unwrap();
        assert_eq!(texts(again).remove(0), described);
        warnings.take();
        let like = "CREATE TABLE k.l LIKE k.t WITH paxos_grace_seconds = 1";
        processor.query(like, &mut client, &options).await.unwrap();
        assert_eq!(warnings.take().len(), 1);
        for wrong in [
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH tombstone_gc = {'mode': 'never'}",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH paxos_grace_seconds = -1",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH cdc = {'unknown': 1}",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH tombstone_gc = 'repair'",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH in_memory = 'perhaps'",
        ] {
            assert!(processor.query(wrong, &mut client, &options).await.is_err(), "{wrong}");
        }
    });
}

#[test]
fn statements_of_missing_features_are_refused_by_name() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        let mut client = ClientState::default();
        for (statement, refusal) in [
            (
                "PRUNE MATERIALIZED VIEW k.v WHERE token(v) > 7 USING CONCURRENCY 100",
                "PRUNE MATERIALIZED VIEW is not supported yet (materialized views)",
            ),
            (
                "LIST EFFECTIVE SERVICE LEVEL OF r;",
                "LIST EFFECTIVE SERVICE LEVEL is not supported yet (service levels)",
            ),
            ("LIST ALL SERVICE LEVELS", "LIST SERVICE LEVEL is not supported yet (service levels)"),
            (
                "CREATE SERVICE_LEVEL IF NOT EXISTS x WITH timeout = 5s",
                "CREATE SERVICE LEVEL is not supported yet (service levels)",
            ),
            (
                "ATTACH SERVICE LEVEL x TO r",
                "ATTACH SERVICE LEVEL is not supported yet (service levels)",
            ),
            ("PRUNE TABLE t", "line 1:0 no viable alternative at input 'PRUNE'"),
            ("CREATE SERVICE LEVEL x WITH y = 'z", "line 1:32 string without an end"),
            ("PRUNE MATERIALIZED VIEW v /*", "line 1:26 comment without an end"),
        ] {
            let answer = processor.query(statement, &mut client, &QueryOptions::default()).await;
            let error = answer.unwrap_err();
            assert!(error.message.starts_with(refusal), "{statement}: {error}");
        }
    });
}

#[test]
fn a_timeout_ends_a_request_that_waits() {
    block_on(async {
        let (database, processor) = open(&FileSystem::simulated(1)).await;
        let mut client = ClientState::default();
        let options = QueryOptions::default();
        for statement in [
            KEYSPACE,
            "CREATE TABLE k.t (k int, c int, v int, PRIMARY KEY (k, c))",
            "INSERT INTO k.t (k, c, v) VALUES (1, 1, 1) USING TIMEOUT 60s AND TTL 1000",
            "BEGIN BATCH USING TIMEOUT 1m INSERT INTO k.t (k, c) VALUES (2, 1); APPLY BATCH",
            "UPDATE k.t USING TIMEOUT 60s SET v = 2 WHERE k = 1 AND c = 1 IF v = 1",
            "TRUNCATE k.t USING TIMEOUT 1h",
            "INSERT INTO k.t (k, c, v) VALUES (1, 1, 1)",
        ] {
            processor.query(statement, &mut client, &options).await.unwrap();
        }
        database.flush("k", None).await.unwrap();
        for (statement, code) in [
            ("INSERT INTO k.t (k, c) VALUES (1, 2) USING TIMEOUT 0ms", ErrorCode::WriteTimeout),
            ("DELETE FROM k.t USING TIMEOUT 0ms WHERE k = 1 AND c = 2", ErrorCode::WriteTimeout),
            ("SELECT * FROM k.t USING TIMEOUT 0ms", ErrorCode::ReadTimeout),
            ("SELECT * FROM k.t WHERE k = 1 AND c = 1 USING TIMEOUT 0ms", ErrorCode::ReadTimeout),
        ] {
            // A write waits for the commit log, and a read for the disk. A read may be done before
            // the timer fires, or find pages that a background task has read into the cache.
            let mut timed_out = None;
            for _ in 0..50 {
                database.drop_caches().await;
                timed_out = processor.query(statement, &mut client, &options).await.err();
                if timed_out.is_some() {
                    break;
                }
            }
            let error = timed_out.unwrap();
            assert_eq!(error.code, code, "{statement}: {error}");
            assert!(error.message.starts_with("Operation timed out - received only 0 responses. "));
        }
        // A conditional write, too, waits for the commit log at the end of its turn.
        let conditional = "INSERT INTO k.t (k, c) VALUES (1, 3) IF NOT EXISTS USING TIMEOUT 0ms";
        let error = processor.query(conditional, &mut client, &options).await.unwrap_err();
        assert_eq!(error.detail, ErrorDetail::WriteTimeout { kind: TurnKind::Conditional });
        assert_eq!(
            error.message,
            "CAS operation timed out: received 0 of 1 required responses after 0 contention \
             retries. The statement has taken 0ns (USING TIMEOUT); it may have been executed"
        );
        for (wrong, message) in [
            ("SELECT * FROM k.t USING TIMEOUT 1d", "cannot be expressed in days/months"),
            ("SELECT * FROM k.t USING TIMEOUT -1s", "must be non-negative"),
            ("SELECT * FROM k.t USING TIMEOUT 5us", "granularity finer than milliseconds"),
            (
                "BEGIN BATCH INSERT INTO k.t (k, c) VALUES (1, 1) USING TIMEOUT 1s; APPLY BATCH",
                "cannot have a TIMEOUT of its own",
            ),
        ] {
            let error = processor.query(wrong, &mut client, &options).await.unwrap_err();
            assert!(error.message.contains(message), "{wrong}: {error}");
        }
        let text = "SELECT * FROM k.t WHERE k = 1 USING TIMEOUT ?";
        let prepared = processor.prepare(text, &client).unwrap();
        assert_eq!(prepared.bind.columns[0].name, "[timeout]");
        for (nanoseconds, is_late) in [(0, true), (60_000_000_000, false)] {
            let mut bytes = Vec::new();
            CqlDuration { months: 0, days: 0, nanoseconds }.encode(&mut bytes);
            let values = [Value::Bytes(bytes.into())];
            let options =
                QueryOptions { values: Values::Positional(&values), ..QueryOptions::default() };
            // Reads that were given up above may still bring pages into the cache.
            time::sleep(Duration::from_millis(50)).await;
            // As above, a read may be done before the timer fires.
            let mut answer = Ok(QueryResult::Void);
            for _ in 0..50 {
                database.drop_caches().await;
                answer = processor.execute(&prepared, &client, &options).await;
                if answer.is_err() || !is_late {
                    break;
                }
            }
            assert_eq!(answer.is_err(), is_late, "{answer:?}");
        }
    });
}

#[test]
fn a_truncation_ends_even_if_its_client_does_not_wait() {
    let mut file_system = FileSystem::simulated(1);
    block_on(async {
        let (database, processor) = open(&file_system).await;
        let mut client = ClientState::default();
        let options = QueryOptions::default();
        for statement in [KEYSPACE, "CREATE TABLE k.t (k int PRIMARY KEY, v int)"] {
            processor.query(statement, &mut client, &options).await.unwrap();
        }
        for key in 1..4 {
            let before = format!("INSERT INTO k.t (k, v) VALUES ({key}, 0)");
            processor.query(&before, &mut client, &options).await.unwrap();
            let truncate = "TRUNCATE k.t USING TIMEOUT 0ms";
            let error = processor.query(truncate, &mut client, &options).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::TruncateError);
        }
        // The truncations under way hold the locks of the table.
        let flushed = time::timeout(Duration::from_secs(60), database.flush("k", None));
        flushed.await.expect("the table is flushed").unwrap();
        let truncated = processor.query("TRUNCATE k.t USING TIMEOUT 60s", &mut client, &options);
        truncated.await.unwrap();
        let after = "INSERT INTO k.t (k, v) VALUES (7, 0)";
        processor.query(after, &mut client, &options).await.unwrap();
        assert_eq!(rows(&processor, "SELECT k FROM k.t", None).await.0, 1);
    });
    file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    block_on(async {
        let (_, processor) = open(&file_system).await;
        assert_eq!(rows(&processor, "SELECT k FROM k.t", None).await.0, 1);
    });
}

#[test]
fn system_tables_are_not_changed_by_clients() {
    block_on(async {
        let (_, processor) = open(&FileSystem::simulated(1)).await;
        let mut client = ClientState::default();
        for statement in [
            "INSERT INTO system.local (key, cluster_name) VALUES ('local', 'x')",
            "UPDATE system.local SET cluster_name = 'x' WHERE key = 'local'",
            "DELETE FROM system.local WHERE key = 'local'",
            "BEGIN UNLOGGED BATCH INSERT INTO system.peers (peer) VALUES ('1.2.3.4'); APPLY BATCH",
        ] {
            let answer = processor.query(statement, &mut client, &QueryOptions::default()).await;
            let error = answer.unwrap_err();
            assert_eq!(error.code, ErrorCode::Unauthorized);
            assert_eq!(error.message, "system keyspace is not user-modifiable.");
        }
    });
}
