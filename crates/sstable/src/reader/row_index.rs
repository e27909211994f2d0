//! The index of a wide partition's rows, whichever kind the version has.

use espalier_mutation::{ClusteringComparator, PositionRef};

use crate::{
    error::{FileName, Result, SSTableError},
    index::bti::row_index::{Block, BlockStart, ForwardBlocks, RowIndexReader},
    page_cache::CachedFile,
    writer::encode_position,
};

/// Blocks in order.
pub(crate) enum RowBlocks<'index> {
    Trie { index: &'index RowIndex, blocks: ForwardBlocks<'index, CachedFile> },
}

impl RowBlocks<'_> {
    /// The next block.
    pub(crate) async fn next(&mut self) -> Result<Option<Block>> {
        match self {
            Self::Trie { index, blocks } => blocks.next().await.map_err(|error| index.wrong(error)),
        }
    }
}

/// An opened row index.
#[derive(Clone, Debug)]
pub(crate) enum RowIndex {
    /// A trie in Rows.db.
    Trie(RowIndexReader<CachedFile>),
}

impl RowIndex {
    /// The file that it is in.
    pub(crate) fn file(&self) -> &CachedFile {
        match self {
            Self::Trie(index) => index.source(),
        }
    }

    /// Something is wrong with it.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.file().name(), self.place(), reason)
    }

    /// Where in the file it is.
    pub(crate) fn place(&self) -> u64 {
        match self {
            Self::Trie(index) => index.entry().root,
        }
    }

    /// Number of blocks.
    pub(crate) fn block_count(&self) -> u64 {
        match self {
            Self::Trie(index) => index.entry().block_count,
        }
    }

    /// All blocks in order.
    pub(crate) async fn blocks(&self) -> Result<RowBlocks<'_>> {
        match self {
            Self::Trie(index) => {
                let blocks = index.forward(None).await.map_err(|error| self.wrong(error))?;
                Ok(RowBlocks::Trie { index: self, blocks })
            }
        }
    }

    /// Start of the block in which `position` would be: rows before it are all below. Behind the last row that may be the
    /// end of the partition.
    pub(crate) async fn floor_block(
        &self,
        comparator: &ClusteringComparator,
        position: PositionRef<'_>,
    ) -> Result<BlockStart> {
        match self {
            Self::Trie(index) => {
                let mut bytes = Vec::new();
                encode_position(&comparator.types, position, &mut bytes);
                index.floor_block(&bytes).await.map_err(|error| self.wrong(error))
            }
        }
    }

    /// The block that holds the rows nearest below `position`; without one, the last.
    pub(crate) async fn last_block_below(
        &self,
        comparator: &ClusteringComparator,
        position: Option<PositionRef<'_>>,
    ) -> Result<Option<Block>> {
        match self {
            Self::Trie(index) => {
                let mut bytes = Vec::new();
                if let Some(position) = position {
                    encode_position(&comparator.types, position, &mut bytes);
                }
                let to = position.map(|_| bytes.as_slice());
                let mut blocks = index.backward(to).await.map_err(|error| self.wrong(error))?;
                blocks.next().await.map_err(|error| self.wrong(error))
            }
        }
    }

    /// The block before the one that begins at `offset` of the partition with a row or marker at `first`.
    pub(crate) async fn block_before(
        &self,
        comparator: &ClusteringComparator,
        first: PositionRef<'_>,
        offset: u64,
    ) -> Result<Option<Block>> {
        match self {
            Self::Trie(index) => {
                let mut bytes = Vec::new();
                encode_position(&comparator.types, first, &mut bytes);
                let mut blocks =
                    index.backward(Some(&bytes)).await.map_err(|error| self.wrong(error))?;
                let current = blocks.next().await.map_err(|error| self.wrong(error))?;
                if current.is_none_or(|current| current.start != offset) {
                    return Err(self.corrupt("a block's first row leads to another block"));
                }
                blocks.next().await.map_err(|error| self.wrong(error))
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
