//! The store of a memtable's contents: an ordered map from paths to contents, of one of several
//! kinds.
//!
//! All kinds have the guarantees of the trie: the changes of a [`StorePartition`] are seen wholly
//! or not at all; a [`StoreSnapshot`] stays as it was when it was taken; keys come in the order of
//! their bytes. The methods have the names of the trie's own. Each operation selects the kind by
//! one `match`, so that the compiler can inline it.

mod entries;
mod sharded;
mod single;
mod skip_list;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;
mod write;

use espalier_runtime::ShardContext;
use espalier_trie::{
    cursor::Direction,
    memory::{InMemoryTrie, Reader, TrieFull},
};

pub(super) use entries::Entries;
pub(super) use sharded::PartMap;
pub(super) use snapshot::StoreSnapshot;
pub(super) use view::PartitionView;
pub(super) use write::StorePartition;

use super::{MemtableBudget, MemtableKind, content::Content};
use sharded::Sharded;
use single::{Remains, Single};

/// The contents of a memtable.
#[allow(clippy::large_enum_variant)] // As for `Single`.
pub(super) enum Store {
    Single(Single),
    Sharded(Sharded),
}

impl Default for Store {
    /// Returns a placeholder that will not be used.
    fn default() -> Self {
        Self::Single(Single::Trie(InMemoryTrie::new()))
    }
}

/// The error of a store that has reached its own size limit, even if memory is free. The failed
/// operation has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreFull;

impl From<TrieFull> for StoreFull {
    fn from(_: TrieFull) -> Self {
        Self
    }
}

/// The rest of a store that has to be freed, perhaps on another thread.
pub(super) struct StoreRemains {
    parts: Vec<Remains>,
}

impl StoreRemains {
    /// Frees up to `count` contents. Returns `false` if no more can be freed on their own; the rest
    /// goes when this is dropped.
    pub(super) fn free_some(&mut self, count: u32) -> bool {
        self.parts.iter_mut().any(|part| part.free_some(count))
    }
}

impl Store {
    /// Creates an empty store for a core. Tries take their large chunks from the chunk pool.
    pub(super) fn new(kind: MemtableKind, core: ShardContext, budget: &MemtableBudget) -> Self {
        let single = || Single::new(kind.structure, budget);
        match kind.shards {
            0 | 1 => Self::Single(single()),
            shards => Self::Sharded(Sharded::new(shards, core, single)),
        }
    }

    /// Returns the part with the keys that begin with `path`. `path` begins with the path of a
    /// partition.
    #[inline]
    fn part(&self, path: &[u8]) -> &Single {
        match self {
            Self::Single(single) => single,
            Self::Sharded(sharded) => sharded.part(path),
        }
    }

    #[inline]
    fn part_mut(&mut self, path: &[u8]) -> &mut Single {
        match self {
            Self::Single(single) => single,
            Self::Sharded(sharded) => sharded.part_mut(path),
        }
    }

    #[inline]
    fn sum(&self, of: impl Fn(&Single) -> usize) -> usize {
        match self {
            Self::Single(single) => of(single),
            Self::Sharded(sharded) => sharded.parts().iter().map(of).sum(),
        }
    }

    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&Content> {
        self.part(key).get(key)
    }

    /// Returns whether [`Store::look_ahead`] does anything: only a single trie does.
    pub(super) fn looks_ahead(&self) -> bool {
        matches!(self, Self::Single(Single::Trie(_)))
    }

