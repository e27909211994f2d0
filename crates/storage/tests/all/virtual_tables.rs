//! Virtual tables show the state on disk and in memory.

use std::{path::Path, sync::Arc};

use espalier_mutation::{
    DecoratedKey, Direction, KeyRange, Row, build_composite, schema::TableMetadata, split_composite,
};
use espalier_runtime::{ShardContext, file::FileSystem};
use espalier_storage::{
    MemtableSizes, Node, ReadTarget, SharedStorage, SnapshotTable, StorageError, TableStatistics,
    system::{Fields, table as system_table},
};

use crate::support::{shards::on_shards, *};

fn view(name: &str) -> Arc<TableMetadata> {
    system_table("system_views", name)
}

/// Returns `mebibytes` of a table's row in a view with keyspace and table as the partition key.
async fn mebibytes(database: &Node, name: &str, table: &str) -> Option<i64> {
    let view = view(name);
    let key = DecoratedKey::new(build_composite(&["ks", table]));
    let result = database.read(command(&view, ReadTarget::Partition(key))).await.unwrap();
    let row = result.partitions.first()?.rows.first()?;
    Fields::new(&view, row).bigint("mebibytes")
}

/// Reads the row of a table in `table_statistics`.
async fn statistics_row(database: &Node, table: &str) -> Option<Row> {
    let all = command(&view("table_statistics"), ReadTarget::Partition(key("ks")));
    let result = database.read(all).await.unwrap();
    let view = view("table_statistics");
    let is_it = |row: &&Row| Fields::new(&view, row).clustering(0) == Some(table);
    result.partitions.first()?.rows.iter().find(is_it).cloned()
}

async fn statistics(database: &Node, table: &str) -> TableStatistics {
    let all = database.table_statistics().await;
    let is_it = |found: &TableStatistics| (&*found.keyspace, &*found.table) == ("ks", table);
    all.into_iter().find(is_it).unwrap()
}

/// Returns the number of SSTables in a table's directory, their total bytes, and the bytes of the
/// largest one.
async fn files(file_system: &FileSystem, table: &TableMetadata) -> (u64, u64, u64) {
    let directory = Path::new("node/data").join(&table.keyspace).join(table.directory_name());
    let mut sizes = std::collections::BTreeMap::<String, u64>::new();
    for entry in file_system.read_dir(&directory).await.unwrap() {
        if let Some((sstable, _)) = entry.name.rsplit_once('-').filter(|_| !entry.is_directory) {
            let length = file_system.metadata(&entry.path).await.unwrap().length;
            *sizes.entry(sstable.to_owned()).or_default() += length;
        }
    }
    let largest = sizes.values().max().copied().unwrap_or(0);
    (sizes.len() as u64, sizes.values().sum(), largest)
}

async fn write(database: &Node, names: std::ops::Range<i32>, value_bytes: usize) {
    let (narrow, value) = (table(database, "narrow"), "x".repeat(value_bytes));
    for number in names {
        let mutation = insert(&narrow, &number.to_string(), None, 1, &[("v", &value)]);
        database.apply(mutation).await.unwrap();
    }
}

