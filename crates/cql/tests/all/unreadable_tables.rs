//! A start with an unreadable table opens the other tables and keeps the table's files and
//! definition.

use std::{path::Path, sync::Arc};

use espalier_cql::{ClientState, QueryOptions, QueryProcessor, QueryResult};
use espalier_mutation::schema::{Schema, TableBuilder, TableId};
use espalier_runtime::{block_on, file::FileSystem};
use espalier_storage::Node;
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::node::open;

async fn run(processor: &QueryProcessor, text: &str) -> Result<i32, String> {
    let mut client = ClientState::default();
    match processor.query(text, &mut client, &QueryOptions::default()).await {
        Ok(QueryResult::Rows(rows)) => Ok(rows.row_count),
        Ok(_) => Ok(0),
        Err(error) => Err(format!("{:?}: {}", error.code, error.message)),
    }
}

/// Creates a table that earlier versions accepted and could not read again.
async fn create_unreadable(database: &Node) {
    let vector = |element, dimension| CqlType::Vector { element: Arc::new(element), dimension };
    let column_type = vector(vector(CqlType::Bigint, 16384), 16384);
    let table = TableBuilder::new("ks", "bad", TableId(Uuid::from_u128(7)))
        .partition_key("k", CqlType::Int)
        .regular("v", column_type)
        .build();
    let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
        let mut keyspaces = schema.keyspaces.clone();
        let mut keyspace = (*keyspaces["ks"]).clone();
        keyspace.tables.insert("bad".into(), Arc::new(table));
        keyspaces.insert("ks".into(), Arc::new(keyspace));
        Ok(Some(Schema::new(keyspaces, Uuid::from_u128(1))))
    };
    assert!(database.change_schema(change).await.unwrap().unwrap());
}

#[test]
fn a_start_leaves_out_unreadable_tables() {
    let file_system = FileSystem::simulated(1);
    let files = Path::new("node/data/ks/bad-00000000000000000000000000000007");
    block_on(async {
        let (database, processor) = open(&file_system).await;
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.good (k int PRIMARY KEY, v int)",
            "INSERT INTO ks.good (k, v) VALUES (1, 1)",
        ] {
            run(&processor, statement).await.unwrap();
        }
        create_unreadable(&database).await;
        run(&processor, "INSERT INTO ks.bad (k) VALUES (1)").await.unwrap();
    });
    block_on(async {
        let (database, processor) = open(&file_system).await;
        assert_eq!(run(&processor, "SELECT * FROM ks.good").await, Ok(1));
        assert!(run(&processor, "SELECT * FROM ks.bad").await.is_err());
        let schema = database.store().schema();
        let reason = &schema.keyspace("ks").unwrap().unreadable.tables["bad"].reason;
        assert!(reason.contains("2^31-1 bytes"), "{reason}");
        for statement in [
            "CREATE TABLE ks.bad (k int PRIMARY KEY)",
            "CREATE TABLE IF NOT EXISTS ks.bad (k int PRIMARY KEY)",
            "ALTER TABLE ks.bad ADD w int",
            "ALTER TABLE IF EXISTS ks.bad ADD w int",
        ] {
            let error = run(&processor, statement).await.unwrap_err();
            assert!(error.starts_with("Invalid: Table 'ks.bad' exists, but"), "{error}");
        }
        let taken =
            "CREATE TABLE ks.c (k int PRIMARY KEY) WITH id = 00000000-0000-0000-0000-000000000007";
        assert!(run(&processor, taken).await.unwrap_err().contains("cannot read"));
        // The directory of `ks.bad` is no orphan, and other changes of the schema do not touch it.
        assert_eq!(database.orphans().list().await.unwrap(), []);
        run(&processor, "ALTER TABLE ks.good ADD w int").await.unwrap();
        let kept = file_system.read_dir("node/commitlog/unreadable").await.unwrap();
        assert!(!kept.is_empty());
        database.shutdown().await.unwrap();
    });
    block_on(async {
        let (database, processor) = open(&file_system).await;
        assert!(
            database.store().schema().keyspace("ks").unwrap().unreadable.tables.contains_key("bad")
        );
        assert!(file_system.exists(files).await.unwrap());
        // The operator can drop the table. DROP TABLE removes its definition and keeps its files.
        run(&processor, "DROP TABLE ks.bad").await.unwrap();
        run(&processor, "CREATE TABLE ks.bad (k int PRIMARY KEY)").await.unwrap();
        assert!(file_system.exists(files).await.unwrap());
        database.shutdown().await.unwrap();
    });
    block_on(async {
        let (database, processor) = open(&file_system).await;
        assert_eq!(
            database.store().schema().keyspace("ks").unwrap().unreadable,
            Default::default()
        );
        assert_eq!(run(&processor, "SELECT * FROM ks.bad").await, Ok(0));
        assert_eq!(run(&processor, "SELECT * FROM ks.good").await, Ok(1));
    });
}
