//! What a memtable keeps its contents in: an ordered map from paths to contents, of one of several kinds.
//!
//! All kinds promise what the trie does: what a [`StorePartition`] changes is seen wholly or not at all; a
//! [`StoreSnapshot`] stays as it was when it was taken; keys come in the order of their bytes. The methods have the names
//! of the trie's own. Kinds are told apart by a `match`, once for each operation, so that the compiler sees through it.

mod entries;
mod snapshot;
mod view;
mod write;

use espalier_trie::{
    cursor::Direction,
    memory::{InMemoryTrie, TrieFull},
};

pub(super) use entries::Entries;
pub(super) use snapshot::StoreSnapshot;
pub(super) use view::PartitionView;
pub(super) use write::StorePartition;

use super::content::Content;

/// The contents of a memtable.
pub(super) enum Store {
    Trie(InMemoryTrie<Content>),
}

/// There is no room left in this store, whatever the memory: nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreFull;

impl From<TrieFull> for StoreFull {
    fn from(_: TrieFull) -> Self {
        Self
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::Trie(InMemoryTrie::new())
    }
}

impl Store {
    /// The content of a key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&Content> {
        match self {
            Self::Trie(trie) => trie.get(key),
        }
    }

    /// Maps `key` to what `change` makes of its present content. `change` is not called when there is no room.
    #[inline]
    pub(super) fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        match self {
            Self::Trie(trie) => Ok(trie.put_with(key, change)?),
        }
    }

    /// Changes below `prefix` that readers see all at once.
    #[inline]
    pub(super) fn transaction(&mut self, prefix: &[u8]) -> StorePartition<'_> {
        match self {
            Self::Trie(trie) => StorePartition::Trie(trie.transaction(prefix)),
        }
    }

    /// What is below `prefix`.
    #[inline]
    pub(super) fn subtrie<'a>(&'a self, prefix: &'a [u8]) -> PartitionView<'a> {
        match self {
            Self::Trie(trie) => PartitionView::Trie(trie.subtrie(prefix)),
        }
    }

    /// What is below `prefix` now, to be read later.
    pub(super) fn snapshot(&self, prefix: &[u8]) -> StoreSnapshot {
        match self {
            Self::Trie(trie) => StoreSnapshot::Trie(trie.snapshot(prefix)),
        }
    }

    /// All keys and contents in order.
    pub(super) fn entries(&self, direction: Direction) -> Entries<'_> {
        match self {
            Self::Trie(trie) => Entries::Trie(trie.entries(direction)),
        }
    }

    /// Whether there is any snapshot: then what is replaced is kept.
    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        match self {
            Self::Trie(trie) => trie.has_readers(),
        }
    }

    /// Whether there is no content at all.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Trie(trie) => trie.is_empty(),
        }
    }

    /// Number of keys.
    #[inline]
    pub(super) fn content_count(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.content_count(),
        }
    }

    /// Bytes of what can be reached. What contents point to is not counted.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.used_bytes(),
        }
    }

    /// Bytes of what was taken out but may still have readers.
    #[inline]
    pub(super) fn retired_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.retired_bytes(),
        }
    }

    /// Bytes of memory taken, whatever they are used for, without [`Self::note_bytes`].
    #[inline]
    pub(super) fn allocated_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.allocated_bytes(),
        }
    }

    /// Bytes of the bookkeeping beside them.
    #[inline]
    pub(super) fn note_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.note_bytes(),
        }
    }

    /// The used bytes of the trie that is fullest: each has its own limit. 0 where there is no such limit.
    #[inline]
    pub(super) fn fullest_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.used_bytes(),
        }
    }

    /// Frees what was retired and has no readers any more, at most `count` pieces. Returns the bytes that remain retired.
    pub(super) fn free_retired(&mut self, count: u32) -> usize {
        match self {
            Self::Trie(trie) => trie.free_retired(count),
        }
    }
}