#[test]
fn statistics_are_those_of_the_files_and_memtables() {
    run(async {
        let file_system = FileSystem::simulated(1);
        let database = open(&file_system, configuration()).await.unwrap();
        let nothing = TableStatistics {
            keyspace: "ks".into(),
            table: "narrow".into(),
            ..TableStatistics::default()
        };
        create(&database, vec![narrow_table()]).await;
        let empty = statistics(&database, "narrow").await;
        let memtable_bytes = empty.memtables.bytes;
        let memtables = MemtableSizes { bytes: memtable_bytes, ..MemtableSizes::default() };
        assert_eq!(empty, TableStatistics { memtables, ..nothing.clone() });
        write(&database, 0..30, 10).await;
        let written = statistics(&database, "narrow").await;
        assert_eq!((written.memtables.rows, written.memtables.partitions), (30, 30));
        assert!(written.memtables.bytes > memtable_bytes);
        assert_eq!((written.sstables, written.partitions_estimate), (0, 30));
        assert_eq!(mebibytes(&database, "disk_usage", "narrow").await, Some(0));

        database.flush("ks", Some("narrow")).await.unwrap();
        write(&database, 10..15, 5000).await;
        database.flush("ks", Some("narrow")).await.unwrap();
        write(&database, 0..2, 1).await;
        let narrow = table(&database, "narrow");
        let (sstables, bytes, largest) = files(&file_system, &narrow).await;
        let flushed = statistics(&database, "narrow").await;
        assert_eq!((sstables, flushed.sstables), (2, 2));
        assert_eq!(flushed.sstable_bytes, bytes);
        assert_eq!(flushed.max_sstable_bytes, largest);
        assert_eq!((flushed.old_sstables, flushed.memtables.pending_flushes), (0, 0));
        assert!(
            0 < flushed.filters.memory_bytes
                && flushed.filters.memory_bytes < flushed.filters.bytes
        );
        assert!(0 < flushed.memtables.content_bytes);
        assert!(flushed.memtables.content_bytes < flushed.memtables.bytes);
        assert_eq!(flushed.partitions_estimate, 30 + 5 + 2);
        assert_eq!((flushed.memtables.rows, flushed.memtables.partitions), (2, 2));
        // The bounds of the buckets of the histogram grow by a fifth each, and a row is more than
        // its value.
        let partition_bytes = flushed.partition_sizes.max_bytes;
        assert!((5000..6200).contains(&partition_bytes), "{partition_bytes}");
        let (least, mean) = (flushed.partition_sizes.min_bytes, flushed.partition_sizes.mean_bytes);
        assert!((10..60).contains(&least), "{least}");
        assert!((5 * 5000 / 35..6200 / 6).contains(&mean), "{mean}");

        let row = statistics_row(&database, "narrow").await.unwrap();
        let view = view("table_statistics");
        let fields = Fields::new(&view, &row);
        assert_eq!(fields.bigint("sstable_bytes"), Some(bytes as i64));
        assert_eq!(fields.bigint("max_sstable_bytes"), Some(largest as i64));
        assert_eq!(fields.bigint("max_partition_bytes"), Some(partition_bytes as i64));
        assert_eq!(fields.bigint("partitions_estimate"), Some(37));
        assert_eq!(fields.bigint("memtable_rows"), Some(2));
        assert_eq!(fields.bigint("memtable_partitions"), Some(2));
        assert_eq!(fields.bigint("memtable_bytes"), Some(flushed.memtables.bytes as i64));
        assert_eq!((fields.int("sstables"), fields.int("running_compactions")), (Some(2), Some(0)));
        for view in ["disk_usage", "max_sstable_size", "max_partition_size"] {
            assert_eq!(mebibytes(&database, view, "narrow").await, Some(1), "{view}");
            assert_eq!(mebibytes(&database, view, "nothing").await, None, "{view}");
        }

        database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
        let (sstables, bytes, largest) = files(&file_system, &narrow).await;
        let compacted = statistics(&database, "narrow").await;
        assert_eq!((sstables, compacted.sstables, compacted.partitions_estimate), (1, 1, 30));
        assert_eq!((compacted.sstable_bytes, compacted.max_sstable_bytes), (bytes, largest));
    });
}

/// Returns the number of partitions and their mean size, as connectors that split tables read them.
/// Both tables must agree.
async fn estimates(database: &Node) -> (i64, i64) {
    let mut found = Vec::new();
    for name in ["size_estimates", "table_estimates"] {
        let estimates = system_table("system", name);
        let all = command(&estimates, ReadTarget::Partition(key("ks")));
        let result = database.read(all).await.unwrap();
        for row in &result.partitions.first().unwrap().rows {
            let fields = Fields::new(&estimates, row);
            assert_eq!(fields.clustering(0), Some("narrow"));
            let count = fields.bigint("partitions_count").unwrap();
            found.push((count, fields.bigint("mean_partition_size").unwrap()));
        }
    }
    assert_eq!(found.len(), 3);
    found.dedup();
    assert_eq!(found.len(), 1);
    found[0]
}

