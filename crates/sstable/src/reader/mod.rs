//! Reads an SSTable: one partition by key, or partitions in order.
//!
//! Bytes that do not follow the format cause an error, never a panic and never an allocation that
//! is larger than the files or, for a chunk, than 16 MiB. The reader compares the checksums of
//! Data.db before it parses the data, and those of the index files if the SSTable has Checksums.db.
//! Without Checksums.db the reader trusts no index: it compares keys with those of Data.db and of
//! the trie, and reads a partition's deletion from Data.db. A forward read enters a block of rows
//! only if the row before the block shows that the jump skipped no wanted row.
//!
//! Without Checksums.db, two faults may remain undetected. A key that a damaged trie or filter
//! hides is not found. The deletion that the row index reports as open at a block's start is
//! compared only with the markers that the read meets. [`verify`](crate::verify) finds both faults.
//!
//! Memory for each reader: the filter, a BIG index's summary, four bytes for each page that
//! Checksums.db covers, and a few KiB. For each stream: two chunks, bytes read ahead, and a row.

mod caveat;
mod data_reader;
mod forward;
mod index;
mod index_entries;
mod inspection;
mod key_lookup;
mod only_row;
mod open;
mod partition_stream;
mod point;
mod raw_row;
mod reverse;
mod row_batches;
mod row_index;
mod row_source;
mod scan;
mod scanned_partition;
mod skip;
mod slice_markers;
mod sstable_reader;
mod trie_keys;
mod uniform;

pub use caveat::Caveat;
pub use data_reader::DataReader;
pub(crate) use index::Index;
pub(crate) use index_entries::IndexEntries;
pub use inspection::{IndexedPartition, Inspection};
pub(crate) use key_lookup::FoundPartition;
pub use open::read_statistics;
pub(crate) use open::{read_checksums, read_component};
pub use partition_stream::PartitionStream;
pub use point::{PointLookup, PointScratch};
pub use raw_row::{Ahead, RawRow};
pub use row_batches::{RowBatch, RowBatches};
pub(crate) use row_index::{Block, RowBlocks, RowIndex};
pub(crate) use row_source::RowSource;
pub use scan::Scan;
pub use scanned_partition::ScannedPartition;
pub use sstable_reader::{Presence, SSTableReader};
pub(crate) use uniform::UniformRows;
