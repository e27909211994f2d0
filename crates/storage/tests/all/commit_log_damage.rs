//! Tests damage in the commit log. A torn tail is the end of the log. A flipped bit in durable data
//! is an error that names segment and offset, or, by the operator's setting, the end of that
//! segment.

use std::{path::PathBuf, time::Duration};

use espalier_runtime::{
    file::FileSystem,
    time::{self, ManualClock},
};
use espalier_storage::{CommitLogError, ReplayPolicy, StorageError};

use crate::support::*;

const WRITES: i32 = 40;

/// Returns the disk of a node that wrote [`WRITES`] rows one by one, was idle for a moment, and was
/// killed.
fn killed_node() -> FileSystem {
    node_killed_after(time::sleep(Duration::from_millis(100)))
}

/// Returns the disk of a node that wrote [`WRITES`] rows one by one, and was killed when `idle` was
/// over.
fn node_killed_after(idle: impl Future<Output = ()>) -> FileSystem {
    // The clock moves only while the node waits, so the idle time does not end before its work.
    let _clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle().install();
    let file_system = FileSystem::simulated(5);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        for row in 0..WRITES {
            let mutation = insert(&narrow, &format!("{row}"), None, 1, &[("v", "value")]);
            database.apply(mutation).await.unwrap();
        }
        idle.await;
    });
    file_system
}

async fn segment(file_system: &FileSystem) -> PathBuf {
    let entries = file_system.read_dir("node/commitlog").await.unwrap();
    let mut found = None;
    for entry in entries.into_iter().filter(|entry| entry.name.starts_with("commitlog-0-")) {
        let content = file_system.read(&entry.path).await.unwrap();
        if content[100..200].iter().any(|byte| *byte != 0) {
            assert!(found.is_none(), "one segment is in use");
            found = Some(entry.path);
        }
    }
    found.unwrap()
}

async fn change(file_system: &FileSystem, path: &PathBuf, offset: usize, bytes: Vec<u8>) {
    let file = file_system.open_write(path).await.unwrap();
    file.write_at(offset as u64, bytes).await.unwrap();
}

/// Returns the offset after the last byte that is not zero.
fn end_of(content: &[u8]) -> usize {
    content.len() - content.iter().rev().position(|byte| *byte != 0).unwrap()
}

#[test]
fn any_flipped_bit_of_an_acknowledged_write_is_reported_with_its_place() {
    let original = killed_node();
    run(async {
        let path = segment(&original).await;
        let content = original.read(&path).await.unwrap();
        let end = end_of(&content);
        // Nothing depends on the closing marker itself.
        for offset in (32..end - 29).step_by(37) {
            let bit = 1 << (offset % 8);
            let file_system = FileSystem::on(original.simulated_disk().unwrap().crash(1));
            change(&file_system, &path, 0, content.clone()).await;
            change(&file_system, &path, offset, vec![content[offset] ^ bit]).await;
            let error = open(&file_system, configuration()).await.err();
            let Some(StorageError::CommitLog(error)) = error else {
                panic!("bit {bit} of byte {offset} of {end} went unseen: {error:?}");
            };
            let CommitLogError::Corrupt { path: named, offset: at, .. } = error else {
                panic!("bit {bit} of byte {offset} of {end} went unseen: {error:?}");
            };
            assert_eq!(named, path);
            assert!(at <= offset as u64 && offset as u64 <= at + 4000, "{at} for {offset}");
        }
    });
}

/// The last segment of a run has no closing marker, and its last write is damaged. A prepared,
/// unused segment follows it. The first marker of the segment that the next run writes shows that
/// the log was durable up to the end of the damaged segment.
#[test]
fn damage_at_the_end_of_a_run_is_reported_after_the_next_run() {
    let original = node_killed_after(async {});
    run(async {
        let path = segment(&original).await;
        let file_system = FileSystem::on(original.simulated_disk().unwrap().crash(1));
        let content = file_system.read(&path).await.unwrap();
        let database = open(&file_system, configuration()).await.unwrap();
        write_narrow(&database, &["later"]).await;
        assert_eq!(names_in_narrow(&database).await.len(), WRITES as usize + 1);
        let file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(2));
        let last = end_of(&content) - 5;
        change(&file_system, &path, last, vec![content[last] ^ 1]).await;
        let error = open(&file_system, configuration()).await.err();
        let Some(StorageError::CommitLog(CommitLogError::Corrupt { path: named, .. })) = error
        else {
            panic!("the damage went unseen: {error:?}");
        };
        assert_eq!(named, path);
    });
}

#[test]
fn the_log_does_not_fill_with_unused_segments_of_killed_runs() {
    let file_system = killed_node();
    for _ in 0..12 {
        run(async {
            // The node prepares a segment, and is killed before it uses the segment.
            let _database = open(&file_system, configuration()).await.unwrap();
            time::sleep(Duration::from_millis(100)).await;
        });
    }
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![wide_table()]).await;
        let narrow = table(&database, "narrow");
        let mutation = insert(&narrow, "after", None, 1, &[("v", "value")]);
        database.apply(mutation).await.unwrap();
    });
}

#[test]
fn the_operator_can_go_on_without_the_rest_of_a_damaged_segment() {
    let file_system = killed_node();
    run(async {
        let path = segment(&file_system).await;
        let content = file_system.read(&path).await.unwrap();
        let middle = end_of(&content) / 2;
        change(&file_system, &path, middle, vec![content[middle] ^ 1]).await;
        let mut configuration = configuration();
        configuration.commit_log.failure_policy = ReplayPolicy::Ignore;
        let database = open(&file_system, configuration).await.unwrap();
        let narrow = table(&database, "narrow");
        let rows = read_all(&database, &narrow).await.partitions.len();
        assert!((5..WRITES as usize).contains(&rows), "{rows} rows");
    });
}

#[test]
fn a_torn_tail_ends_the_replay() {
    let original = killed_node();
    run(async {
        let path = segment(&original).await;
        let content = original.read(&path).await.unwrap();
        let end = end_of(&content);
        // The cut removes the marker and the end of the last write's record, as if that write was
        // never durable.
        for keep in (end - 29 - 60..end - 29).step_by(7) {
            let file_system = FileSystem::on(original.simulated_disk().unwrap().crash(1));
            let mut torn = content.clone();
            torn[keep..].fill(0);
            change(&file_system, &path, 0, torn).await;
            let database = open(&file_system, configuration()).await.unwrap();
            let narrow = table(&database, "narrow");
            let rows = read_all(&database, &narrow).await.partitions.len();
            assert!(rows + 1 >= WRITES as usize, "{rows} rows after a cut at {keep} of {end}");
        }
    });
}

#[test]
fn a_lost_first_sector_is_damage() {
    let file_system = killed_node();
    run(async {
        let path = segment(&file_system).await;
        change(&file_system, &path, 0, vec![0; 512]).await;
        let error = open(&file_system, configuration()).await.err().unwrap().to_string();
        assert!(error.contains("its header is damaged, but it has records"), "{error}");
        assert!(file_system.read(&path).await.is_ok(), "the file stays");
    });
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let file_system = killed_node();
    run(async {
        let path = segment(&file_system).await;
        let mut header = file_system.read(&path).await.unwrap()[..32].to_vec();
        header[8] = 9;
        let crc = crc32fast::hash(&header[..28]);
        header[28..].copy_from_slice(&crc.to_le_bytes());
        change(&file_system, &path, 0, header).await;
        let error = open(&file_system, configuration()).await.err().unwrap().to_string();
        assert!(error.contains("version 9 is not known"), "{error}");
    });
}
