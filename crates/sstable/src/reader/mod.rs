//! Reads an SSTable: one partition by key, or partitions in order.
//!
//! Guaranteed: what is not what the format says is an error, never a panic and never an allocation beyond what the files
//! hold. Data.db is read behind its checksums, and so are the index files of sets that have Checksums.db. Where they have
//! none, nothing they say is taken for granted: keys are compared with those of Data.db and with the trie's, a partition's
//! deletion is read from Data.db, and a block of rows is entered only where the row before it shows that nothing was jumped
//! over. (Two things are beyond that: a key that a broken trie or filter hides is not found; and the deletion that the row
//! index calls open at a block's start is compared only when its end is read. [`verify`](crate::verify) compares all of it.)
//!
//! Memory for each reader: the filter and a few KiB. For each stream: two chunks and a row.

mod caveat;
mod data_reader;
mod even;
mod forward;
mod index;
mod index_entries;
mod inspection;
mod key_lookup;
mod only_row;
mod open;
mod partition_stream;
mod plain;
mod point;
mod reverse;
mod row_index;
mod row_source;
mod scan;
mod skip;
mod slice_markers;
mod sstable_reader;
mod stretches;
mod trie_keys;

pub use caveat::Caveat;
pub use data_reader::DataReader;
pub(crate) use even::{EvenAhead, EvenRows};
pub(crate) use index::Index;
pub use inspection::{IndexedPartition, Inspection};
pub use open::read_statistics;
pub(crate) use open::{read_checksums, read_component};
pub use partition_stream::PartitionStream;
pub use plain::{Ahead, PlainRow};
pub use point::{PendingRow, PointRow, PointScratch, RowAtHand};
pub(crate) use row_index::{Block, RowBlocks, RowIndex};
pub(crate) use row_source::RowSource;
pub use scan::{Scan, ScannedPartition};
pub use sstable_reader::{Presence, SSTableReader};
pub use stretches::{Stretch, Stretches};
