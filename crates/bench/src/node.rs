//! A node in this process, without sockets, so that only the CQL layer and the engine are measured.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use espalier_cql::{
    APPLIED, ClientState, Now, Prepared, PreparedCache, QueryOptions, QueryProcessor, QueryResult,
    Rows, Value, Values,
};
use espalier_runtime::ShardContext;
use espalier_runtime::file::FileSystem;
use espalier_storage::{
    MemtableKind, Node, SharedStorage, StorageConfiguration, StorageError, Structure,
};

use super::BenchError;

/// Names of the memtable configurations that tables of this node may use.
pub const KINDS: [&str; 4] = ["trie", "skiplist", "sharded_trie", "sharded_skiplist"];

/// Number of parts into which the sharded kinds divide the tokens (arbitrary).
const SHARDS: usize = 8;

/// The outcome of a read of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No row.
    Nothing,
    /// The expected row.
    Expected,
    /// Something else.
    Other,
}

impl Found {
    #[inline]
    fn compare(row: &[u8], expected: &[u8]) -> Self {
        if row == expected { Found::Expected } else { Found::Other }
    }
}

/// One shard of a node, over files that [`InProcessNode::close`] removes.
pub struct InProcessNode {
    database: Node,
    processor: QueryProcessor,
    client: ClientState,
    directory: PathBuf,
    row: RefCell<Vec<u8>>,
}

impl InProcessNode {
    /// Opens a new node in `directory`, which must not exist, with `memtable_bytes` bytes for its
    /// memtables.
    pub async fn open(directory: &Path, memtable_bytes: usize) -> Result<Self, BenchError> {
        Self::open_with(directory, |configuration| configuration.memtables.bytes = memtable_bytes)
            .await
    }

    /// Opens a new node in `directory`, which must not exist, with changed settings.
    pub async fn open_with(
        directory: &Path,
        change: impl FnOnce(&mut StorageConfiguration),
    ) -> Result<Self, BenchError> {
        // The directory is removed at the end, with everything in it.
        if FileSystem::real().exists(directory).await? {
            return Err(BenchError::Exists(directory.to_owned()));
        }
        let mut configuration = StorageConfiguration::new(directory);
        // No flush begins by itself before the memtables have filled their memory.
        configuration.memtables.cleanup_threshold = 1.0;
        change(&mut configuration);
        for (name, structure) in KINDS.into_iter().zip([
            Structure::Trie,
            Structure::SkipList,
            Structure::Trie,
            Structure::SkipList,
        ]) {
            let shards = if name.starts_with("sharded") { SHARDS } else { 1 };
            configuration.memtables.configurations.set(name, MemtableKind { structure, shards });
        }
        let context = ShardContext { index: 0, count: 1 };
        let statements = Arc::new(PreparedCache::default());
        let shared = SharedStorage::new();
        let node = Self::open_shard(context, Arc::new(configuration), shared, statements).await?;
        Ok(Self { directory: directory.to_owned(), ..node })
    }

    /// Opens one shard of several, or the only one. [`InProcessNode::close`] then removes only the
    /// data directory; the caller must remove other directories.
    pub async fn open_shard(
        context: ShardContext,
        configuration: Arc<StorageConfiguration>,
        shared: Arc<SharedStorage>,
        statements: Arc<PreparedCache>,
    ) -> Result<Self, BenchError> {
        let directory = configuration.data_directory.clone();
        let database = Node::open(context, FileSystem::real(), configuration, shared).await?;
        let processor = QueryProcessor::new(database.clone(), statements);
        let client = ClientState::default();
        Ok(Self { database, processor, client, directory, row: RefCell::default() })
    }

    /// Executes a statement from its text.
    pub async fn query(&self, text: &str) -> Result<QueryResult, BenchError> {
        let mut client = self.client.clone();
        let options = QueryOptions::default();
        Ok(Box::pin(self.processor.query(text, &mut client, &options)).await?)
    }

    /// Prepares a statement.
    pub fn prepare(&self, text: &str) -> Result<Arc<Prepared>, BenchError> {
        Ok(self.processor.prepare(text, &self.client)?)
    }

