//! The row index of a partition, in step with its rows.

use espalier_mutation::{DeletionTime, Unfiltered};
use espalier_types::CqlType;

use super::report::VerifyReport;
use crate::{
    error::{Result, SSTableError},
    index::bti::row_index::{Block, ForwardBlocks, RowIndexReader},
    page_cache::CachedFile,
    writer::encode_position,
};

/// Goes through the blocks as rows are visited.
pub(super) struct BlockChecker<'index> {
    index: &'index RowIndexReader<CachedFile>,
    blocks: ForwardBlocks<'index, CachedFile>,
    current: Option<Block>,
    next: Option<Block>,
    count: u64,
    encoded: Vec<u8>,
}

impl<'index> BlockChecker<'index> {
    pub(super) async fn new(index: &'index RowIndexReader<CachedFile>) -> Result<Self> {
        let wrong = |error| SSTableError::index(index.source().name(), error);
        let mut blocks = index.forward(None).await.map_err(wrong)?;
        let next = blocks.next().await.map_err(wrong)?;
        Ok(Self { index, blocks, current: None, next, count: 0, encoded: Vec::new() })
    }

    /// A row or marker at `offset` of the partition, where the deletion `open` is in force.
    pub(super) async fn visit(
        &mut self,
        types: &[(CqlType, bool)],
        unfiltered: &Unfiltered,
        offset: u64,
        open: DeletionTime,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let name = self.index.source().name();
        let wrong = |error| SSTableError::index(name, error);
        if let Some(next) = self.next.filter(|next| next.start <= offset) {
            report.check(next.start == offset, name, next.start, "a block begins inside a row");
            let equal = next.open_deletion == open;
            report.check(equal, name, next.start, "a block has another open deletion");
            self.current = Some(next);
            self.next = self.blocks.next().await.map_err(wrong)?;
            self.count += 1;
            report.blocks += 1;
        }
        encode_position(types, unfiltered.position(), &mut self.encoded);
        let floor = self.index.floor_block(&self.encoded).await.map_err(wrong)?;
        let found = self.current.is_some_and(|current| current.start == floor.offset);
        report.check(found, name, offset, "a row is looked up in another block");
        Ok(())
    }

    /// The partition ends with the byte at `end_offset`.
    pub(super) async fn finish(self, end_offset: u64, report: &mut VerifyReport) -> Result<()> {
        let name = self.index.source().name();
        let entry = self.index.entry();
        report.check(self.next.is_none(), name, entry.root, "a block begins behind the last row");
        let counted = self.count == entry.block_count;
        report.check(counted, name, entry.root, "an entry counts another number of blocks");
        let ends = self.current.is_some_and(|last| last.end == end_offset);
        report.check(ends, name, entry.root, "the last block ends elsewhere than the partition");
        Ok(())
    }
}
