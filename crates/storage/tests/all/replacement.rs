//! A node takes the files of a Cassandra node: as a whole or not at all, once, and without a change
//! of that node's directories. In these tests, a node of Espalier plays the Cassandra node, because
//! both have the same layout of directories.

use std::path::{Path, PathBuf};

use espalier_mutation::{
    Cell, Clustering, ColumnData, ComplexColumn, Mutation, PartitionUpdate, Row,
    schema::{TableBuilder, TableId},
};
use espalier_runtime::file::{
    FileSystem, Operation,
    simulated::{Effect, Fault},
};
use espalier_storage::{
    Node, ReadCommand, ReadTarget, ReplacedNode, StorageConfiguration, StorageError,
    system::{LocalNode, local_key, local_update, tokens_of},
    take_files,
};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::*;

const TOKENS: [&str; 2] = ["-5", "7"];

fn replaced() -> ReplacedNode {
    ReplacedNode {
        data_directories: vec![PathBuf::from("cassandra/data")],
        commitlog_directory: PathBuf::from("cassandra/commitlog-of-cassandra"),
        cluster_name: "ring".into(),
    }
}

/// Starts the node that plays Cassandra, writes rows with these names, and stops the node. Returns
/// its host id.
async fn cassandra(file_system: &FileSystem, generation: u32, names: &[&str]) -> Uuid {
    let configuration = StorageConfiguration::new("cassandra");
    let database = open(file_system, configuration).await.unwrap();
    if database.store().schema().table("ks", "narrow").is_none() {
        create(&database, vec![narrow_table()]).await;
    }
    write_narrow(&database, names).await;
    let local = LocalNode {
        host_id: database.store().host_id(),
        cluster_name: "ring".into(),
        rpc_address: [127, 0, 0, 1].into(),
        rpc_port: 9042,
        schema_version: database.store().schema().version,
        generation_s: generation,
        data_center: "east".into(),
        rack: "r".into(),
        tokens: TOKENS.map(str::to_owned).to_vec(),
    };
    let update = local_update(&local, i64::from(generation), NOW);
    database.apply(Mutation { updates: vec![update] }).await.unwrap();
    database.shutdown().await.unwrap();
    database.store().host_id()
}

async fn take(file_system: &FileSystem) -> Result<(), StorageError> {
    take_files(file_system, &replaced(), Path::new("node/data")).await
}

/// Opens the node in its new place, and checks that it has the host id, the rows and the tokens of
/// the other node.
async fn check(file_system: &FileSystem, host_id: Uuid, expected: &[&str]) {
    let database = open(file_system, configuration()).await.unwrap();
    assert_eq!(database.store().host_id(), host_id);
    let narrow = table(&database, "narrow");
    let found = read_all(&database, &narrow).await.partitions;
    let mut names: Vec<_> =
        found.iter().map(|it| String::from_utf8(it.key.key.to_vec()).unwrap()).collect();
    names.sort();
    assert_eq!(names, expected);
    assert_eq!(saved_tokens(&database).await, TOKENS);
}

async fn saved_tokens(database: &Node) -> Vec<String> {
    let local = database.store().schema().table("system", "local").cloned().unwrap();
    let target = ReadTarget::Partition(local_key());
    let read = database.read(ReadCommand::of_all(local, target, NOW)).await.unwrap();
    tokens_of(&read.partitions[0].rows[0])
}

/// Returns all files below a directory with their lengths.
async fn files(file_system: &FileSystem, directory: &str) -> Vec<(PathBuf, u64)> {
    let (mut found, mut pending) = (Vec::new(), vec![PathBuf::from(directory)]);
    while let Some(directory) = pending.pop() {
        for entry in file_system.read_dir(&directory).await.unwrap() {
            if entry.is_directory {
                pending.push(entry.path);
            } else {
                let length = file_system.metadata(&entry.path).await.unwrap().length;
                found.push((entry.path, length));
            }
        }
    }
    found.sort();
    found
}

/// Returns a write to `system.local` as Cassandra makes it for a truncation at `at_ms`.
fn cassandra_truncation(database: &Node, table: TableId, at_ms: i64) -> Mutation {
    let local = database.store().schema().table("system", "local").cloned().unwrap();
    let position_and_time = [[0; 12].as_slice(), &at_ms.to_be_bytes()].concat();
    let cell = Cell::live(1, position_and_time.into());
    let cells = vec![(table.0.as_bytes().to_vec().into(), cell)];
    let mut row = Row::empty(Clustering::default());
    let truncated_at = local.column("truncated_at").unwrap().id;
    let column = ComplexColumn { cells, ..ComplexColumn::default() };
    row.columns.push((truncated_at, ColumnData::Complex(column)));
    let update = PartitionUpdate { rows: vec![row], ..PartitionUpdate::new(local.id, local_key()) };
    Mutation { updates: vec![update] }
}

