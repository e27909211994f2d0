//! A shard's store: the commit log, tables, memory and caches of one shard, and the state of its
//! background work. The modules above (`flush`, `compaction`, `engine`) do this work.
//!
//! | module | contents |
//! | --- | --- |
//! | `routing` | the partitions that the shard owns |
//! | `tables` | the tables and the schema that they have |
//! | `logs` | the commit log, and on the first shard the log of the schema |
//! | `memtables` | the memory of memtables, and the flushes that free it |
//! | `flush_estimate`, `write_pace` | the speed of flushes, and the throttling of writes to it |
//! | `caches` | the row cache and the page cache |
//! | `counters` | the counts that metrics report |
//! | `write`, `storable`, `index_room`, `index_steps` | the write path: commit log and memtable |
//! | `read`, `row_lookup`, `look_ahead` | reads of the shard's partitions |
//! | `turns` | timestamps and log state for the holder of a turn |
//! | `install`, `replay` | the schema and the logs at the start |
//! | `sstables` | names and opens SSTables |
//! | `peers`, `split_parts` | the rest of the node, and files that several shards share |

mod caches;
mod counters;
mod flush_estimate;
mod index_room;
mod index_steps;
mod install;
mod logs;
mod look_ahead;
mod memtables;
mod peers;
mod read;
mod replay;
mod routing;
mod row_lookup;
pub(crate) mod split_parts;
mod sstables;
mod storable;
mod tables;
mod turns;
mod write;
mod write_pace;

use std::{
    cell::{Cell, OnceCell, RefCell},
    sync::Arc,
};

use espalier_cache::RowCache;
use espalier_commitlog::EncodedMutation;
use espalier_compaction::{CompactionBacklog, Throughput};
use espalier_mutation::schema::Schema;
use espalier_runtime::{
    ShardContext,
    file::{DirectoryLock, FileSystem},
    sync::Notify,
    time::Instant,
};
use espalier_sstable::{PointScratch, versions::Version};
use uuid::Uuid;

pub(crate) use caches::keep_memory_split;
pub(crate) use counters::{Counters, add};
pub(crate) use flush_estimate::FlushProgress;
pub(crate) use index_room::check_index_entries;
pub(crate) use install::{FoundTable, FoundTables};
pub(crate) use logs::{Logs, open_log};
pub use look_ahead::LookAhead;
pub(crate) use memtables::Memtables;
pub(crate) use peers::Peers;
pub(crate) use replay::{apply_replayed, recover_tables, replay};
pub use routing::Routing;
pub use row_lookup::RowLookup;
pub(crate) use storable::check_storable;
pub(crate) use tables::Tables;
pub(crate) use turns::{newest_of, newest_of_row, timestamp_of};
pub(crate) use write::Completeness;
pub use write::LogCheck;
pub(crate) use write_pace::run as run_write_pace;

use crate::{SharedStorage, StorageConfiguration, StorageError, turns::Turns};
use caches::Caches;
use look_ahead::LookAheadBuffers;

/// The store of one shard.
pub struct ShardStore {
    pub(crate) routing: Routing,
    pub(crate) file_system: FileSystem,
    pub(crate) configuration: Arc<StorageConfiguration>,
    /// The state that all shards of the node share.
    pub(crate) shared: Arc<SharedStorage>,
    pub(crate) tables: Tables,
    pub(crate) logs: Logs,
    pub(crate) memtables: Memtables,
    pub(crate) caches: Caches,
    pub(crate) compactions: CompactionControl,
    pub(crate) buffers: Buffers,
    /// The statements under way that read rows before they write them.
    pub(crate) turns: Turns,
    pub(crate) wakers: Wakers,
    pub(crate) counters: Counters,
    pub(crate) life: Life,
    /// The rest of the node; unset if the store is used alone.
    peers: OnceCell<Box<dyn Peers>>,
}

/// The control of a shard's compactions.
pub(crate) struct CompactionControl {
    pub(crate) throughput: Throughput,
    /// True if compactions start automatically.
    pub(crate) are_started: Cell<bool>,
    /// Number of requests to stop the running compactions.
    pub(crate) stop_requests: Cell<u64>,
    /// The backlog as last determined for the shares of compactions, and when.
    pub(crate) backlog: Cell<Option<(Instant, CompactionBacklog)>>,
}

