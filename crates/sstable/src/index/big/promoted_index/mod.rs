//! The promoted index lists the blocks of rows of one wide partition. It is part of the partition's
//! entry in Index.db.
//!
//! ```text
//! index      vint length of the partition's head in Data.db, deletion of the partition,
//!            vint number of blocks, block*, be32 place of each block, from the first one
//! block      first position, last position, vint offset from the start of the partition,
//!            zigzag vint length - 65536,
//!            01 if a range deletion is open at its END (else 00), that deletion
//! position   kind, be16 number of values if it is not a row's, clustering values
//! ```
//!
//! Blocks follow one another without gaps. The places at the end allow a binary search that reads
//! only the blocks that it compares. Format: docs/formats/big-index.md.

mod builder;
mod layout;
mod position;
mod reader;

pub use builder::PromotedIndexBuilder;
pub use layout::{LastBlockLength, PromotedBlock};
pub use position::{BlockPosition, BlockPositionRef, PositionFormat, PositionKind};
pub use reader::{Block, PromotedBlocks, PromotedIndexReader};
