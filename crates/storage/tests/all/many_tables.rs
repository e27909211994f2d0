//! Many small tables are flushed, opened and dropped side by side, each as if it were alone.

use espalier_mutation::schema::{Schema, TableBuilder, TableId, TableMetadata};
use espalier_runtime::file::{
    FileSystem, Operation,
    simulated::{Effect, Fault},
};
use espalier_storage::Node;
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::*;

/// Number of tables, more than are flushed, opened or dropped at once.
const TABLES: u32 = 80;

fn name(number: u32) -> String {
    format!("t{number:02}")
}

fn definition(number: u32) -> TableMetadata {
    TableBuilder::new("ks", name(number), TableId(Uuid::from_u128(0x1000 + u128::from(number))))
        .partition_key("k", CqlType::Blob)
        .regular("v", CqlType::Blob)
        .build()
}

async fn write_all(database: &Node) {
    for number in 0..TABLES {
        let table = table(database, &name(number));
        let value = number.to_string();
        database.apply(insert(&table, "p", None, 1, &[("v", &value)])).await.unwrap();
    }
}

async fn check_all(database: &Node) {
    for number in 0..TABLES {
        let table = table(database, &name(number));
        let found = read_partition(database, &table, "p").await.unwrap();
        assert_eq!(text(&table, &found.rows[0], "v"), Some(number.to_string()));
    }
}

async fn directories(file_system: &FileSystem) -> usize {
    let directory = configuration().data_directory.join("ks");
    file_system.read_dir(&directory).await.unwrap().len()
}

#[test]
fn a_flush_that_fails_stops_no_other_one() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, (0..TABLES).map(definition).collect()).await;
        write_all(&database).await;
        let fault = Fault::always(Operation::Create, Effect::InputOutput).on_path("/t07-");
        disk.inject(fault);
        database.flush("ks", None).await.unwrap_err();
        assert_eq!(database.store().metrics().sstables, u64::from(TABLES) - 1);
        check_all(&database).await;
        disk.clear_faults();
        database.flush("ks", None).await.unwrap();
        assert_eq!(database.store().metrics().sstables, u64::from(TABLES));
        check_all(&database).await;
    });
}

#[test]
fn many_tables_are_reopened_and_dropped_with_their_directories() {
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, (0..TABLES).map(definition).collect()).await;
        write_all(&database).await;
        database.shutdown().await.unwrap();
    });
    let crashed = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    run(async {
        let database = open(&crashed, configuration()).await.unwrap();
        check_all(&database).await;
        assert_eq!(directories(&crashed).await, TABLES as usize);
        let change = |schema: &Schema| -> Result<Option<Schema>, ()> {
            let schema = (0..TABLES)
                .fold(schema.clone(), |schema, number| without_table(&schema, &name(number)));
            Ok(Some(schema))
        };
        assert!(database.change_schema(change).await.unwrap().unwrap());
        assert_eq!(directories(&crashed).await, 0);
    });
    let crashed = FileSystem::on(crashed.simulated_disk().unwrap().crash(2));
    run(async {
        let database = open(&crashed, configuration()).await.unwrap();
        assert_eq!(directories(&crashed).await, 0);
        assert!(database.store().schema().table("ks", &name(0)).is_none());
    });
}
