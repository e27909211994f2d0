//! A node writes the configured version of SSTables, for all tables or for one, and reads every
//! version.

use espalier_mutation::{
    Cell, ColumnData, DeletionTime, KeyRange, Mutation,
    schema::{SSTABLE_FORMAT, TableMetadata, TableOptions},
};
use espalier_runtime::file::FileSystem;
use espalier_storage::{Node, ReadCommand, ReadTarget, StorageConfiguration, StorageError};

use crate::support::*;

fn writing(version: &str) -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.sstables.format = version.into();
    configuration
}

async fn set_version(database: &Node, version: &'static str) {
    let change = move |options: &mut TableOptions| {
        options.extensions.insert(SSTABLE_FORMAT.into(), version.into());
    };
    alter_options(database, "wide", change).await;
}

/// Returns the names of the SSTables of keyspace `ks`, sorted.
async fn versions(file_system: &FileSystem) -> Vec<String> {
    let mut found = Vec::new();
    for entry in file_system.read_dir("node/data/ks").await.unwrap() {
        for file in file_system.read_dir(&entry.path).await.unwrap() {
            if let Some((name, _)) = file.name.split_once("-Data.db") {
                found.push(name.to_string());
            }
        }
    }
    found.sort();
    found
}

async fn shown(database: &Node) -> Vec<String> {
    let wide = table(database, "wide");
    show(&wide, &read_all(database, &wide).await)
}

#[test]
pub fn a_node_reads_the_files_it_wrote_in_every_version() {
    let file_system = FileSystem::simulated(1);
    let mut expected = Vec::new();
    let reported = ["da", "oa", "nb", "me", "mt", "bti", "big", "ms"];
    for (number, version) in reported.iter().enumerate() {
        run(async {
            let database = open(&file_system, writing(version)).await.unwrap();
            if number == 0 {
                create(&database, vec![wide_table()]).await;
            }
            let wide = table(&database, "wide");
            let mutation = insert(&wide, "a", Some(number as i32), 1_000, &[("v", version)]);
            database.apply(mutation).await.unwrap();
            database.flush("ks", None).await.unwrap();
            expected.push(format!("a/{number} v={version}"));
            assert_eq!(shown(&database).await, expected);
        });
    }
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        assert_eq!(shown(&database).await, expected);
        assert_eq!(
            versions(&file_system).await,
            [
                "da-1-bti", "da-6-bti", "me-4-big", "mt-5-big", "mt-8-big", "nb-3-big", "oa-2-big",
                "oa-7-big"
            ]
        );
    });
}

#[test]
fn a_table_may_have_a_version_of_its_own() {
    let file_system = FileSystem::simulated(2);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        for version in ["me", "oa", "something newer"] {
            set_version(&database, version).await;
            let wide = table(&database, "wide");
            database.apply(insert(&wide, "a", Some(1), 1_000, &[("v", "x")])).await.unwrap();
            database.flush("ks", None).await.unwrap();
        }
        assert_eq!(shown(&database).await, ["a/1 v=x"]);
        assert_eq!(versions(&file_system).await, ["da-3-bti", "me-1-big", "oa-2-big"]);
    });
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        set_version(&database, "nb").await;
        let wide = table(&database, "wide");
        database.apply(insert(&wide, "a", Some(2), 1_000, &[("v", "y")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        assert_eq!(shown(&database).await, ["a/1 v=x", "a/2 v=y"]);
        assert_eq!(versions(&file_system).await, ["da-3-bti", "me-1-big", "nb-4-big", "oa-2-big"]);
    });
}

