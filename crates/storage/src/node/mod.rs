//! A [`Node`] is the handle to the storage engine that `cql` and `server` hold, one for each shard.
//! It routes calls between the shards' stores ([`crate::ShardStore`]).
//!
//! The work of several shards together is grouped into types by topic ([`Snapshots`],
//! [`Compactions`] and others). They are handles to the node, created where they are used.
//!
//! | module | what it does |
//! | --- | --- |
//! | `open`, `replay`, `shutdown` | start and end |
//! | `routing`, `registry` | calls to other shards |
//! | `peers` | calls of a store's background work to the other shards |
//! | `write`, `logged_batch`, `batch_rows` | writes of several shards |
//! | `turns`, `turn_calls`, `counters` | writes that read rows first |
//! | `read`, `visit` | reads on this shard, on another one, and over all |
//! | `views` | materialized views |
//! | `virtual_tables`, `table_statistics` | the node's state as tables |
//! | `system_keyspaces` | the system keyspaces in the schema tables |
//! | `row_cache` | maintenance of the row caches |
//! | `flush`, `compact`, `scrub` | flushes, compactions and scrubs on demand |
//! | `compaction` | stopping, enabling, limiting, reporting compactions |
//! | `compaction_history` | finished compactions |
//! | `indexes` | records of built secondary indexes |
//! | `record_times` | timestamps of the records of builds |
//! | `schema_change`, `truncate`, `drop_table` | operations of all shards together |
//! | `schema_merge` | the schema of a ring's other nodes |
//! | `snapshots`, `clear_snapshots`, `restore`, `import`, `orphans` | files of tables |

mod batch_rows;
mod clear_snapshots;
mod compact;
mod compaction;
mod compaction_history;
mod counters;
mod drop_table;
mod flush;
mod import;
mod indexes;
mod logged_batch;
mod open;
mod orphans;
mod peers;
mod read;
mod record_times;
mod registry;
mod replay;
mod restore;
mod routing;
mod row_cache;
mod schema_change;
mod schema_merge;
mod scrub;
mod shutdown;
mod snapshots;
mod system_keyspaces;
mod table_statistics;
mod truncate;
mod turn_calls;
mod turns;
mod views;
mod virtual_tables;
mod visit;
mod write;

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use espalier_mutation::schema::Schema;
use espalier_runtime::sync::{Event, Semaphore};

pub use compact::{Compactions, TokenRange};
pub use compaction_history::PastCompaction;
pub use import::Imported;
pub use logged_batch::Batches;
pub use orphans::{Orphan, Orphans};
pub use schema_merge::SchemaMerge;
pub use snapshots::{SnapshotDetails, SnapshotTable, Snapshots};
pub use table_statistics::{FilterSizes, MemtableSizes, PartitionSizes, TableStatistics};
pub use views::ViewBuilds;
pub use virtual_tables::{ClientEncryption, ClientSession, ConnectedClient};

use crate::{ShardStore, StorageError, shard::FoundTables};
use peers::NodePeers;
use turn_calls::MAX_TURN_CALLS;
use views::ViewWork;

/// A node on one shard. Clones are the same handle, which stays on its thread.
#[derive(Clone)]
pub struct Node {
    inner: Rc<Inner>,
}

struct Inner {
    store: Rc<ShardStore>,
    /// On shards other than 0: set when shard 0 has finished opening; `open_outcome` holds the
    /// result.
    opened: Event,
    open_outcome: RefCell<Result<(), StorageError>>,
    /// On shard 0: held by a schema change, a truncation, or work on the files of tables, such as a
    /// snapshot, one at a time.
    schema_lock: Semaphore,
    /// On shard 0: held by an import, one at a time.
    import_lock: Semaphore,
    /// Plans and builds of materialized views.
    views: ViewWork,
    /// On shard 0: the newest timestamp in µs of the records of builds.
    newest_record_us: Cell<i64>,
    /// Limits the calls from this shard that wait for turns on other shards (`turn_calls`).
    turn_calls: Semaphore,
    /// Bytes of logged batches that are retried or whose callers are gone, and of retried removals
    /// from `system.batches`.
    unfinished_batch_bytes: Cell<usize>,
    /// Lists the clients of this shard; set by the server, which is the layer above.
    clients: OnceCell<Box<dyn Fn() -> Vec<ConnectedClient>>>,
}

impl Node {
    fn of_store(store: ShardStore) -> Self {
        let inner = Inner {
            store: Rc::new(store),
            opened: Event::new(),
            open_outcome: RefCell::new(Ok(())),
            schema_lock: Semaphore::new(1),
            import_lock: Semaphore::new(1),
            views: ViewWork::default(),
            newest_record_us: Cell::default(),
            turn_calls: Semaphore::new(MAX_TURN_CALLS),
            unfinished_batch_bytes: Cell::default(),
            clients: OnceCell::new(),
        };
        let node = Self { inner: Rc::new(inner) };
        node.store().set_peers(NodePeers::of(&node));
        node
    }

    /// Returns the store of this shard.
    #[inline]
    pub fn store(&self) -> &Rc<ShardStore> {
        &self.inner.store
    }

    /// Returns the used percentage of the disk with the data, rounded up.
    ///
    /// # Errors
    /// Fails if the data directory cannot be looked up.
    pub async fn disk_usage_percentage(&self) -> Result<u8, StorageError> {
        let store = self.store();
        Ok(store.file_system.used_percentage(&store.configuration.data_directory).await?)
    }

    /// Installs a schema snapshot on this shard, as [`ShardStore::install`] does.
    async fn install_schema(
        &self,
        schema: &Arc<Schema>,
        found: &FoundTables,
    ) -> Result<(), StorageError> {
        self.store().install(schema, found).await?;
        self.inner.views.plans.borrow_mut().clear();
        Ok(())
    }
}
