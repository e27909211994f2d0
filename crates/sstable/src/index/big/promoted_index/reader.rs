//! This module reads a promoted index: a block by its number, or by binary search.
//!
//! The reader holds the head of the index and the positions of the other parts, but no blocks. Each
//! look-up reads the places and blocks that it needs, and checks them: a place lies inside the
//! index, and a block begins where the block before it ends.

use std::sync::Arc;

use espalier_mutation::{DeletionTime, PositionRef};

use super::{
    super::{
        file::{IndexFile, read_span},
        partition_index::PromotedLocation,
    },
    layout::{
        BlockSpans, MAX_HEAD_BYTES, MIN_BLOCK_BYTES, PLACE_BYTES, PromotedBlock, decode_head,
    },
    position::PositionFormat,
};
use crate::{
    error::{Result, SSTableError},
    versions::DeletionTimeForm,
};

/// A block as the row reader uses it. Offsets are in bytes from the start of the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block, from 0.
    pub number: u64,
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte. For the last block, this may be the offset of the byte that ends
    /// the partition, or the offset after that byte.
    pub end: u64,
    /// The range deletion that is open at the start of the block, or [`DeletionTime::LIVE`].
    pub open_deletion: DeletionTime,
    /// True if it is the last block.
    pub is_last: bool,
}

/// A reader of the promoted index of one partition.
#[derive(Clone, Debug)]
pub struct PromotedIndexReader<F> {
    file: F,
    format: Arc<PositionFormat>,
    form: DeletionTimeForm,
    location: PromotedLocation,
    header_length: u64,
    partition_deletion: DeletionTime,
    block_count: u64,
    /// Position in Index.db of the first block.
    blocks_start: u64,
    /// Position in Index.db of the first block's place.
    places_start: u64,
}

impl<F: IndexFile> PromotedIndexReader<F> {
    /// Reads the head before the blocks. `location` comes from an entry of Index.db.
    ///
    /// # Errors
    /// Fails if the location or the head is corrupt, or if the file cannot be read.
    pub async fn open(
        file: F,
        location: PromotedLocation,
        format: Arc<PositionFormat>,
        form: DeletionTimeForm,
    ) -> Result<Self> {
        let corrupt = |reason| SSTableError::corrupt(file.name(), location.start, reason);
        let end = location.start.checked_add(location.length);
        let Some(end) = end.filter(|end| *end <= file.length()) else {
            return Err(corrupt("an index of rows extends past the end of the file"));
        };
        let length = location.length.min(MAX_HEAD_BYTES as u64) as usize;
        let bytes = read_span(&file, location.start, length).await?;
        let head = decode_head(&bytes, form).map_err(|wrong| corrupt(wrong.reason()))?;
        let left = location.length.saturating_sub(head.length as u64);
        let places_length = head
            .block_count
            .checked_mul(PLACE_BYTES)
            .filter(|length| *length < left && head.block_count <= left / MIN_BLOCK_BYTES);
        let Some(places_length) = places_length.filter(|_| head.block_count > 0) else {
            return Err(corrupt("the number of blocks does not fit the index's length"));
        };
        Ok(Self {
            location,
            header_length: head.header_length,
            partition_deletion: head.partition_deletion,
            block_count: head.block_count,
            blocks_start: location.start + head.length as u64,
            places_start: end - places_length,
            file,
            format,
            form,
        })
    }

    /// Returns the deletion of the whole partition.
    pub fn partition_deletion(&self) -> DeletionTime {
        self.partition_deletion
    }

    /// Returns the length of the partition's head in Data.db in bytes: key, deletion and static
    /// row.
    pub fn header_length(&self) -> u64 {
        self.header_length
    }

    /// Returns the number of blocks, which is at least 1.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Returns Index.db.
    pub fn file(&self) -> &F {
        &self.file
    }

    /// Returns the location of the promoted index in Index.db.
    pub fn location(&self) -> PromotedLocation {
        self.location
    }

