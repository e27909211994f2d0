//! The row index of a wide partition, in either of its two formats.

use espalier_mutation::{ClusteringComparator, DeletionTime, PositionRef};
use espalier_types::byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR, encode_ordered_clustering};

use crate::{
    error::{FileName, Result, SSTableError},
    index::{
        big::promoted_index::{self, PromotedBlock, PromotedIndexReader},
        bti::row_index::{self, BlockStart, ForwardBlocks, RowIndexReader},
    },
    page_cache::CachedFile,
};

/// A block of consecutive rows and markers. Offsets count bytes from the start of the partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// The offset after its last byte.
    pub(crate) end: u64,
    /// The range deletion that is open at its start, or live.
    pub(crate) open_deletion: DeletionTime,
    /// True if `end` may include the byte that ends the partition.
    is_end_vague: bool,
}

impl Block {
    /// Returns whether the block may end at `offset`, where a row or marker ends.
    pub(crate) fn can_end_at(&self, offset: u64) -> bool {
        offset == self.end || (self.is_end_vague && offset.checked_add(1) == Some(self.end))
    }
}

impl From<row_index::Block> for Block {
    fn from(block: row_index::Block) -> Self {
        let row_index::Block { start, end, open_deletion } = block;
        Self { start, end, open_deletion, is_end_vague: false }
    }
}

impl From<promoted_index::Block> for Block {
    fn from(block: promoted_index::Block) -> Self {
        let promoted_index::Block { start, end, open_deletion, is_last, .. } = block;
        Self { start, end, open_deletion, is_end_vague: is_last }
    }
}

/// An opened row index.
#[derive(Clone, Debug)]
pub(crate) enum RowIndex {
    /// A trie in Rows.db.
    Trie(RowIndexReader<CachedFile>),
    /// A promoted index: a part of an entry of Index.db.
    Promoted(PromotedIndexReader<CachedFile>),
}

/// Iterates over the blocks in order.
pub(crate) enum RowBlocks<'index> {
    Trie { index: &'index RowIndex, blocks: ForwardBlocks<'index, CachedFile> },
    Promoted { index: &'index PromotedIndexReader<CachedFile>, next: u64 },
}

impl RowBlocks<'_> {
    /// Returns the next block.
    pub(crate) async fn next(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Trie { index, blocks } => {
                Ok(blocks.next().await.map_err(|error| index.wrong(error))?.map(Block::from))
            }
            Self::Promoted { index, next } if *next < index.block_count() => {
                let block = index.block(*next).await?;
                *next += 1;
                Ok(Some(block.into()))
            }
            Self::Promoted { .. } => Ok(None),
        }
    }
}

impl RowIndex {
    /// Returns the file that holds the index.
    pub(crate) fn file(&self) -> &CachedFile {
        match self {
            Self::Trie(index) => index.source(),
            Self::Promoted(index) => index.file(),
        }
    }

