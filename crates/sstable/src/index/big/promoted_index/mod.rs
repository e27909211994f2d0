//! The promoted index lists the blocks of rows of one wide partition. It is part of the partition's
//! entry in Index.db.
//!
//! ```text
//! index      vint length of the partition's head in Data.db, deletion of the partition,
//!            vint number of blocks, block*, be32 offset of each block from the first block
//! block      first position, last position, vint offset from the start of the partition,
//!            zigzag vint length - 65536,
//!            01 and the range deletion that is open at the end of the block, or 00
//! position   kind, be16 number of values if it is not a row's, clustering values
//! ```
//!
//! Blocks follow one another without gaps. The offsets at the end allow a binary search that reads
//! only the blocks that it compares. In the submodules, such an offset is a block's *place*.
//! Format: docs/formats/big-index.md.

mod builder;
mod layout;
mod position;
mod reader;

pub use builder::PromotedIndexBuilder;
pub use layout::PromotedBlock;
pub use position::{BlockPosition, BlockPositionRef, PositionFormat, PositionKind};
pub use reader::{Block, PromotedIndexReader};
