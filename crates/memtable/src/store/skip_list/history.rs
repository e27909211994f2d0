//! The old contents that snapshots still see.
//!
//! Each snapshot has a version, which is one above the previous snapshot's. A change of a slot
//! while snapshots exist keeps the slot's old content, with the newest snapshot's version as its
//! `until`. In a slot, a snapshot sees the first old content whose `until` is not below the
//! snapshot's version. If there is none, it sees the present content.
//!
//! Further changes before the next snapshot keep nothing, because no snapshot sees the contents
//! that they replace. An old content is freed when each snapshot's version is above the content's
//! `until`.
//!
//! Memory bound: for each pair of successive snapshots, one content for each key that changed
//! between the two. The oldest snapshot retains all these contents.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{super::super::content::Content, key::Key};

/// The version by which a reader sees the present contents instead of a snapshot.
pub(super) const PRESENT: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct History {
    versions: Rc<Versions>,
    /// The old contents of each slot, in ascending order of `until`.
    old: HashMap<u32, SmallVec<[Old; 1]>, FixedState>,
    /// The contents and nodes to be freed, in ascending order of `until`.
    retired: VecDeque<Retired>,
    /// Bytes on the heap that the old contents own.
    heap_bytes: usize,
}

#[derive(Default)]
struct Versions {
    /// The version of the newest snapshot, which may be dropped already.
    last: Cell<u64>,
    /// The number of existing snapshots by version.
    open: RefCell<BTreeMap<u64, u32>>,
    /// The number of existing snapshots.
    count: Cell<usize>,
}

/// The content that snapshots up to version `until` see, unless an older content covers them.
struct Old {
    until: u64,
    /// The content, or `None` if the slot had none.
    content: Option<Content>,
}

/// A content to be freed when no snapshot has a version up to `until`.
struct Retired {
    until: u64,
    slot: u32,
    /// The key, if the content was removed. Its node is then removed, too, unless the key has a
    /// content again.
    removed: Option<Key>,
}

/// An estimate of the bytes of a retired content: an element of `retired` and an entry of `old`.
const RETIRED_BYTES: usize = size_of::<Retired>() + size_of::<(u32, SmallVec<[Old; 1]>)>();

/// The version of a snapshot. The contents that this version sees are kept until it is dropped.
pub(crate) struct SnapshotVersion {
    versions: Rc<Versions>,
    pub(super) version: u64,
}

impl Drop for SnapshotVersion {
    fn drop(&mut self) {
        let mut open = self.versions.open.borrow_mut();
        if let Some(count) = open.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.version);
            }
        }
        self.versions.count.set(self.versions.count.get() - 1);
    }
}

impl History {
    pub(super) fn snapshot(&self) -> SnapshotVersion {
        let versions = self.versions.clone();
        let version = versions.last.get() + 1;
        versions.last.set(version);
        versions.count.set(versions.count.get() + 1);
        *versions.open.borrow_mut().entry(version).or_default() += 1;
        SnapshotVersion { versions, version }
    }

    #[inline]
    pub(super) fn has_readers(&self) -> bool {
        self.versions.count.get() > 0
    }

    /// Returns whether the removal of the slot's content must leave its node in place. It must if
    /// there are snapshots, which may see this content, or if the slot has old contents.
    pub(super) fn needs(&self, slot: u32) -> bool {
        self.has_readers() || self.has(slot)
    }

    /// Returns whether the slot has old contents.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.old.contains_key(&slot)
    }

    /// Keeps the content that a slot had before a change, if there are snapshots that may see it.
    #[inline]
    pub(super) fn keep(&mut self, slot: u32, content: Option<Content>) {
        if self.has_readers() {
            self.keep_for_readers(slot, content);
        }
    }

    #[cold]
    fn keep_for_readers(&mut self, slot: u32, content: Option<Content>) {
        let until = self.versions.last.get();
        let old = self.old.entry(slot).or_default();
        if old.last().is_none_or(|old| old.until < until) {
            self.heap_bytes += content.as_ref().map_or(0, Content::heap_bytes);
            old.push(Old { until, content });
            self.retired.push_back(Retired { until, slot, removed: None });
        }
    }

    /// Records that the content of a slot was removed. [`Self::free_next`] returns the key when no
    /// snapshot sees the old content any more, so that the list can remove the node.
    pub(super) fn remove_later(&mut self, slot: u32, key: Key) {
        let until = self.versions.last.get();
        self.retired.push_back(Retired { until, slot, removed: Some(key) });
    }

    /// Returns the old content of a slot that a version sees. Returns `None` if the version sees
    /// the present content, and `Some(None)` if the slot had no content.
    #[inline]
    pub(super) fn look_up(&self, slot: u32, version: u64) -> Option<Option<&Content>> {
        if version == PRESENT || self.old.is_empty() {
            return None;
        }
        let old = self.old.get(&slot)?.iter().find(|old| old.until >= version)?;
        Some(old.content.as_ref())
    }

    /// Frees the next retired content, if no snapshot sees it any more. Returns the slot, and the
    /// key if the content was removed.
    pub(super) fn free_next(&mut self) -> Option<(u32, Option<Key>)> {
        let oldest = self.versions.open.borrow().keys().next().copied().unwrap_or(PRESENT);
        if self.retired.front()?.until >= oldest {
            return None;
        }
        let retired = self.retired.pop_front()?;
        if let Some(old) = self.old.get_mut(&retired.slot) {
            let heap_bytes = &mut self.heap_bytes;
            old.retain(|old| {
                let is_kept = old.until >= oldest;
                if !is_kept {
                    *heap_bytes -= old.content.as_ref().map_or(0, Content::heap_bytes);
                }
                is_kept
            });
            if old.is_empty() {
                self.old.remove(&retired.slot);
            }
        }
        Some((retired.slot, retired.removed))
    }

    /// Returns the bytes on the heap that the old contents own.
    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    #[inline]
    pub(super) fn retired_bytes(&self) -> usize {
        self.retired.len() * RETIRED_BYTES
    }
}
