//! Compaction merges many SSTables into few and purges tombstones, the data that they cover, and
//! expired data.
//!
//! | module | contents |
//! | --- | --- |
//! | [`strategy`] | the choice of files to compact, by pure functions |
//! | `scheduler` | asks the strategies after every flush, and begins their picks |
//! | `task` | one compaction: merge, purge, write, exchange |
//! | `copy`, `merge`, `purged`, `output` | its steps: merge partitions, purge, write files |
//! | `scrub`, `validate` | rewrite or check of possibly damaged files, partition by partition |
//! | `overlap` | data outside of the compaction that a deletion may still cover |
//! | `transaction` | the log that makes the exchange atomic |
//! | `kind`, `progress`, `history` | reasons of compactions, running and past compactions |
//! | `backlog` | how far compactions are behind, and how long flushes wait for them |
//! | `pace`, `throughput` | limits on the core and the disk bandwidth that compactions take |
//!
//! Each shard compacts its own files. A compaction takes memory for each input that spans the
//! current position: 1 MiB of Data.db, a chunk and a row. The output takes as much memory as a
//! flush needs. The reads of a compaction bypass the page cache.

mod backlog;
mod copy;
mod history;
mod kind;
mod merge;
mod outcome;
mod output;
mod overlap;
mod pace;
mod progress;
mod purged;
mod scheduler;
mod scrub;
pub mod strategy;
mod task;
mod throughput;
mod transaction;
mod validate;

pub(crate) use backlog::{CompactionBacklog, flush_pause};
pub(crate) use history::history_update;
pub use kind::CompactionKind;
pub(crate) use outcome::CompactionOutcome;
pub use progress::CompactionProgress;
pub(crate) use progress::{CompactionPause, Running, RunningGuard, TableCompactions};
pub(crate) use scheduler::{
    RESERVED_BYTES, candidates_of, pending, perform, rewrite_plan, run as run_scheduler, split_plan,
};
pub(crate) use scrub::Scrub;
pub use scrub::{ScrubMode, ScrubReport};
pub(crate) use task::Job;
pub(crate) use throughput::Throughput;
pub(crate) use transaction::{compaction_id, dead_sets, recover};
pub(crate) use validate::validate;
