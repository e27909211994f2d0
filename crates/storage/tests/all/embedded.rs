//! Tests a shard's store alone: without a node, a second shard or CQL.

#[allow(dead_code)]
#[path = "../../examples/embed.rs"]
mod embed;

use std::{rc::Rc, sync::Arc, time::Duration};

use espalier_mutation::schema::{Schema, TableBuilder, TableId};
use espalier_runtime::{
    block_on,
    file::{DirectoryLock, FileSystem},
    time::{self, ManualClock},
};
use espalier_storage::{DIRECTORY_LOCK, ShardStore, StorageConfiguration, StorageError};
use espalier_types::CqlType;
use uuid::Uuid;

use crate::support::{NOW, configuration, create, narrow_table, open as open_node};

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
        assert_eq!(store.metrics().writes.replayed, 8);
        store.close().await.unwrap();
        assert!(matches!(embed::write(&store, 1, 10).await, Err(StorageError::ShuttingDown)));
        let store = embed::open(&file_system, "embedded").await.unwrap();
        assert_eq!((embed::count(&store).await.unwrap(), store.metrics().writes.replayed), (9, 0));
    });
}

/// The log of a node has writes of tables that the store does not know, and these writes must not
/// be lost. Before the first flush, only the log of the schema shows that a node has used the
/// directory.
#[test]
fn a_store_alone_refuses_the_directory_of_a_node() {
    for crashes in [false, true] {
        let mut file_system = FileSystem::simulated(4);
        block_on(async {
            let node = open_node(&file_system, configuration()).await.unwrap();
            create(&node, vec![narrow_table()]).await;
            if !crashes {
                node.shutdown().await.unwrap();
            }
        });
        if crashes {
            file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(5));
            assert!(!block_on(file_system.exists("node/data/system_schema")).unwrap());
        }
        let opened =
            ShardStore::open(file_system.clone(), Arc::new(configuration()), embed::schema());
        assert!(matches!(block_on(opened), Err(StorageError::NotSupported(_))));
        block_on(async {
            let node = open_node(&file_system, configuration()).await.unwrap();
            assert!(node.store().schema().table_by_id(narrow_table().id).is_some());
        });
    }
}

/// Returns a schema with another table in place of the one that the tests write to.
fn schema_of(add: impl FnOnce(TableBuilder) -> TableBuilder) -> Schema {
    let known = embed::schema();
    let mut keyspace = (**known.keyspace("app").unwrap()).clone();
    let builder = TableBuilder::new("app", "others", TableId(Uuid::from_u128(0x07e2)));
    let table = add(builder.partition_key("key", CqlType::Int)).build();
    keyspace.tables = [(table.name.clone(), Arc::new(table))].into();
    Schema::new([("app".into(), Arc::new(keyspace))].into(), Uuid::nil())
}

/// Nothing proves that the table was dropped, so its writes must stay in the log.
#[test]
fn a_store_alone_refuses_a_log_with_writes_of_an_unknown_table() {
    let file_system = FileSystem::simulated(6);
    block_on(async {
        let store = embed::open(&file_system, "embedded").await.unwrap();
        embed::write(&store, 1, 1).await.unwrap();
    });
    let file_system = FileSystem::on(file_system.simulated_disk().unwrap().crash(7));
    let _clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle().install();
    block_on(async {
        let configuration = Arc::new(StorageConfiguration::new("embedded"));
        let schema = schema_of(|builder| builder);
        let opened = ShardStore::open(file_system.clone(), configuration.clone(), schema);
        let error = opened.await.err().unwrap().to_string();
        assert!(
            error.contains(&embed::schema().tables().next().unwrap().id.to_string()),
            "{error}"
        );
        // The tasks of the failed store have ended, and the store is freed.
        time::sleep(Duration::from_secs(2)).await;
        assert_eq!(Arc::strong_count(&configuration), 1);
        let store = embed::open(&file_system, "embedded").await.unwrap();
        assert_eq!(embed::count(&store).await.unwrap(), 1);
        store.close().await.unwrap();
    });
}

#[test]
fn a_closed_store_is_freed() {
    let _clock = ManualClock::new(i64::from(NOW) * 1_000_000).moving_when_idle().install();
    block_on(async {
        let store = embed::open(&FileSystem::simulated(8), "embedded").await.unwrap();
        embed::write(&store, 1, 1).await.unwrap();
        embed::count(&store).await.unwrap();
        let weak = Rc::downgrade(&store);
        store.close().await.unwrap();
        drop(store);
        time::sleep(Duration::from_secs(2)).await;
        assert!(weak.upgrade().is_none());
    });
}

#[test]
fn one_store_at_a_time_has_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let file_system = FileSystem::real();
    block_on(async {
        let store = embed::open(&file_system, place.path()).await.unwrap();
        let second = embed::open(&file_system, place.path()).await;
        assert!(matches!(second, Err(StorageError::InUse { holder: Some(_), .. })));
        store.close().await.unwrap();
        // A failed start releases the locks too.
        let host_id = place.path().join("data/host_id");
        file_system.write_atomically(host_id.clone(), "damaged").await.unwrap();
        assert!(embed::open(&file_system, place.path()).await.is_err());
        file_system.remove_file(&host_id).await.unwrap();
        embed::open(&file_system, place.path()).await.unwrap().close().await.unwrap();
        // A node holds the same lock.
        let node = DirectoryLock::acquire(&place.path().join("commitlog"), DIRECTORY_LOCK).unwrap();
        let beside = embed::open(&file_system, place.path()).await;
        assert!(matches!(beside, Err(StorageError::InUse { .. })));
        drop(node);
    });
}

#[test]
fn a_store_alone_refuses_views() {
    let file_system = FileSystem::simulated(9);
    let schema = schema_of(|builder| builder.views(vec!["by_value".into()]));
    let configuration = Arc::new(StorageConfiguration::new("embedded"));
    let opened = block_on(ShardStore::open(file_system.clone(), configuration, schema));
    assert!(matches!(opened, Err(StorageError::NotSupported(_))));
    assert!(!block_on(file_system.exists("embedded")).unwrap());
}
