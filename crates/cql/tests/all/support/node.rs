//! A node of one shard on a given file system.

use std::sync::Arc;

use espalier_cql::{PreparedCache, QueryProcessor};
use espalier_runtime::{ShardContext, file::FileSystem};
use espalier_storage::{Database, SharedDatabase, StorageConfiguration};

/// Opens the data in `file_system`, or creates a new node there.
pub async fn open(file_system: &FileSystem) -> (Database, QueryProcessor) {
    let configuration = Arc::new(StorageConfiguration::new("node"));
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedDatabase::new();
    let database =
        Database::open(context, file_system.clone(), configuration, shared).await.unwrap();
    let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
    (database, processor)
}
