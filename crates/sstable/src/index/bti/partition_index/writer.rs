//! This module writes Partitions.db.
//!
//! The shortest unique prefix of a key depends on its successor, so the writer adds a key to the
//! trie only when the next key comes. Memory: two keys, the first key, and the memory of the trie's
//! writer.

use espalier_trie::page::{PageTrieWriter, Sink, common_prefix_length};

use super::super::error::IndexWriteError;
use super::layout::{Footer, IndexPosition, MAX_KEY_SIZE, encode_footer, encode_payload};

/// A writer of the partition index of one SSTable. The caller passes the same sink to all calls;
/// the sink is an empty file at first.
#[derive(Debug, Default)]
pub struct PartitionIndexWriter {
    trie: PageTrieWriter,
    /// The last key in byte-comparable form.
    pending: Vec<u8>,
    /// Payload of the last key: bits, bytes and their number.
    pending_payload: (u8, [u8; 9], usize),
    /// Length of the prefix that the last key shares with its predecessor.
    shared_with_previous: Option<usize>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    key_count: u64,
}

/// The result of writing a partition index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPartitionIndex {
    /// The part of the file after the trie.
    pub footer: Footer,
    /// Length of the file in bytes.
    pub file_size: u64,
}

impl PartitionIndexWriter {
    /// Creates a writer without keys.
    pub fn new() -> PartitionIndexWriter {
        PartitionIndexWriter::default()
    }

    /// Returns the number of keys added.
    pub fn key_count(&self) -> u64 {
        self.key_count
    }

    /// Adds a partition. `byte_comparable` is the whole byte-comparable form of the decorated key,
    /// which must be above the last one. `key` is the serialized key, and `hash_byte` the low byte
    /// of the second half of its Murmur3 hash.
    ///
    /// # Errors
    /// Returns [`IndexWriteError`] if the key is too long or not above the last one, or if the
    /// position is too large.
    pub fn add(
        &mut self,
        sink: &mut impl Sink,
        byte_comparable: &[u8],
        key: &[u8],
        hash_byte: u8,
        position: IndexPosition,
    ) -> Result<(), IndexWriteError> {
        if key.len() > MAX_KEY_SIZE {
            return Err(IndexWriteError::KeyTooLong { length: key.len() });
        }
        let payload = encode_payload(hash_byte, position)?;
        if self.key_count == 0 {
            self.first_key.extend_from_slice(key);
        } else {
            let shared = common_prefix_length(&self.pending, byte_comparable);
            match (self.pending.get(shared), byte_comparable.get(shared)) {
                (Some(last), Some(new)) if last < new => {}
                _ => return Err(IndexWriteError::OutOfOrder { number: self.key_count }),
            }
            let cut = self.shared_with_previous.map_or(shared, |other| shared.max(other)) + 1;
            self.add_pending(sink, cut)?;
            self.shared_with_previous = Some(shared);
        }
        self.pending.clear();
        self.pending.extend_from_slice(byte_comparable);
        self.pending_payload = payload;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.key_count += 1;
        Ok(())
    }

    /// Writes the rest of the trie, the first and the last key, and the footer.
    ///
    /// # Errors
    /// Returns [`IndexWriteError`] if the trie's writer rejects the last key or has no key.
    pub fn finish(
        mut self,
        sink: &mut impl Sink,
    ) -> Result<WrittenPartitionIndex, IndexWriteError> {
        // A single key needs no prefix: its leaf is the root.
        let cut = self.shared_with_previous.map_or(0, |shared| shared + 1);
        if self.key_count > 0 {
            self.add_pending(sink, cut)?;
        }
        let root = self.trie.complete(sink)?;
        let PartitionIndexWriter { first_key, last_key, key_count, .. } = self;
        let footer = Footer { first_key, last_key, key_count, root };
        let mut bytes = Vec::new();
        encode_footer(&footer, self.trie.position(), &mut bytes);
        sink.append(&bytes);
        Ok(WrittenPartitionIndex { footer, file_size: self.trie.position() + bytes.len() as u64 })
    }

    fn add_pending(&mut self, sink: &mut impl Sink, cut: usize) -> Result<(), IndexWriteError> {
        let prefix = self
            .pending
            .get(..cut)
            .ok_or(IndexWriteError::OutOfOrder { number: self.key_count })?;
        let (bits, payload, size) = &self.pending_payload;
        Ok(self.trie.add(sink, prefix, *bits, &payload[..*size])?)
    }
}
