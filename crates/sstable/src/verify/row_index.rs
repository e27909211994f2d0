//! The row index of a partition, in step with its rows.

use espalier_mutation::{ClusteringComparator, DeletionTime, Unfiltered};

use super::report::VerifyReport;
use crate::{
    error::Result,
    index::big::promoted_index::{BlockPosition, BlockPositionRef, PromotedBlock},
    reader::{Block, RowBlocks, RowIndex},
};

/// Goes through the blocks as rows are visited.
pub(super) struct BlockChecker<'index> {
    index: &'index RowIndex,
    blocks: RowBlocks<'index>,
    current: Option<Block>,
    next: Option<Block>,
    count: u64,
    /// What the index says of the ends of the current block, and the end that was seen last.
    ends: Option<PromotedBlock>,
    last: Option<BlockPosition>,
}

impl<'index> BlockChecker<'index> {
    pub(super) async fn new(index: &'index RowIndex) -> Result<Self> {
        let mut blocks = index.blocks().await?;
        let next = blocks.next().await?;
        Ok(Self { index, blocks, current: None, next, count: 0, ends: None, last: None })
    }

    /// A row or marker at `offset` of the partition, where the deletion `open` is in force.
    pub(super) async fn visit(
        &mut self,
        comparator: &ClusteringComparator,
        unfiltered: &Unfiltered,
        offset: u64,
        open: DeletionTime,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let name = self.index.file().name();
        if let Some(next) = self.next.filter(|next| next.start <= offset) {
            report.check(next.start == offset, name, next.start, "a block begins inside a row");
            let equal = next.open_deletion == open;
            report.check(equal, name, next.start, "a block has another open deletion");
            self.check_last(report);
            self.ends = self.index.ends_of_block(self.count).await?;
            if let Some(ends) = &self.ends {
                let equal = ends.first == position_of(unfiltered);
                report.check(equal, name, next.start, "a block has another first row");
            }
            self.current = Some(next);
            self.next = self.blocks.next().await?;
            self.count += 1;
            report.blocks += 1;
        }
        if self.ends.is_some() {
            self.last = Some(position_of(unfiltered));
        }
        let floor = self.index.floor_block(comparator, unfiltered.position()).await?;
        let found = self.current.is_some_and(|current| current.start == floor.offset);
        report.check(found, name, offset, "a row is looked up in another block");
        Ok(())
    }

    /// The last row of a block is what the index says.
    fn check_last(&self, report: &mut VerifyReport) {
        if let (Some(ends), Some(last), Some(current)) = (&self.ends, &self.last, self.current) {
            let name = self.index.file().name();
            report.check(ends.last == *last, name, current.start, "a block has another last row");
        }
    }

    /// The partition ends with the byte at `end_offset`.
    pub(super) async fn finish(self, end_offset: u64, report: &mut VerifyReport) -> Result<()> {
        self.check_last(report);
        let (name, place) = (self.index.file().name(), self.index.place());
        report.check(self.next.is_none(), name, place, "a block begins behind the last row");
        let counted = self.count == self.index.block_count();
        report.check(counted, name, place, "an entry counts another number of blocks");
        let ends = self.current.is_some_and(|last| last.can_end_at(end_offset));
        report.check(ends, name, place, "the last block ends elsewhere than the partition");
        Ok(())
    }
}

fn position_of(unfiltered: &Unfiltered) -> BlockPosition {
    let BlockPositionRef { kind, values } = unfiltered.into();
    BlockPosition { kind, values: values.into() }
}
