//! Tests the log's lines, and the recovery from damaged logs.

use super::*;

/// Checks the form of the lines, which is Cassandra's, and that the parser reads them back.
#[test]
fn lines_round_trip() {
    let remove = Record {
        kind: Kind::Remove,
        path: "/data/ks/t-1234/da-12-bti".into(),
        modified_ms: 1_700_000_000_123,
        files: 9,
    };
    let text = remove.to_line() + &Record::end(Kind::Commit).to_line();
    assert!(text.starts_with("REMOVE:[/data/ks/t-1234/da-12-bti,1700000000123,9]["));
    assert!(text.contains("\nCOMMIT:[,0,0]["), "{text}");
    let records = parse(text.as_bytes()).unwrap().records;
    assert_eq!(records, [remove.clone(), Record::end(Kind::Commit)]);
    let descriptor = remove.descriptor(Path::new("/elsewhere")).unwrap();
    assert_eq!(descriptor.directory, Path::new("/elsewhere"));
    assert_eq!(descriptor.to_string(), "da-12-bti");
}

#[test]
fn every_torn_end_is_that_of_a_log_without_it() {
    let add = Record { kind: Kind::Add, path: "/t/da-1-bti".into(), modified_ms: 0, files: 0 };
    let (whole, commit) = (add.to_line(), Record::end(Kind::Commit).to_line());
    for length in 0..commit.len() - 1 {
        let torn = whole.clone() + &commit[..length];
        assert_eq!(parse(torn.as_bytes()).unwrap().records, std::slice::from_ref(&add), "{length}");
    }
    // The newline is not part of the record.
    let torn = whole.clone() + commit.trim_end();
    assert_eq!(parse(torn.as_bytes()).unwrap().records.len(), 2);
}

#[test]
fn damage_counts_before_a_commit_alone() {
    let set = |kind, number| {
        let path = format!("/t/da-{number}-bti");
        Record { kind, path, modified_ms: 0, files: 0 }.to_line()
    };
    let add = set(Kind::Add, 9);
    let removed = [1, 2, 3].map(|number| set(Kind::Remove, number));
    let (first, third) = (&removed[0], &removed[2]);
    let commit = Record::end(Kind::Commit).to_line();
    // The removals are one write; the second removal did not reach the disk.
    let torn = format!("{add}{first}\0\0\0\n{third}");
    assert_eq!(parse(torn.as_bytes()).unwrap().records.len(), 3);
    let error = parse(format!("{torn}{commit}").as_bytes()).err().unwrap();
    assert!(error.starts_with("line 3 is not a record"), "{error}");
    // A failed commit is followed by an abort that reaches the disk, and by one that does not.
    let (whole, abort) = (format!("{add}{first}{commit}"), Record::end(Kind::Abort).to_line());
    let last = |text: String| parse(text.as_bytes()).unwrap().records.pop().unwrap().kind;
    assert_eq!(last(format!("{whole}{abort}")), Kind::Abort);
    assert_eq!(last(format!("{whole}{}", &abort[..7])), Kind::Commit);
    assert_eq!(last(format!("{add}{first}COMM\n{abort}")), Kind::Abort);
}

/// Cassandra looks for the files at this path, wherever it was started.
#[test]
fn paths_are_absolute() {
    let path = Path::new("data/ks/t-1/da-1-bti-Data.db");
    let (descriptor, _) = Descriptor::parse(path).unwrap();
    let path = Transaction::path_of(&descriptor);
    assert!(path.starts_with('/') && path.ends_with("/data/ks/t-1/da-1-bti"), "{path}");
}

/// An operator has restored a copy of files that a compaction had replaced, and left the log.
#[test]
fn recovery_keeps_files_younger_than_their_log_records() {
    for younger in [false, true] {
        let file_system = FileSystem::simulated(1);
        espalier_runtime::block_on(async {
            let directory = Path::new("/data/ks/t-1");
            file_system.create_dir_all(directory).await.unwrap();
            let data = directory.join("da-5-bti-Data.db");
            for name in ["da-5-bti-Data.db", "da-5-bti-TOC.txt"] {
                file_system.create(directory.join(name)).await.unwrap();
            }
            let (descriptor, _) = Descriptor::parse(&data).unwrap();
            let files = files_found(&file_system, &descriptor).await.unwrap();
            let modified_ms = youngest_ms(&files) - i64::from(younger);
            let path = "/data/ks/t-1/da-5-bti".into();
            let remove = Record { kind: Kind::Remove, path, modified_ms, files: 2 };
            let text = remove.to_line() + &Record::end(Kind::Commit).to_line();
            let log = directory.join("da_txn_compaction_1.log");
            file_system.create(&log).await.unwrap().append(text.into_bytes()).await.unwrap();
            recover(&file_system, directory).await.unwrap();
            assert_eq!(file_system.exists(&data).await.unwrap(), younger);
            assert!(!file_system.exists(&log).await.unwrap());
        });
    }
}

/// If the COMMIT is unreadable and a file of a replaced set is gone, the output may be the only
/// copy.
#[test]
fn a_damaged_log_is_undone_only_if_its_inputs_are_complete() {
    for is_whole in [false, true] {
        let file_system = FileSystem::simulated(1);
        espalier_runtime::block_on(async {
            let directory = Path::new("/t");
            file_system.create_dir_all(directory).await.unwrap();
            for name in ["da-5-bti-Data.db", "da-6-bti-Data.db", "da-6-bti-TOC.txt"] {
                file_system.create(directory.join(name)).await.unwrap();
            }
            let line = |kind, number, files| {
                let path = format!("/t/da-{number}-bti");
                Record { kind, path, modified_ms: i64::MAX, files }.to_line()
            };
            let removed = line(Kind::Remove, 5, 2 - i32::from(is_whole));
            let text = format!("{}{removed}COMMOT:[,0,0][1]\n", line(Kind::Add, 6, 0));
            let log = directory.join("da_txn_compaction_1.log");
            file_system.create(&log).await.unwrap().append(text.into_bytes()).await.unwrap();
            let recovered = recover(&file_system, directory).await;
            let output = directory.join("da-6-bti-Data.db");
            assert_eq!(file_system.exists(&output).await.unwrap(), !is_whole);
            if is_whole {
                recovered.unwrap()
            } else {
                let error = recovered.unwrap_err().to_string();
                let expected = "line 3 is not a record: COMMOT:[,0,0][1]; compaction input \
                da-5-bti has 1 of 2 files";
                assert!(error.ends_with(expected), "{error}");
            }
        });
    }
}

#[test]
fn ids_are_timeuuids() {
    let id = compaction_id();
    assert_eq!(id.get_version_num(), 1);
    assert_ne!(id, compaction_id());
}
