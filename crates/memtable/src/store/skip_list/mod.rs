//! The skip list kind: crossbeam's lock-free list from paths to slot numbers, and the contents in
//! those slots.
//!
//! The list cannot change a value in place, and most changes of a memtable are to a row that
//! exists. So the list's values are slot numbers, which stay, and contents change in place. Only
//! this shard reaches the list, so it has a collector of its own, pinned by a permanent guard: a
//! read costs no pin, and can borrow contents for as long as nothing is written.
//!
//! **Snapshots** have a version number. Contents that are replaced while snapshots exist are kept
//! beside the list (`history`).
//!
//! **Memory.** [`SkipList::used_bytes`] and [`SkipList::memory_bytes`] count a node as its fixed
//! part and two links. Two links are the mean height of a tower, which has one more link with
//! probability ½. The allocator's rounding is not counted. A key of more than
//! [`key::INLINE_BYTES`] bytes counts with these bytes too. At most some hundreds of removed nodes
//! wait for the collector.
//!
//! Lineage: W. Pugh, "Skip lists" (CACM 33(6), 1990); K. Fraser, "Practical lock-freedom" (2004).

mod entries;
mod history;
mod key;
mod slots;
mod view;

use std::ops::Bound;

use crossbeam_epoch::{Collector, Guard};
use crossbeam_skiplist::SkipList as List;

pub(super) use entries::ListEntries;
pub(super) use history::SnapshotVersion;
pub(super) use view::ListView;

use super::{super::content::Content, StoreFull};
use history::History;
use key::Key;
use slots::Slots;

/// Bytes of a node without its tower: slot number, key, reference count.
const NODE_BYTES: usize = size_of::<(Key, u32)>() + size_of::<usize>();
/// Bytes of the mean tower.
const TOWER_BYTES: usize = 2 * size_of::<usize>();
/// Removed nodes after which garbage is collected, as many as the collector's bags have
/// (arbitrary).
const REMOVED_PER_FLUSH: u32 = 64;
/// The number of retired contents that a write frees at most, the same as the trie's (arbitrary).
const FREED_AT_ONCE: u32 = 128;

/// A map from paths to contents.
pub(crate) struct SkipList {
    list: List<Key, u32>,
    slots: Slots,
    history: History,
    /// The guard of the list's own collector; each write that removed a node repins it.
    guard: Guard,
    /// Nodes that were removed since garbage was last collected.
    removed: u32,
    /// The number of nodes, including those of removed contents that a snapshot needs.
    nodes: usize,
    /// The number of contents.
    contents: usize,
    /// Bytes of keys outside of their nodes.
    key_bytes: usize,
    /// A buffer for the path of a partition, and then of the key that is written.
    pub(super) path: Vec<u8>,
}

/// A node without a content in its slot yet. If making the content panics, the node is removed, or
/// the next content would get its slot.
struct Unfilled<'a> {
    list: &'a List<Key, u32>,
    guard: &'a Guard,
    key: &'a [u8],
}

impl Drop for Unfilled<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.list.remove(self.key, self.guard) {
            entry.release(self.guard);
        }
    }
}

/// The rest of a list that has to be dropped, perhaps on another thread.
pub(crate) struct Remains {
    _list: Box<List<Key, u32>>,
    _slots: Slots,
}

