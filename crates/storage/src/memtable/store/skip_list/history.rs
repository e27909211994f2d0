//! The old contents that snapshots still see.
//!
//! The version goes up with each snapshot. A content that is replaced or removed while there are
//! snapshots is kept as the content of the versions up to the last one, unless they see an older
//! content already. It is freed when no snapshot is that old any more.
//!
//! Memory bound: one content for each key that was changed between two successive snapshots, as
//! long as the oldest snapshot stays.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{super::super::content::Content, key::Key};

/// The version of the present state.
pub(super) const PRESENT: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct History {
    versions: Rc<Versions>,
    /// The old contents by slot; the oldest first.
    old: HashMap<u32, SmallVec<[Old; 1]>, FixedState>,
    /// The contents that will be freed, in ascending order of versions.
    retired: VecDeque<Retired>,
    /// Bytes that the old contents point to.
    heap_bytes: usize,
}

#[derive(Default)]
struct Versions {
    /// The version of the last snapshot.
    last: Cell<u64>,
    /// The number of snapshots by version.
    open: RefCell<BTreeMap<u64, u32>>,
    /// The number of snapshots.
    count: Cell<usize>,
}

/// The content of the versions up to `until`, unless they see an older content.
struct Old {
    until: u64,
    /// `None` if there was no content.
    content: Option<Content>,
}

struct Retired {
    until: u64,
    slot: u32,
    /// The key, if the content was removed; the node may then be removed, too.
    removed: Option<Key>,
}

/// An estimate of the bytes of a retired content: a place in the queue and in the table.
const RETIRED_BYTES: usize = size_of::<Retired>() + size_of::<(u32, SmallVec<[Old; 1]>)>();

/// The version of a snapshot, which is retained as long as this lives.
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

    /// Returns whether some version may see an older content of the slot, or will when it changes.
    pub(super) fn needs(&self, slot: u32) -> bool {
        self.has_readers() || self.has(slot)
    }

    /// Returns whether there are older contents of the slot.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.old.contains_key(&slot)
    }

    /// Keeps the content that a slot had before a change, if a snapshot sees it.
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

    /// Records that the content of a slot was removed, so that the node may be removed when no
    /// version sees the old content.
    pub(super) fn remove_later(&mut self, slot: u32, key: Key) {
        let until = self.versions.last.get();
        self.retired.push_back(Retired { until, slot, removed: Some(key) });
    }

    /// Returns the content of a slot in a version, if it differs from the present one.
    #[inline]
    pub(super) fn look_up(&self, slot: u32, version: u64) -> Option<Option<&Content>> {
        if version == PRESENT || self.old.is_empty() {
            return None;
        }
        let old = self.old.get(&slot)?.iter().find(|old| old.until >= version)?;
        Some(old.content.as_ref())
    }

    /// Frees a content that no snapshot sees any more. Returns the slot, and its key if its content
    /// was removed.
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

    /// Returns the bytes that the old contents point to.
    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    #[inline]
    pub(super) fn retired_bytes(&self) -> usize {
        self.retired.len() * RETIRED_BYTES
    }
}
