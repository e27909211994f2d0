//! The INs on the partition key and on the clustering of a write name at most 65,535 rows together,
//! and so do all INs of a batch or transaction.

use espalier_runtime::{block_on, file::FileSystem};

use crate::support::node::{execute, open_with_keyspace};

#[test]
fn a_write_names_at_most_65535_rows() {
    block_on(async {
        let statements = [
            "CREATE TABLE ks.t (p int, c int, v int, l list<int>, PRIMARY KEY (p, c))",
            "CREATE TABLE ks.n (p int, c int, n counter, PRIMARY KEY (p, c))",
        ];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let values = |count: usize| {
            let values: Vec<_> = (0..count).map(|value| value.to_string()).collect();
            values.join(", ")
        };
        let place = |partitions, rows| {
            format!("WHERE p IN ({}) AND c IN ({})", values(partitions), values(rows))
        };
        let too_many = place(256, 256);
        for statement in [
            format!("UPDATE ks.t SET v = 1 {too_many}"),
            format!("UPDATE ks.t SET l[0] = 1 {too_many}"),
            format!("UPDATE ks.n SET n = n + 1 {too_many}"),
            format!("DELETE FROM ks.t {too_many}"),
            format!("BEGIN BATCH UPDATE ks.t SET v = 1 {too_many}; APPLY BATCH"),
            format!("BEGIN TRANSACTION UPDATE ks.t SET v = 1 {too_many}; COMMIT TRANSACTION"),
        ] {
            let error = execute(&processor, &statement).await.unwrap_err();
            assert!(error.contains("more than 65535 combinations"), "{error}");
        }
        let allowed = format!("UPDATE ks.t SET v = 1 {}", place(257, 255));
        execute(&processor, &allowed).await.unwrap();
    });
}

#[test]
fn the_statements_of_a_batch_name_at_most_65535_rows_together() {
    block_on(async {
        let statements = [
            "CREATE TABLE ks.t (p int, c int, d int, e int, v int, PRIMARY KEY (p, c, d, e))",
            "CREATE TABLE ks.n (p int, c int, n counter, PRIMARY KEY (p, c))",
        ];
        let (_database, processor) =
            open_with_keyspace(&FileSystem::simulated(1), &statements).await;
        let values = |count: i32| {
            let values: Vec<_> = (0..count).map(|value| value.to_string()).collect();
            values.join(", ")
        };
        let (many, few) = (values(200), values(128));
        let repeated = |statement: &str, count| {
            let statements: String =
                (0..count).map(|p| statement.replace('#', &p.to_string()) + "; ").collect();
            [
                format!("BEGIN UNLOGGED BATCH {statements}APPLY BATCH"),
                format!("BEGIN TRANSACTION {statements}COMMIT TRANSACTION"),
            ]
        };
        let place = format!("WHERE p = 1 AND c IN ({many}) AND d IN ({few})");
        let update = format!("UPDATE ks.t SET v = 1 {place} AND e = #");
        let delete = format!("DELETE FROM ks.t {place} AND e = #");
        let range = format!("DELETE FROM ks.t {place} AND e > #");
        // Each statement names 25,600 rows or ranges.
        for statement in [&update, &delete, &range] {
            for text in repeated(statement, 2) {
                execute(&processor, &text).await.unwrap();
            }
            for text in repeated(statement, 3) {
                let error = execute(&processor, &text).await.unwrap_err();
                assert!(error.contains("more than 65535 combinations"), "{error}");
            }
        }
        let reads: String = (0..3)
            .map(|read| {
                format!("LET a{read} = (SELECT v FROM ks.t {place} AND e = {read} LIMIT 1); ")
            })
            .collect();
        let text = format!(
            "BEGIN TRANSACTION {reads}UPDATE ks.t SET v = 1 WHERE p = 1 AND c = 1 AND d = 1 AND e = 1; \
             COMMIT TRANSACTION"
        );
        let error = execute(&processor, &text).await.unwrap_err();
        assert!(error.contains("more than 65535 combinations"), "{error}");
        let count = format!("UPDATE ks.n SET n = n + 1 WHERE p IN ({many}) AND c IN ({few})");
        let text = format!("BEGIN COUNTER BATCH {} APPLY BATCH", format!("{count}; ").repeat(3));
        let error = execute(&processor, &text).await.unwrap_err();
        assert!(error.contains("more than 65535 combinations"), "{error}");
    });
}
