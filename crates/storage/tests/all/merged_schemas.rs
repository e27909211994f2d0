//! A node merges the schema of its ring into its own: rows in memory stay readable, and only a
//! later deletion drops a table.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    DeletionTime, Mutation, PartitionUpdate,
    schema::{Schema, TableBuilder, TableId, TableMetadata, TableOptions},
};
use espalier_runtime::{file::FileSystem, time};
use espalier_storage::{Node, SchemaMerge, system::schema_mutation};
use espalier_types::{CqlType, UserType};
use uuid::Uuid;

use crate::support::*;

const TABLE: u128 = 0xe1;

/// Returns the builder of a table with a key and these columns, all of type `blob`.
fn with_columns(name: &str, id: u128, columns: &[&str]) -> TableBuilder {
    let builder = TableBuilder::new("ks", name, TableId(Uuid::from_u128(id)));
    let builder = builder.partition_key("k", CqlType::Blob);
    columns.iter().fold(builder, |builder, column| builder.regular(column, CqlType::Blob))
}

/// Returns a schema with these tables in keyspace `ks`.
fn schema(tables: Vec<TableMetadata>) -> Schema {
    with_tables(&Schema::new(BTreeMap::new(), Uuid::nil()), tables)
}

fn none() -> Schema {
    Schema::new(BTreeMap::new(), Uuid::nil())
}

/// Returns the rows that a change at `timestamp` µs writes to the schema tables of another node.
fn change(old: &Schema, new: &Schema, timestamp: i64) -> Vec<PartitionUpdate> {
    let now_s = u32::try_from(time::now_seconds()).unwrap();
    schema_mutation(old, new, timestamp, now_s).updates
}

async fn merge(database: &Node, rows: Vec<PartitionUpdate>) -> SchemaMerge {
    database.merge_schema(rows).await.unwrap()
}

async fn shown(database: &Node, name: &str) -> Vec<String> {
    let table = table(database, name);
    let mut lines = show(&table, &read_all(database, &table).await);
    lines.sort();
    lines
}

async fn write(database: &Node, name: &str, partition: &str, values: &[(&str, &str)]) {
    let write = insert(&table(database, name), partition, None, 50, values);
    database.apply(write).await.unwrap();
}

#[test]
fn rows_in_memory_keep_their_columns() {
    let file_system = FileSystem::simulated(1);
    let first = || with_columns("t", TABLE, &["v1", "v2"]);
    // The new column sorts before the others.
    let added = || with_columns("t", TABLE, &["a", "v1", "v2"]);
    let dropped = || with_columns("t", TABLE, &["a", "v1", "v2"]).drop_column("v1", 1_000_000);
    let expected = ["p/ v2=two", "q/ a=new v2=2"];
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let one = schema(vec![first().build()]);
        assert_eq!(merge(&database, change(&none(), &one, 10)).await, SchemaMerge::Equal);
        write(&database, "t", "p", &[("v1", "one"), ("v2", "two")]).await;
        // A write that is decoded before the change, and stored after it.
        let early = insert(&table(&database, "t"), "q", None, 50, &[("v1", "1"), ("v2", "2")]);

        let two = schema(vec![added().build()]);
        assert_eq!(merge(&database, change(&one, &two, 20)).await, SchemaMerge::Equal);
        assert_eq!(shown(&database, "t").await, ["p/ v1=one v2=two"]);
        database.apply(early).await.unwrap();
        write(&database, "t", "q", &[("a", "new")]).await;
        assert_eq!(shown(&database, "t").await, ["p/ v1=one v2=two", "q/ a=new v1=1 v2=2"]);

        let three = schema(vec![dropped().build()]);
        assert_eq!(merge(&database, change(&two, &three, 30)).await, SchemaMerge::Equal);
        assert_eq!(shown(&database, "t").await, expected);
        let four = schema(vec![dropped().regular("v1", CqlType::Blob).build()]);
        assert_eq!(merge(&database, change(&three, &four, 40)).await, SchemaMerge::Equal);
        assert_eq!(shown(&database, "t").await, expected);
        // A second merge of these rows changes nothing.
        let before = database.store().schema();
        assert_eq!(merge(&database, change(&none(), &four, 40)).await, SchemaMerge::Equal);
        assert!(Arc::ptr_eq(&before, &database.store().schema()));
        database.flush("ks", None).await.unwrap();
        assert_eq!(shown(&database, "t").await, expected);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "t").await, expected);
    });
}

