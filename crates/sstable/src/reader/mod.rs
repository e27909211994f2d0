//! Reads an SSTable: one partition by key, or partitions in order.
//!
//! Guaranteed: what is not what the format says is an error, never a panic and never an allocation beyond what the files
//! hold. Data.db is read behind its checksums. The index files have none, so nothing they say is taken for granted: keys
//! are compared, and a block of rows is entered only where the row before it shows that nothing was jumped over. (One
//! thing is beyond that: the deletion that the row index calls open at a block's start is compared only when its end is
//! read. [`verify`](crate::verify) compares all of it.)
//!
//! Memory for each reader: the filter and a few KiB. For each stream: two chunks and a row.

mod forward;
mod key_lookup;
mod open;
mod partition_stream;
mod reverse;
mod row_source;
mod scan;
mod slice_markers;
mod sstable_reader;

pub use open::read_statistics;
pub(crate) use open::{read_checksums, read_component};
pub use partition_stream::PartitionStream;
pub(crate) use row_source::RowSource;
pub use scan::{Scan, ScannedPartition};
pub use sstable_reader::SSTableReader;
