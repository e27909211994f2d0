//! Summary.db contains samples of Index.db and is held in memory.
//!
//! ```text
//! summary  be32 minimum index interval, be32 number of samples, be64 length of places and samples,
//!          be32 sampling level, be32 number of samples at full sampling,
//!          le32 place of each sample (from the first place), sample*, be32 length, first key,
//!          be32 length, last key
//! sample   key, le64 position in Index.db
//! ```
//!
//! Cassandra samples every 128th entry (`min_index_interval`) and removes samples from SSTables
//! that are rarely read. ScyllaDB samples by bytes of data. A reader must therefore not assume a
//! fixed distance between samples. Format: docs/formats/big-index.md.

mod builder;
mod layout;
mod reader;

pub use builder::SummaryBuilder;
pub use reader::{Interval, Summary};