    /// Makes the error for a damaged index.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.name(), self.place(), reason)
    }

    /// Returns the offset of the index in its file.
    pub(crate) fn place(&self) -> u64 {
        match self {
            Self::Trie(index) => index.entry().root,
            Self::Promoted(index) => index.location().start,
        }
    }

    /// Returns the number of blocks.
    pub(crate) fn block_count(&self) -> u64 {
        match self {
            Self::Trie(index) => index.entry().block_count,
            Self::Promoted(index) => index.block_count(),
        }
    }

    /// Returns the positions of a block's first and last row or marker, if the index stores them.
    pub(crate) async fn ends_of_block(&self, number: u64) -> Result<Option<PromotedBlock>> {
        match self {
            Self::Trie(_) => Ok(None),
            Self::Promoted(index) => index.promoted_block(number).await.map(Some),
        }
    }

    /// Iterates over all blocks in order.
    pub(crate) async fn blocks(&self) -> Result<RowBlocks<'_>> {
        match self {
            Self::Trie(index) => {
                let blocks = index.forward(None).await.map_err(|error| self.wrong(error))?;
                Ok(RowBlocks::Trie { index: self, blocks })
            }
            Self::Promoted(index) => Ok(RowBlocks::Promoted { index, next: 0 }),
        }
    }

    /// Finds the start of the block in which `position` would be. All rows before this block lie
    /// below `position`. If `position` lies after the last row, the result may be the end of the
    /// partition or the last block.
    pub(crate) async fn floor_block(
        &self,
        comparator: &ClusteringComparator,
        position: PositionRef<'_>,
    ) -> Result<BlockStart> {
        match self {
            Self::Trie(index) => {
                let bytes = encode_position(comparator, position);
                index.floor_block(&bytes).await.map_err(|error| self.wrong(error))
            }
            Self::Promoted(index) => {
                let block = match index.floor_block(position).await? {
                    Some(block) => block,
                    None => index.last_block().await?,
                };
                Ok(BlockStart { offset: block.start, open_deletion: block.open_deletion })
            }
        }
    }

    /// Finds the end of the block in which `position` would be; all later rows are above it.
    pub(crate) async fn end_offset(
        &self,
        comparator: &ClusteringComparator,
        position: PositionRef<'_>,
    ) -> Result<u64> {
        match self {
            Self::Trie(index) => {
                let bytes = encode_position(comparator, position);
                index.end_offset(&bytes).await.map_err(|error| self.wrong(error))
            }
            Self::Promoted(index) => Ok(index.end_block(position).await?.end),
        }
    }

    /// Finds the last block that may have rows below `position`; without a position, the last
    /// block.
    pub(crate) async fn last_block_below(
        &self,
        comparator: &ClusteringComparator,
        position: Option<PositionRef<'_>>,
    ) -> Result<Option<Block>> {
        match self {
            Self::Trie(index) => {
                let to = position.map(|position| encode_position(comparator, position));
                let blocks = index.backward(to.as_deref()).await;
                let mut blocks = blocks.map_err(|error| self.wrong(error))?;
                Ok(blocks.next().await.map_err(|error| self.wrong(error))?.map(Block::from))
            }
            Self::Promoted(index) => Ok(Some(Block::from(match position {
                Some(position) => index.end_block(position).await?,
                None => index.last_block().await?,
            }))),
        }
    }

    /// Finds the block before the one that begins at `offset` of the partition with a row or marker
    /// at `first`.
    pub(crate) async fn block_before(
        &self,
        comparator: &ClusteringComparator,
        first: PositionRef<'_>,
        offset: u64,
    ) -> Result<Option<Block>> {
        let wrong = || self.corrupt("a block's first row leads to another block");
        match self {
            Self::Trie(index) => {
                let bytes = encode_position(comparator, first);
                let mut blocks =
                    index.backward(Some(&bytes)).await.map_err(|error| self.wrong(error))?;
                let current = blocks.next().await.map_err(|error| self.wrong(error))?;
                if current.is_none_or(|current| current.start != offset) {
                    return Err(wrong());
                }
                Ok(blocks.next().await.map_err(|error| self.wrong(error))?.map(Block::from))
            }
            Self::Promoted(index) => {
                let current = index.end_block(first).await?;
                if current.start != offset {
                    return Err(wrong());
                }
                match current.number.checked_sub(1) {
                    Some(before) => Ok(Some(index.block(before).await?.into())),
                    None => Ok(None),
                }
            }
        }
    }

    fn wrong(&self, error: crate::index::bti::IndexError<SSTableError>) -> SSTableError {
        SSTableError::index(self.name(), error)
    }

    fn name(&self) -> &FileName {
        self.file().name()
    }
}

/// Encodes a position in the ordered form, for the look-up. Espalier's writer ends no block at a
/// position whose ordered form differs from Cassandra's, so separators agree with the comparator.
/// Cassandra's writer ends blocks at such positions, too. Then neither Espalier nor Cassandra finds
/// the rows at these positions.
fn encode_position(comparator: &ClusteringComparator, position: PositionRef<'_>) -> Vec<u8> {
    let terminator = match position.weight {
        0 => TERMINATOR,
        ..0 => LT_NEXT,
        1.. => GT_NEXT,
    };
    let mut encoded = Vec::new();
    encode_ordered_clustering(&comparator.types, position.values, terminator, &mut encoded);
    encoded
}