#[test]
fn a_node_with_an_older_schema_undoes_nothing() {
    let file_system = FileSystem::simulated(1);
    let of = |names: &[(&str, u128)]| {
        let tables = names.iter().map(|(name, id)| with_columns(name, *id, &["v"]).build());
        schema(tables.collect())
    };
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let (old, new) = (of(&[("t", 1)]), of(&[("t", 1), ("u", 2)]));
        let at_behind = || change(&none(), &old, 10);
        let at_ahead = || change(&none(), &new, 20);
        assert_eq!(merge(&database, at_ahead()).await, SchemaMerge::Equal);
        write(&database, "u", "p", &[("v", "kept")]).await;
        assert_eq!(merge(&database, at_behind()).await, SchemaMerge::Newer);
        assert_eq!(shown(&database, "u").await, ["p/ v=kept"]);

        // An older definition does not replace a newer one.
        let wider = with_columns("t", 1, &["v", "w"]).build();
        let wider = with_tables(&new, vec![wider]);
        assert_eq!(merge(&database, change(&none(), &wider, 30)).await, SchemaMerge::Equal);
        write(&database, "t", "p", &[("w", "kept")]).await;
        assert_eq!(merge(&database, at_ahead()).await, SchemaMerge::Newer);
        assert_eq!(shown(&database, "t").await, ["p/ w=kept"]);

        // A later deletion drops the table for good.
        let fewer = without_table(&wider, "u");
        let dropped = [change(&none(), &fewer, 30), change(&wider, &fewer, 40)].concat();
        assert_eq!(merge(&database, dropped).await, SchemaMerge::Equal);
        assert!(database.store().schema().table("ks", "u").is_none());
        assert_eq!(merge(&database, at_ahead()).await, SchemaMerge::Newer);
        assert!(database.store().schema().table("ks", "u").is_none());
        assert_eq!(database.orphans().list().await.unwrap(), []);
        assert_eq!(shown(&database, "t").await, ["p/ w=kept"]);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert!(database.store().schema().table("ks", "u").is_none());
        let (before, tables) = (schema(vec![]), of(&[("t", 1)]));
        let dropped = change(&with_keyspace(&before, BTreeMap::new()), &none(), 50);
        merge(&database, dropped).await;
        assert!(database.store().schema().keyspace("ks").is_none());
        merge(&database, change(&none(), &tables, 10)).await;
        assert!(database.store().schema().keyspace("ks").is_none());
        assert_eq!(merge(&database, change(&none(), &tables, 60)).await, SchemaMerge::Equal);
        assert_eq!(shown(&database, "t").await, [""; 0]);
    });
}

#[test]
fn an_unreadable_change_leaves_the_table() {
    let file_system = FileSystem::simulated(1);
    let vector = |element, dimension| CqlType::Vector { element: Arc::new(element), dimension };
    let first = schema(vec![with_columns("t", TABLE, &["v"]).build()]);
    let column_type = vector(vector(CqlType::Bigint, 16384), 16384);
    let bad = with_columns("t", TABLE, &["v"]).regular("bad", column_type);
    let second = schema(vec![bad.clone().build()]);
    let third = schema(vec![with_columns("t", TABLE, &["v"]).build()]);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        merge(&database, change(&none(), &first, 10)).await;
        write(&database, "t", "p", &[("v", "kept")]).await;
        let unreadable = SchemaMerge::Unreadable(1);
        assert_eq!(merge(&database, change(&first, &second, 20)).await, unreadable);
        assert_eq!(shown(&database, "t").await, ["p/ v=kept"]);
        database.flush("ks", None).await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert!(database.store().schema().table("ks", "t").is_none());
        // Only a start opens the files of a table that has become readable.
        let unreadable = SchemaMerge::Unreadable(1);
        assert_eq!(merge(&database, change(&second, &third, 30)).await, unreadable);
        assert!(database.store().schema().table("ks", "t").is_none());
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "t").await, ["p/ v=kept"]);
    });
}

