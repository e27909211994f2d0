//! Commit log, memtable, tables, read path, flush, recovery.
pub mod system;
