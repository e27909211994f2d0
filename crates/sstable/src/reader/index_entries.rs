//! Iterates over all entries of the index in order, to compare them with Data.db.

use espalier_mutation::DecoratedKey;

use super::{
    index::{Index, TrieIndex},
    sstable_reader::SSTableReader,
};
use crate::{
    error::Result,
    index::{
        big::partition_index::Entries,
        bti::partition_index::{Candidate, IndexPosition, PartitionCursor},
    },
    page_cache::{CachedFile, Caching},
};

/// A cursor that stands before the first entry, or at an entry.
pub(crate) enum IndexEntries<'reader> {
    Trie {
        reader: &'reader SSTableReader,
        trie: &'reader TrieIndex,
        cursor: PartitionCursor<CachedFile>,
        has_begun: bool,
    },
    Big(Entries<CachedFile>),
}

impl SSTableReader {
    /// Returns a cursor before the first entry.
    pub(crate) fn index_entries(&self, caching: Caching) -> IndexEntries<'_> {
        match &self.0.index {
            Index::Trie(trie) => {
                let pages = trie.partitions.source().for_one_read(caching);
                let cursor = trie.partitions.cursor(pages);
                IndexEntries::Trie { reader: self, trie, cursor, has_begun: false }
            }
            Index::Big(index) => IndexEntries::Big(index.entries()),
        }
    }
}

impl IndexEntries<'_> {
    /// Returns the next partition's position in Data.db, and its key if the index stores it.
    pub(crate) async fn next(&mut self) -> Result<Option<(u64, Option<DecoratedKey>)>> {
        match self {
            Self::Trie { reader, trie, cursor, has_begun } => {
                let candidate = if !std::mem::replace(has_begun, true) {
                    cursor.first().await
                } else {
                    cursor.next().await
                };
                match candidate.map_err(|error| reader.partitions_error(error))? {
                    Some(Candidate { position: IndexPosition::Data(position), .. }) => {
                        Ok(Some((position, None)))
                    }
                    Some(candidate) => {
                        let (position, key) =
                            reader.resolve(trie, candidate, Caching::Private).await?;
                        Ok(Some((position, Some(key))))
                    }
                    None => Ok(None),
                }
            }
            Self::Big(entries) => {
                Ok(entries.next().await?.map(|entry| (entry.data_position, Some(entry.key))))
            }
        }
    }

    /// Returns the prefix of the key's byte-comparable form that leads to the last returned entry;
    /// `None` if the index is no trie.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        match self {
            Self::Trie { cursor, .. } => Some(cursor.prefix()),
            Self::Big(_) => None,
        }
    }
}
