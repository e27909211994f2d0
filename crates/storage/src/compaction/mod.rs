//! Schedules the compactions of a shard's tables, and exchanges their files in the tables. The
//! crate `compaction` does the work of each.
//!
//! | module | contents |
//! | --- | --- |
//! | `scheduler` | asks the strategies after every flush, and begins their picks |
//! | `exchange` | one compaction: merge, then exchange of the files |
//! | `surroundings` | the table and the shard, as a compaction sees them |
//! | `backlog` | backlog and progress of the compactions |
//! | `candidates` | the files from which a strategy chooses |
//! | `room` | disk space for compactions |
//! | `requests` | compactions, rewrites and scrubs on request |
//! | `history` | `system.compaction_history` |
//!
//! Each shard compacts its own files.

mod backlog;
mod candidates;
mod exchange;
mod history;
mod requests;
mod room;
mod scheduler;
mod surroundings;
#[cfg(test)]
mod tests;

pub(crate) use backlog::{backlog, flush_pause, pending_of, progress, running, shares};
pub(crate) use candidates::candidates_of;
pub(crate) use exchange::Job;
pub(crate) use history::history_update;
pub(crate) use requests::{NamedFile, RequestedCompactions, is_named, may_take, named_files};
pub(crate) use room::{bytes_for_compactions, check_room, device_of, reserved_bytes};
pub(crate) use scheduler::{perform, rewrite_plan, run as run_scheduler, split_plan};
