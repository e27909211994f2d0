//! The surroundings of a compaction: plain facts, and three narrow interfaces for the facts that
//! change while it runs. The owner of the tables implements the interfaces.

use std::{path::PathBuf, rc::Rc, sync::Arc};

use espalier_mutation::{DecoratedKey, purge::PurgeLimits, schema::TableMetadata};
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    SSTable, VectorLimits, WriterOptions,
    versions::{SpecialData, Version},
};
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use crate::{CompactionError, Throughput};

/// The parts of the shard that a compaction uses, and its limits.
pub struct CompactionContext {
    /// The file system of the inputs and outputs.
    pub file_system: FileSystem,
    /// The current version of the table.
    pub metadata: Arc<TableMetadata>,
    /// The directory of the table.
    pub directory: PathBuf,
    /// The version of new SSTables, which is also in the name of the transaction log.
    pub version: Version,
    /// The id of the node that owns the commit log.
    pub host: Uuid,
    /// The oldest segment of the table's commit log that a restart may read; `None` if the log is
    /// not open.
    pub oldest_segment: Option<u64>,
    /// The ages at which dead data may be removed.
    pub limits: PurgeLimits,
    /// Bytes of Data.db that are read at once from all inputs together.
    pub read_ahead_bytes: usize,
    /// Limits of the graphs in indexes on vectors.
    pub vector_limits: VectorLimits,
    /// The table's data, of which the inputs are a part.
    pub table: Rc<dyn TableData>,
    /// Names the outputs, and chooses their format.
    pub outputs: Rc<dyn OutputFactory>,
    /// The load of the shard.
    pub load: Rc<dyn ShardLoad>,
}

/// The data of a table at each moment. A deletion stays as long as data outside of the compaction
/// may hold something that the deletion covers.
pub trait TableData {
    /// Returns the SSTables. The result is the same allocation as long as they do not change.
    fn sstables(&self) -> Rc<[Rc<SSTable>]>;

    /// Returns a lower limit, in µs, of the timestamps of a partition's data in memtables; `None`
    /// if they hold nothing of the partition. `path` is scratch space.
    fn oldest_in_memory(&self, key: &DecoratedKey, path: &mut Vec<u8>) -> Option<i64>;

    /// Returns the least timestamp in µs of all memtables; `None` if they hold nothing.
    fn minimum_timestamp_in_memory(&self) -> Option<i64>;
}

/// Names outputs and chooses their format.
pub trait OutputFactory {
    /// Returns the options of the next output, with a name that no files have. The compaction sets
    /// the statistics itself. The version of the output can store the `special` data.
    fn next<'a>(
        &'a self,
        metadata: &'a Arc<TableMetadata>,
        special: SpecialData,
    ) -> LocalBoxFuture<'a, Result<WriterOptions, CompactionError>>;
}

/// The facts by which a compaction computes its share of `compaction_throughput`.
pub trait ShardLoad {
    /// Returns the number of running compactions of the shard.
    fn running_compactions(&self) -> usize;

    /// Returns the limit of the bytes that compactions read per second.
    fn throughput(&self) -> &Throughput;

    /// Returns the number of shards, which share this limit.
    fn shard_count(&self) -> usize;
}