impl CompactionControl {
    /// Counts a stop request and returns its number.
    pub(crate) fn count_stop_request(&self) -> u64 {
        self.stop_requests.set(self.stop_requests.get() + 1);
        self.stop_requests.get()
    }
}

/// The end of a store, and the locks that it holds until then.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) is_closing: Cell<bool>,
    /// The locks of the directories of a store that is used alone.
    pub(crate) locks: RefCell<Vec<DirectoryLock>>,
}

/// Memory that reads and writes reuse.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) encoder: RefCell<EncodedMutation>,
    pub(crate) lookup_path: RefCell<Vec<u8>>,
    pub(crate) point_scratch: RefCell<PointScratch>,
    pub(crate) look_ahead: RefCell<LookAheadBuffers>,
}

/// Wakes the background tasks of a shard.
#[derive(Default)]
pub(crate) struct Wakers {
    /// Notified when flushes may be needed or have room, and when the store closes.
    pub(crate) flush: Notify,
    /// Notified when there may be something to compact, such as new SSTables, and when the store
    /// closes.
    pub(crate) compaction: Notify,
    /// Notified when SSTables may lack entries of secondary indexes.
    pub(crate) indexes: Notify,
    /// Notified when there may be more dead rows to record in the empty-range caches.
    pub(crate) empty_ranges: Notify,
}

impl ShardStore {
    /// Creates the store of a shard without tables and logs.
    pub(crate) fn unopened(
        context: ShardContext,
        file_system: FileSystem,
        configuration: Arc<StorageConfiguration>,
        shared: Arc<SharedStorage>,
    ) -> Result<Self, StorageError> {
        let sstable_features = Version::named(&configuration.sstables.format)
            .ok_or(StorageError::NotSupported("the configured sstable_format"))?;
        let memtables = Memtables::new(context, &configuration);
        shared.record_thread();
        Ok(Self {
            routing: Routing { context },
            tables: Tables::new(shared.schema(), sstable_features),
            logs: Logs::default(),
            caches: Caches::new(context, &configuration, &memtables.budget),
            memtables,
            compactions: CompactionControl {
                throughput: Throughput::new(configuration.compaction_bytes_per_second),
                are_started: Cell::new(false),
                stop_requests: Cell::new(0),
                backlog: Cell::new(None),
            },
            buffers: Buffers::default(),
            turns: Turns::default(),
            wakers: Wakers::default(),
            counters: Counters::default(),
            life: Life::default(),
            peers: OnceCell::new(),
            file_system,
            configuration,
            shared,
        })
    }

    /// Returns a snapshot of the schema on this shard.
    pub fn schema(&self) -> Arc<Schema> {
        self.tables.schema.borrow().clone()
    }

    /// Calls `look` with the schema on this shard, without cloning the `Arc`.
    #[inline]
    pub fn with_schema<R>(&self, look: impl FnOnce(&Arc<Schema>) -> R) -> R {
        look(&self.tables.schema.borrow())
    }

    /// Returns the storage settings.
    pub fn configuration(&self) -> &StorageConfiguration {
        &self.configuration
    }

    /// Returns the file system of the node.
    pub fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    /// Returns the id of this node, which SSTables carry and which names its share of counters.
    pub fn host_id(&self) -> Uuid {
        self.shared.host_id()
    }

    /// Returns the number of this shard, with the number of shards.
    pub fn shard(&self) -> ShardContext {
        self.routing.context
    }

    /// Returns the owners of partitions.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// Returns the turns of statements that read rows before they write them.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Returns the row cache.
    pub fn row_cache(&self) -> &RowCache {
        &self.caches.rows
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.life.is_closing.get()
    }

    /// Makes the store a part of a node.
    pub(crate) fn set_peers(&self, peers: Box<dyn Peers>) {
        let _ = self.peers.set(peers);
    }

    pub(crate) fn peers(&self) -> Option<&dyn Peers> {
        self.peers.get().map(|peers| &**peers)
    }
}