#[test]
fn estimates_are_of_files_and_memtables_of_all_shards() {
    let file_system = FileSystem::simulated(1);
    on_shards(2, &file_system, configuration(), move |database| async move {
        create(&database, vec![narrow_table()]).await;
        assert_eq!(estimates(&database).await, (0, 0));
        write(&database, 0..30, 1000).await;
        let (count, mean) = estimates(&database).await;
        assert_eq!(count, 30);
        assert!((1000..1400).contains(&mean), "{mean}");
        database.flush("ks", None).await.unwrap();
        let (count, mean) = estimates(&database).await;
        assert_eq!(count, 30);
        // The bounds of the buckets of the histogram grow by a fifth each.
        assert!((1000..1400).contains(&mean), "{mean}");
        write(&database, 30..60, 3000).await;
        let (count, mean) = estimates(&database).await;
        assert_eq!(count, 60);
        assert!((2000..2500).contains(&mean), "{mean}");
    })
    .unwrap();
}

#[test]
fn a_file_that_several_shards_share_counts_once() {
    let file_system = FileSystem::simulated(1);
    on_shards(1, &file_system, configuration(), move |database| async move {
        create(&database, vec![narrow_table()]).await;
        write(&database, 0..100, 20).await;
        database.flush("ks", None).await.unwrap();
        database.shutdown().await.unwrap();
    })
    .unwrap();
    let files_of = file_system.clone();
    on_shards(3, &file_system, configuration(), move |database| {
        let files_of = files_of.clone();
        async move {
            write(&database, 100..130, 20).await;
            let found = statistics(&database, "narrow").await;
            let narrow = table(&database, "narrow");
            let (sstables, bytes, _) = files(&files_of, &narrow).await;
            assert_eq!((sstables, found.sstables, found.sstable_bytes), (1, 1, bytes));
            assert_eq!((found.memtables.rows, found.partitions_estimate), (30, 130));
            database.flush("ks", None).await.unwrap();
            let found = statistics(&database, "narrow").await;
            let (sstables, bytes, _) = files(&files_of, &narrow).await;
            assert_eq!((found.sstables, found.sstable_bytes), (sstables, bytes));
            assert!(sstables > 2, "each shard has flushed: {sstables}");
            assert_eq!((found.memtables.rows, found.partitions_estimate), (0, 130));
        }
    })
    .unwrap();
}

#[test]
fn pages_and_directions_are_those_of_any_table() {
    run(async {
        let database = open(&FileSystem::simulated(1), configuration()).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        for (keyspace, name) in
            [("system_views", "disk_usage"), ("system_virtual_schema", "columns")]
        {
            let view = system_table(keyspace, name);
            let mut command = command(&view, ReadTarget::Range(KeyRange::full()));
            let all = database.read(command.clone()).await.unwrap();
            let rows = |partitions: &[espalier_storage::PartitionRows]| -> Vec<_> {
                let each = partitions.iter().flat_map(|partition| {
                    let row = |row: &Row| (partition.key.clone(), row.clustering.clone());
                    partition.rows.iter().map(row)
                });
                each.collect()
            };
            assert!(rows(&all.partitions).len() > 20);
            let mut paged = Vec::new();
            command.limits.rows = 3;
            loop {
                let page = database.read(command.clone()).await.unwrap();
                let found = rows(&page.partitions);
                assert!(found.len() <= 3);
                paged.extend(found);
                command.resume = page.next;
                if command.resume.is_none() {
                    break;
                }
            }
            assert_eq!(paged, rows(&all.partitions), "{name}");
        }
        // Rows within a partition, from its end.
        let tables = system_table("system_virtual_schema", "tables");
        let mut command = command(&tables, ReadTarget::Partition(key("system_virtual_schema")));
        command.direction = Direction::Reverse;
        let found = database.read(command).await.unwrap();
        let rows = found.partitions[0].rows.iter();
        let names: Vec<_> =
            rows.map(|row| Fields::new(&tables, row).clustering(0).unwrap().to_owned()).collect();
        assert_eq!(names, ["tables", "keyspaces", "columns"]);
    });
}