    /// Prefetches into the processor's caches the memory that look-ups of these keys will read.
    /// Calls `met` with each content found.
    pub(super) fn look_ahead<'key>(
        &self,
        keys: impl IntoIterator<Item = &'key [u8]>,
        mut met: impl FnMut(&Content),
    ) {
        if let Self::Single(Single::Trie(trie)) = self {
            trie.look_ahead(keys, |_, content| met(content));
        }
    }

    /// Maps `key` to the content that `change` makes of the present one. If there is no room,
    /// `change` is not called.
    #[inline]
    pub(super) fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        self.part_mut(key).put_with(key, change)
    }

    /// Begins changes below the path of a partition. Readers see all of these changes at once.
    #[inline]
    pub(super) fn transaction(&mut self, prefix: &[u8]) -> StorePartition<'_> {
        self.part_mut(prefix).transaction(prefix)
    }

    /// Returns the view below the path of a partition.
    #[inline]
    pub(super) fn subtrie<'a>(&'a self, prefix: &'a [u8]) -> PartitionView<'a> {
        self.part(prefix).subtrie(prefix)
    }

    /// Takes a snapshot of the contents below the path of a partition.
    pub(super) fn snapshot(&self, prefix: &[u8]) -> StoreSnapshot {
        self.part(prefix).snapshot(prefix)
    }

    /// Walks over all keys and contents in order.
    pub(super) fn entries(&self, direction: Direction) -> Entries<'_> {
        match self {
            Self::Single(single) => single.entries(direction),
            Self::Sharded(sharded) => Entries::Sharded(Box::new(sharded.entries(direction))),
        }
    }

    /// Returns whether there is any snapshot; replaced contents are then retained.
    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        match self {
            Self::Single(single) => single.has_readers(),
            Self::Sharded(sharded) => sharded.parts().iter().any(Single::has_readers),
        }
    }

    /// Returns whether there is no content at all.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Single(single) => single.is_empty(),
            Self::Sharded(sharded) => sharded.parts().iter().all(Single::is_empty),
        }
    }

    /// Returns the number of keys.
    #[inline]
    pub(super) fn content_count(&self) -> usize {
        self.sum(Single::content_count)
    }

    /// Returns the bytes of everything reachable, without the memory that contents point to.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        self.sum(Single::used_bytes)
    }

    /// Returns the bytes of removed contents that may still have readers.
    #[cfg(test)]
    pub(super) fn retired_bytes(&self) -> usize {
        self.sum(Single::retired_bytes)
    }

    /// Returns the bytes of allocated memory, whatever they are used for. Memory that contents
    /// point to is counted only for contents that are retired and retained for a snapshot.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        self.sum(Single::memory_bytes)
    }

    /// Returns the bytes in use and retired of the fullest trie, since each has its own limit. 0
    /// for kinds without such a limit.
    #[inline]
    pub(super) fn fullest_bytes(&self) -> usize {
        match self {
            Self::Single(single) => single.fullest_bytes(),
            Self::Sharded(sharded) => {
                sharded.parts().iter().map(Single::fullest_bytes).max().unwrap_or(0)
            }
        }
    }

    /// Frees retired memory that has no readers any more, at most `count` pieces of each part.
    /// Returns the bytes that remain retired.
    pub(super) fn free_retired(&mut self, count: u32) -> usize {
        match self {
            Self::Single(single) => single.free_retired(count),
            Self::Sharded(sharded) => {
                sharded.parts_mut().iter_mut().map(|part| part.free_retired(count)).sum()
            }
        }
    }

    /// Returns handles for other threads, one for each part, and the map of the parts; `None` if
    /// the parts are no tries.
    pub(super) fn readers(&self) -> Option<(Vec<Reader<Content>>, Option<PartMap>)> {
        Some(match self {
            Self::Single(single) => (vec![single.reader()?], None),
            Self::Sharded(sharded) => {
                let readers = sharded.parts().iter().map(Single::reader);
                (readers.collect::<Option<_>>()?, Some(sharded.map()))
            }
        })
    }

    /// Turns the store into the remains that have to be freed.
    pub(super) fn into_remains(self) -> StoreRemains {
        let parts = match self {
            Self::Single(single) => vec![single],
            Self::Sharded(sharded) => sharded.into_parts(),
        };
        StoreRemains { parts: parts.into_iter().map(Single::into_remains).collect() }
    }
}
