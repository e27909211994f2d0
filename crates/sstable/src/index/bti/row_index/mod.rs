//! Rows.db leads from a clustering position to a block of a wide partition.
//!
//! For each partition of at least two blocks, the file has a trie of separators followed by an
//! entry. Partitions.db leads to the position of the entry. There is no directory and no footer. A
//! separator lies above the last position of the block before it, and is at most the first position
//! of its own block. The first separator is empty. A final separator after the last block bounds
//! the data. Unlike the keys of Partitions.db, separators may be prefixes of one another. Format:
//! docs/formats/row-index.md.

mod deletion_time;
mod layout;
mod reader;
mod separator;
mod writer;

pub use layout::{BlockStart, NegativeDeletions, RowIndexEntry};
pub(super) use layout::{block_payload_size, decode_block};
pub use reader::{BackwardBlocks, Block, ForwardBlocks, RowIndexReader};
pub use reader::{CachedBlock, cached_block};
pub use writer::RowIndexWriter;
