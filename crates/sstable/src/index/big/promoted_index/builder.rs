//! Makes the promoted index of the partition that is being written.
//!
//! A block is a run of unfiltereds that ends with the first one at which it has `column_index_size` bytes. A partition that
//! fits into one block has no index. Memory: the index of one partition, some 50 bytes and two positions for each block;
//! it comes before the next entry's key in the file, and its length comes first, so it is held until the partition ends.

use espalier_mutation::DeletionTime;
use espalier_types::CqlType;

use super::{
    super::error::BigIndexWriteError,
    layout::{
        LastBlockLength, MAXIMUM_BLOCKS_BYTES, PromotedBlock, encode_block_tail, encode_head,
    },
    position::BlockPositionRef,
};
use crate::versions::DeletionTimeForm;

/// Cuts partitions into blocks. Per partition: [`begin`](Self::begin) and [`end`](Self::end) around each unfiltered, then
/// [`finish`](Self::finish). After an error it is not to be continued.
#[derive(Debug)]
pub struct PromotedIndexBuilder {
    form: DeletionTimeForm,
    column_index_size: u64,
    last_block_length: LastBlockLength,
    /// Blocks; of the one that is open the first position.
    blocks: Vec<u8>,
    /// Where in `blocks` each begins.
    places: Vec<u32>,
    /// Offset of the open block from the start of the partition.
    open: Option<u64>,
    first_offset: u64,
    last_end: u64,
}

impl PromotedIndexBuilder {
    /// For a file whose full deletion times have this form; `column_index_size` is in bytes.
    pub fn new(
        form: DeletionTimeForm,
        column_index_size: u32,
        last_block_length: LastBlockLength,
    ) -> Self {
        Self {
            form,
            column_index_size: u64::from(column_index_size.max(1)),
            last_block_length,
            blocks: Vec::new(),
            places: Vec::new(),
            open: None,
            first_offset: 0,
            last_end: 0,
        }
    }

    /// Bytes that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.capacity() + self.places.capacity() * size_of::<u32>()
    }

    /// An unfiltered begins at `offset` of the partition.
    #[inline]
    pub fn begin(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
    ) -> Result<(), BigIndexWriteError> {
        match self.open {
            Some(_) => Ok(()),
            None => self.open_block(types, position, offset),
        }
    }

    /// The unfiltered ends at `offset` of the partition and leaves the range deletion `open` in force.
    #[inline]
    pub fn end(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
        open: DeletionTime,
    ) -> Result<(), BigIndexWriteError> {
        match self.is_block_full(offset) && self.holds(open) {
            true => self.close_block(types, position, offset, open),
            false => Ok(()),
        }
    }

    /// Whether the next unfiltered begins a block.
    #[inline]
    pub(crate) fn is_between_blocks(&self) -> bool {
        self.open.is_none()
    }

    /// Whether what ends at `offset` of the partition fills the block.
    #[inline]
    pub(crate) fn is_block_full(&self, offset: u64) -> bool {
        let start = self.open.unwrap_or(offset);
        offset.saturating_sub(start) >= self.column_index_size
    }

    /// Adds a block as it is. [`Self::begin`] and [`Self::end`] are for those who do not know blocks.
    pub fn add_block(
        &mut self,
        types: &[(CqlType, bool)],
        block: &PromotedBlock,
    ) -> Result<(), BigIndexWriteError> {
        self.open_block(types, block.first.as_ref(), block.offset)?;
        let end = block.offset.saturating_add(block.length);
        self.close_block(types, block.last.as_ref(), end, block.open_at_end)
    }

    /// The partition ends: the byte that says so is at `end_offset`. `last` is its last unfiltered, if it has any. Puts its
    /// index in place of what is in `out`; nothing if it has none. Then the builder is ready for another partition.
    pub fn finish(
        &mut self,
        types: &[(CqlType, bool)],
        last: Option<BlockPositionRef<'_>>,
        partition_deletion: DeletionTime,
        end_offset: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BigIndexWriteError> {
        out.clear();
        if let (Some(_), Some(last)) = (self.open, last)
            && self.places.len() > 1
        {
            let end = match self.last_block_length {
                LastBlockLength::WithEndOfPartition => end_offset.saturating_add(1),
                LastBlockLength::RowsOnly => end_offset,
            };
            self.close_block(types, last, end, DeletionTime::LIVE)?;
        }
        if self.places.len() > 1 {
            let count = self.places.len() as u64;
            // The first block begins where the partition's head ends.
            encode_head(self.first_offset, partition_deletion, count, self.form, out);
            out.extend_from_slice(&self.blocks);
            out.extend(self.places.iter().flat_map(|place| place.to_be_bytes()));
        }
        self.abandon();
        Ok(())
    }

    /// Forgets the partition.
    pub fn abandon(&mut self) {
        self.blocks.clear();
        self.places.clear();
        self.open = None;
    }

    /// Deletions with negative timestamps have no room in the newer form: a block does not end inside of one.
    fn holds(&self, open: DeletionTime) -> bool {
        let is_refused = self.form == DeletionTimeForm::Unsigned;
        !is_refused || open.is_live() || open.marked_for_delete_at >= 0
    }

    fn open_block(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
    ) -> Result<(), BigIndexWriteError> {
        if self.places.is_empty() {
            self.first_offset = offset;
        } else if offset < self.last_end {
            let previous = self.last_end;
            return Err(BigIndexWriteError::OutOfOrder { position: offset, previous });
        }
        let limit = MAXIMUM_BLOCKS_BYTES;
        let place = u32::try_from(self.blocks.len())
            .ok()
            .filter(|place| *place as usize <= limit)
            .ok_or(BigIndexWriteError::TooManyBlocks { limit })?;
        self.places.push(place);
        self.open = Some(offset);
        position.write(types, &mut self.blocks)
    }

    fn close_block(
        &mut self,
        types: &[(CqlType, bool)],
        last: BlockPositionRef<'_>,
        end: u64,
        open: DeletionTime,
    ) -> Result<(), BigIndexWriteError> {
        let Some(start) = self.open.take() else { return Ok(()) };
        last.write(types, &mut self.blocks)?;
        let length = end.saturating_sub(start);
        encode_block_tail(start, length, open, self.form, &mut self.blocks);
        self.last_end = end;
        Ok(())
    }
}
