//! Imports and snapshots do not leave the data directory by symbolic links or by names.
#![allow(clippy::disallowed_methods, reason = "links are made between the steps of the node")]

use std::{os::unix::fs::symlink, path::Path};

use espalier_runtime::file::FileSystem;
use espalier_storage::{Node, SnapshotTable, StorageConfiguration, StorageError};

use crate::support::*;

async fn node(place: &Path) -> Node {
    let mut configuration = StorageConfiguration::new(place.join("node"));
    configuration.memtables.bytes = 8 << 20;
    configuration.caches.page_cache_bytes = 8 << 20;
    configuration.caches.row_cache_bytes = 0;
    configuration.autocompaction = false;
    let database = open(&FileSystem::real(), configuration).await.unwrap();
    create(&database, vec![narrow_table()]).await;
    write_narrow(&database, &["one"]).await;
    database.flush("ks", None).await.unwrap();
    database
}

fn directory_of_table(place: &Path) -> std::path::PathBuf {
    std::fs::read_dir(place.join("node/data/ks")).unwrap().next().unwrap().unwrap().path()
}

async fn take(database: &Node, tag: &str) -> Result<(), StorageError> {
    let id = table(database, "narrow").id;
    let wanted = SnapshotTable { id, describe: |_, _| "CREATE TABLE".into() };
    database.snapshots().take(tag.into(), vec![wanted], true).await
}

#[test]
fn an_import_takes_no_file_through_a_link() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let database = node(place.path()).await;
        let (own, foreign) = (directory_of_table(place.path()), place.path().join("foreign"));
        std::fs::create_dir(&foreign).unwrap();
        for entry in std::fs::read_dir(&own).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_file() {
                symlink(entry.path(), foreign.join(entry.file_name())).unwrap();
            }
        }
        let error = database.import("ks", "narrow", Some(foreign.clone())).await.unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        let linked = place.path().join("linked");
        symlink(&own, &linked).unwrap();
        let error = database.import("ks", "narrow", Some(linked)).await.unwrap_err();
        assert!(error.to_string().contains("linked is a symbolic link"), "{error}");
        // An import of `upload` refuses a single link among regular files, too.
        let upload = own.join("upload");
        std::fs::create_dir(&upload).unwrap();
        for (index, entry) in std::fs::read_dir(&foreign).unwrap().enumerate() {
            let entry = entry.unwrap();
            let to = upload.join(entry.file_name());
            if index == 0 {
                symlink(entry.path(), to).unwrap();
            } else {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
        let error = database.import("ks", "narrow", None).await.unwrap_err();
        assert!(error.to_string().contains("is a symbolic link"), "{error}");
        assert_eq!(names_in_narrow(&database).await, ["one"]);
    });
}

#[test]
fn snapshots_stay_below_their_table() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let database = node(place.path()).await;
        for name in ["", ".", "..", "../../x", "a/b", "/tmp/x", "a\0b"] {
            assert!(take(&database, name).await.is_err(), "{name:?}");
            assert!(database.snapshots().restore("ks", "narrow", name).await.is_err(), "{name:?}");
            let cleared = database.snapshots().clear(Some(name), &[], &[]).await;
            assert!(cleared.is_err(), "{name:?}");
        }
        take(&database, "true").await.unwrap();
        // A tag that is a link is no snapshot.
        let snapshots = directory_of_table(place.path()).join("snapshots");
        let elsewhere = place.path().join("elsewhere");
        std::fs::rename(snapshots.join("true"), &elsewhere).unwrap();
        symlink(&elsewhere, snapshots.join("linked")).unwrap();
        assert_eq!(database.snapshots().list().await.unwrap(), []);
        assert!(database.snapshots().restore("ks", "narrow", "linked").await.is_err());
        assert!(database.snapshots().clear(Some("linked"), &[], &[]).await.is_err());
        database.snapshots().clear(None, &[], &[]).await.unwrap();
        assert!(elsewhere.join("manifest.json").is_file());
        // If the directory of the snapshots is a link, the node does not follow it.
        std::fs::remove_file(snapshots.join("linked")).unwrap();
        std::fs::remove_dir(&snapshots).unwrap();
        let away = place.path().join("away");
        std::fs::create_dir(&away).unwrap();
        std::fs::rename(&elsewhere, away.join("true")).unwrap();
        symlink(&away, &snapshots).unwrap();
        assert_eq!(database.snapshots().list().await.unwrap(), []);
        assert!(database.snapshots().restore("ks", "narrow", "true").await.is_err());
        assert!(take(&database, "new").await.unwrap_err().to_string().contains("symbolic link"));
        database.snapshots().clear(None, &[], &[]).await.unwrap();
        assert!(away.join("true/manifest.json").is_file());
        assert!(!away.join("new").exists());
    });
}
