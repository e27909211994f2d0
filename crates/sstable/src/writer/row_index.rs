//! `BlockBuilder` cuts a partition into blocks and passes them to the row index. Format:
//! docs/formats/row-index.md.
//!
//! A block is a sequence of rows and markers. It ends with the first of them at which it has
//! `column_index_size` bytes. The first block of a partition also ends at least `first_block_size`
//! bytes after the partition's start. A look-up reads at least a chunk or a page, so a shorter
//! partition needs no entry: the entry would be another page to read. A block does not end while a
//! range deletion with a negative timestamp is open, if the version cannot hold such a deletion at
//! the start of a block.
//!
//! The trie keeps separators in Cassandra's byte-comparable form. That form orders a few
//! *displaced* positions (NaN, empty values inside tuples and collections) differently from the
//! comparator that sorts the rows. No separator is made from a displaced position, so that
//! separators ascend and look-ups find all other positions. In tables that can have such positions,
//! a full block is *ending* until the next position shows whether a block may begin there.

use espalier_mutation::{DeletionTime, PositionRef};
use espalier_types::{
    CqlType,
    byte_comparable::{GT_NEXT, LT_NEXT, TERMINATOR, encode_component, encode_ordered_clustering},
};
use smallvec::SmallVec;

use crate::{
    append_file::{AppendFile, WrittenFile},
    data::clustering_values::borrowed,
    error::{Result, SSTableError},
    index::bti::row_index::{BlockStart, NegativeDeletions, RowIndexWriter},
    versions::VersionFeatures,
};

/// A builder of the blocks of the current partition.
pub(super) struct BlockBuilder {
    file: AppendFile,
    index: RowIndexWriter,
    column_index_size: u64,
    first_block_size: u64,
    holds_negative_deletions: bool,
    /// Start of the open block.
    block: Option<BlockStart>,
    /// Position at which the open block begins; out of date in a partition's first block.
    first: Vec<u8>,
    last: Vec<u8>,
    /// True if the open block ends, unless the next position is a displaced one.
    is_ending: bool,
    /// Buffer for the position after a block that is ending.
    next: Vec<u8>,
}

impl BlockBuilder {
    pub(super) fn new(
        file: AppendFile,
        features: &VersionFeatures,
        (column_index_size, first_block_size): (u32, u32),
    ) -> Self {
        let negative = features.negative_deletions;
        Self {
            file,
            index: RowIndexWriter::new(negative),
            column_index_size: u64::from(column_index_size.max(1)),
            first_block_size: first_block_size.into(),
            holds_negative_deletions: negative == NegativeDeletions::Extended,
            block: None,
            first: Vec::new(),
            last: Vec::new(),
            is_ending: false,
            next: Vec::new(),
        }
    }

    /// Begins the row or marker at the position of these values and this weight, at `offset` bytes
    /// of the partition. `open` is the range deletion in force.
    #[inline]
    pub(super) fn begin<'a>(
        &mut self,
        types: &[(CqlType, bool)],
        (values, weight): (impl Iterator<Item = Option<&'a [u8]>> + Clone, i8),
        offset: u64,
        open: DeletionTime,
    ) -> Result<()> {
        let start = BlockStart { offset, open_deletion: open };
        if self.block.is_none() {
            self.block = Some(start);
            // A separator lies between two blocks, so the index does not need the beginning of the
            // first one.
            if self.index.block_count() > 0 {
                encode_position(types, (values, weight), &mut self.first);
            }
        } else if self.is_ending {
            self.is_ending = false;
            encode_position(types, (values.clone(), weight), &mut self.next);
            if !is_displaced(types, values, &self.next) {
                self.add_block()?;
                self.block = Some(start);
                std::mem::swap(&mut self.first, &mut self.next);
            }
        }
        Ok(())
    }

    /// Ends the row or marker at `offset` bytes of the partition. `open` is the range deletion in
    /// force after it. The caller must call [`flush_if_large`](Self::flush_if_large) next.
    #[inline]
    pub(super) fn end<'a>(
        &mut self,
        types: &[(CqlType, bool)],
        (values, weight): (impl Iterator<Item = Option<&'a [u8]>> + Clone, i8),
        offset: u64,
        open: DeletionTime,
    ) -> Result<()> {
        let is_full = self.is_block_full(offset);
        let can_begin_anew =
            self.holds_negative_deletions || open.is_live() || open.marked_for_delete_at >= 0;
        if !is_full || !can_begin_anew {
            return Ok(());
        }
        encode_position(types, (values.clone(), weight), &mut self.last);
        if may_be_displaced(types) {
            self.is_ending = !is_displaced(types, values, &self.last);
            return Ok(());
        }
        self.add_block()
    }

