//! Builds of materialized views that a drop, a restore, writes or a crash disturb, compactions of
//! views, writes that wait for an altered table, and writes that a view refuses.

use std::{cell::Cell, rc::Rc, time::Duration};

use bytes::Bytes;
use espalier_cql::QueryProcessor;
use espalier_mutation::{
    Cell as ColumnCell, Clustering, ColumnData, DecoratedKey, Liveness, Mutation, PartitionUpdate,
    Row,
};
use espalier_runtime::{block_on, file::FileSystem, spawn_local, time};
use espalier_storage::{CommitLogSync, SnapshotTable, StorageConfiguration};
use espalier_types::CqlType;

use super::support::{
    node::{execute, rows},
    shards::{configuration, on_shards, on_shards_with},
};

pub const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
pub const CREATE_VIEW: &str = "CREATE MATERIALIZED VIEW k.v AS SELECT * FROM k.t \
     WHERE k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, k, c)";
pub const ROWS: i32 = 300;

/// Runs `body` on a node of two shards with an empty table `k.t`.
fn with_table<F: Future<Output = ()> + 'static>(
    body: impl Fn(QueryProcessor) -> F + Clone + Send + 'static,
) {
    on_node(2, body);
}

fn on_node<F: Future<Output = ()> + 'static>(
    shards: usize,
    body: impl Fn(QueryProcessor) -> F + Clone + Send + 'static,
) {
    on_shards(shards, &FileSystem::simulated(1), move |processor| {
        let body = body.clone();
        async move {
            execute(&processor, KEYSPACE).await.unwrap();
            let columns = "k int, c text, v text, w text, x int, y int, PRIMARY KEY (k, c)";
            execute(&processor, &format!("CREATE TABLE k.t ({columns})")).await.unwrap();
            body(processor).await;
        }
    });
}

pub async fn insert(processor: &QueryProcessor, keys: std::ops::Range<i32>) {
    for key in keys {
        let insert = format!("INSERT INTO k.t (k, c, v) VALUES ({key}, 'c', 'v{}')", key % 7);
        execute(processor, &insert).await.unwrap();
    }
}

pub async fn wait_for_view(processor: &QueryProcessor) {
    let deadline = time::Instant::now() + Duration::from_secs(60);
    let status = async || processor.database().view_builds().status_of("k", "v").await.unwrap();
    while status().await.as_deref() != Some("SUCCESS") {
        assert!(time::Instant::now() < deadline, "the view is not built");
        time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the build of the view has recorded progress. Returns false if it ends before.
async fn wait_for_progress(processor: &QueryProcessor) -> bool {
    loop {
        if rows(processor, "SELECT * FROM system.view_builds_in_progress", None).await.0 > 0 {
            return true;
        }
        let status = processor.database().view_builds().status_of("k", "v").await.unwrap();
        if status.as_deref() == Some("SUCCESS") {
            return false;
        }
        time::sleep(Duration::from_micros(100)).await;
    }
}

pub async fn count(processor: &QueryProcessor, table: &str) -> i32 {
    rows(processor, &format!("SELECT k, c FROM k.{table}"), Some(100)).await.0
}

pub async fn take_snapshot(processor: &QueryProcessor) {
    let database = processor.database();
    let id = database.store().schema().table("k", "t").unwrap().id;
    let tables = vec![SnapshotTable { id, describe: |_, _| String::new() }];
    database.snapshots().take("s".into(), tables, true).await.unwrap();
}

#[test]
fn a_view_with_the_name_of_a_dropped_one_is_built_from_the_beginning() {
    with_table(|processor| async move {
        insert(&processor, 0..ROWS).await;
        let mut seen = 0;
        for _ in 0..3 {
            execute(&processor, CREATE_VIEW).await.unwrap();
            seen += i32::from(wait_for_progress(&processor).await);
            execute(&processor, "DROP MATERIALIZED VIEW k.v").await.unwrap();
        }
        assert!(seen > 0, "no build had recorded its progress when the view was dropped");
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "v").await, ROWS);
        let left = rows(&processor, "SELECT * FROM system.view_builds_in_progress", None).await;
        assert_eq!(left.0, 0);
    });
}

