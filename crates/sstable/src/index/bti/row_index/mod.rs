//! Rows.db: from a clustering position to a block of a wide partition.
//!
//! For each partition of at least two blocks a trie of separators and, behind it, an entry, to whose
//! position Partitions.db leads. There is no directory and no footer. A separator lies above the last
//! position of the block before it and is at most the first position of its own block; the first one
//! is empty, and behind the last block stands a final one, which bounds the data. Unlike the keys of
//! Partitions.db, separators may be prefixes of one another.

mod deletion_time;
mod layout;
mod reader;
mod separator;
mod writer;

pub use layout::{BlockStart, NegativeDeletions, RowIndexEntry};
pub(super) use layout::{block_payload_size, decode_block};
pub use reader::{BackwardBlocks, Block, ForwardBlocks, RowIndexReader};
pub use reader::{BlockAtHand, block_at_hand};
pub use writer::RowIndexWriter;
