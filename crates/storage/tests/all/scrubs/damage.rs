//! Damaged files, and the data that a scrub loses by the damage.

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::{
    FileSystem, Operation,
    simulated::{Effect, Fault},
};
use espalier_storage::{ScrubMode, StorageConfiguration};

use super::*;
use crate::compactions_go_on::wait_for;

fn check_damaged_chunk(version: &str, compression: &[(&str, &str)]) {
    let file_system = FileSystem::simulated(11);
    let mut settings = configuration();
    settings.sstables.format = version.into();
    let kept = run(async {
        let database = open(&file_system, settings.clone()).await.unwrap();
        fill(&database, compression).await;
        let wide = table(&database, "wide");
        // The row cache holds all rows from here on.
        let whole = show(&wide, &read_all(&database, &wide).await);
        let (chunk_length, extents) = extents(&file_system, &wide).await;
        assert_eq!(extents.len(), 301);
        damage(&file_system, &wide, "Data.db").await;
        let before = contents(&file_system, &wide).await;

        let found = scrub(&database, "wide", ScrubMode::Validate).await.unwrap();
        assert_eq!((found.sstables, found.damaged_sstables), (1, 1), "{found:?}");
        assert_eq!((found.left_out_partitions, found.is_stopped), (0, false));
        let failure = scrub(&database, "wide", ScrubMode::Abort).await.unwrap_err().to_string();
        assert_eq!(contents(&file_system, &wide).await, before);
        assert!(snapshots(&file_system, &wide).await.is_empty());

        // Everything that lies in the chunk is lost, and nothing else.
        let from = offset_of(&failure);
        assert_eq!(from % chunk_length, 0, "{failure}");
        let is_hit = |(start, end): &(u64, u64)| *start < from + chunk_length && *end > from;
        let lost: Vec<(&String, &(u64, u64))> =
            extents.iter().filter(|(_, extent)| is_hit(extent)).collect();
        assert!(!lost.is_empty() && lost.len() < 301, "{lost:?}");
        for (name, (start, end)) in &lost {
            let place = format!("from byte {start} to {end}");
            let fault = found.faults.iter().find(|fault| fault.ends_with(&place));
            let fault = fault.unwrap_or_else(|| panic!("{name} {place}: {:?}", found.faults));
            let token = key(name).token.0;
            let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            let is_named = fault.contains(&format!("with key 0x{hex}, token {token}"));
            let bounds = fault.split_once("token from ").and_then(|(_, rest)| {
                let (first, rest) = rest.split_once(" to ")?;
                let (last, _) = rest.split_once(',')?;
                Some((first.parse::<i64>().unwrap(), last.parse::<i64>().unwrap()))
            });
            let is_bounded = bounds.is_some_and(|(first, last)| (first..=last).contains(&token));
            assert!(is_named || is_bounded, "{name}, token {token}: {fault}");
        }
        let first = lost.iter().map(|(_, extent)| **extent).min().unwrap();
        assert!(failure.contains(&format!("from byte {} to {}", first.0, first.1)), "{failure}");
        assert!(failure.contains(&format!("{version}-1-")), "{failure}");

        let skipped = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
        assert_eq!(skipped.left_out_partitions, lost.len() as u64, "{skipped:?}");
        assert_eq!((skipped.sstables, skipped.damaged_sstables), (1, 1));
        let is_lost = |name: &str| lost.iter().any(|(lost, _)| *lost == name);
        let kept: Vec<String> =
            whole.iter().filter(|line| !is_lost(name_of(line))).cloned().collect();
        assert!(kept.len() > 400 && kept.len() < whole.len());
        assert_eq!(show(&wide, &read_all(&database, &wide).await), kept);

        let snapshots = snapshots(&file_system, &wide).await;
        assert!(snapshots.len() == 1 && snapshots[0].starts_with("pre-scrub-"), "{snapshots:?}");
        let snapshot = table_directory(&wide).join("snapshots").join(&snapshots[0]);
        for (name, bytes) in before.iter().filter(|(name, _)| name.starts_with(version)) {
            assert_eq!(file_system.read(snapshot.join(name)).await.unwrap(), *bytes, "{name}");
        }
        // The remaining files are sound.
        for mode in [ScrubMode::Validate, ScrubMode::Abort] {
            let after = scrub(&database, "wide", mode).await.unwrap();
            assert_eq!(after.faults, Vec::<String>::new(), "{mode:?}");
        }
        assert_eq!(show(&wide, &read_all(&database, &wide).await), kept);
        database.shutdown().await.unwrap();
        kept
    });
    run(async {
        let database = open(&file_system, settings).await.unwrap();
        let wide = table(&database, "wide");
        assert_eq!(show(&wide, &read_all(&database, &wide).await), kept);
    });
}

#[test]
fn a_scrub_loses_only_the_rows_in_a_damaged_chunk() {
    for version in ["da", "oa", "nb", "me", "mt"] {
        check_damaged_chunk(version, LZ4);
    }
}

