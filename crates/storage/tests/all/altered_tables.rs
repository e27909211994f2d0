//! Tests tables whose columns are added and dropped: data in memory, in the log and in files stays
//! readable, and dropped data stays gone.

use std::time::Duration;

use espalier_mutation::{
    Cell, ColumnData, ComplexColumn, DeletionTime, Liveness,
    schema::{Schema, TableMetadata, TableOptions},
};
use espalier_runtime::{
    file::{
        FileSystem, Operation,
        simulated::{Effect, Fault},
    },
    spawn_local,
    time::{self, ManualClock},
    yield_now,
};
use espalier_storage::{Node, ReadCommand, ReadTarget, StorageError};
use espalier_types::CqlType;

use crate::support::*;

async fn alter(
    database: &Node,
    change: impl Fn(&TableMetadata) -> TableMetadata + Send + Sync + 'static,
) {
    alter_table(database, "wide", change).await;
}

async fn shown(database: &Node) -> Vec<String> {
    let wide = table(database, "wide");
    show(&wide, &read_all(database, &wide).await)
}

/// Shards install a new column one after the other. A write of the column waits until its shard has
/// the column, because the commit log would have no name for an unknown column.
#[test]
fn a_write_waits_for_its_column() {
    // The clock moves only while the node waits, so a slow change of the schema takes no time.
    let _clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(1);
    run(async {
        let mut configuration = configuration();
        configuration.timeouts.write = Duration::from_millis(200);
        let database = open(&file_system, configuration).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let with_x = |table: &TableMetadata| table.rebuild().regular("x", CqlType::Blob).build();
        let newer = with_x(&table(&database, "wide"));
        let write = |partition| insert(&newer, partition, Some(1), 11_000_000, &[("x", "new")]);
        let error = database.apply(write("a")).await.unwrap_err();
        assert!(matches!(error, StorageError::UnknownColumn(id) if id == newer.id), "{error}");
        let waiting = {
            let (database, write) = (database.clone(), write("b"));
            spawn_local(async move { database.apply(write).await })
        };
        time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished());
        alter(&database, with_x).await;
        waiting.await.unwrap();
    });
    let crashed = FileSystem::on(file_system.simulated_disk().unwrap().crash(1));
    run(async {
        let database = open(&crashed, configuration()).await.unwrap();
        assert_eq!(shown(&database).await, ["b/1 x=new"]);
    });
}

#[test]
fn columns_are_added_dropped_and_added_again() {
    for is_flushed in [false, true] {
        let file_system = FileSystem::simulated(1);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let values = [("v", "old"), ("w", "kept")];
            database.apply(insert(&wide, "a", Some(1), 10_000_000, &values)).await.unwrap();
            if is_flushed {
                database.flush("ks", None).await.unwrap();
            }
            alter(&database, |table| table.rebuild().regular("x", CqlType::Blob).build()).await;
            let wide = table(&database, "wide");
            database.apply(insert(&wide, "a", Some(2), 11_000_000, &[("x", "new")])).await.unwrap();
            assert_eq!(shown(&database).await, ["a/1 v=old w=kept", "a/2 x=new"]);

            alter(&database, |table| table.rebuild().drop_column("v", 20_000_000).build()).await;
            assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 x=new"]);

            alter(&database, |table| table.rebuild().regular("v", CqlType::Blob).build()).await;
            assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 x=new"]);
            let wide = table(&database, "wide");
            database
                .apply(insert(&wide, "a", Some(3), 30_000_000, &[("v", "again")]))
                .await
                .unwrap();
            assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 x=new", "a/3 v=again"]);
        });
        for is_flushed in [false, true] {
            run(async {
                let database = open(&file_system, configuration()).await.unwrap();
                assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 x=new", "a/3 v=again"]);
                if is_flushed {
                    database.flush("ks", None).await.unwrap();
                    assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 x=new", "a/3 v=again"]);
                }
            });
        }
    }
}

