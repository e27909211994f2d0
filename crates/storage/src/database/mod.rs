//! The handle to the storage engine that `cql` and `server` hold, one for each shard. Its methods
//! find the shard that owns a partition by token.
//!
//! | module | what it does |
//! | --- | --- |
//! | `open`, `install`, `replay`, `shutdown` | start and end |
//! | `routing`, `registry` | the shard that owns a token, and calls to it |
//! | `write`, `logged_batch` | the write path: commit log and memtable |
//! | `storable`, `index_room` | checks before a write is logged |
//! | `turns`, `turn_calls`, `turn_deadline`, `counters` | writes that read rows first |
//! | `read` | reads on this shard and over all of them |
//! | `virtual_tables`, `table_statistics` | the node's state as tables |
//! | `row_cache` | metrics and maintenance of the row cache |
//! | `flush` | flushes on demand; segments of the commit log |
//! | `compaction` | stopping, enabling, reporting compactions |
//! | `compaction_room`, `split_parts` | disk space for compactions, parts of split files |
//! | `compaction_history` | finished compactions |
//! | `throughput` | limit of compaction reads |
//! | `scrub` | scrubs on demand, for files that may be damaged |
//! | `schema_change`, `truncate`, `drop_table` | operations of all shards together |

mod clear_snapshots;
mod compact;
mod compaction;
mod compaction_history;
mod compaction_room;
mod counters;
mod drop_table;
mod first_failure;
mod flush;
mod import;
mod index_room;
mod indexes;
pub use compact::TokenRange;
pub use compaction_history::PastCompaction;
pub use first_failure::FirstFailure;
pub use import::Imported;
pub use look_ahead::LookAhead;
pub use orphans::Orphan;
pub use snapshots::{SnapshotDetails, SnapshotTable};
pub use table_statistics::TableStatistics;
pub use turn_deadline::TurnDeadline;
pub use virtual_tables::{ClientEncryption, ClientSession, ConnectedClient};
mod install;
mod logged_batch;
mod look_ahead;
mod metrics;
mod one_file;
mod open;
mod orphans;
mod read;
mod registry;
mod replay;
mod restore;
mod routing;
mod row_cache;
mod schema_change;
mod scrub;
mod shutdown;
mod snapshots;
mod split_parts;
mod sstables;
mod storable;
mod system_keyspaces;
mod table_statistics;
mod throughput;
mod truncate;
mod turn_calls;
mod turn_deadline;
mod turns;
mod views;
mod virtual_tables;
mod visit;
mod write;

use look_ahead::LookAheadBuffers;
use metrics::Counters;
use views::ViewWork;

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use espalier_cache::RowCache;
use espalier_commitlog::{CommitLog, EncodedMutation, FoundSegment};
use espalier_compaction::Throughput;
use espalier_memtable::{MemtableBudget, MemtableFactory};
use espalier_mutation::schema::{Schema, TableId};
use espalier_runtime::{
    ShardContext,
    file::FileSystem,
    sync::{Event, Notify, Semaphore},
};
use espalier_sstable::{PageCache, PointScratch, versions::VersionFeatures};
use hashbrown::HashMap;
use uuid::Uuid;

use crate::{
    SharedDatabase, StorageConfiguration, StorageError,
    flush::{FlushEstimate, WritePace},
    table::Table,
    turns::Turns,
};

/// A database on one shard. Clones are the same handle, which stays on its thread.
#[derive(Clone)]
pub struct Database {
    inner: Rc<Inner>,
}

struct Inner {
    context: ShardContext,
    file_system: FileSystem,
    configuration: Arc<StorageConfiguration>,
    shared: Arc<SharedDatabase>,
    /// Set once, when the shard has replayed the segments of an earlier run.
    log: OnceCell<CommitLog>,
    /// On shard 0: the log of the schema tables.
    schema_log: OnceCell<CommitLog>,
    /// Segments that this shard replays, or has replayed, at this start.
    replaying: RefCell<Vec<FoundSegment>>,
    /// The schema that all shards share. It is replaced here when `tables` agrees with the new one.
    schema: RefCell<Arc<Schema>>,
    tables: RefCell<HashMap<TableId, Rc<Table>, foldhash::fast::FixedState>>,
    budget: MemtableBudget,
    /// Number of flushes under way.
    flushing: Cell<usize>,
    /// Number of tasks that wait for a flush.
    awaiting_flush: Cell<usize>,
    flush_estimate: FlushEstimate,
    write_pace: WritePace,
    memtables: MemtableFactory,
    encoder: RefCell<EncodedMutation>,
    lookup_path: RefCell<Vec<u8>>,
    point_scratch: RefCell<PointScratch>,
    look_ahead: RefCell<LookAheadBuffers>,
    next_mapping: Cell<u32>,
    /// Notified when memtables or the commit log exceed their limits.
    flush_wanted: Notify,
    /// Wakes the task that builds the entries of secondary indexes.
    index_wanted: Notify,
    /// On shard 0: wakes the task that builds materialized views.
    view_build_wanted: Notify,
    /// Plans and builds of materialized views.
    views: ViewWork,
    /// Notified when there may be more dead rows to record in the empty-range caches.
    empty_ranges_queued: Notify,
    compaction_throughput: Throughput,
    /// Notified when there are new SSTables.
    compaction_wanted: Notify,
    row_cache: RowCache,
    page_cache: PageCache,
    /// Features of the configured `sstable_format`, for tables without one of their own.
    default_sstable_features: &'static VersionFeatures,
    /// On shards other than 0: set when shard 0 has finished opening; `open_outcome` holds the
    /// result.
    opened: Event,
    open_outcome: RefCell<Result<(), StorageError>>,
    is_closing: Cell<bool>,
    /// True if flushes start automatically.
    flushes: Cell<bool>,
    /// True if compactions start automatically.
    compacts: Cell<bool>,
    /// On shard 0: held by the schema change under way.
    schema_lock: Semaphore,
    /// Held by the compaction that writes discarded intervals.
    discarded_lock: Semaphore,
    /// The statements under way that read rows before they write them.
    turns: Turns,
    /// Units of calls to other shards that may wait for a turn.
    turn_calls: Semaphore,
    /// Bytes of logged batches that are being retried, and of retried removals from
    /// `system.batches`.
    unfinished_batch_bytes: Cell<usize>,
    counters: Counters,
    /// Lists the clients of this shard; set by the server, which is the layer above.
    clients: OnceCell<Box<dyn Fn() -> Vec<ConnectedClient>>>,
}

impl Database {
    /// Returns a snapshot of the schema on this shard.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema.borrow().clone()
    }

    /// Calls `look` with the schema on this shard, without cloning the `Arc`.
    #[inline]
    pub fn with_schema<R>(&self, look: impl FnOnce(&Arc<Schema>) -> R) -> R {
        look(&self.inner.schema.borrow())
    }

    /// Returns the storage settings.
    pub fn configuration(&self) -> &StorageConfiguration {
        &self.inner.configuration
    }

    /// Returns the id of this node, which SSTables carry and which names its share of counters.
    pub fn host_id(&self) -> Uuid {
        self.inner.shared.host_id()
    }

    /// Returns the number of this shard, with the number of shards.
    pub fn shard(&self) -> ShardContext {
        self.inner.context
    }

    fn table(&self, id: TableId) -> Result<Rc<Table>, StorageError> {
        self.inner.tables.borrow().get(&id).cloned().ok_or(StorageError::UnknownTable(id))
    }

    fn next_mapping_number(&self) -> u32 {
        let number = self.inner.next_mapping.get();
        self.inner.next_mapping.set(number + 1);
        number
    }
}
