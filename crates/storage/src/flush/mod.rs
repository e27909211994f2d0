//! A flush writes a memtable to an SSTable.
//!
//! The flush freezes the memtable (a new one takes its place at once), streams it in order into an
//! SSTable, adds the SSTable to the table's view, and then removes the memtable from the view. For
//! a short time, readers merge both. Then the commit log may free a segment if SSTables hold all
//! its writes. After a failed write the memtable stays readable, the reason is kept, and the
//! scheduler retries the flush.

mod copy;
mod scheduler;
mod write;

pub(crate) use scheduler::run as run_scheduler;
pub(crate) use write::{flush_in_background, flush_tables};