/// As in Cassandra, cells that are newer than a drop survive flushes, compactions and restarts
/// until the column is added again.
#[test]
fn cells_newer_than_a_drop_return_with_the_column() {
    for step in ["nothing", "flush", "compaction", "restart", "restart and flush"] {
        let file_system = FileSystem::simulated(1);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let values = [("v", "old"), ("w", "kept")];
            database.apply(insert(&wide, "a", Some(1), 10_000_000, &values)).await.unwrap();
            if step == "compaction" {
                database.flush("ks", None).await.unwrap();
            }
            let values = [("v", "new"), ("w", "kept")];
            // Written in the millisecond of the drop; the schema tables store the drop's time in
            // milliseconds.
            database.apply(insert(&wide, "a", Some(2), 20_000_400, &values)).await.unwrap();
            alter(&database, |table| table.rebuild().drop_column("v", 20_000_000).build()).await;
            assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 w=kept"], "{step}");
            if step == "flush" || step == "compaction" {
                database.flush("ks", None).await.unwrap();
            }
            if step == "compaction" {
                database.compactions().compact("ks", Some("wide"), true).await.unwrap();
            }
            if !step.starts_with("restart") {
                alter(&database, |table| table.rebuild().regular("v", CqlType::Blob).build()).await;
                let expected = ["a/1 w=kept", "a/2 v=new w=kept"];
                assert_eq!(shown(&database).await, expected, "{step}");
            }
        });
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            if step.starts_with("restart") {
                assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 w=kept"], "{step}");
                if step == "restart and flush" {
                    database.flush("ks", None).await.unwrap();
                }
                alter(&database, |table| table.rebuild().regular("v", CqlType::Blob).build()).await;
            }
            let expected = ["a/1 w=kept", "a/2 v=new w=kept"];
            for _ in 0..2 {
                assert_eq!(shown(&database).await, expected, "{step}");
                database.flush("ks", None).await.unwrap();
            }
        });
    }
}

/// The schema stores a dropped UDT as a tuple, which is never multi-cell. Therefore a single-cell
/// column may take the name of a dropped multi-cell column.
#[test]
fn a_dropped_column_of_many_cells_may_come_back_as_one_of_one_cell() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        for (clustering, is_flushed) in [(1, true), (2, false)] {
            let wide = table(&database, "wide");
            let mut mutation = insert(&wide, "a", Some(clustering), 10_000_000, &[("v", "v")]);
            let cells = vec![(int(1), Cell::live(10_000_000, int(1)))];
            let map = ComplexColumn { deletion: DeletionTime::LIVE, cells };
            let id = wide.column("m").unwrap().id;
            let row = &mut mutation.updates[0].rows[0];
            *row.column_or_insert(id, || ColumnData::Complex(map.clone())) =
                ColumnData::Complex(map.clone());
            database.apply(mutation).await.unwrap();
            if is_flushed {
                database.flush("ks", None).await.unwrap();
            }
        }
        alter(&database, |table| table.rebuild().drop_column("m", 20_000_000).build()).await;
        alter(&database, |table| table.rebuild().regular("m", CqlType::Blob).build()).await;
        let wide = table(&database, "wide");
        database.apply(insert(&wide, "a", Some(3), 30_000_000, &[("m", "new")])).await.unwrap();
        assert_eq!(shown(&database).await, ["a/1 v=v", "a/2 v=v", "a/3 m=new"]);
    });
    for _ in 0..2 {
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(shown(&database).await, ["a/1 v=v", "a/2 v=v", "a/3 m=new"]);
            database.flush("ks", None).await.unwrap();
            assert_eq!(shown(&database).await, ["a/1 v=v", "a/2 v=v", "a/3 m=new"]);
        });
    }
}

/// A look-up of one row stops when all remaining SSTables are older than the row that it found.
/// Cells of a dropped column do not count as found.
#[test]
fn a_row_of_a_file_exists_although_a_newer_cell_of_it_was_dropped() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table().rebuild().regular("w", CqlType::Blob).build()]).await;
        let narrow = table(&database, "narrow");
        database.apply(insert(&narrow, "a", None, 10_000_000, &[("w", "old")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        let mut mutation = insert(&narrow, "a", None, 11_000_000, &[("v", "new")]);
        let row = &mut mutation.updates[0].rows[0];
        row.liveness = Liveness::NONE;
        let tombstone = ColumnData::Simple(Cell::tombstone(11_000_000, NOW));
        row.column_or_insert(narrow.column("w").unwrap().id, || tombstone);
        database.apply(mutation).await.unwrap();
        alter_table(&database, "narrow", |table| {
            table.rebuild().drop_column("v", 20_000_000).build()
        })
        .await;
        let narrow = table(&database, "narrow");
        for bypass_cache in [false, true] {
            let target = ReadTarget::Partition(key("a"));
            let command = ReadCommand { bypass_cache, ..command(&narrow, target) };
            let result = database.read(command).await.unwrap();
            assert_eq!(show(&narrow, &result), ["a/"]);
        }
        assert_eq!(show(&narrow, &read_all(&database, &narrow).await), ["a/"]);
    });
}

