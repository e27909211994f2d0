//! One structure: a trie or a skip list.

use espalier_trie::{
    cursor::Direction,
    memory::{InMemoryTrie, IncrementalDrop, Reader},
};

use super::{
    super::{MemtableBudget, Structure, content::Content},
    Entries, PartitionView, StoreFull, StorePartition, StoreSnapshot,
    skip_list::{ListView, Remains as ListRemains, SkipList},
    write::ListPartition,
};

/// One ordered map from paths to contents. Its methods are those of [`super::Store`].
#[allow(clippy::large_enum_variant)] // Inline, it saves a pointer on each access; few exist.
pub(crate) enum Single {
    Trie(InMemoryTrie<Content>),
    SkipList(Box<SkipList>),
}

/// The rest of a structure that has to be freed, perhaps on another thread.
#[allow(clippy::large_enum_variant)] // It lives only until it is freed.
pub(super) enum Remains {
    Trie(IncrementalDrop<Content>),
    SkipList { _list: ListRemains },
}

impl Remains {
    /// Frees up to `count` contents. Returns `false` if no more can be freed on their own: a list
    /// is freed as a whole, and a trie that still has readers is freed by the last of them.
    pub(super) fn free_some(&mut self, count: u32) -> bool {
        match self {
            Self::Trie(trie) => !trie.has_readers() && trie.drop_contents(count),
            Self::SkipList { .. } => false,
        }
    }
}

impl Single {
    pub(super) fn new(structure: Structure, budget: &MemtableBudget) -> Self {
        match structure {
            Structure::Trie => {
                let trie = InMemoryTrie::with_chunk_pool(budget.chunk_pool().clone());
                let blocks = u32::try_from(budget.trie_bytes() / size_of::<Content>());
                let trie = trie.limited_to(blocks.unwrap_or(u32::MAX));
                Self::Trie(trie.with_weight(Content::heap_bytes))
            }
            Structure::SkipList => Self::SkipList(Box::new(SkipList::new())),
        }
    }

    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&Content> {
        match self {
            Self::Trie(trie) => trie.get(key),
            Self::SkipList(list) => list.get(key),
        }
    }

    #[inline]
    pub(super) fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        match self {
            Self::Trie(trie) => Ok(trie.put_with(key, change)?),
            Self::SkipList(list) => {
                let result = list.put_with(key, change);
                list.settle();
                result
            }
        }
    }

    #[inline]
    pub(super) fn transaction(&mut self, prefix: &[u8]) -> StorePartition<'_> {
        match self {
            Self::Trie(trie) => StorePartition::Trie(trie.transaction(prefix)),
            Self::SkipList(list) => StorePartition::SkipList(ListPartition::new(list, prefix)),
        }
    }

    #[inline]
    pub(super) fn subtrie<'a>(&'a self, prefix: &'a [u8]) -> PartitionView<'a> {
        match self {
            Self::Trie(trie) => PartitionView::Trie(trie.subtrie(prefix)),
            Self::SkipList(list) => PartitionView::SkipList(ListView::new(list, prefix)),
        }
    }

    pub(super) fn snapshot(&self, prefix: &[u8]) -> StoreSnapshot {
        match self {
            Self::Trie(trie) => StoreSnapshot::Trie(trie.snapshot(prefix)),
            Self::SkipList(list) => StoreSnapshot::SkipList(list.snapshot(), prefix.into()),
        }
    }

    /// Returns a handle for other threads; only a trie has one.
    pub(super) fn reader(&self) -> Option<Reader<Content>> {
        match self {
            Self::Trie(trie) => Some(trie.reader()),
            Self::SkipList(_) => None,
        }
    }

    pub(super) fn entries(&self, direction: Direction) -> Entries<'_> {
        match self {
            Self::Trie(trie) => Entries::Trie(trie.entries(direction)),
            Self::SkipList(list) => Entries::SkipList(ListView::new(list, &[]).entries(direction)),
        }
    }

    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        match self {
            Self::Trie(trie) => trie.has_readers(),
            Self::SkipList(list) => list.has_readers(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Trie(trie) => trie.is_empty(),
            Self::SkipList(list) => list.content_count() == 0,
        }
    }

    #[inline]
    pub(super) fn content_count(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.content_count(),
            Self::SkipList(list) => list.content_count(),
        }
    }

    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.used_bytes(),
            Self::SkipList(list) => list.used_bytes(),
        }
    }

    #[cfg(test)]
    pub(super) fn retired_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => trie.retired_bytes(),
            Self::SkipList(list) => list.retired_bytes(),
        }
    }

    /// Returns the sum of the allocated bytes, the bytes of the bookkeeping, and the bytes to which
    /// retired contents point.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Trie(trie) => {
                trie.allocated_bytes() + trie.record_bytes() + trie.retired_weight()
            }
            Self::SkipList(list) => list.memory_bytes(),
        }
    }

    #[inline]
    pub(super) fn fullest_bytes(&self) -> usize {
        match self {
            // Retired blocks are not free either.
            Self::Trie(trie) => trie.used_bytes() + trie.retired_bytes(),
            Self::SkipList(_) => 0,
        }
    }

    pub(super) fn free_retired(&mut self, count: u32) -> usize {
        match self {
            Self::Trie(trie) => trie.free_retired(count),
            Self::SkipList(list) => list.free_retired(count),
        }
    }

    pub(super) fn into_remains(self) -> Remains {
        match self {
            Self::Trie(trie) => Remains::Trie(trie.drop_incrementally()),
            Self::SkipList(list) => Remains::SkipList { _list: list.into_remains() },
        }
    }
}
