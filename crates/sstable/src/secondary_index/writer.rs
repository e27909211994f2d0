//! Writes the entries of one index beside an SSTable that is being written.
//!
//! The blocks go to the file one after another. The trie that leads to them is kept in memory, and
//! is written behind them: its distances are relative, so it may lie at any page.
//!
//! Memory: one block, five entries, the buffer of the file, and some ten bytes of trie for each
//! block.

use espalier_runtime::file::FileSystem;
use espalier_trie::page::{PAGE_SIZE, PageTrieWriter, Sink, layout::MAX_DEPTH};

use super::{
    block_writer::{Begun, BlockWriter},
    layout::Description,
};
use crate::{
    append_file::{AppendFile, WrittenFile},
    components::{Component, Descriptor},
    error::{Result, SSTableError},
};

/// Bytes of the trie that are written at a time.
const TRIE_BYTES_AT_ONCE: usize = 64 << 10;

/// A writer of one component. The owner adds it to the SSTable's writer
/// ([`SSTableWriter::add_secondary_index`](crate::SSTableWriter::add_secondary_index)), which lists
/// the component. If the owner discards the SSTable, it drops this writer, too.
pub struct SecondaryIndexWriter {
    component: Component,
    file: AppendFile,
    blocks: BlockWriter,
    separators: PageTrieWriter,
    /// The finished part of the trie.
    trie: Vec<u8>,
    description: Description,
}

impl SecondaryIndexWriter {
    /// Creates the file. `signature` is the text by which a reader recognises the entries.
    ///
    /// # Errors
    /// Fails if the file exists or cannot be created.
    pub async fn create(
        file_system: &FileSystem,
        descriptor: &Descriptor,
        index: &str,
        signature: &str,
        is_durable: bool,
    ) -> Result<Self> {
        let component = Component::SecondaryIndex(index.into());
        let path = descriptor.path(&component);
        let file = AppendFile::create(file_system, &path, is_durable).await?;
        Ok(Self {
            component,
            file,
            blocks: BlockWriter::default(),
            separators: PageTrieWriter::new(0),
            trie: Vec::new(),
            description: Description { signature: signature.into(), ..Description::default() },
        })
    }

    /// Adds an entry, which must be above the last one. The caller must call
    /// [`make_room`](Self::make_room) regularly.
    ///
    /// # Errors
    /// Fails if the entry is out of order, malformed or too long.
    pub fn add(&mut self, entry: &[u8]) -> Result<()> {
        match self.blocks.add(&mut self.file, entry) {
            Ok(begun) => {
                self.description.entries += 1;
                begun.map_or(Ok(()), |begun| self.add_separator(begun, entry))
            }
            Err(reason) => Err(SSTableError::rejected(self.file.name(), reason)),
        }
    }

    /// Adds a separator for the block that begins with `entry` to the trie. The separator is the
    /// shortest prefix of `entry` that is above the last entry of the block before. The first block
    /// needs none. A search reaches a block without a separator from the block before.
    fn add_separator(&mut self, begun: Begun, entry: &[u8]) -> Result<()> {
        let separator = entry.get(..=begun.shared).unwrap_or(entry);
        if begun.page == 0 || separator.len() > MAX_DEPTH {
            return Ok(());
        }
        let page = begun.page.to_be_bytes();
        let payload = &page[begun.page.leading_zeros() as usize / 8..];
        let bits = payload.len() as u8;
        let added = self.separators.add(&mut self.trie, separator, bits, payload);
        added.map_err(|error| SSTableError::rejected(self.file.name(), error.to_string()))
    }

    /// Writes the buffered bytes once there are many.
    ///
    /// # Errors
    /// Fails if the write fails.
    pub async fn make_room(&mut self) -> Result<()> {
        self.file.flush_if_large().await
    }

    /// Writes the rest. The SSTable has `partitions` partitions.
    pub(crate) async fn finish(mut self, partitions: u64) -> Result<(Component, WrittenFile)> {
        let Self { blocks, file, trie, separators, description, .. } = &mut self;
        blocks.end_run(file);
        description.partitions = partitions;
        description.pages = blocks.pages();
        let blocks_end = description.pages * PAGE_SIZE as u64;
        if separators.key_count() > 0 {
            let root = separators.complete(trie);
            let root = root.map_err(|error| SSTableError::rejected(file.name(), error.to_string()));
            description.root = blocks_end + root?;
        }
        for part in trie.chunks(TRIE_BYTES_AT_ONCE) {
            file.append(part);
            file.flush_if_large().await?;
        }
        let mut out = Vec::new();
        description.encode(blocks_end + trie.len() as u64, &mut out);
        file.append(&out);
        Ok((self.component, self.file.finish().await?))
    }
}
