//! SSTables: data, index, filter, statistics, compression, verification.

pub mod index;