#[test]
fn every_table_that_is_stored_has_its_row_and_no_other() {
    run(async {
        let database = open(&FileSystem::simulated(1), configuration()).await.unwrap();
        database.describe_system_keyspaces().await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let schema = database.store().schema();
        let is_virtual =
            |keyspace: &str| ["system_views", "system_virtual_schema"].contains(&keyspace);
        let stored = schema.tables().filter(|table| !is_virtual(&table.keyspace));
        let mut stored: Vec<_> =
            stored.map(|table| (table.keyspace.clone(), table.name.clone())).collect();
        stored.sort();
        let view = view("max_sstable_size");
        let found = read_all(&database, &view).await.partitions.into_iter();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut found: Vec<_> = found
            .map(|partition| {
                let key = split_composite(&partition.key.key, 2).unwrap();
                (text(&key[0]), text(&key[1]))
            })
            .collect();
        found.sort();
        assert_eq!(found, stored);
        // Only `system_virtual_schema` describes virtual keyspaces.
        for name in ["keyspaces", "tables", "columns"] {
            let described = system_table("system_schema", name);
            let keyspaces = read_all(&database, &described).await.partitions.into_iter();
            let keyspaces: Vec<_> = keyspaces.map(|partition| text(&partition.key.key)).collect();
            assert!(keyspaces.iter().any(|keyspace| keyspace == "system"), "{keyspaces:?}");
            assert!(!keyspaces.iter().any(|keyspace| is_virtual(keyspace)), "{keyspaces:?}");
            let described = system_table("system_virtual_schema", name);
            let keyspaces = read_all(&database, &described).await.partitions.into_iter();
            let mut keyspaces: Vec<_> =
                keyspaces.map(|partition| text(&partition.key.key)).collect();
            keyspaces.sort();
            assert_eq!(keyspaces, ["system_views", "system_virtual_schema"], "{name}");
        }
    });
}

#[test]
fn snapshots_are_listed() {
    run(async {
        let file_system = FileSystem::simulated(1);
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        write(&database, 0..10, 10).await;
        let id = table(&database, "narrow").id;
        let tables = vec![SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() }];
        database.snapshots().take("before".into(), tables, true).await.unwrap();
        let snapshots = view("snapshots");
        let found = read_all(&database, &snapshots).await.partitions;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].key, key("before"));
        let fields = Fields::new(&snapshots, &found[0].rows[0]);
        assert_eq!((fields.clustering(0), fields.clustering(1)), (Some("ks"), Some("narrow")));
        let listed = database.snapshots().list().await.unwrap();
        assert_eq!(fields.bigint("size_on_disk"), Some(listed[0].total_bytes as i64));
        assert!(listed[0].total_bytes > statistics(&database, "narrow").await.sstable_bytes);
        assert_eq!(fields.bigint("true_size"), Some(listed[0].true_bytes as i64));
        assert_eq!(fields.boolean("ephemeral"), Some(false));
        assert!(fields.bigint("created_at").is_some());
        // Two snapshots have the same files, which the table has as well, until it is compacted.
        let tables = vec![SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() }];
        database.snapshots().take("again".into(), tables, true).await.unwrap();
        for snapshot in database.snapshots().list().await.unwrap() {
            assert!(snapshot.true_bytes * 2 < snapshot.total_bytes, "{snapshot:?}");
        }
        write(&database, 10..12, 10).await;
        database.compactions().compact("ks", Some("narrow"), true).await.unwrap();
        for snapshot in database.snapshots().list().await.unwrap() {
            assert_eq!(snapshot.true_bytes, snapshot.total_bytes, "{snapshot:?}");
        }
    });
}