#[test]
fn a_view_with_the_id_of_a_dropped_one_is_built() {
    with_table(|processor| async move {
        insert(&processor, 0..ROWS).await;
        let id = "5a1c395e-b41f-11e5-9f22-ba0be0483c18";
        for _ in 0..2 {
            execute(&processor, &format!("{CREATE_VIEW} WITH ID = {id}")).await.unwrap();
            wait_for_view(&processor).await;
            assert_eq!(count(&processor, "v").await, ROWS);
            execute(&processor, "DROP MATERIALIZED VIEW k.v").await.unwrap();
        }
    });
}

#[test]
fn a_view_is_complete_after_a_restore_during_its_build() {
    with_table(|processor| async move {
        insert(&processor, 0..ROWS).await;
        take_snapshot(&processor).await;
        for key in (0..ROWS).step_by(2) {
            let delete = format!("DELETE FROM k.t WHERE k = {key}");
            execute(&processor, &delete).await.unwrap();
        }
        execute(&processor, CREATE_VIEW).await.unwrap();
        assert!(wait_for_progress(&processor).await, "the build had ended before the restore");
        processor.database().snapshots().restore("k", "t", "s").await.unwrap();
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "t").await, ROWS);
        assert_eq!(count(&processor, "v").await, ROWS);
    });
}

/// Returns the disk after a crash of a node of one shard, at the end of `body`. The node has an
/// empty table `k.t`, and its keyspace does not use the commit log.
fn crash_without_log<F: Future<Output = ()> + 'static>(
    body: impl Fn(QueryProcessor) -> F + Clone + Send + 'static,
) -> FileSystem {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    let crashed = on_shards(1, &file_system, move |processor| {
        let (body, disk) = (body.clone(), disk.clone());
        async move {
            let keyspace = format!("{KEYSPACE} AND durable_writes = false");
            execute(&processor, &keyspace).await.unwrap();
            let create = "CREATE TABLE k.t (k int, c text, v text, PRIMARY KEY (k, c))";
            execute(&processor, create).await.unwrap();
            body(processor).await;
            disk.crash(1)
        }
    });
    FileSystem::on(crashed)
}

fn assert_view_is_complete(file_system: &FileSystem, configuration: StorageConfiguration) {
    on_shards_with(1, file_system, configuration, |processor| async move {
        wait_for_view(&processor).await;
        assert_eq!(count(&processor, "t").await, ROWS);
        assert_eq!(count(&processor, "v").await, ROWS);
    });
}

/// The crash loses rows of the view, because they have no log, but not the recorded progress of the
/// build.
#[test]
fn a_view_without_a_log_is_complete_after_a_crash_during_its_build() {
    let crashed = crash_without_log(|processor| async move {
        insert(&processor, 0..ROWS).await;
        processor.database().flush("k", Some("t")).await.unwrap();
        execute(&processor, CREATE_VIEW).await.unwrap();
        let keys_built = async || {
            let query = "SELECT keys_built FROM system.view_builds_in_progress";
            let (_, content) = rows(&processor, query, None).await;
            content.last_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
        };
        while keys_built().await < 20 {
            let status = processor.database().view_builds().status_of("k", "v").await.unwrap();
            assert_ne!(status.as_deref(), Some("SUCCESS"), "the build ended before the crash");
            time::sleep(Duration::from_micros(100)).await;
        }
    });
    assert_view_is_complete(&crashed, configuration());
}

#[test]
fn a_view_is_complete_after_a_crash_if_its_keyspace_was_without_a_log() {
    let crashed = crash_without_log(|processor| async move {
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        insert(&processor, 0..ROWS).await;
        processor.database().flush("k", Some("t")).await.unwrap();
        let alter = "ALTER KEYSPACE k WITH durable_writes = true";
        execute(&processor, alter).await.unwrap();
    });
    assert_view_is_complete(&crashed, configuration());
}

/// Returns a configuration under which the log syncs nothing before it must.
fn without_syncs() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.commit_log.sync = CommitLogSync::Periodic { period: Duration::from_secs(3600) };
    configuration
}