#[test]
fn a_damaged_chunk_of_a_table_that_is_not_compressed() {
    for version in ["da", "nb"] {
        check_damaged_chunk(version, &[("enabled", "false")]);
    }
}

/// Changes an uncompressed Data.db together with the checksums of its chunks. The table is not
/// open.
async fn forge(file_system: &FileSystem, table: &TableMetadata, change: impl FnOnce(&mut [u8])) {
    let set = only_set(file_system, table).await;
    let path = |component: &str| table_directory(table).join(format!("{set}-{component}"));
    let mut bytes = file_system.read(path("Data.db")).await.unwrap();
    change(&mut bytes);
    let mut checksums = 4096u32.to_be_bytes().to_vec();
    for chunk in bytes.chunks(4096) {
        checksums.extend(crc32fast::hash(chunk).to_be_bytes());
    }
    for (component, bytes) in [("Data.db", bytes), ("CRC.db", checksums)] {
        let file = file_system.open_write(path(component)).await.unwrap();
        assert_eq!(file.length().await.unwrap(), bytes.len() as u64);
        file.write_at(0, bytes).await.unwrap();
    }
    // Cassandra's files have no Checksums.db.
    file_system.remove_file(path("Checksums.db")).await.unwrap();
    let toc = String::from_utf8(file_system.read(path("TOC.txt")).await.unwrap()).unwrap();
    let toc = toc.replace("Checksums.db\n", "");
    file_system.write_atomically(path("TOC.txt"), toc).await.unwrap();
}

fn find(bytes: &[u8], within: (u64, u64), wanted: &[u8]) -> usize {
    let (start, end) = (within.0 as usize, within.1 as usize);
    let at = bytes[start..end].windows(wanted.len()).position(|window| window == wanted);
    start + at.unwrap()
}

/// Tests a key that differs from the index, rows out of order, and a partition without its end.
#[test]
fn a_scrub_finds_damage_under_valid_checksums() {
    for version in ["da", "nb"] {
        let file_system = FileSystem::simulated(16);
        let mut settings = configuration();
        settings.sstables.format = version.into();
        let (whole, extents) = run(async {
            let database = open(&file_system, settings.clone()).await.unwrap();
            fill(&database, &[("enabled", "false")]).await;
            let wide = table(&database, "wide");
            let whole = show(&wide, &read_all(&database, &wide).await);
            let (_, extents) = extents(&file_system, &wide).await;
            database.shutdown().await.unwrap();
            forge(&file_system, &wide, |bytes| {
                let at = find(bytes, extents["p100"], b"p100");
                bytes[at..at + 4].copy_from_slice(b"p999");
                let at = find(bytes, extents["p150"], &[0, 0, 0, 0, 1]);
                bytes[at + 1] = 0x80;
                bytes[extents["p200"].1 as usize - 1] = 0x04;
            })
            .await;
            (whole, extents)
        });
        run(async {
            let database = open(&file_system, settings.clone()).await.unwrap();
            let wide = table(&database, "wide");
            let found = scrub(&database, "wide", ScrubMode::Validate).await.unwrap();
            let skipped = scrub(&database, "wide", ScrubMode::Skip).await.unwrap();
            assert_eq!(skipped.left_out_partitions, 3, "{skipped:?}");
            for (name, what) in [
                ("p100", "another partition than the index says"),
                ("p150", "a row or marker is out of clustering order"),
                ("p200", ""),
            ] {
                let (start, end) = extents[name];
                let place = format!("from byte {start} to {end}");
                for faults in [&found.faults, &skipped.faults] {
                    let is_reported =
                        |fault: &&String| fault.contains(&place) && fault.contains(what);
                    assert!(faults.iter().any(|fault| is_reported(&fault)), "{name}: {faults:?}");
                }
            }
            let is_lost = |line: &String| ["p100", "p150", "p200"].contains(&name_of(line));
            let kept: Vec<String> = whole.iter().filter(|line| !is_lost(line)).cloned().collect();
            assert_eq!(show(&wide, &read_all(&database, &wide).await), kept, "{version}");
        });
    }
}

/// Without the index the partitions cannot be found.
#[test]
fn a_damaged_index_leaves_the_file_as_it_is() {
    for (version, component) in [("da", "Partitions.db"), ("oa", "Index.db")] {
        let file_system = FileSystem::simulated(12);
        let mut settings = configuration();
        settings.sstables.format = version.into();
        run(async {
            let database = open(&file_system, settings.clone()).await.unwrap();
            fill(&database, LZ4).await;
            database.shutdown().await.unwrap();
        });
        run(async {
            let database = open(&file_system, settings).await.unwrap();
            let wide = table(&database, "wide");
            damage(&file_system, &wide, component).await;
            let before = contents(&file_system, &wide).await;
            for mode in [ScrubMode::Abort, ScrubMode::Skip] {
                // A cached page of the index would hide the damage.
                database.drop_caches().await;
                let failure = scrub(&database, "wide", mode).await.unwrap_err().to_string();
                assert!(failure.contains(component), "{mode:?}: {failure}");
                assert_eq!(contents(&file_system, &wide).await, before, "{mode:?}");
            }
            let found = scrub(&database, "wide", ScrubMode::Validate).await.unwrap();
            assert!(found.faults.iter().any(|fault| fault.contains(component)), "{found:?}");
            assert_eq!(contents(&file_system, &wide).await, before);
        });
    }
}

