//! Writes Rows.db.
//!
//! Memory: two positions, the last separator and what the trie's writer holds.

use espalier_mutation::DeletionTime;
use espalier_trie::page::{PageTrieWriter, Sink};

use super::super::error::IndexWriteError;
use super::layout::{BlockStart, NegativeDeletions, RowIndexEntry, encode_block};
use super::separator;

/// Writes the row index of one SSTable, partition by partition. The sink is the same in all calls,
/// and an empty file at first.
///
/// Per partition: [`RowIndexWriter::add_block`] for each block, then
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
    /// Memory of a partition's key.
    key: Vec<u8>,
}

impl RowIndexWriter {
    /// A writer for an empty file.
    pub fn new(negative: NegativeDeletions) -> RowIndexWriter {
        RowIndexWriter {
            trie: PageTrieWriter::new(0),
            negative,
            block_count: 0,
            last: Vec::new(),
            separator: Vec::new(),
            scratch: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Size of the file so far, in bytes.
    pub fn position(&self) -> u64 {
        self.trie.position()
    }

    /// Blocks of the current partition so far.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Bytes that the writer has allocated.
    pub fn memory_bytes(&self) -> usize {
        let own = self.last.capacity() + self.separator.capacity() + self.scratch.capacity();
        own + self.key.capacity() + self.trie.memory_bytes()
    }

    /// Adds a block. `first` and `last` are the byte-comparable positions of its first and last row or
    /// marker (the same if there is one), above those of the block before; `start.offset` counts from
    /// the start of the partition.
    pub fn add_block(
        &mut self,
        sink: &mut impl Sink,
        first: &[u8],
        last: &[u8],
        start: BlockStart,
    ) -> Result<(), IndexWriteError> {
        self.separator.clear();
        if self.block_count > 0 {
            separator::between(&self.last, first, &mut self.separator)
                .ok_or(IndexWriteError::OutOfOrder { number: self.block_count })?;
        }
        self.add_separator(sink, start)?;
        self.last.clear();
        self.last.extend_from_slice(last);
        self.block_count += 1;
        Ok(())
    }

    /// Finishes the partition. `end_offset` is the offset of its end-of-partition byte. Returns the
    /// position of its entry, for Partitions.db, or none if it has fewer than two blocks and therefore
    /// no entry: then nothing was written.
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
        self.scratch = std::mem::replace(&mut self.separator, last_separator);
        let end = BlockStart { offset: end_offset, open_deletion: DeletionTime::LIVE };
        self.add_separator(sink, end)?;
        let root = self.trie.complete(sink)?;
        let position = self.trie.position();
        let mut owned_key = std::mem::take(&mut self.key);
        owned_key.clear();
        owned_key.extend_from_slice(key);
        let entry =
            RowIndexEntry { key: owned_key, data_position, root, block_count, partition_deletion };
        self.scratch.clear();
        entry.encode(position, self.negative, &mut self.scratch)?;
        self.key = entry.key;
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
