//! Commit log, memtable, tables, read path, flush, recovery.