/// Data that the disk does not return may be readable later, so it is not given up.
#[test]
fn a_disk_that_does_not_read_loses_nothing() {
    let file_system = FileSystem::simulated(13);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        fill(&database, LZ4).await;
        let wide = table(&database, "wide");
        let whole = show(&wide, &read_all(&database, &wide).await);
        let set = only_set(&file_system, &wide).await;
        for mode in [ScrubMode::Skip, ScrubMode::Abort, ScrubMode::Validate] {
            disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path("-Data.db"));
            assert!(scrub(&database, "wide", mode).await.is_err(), "{mode:?}");
            disk.clear_faults();
            assert_eq!(only_set(&file_system, &wide).await, set);
        }
        database.drop_caches().await;
        assert_eq!(show(&wide, &read_all(&database, &wide).await), whole);
    });
}

/// An operation on several tables finishes the others before it reports that one table could not be
/// read.
#[test]
fn a_table_that_is_not_read_does_not_keep_the_others_from_their_turn() {
    let file_system = FileSystem::simulated(14);
    let disk = file_system.simulated_disk().unwrap().clone();
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table(), wide_table()]).await;
        let tables = [table(&database, "narrow"), table(&database, "wide")];
        let [narrow, wide] = &tables;
        database.apply(insert(narrow, "a", None, 1, &[("v", "x")])).await.unwrap();
        database.apply(insert(wide, "a", Some(1), 1, &[("v", "x")])).await.unwrap();
        database.flush("ks", None).await.unwrap();
        let describe = |_: &_, _: &_| "CREATE TABLE".into();
        let all = || tables.iter().map(|table| SnapshotTable { id: table.id, describe }).collect();
        for (unread, other) in [(narrow, wide), (wide, narrow)] {
            for work in ["scrub", "upgrade", "compact"] {
                let before =
                    (only_set(&file_system, unread).await, only_set(&file_system, other).await);
                database.drop_caches().await;
                let path = format!("{}/", unread.directory_name());
                disk.inject(Fault::always(Operation::Read, Effect::InputOutput).on_path(&path));
                let done = match work {
                    "scrub" => database
                        .compactions()
                        .scrub(all(), ScrubMode::Skip, false)
                        .await
                        .map(|_| ()),
                    "upgrade" => database.compactions().upgrade_sstables("ks", None, false).await,
                    _ => database.compactions().compact("ks", None, true).await,
                };
                disk.clear_faults();
                assert!(done.is_err(), "{work}");
                assert_eq!(only_set(&file_system, unread).await, before.0, "{work}");
                assert_ne!(only_set(&file_system, other).await, before.1, "{work}");
            }
        }
    });
}

/// An output that cannot be written is reported without blame, because any input may be the cause.
/// Other compactions continue without these inputs.
#[test]
fn compactions_go_on_without_files_whose_rows_cannot_be_written() {
    let file_system = FileSystem::simulated(18);
    let of_two = [("class", "SizeTieredCompactionStrategy"), ("min_threshold", "2")];
    let write = async |database: &Node| {
        let wide = table(database, "wide");
        for clustering in 0..20 {
            let row = insert(&wide, "other", Some(clustering), 2, &[("v", "x")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
    };
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        let mut wide = wide_table();
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        wide.options = TableOptions {
            compression: pairs(&[("enabled", "false")]),
            compaction: pairs(&of_two),
            ..TableOptions::default()
        };
        create(&database, vec![wide]).await;
        let wide = table(&database, "wide");
        for clustering in 0..20 {
            let row = insert(&wide, "p", Some(clustering), 1, &[("v", "x")]);
            database.apply(row).await.unwrap();
        }
        database.flush("ks", None).await.unwrap();
        database.shutdown().await.unwrap();
        let (_, extents) = extents(&file_system, &wide).await;
        forge(&file_system, &wide, |bytes| {
            let at = find(bytes, extents["p"], &[0, 0, 0, 0, 7]);
            bytes[at + 1] = 0x80;
        })
        .await;
    });
    run(async {
        let settings = StorageConfiguration { autocompaction: true, ..configuration() };
        let database = open(&file_system, settings).await.unwrap();
        let wide = table(&database, "wide");
        write(&database).await;
        wait_for(&database, 0, 1).await;
        write(&database).await;
        write(&database).await;
        wait_for(&database, 1, 1).await;
        let names = sstable_names(&file_system, &wide).await;
        assert_eq!(names.len(), 3, "the two that were left out, and one: {names:?}");
    });
}