/// The node must drop hints from before these truncations.
#[test]
fn truncations_of_the_cassandra_node_are_taken() {
    let file_system = FileSystem::simulated(4);
    run(async {
        let database = open(&file_system, StorageConfiguration::new("cassandra")).await.unwrap();
        let other = TableBuilder::new("ks", "empty", TableId(Uuid::from_u128(0xe1)));
        let other = other.partition_key("k", CqlType::Int).build();
        create(&database, vec![narrow_table(), other]).await;
        let [narrow, empty] = ["narrow", "empty"].map(|name| table(&database, name).id);
        for (table, at_ms) in [(narrow, 1_700_000_000_123), (empty, 1_700_000_000_456)] {
            database.apply(cassandra_truncation(&database, table, at_ms)).await.unwrap();
        }
        database.shutdown().await.unwrap();
        cassandra(&file_system, 5, &["a"]).await;
        take(&file_system).await.unwrap();
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(database.truncated_at_us(narrow).await.unwrap(), Some(1_700_000_000_123_999));
        assert_eq!(database.truncated_at_us(empty).await.unwrap(), Some(1_700_000_000_456_999));
        // The rows from after the truncation are there.
        assert_eq!(read_all(&database, &table(&database, "narrow")).await.partitions.len(), 1);
        database.shutdown().await.unwrap();
    });
}

fn reason(outcome: Result<(), StorageError>) -> String {
    match outcome.unwrap_err() {
        StorageError::NotReplaceable(reason) => reason,
        error => panic!("{error}"),
    }
}

#[test]
fn a_node_is_the_other_one_with_its_files() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let host_id = cassandra(&file_system, 5, &["a", "b"]).await;
        let before = files(&file_system, "cassandra").await;
        // A start that failed has left its lock.
        file_system.create_dir_all("node/data").await.unwrap();
        file_system.write_atomically("node/data/espalier.lock", vec![]).await.unwrap();
        take(&file_system).await.unwrap();
        check(&file_system, host_id, &["a", "b"]).await;
        // Taking the files again changes nothing, even if the other node's directories are gone.
        take(&file_system).await.unwrap();
        assert_eq!(files(&file_system, "cassandra").await, before);
        file_system.remove_dir_all("cassandra").await.unwrap();
        take(&file_system).await.unwrap();
        check(&file_system, host_id, &["a", "b"]).await;
    });
}

#[test]
fn failures_and_crashes_leave_nothing_that_counts() {
    let (mut failed, mut crashed) = (0, 0);
    for (index, operation) in [Operation::Sync, Operation::Rename].into_iter().enumerate() {
        let mut numbers: Vec<u64> = espalier_testing::sample(0..100).collect();
        // The test always includes the first operation of each kind, because the files are linked,
        // and few are synced.
        if numbers[0] > 0 {
            numbers.insert(0, 0);
        }
        for nth in numbers {
            let seed = 2 * nth + index as u64;
            let file_system = FileSystem::simulated(seed);
            run(async {
                let host_id = cassandra(&file_system, 5, &["a", "b"]).await;
                let disk = file_system.simulated_disk().unwrap().clone();
                disk.inject(Fault::nth(operation, nth, Effect::InputOutput));
                failed += u32::from(take(&file_system).await.is_err());
                disk.clear_faults();
                let after = if nth % 3 == 0 {
                    crashed += 1;
                    FileSystem::on(disk.crash(seed))
                } else {
                    file_system
                };
                take(&after).await.unwrap();
                check(&after, host_id, &["a", "b"]).await;
            });
        }
    }
    assert!(failed > 0 && crashed > 0, "{failed} {crashed}");
}

#[test]
fn files_that_are_not_the_nodes_are_refused() {
    let file_system = FileSystem::simulated(3);
    run(async {
        let error = reason(take(&file_system).await);
        assert!(error.contains("there is no table system.local in cassandra/data"), "{error}");
        cassandra(&file_system, 5, &["a"]).await;
        let other = ReplacedNode { cluster_name: "other".into(), ..replaced() };
        let error = reason(take_files(&file_system, &other, Path::new("node/data")).await);
        assert_eq!(error, "Saved cluster name ring != configured name other");
        let log = replaced().commitlog_directory;
        file_system.create_dir_all(&log).await.unwrap();
        let segment = log.join("CommitLog-7-1.log");
        file_system.write_atomically(&segment, vec![7; 100]).await.unwrap();
        let error = reason(take(&file_system).await);
        assert!(error.contains("CommitLog-7-1.log has writes that no SSTable has"), "{error}");
        file_system.write_atomically(&segment, vec![0; 100]).await.unwrap();
        take(&file_system).await.unwrap();
        // The other node has run since.
        cassandra(&file_system, 6, &["b"]).await;
        let error = reason(take(&file_system).await);
        assert!(error.contains("the Cassandra node has run since its files were taken"), "{error}");
        // Without this record, the directory is that of a node that has replaced none.
        file_system.remove_file("node/data/replaced").await.unwrap();
        let error = reason(take(&file_system).await);
        assert!(error.contains("has data that are not of a Cassandra node"), "{error}");
    });
}