    /// Returns the first block that ends at or after `position`. All rows before the block are
    /// before `position`. Returns `None` if all rows of the partition are before `position`.
    ///
    /// # Errors
    /// Fails if a block that the search reads is corrupt, or if the file cannot be read.
    pub async fn floor_block(&self, position: PositionRef<'_>) -> Result<Option<Block>> {
        let comparator = self.format.comparator();
        let is_before =
            |block: &BlockSpans| block.last.compare(&block.bytes, comparator, position).is_lt();
        let found = self.partition_point(is_before).await?;
        match &found.block {
            Some(block) => self.follow(found.number, found.before.as_ref(), block).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the last block that begins at or before `position`. All rows after the block are
    /// after `position`. Returns the first block if no block fits.
    ///
    /// # Errors
    /// Fails if a block that the search reads is corrupt, or if the file cannot be read.
    pub async fn end_block(&self, position: PositionRef<'_>) -> Result<Block> {
        let comparator = self.format.comparator();
        let is_before =
            |block: &BlockSpans| block.first.compare(&block.bytes, comparator, position).is_le();
        let found = self.partition_point(is_before).await?;
        match (found.number.checked_sub(1), &found.before) {
            (Some(number), Some(block)) => {
                let before = self.read_before(number).await?;
                self.follow(number, before.as_ref(), block)
            }
            _ => self.block(0).await,
        }
    }

    /// Returns block `number`.
    ///
    /// # Errors
    /// Fails if there is no such block, if it is corrupt, or if the file cannot be read.
    pub async fn block(&self, number: u64) -> Result<Block> {
        let before = self.read_before(number).await?;
        self.follow(number, before.as_ref(), &self.read(number).await?)
    }

    /// Returns the last block.
    ///
    /// # Errors
    /// Fails if the block is corrupt, or if the file cannot be read.
    pub async fn last_block(&self) -> Result<Block> {
        self.block(self.block_count - 1).await
    }

    /// Returns block `number` as the index stores it, not checked against the other blocks.
    ///
    /// # Errors
    /// Fails if there is no such block, if it is corrupt, or if the file cannot be read.
    pub async fn promoted_block(&self, number: u64) -> Result<PromotedBlock> {
        Ok(self.read(number).await?.to_block())
    }

    /// Finds the first block for which `is_before` is false, by binary search. Returns it and the
    /// block before it, if they exist; the search has read both.
    async fn partition_point(&self, is_before: impl Fn(&BlockSpans) -> bool) -> Result<Found> {
        let (mut low, mut high) = (0, self.block_count);
        let (mut before, mut block) = (None, None);
        while low < high {
            let middle = low + (high - low) / 2;
            let spans = self.read(middle).await?;
            if is_before(&spans) {
                low = middle + 1;
                before = Some(spans);
            } else {
                high = middle;
                block = Some(spans);
            }
        }
        Ok(Found { number: low, before, block })
    }

    /// Combines a block with the end and the open deletion of the block before it. Fails if the
    /// block does not begin where the block before it ends.
    fn follow(
        &self,
        number: u64,
        before: Option<&BlockSpans>,
        block: &BlockSpans,
    ) -> Result<Block> {
        let (start, open_deletion) = match before {
            Some(before) => (before.offset + before.length, before.open_at_end),
            None => (self.header_length, DeletionTime::LIVE),
        };
        if block.offset != start {
            let reason = format!("block {number} does not begin where the one before ends");
            return Err(self.corrupt(reason));
        }
        let is_last = number + 1 == self.block_count;
        Ok(Block { number, start, end: start + block.length, open_deletion, is_last })
    }

    async fn read_before(&self, number: u64) -> Result<Option<BlockSpans>> {
        match number.checked_sub(1) {
            Some(before) => self.read(before).await.map(Some),
            None => Ok(None),
        }
    }

    async fn read(&self, number: u64) -> Result<BlockSpans> {
        if number >= self.block_count {
            return Err(
                self.corrupt(format!("there are {} blocks, not {number}", self.block_count))
            );
        }
        // The place of the block and, if there is another block, the next place.
        let count = if number + 1 == self.block_count { 1 } else { 2 };
        let position = self.places_start + number * PLACE_BYTES;
        let places = read_span(&self.file, position, PLACE_BYTES as usize * count).await?;
        let blocks_length = self.places_start - self.blocks_start;
        let place = |index: usize| {
            let bytes = places.get(index * 4..).and_then(|bytes| bytes.first_chunk::<4>());
            bytes.map_or(blocks_length, |bytes| u64::from(u32::from_be_bytes(*bytes)))
        };
        let (start, end) = (place(0), place(1));
        let is_first_right = number > 0 || start == 0;
        let length = end.checked_sub(start).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length > 0 && end <= blocks_length && is_first_right);
        let Some(length) = length else {
            let reason = "offsets of blocks do not start at 0, do not increase, or are too large";
            return Err(SSTableError::corrupt(self.file.name(), position, reason));
        };
        let position = self.blocks_start + start;
        let bytes = read_span(&self.file, position, length).await?;
        BlockSpans::decode(bytes, &self.format, self.form)
            .map_err(|wrong| SSTableError::corrupt(self.file.name(), position, wrong.reason()))
    }

    fn corrupt(&self, reason: String) -> SSTableError {
        SSTableError::corrupt(self.file.name(), self.location.start, reason)
    }
}

/// The result of a binary search: the number of the found block, the block before it, and the block
/// itself, if they exist.
struct Found {
    number: u64,
    before: Option<BlockSpans>,
    block: Option<BlockSpans>,
}
