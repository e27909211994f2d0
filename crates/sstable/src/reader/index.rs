//! The partition index, in either of its two formats.

use espalier_mutation::DecoratedKey;

use super::trie_keys::TrieKeyEncoder;
use crate::{
    error::FileName,
    index::{big::BigIndex, bti::partition_index::PartitionIndexReader},
    page_cache::CachedFile,
};

/// An opened partition index.
#[derive(Debug)]
pub(crate) enum Index {
    /// Partitions.db and Rows.db.
    Trie(TrieIndex),
    /// Index.db and Summary.db.
    Big(BigIndex<CachedFile>),
}

/// The partition index of the trie-indexed format.
#[derive(Debug)]
pub(crate) struct TrieIndex {
    pub(crate) partitions: PartitionIndexReader<CachedFile>,
    pub(crate) rows: CachedFile,
    pub(crate) keys: TrieKeyEncoder,
}

impl Index {
    /// Returns the file that maps keys to partitions.
    pub(crate) fn partitions_file(&self) -> &CachedFile {
        match self {
            Self::Trie(index) => index.partitions.source(),
            Self::Big(index) => index.file(),
        }
    }

    /// Returns the name of the file that maps keys to partitions.
    pub(crate) fn name(&self) -> &FileName {
        self.partitions_file().name()
    }

    /// Returns the length of the index files, in bytes, without Summary.db.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Trie(index) => index.partitions.source().length() + index.rows.length(),
            Self::Big(index) => index.file().length(),
        }
    }

    /// Returns the bytes of memory that the index takes as long as it is open.
    pub(crate) fn memory_size(&self) -> usize {
        match self {
            Self::Trie(_) => 0,
            Self::Big(index) => index.memory_bytes(),
        }
    }

    /// Returns the first and the last key.
    pub(crate) fn key_range(&self) -> (DecoratedKey, DecoratedKey) {
        let key = |bytes: &[u8]| DecoratedKey::new(bytes::Bytes::copy_from_slice(bytes));
        match self {
            Self::Trie(index) => {
                let footer = index.partitions.footer();
                (key(&footer.first_key), key(&footer.last_key))
            }
            Self::Big(index) => (index.first_key().clone(), index.last_key().clone()),
        }
    }
}
