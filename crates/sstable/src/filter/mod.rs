//! The bloom filter of the partition keys. Source: reference 5.
//!
//! A filter says "certainly not here" or "perhaps". It is held in memory whole, about ten bits for each partition at a
//! false positive chance of 0.01; [`BloomFilter::memory_size`] tells how much.

mod bloom;
mod builder;
mod file;
mod sizing;

pub use bloom::BloomFilter;
pub(crate) use builder::FilterBuilder;
pub(crate) use file::{read_parts, write_parts};
pub use sizing::FilterSize;