/// Creates the table and its view, and inserts the rows once the view is built.
async fn fill_view(processor: &QueryProcessor) {
    let create = "CREATE TABLE k.t (k int, c text, v text, PRIMARY KEY (k, c))";
    for statement in [KEYSPACE, create, CREATE_VIEW] {
        execute(processor, statement).await.unwrap();
    }
    wait_for_view(processor).await;
    insert(processor, 0..ROWS).await;
}

/// A row and its view row are one record of the log, and only the flush of the base table makes the
/// record durable.
#[test]
fn a_crash_keeps_the_view_rows_of_flushed_rows() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    let crashed = on_shards_with(1, &file_system, without_syncs(), move |processor| {
        let disk = disk.clone();
        async move {
            fill_view(&processor).await;
            processor.database().flush("k", Some("t")).await.unwrap();
            espalier_testing::seeds(10).map(|seed| disk.crash(seed)).collect::<Vec<_>>()
        }
    });
    for disk in crashed {
        // Without the mark, and with another `commitlog_sync`, the start does not build the view
        // again.
        let file_system = FileSystem::on(disk);
        let mark = configuration().data_directory.join("unsynced_views");
        block_on(file_system.remove_file(mark)).unwrap();
        assert_view_is_complete(&file_system, configuration());
    }
}

#[test]
fn a_crash_under_periodic_sync_has_views_built_under_another_sync() {
    let file_system = FileSystem::simulated(1);
    let disk = file_system.simulated_disk().unwrap().clone();
    let crashed = on_shards_with(1, &file_system, without_syncs(), move |processor| {
        let disk = disk.clone();
        async move {
            fill_view(&processor).await;
            // A row without a base row, as if the crash had lost the base row.
            let view = processor.database().store().schema().table("k", "v").unwrap().clone();
            let key = Bytes::copy_from_slice(&ROWS.to_be_bytes());
            let mut row = Row::empty(Clustering::new([key, Bytes::from_static(b"c")]));
            row.liveness = Liveness::live(1);
            let key = DecoratedKey::new(Bytes::from_static(b"v0"));
            let mut update = PartitionUpdate::new(view.id, key);
            update.rows.push(row);
            let mutation = Mutation { updates: vec![update] };
            processor.database().apply(mutation).await.unwrap();
            assert_eq!(count(&processor, "v").await, ROWS + 1);
            processor.database().flush("k", None).await.unwrap();
            disk.crash(1)
        }
    });
    assert_view_is_complete(&FileSystem::on(crashed), configuration());
}

/// The restored files survive the crash, but the log may lose the record that the view is stale.
#[test]
fn a_view_is_complete_after_a_restore_and_a_crash() {
    let file_system = FileSystem::simulated(1);
    on_shards(1, &file_system, |processor| async move {
        let create = "CREATE TABLE k.t (k int, c text, v text, PRIMARY KEY (k, c))";
        for statement in [KEYSPACE, create] {
            execute(&processor, statement).await.unwrap();
        }
        insert(&processor, 0..ROWS).await;
        take_snapshot(&processor).await;
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
    });
    let disk = file_system.simulated_disk().unwrap().clone();
    let crashed = on_shards_with(1, &file_system, without_syncs(), move |processor| {
        let disk = disk.clone();
        async move {
            processor.database().snapshots().restore("k", "t", "s").await.unwrap();
            espalier_testing::seeds(10).map(|seed| disk.crash(seed)).collect::<Vec<_>>()
        }
    });
    for disk in crashed {
        assert_view_is_complete(&FileSystem::on(disk), without_syncs());
    }
}

