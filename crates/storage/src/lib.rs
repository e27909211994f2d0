//! The storage engine: commit log, memtables, SSTables, caches, reads, flushes, compactions,
//! recovery.
//!
//! ```text
//! write  Node::apply -> commitlog (encode, append) + memtable (trie) -> ticket
//!        -> flush -> SSTable
//! read   Node::read  -> memtables + row cache + SSTables -> MergedPartition -> live rows
//! ```

mod command;
mod compaction;
mod configuration;
mod empty_ranges;
mod engine;
mod error;
mod first_failure;
mod flush;
pub mod guardrails;
mod index;
mod metrics;
mod node;
mod read;
mod recovery;
mod replacement;
mod shard;
mod shared;
pub mod system;
mod table;
#[cfg(test)]
mod test_database;
mod turn_deadline;
mod turn_kind;
mod turns;
pub mod units;

pub use command::{
    ColumnSelection, FlatColumns, FlatPartition, FlatRows, FormBound, FoundPlaces, IndexSearch,
    IndexTerm, IndexValues, MAX_SEARCH_STREAMS, NearestBound, PartitionRows, ReadCommand,
    ReadLimits, ReadPosition, ReadResult, ReadTarget,
};
pub use configuration::{
    CacheSettings, CommitLogSettings, MemtableSettings, NearestLimits, SSTableSettings,
    SchemaFeatures, StorageConfiguration, Timeouts, VectorSearchLimits, ViewBuildLimits,
};
pub use engine::DIRECTORY_LOCK;
pub use error::StorageError;
pub use espalier_cache::{
    CacheExplanation, ContinuousPartition, ExplainedRange, RowCacheMetrics, slices_behind,
};
pub use espalier_commitlog::{CommitLogError, CommitLogSync, CommitTicket, ReplayPolicy};
pub use espalier_compaction::{
    CompactionKind, CompactionProgress, ScrubMode, ScrubReport, strategy::CompactionStrategy,
};
pub use espalier_memtable::{
    MemtableConfigurations, MemtableError, MemtableKind, MemtableMemory, Structure,
};
pub use espalier_sstable::{Top, VectorLimits};
pub use first_failure::FirstFailure;
pub use guardrails::{Guardrails, Warnings};
pub use metrics::{
    CompactionMetrics, EmptyRangeMetrics, FlushMetrics, IndexMetrics, ReadMetrics, StorageMetrics,
    WriteMetrics,
};
pub use node::{
    Batches, ClientEncryption, ClientSession, Compactions, ConnectedClient, FilterSizes, Imported,
    MemtableSizes, Node, Orphan, Orphans, PartitionSizes, PastCompaction, SchemaMerge,
    SnapshotDetails, SnapshotTable, Snapshots, TableStatistics, TokenRange, ViewBuilds,
};
pub use read::{FragmentVisitor, Visit};
pub use recovery::read_segments;
pub use replacement::{ReplacedNode, take_files};
pub use shard::{LogCheck, LookAhead, Routing, RowLookup, ShardStore};
pub use shared::SharedStorage;
pub use turn_deadline::TurnDeadline;
pub use turn_kind::TurnKind;
pub use turns::{Turn, TurnRows, Turns};