/// The node copies the log's segments with writes of unreadable tables. When an operator moves a
/// copy back, the deletions of other tables may be purged.
#[test]
fn a_copied_segment_brings_back_only_writes_of_unreadable_tables() {
    let file_system = FileSystem::simulated(1);
    let with_bad = |column_type: CqlType| {
        let bad = with_columns("bad", TABLE, &["v"]).regular("w", column_type).build();
        schema(vec![with_columns("good", 1, &["v"]).build(), bad])
    };
    let vector = |element, dimension| CqlType::Vector { element: Arc::new(element), dimension };
    let purge = async |database: &Node, timestamp| {
        let mut delete = PartitionUpdate::new(table(database, "good").id, key("p"));
        delete.deletion = DeletionTime::new(timestamp, NOW);
        database.apply(Mutation { updates: vec![delete] }).await.unwrap();
        database.flush("ks", None).await.unwrap();
        database.compactions().compact("ks", Some("good"), true).await.unwrap();
    };
    let readable = with_bad(CqlType::Blob);
    let unreadable = with_bad(vector(vector(CqlType::Bigint, 16384), 16384));
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        merge(&database, change(&none(), &readable, 10)).await;
        write(&database, "good", "p", &[("v", "deleted")]).await;
        write(&database, "bad", "p", &[("v", "kept")]).await;
        merge(&database, change(&readable, &unreadable, 20)).await;
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "good").await, ["p/ v=deleted"]);
        purge(&database, 60).await;
        merge(&database, change(&unreadable, &readable, 30)).await;
        database.shutdown().await.unwrap();
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "bad").await, [""; 0]);
        // The node forgets which writes to `good` it has purged when it has purged many later ones.
        for timestamp in 70..140 {
            purge(&database, timestamp).await;
            write(&database, "bad", "q", &[("v", "new")]).await;
        }
        write(&database, "good", "q", &[("v", "new")]).await;
        database.shutdown().await.unwrap();
    });
    run(async {
        for copy in file_system.read_dir("node/commitlog/unreadable").await.unwrap() {
            let back = std::path::Path::new("node/commitlog").join(&copy.name);
            file_system.rename(&copy.path, &back).await.unwrap();
        }
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "bad").await, ["p/ v=kept", "q/ v=new"]);
        assert_eq!(shown(&database, "good").await, ["q/ v=new"]);
    });
}

/// A compaction has purged a row whose deletion is not in the copied segment. Then the table is
/// unreadable for a while.
#[test]
fn a_copied_segment_brings_back_no_purged_write_of_its_table() {
    let file_system = FileSystem::simulated(1);
    let with_bad = |column_type: CqlType| {
        let bad = with_columns("bad", TABLE, &["v"]).regular("w", column_type).build();
        schema(vec![with_columns("good", 1, &["v"]).build(), bad])
    };
    let vector = |element, dimension| CqlType::Vector { element: Arc::new(element), dimension };
    let purge = async |database: &Node, name: &str| {
        database.flush("ks", None).await.unwrap();
        set_durable_writes(database, false).await;
        let mut delete = PartitionUpdate::new(table(database, name).id, key("p"));
        delete.deletion = DeletionTime::new(60, NOW);
        database.apply(Mutation { updates: vec![delete] }).await.unwrap();
        database.flush("ks", None).await.unwrap();
        set_durable_writes(database, true).await;
        database.compactions().compact("ks", Some(name), false).await.unwrap();
    };
    let readable = with_bad(CqlType::Blob);
    let unreadable = with_bad(vector(vector(CqlType::Bigint, 16384), 16384));
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        merge(&database, change(&none(), &readable, 10)).await;
        write(&database, "bad", "p", &[("v", "purged")]).await;
        purge(&database, "bad").await;
        assert!(sstable_names(&file_system, &table(&database, "bad")).await.is_empty());
        write(&database, "bad", "q", &[("v", "kept")]).await;
        merge(&database, change(&readable, &unreadable, 20)).await;
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        write(&database, "good", "p", &[("v", "purged")]).await;
        purge(&database, "good").await;
        merge(&database, change(&unreadable, &readable, 30)).await;
        database.shutdown().await.unwrap();
    });
    run(async {
        for copy in file_system.read_dir("node/commitlog/unreadable").await.unwrap() {
            let back = std::path::Path::new("node/commitlog").join(&copy.name);
            file_system.rename(&copy.path, &back).await.unwrap();
        }
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database, "bad").await, ["q/ v=kept"]);
    });
}