/// Shards install a new column one after the other, so a write may have a column that its shard
/// lacks.
#[test]
fn a_write_that_waits_for_its_column_changes_the_view_too() {
    on_node(1, |processor| async move {
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        let database = processor.database().clone();
        let table = database.store().schema().table("k", "t").unwrap().clone();
        let newer = table.rebuild().regular("z", CqlType::Int).build();
        let mut row = Row::empty(Clustering::new([Bytes::from_static(b"c")]));
        row.liveness = Liveness::live(1);
        for (name, value) in [("v", &b"v"[..]), ("z", &[0, 0, 0, 5])] {
            let cell = ColumnCell::live(1, Bytes::copy_from_slice(value));
            let id = newer.column(name).unwrap().id;
            row.column_or_insert(id, || ColumnData::Simple(cell));
        }
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        let mut update = PartitionUpdate::new(newer.id, key);
        update.rows.push(row);
        let waiting =
            spawn_local(async move { database.apply(Mutation { updates: vec![update] }).await });
        time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished());
        execute(&processor, "ALTER TABLE k.t ADD z int").await.unwrap();
        waiting.await.unwrap();
        let of_base = rows(&processor, "SELECT k, c, v, z FROM k.t", None).await;
        assert_eq!(of_base.0, 1);
        assert!(of_base.1.ends_with(&[0, 0, 0, 5]));
        assert_eq!(rows(&processor, "SELECT k, c, v, z FROM k.v", None).await, of_base);
    });
}

