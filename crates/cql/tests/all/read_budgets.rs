//! Statements that read before they write read a limited number of bytes.

use espalier_runtime::{block_on, file::FileSystem};

use crate::support::node::{execute, open_with_keyspace};

/// Each statement reads a static column of 2 MiB with each of 140 rows. Without a limit, the node
/// would hold all copies at once.
#[test]
fn large_rows_are_refused_and_not_held() {
    block_on(async {
        let statements =
            ["CREATE TABLE ks.t (p int, c int, s text static, v int, PRIMARY KEY (p, c))"];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let large = "x".repeat(2 << 20);
        let insert = format!("INSERT INTO ks.t (p, s) VALUES (0, '{large}')");
        execute(&processor, &insert).await.unwrap();
        let rows = |of_row: &dyn Fn(usize) -> String| (0..140).map(of_row).collect::<String>();
        let inserts =
            rows(&|row| format!("INSERT INTO ks.t (p, c, v) VALUES (0, {row}, 1) IF NOT EXISTS; "));
        execute(&processor, &format!("BEGIN BATCH {inserts} APPLY BATCH")).await.unwrap();
        // The answer would repeat the static column for each row.
        let updates = rows(&|row| {
            format!("UPDATE ks.t SET v = 2 WHERE p = 0 AND c = {row} IF v = 5 AND s = 'no'; ")
        });
        let batch = format!("BEGIN BATCH {updates} APPLY BATCH");
        let error = execute(&processor, &batch).await.unwrap_err();
        assert!(error.contains("The rows of the answer are larger than 256 MiB"), "{error}");
        let reads = rows(&|row| {
            format!("LET r{row} = (SELECT c, s FROM ks.t WHERE p = 0 AND c = {row}); ")
        });
        let transaction = format!("BEGIN TRANSACTION {reads} SELECT r0.s; COMMIT TRANSACTION");
        let error = execute(&processor, &transaction).await.unwrap_err();
        assert!(error.contains("reads are larger than 256 MiB"), "{error}");
    });
}