    fn close_last_block(&mut self, types: &[(CqlType, bool)], last: PositionRef<'_>) -> Result<()> {
        if self.block.is_none() {
            return Ok(());
        }
        self.is_ending = false;
        encode_position(types, (borrowed(last.values), last.weight), &mut self.last);
        if is_displaced(types, borrowed(last.values), &self.last) {
            // This byte lies after all positions, and so does the separator made from it.
            self.last.clear();
            self.last.push(GT_NEXT);
        }
        self.add_block()
    }

    /// Returns whether the next row begins a block.
    #[inline]
    pub(super) fn is_between_blocks(&self) -> bool {
        self.block.is_none() || self.is_ending
    }

    /// Returns whether a row or marker that ends at `offset` bytes of the partition fills a block.
    #[inline]
    pub(super) fn is_block_full(&self, offset: u64) -> bool {
        // Later blocks need no exception from this minimum: they end after the first block, which
        // has reached it.
        offset >= self.first_block_size
            && self
                .block
                .is_some_and(|block| offset.saturating_sub(block.offset) >= self.column_index_size)
    }

    /// Returns whether [`flush_if_large`](Self::flush_if_large) would write something.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.file.is_large()
    }

    /// Writes out the buffer if it is large.
    pub(super) async fn flush_if_large(&mut self) -> Result<()> {
        self.file.flush_if_large().await
    }

    /// Adds the open block. Its last position must be in `last`.
    fn add_block(&mut self) -> Result<()> {
        let Some(block) = self.block.take() else { return Ok(()) };
        self.index
            .add_block(&mut self.file, &self.first, &self.last, block)
            .map_err(|error| SSTableError::rejected(self.file.name(), error.to_string()))
    }

    /// Ends the partition. `end_offset` is the offset of its end byte. Returns the position of its
    /// entry in Rows.db, if it has one. The caller must call
    /// [`flush_if_large`](Self::flush_if_large) next.
    pub(super) fn finish_partition(
        &mut self,
        types: &[(CqlType, bool)],
        last: Option<PositionRef<'_>>,
        key: &[u8],
        data_position: u64,
        deletion: DeletionTime,
        end_offset: u64,
    ) -> Result<Option<u64>> {
        // A partition that fits in one block has no index; the last block need not be full.
        match last {
            Some(last) if self.index.block_count() > 0 => self.close_last_block(types, last)?,
            _ => self.block = None,
        }
        self.is_ending = false;
        self.index
            .finish_partition(&mut self.file, key, data_position, deletion, end_offset)
            .map_err(|error| SSTableError::rejected(self.file.name(), error.to_string()))
    }

    /// Writes the rest of Rows.db.
    pub(super) async fn finish(self) -> Result<WrittenFile> {
        self.file.finish().await
    }
}

/// Encodes a position in byte-comparable form. Replaces the content of `out`.
fn encode_position<'a>(
    types: &[(CqlType, bool)],
    (values, weight): (impl Iterator<Item = Option<&'a [u8]>> + Clone, i8),
    out: &mut Vec<u8>,
) {
    debug_assert!(values.clone().count() <= types.len(), "more values than clustering columns");
    out.clear();
    for ((column_type, reversed), value) in types.iter().zip(values) {
        encode_component(column_type, *reversed, value, out);
    }
    out.push(match weight {
        0 => TERMINATOR,
        ..0 => LT_NEXT,
        1.. => GT_NEXT,
    });
}

/// Returns whether the byte-comparable form orders some positions differently from the comparator.
#[inline]
fn may_be_displaced(types: &[(CqlType, bool)]) -> bool {
    types.iter().any(|(column_type, _)| column_type.has_displaced_values())
}

/// Returns whether the position with these values is displaced. `encoded` is its byte-comparable
/// form.
#[inline]
fn is_displaced<'a>(
    types: &[(CqlType, bool)],
    values: impl Iterator<Item = Option<&'a [u8]>>,
    encoded: &[u8],
) -> bool {
    may_be_displaced(types) && differs(types, &values.collect::<SmallVec<[_; 4]>>(), encoded)
}

#[cold]
fn differs(types: &[(CqlType, bool)], values: &[Option<&[u8]>], encoded: &[u8]) -> bool {
    let terminator = encoded.last().copied().unwrap_or(TERMINATOR);
    let mut ordered = Vec::with_capacity(encoded.len());
    encode_ordered_clustering(types, values, terminator, &mut ordered);
    ordered != encoded
}