/// A flush that fails for ever would fill the commit log, and stop all writes of the shard.
#[test]
fn a_table_with_a_foreign_compression_is_flushed() {
    let file_system = FileSystem::simulated(1);
    let maps =
        [&[("class", "x.Y")][..], &[("class", "LZ4Compressor"), ("chunk_length_in_kb", "32768")]];
    let tables = maps.iter().zip(1..).map(|(pairs, id)| {
        let compression = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let options = TableOptions { compression: compression.collect(), ..Default::default() };
        with_columns(&format!("t{id}"), id, &["v"]).options(options).build()
    });
    let merged = schema(tables.collect());
    for is_first in [true, false] {
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            if is_first {
                assert_eq!(
                    merge(&database, change(&none(), &merged, 10)).await,
                    SchemaMerge::Equal
                );
            }
            for (name, pairs) in ["t1", "t2"].into_iter().zip(maps) {
                if is_first {
                    write(&database, name, "p", &[("v", "kept")]).await;
                }
                database.flush("ks", Some(name)).await.unwrap();
                assert_eq!(shown(&database, name).await, ["p/ v=kept"]);
                // DESCRIBE and Cassandra's nodes see what the ring has set.
                let kept = &table(&database, name).options.compression;
                assert!(pairs.iter().all(|(key, value)| kept[*key] == *value), "{kept:?}");
            }
        });
    }
}

/// The rows of this keyspace take more than a record of the commit log, 2 MiB.
#[test]
fn a_keyspace_of_many_tables_is_merged_in_parts() {
    let file_system = FileSystem::simulated(1);
    let long = |number: usize| format!("column_{number}_{}", "x".repeat(200));
    let columns: Vec<_> = (0..50).map(long).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let names: Vec<_> = (0..200).map(|number| format!("t{number:03}")).collect();
    let tables = |names: &[String]| {
        let tables = names.iter().enumerate();
        let tables = tables.map(|(number, name)| with_columns(name, 1 + number as u128, &columns));
        schema(tables.map(TableBuilder::build).collect())
    };
    let (all, fewer) = (tables(&names), tables(&names[..100]));
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(merge(&database, change(&none(), &all, 10)).await, SchemaMerge::Equal);
        write(&database, "t199", "p", &[(columns[7], "kept")]).await;
        assert_eq!(shown(&database, "t199").await, [format!("p/ {}=kept", columns[7])]);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(
            database.store().schema().tables().filter(|it| it.keyspace == "ks").count(),
            200
        );
        let dropped = [change(&none(), &fewer, 10), change(&all, &fewer, 20)].concat();
        assert_eq!(merge(&database, dropped).await, SchemaMerge::Equal);
        assert_eq!(
            database.store().schema().tables().filter(|it| it.keyspace == "ks").count(),
            100
        );
    });
}

/// Each type has two fields of the type before it, so the last one has 2^30 parts.
#[test]
fn user_types_with_too_many_parts_are_unreadable() {
    let file_system = FileSystem::simulated(1);
    let mut types: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    let mut inner = CqlType::Int;
    for number in 0..30 {
        let (keyspace, name) = ("ks".to_owned(), format!("u{number:02}"));
        let fields = ["a", "b"].map(|field| (field.to_owned(), inner.clone())).to_vec();
        let definition = Arc::new(UserType { keyspace, name: name.clone(), fields });
        inner = CqlType::UserDefined { definition: definition.clone(), frozen: true };
        types.insert(name, definition);
    }
    let mut with_types = schema(vec![with_columns("t", TABLE, &["v"]).build()]);
    let keyspace = with_types.keyspaces.get_mut("ks").map(Arc::make_mut);
    keyspace.unwrap().types = types;
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let merged = merge(&database, change(&none(), &with_types, 10)).await;
        assert!(matches!(merged, SchemaMerge::Unreadable(count) if count > 10), "{merged:?}");
        write(&database, "t", "p", &[("v", "kept")]).await;
        assert_eq!(shown(&database, "t").await, ["p/ v=kept"]);
    });
}

/// The id of a table alone does not say whether the table was dropped: the ids of a dropped table
/// and of a table that the ring created before the node's start may both be older than the start.
#[test]
fn only_a_table_that_was_dropped_counts_as_truncated() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let id = TableId(Uuid::from_u128(TABLE));
        let one = schema(vec![with_columns("t", TABLE, &["v"]).build()]);
        let without = without_table(&one, "t");
        merge(&database, change(&none(), &one, 10)).await;
        assert_eq!(database.truncated_at_us(id).await.unwrap(), Some(0));
        merge(&database, change(&one, &without, 20)).await;
        let before = time::now_micros();
        merge(&database, change(&without, &one, 30)).await;
        let truncated = database.truncated_at_us(id).await.unwrap();
        assert!(truncated.is_some_and(|at_us| at_us >= before), "{truncated:?}");
    });
}
