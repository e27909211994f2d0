//! A disk in memory that keeps synced changes in a crash, may lose the others, and fails on demand.
//!
//! The model is the strict reading of POSIX: written bytes are durable after a successful sync of
//! the file; a name is durable only after a sync of its directory, even if the file itself was
//! synced; a rename is atomic. A crash keeps or loses each unsynced change at random, and tears
//! unsynced writes at 512- or 4096-byte sectors. Every random choice follows from the seed and the
//! order of operations.
//!
//! Each operation may first yield to other tasks (by the seed), so that concurrent code meets many
//! interleavings. Memory: the content of all files, also of removed ones, stays until the disk is
//! dropped; the disk is for tests.
//!
//! Lineage: FoundationDB's and TigerBeetle's simulated storage, and the ALICE paper's survey of the
//! operations that file systems reorder.

mod content;
mod crash;
mod disk;
mod fault;
mod file;
mod names;
#[cfg(test)]
mod tests;

pub use disk::SimulatedDisk;
pub use fault::{Effect, Fault};
pub(super) use file::SimulatedFile;
