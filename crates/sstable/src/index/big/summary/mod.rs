//! Summary.db: samples of Index.db, held in memory.
//!
//! ```text
//! summary  be32 minimum index interval, be32 number of samples, be64 length of places and samples,
//!          be32 sampling level, be32 number of samples at full sampling,
//!          le32 place of each sample (from the first place), sample*, be32 length, first key, be32 length, last key
//! sample   key, le64 position in Index.db
//! ```
//!
//! Cassandra samples every 128th entry (`min_index_interval`) and takes samples away where they are little used; ScyllaDB
//! samples by bytes of data: nobody may rely on a distance. Source: reference 11.2, traps 20-32.

mod builder;
mod layout;
mod reader;

pub use builder::SummaryBuilder;
pub use reader::{Interval, Summary};

/// Entries between two samples, where a table does not say otherwise.
pub const DEFAULT_MIN_INDEX_INTERVAL: u32 = 128;
