//! Checks the row index of a partition, in step with its rows.

use espalier_mutation::{ClusteringComparator, DeletionTime, Unfiltered};

use super::report::VerifyReport;
use crate::{
    error::Result,
    index::big::promoted_index::{BlockPosition, BlockPositionRef, PromotedBlock},
    reader::{Block, RowBlocks, RowIndex},
};

/// A row or marker at `offset` of the partition, and the deletion `open` that is in force there.
pub(super) struct Visited<'a> {
    /// The item before it.
    pub(super) last: Option<&'a Unfiltered>,
    pub(super) this: &'a Unfiltered,
    pub(super) offset: u64,
    /// True if it lies after the item before it.
    pub(super) is_in_order: bool,
    pub(super) open: DeletionTime,
}

/// Walks the blocks as rows are visited.
pub(super) struct BlockChecker<'index> {
    index: &'index RowIndex,
    blocks: RowBlocks<'index>,
    current: Option<Block>,
    next: Option<Block>,
    count: u64,
    /// The index's positions of the ends of the current block.
    ends: Option<PromotedBlock>,
}

impl<'index> BlockChecker<'index> {
    pub(super) async fn new(index: &'index RowIndex) -> Result<Self> {
        let mut blocks = index.blocks().await?;
        let next = blocks.next().await?;
        Ok(Self { index, blocks, current: None, next, count: 0, ends: None })
    }

    /// Checks the next row or marker.
    ///
    /// The first and the last item of each block are looked up: an index that leads both to the
    /// block also leads the items between them there. An item that is out of order is always looked
    /// up.
    pub(super) async fn visit(
        &mut self,
        comparator: &ClusteringComparator,
        visited: Visited<'_>,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let Visited { last, this, offset, is_in_order, open } = visited;
        let name = self.index.file().name();
        let mut is_looked_up = !is_in_order || last.is_none();
        if let Some(next) = self.next.filter(|next| next.start <= offset) {
            if let Some(last) = last {
                self.look_up(comparator, last, offset, report).await?;
            }
            is_looked_up = true;
            report.check(next.start == offset, name, next.start, "a block begins inside a row");
            let equal = next.open_deletion == open;
            report.check(equal, name, next.start, "a block has another open deletion");
            self.check_last(last, report);
            self.ends = self.index.ends_of_block(self.count).await?;
            if let Some(ends) = &self.ends {
                let equal = ends.first == position_of(this);
                report.check(equal, name, next.start, "a block has another first row");
            }
            self.current = Some(next);
            self.next = self.blocks.next().await?;
            self.count += 1;
            report.blocks += 1;
        }
        if is_looked_up { self.look_up(comparator, this, offset, report).await } else { Ok(()) }
    }

    /// Checks that the index leads to the current block.
    async fn look_up(
        &self,
        comparator: &ClusteringComparator,
        unfiltered: &Unfiltered,
        offset: u64,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let floor = self.index.floor_block(comparator, unfiltered.position()).await?;
        let found = self.current.is_some_and(|current| current.start == floor.offset);
        let name = self.index.file().name();
        report.check(found, name, offset, "a row is looked up in another block");
        Ok(())
    }

    /// Checks that the index stores the last row of a block.
    fn check_last(&self, last: Option<&Unfiltered>, report: &mut VerifyReport) {
        if let (Some(ends), Some(last), Some(current)) = (&self.ends, last, self.current) {
            let name = self.index.file().name();
            report.check(
                ends.last == position_of(last),
                name,
                current.start,
                "a block has another last row",
            );
        }
    }

    /// Checks the last block, and that the blocks end with the partition, whose end byte is at
    /// `end_offset`.
    pub(super) async fn finish(
        self,
        comparator: &ClusteringComparator,
        last: Option<&Unfiltered>,
        end_offset: u64,
        report: &mut VerifyReport,
    ) -> Result<()> {
        if let Some(last) = last {
            self.look_up(comparator, last, end_offset, report).await?;
        }
        self.check_last(last, report);
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
