//! This module implements the bloom filter of the partition keys. Format: docs/formats/filter.md.
//!
//! A filter answers "certainly absent" or "perhaps present". It is held whole in memory, with about
//! ten bits for each partition at a false positive chance of 0.01. [`BloomFilter::memory_size`]
//! returns its size.

mod bloom;
mod builder;
mod file;
mod sizing;

pub use bloom::BloomFilter;
pub(crate) use builder::FilterBuilder;
pub(crate) use file::{read_parts, write_parts};
pub use sizing::FilterSize;
