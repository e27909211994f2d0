//! The handle that cql and server hold: one for each shard; everything on it finds the owning shard by token itself.
//!
//! | module | what it does |
//! | --- | --- |
//! | `open`, `install`, `replay`, `shutdown` | start and end |
//! | `routing`, `registry` | which shard owns what, and how a call reaches it |
//! | `write`, `logged_batch`, `counters` | the write path: commit log and memtable |
//! | `read` | reads on this shard and over all of them |
//! | `virtual_tables`, `table_statistics` | what the node tells of itself as tables |
//! | `row_cache` | what is cached, from outside |
//! | `flush` | flushing on demand; the log's segments |
//! | `compaction` | compactions on demand, and what is told of them |
//! | `compaction_history` | those that are done |
//! | `throughput` | how much they may read |
//! | `scrub` | files that may be damaged, on demand |
//! | `schema_change`, `truncate`, `drop_table` | what all shards do together |

mod clear_snapshots;
mod compact;
mod compaction;
mod compaction_history;
mod counters;
mod drop_table;
mod first_failure;
mod flush;
mod import;
pub use compact::TokenRange;
pub use compaction_history::PastCompaction;
pub use first_failure::FirstFailure;
pub use import::Imported;
pub use look_ahead::LookAhead;
pub use orphans::Orphan;
pub use snapshots::{SnapshotDetails, SnapshotTable};
pub use table_statistics::TableStatistics;
pub use virtual_tables::{ClientSession, ConnectedClient};
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
mod sstables;
mod storable;
mod system_keyspaces;
mod table_statistics;
mod throughput;
mod truncate;
mod virtual_tables;
mod write;

use look_ahead::LookAheadBuffers;
use metrics::Counters;

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

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
    cache::RowCache,
    commitlog::{CommitLog, EncodedMutation, FoundSegment},
    compaction::Throughput,
    flush::{FlushEstimate, WritePace},
    memtable::{MemtableBudget, MemtableFactory},
    table::Table,
};

/// A database on one shard. Clones are the same handle; it stays on its thread.
#[derive(Clone)]
pub struct Database {
    inner: Rc<Inner>,
}

struct Inner {
    context: ShardContext,
    file_system: FileSystem,
    configuration: Arc<StorageConfiguration>,
    shared: Arc<SharedDatabase>,
    /// Set once, when the shard has read back what an earlier run has left.
    log: OnceCell<CommitLog>,
    /// On shard 0: the log of the schema tables.
    schema_log: OnceCell<CommitLog>,
    /// Segments that this shard has read last at the start.
    replaying: RefCell<Vec<FoundSegment>>,
    /// Of all shards; installed here when `tables` is what it says.
    schema: RefCell<Arc<Schema>>,
    tables: RefCell<HashMap<TableId, Rc<Table>, foldhash::fast::FixedState>>,
    budget: MemtableBudget,
    /// Flushes under way.
    flushing: Cell<usize>,
    /// Those who wait for one.
    awaiting_flush: Cell<usize>,
    flush_estimate: FlushEstimate,
    write_pace: WritePace,
    memtables: MemtableFactory,
    encoder: RefCell<EncodedMutation>,
    lookup_path: RefCell<Vec<u8>>,
    point_scratch: RefCell<PointScratch>,
    look_ahead: RefCell<LookAheadBuffers>,
    next_mapping: Cell<u32>,
    /// Memtables take more than they should, or the log does.
    flush_wanted: Notify,
    /// There may be more dead rows to learn of.
    dead_ranges_wanted: Notify,
    compaction_throughput: Throughput,
    /// There are files that there were not before.
    compaction_wanted: Notify,
    row_cache: RowCache,
    page_cache: PageCache,
    /// What the configured `sstable_format` can do, where a table has none of its own.
    default_sstable_features: &'static VersionFeatures,
    /// Shards other than 0: shard 0 is done with opening, and with what outcome.
    opened: Event,
    open_outcome: RefCell<Result<(), StorageError>>,
    is_closing: Cell<bool>,
    /// Whether flushes begin by themselves, and compactions.
    flushes: Cell<bool>,
    compacts: Cell<bool>,
    /// On shard 0: who changes the schema.
    schema_turn: Semaphore,
    /// Who notes what compactions have left nothing of.
    settled_turn: Semaphore,
    /// Who updates counters.
    counter_turn: Semaphore,
    /// Bytes of logged batches, and of notes of some, that are tried again.
    unfinished_batch_bytes: Cell<usize>,
    counters: Counters,
    /// Finds the clients of this shard, which are of the layer above.
    clients: OnceCell<Box<dyn Fn() -> Vec<ConnectedClient>>>,
}

impl Database {
    /// The schema on this shard: a snapshot.
    pub fn schema(&self) -> Arc<Schema> {
        self.inner.schema.borrow().clone()
    }

    /// Calls `look` with the schema on this shard, without taking a share of it.
    #[inline]
    pub fn with_schema<R>(&self, look: impl FnOnce(&Arc<Schema>) -> R) -> R {
        look(&self.inner.schema.borrow())
    }

    /// The settings.
    pub fn configuration(&self) -> &StorageConfiguration {
        &self.inner.configuration
    }

    /// The id of this node: goes into SSTables, and names its share of counters.
    pub fn host_id(&self) -> Uuid {
        self.inner.shared.host_id()
    }

    /// Which shard this is.
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
