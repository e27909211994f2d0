//! Peers: other programs that do the same work on this machine, in the same run.

pub mod cassandra;
pub mod rocksdb;

/// Name of Cassandra in reports, before the kind of its memtable.
pub const CASSANDRA: &str = "Cassandra";

/// Name of RocksDB in reports.
pub const ROCKSDB: &str = "RocksDB skip list";
