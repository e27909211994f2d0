//! Compaction: many files become few, and what is dead goes.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`strategy`] | which files to compact, as pure functions of what is known of them |
//! | `scheduler` | asks the strategies after every flush, and begins what they want |
//! | `task` | one compaction: merge, purge, write, exchange |
//! | `copy`, `merge`, `purged`, `output` | its parts: partitions in order, without what may go, into files |
//! | `scrub`, `validate` | files that may be damaged, partition by partition |
//! | `overlap` | what outside of the compaction a deletion may still cover |
//! | `transaction` | the log that makes the exchange atomic |
//! | `kind`, `progress`, `history` | why something is compacted, what runs, and what has run |
//! | `backlog` | how far compactions are behind, and how long flushes wait for that |
//! | `pace`, `throughput` | what compactions leave to others |
//!
//! Each shard compacts for itself. Memory of a compaction: for each input that lies over the place reached 1 MiB of Data.db, a chunk and a row; for the
//! output what a flush needs. Nothing of it goes through the page cache.

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
    RESERVED_BYTES, arena_of, pending, perform, rewrite_plan, run as run_scheduler, split_plan,
};
pub(crate) use scrub::Scrub;
pub use scrub::{ScrubMode, ScrubReport};
pub(crate) use task::Job;
pub(crate) use throughput::Throughput;
pub(crate) use transaction::{compaction_id, dead_sets, recover};
pub(crate) use validate::validate;
