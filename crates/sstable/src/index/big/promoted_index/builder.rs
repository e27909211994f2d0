//! This module builds the promoted index of the partition that is being written.
//!
//! A block is a sequence of rows and markers. It ends with the first of them at which it has
//! `column_index_size` bytes, but not inside a range deletion that the version cannot store. A
//! partition that fits into one block has no index.
//!
//! Memory: the index of one partition, up to 35 bytes and two positions for each block. The file
//! has the length of the index before the index itself, so the builder holds the index until the
//! partition ends.

use espalier_mutation::DeletionTime;
use espalier_types::CqlType;

use super::{
    super::error::BigIndexWriteError,
    layout::{MAX_BLOCKS_BYTES, encode_block_tail, encode_head},
    position::BlockPositionRef,
};
use crate::versions::DeletionTimeForm;

/// A builder that cuts partitions into blocks. For each partition, the caller calls
/// [`begin`](Self::begin) and [`end`](Self::end) around each row and marker, then
/// [`finish`](Self::finish). The builder must not be used after an error.
#[derive(Debug)]
pub struct PromotedIndexBuilder {
    form: DeletionTimeForm,
    column_index_size: u64,
    /// The encoded blocks. The last one is open if it has only its first position yet.
    blocks: Vec<u8>,
    /// Offset in `blocks` at which each block begins.
    places: Vec<u32>,
    /// Offset of the open block from the start of the partition in bytes.
    open: Option<u64>,
    first_offset: u64,
    last_end: u64,
}

impl PromotedIndexBuilder {
    /// Creates a builder for a file with this form of full deletion times. `column_index_size` is
    /// in bytes.
    pub fn new(form: DeletionTimeForm, column_index_size: u32) -> Self {
        Self {
            form,
            column_index_size: u64::from(column_index_size.max(1)),
            blocks: Vec::new(),
            places: Vec::new(),
            open: None,
            first_offset: 0,
            last_end: 0,
        }
    }

    /// Begins a row or marker at `offset` bytes of the partition.
    ///
    /// # Errors
    /// Returns [`BigIndexWriteError`] if a block begins here that the format cannot hold.
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

    /// Ends the row or marker at `offset` bytes of the partition. `open` is the range deletion in
    /// force after it.
    ///
    /// # Errors
    /// Returns [`BigIndexWriteError::Position`] if a block ends here and its position cannot be
    /// encoded.
    #[inline]
    pub fn end(
        &mut self,
        types: &[(CqlType, bool)],
        position: BlockPositionRef<'_>,
        offset: u64,
        open: DeletionTime,
    ) -> Result<(), BigIndexWriteError> {
        if self.is_block_full(offset) && self.holds(open) {
            self.close_block(types, position, offset, open)
        } else {
            Ok(())
        }
    }

    /// Returns whether the next row or marker begins a block.
    #[inline]
    pub(crate) fn is_between_blocks(&self) -> bool {
        self.open.is_none()
    }

    /// Returns whether a row or marker that ends at `offset` bytes of the partition fills a block.
    #[inline]
    pub(crate) fn is_block_full(&self, offset: u64) -> bool {
        let start = self.open.unwrap_or(offset);
        offset.saturating_sub(start) >= self.column_index_size
    }

    /// Ends the partition. `end_offset` is the offset of the byte that ends it, and `last` its last
    /// row or marker, if it has any. Replaces the content of `out` with the index, or clears it if
    /// the partition has none. The builder is then ready for another partition.
    ///
    /// # Errors
    /// Returns [`BigIndexWriteError::Position`] if the last position cannot be encoded.
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
            let end = end_offset.saturating_add(1);
            self.close_block(types, last, end, DeletionTime::LIVE)?;
        }
        if self.places.len() > 1 {
            let count = self.places.len() as u64;
            // The first block begins where the head of the partition ends.
            encode_head(self.first_offset, partition_deletion, count, self.form, out);
            out.extend_from_slice(&self.blocks);
            out.extend(self.places.iter().flat_map(|place| place.to_be_bytes()));
        }
        self.blocks.clear();
        self.places.clear();
        self.open = None;
        Ok(())
    }

    /// Returns whether a block can end inside this deletion. [`DeletionTimeForm::Unsigned`] cannot
    /// hold a negative timestamp, so no block ends inside a deletion that has one.
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
        let limit = MAX_BLOCKS_BYTES;
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
