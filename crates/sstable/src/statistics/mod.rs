//! Statistics.db: what is known of an SSTable without reading it, and the header without which Data.db cannot be read.
//! Source: reference 7.
//!
//! | module | what |
//! | --- | --- |
//! | [`serialization_header`] | baselines of the deltas, types and columns |
//! | [`layout`] | the other parts as values |
//! | [`reader`], [`writer`] | the bytes |
//! | [`collector`] | gathers the numbers while an SSTable is written |
//! | [`estimated_histogram`], [`drop_times`], [`cardinality`] | the sketches inside |
//!
//! Memory: a few KiB each; files over [`MAXIMUM_LENGTH`] are refused.

pub mod cardinality;
pub mod collector;
pub mod drop_times;
pub mod encoding_stats;
pub mod estimated_histogram;
pub mod layout;
mod reader;
pub mod serialization_header;
mod writer;

pub use collector::StatisticsCollector;
pub use encoding_stats::EncodingStats;
pub use layout::{
    CommitLogInterval, CommitLogPosition, CoveredClustering, Statistics, StatsComponent,
};
pub use serialization_header::{HeaderColumn, SerializationHeader};

/// The largest Statistics.db that is read, in bytes. Real ones have some KiB.
pub const MAXIMUM_LENGTH: u64 = 64 * 1024 * 1024;
