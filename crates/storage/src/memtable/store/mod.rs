//! What a memtable keeps its contents in: an ordered map from paths to contents, of one of several kinds.
//!
//! All kinds promise what the trie does: what a [`StorePartition`] changes is seen wholly or not at all; a
//! [`StoreSnapshot`] stays as it was when it was taken; keys come in the order of their bytes. The methods have the names
//! of the trie's own. Kinds are told apart by a `match`, once for each operation, so that the compiler sees through it.

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
#[allow(clippy::large_enum_variant)] // As of `Single`.
pub(super) enum Store {
    Single(Single),
    Sharded(Sharded),
}

impl Default for Store {
    /// One that is not going to be used.
    fn default() -> Self {
        Self::Single(Single::Trie(InMemoryTrie::new()))
    }
}

/// There is no room left in this store, whatever the memory: nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreFull;

impl From<TrieFull> for StoreFull {
    fn from(_: TrieFull) -> Self {
        Self
    }
}

/// What a store leaves to be freed, perhaps on another thread.
pub(super) struct StoreRemains {
    parts: Vec<Remains>,
}

impl StoreRemains {
    /// Frees so many contents. False if there are no more that can be freed by themselves; the rest goes with this.
    pub(super) fn free_some(&mut self, count: u32) -> bool {
        self.parts.iter_mut().any(|part| part.free_some(count))
    }
}

impl Store {
    /// An empty one for a core. Tries take their large chunks from those that others have left.
    pub(super) fn new(kind: MemtableKind, core: ShardContext, budget: &MemtableBudget) -> Self {
        let single = || Single::new(kind.structure, budget);
        match kind.shards {
            0 | 1 => Self::Single(single()),
            shards => Self::Sharded(Sharded::new(shards, core, single)),
        }
    }

    /// What has the keys that begin with `path`, which is a partition's or longer.
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

    /// The content of a key.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<&Content> {
        self.part(key).get(key)
    }

    /// Whether [`Store::look_ahead`] does anything: one trie does.
    pub(super) fn looks_ahead(&self) -> bool {
        matches!(self, Self::Single(Single::Trie(_)))
    }

    /// Asks the processor for what looking up these keys takes; `met` is called with what they have.
    pub(super) fn look_ahead<'key>(
        &self,
        keys: impl IntoIterator<Item = &'key [u8]>,
        mut met: impl FnMut(&Content),
    ) {
        if let Self::Single(Single::Trie(trie)) = self {
            trie.look_ahead(keys, |_, content| met(content));
        }
    }

    /// Maps `key` to what `change` makes of its present content. `change` is not called when there is no room.
    #[inline]
    pub(super) fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        self.part_mut(key).put_with(key, change)
    }

    /// Changes below the path of a partition that readers see all at once.
    #[inline]
    pub(super) fn transaction(&mut self, prefix: &[u8]) -> StorePartition<'_> {
        self.part_mut(prefix).transaction(prefix)
    }

    /// What is below the path of a partition.
    #[inline]
    pub(super) fn subtrie<'a>(&'a self, prefix: &'a [u8]) -> PartitionView<'a> {
        self.part(prefix).subtrie(prefix)
    }

    /// What is below the path of a partition now, to be read later.
    pub(super) fn snapshot(&self, prefix: &[u8]) -> StoreSnapshot {
        self.part(prefix).snapshot(prefix)
    }

    /// All keys and contents in order.
    pub(super) fn entries(&self, direction: Direction) -> Entries<'_> {
        match self {
            Self::Single(single) => single.entries(direction),
            Self::Sharded(sharded) => Entries::Sharded(Box::new(sharded.entries(direction))),
        }
    }

    /// Whether there is any snapshot: then what is replaced is kept.
    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        match self {
            Self::Single(single) => single.has_readers(),
            Self::Sharded(sharded) => sharded.parts().iter().any(Single::has_readers),
        }
    }

    /// Whether there is no content at all.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Single(single) => single.is_empty(),
            Self::Sharded(sharded) => sharded.parts().iter().all(Single::is_empty),
        }
    }

    /// Number of keys.
    #[inline]
    pub(super) fn content_count(&self) -> usize {
        self.sum(Single::content_count)
    }

    /// Bytes of what can be reached. What contents point to is not counted.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        self.sum(Single::used_bytes)
    }

    /// Bytes of what was taken out but may still have readers.
    #[cfg(test)]
    pub(super) fn retired_bytes(&self) -> usize {
        self.sum(Single::retired_bytes)
    }

    /// Bytes of memory taken, whatever they are used for. What contents point to is counted when they are retired, and
    /// kept for a snapshot.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        self.sum(Single::memory_bytes)
    }

    /// The bytes in use, and retired, of the trie that is fullest: each has its own limit. 0 where there is no such limit.
    #[inline]
    pub(super) fn fullest_bytes(&self) -> usize {
        match self {
            Self::Single(single) => single.fullest_bytes(),
            Self::Sharded(sharded) => {
                sharded.parts().iter().map(Single::fullest_bytes).max().unwrap_or(0)
            }
        }
    }

    /// Frees what was retired and has no readers any more, at most `count` pieces of each part. Returns the bytes that
    /// remain retired.
    pub(super) fn free_retired(&mut self, count: u32) -> usize {
        match self {
            Self::Single(single) => single.free_retired(count),
            Self::Sharded(sharded) => {
                sharded.parts_mut().iter_mut().map(|part| part.free_retired(count)).sum()
            }
        }
    }

    /// Handles for other threads, one for each part, and what part has what; `None` if this is no trie.
    pub(super) fn readers(&self) -> Option<(Vec<Reader<Content>>, Option<PartMap>)> {
        Some(match self {
            Self::Single(single) => (vec![single.reader()?], None),
            Self::Sharded(sharded) => {
                let readers = sharded.parts().iter().map(Single::reader);
                (readers.collect::<Option<_>>()?, Some(sharded.map()))
            }
        })
    }

    /// What is left to be freed.
    pub(super) fn into_remains(self) -> StoreRemains {
        let parts = match self {
            Self::Single(single) => vec![single],
            Self::Sharded(sharded) => sharded.into_parts(),
        };
        StoreRemains { parts: parts.into_iter().map(Single::into_remains).collect() }
    }
}
