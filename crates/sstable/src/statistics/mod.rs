//! Statistics.db holds facts about an SSTable that can be read without its data, and the header
//! that is needed to read Data.db. Format: docs/formats/statistics.md.
//!
//! | module | content |
//! | --- | --- |
//! | [`serialization_header`] | baselines of the deltas, types and columns |
//! | [`layout`] | the other parts as values |
//! | [`reader`], [`writer`] | encoding |
//! | [`collector`] | computes the numbers while an SSTable is written |
//! | [`estimated_histogram`], [`drop_times`], [`cardinality`] | the sketches inside |
//!
//! Memory: a few KiB for each SSTable. Files over [`MAX_LENGTH`] are rejected.

pub mod cardinality;
pub mod collector;
pub mod drop_times;
pub mod estimated_histogram;
pub mod layout;
mod reader;
pub mod serialization_header;
mod writer;

pub use collector::StatisticsCollector;
pub use espalier_mutation::encoding::stats as encoding_stats;
pub use espalier_mutation::encoding::stats::EncodingStats;
pub use layout::{
    CommitLogInterval, CommitLogPosition, CoveredClustering, Statistics, StatsComponent,
};
pub use serialization_header::{HeaderColumn, SerializationHeader};

/// Maximum length of a Statistics.db that is read, in bytes (arbitrary). Real files have some KiB.
pub const MAX_LENGTH: u64 = 64 * 1024 * 1024;
