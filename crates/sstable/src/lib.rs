//! SSTables: data, index, filter, statistics, compression, verification.