#[test]
fn the_settings_table_shows_the_given_settings() {
    run(async {
        let shared = SharedStorage::new();
        let (context, file_system) =
            (ShardContext { index: 0, count: 1 }, FileSystem::simulated(1));
        let configuration = Arc::new(configuration());
        let opened = Node::open(context, file_system, configuration, shared.clone());
        let database = opened.await.unwrap();
        let settings = view("settings");
        // The guardrails are settings of every node.
        let guardrails = read_all(&database, &settings).await.partitions.len();
        let said = [("cluster_name", Some("Test")), ("api_port", None)];
        let said = said.map(|(name, value)| (name.to_owned(), value.map(str::to_owned)));
        shared.set_settings(said.to_vec());
        assert_eq!(read_all(&database, &settings).await.partitions.len(), guardrails + 2);
        for (name, value) in &said {
            let found = command(&settings, ReadTarget::Partition(key(name)));
            let found = database.read(found).await.unwrap().partitions;
            let row = Fields::new(&settings, &found[0].rows[0]);
            assert_eq!(row.text("value"), value.as_deref(), "{name}");
        }
    });
}

#[test]
fn file_operations_on_virtual_tables_are_refused() {
    run(async {
        let database = open(&FileSystem::simulated(1), configuration()).await.unwrap();
        for asked in [
            database.flush("system_views", None).await,
            database.flush("system_views", Some("settings")).await,
            database.compactions().compact("system_views", None, true).await,
            database.compactions().upgrade_sstables("system_virtual_schema", None, false).await,
        ] {
            assert!(matches!(asked, Err(StorageError::UnknownKeyspace(_))), "{asked:?}");
        }
        let imported = database.import("system_views", "settings", None).await;
        assert!(matches!(imported, Err(StorageError::NotImportable(_))), "{imported:?}");
        // A write that bypasses CQL finds no table.
        let settings = view("settings");
        let written = database.apply(insert(&settings, "a", None, 1, &[("value", "b")])).await;
        assert!(matches!(written, Err(StorageError::UnknownTable(id)) if id == settings.id));
        let found = command(&settings, ReadTarget::Partition(key("a")));
        assert!(database.read(found).await.unwrap().partitions.is_empty());
    });
}

/// Running compactions are listed, and finished ones are not.
#[test]
fn tasks_are_the_compactions_that_run() {
    run(async {
        let database = open(&FileSystem::simulated(1), configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        for _ in 0..2 {
            write(&database, 0..4000, 500).await;
            database.flush("ks", None).await.unwrap();
        }
        let tasks = view("sstable_tasks");
        assert!(read_all(&database, &tasks).await.partitions.is_empty());
        let compacting = {
            let database = database.clone();
            espalier_runtime::spawn_local(async move {
                database.compactions().compact("ks", Some("narrow"), false).await.unwrap();
            })
        };
        let bytes: i64 = 2 * 4000 * 500;
        let mut seen = 0;
        while statistics(&database, "narrow").await.sstables > 1 {
            for partition in read_all(&database, &tasks).await.partitions {
                assert_eq!(partition.key, key("ks"));
                let fields = Fields::new(&tasks, &partition.rows[0]);
                assert_eq!(fields.clustering(0), Some("narrow"));
                assert_eq!(fields.text("kind"), Some("major compaction"));
                assert_eq!((fields.int("sstables"), fields.text("unit")), (Some(2), Some("bytes")));
                let (total, done) = (fields.bigint("total"), fields.bigint("progress"));
                let (total, done) = (total.unwrap(), done.unwrap());
                assert!(total > bytes && (0..=total).contains(&done), "{done} of {total}");
                assert_eq!(fields.double("completion_ratio"), Some(done as f64 / total as f64));
                let stored = fields.bigint("total_compressed").unwrap();
                assert!(stored > 0 && stored < total, "all values are alike: {stored}");
                assert!(fields.text("target_directory").unwrap().contains("narrow-"));
                seen += 1;
            }
            espalier_runtime::yield_now().await;
        }
        compacting.await;
        assert!(seen > 0, "the compaction ended before it was seen");
        assert!(read_all(&database, &tasks).await.partitions.is_empty());
    });
}