impl SkipList {
    pub(crate) fn new() -> Self {
        let collector = Collector::new();
        let guard = collector.register().pin();
        Self {
            list: List::new(collector),
            slots: Slots::default(),
            history: History::default(),
            guard,
            removed: 0,
            nodes: 0,
            contents: 0,
            key_bytes: 0,
            path: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Content> {
        self.slots.get(*self.list.get(key, &self.guard)?.value())
    }

    /// Maps `key` to the content that `change` makes of the present one. If there is no room,
    /// `change` is not called.
    pub(crate) fn put_with<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        let fresh = self.slots.next().ok_or(StoreFull)?;
        let entry = self.list.get_or_insert(Key::new(key), fresh, &self.guard);
        let slot = *entry.value();
        entry.release(&self.guard);
        let result = if slot == fresh {
            let unfilled = Unfilled { list: &self.list, guard: &self.guard, key };
            let (content, result) = change(None);
            std::mem::forget(unfilled);
            self.slots.fill(content);
            self.nodes += 1;
            self.key_bytes += key::heap_bytes(key);
            self.contents += 1;
            self.history.keep(slot, None);
            result
        } else {
            let (content, result) = change(self.slots.get(slot));
            let old = self.slots.replace(slot, Some(content));
            self.contents += usize::from(old.is_none());
            self.history.keep(slot, old);
            result
        };
        Ok(result)
    }

    /// Removes the content of a key. Returns whether it had one.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(slot) = self.list.get(key, &self.guard).map(|entry| *entry.value()) else {
            return false;
        };
        let Some(old) = self.slots.replace(slot, None) else { return false };
        self.contents -= 1;
        if self.history.needs(slot) {
            self.history.keep(slot, Some(old));
            self.history.remove_later(slot, Key::new(key));
        } else {
            self.remove_node(key);
        }
        true
    }

    /// Removes the node of a key without content that no snapshot needs.
    fn remove_node(&mut self, key: &[u8]) {
        let Some(entry) = self.list.remove(key, &self.guard) else { return };
        self.slots.free(*entry.value());
        entry.release(&self.guard);
        self.nodes -= 1;
        self.key_bytes -= key::heap_bytes(key);
        self.removed += 1;
        self.guard.repin();
        if self.removed >= REMOVED_PER_FLUSH {
            self.removed = 0;
            self.guard.flush();
        }
    }

    /// Frees some retired contents after a write.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.history.retired_bytes() > 0 {
            self.free_retired(FREED_AT_ONCE);
        }
    }

    pub(crate) fn free_retired(&mut self, count: u32) -> usize {
        for _ in 0..count {
            let Some((slot, removed)) = self.history.free_next() else { break };
            let Some(key) = removed else { continue };
            // The key may have been written to again, or removed and written anew in another slot.
            let key = key.as_bytes();
            let is_same = self.list.get(key, &self.guard).is_some_and(|it| *it.value() == slot);
            if is_same && self.slots.get(slot).is_none() && !self.history.has(slot) {
                self.remove_node(key);
            }
        }
        self.history.retired_bytes()
    }

    /// Returns a version for a snapshot of the present state.
    pub(crate) fn snapshot(&self) -> SnapshotVersion {
        self.history.snapshot()
    }

    #[inline]
    pub(crate) fn has_readers(&self) -> bool {
        self.history.has_readers()
    }

    /// Returns the first node from a bound on, upwards or downwards.
    fn bound(&self, bound: Bound<&[u8]>, is_reverse: bool) -> Option<ListEntry<'_>> {
        if is_reverse {
            self.list.upper_bound(bound, &self.guard)
        } else {
            self.list.lower_bound(bound, &self.guard)
        }
    }

    #[inline]
    fn content(&self, slot: u32, version: u64) -> Option<&Content> {
        match self.history.look_up(slot, version) {
            Some(old) => old,
            None => self.slots.get(slot),
        }
    }

    #[inline]
    pub(crate) fn content_count(&self) -> usize {
        self.contents
    }

    #[inline]
    pub(crate) fn used_bytes(&self) -> usize {
        self.node_bytes() + self.nodes * size_of::<Content>()
    }

    #[cfg(test)]
    pub(crate) fn retired_bytes(&self) -> usize {
        self.history.retired_bytes()
    }

    #[inline]
    pub(crate) fn memory_bytes(&self) -> usize {
        let history = self.history.retired_bytes() + self.history.heap_bytes();
        self.node_bytes() + self.slots.memory_bytes() + history
    }

    fn node_bytes(&self) -> usize {
        self.nodes * (NODE_BYTES + TOWER_BYTES) + self.key_bytes
    }

    /// Turns the list into the remains to be dropped, without the parts that must stay on this
    /// thread.
    pub(crate) fn into_remains(self) -> Remains {
        Remains { _list: Box::new(self.list), _slots: self.slots }
    }
}

type ListEntry<'a> = crossbeam_skiplist::base::Entry<'a, 'a, Key, u32>;
