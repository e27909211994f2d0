//! A shard's store alone: without a node, a second shard or CQL.

#[allow(dead_code)]
#[path = "../../examples/embed.rs"]
mod embed;

use std::sync::Arc;

use espalier_runtime::{block_on, file::FileSystem};
use espalier_storage::{ShardStore, StorageError};

use crate::support::{configuration, create, narrow_table, open as open_node};

#[test]
fn a_store_alone_keeps_its_rows_when_it_is_opened_again() {
    let file_system = FileSystem::simulated(1);
    let rows = block_on(embed::embed(&file_system, "embedded".into())).unwrap();
    assert_eq!(rows, 2001);
}

#[test]
fn two_files_of_a_store_alone_become_one() {
    let file_system = FileSystem::simulated(2);
    block_on(async {
        let store = embed::open(&file_system, "embedded").await.unwrap();
        for at in 0..2 {
            embed::write(&store, 1, at).await.unwrap();
            store.flush().await.unwrap();
        }
        let files = store.metrics().sstables;
        store.compact(embed::table(&store).id).await.unwrap();
        assert_eq!((files, store.metrics().sstables), (2, 1));
        assert_eq!(embed::count(&store).await.unwrap(), 2);
    });
}

/// Acknowledged writes are in the log on disk, and the next start replays them.
#[test]
fn a_store_alone_replays_its_log_after_a_crash() {
    let file_system = FileSystem::simulated(3);
    block_on(async {
        let store = embed::open(&file_system, "embedded").await.unwrap();
        embed::write(&store, 1, 1).await.unwrap();
        store.flush().await.unwrap();
        for at in 2..10 {
            embed::write(&store, 1, at).await.unwrap();
        }
    });
    let file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(5));
    block_on(async {
        let store = embed::open(&file_system, "embedded").await.unwrap();
        assert_eq!(embed::count(&store).await.unwrap(), 9);
        assert_eq!(store.metrics().replayed, 8);
        store.close().await.unwrap();
        assert!(matches!(embed::write(&store, 1, 10).await, Err(StorageError::ShuttingDown)));
        let store = embed::open(&file_system, "embedded").await.unwrap();
        assert_eq!((embed::count(&store).await.unwrap(), store.metrics().replayed), (9, 0));
    });
}

/// The log of a node has writes of tables that the store does not know, and must keep them.
#[test]
fn a_store_alone_refuses_the_directory_of_a_node() {
    let file_system = FileSystem::simulated(4);
    block_on(async {
        let node = open_node(&file_system, configuration()).await.unwrap();
        create(&node, vec![narrow_table()]).await;
        node.shutdown().await.unwrap();
        let opened =
            ShardStore::open(file_system.clone(), Arc::new(configuration()), embed::schema()).await;
        assert!(matches!(opened, Err(StorageError::NotSupported(_))));
    });
}