/// A deletion that only older versions can store is neither lost nor an obstacle when the version
/// changes.
#[test]
fn a_deletion_accepted_under_nb_survives_a_change_to_da() {
    let file_system = FileSystem::simulated(3);
    let negative = |table: &TableMetadata| {
        let mut mutation = insert(table, "a", Some(1), -10, &[("v", "old")]);
        mutation.updates[0].deletion = DeletionTime::new(-5, 1_750_000_000);
        mutation
    };
    run(async {
        let database = open(&file_system, writing("nb")).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let wide = table(&database, "wide");
        database.apply(insert(&wide, "a", Some(1), -10, &[("v", "old")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        assert_eq!(shown(&database).await, ["a/1 v=old"]);
        database.apply(negative(&wide)).await.unwrap();
        assert!(shown(&database).await.is_empty());
    });
    run(async {
        // The deletion is replayed from the log.
        let database = open(&file_system, writing("da")).await.unwrap();
        let wide = table(&database, "wide");
        let refused = database.apply(negative(&wide)).await.unwrap_err();
        assert!(matches!(refused, StorageError::Unstorable(_)), "{refused}");
        database.flush("ks", None).await.unwrap();
        assert!(shown(&database).await.is_empty());
        assert_eq!(versions(&file_system).await, ["nb-1-big", "nb-2-big"]);
    });
    run(async {
        let database = open(&file_system, writing("da")).await.unwrap();
        assert!(shown(&database).await.is_empty());
    });
}

/// Times of versions before `oa` end in 2038, so data that expires later would expire then.
#[test]
fn an_expiry_beyond_the_range_of_a_version_is_refused() {
    for (version, is_taken) in [("nb", false), ("me", false), ("oa", true), ("da", true)] {
        let file_system = FileSystem::simulated(3);
        run(async {
            let database = open(&file_system, writing(version)).await.unwrap();
            create(&database, vec![wide_table()]).await;
            let wide = table(&database, "wide");
            let mut of_cell = insert(&wide, "a", Some(1), 10, &[("v", "x")]);
            let (_, data) = &mut of_cell.updates[0].rows[0].columns[0];
            let ColumnData::Simple(cell) = data else { panic!("{data:?}") };
            *cell = Cell::expiring(10, 630_000_000, 1 << 31, cell.value.clone());
            let mut of_row = insert(&wide, "a", Some(1), 10, &[("v", "x")]);
            let liveness = &mut of_row.updates[0].rows[0].liveness;
            (liveness.ttl, liveness.local_expiration) = (630_000_000, 1 << 31);
            for mutation in [of_cell, of_row] {
                match database.apply(mutation).await {
                    Ok(_) => assert!(is_taken, "{version}"),
                    Err(StorageError::ExpiryTooLate { ttl, latest, .. }) => {
                        assert!(!is_taken, "{version}");
                        assert_eq!((ttl, latest), (630_000_000, "2038-01-19T03:14:06+00:00"));
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
}

/// A second after those that versions with signed seconds can store.
const EXPIRY: u32 = 1 << 31;

/// Returns a write of a cell that expires at [`EXPIRY`].
fn late(wide: &TableMetadata, timestamp: i64) -> Mutation {
    expiring(wide, timestamp, EXPIRY)
}

/// Returns a write of a cell with a long TTL that expires at this second.
fn expiring(wide: &TableMetadata, timestamp: i64, expiry_s: u32) -> Mutation {
    let mut mutation = insert(wide, "a", Some(1), timestamp, &[("v", "x")]);
    let (_, data) = &mut mutation.updates[0].rows[0].columns[0];
    let ColumnData::Simple(cell) = data else { panic!("{data:?}") };
    *cell = Cell::expiring(timestamp, 630_000_000, expiry_s, cell.value.clone());
    mutation
}

/// Returns a write of a row and of a deletion of its partition, both at negative timestamps.
fn negative(wide: &TableMetadata) -> Mutation {
    let mut mutation = insert(wide, "b", Some(1), -10, &[("v", "old")]);
    mutation.updates[0].deletion = DeletionTime::new(-5, 1_750_000_000);
    mutation
}

/// Returns the rows at the last second before [`EXPIRY`].
async fn shown_before_expiry(database: &Node) -> Vec<String> {
    let wide = table(database, "wide");
    let all = ReadTarget::Range(KeyRange::full());
    let at_end = ReadCommand { now_s: EXPIRY - 1, ..command(&wide, all) };
    show(&wide, &database.read(at_end).await.unwrap())
}

/// The write is flushed before the change, or replayed from the log after it.
#[test]
fn a_ttl_accepted_under_da_survives_a_change_to_nb_or_mt() {
    // The later version, the SSTables before the compaction and the one after it.
    let cases = [
        ("nb", true, ["da-1-bti", "nb-2-big"], "oa-3-big"),
        ("nb", false, ["nb-2-big", "oa-1-big"], "oa-3-big"),
        ("mt", false, ["da-1-bti", "mt-2-big"], "da-3-bti"),
    ];
    for (version, is_flushed, written, compacted) in cases {
        let file_system = FileSystem::simulated(5);
        run(async {
            let database = open(&file_system, writing("da")).await.unwrap();
            create(&database, vec![wide_table()]).await;
            database.apply(late(&table(&database, "wide"), 10)).await.unwrap();
            if is_flushed {
                database.flush("ks", None).await.unwrap();
            }
        });
        run(async {
            let database = open(&file_system, writing(version)).await.unwrap();
            let wide = table(&database, "wide");
            let refused = database.apply(late(&wide, 20)).await.unwrap_err();
            assert!(matches!(refused, StorageError::ExpiryTooLate { .. }), "{refused}");
            database.flush("ks", None).await.unwrap();
            database.apply(insert(&wide, "a", Some(2), 10, &[("v", "y")])).await.unwrap();
            database.flush("ks", None).await.unwrap();
            assert_eq!(versions(&file_system).await, written);
            let shown = ["a/1 v=x", "a/2 v=y"];
            database.drop_caches().await;
            assert_eq!(shown_before_expiry(&database).await, shown);
            database.compactions().compact("ks", None, false).await.unwrap();
            database.drop_caches().await;
            assert_eq!(shown_before_expiry(&database).await, shown);
            assert_eq!(versions(&file_system).await, [compacted]);
        });
    }
}

/// Only versions with signed seconds have room for deletions at negative timestamps. A compaction
/// never moves an expiry after 2038 into such a version.
#[test]
fn a_compaction_shortens_no_ttl_for_a_negative_timestamp() {
    // The version of the first run (the second writes `da`), the flushed writes of both runs, and
    // the SSTables after the compaction. The compaction fails if no version can hold both writes.
    type Write<'a> = &'a dyn Fn(&TableMetadata) -> Mutation;
    let cell: Write<'_> = &|wide: &TableMetadata| insert(wide, "b", Some(1), -10, &[("v", "old")]);
    let at = |timestamp| move |wide: &TableMetadata| late(wide, timestamp);
    // The TTL is long, but ends in time for all versions.
    let with_long_ttl = |wide: &TableMetadata| {
        let mut mutation = negative(wide);
        mutation.updates.extend(expiring(wide, 10, 2_000_000_000).updates);
        mutation
    };
    let cases: [(&str, Write<'_>, Write<'_>, &[&str]); 5] = [
        ("da", cell, &at(-5), &["da-3-bti"]),
        ("nb", cell, &at(10), &["da-3-bti"]),
        ("nb", &negative, cell, &["nb-3-big"]),
        ("nb", &with_long_ttl, cell, &["nb-3-big"]),
        ("nb", &negative, &at(10), &["da-2-bti", "nb-1-big"]),
    ];
    for (version, first, second, expected) in cases {
        let file_system = FileSystem::simulated(4);
        run(async {
            let database = open(&file_system, writing(version)).await.unwrap();
            create(&database, vec![keeping_tombstones(wide_table())]).await;
            database.apply(first(&table(&database, "wide"))).await.unwrap();
            database.shutdown().await.unwrap();
        });
        run(async {
            let database = open(&file_system, writing("da")).await.unwrap();
            let wide = table(&database, "wide");
            database.apply(second(&wide)).await.unwrap();
            database.flush("ks", None).await.unwrap();
            let before = shown_before_expiry(&database).await;
            let compacted = database.compactions().compact("ks", None, false).await;
            assert_eq!(compacted.is_err(), expected.len() == 2, "{expected:?}: {compacted:?}");
            assert_eq!(versions(&file_system).await, expected);
            database.drop_caches().await;
            assert_eq!(shown_before_expiry(&database).await, before, "{expected:?}");
        });
    }
}

/// No version can store both, so the TTL ends in January 2038.
#[test]
fn a_compaction_to_nb_keeps_a_negative_deletion_beside_a_late_expiry() {
    let file_system = FileSystem::simulated(6);
    run(async {
        let database = open(&file_system, writing("nb")).await.unwrap();
        create(&database, vec![keeping_tombstones(wide_table())]).await;
        database.apply(negative(&table(&database, "wide"))).await.unwrap();
        database.flush("ks", None).await.unwrap();
        set_version(&database, "da").await;
        database.apply(late(&table(&database, "wide"), 10)).await.unwrap();
        database.flush("ks", None).await.unwrap();
        assert_eq!(versions(&file_system).await, ["da-2-bti", "nb-1-big"]);
        set_version(&database, "nb").await;
        database.compactions().compact("ks", None, false).await.unwrap();
        assert_eq!(versions(&file_system).await, ["nb-3-big"]);
        let covered = insert(&table(&database, "wide"), "b", Some(2), -10, &[("v", "old")]);
        database.apply(covered).await.unwrap();
        assert_eq!(shown(&database).await, ["a/1 v=x"]);
    });
}

/// Cells at negative timestamps fit into every version, unlike a late expiry.
#[test]
fn a_compaction_to_nb_shortens_no_ttl_for_a_cell_at_a_negative_timestamp() {
    let file_system = FileSystem::simulated(7);
    run(async {
        let database = open(&file_system, writing("nb")).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let cell = insert(&table(&database, "wide"), "b", Some(1), -10, &[("v", "old")]);
        database.apply(cell).await.unwrap();
        database.flush("ks", None).await.unwrap();
        set_version(&database, "da").await;
        database.apply(late(&table(&database, "wide"), 10)).await.unwrap();
        database.flush("ks", None).await.unwrap();
        assert_eq!(versions(&file_system).await, ["da-2-bti", "nb-1-big"]);
        let before = shown_before_expiry(&database).await;
        assert_eq!(before.len(), 2, "{before:?}");
        set_version(&database, "nb").await;
        database.compactions().compact("ks", None, false).await.unwrap();
        assert_eq!(versions(&file_system).await, ["oa-3-big"]);
        database.drop_caches().await;
        assert_eq!(shown_before_expiry(&database).await, before);
    });
}
