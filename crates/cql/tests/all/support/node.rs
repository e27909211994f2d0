//! A node of one shard on a given file system.

use std::sync::Arc;

use espalier_cql::{ClientState, PreparedCache, QueryOptions, QueryProcessor, QueryResult};
use espalier_runtime::{ShardContext, file::FileSystem};
use espalier_storage::{Node, SharedStorage, StorageConfiguration};

/// Opens the data in `file_system`, or creates a new node there.
pub async fn open(file_system: &FileSystem) -> (Node, QueryProcessor) {
    open_with(file_system, StorageConfiguration::new("node")).await
}

/// Opens a node as [`open`] does, creates the keyspace `ks`, and executes statements.
pub async fn open_with_keyspace(
    file_system: &FileSystem,
    statements: &[&str],
) -> (Node, QueryProcessor) {
    const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = \
        {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let (database, processor) = open(file_system).await;
    for statement in [KEYSPACE].iter().chain(statements) {
        execute(&processor, statement).await.unwrap();
    }
    (database, processor)
}

/// Opens a node with other settings.
pub async fn open_with(
    file_system: &FileSystem,
    configuration: StorageConfiguration,
) -> (Node, QueryProcessor) {
    let configuration = Arc::new(configuration);
    let context = ShardContext { index: 0, count: 1 };
    let shared = SharedStorage::new();
    let database = Node::open(context, file_system.clone(), configuration, shared).await.unwrap();
    let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
    (database, processor)
}

/// Executes a statement of a client without a keyspace. Returns only the message of an error.
pub async fn execute(processor: &QueryProcessor, statement: &str) -> Result<QueryResult, String> {
    let (mut client, options) = (ClientState::default(), QueryOptions::default());
    let answer = processor.query(statement, &mut client, &options).await;
    answer.map_err(|error| error.message)
}

/// Executes a query, page by page. Returns the number of its rows and their encoded values.
pub async fn rows(
    processor: &QueryProcessor,
    query: &str,
    page_size: Option<i32>,
) -> (i32, Vec<u8>) {
    let mut client = ClientState::default();
    let (mut state, mut count, mut content) = (None::<bytes::Bytes>, 0, Vec::new());
    loop {
        let paging_state = state.as_deref();
        let options = QueryOptions { page_size, paging_state, ..QueryOptions::default() };
        let answer = processor.query(query, &mut client, &options).await;
        let QueryResult::Rows(rows) = answer.unwrap() else { panic!("{query}: no rows") };
        count += rows.row_count;
        content.extend_from_slice(&rows.content);
        state = rows.paging_state;
        if state.is_none() {
            return (count, content);
        }
    }
}
