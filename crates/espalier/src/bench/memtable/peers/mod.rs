//! Others that do the same on this machine, in the same run.

pub mod cassandra;
pub mod rocksdb;

/// As it stands in reports, before the kind of its memtable.
pub const CASSANDRA: &str = "Cassandra";

/// As it stands in reports.
pub const ROCKSDB: &str = "RocksDB skip list";
