//! The INs on the partition key and on the clustering of a write name at most 65,535 rows together.

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
