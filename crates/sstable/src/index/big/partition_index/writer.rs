//! This module writes Index.db. Memory: the head of one entry.

use espalier_trie::page::Sink;

use super::{super::error::BigIndexWriteError, layout::encode_head};

/// A writer of Index.db, which appends entries to a file that is empty at first. The caller passes
/// the same sink to all calls.
#[derive(Debug, Default)]
pub struct PartitionIndexWriter {
    position: u64,
    key_count: u64,
    last_data_position: u64,
    scratch: Vec<u8>,
}

impl PartitionIndexWriter {
    /// Creates a writer for an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of entries written.
    pub fn key_count(&self) -> u64 {
        self.key_count
    }

    /// Returns the length of the written file in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends an entry and returns its position. The caller must append keys in the order of
    /// Data.db. `promoted` is the output of
    /// [`PromotedIndexBuilder`](super::super::promoted_index::PromotedIndexBuilder).
    ///
    /// # Errors
    /// Returns [`BigIndexWriteError`] if the key is too long, or if positions in Data.db do not
    /// increase.
    pub fn append(
        &mut self,
        sink: &mut impl Sink,
        key: &[u8],
        data_position: u64,
        promoted: Option<&[u8]>,
    ) -> Result<u64, BigIndexWriteError> {
        if key.len() > usize::from(u16::MAX) {
            return Err(BigIndexWriteError::KeyTooLong { length: key.len() });
        }
        if self.key_count > 0 && data_position <= self.last_data_position {
            let previous = self.last_data_position;
            return Err(BigIndexWriteError::OutOfOrder { position: data_position, previous });
        }
        let promoted = promoted.unwrap_or_default();
        self.scratch.clear();
        encode_head(key, data_position, promoted.len() as u64, &mut self.scratch);
        sink.append(&self.scratch);
        sink.append(promoted);
        let position = self.position;
        self.position += (self.scratch.len() + promoted.len()) as u64;
        self.key_count += 1;
        self.last_data_position = data_position;
        Ok(position)
    }
}
