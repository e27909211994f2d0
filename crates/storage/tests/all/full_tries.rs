//! A trie has a maximum size, even if there is more memory. A memtable is flushed before its trie
//! reaches this size, also during a replay of the commit log. These tests set a small maximum.

use espalier_mutation::schema::TableMetadata;
use espalier_runtime::file::FileSystem;
use espalier_storage::{Node, StorageConfiguration};

use crate::support::*;

const TRIE_BYTES: u64 = 256 << 10;
/// Several times the rows that fit into a trie.
pub const ROWS: usize = 12_000;

pub fn near() -> StorageConfiguration {
    let mut configuration = configuration();
    configuration.memtables.trie_bytes = TRIE_BYTES as usize;
    configuration
}

/// Writes all rows. Returns the maximum size of the memtable.
pub async fn write(database: &Node, narrow: &TableMetadata) -> u64 {
    let mut most = 0;
    for number in 0..ROWS {
        let mutation = insert(narrow, &number.to_string(), None, 1, &[("v", "x")]);
        database.apply(mutation).await.unwrap();
        let memory = database.store().memtable_memory("ks", "narrow").unwrap();
        most = most.max(memory.structure_bytes + memory.content_bytes);
    }
    most
}

#[test]
pub fn a_memtable_is_flushed_before_its_trie_is_full() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, near()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let narrow = table(&database, "narrow");
        let flushes = database.store().metrics().flushes.done;
        let most = write(&database, &narrow).await;
        // More than half: with a trie of 4 GiB that is more than 2 GiB.
        assert!(most > TRIE_BYTES / 2 && most < TRIE_BYTES, "{most} bytes");
        assert!(database.store().metrics().flushes.done >= flushes + 3);
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), ROWS);
        database.shutdown().await.unwrap();
    });
}

#[test]
pub fn replay_flushes_before_a_trie_is_full() {
    let file_system = FileSystem::simulated(1);
    run(async {
        let database = open(&file_system, configuration()).await.unwrap();
        create(&database, vec![narrow_table()]).await;
        let most = write(&database, &table(&database, "narrow")).await;
        assert!(most > 2 * TRIE_BYTES, "{most} bytes");
        // The node stops here, without a flush.
    });
    run(async {
        let database = open(&file_system, near()).await.unwrap();
        let narrow = table(&database, "narrow");
        assert!(database.store().metrics().flushes.done >= 2);
        assert_eq!(read_all(&database, &narrow).await.partitions.len(), ROWS);
        database.shutdown().await.unwrap();
    });
}