    /// Announces the next executions of a statement to the node, as a connection does with requests
    /// that have arrived together.
    pub fn look_ahead<'a>(
        &self,
        prepared: &'a Arc<Prepared>,
        executions: impl ExactSizeIterator<Item = &'a [Value]>,
    ) {
        if executions.len() > 1 {
            let requests: Vec<_> =
                executions.map(|values| (&**prepared, Values::Positional(values))).collect();
            self.processor.look_ahead(&requests);
        }
    }

    /// Executes a prepared write as a connection does.
    #[inline]
    pub async fn write(
        &self,
        prepared: &Arc<Prepared>,
        values: &[Value],
    ) -> Result<(), BenchError> {
        let options =
            QueryOptions { values: Values::Positional(values), ..QueryOptions::default() };
        let now = {
            let mut row = self.row.borrow_mut();
            self.processor.execute_now(prepared, &self.client, &options, &mut row)
        };
        match now {
            Now::Row { .. } => {}
            Now::Done(result) => return check_applied(&result?),
            Now::AfterSync(ticket, _) => {
                ticket.await.map_err(StorageError::from)?;
            }
            Now::MustWait => return check_applied(&self.wait_for(prepared, &options).await?),
        }
        Ok(())
    }

    /// Reads one row as a connection does and compares it with `expected`, which is in the
    /// protocol's form.
    #[inline]
    pub async fn read(
        &self,
        prepared: &Arc<Prepared>,
        values: &[Value],
        expected: &[u8],
    ) -> Result<Found, BenchError> {
        let options =
            QueryOptions { values: Values::Positional(values), ..QueryOptions::default() };
        let result = {
            let mut row = self.row.borrow_mut();
            match self.processor.execute_now(prepared, &self.client, &options, &mut row) {
                Now::Row { found: false } => return Ok(Found::Nothing),
                Now::Row { found: true } => return Ok(Found::compare(&row, expected)),
                Now::Done(result) => Some(result?),
                Now::AfterSync(..) => return Ok(Found::Other),
                Now::MustWait => None,
            }
        };
        let result = match result {
            Some(result) => result,
            None => self.wait_for(prepared, &options).await?,
        };
        Ok(match result {
            QueryResult::Rows(rows) if rows.row_count == 0 => Found::Nothing,
            QueryResult::Rows(rows) if rows.row_count == 1 => {
                Found::compare(&rows.content, expected)
            }
            _ => Found::Other,
        })
    }

    /// Reads a page of rows.
    #[inline]
    pub async fn page(
        &self,
        prepared: &Arc<Prepared>,
        values: &[Value],
        page_rows: i32,
        paging_state: Option<&[u8]>,
    ) -> Result<Rows, BenchError> {
        let options = QueryOptions {
            values: Values::Positional(values),
            page_size: Some(page_rows),
            paging_state,
            ..QueryOptions::default()
        };
        match self.wait_for(prepared, &options).await? {
            QueryResult::Rows(rows) => Ok(rows),
            other => Err(BenchError::Wrong(format!("a SELECT gave {other:?}"))),
        }
    }

    /// Executes a statement that may wait. Boxed, because the future of `execute` is large.
    fn wait_for<'a>(
        &'a self,
        prepared: &'a Arc<Prepared>,
        options: &'a QueryOptions<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<QueryResult, BenchError>> + 'a>> {
        Box::pin(async move {
            self.processor.execute(prepared, &self.client, options).await.map_err(BenchError::from)
        })
    }

    /// Returns the directory of the node's files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the engine.
    pub fn database(&self) -> &Node {
        &self.database
    }

    /// Stops the node and removes its files, unless another reference to the node is left.
    pub async fn close_shared(node: Rc<Self>) -> Result<(), BenchError> {
        match Rc::into_inner(node) {
            Some(node) => node.close().await,
            None => Ok(()),
        }
    }

    /// Stops the node and removes its files.
    pub async fn close(self) -> Result<(), BenchError> {
        self.database.shutdown().await?;
        drop((self.processor, self.database));
        FileSystem::real().remove_dir_all(&self.directory).await.map_err(BenchError::from)
    }
}

/// Checks that a write with a condition was applied.
fn check_applied(result: &QueryResult) -> Result<(), BenchError> {
    match result {
        QueryResult::Rows(rows) if rows.content != APPLIED => {
            Err(BenchError::Wrong("a conditional write was not applied".to_owned()))
        }
        _ => Ok(()),
    }
}