/// An SSTable that is written while its table is altered gets the new version of the table.
/// Otherwise it would have the columns of the old version, and compactions would fail.
#[test]
fn a_table_is_altered_while_it_is_flushed() {
    for steps in 0..80 {
        let file_system = FileSystem::simulated(steps);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let values = [("v", "old"), ("w", "kept")];
            database.apply(insert(&wide, "a", Some(1), 10_000_000, &values)).await.unwrap();
            let other = database.clone();
            let flush = spawn_local(async move { other.flush("ks", Some("wide")).await });
            for _ in 0..steps {
                yield_now().await;
            }
            alter(&database, |table| table.rebuild().drop_column("v", 20_000_000).build()).await;
            flush.await.unwrap();
            let wide = table(&database, "wide");
            let values = [("w", "new")];
            database.apply(insert(&wide, "a", Some(2), 30_000_000, &values)).await.unwrap();
            database.compactions().compact("ks", Some("wide"), true).await.unwrap();
            assert_eq!(shown(&database).await, ["a/1 w=kept", "a/2 w=new"], "{steps}");
        });
    }
}

/// Altering an option keeps the cached rows of the table, except for a longer `gc_grace_seconds`.
/// Altering the columns or switching the cache off drops them. A flush adds none while it is off.
#[test]
fn the_row_cache_survives_changes_of_options_not_of_columns() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let write = async |value: &str, at: i64| {
            let wide = table(&database, "wide");
            database.apply(insert(&wide, "a", Some(1), at, &[("w", value)])).await.unwrap();
            database.flush("ks", None).await.unwrap();
        };
        let is_cached = async || {
            let wide = table(&database, "wide");
            let before = database.store().row_cache().metrics();
            let target = ReadTarget::Partition(key("a"));
            let read = database.read(command(&wide, target)).await.unwrap();
            let after = database.store().row_cache().metrics();
            let misses = after.reads_with_misses - before.reads_with_misses;
            assert_eq!(misses + after.reads_without_misses - before.reads_without_misses, 1);
            (show(&wide, &read).concat(), misses == 0)
        };
        let with_option = async |change: fn(&mut TableOptions)| {
            alter_options(&database, "wide", change).await;
        };
        write("1", 1).await;
        assert_eq!(is_cached().await, ("a/1 w=1".into(), false));
        assert_eq!(is_cached().await, ("a/1 w=1".into(), true));

        with_option(|options| options.comment = "another".into()).await;
        with_option(|options| options.gc_grace_seconds = 7).await;
        assert_eq!(is_cached().await, ("a/1 w=1".into(), true));
        write("2", 2).await;
        assert_eq!(is_cached().await, ("a/1 w=2".into(), true));

        alter_caching(&database, "wide", false).await;
        write("3", 3).await;
        alter_caching(&database, "wide", true).await;
        assert_eq!(is_cached().await, ("a/1 w=3".into(), false));
        assert_eq!(is_cached().await, ("a/1 w=3".into(), true));

        alter(&database, |table| table.rebuild().drop_column("v", 20_000_000).build()).await;
        assert_eq!(is_cached().await, ("a/1 w=3".into(), false));
    });
}

/// The schema tables have a change before the log has it. A change that the log refuses must not
/// stay in the schema tables, because their next flush would make it durable.
#[test]
fn a_change_that_cannot_be_logged_does_not_come_true_later() {
    for seed in espalier_testing::seeds(10) {
        let file_system = FileSystem::simulated(seed);
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            database.apply(insert(&wide, "a", Some(1), 1, &[("v", "1")])).await.unwrap();
            let disk = file_system.simulated_disk().unwrap();
            let operation = if seed % 2 == 0 { Operation::Sync } else { Operation::Write };
            disk.inject(Fault::nth(operation, 0, Effect::InputOutput).on_path("schemalog-"));
            let failed = database
                .change_schema(|schema| {
                    let schema = without_table(schema, "wide");
                    Ok::<_, ()>(Some(with_tables(&schema, vec![narrow_table()])))
                })
                .await;
            assert!(failed.is_err());
            disk.clear_faults();
            database.apply(insert(&wide, "a", Some(2), 1, &[("v", "2")])).await.unwrap();
            database.shutdown().await.unwrap();
        });
        run(async {
            let database = open(&file_system, configuration()).await.unwrap();
            assert_eq!(shown(&database).await, ["a/1 v=1", "a/2 v=2"]);
            assert!(database.store().schema().table("ks", "narrow").is_none());
        });
    }
}

#[test]
fn a_change_that_fails_or_changes_nothing_leaves_the_schema() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let before = database.store().schema().version;
        let refused = database.change_schema(|_| Err::<Option<Schema>, _>("no")).await.unwrap();
        assert_eq!(refused, Err("no"));
        let nothing = database.change_schema(|_| Ok::<_, ()>(None)).await.unwrap();
        assert_eq!(nothing, Ok(false));
        assert_eq!(database.store().schema().version, before);
        create(&database, vec![narrow_table()]).await;
        assert_ne!(database.store().schema().version, before);
    });
}