#[test]
fn a_rebuild_removes_older_columns_than_the_base_row() {
    with_table(|processor| async move {
        for statement in [
            "DELETE FROM k.t USING TIMESTAMP 3 WHERE k = 1 AND c = 'c'",
            "INSERT INTO k.t (k, c, y) VALUES (1, 'c', 2) USING TIMESTAMP 5",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        take_snapshot(&processor).await;
        for statement in [
            "TRUNCATE k.t",
            "INSERT INTO k.t (k, c, x, y) VALUES (1, 'c', 1, 1) USING TIMESTAMP 1",
            "CREATE MATERIALIZED VIEW k.v AS SELECT * FROM k.t \
             WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        ] {
            execute(&processor, statement).await.unwrap();
        }
        wait_for_view(&processor).await;
        processor.database().snapshots().restore("k", "t", "s").await.unwrap();
        wait_for_view(&processor).await;
        let of_base = rows(&processor, "SELECT k, c, v, x, y FROM k.t", None).await;
        assert_eq!(rows(&processor, "SELECT k, c, v, x, y FROM k.v", None).await, of_base);
    });
}

/// Flushes the table and its view. Returns the names of the view's files.
async fn flushed(processor: &QueryProcessor) -> Vec<String> {
    let database = processor.database();
    database.flush("k", None).await.unwrap();
    let view = database.store().schema().table("k", "v").unwrap().directory_name();
    let directory = database.store().configuration().data_directory.join("k").join(view);
    let entries = database.store().file_system().read_dir(directory).await.unwrap();
    let names = entries.iter().filter_map(|entry| entry.name.strip_suffix("-Data.db"));
    names.map(str::to_owned).collect()
}

#[test]
fn a_compaction_of_some_files_keeps_cells_of_a_row_that_came_back() {
    on_node(1, |processor| async move {
        execute(&processor, CREATE_VIEW).await.unwrap();
        let set = async |timestamp: u32, assignment: &str| {
            let statement = format!(
                "UPDATE k.t USING TIMESTAMP {timestamp} SET {assignment} WHERE k = 1 AND c = 'c'"
            );
            execute(&processor, &statement).await.unwrap();
        };
        set(5, "x = 5").await;
        set(7, "v = 'a'").await;
        set(8, "v = 'b'").await;
        let mut chosen = flushed(&processor).await;
        assert_eq!(chosen.len(), 1);
        set(9, "v = 'a'").await;
        let others = flushed(&processor).await;
        set(6, "x = 6").await;
        let last = flushed(&processor).await;
        chosen.extend(last.into_iter().filter(|name| !others.contains(name)));
        assert_eq!(chosen.len(), 2);
        let compacted = processor.database().compactions().compact_sstables("k", "v", chosen).await;
        assert!(compacted.unwrap());
        let cells = async |table: &str| {
            rows(&processor, &format!("SELECT k, c, v, x, y FROM k.{table}"), None).await
        };
        assert_eq!(cells("v").await, cells("t").await);
        // The view's cell of `x` may have a greater timestamp than the base table's, but this write
        // must win.
        set(7, "x = 7").await;
        assert_eq!(cells("v").await, cells("t").await);
    });
}

#[test]
fn a_view_that_comes_or_goes_disturbs_no_write_and_misses_none() {
    with_table(|processor| async move {
        let is_done = Rc::new(Cell::new(false));
        let writers = [0, 1].map(|writer| {
            let (processor, is_done) = (processor.clone(), is_done.clone());
            spawn_local(async move {
                let mut key = writer;
                while !is_done.get() {
                    let condition = if key % 3 == 0 { " IF NOT EXISTS" } else { "" };
                    let insert =
                        format!("INSERT INTO k.t (k, c, v) VALUES ({key}, 'c', 'v'){condition}");
                    execute(&processor, &insert).await.unwrap();
                    key += 2;
                }
            })
        });
        for round in 0..10 {
            execute(&processor, CREATE_VIEW).await.unwrap();
            time::sleep(Duration::from_millis(round)).await;
            execute(&processor, "DROP MATERIALIZED VIEW k.v").await.unwrap();
        }
        execute(&processor, CREATE_VIEW).await.unwrap();
        is_done.set(true);
        for writer in writers {
            writer.await;
        }
        wait_for_view(&processor).await;
        let of_base = count(&processor, "t").await;
        assert!(of_base > 10);
        assert_eq!(count(&processor, "v").await, of_base);
    });
}

#[test]
fn a_batch_that_a_view_refuses_changes_nothing() {
    with_table(|processor| async move {
        execute(&processor, CREATE_VIEW).await.unwrap();
        wait_for_view(&processor).await;
        let inserts: String = (0..20)
            .map(|key| {
                let value = if key == 19 { "" } else { "v" };
                format!("INSERT INTO k.t (k, c, v) VALUES ({key}, 'c', '{value}');")
            })
            .collect();
        let error = execute(&processor, &format!("BEGIN BATCH {inserts} APPLY BATCH")).await;
        assert!(error.unwrap_err().contains("partition key of 0 bytes"));
        assert_eq!(count(&processor, "t").await, 0);
        // The view's status is also written as a batch. In the background, the node removes the
        // batch from `system.batches`.
        let deadline = time::Instant::now() + Duration::from_secs(60);
        while rows(&processor, "SELECT id FROM system.batches", None).await.0 > 0 {
            assert!(time::Instant::now() < deadline, "a note of the batch is left");
            time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(count(&processor, "t").await, 0);
    });
}

#[test]
fn a_row_that_a_view_cannot_have_can_be_deleted() {
    with_table(|processor| async move {
        let insert = "INSERT INTO k.t (k, c, x) VALUES (1, '', 1)";
        execute(&processor, insert).await.unwrap();
        let create = "CREATE MATERIALIZED VIEW k.v AS SELECT * FROM k.t \
             WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)";
        execute(&processor, create).await.unwrap();
        wait_for_view(&processor).await;
        assert!(execute(&processor, insert).await.is_err());
        let delete = "DELETE FROM k.t WHERE k = 1 AND c = ''";
        execute(&processor, delete).await.unwrap();
        assert_eq!(count(&processor, "t").await, 0);
    });
}

#[test]
fn a_deletion_that_reads_too_much_is_refused() {
    with_table(|processor| async move {
        execute(&processor, CREATE_VIEW).await.unwrap();
        let value = "w".repeat(50_000);
        for number in 0..90 {
            let insert =
                format!("INSERT INTO k.t (k, c, v, w) VALUES (1, 'c{number:02}', 'v', '{value}')");
            execute(&processor, &insert).await.unwrap();
        }
        let all = "DELETE FROM k.t WHERE k = 1";
        let error = execute(&processor, all).await.unwrap_err();
        assert!(error.contains("delete smaller ranges"), "{error}");
        for bounds in ["c < 'c4'", "c >= 'c4'"] {
            let part = format!("DELETE FROM k.t WHERE k = 1 AND {bounds}");
            execute(&processor, &part).await.unwrap();
        }
        execute(&processor, all).await.unwrap();
        assert_eq!(count(&processor, "v").await, 0);
    });
}
