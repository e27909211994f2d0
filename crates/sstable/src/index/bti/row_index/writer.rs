//! This module writes Rows.db.
//!
//! Memory: a position, two separators, an entry and the memory of the trie's writer.

use espalier_mutation::DeletionTime;
use espalier_trie::page::{PageTrieWriter, Sink, layout::MAX_DEPTH};
use espalier_types::byte_comparable::GT_NEXT;

use super::super::error::IndexWriteError;
use super::layout::{BlockStart, NegativeDeletions, RowIndexEntry, encode_block};
use super::separator;

/// A writer of the row index of one SSTable, partition by partition. The caller passes the same
/// sink to all calls; the sink is an empty file at first.
///
/// For each partition, the caller calls [`RowIndexWriter::add_block`] for each block, then
/// [`RowIndexWriter::finish_partition`].
#[derive(Debug)]
pub struct RowIndexWriter {
    trie: PageTrieWriter,
    negative: NegativeDeletions,
    block_count: u64,
    /// Last position of the last block.
    last: Vec<u8>,
    separator: Vec<u8>,
    scratch: Vec<u8>,
}

impl RowIndexWriter {
    /// Creates a writer for an empty file.
    pub fn new(negative: NegativeDeletions) -> RowIndexWriter {
        RowIndexWriter {
            trie: PageTrieWriter::new(0),
            negative,
            block_count: 0,
            last: Vec::new(),
            separator: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the length of the written file in bytes.
    pub fn position(&self) -> u64 {
        self.trie.position()
    }

    /// Returns the number of blocks added to the current partition.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Adds a block. `first` and `last` are the byte-comparable positions of its first and last row
    /// or marker (equal if it has only one), above the positions of the block before.
    /// `start.offset` counts bytes from the start of the partition. For the first block of a
    /// partition, `first` is ignored.
    ///
    /// If the last position of the block before and `first` share so many bytes that the trie
    /// cannot hold a separator, this call only extends the block before to the end of this block.
    ///
    /// # Errors
    /// Returns [`IndexWriteError`] if the positions do not increase, or if the format cannot hold
    /// the offset or the deletion.
    pub fn add_block(
        &mut self,
        sink: &mut impl Sink,
        first: &[u8],
        last: &[u8],
        start: BlockStart,
    ) -> Result<(), IndexWriteError> {
        let mut separator = std::mem::take(&mut self.scratch);
        separator.clear();
        if self.block_count > 0 {
            separator::between(&self.last, first, &mut separator)
                .ok_or(IndexWriteError::OutOfOrder { number: self.block_count })?;
        }
        let fits = separator.len() < MAX_DEPTH;
        if fits {
            self.scratch = std::mem::replace(&mut self.separator, separator);
            self.add_separator(sink, start)?;
            self.block_count += 1;
        } else {
            self.scratch = separator;
        }
        self.last.clear();
        self.last.extend_from_slice(last);
        Ok(())
    }

    /// Finishes the partition. `end_offset` is the offset of its end-of-partition byte. Returns the
    /// position of its entry, for Partitions.db. Returns `None` if the partition has fewer than two
    /// blocks and therefore no entry; then nothing was written.
    ///
    /// # Errors
    /// Returns [`IndexWriteError`] if the key is too long, or if the format cannot hold an offset
    /// or the deletion.
    pub fn finish_partition(
        &mut self,
        sink: &mut impl Sink,
        key: &[u8],
        data_position: u64,
        partition_deletion: DeletionTime,
        end_offset: u64,
    ) -> Result<Option<u64>, IndexWriteError> {
        if key.len() > usize::from(u16::MAX) {
            return Err(IndexWriteError::KeyTooLong { length: key.len() });
        }
        let block_count = std::mem::take(&mut self.block_count);
        if block_count < 2 {
            self.trie.abandon();
            return Ok(None);
        }
        let mut last_separator = std::mem::take(&mut self.scratch);
        separator::after(&self.separator, &self.last, &mut last_separator);
        if last_separator.len() >= MAX_DEPTH {
            // The trie cannot hold this separator either. One byte that sorts after all positions
            // replaces it.
            separator::after(&self.separator, &[GT_NEXT], &mut last_separator);
        }
        self.scratch = std::mem::replace(&mut self.separator, last_separator);
        let end = BlockStart { offset: end_offset, open_deletion: DeletionTime::LIVE };
        self.add_separator(sink, end)?;
        let root = self.trie.complete(sink)?;
        let position = self.trie.position();
        let entry = RowIndexEntry { key, data_position, root, block_count, partition_deletion };
        self.scratch.clear();
        entry.encode(position, self.negative, &mut self.scratch)?;
        sink.append(&self.scratch);
        self.trie.skip(self.scratch.len() as u64);
        Ok(Some(position))
    }

    fn add_separator(
        &mut self,
        sink: &mut impl Sink,
        start: BlockStart,
    ) -> Result<(), IndexWriteError> {
        self.scratch.clear();
        let bits = encode_block(start, self.negative, &mut self.scratch)?;
        Ok(self.trie.add(sink, &self.separator, bits, &self.scratch)?)
    }
}
