//! From memtable to SSTable.
//!
//! A flush freezes the memtable (a new one takes its place at once), streams it in order into an SSTable, and swaps the
//! two; readers see one or the other. Then the commit log may give up the segments whose writes are all in SSTables.
//! When the disk refuses, the memtable stays readable, the reason is kept, and the flush is tried again.

mod by_time;
mod copy;
mod estimate;
mod pace;
mod scheduler;
mod write;
mod write_pace;

pub(crate) use by_time::FlushClock;
pub(crate) use estimate::{FlushEstimate, FlushProgress};
pub(crate) use scheduler::run as run_scheduler;
pub(crate) use write_pace::{WritePace, run as run_write_pace};
