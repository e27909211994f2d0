//! Writes the entries of one index beside an SSTable that is being written.
//!
//! Memory: one key, and the memory of the trie's writer.

use espalier_runtime::file::FileSystem;
use espalier_trie::page::{PageTrieWriter, Sink, WriteError};

use super::layout::{Description, ENTRY_BITS, Segment};
use crate::{
    append_file::{AppendFile, WrittenFile},
    components::{Component, Descriptor},
    error::{Result, SSTableError},
};

/// A writer of one component. The owner adds it to the SSTable's writer
/// ([`SSTableWriter::add_secondary_index`](crate::SSTableWriter::add_secondary_index)), which lists
/// the component, or drops it with the SSTable.
pub struct SecondaryIndexWriter {
    component: Component,
    file: AppendFile,
    trie: PageTrieWriter,
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
        let description = Description { signature: signature.into(), segments: Vec::new() };
        Ok(Self { component, file, trie: PageTrieWriter::new(0), description })
    }

    /// Adds an entry, which must be above the last one of its segment. The caller must call
    /// [`make_room`](Self::make_room) every now and then.
    ///
    /// # Errors
    /// Fails if the entry is out of order or too long.
    pub fn add(&mut self, entry: &[u8]) -> Result<()> {
        let added = self.trie.add(&mut self.file, entry, ENTRY_BITS, &[]);
        added.map_err(|error| self.rejected(error))
    }

    /// Writes the buffered bytes once they are many.
    ///
    /// # Errors
    /// Fails if the write fails.
    pub async fn make_room(&mut self) -> Result<()> {
        self.file.flush_if_large().await
    }

    /// Ends a segment: the next entry may be below the last one. A segment without entries is not
    /// written.
    ///
    /// # Errors
    /// Fails if the trie's writer does.
    pub fn end_segment(&mut self) -> Result<()> {
        let entries = self.trie.key_count();
        if entries == 0 {
            return Ok(());
        }
        let root = self.trie.complete(&mut self.file).map_err(|error| self.rejected(error))?;
        self.description.segments.push(Segment { root, entries });
        Ok(())
    }

    /// Writes the rest.
    pub(crate) async fn finish(mut self) -> Result<(Component, WrittenFile)> {
        self.end_segment()?;
        let mut out = Vec::new();
        self.description.encode(self.trie.position(), &mut out);
        self.file.append(&out);
        Ok((self.component, self.file.finish().await?))
    }

    fn rejected(&self, error: WriteError) -> SSTableError {
        SSTableError::rejected(self.file.name(), error.to_string())
    }
}
