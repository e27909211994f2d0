//! Compaction merges many SSTables into few and purges tombstones, the data that they cover, and
//! expired data.
//!
//! | module | contents |
//! | --- | --- |
//! | [`strategy`] | the choice of files to compact, by pure functions |
//! | `run` | one compaction: inputs to sealed outputs |
//! | `context` | the surroundings of a compaction: plain facts and narrow interfaces |
//! | `copy`, `merge`, `purged` | the steps of a compaction: merge partitions, and purge them |
//! | `output`, `index_entries`, `vector_entries` | the outputs of a compaction |
//! | `scrub`, `validate` | rewrite or check of possibly damaged files, partition by partition |
//! | `overlap` | data outside of the compaction that a deletion may still cover |
//! | `transaction` | the log that makes the exchange atomic |
//! | `kind`, `progress`, `outcome` | reasons of compactions, running and finished compactions |
//! | `backlog` | the lag of compactions, their share of the core, and the pauses of flushes |
//! | `checkpoint`, `throughput` | yields, stops and `compaction_throughput` |
//!
//! The crate knows SSTables, and neither tables nor shards. Its user decides when to compact,
//! reserves the inputs ([`TableCompactions`]), calls [`merge()`], and exchanges the files in the
//! transaction log and in the table.
//!
//! Invariants: An input stays as it is until the caller commits. A compaction reserves the name of
//! an output, then records the output in the transaction log, and then creates its data files. A
//! deletion stays as long as data outside of the inputs may hold something that the deletion
//! covers.
//!
//! Memory: for each input that spans the current position at most 1 MiB of Data.db, a chunk and a
//! row. The output takes as much memory as a flush needs, 128 MiB for each index on vectors, and
//! for all other secondary indexes together at most 128 MiB and 8 MiB for each (see
//! `index_entries`). The reads of a compaction bypass the page cache.
//!
//! Lineage: the strategies and the transaction log are Cassandra's
//! (docs/decisions/0021-compaction.md).

mod backlog;
mod checkpoint;
mod context;
mod copy;
mod ended;
mod error;
mod index_entries;
mod kind;
mod merge;
mod outcome;
mod output;
mod overlap;
mod progress;
mod purged;
mod run;
mod scrub;
pub mod strategy;
#[cfg(test)]
mod tests;
mod throughput;
mod transaction;
mod validate;
mod vector_entries;

pub use backlog::{CompactionBacklog, flush_pause};
pub use context::{CompactionContext, OutputFactory, ShardLoad, TableData};
pub use error::CompactionError;
pub use kind::CompactionKind;
pub use outcome::CompactionOutcome;
pub use overlap::Outside;
pub use progress::{CompactionPause, CompactionProgress, Running, RunningGuard, TableCompactions};
pub use run::{Merged, merge};
pub use scrub::{Scrub, ScrubMode, ScrubReport};
pub use throughput::Throughput;
pub use transaction::{CommitFailure, Transaction, compaction_id, dead_sets, recover};
pub use validate::validate;
pub use vector_entries::{VECTOR_SEGMENT_BYTES, VectorComponent};
