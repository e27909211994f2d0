//! A node of one shard in this process, without sockets: what the CQL layer and the engine do by themselves.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use espalier_cql::{
    ClientState, Now, Prepared, PreparedCache, QueryOptions, QueryProcessor, QueryResult, Value,
    Values,
};
use espalier_runtime::ShardContext;
use espalier_runtime::file::FileSystem;
use espalier_storage::{Database, SharedDatabase, StorageConfiguration};

use super::BenchError;

/// One shard over a directory of its own, which goes with it.
pub struct InProcessNode {
    database: Database,
    processor: QueryProcessor,
    client: ClientState,
    directory: PathBuf,
    row: RefCell<Vec<u8>>,
}

impl InProcessNode {
    /// Opens a new node in `directory`, which must not exist, with so many bytes for its memtables.
    pub async fn open(directory: &Path, memtable_bytes: usize) -> Result<Self, BenchError> {
        // It is removed in the end, with whatever is in it.
        if FileSystem::real().exists(directory).await? {
            return Err(BenchError::Exists(directory.to_owned()));
        }
        let mut configuration = StorageConfiguration::new(directory);
        configuration.memtable_bytes = memtable_bytes;
        // A measurement of memtables is over before it flushes.
        configuration.memtable_cleanup_threshold = 1.0;
        let context = ShardContext { index: 0, count: 1 };
        let shared = SharedDatabase::new();
        let database =
            Database::open(context, FileSystem::real(), Arc::new(configuration), shared).await?;
        let processor = QueryProcessor::new(database.clone(), Arc::new(PreparedCache::default()));
        let client = ClientState::default();
        let row = RefCell::default();
        Ok(Self { database, processor, client, directory: directory.to_owned(), row })
    }

    /// Executes a statement from its text.
    pub async fn query(&mut self, text: &str) -> Result<QueryResult, BenchError> {
        Ok(self.processor.query(text, &mut self.client, &QueryOptions::default()).await?)
    }

    /// Prepares a statement.
    pub fn prepare(&self, text: &str) -> Result<Arc<Prepared>, BenchError> {
        Ok(self.processor.prepare(text, &self.client)?)
    }

    /// Executes a prepared statement as a connection does; gives the number of rows.
    #[inline]
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        values: &[Value],
    ) -> Result<i32, BenchError> {
        let options =
            QueryOptions { values: Values::Positional(values), ..QueryOptions::default() };
        let now = {
            let mut row = self.row.borrow_mut();
            self.processor.execute_now(prepared, &self.client, &options, &mut row)
        };
        let result = match now {
            Now::Row { found } => return Ok(i32::from(found)),
            Now::Done(result) => result?,
            Now::AfterSync(ticket) => {
                ticket.await?;
                QueryResult::Void
            }
            Now::MustWait => self.processor.execute(prepared, &self.client, &options).await?,
        };
        Ok(match result {
            QueryResult::Rows(rows) => rows.row_count,
            _ => 0,
        })
    }

    /// The engine.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Stops it and removes its files.
    pub async fn close(self) -> Result<(), BenchError> {
        self.database.shutdown().await?;
        drop((self.processor, self.database));
        FileSystem::real().remove_dir_all(&self.directory).await.map_err(BenchError::from)
    }
}
