//! Readers read the trie on other threads. On the writer's thread, they read it across writes.

#![allow(unsafe_code)]

use super::cursor::MemoryCursor;
use super::epoch::Slot;
use super::shared::Shared;
use super::subtrie::Subtrie;
use super::view::View;
use crate::cursor::{Direction, Entries};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

/// A handle to read a trie while its writer changes it. It keeps the trie alive.
///
/// As long as there is any reader, the writer replaces contents instead of changing them in place.
///
/// ```
/// # use espalier_trie::memory::InMemoryTrie;
/// let mut trie = InMemoryTrie::<&str>::new();
/// let reader = trie.reader();
/// let other_thread = std::thread::spawn(move || {
///     loop {
///         let guard = reader.pin();
///         if let Some(word) = guard.get(b"key") {
///             return word.len();
///         }
///     }
/// });
/// trie.put(b"key", "value")?;
/// assert_eq!(other_thread.join().unwrap(), 5);
/// # Ok::<(), espalier_trie::memory::TrieFull>(())
/// ```
pub struct Reader<C> {
    shared: Arc<Shared<C>>,
    /// Points into `shared`.
    slot: NonNull<Slot>,
    guards: Cell<usize>,
}

// SAFETY: the slot is part of the memory that `shared` keeps alive, and is made of atomics.
unsafe impl<C: Send + Sync> Send for Reader<C> {}

impl<C> Reader<C> {
    pub(super) fn new(shared: &Arc<Shared<C>>) -> Reader<C> {
        let shared = Arc::clone(shared);
        let slot = NonNull::from(shared.epochs.claim());
        Reader { shared, slot, guards: Cell::new(0) }
    }

    fn slot(&self) -> &Slot {
        // SAFETY: slots live as long as `shared`.
        unsafe { self.slot.as_ref() }
    }

    /// Pins the reader: all that it finds in the trie stays valid until the guard is dropped. Costs
    /// a fence. Long-lived guards keep the writer from recycling.
    pub fn pin(&self) -> Guard<'_, C> {
        let guards = self.guards.get();
        if guards == 0 {
            self.slot().pin(&self.shared.epochs);
        }
        self.guards.set(guards + 1);
        Guard { reader: self }
    }

    /// Pins the reader until it is dropped.
    pub(super) fn pin_for_good(&self) {
        std::mem::forget(self.pin());
    }

    /// Returns the view of a pinned reader.
    ///
    /// # Safety
    /// The reader is pinned for as long as self is borrowed; for example by
    /// [`Reader::pin_for_good`].
    pub(super) unsafe fn view(&self) -> View<'_, C> {
        // SAFETY: the caller's promise, and contents are not changed in place while there is a
        // reader.
        unsafe { View::new(&self.shared) }
    }
}

impl<C> Clone for Reader<C> {
    fn clone(&self) -> Self {
        Reader::new(&self.shared)
    }
}

impl<C> Drop for Reader<C> {
    fn drop(&mut self) {
        self.shared.epochs.release(self.slot());
    }
}

/// Read access to a trie for as long as this lives. Each look-up sees the trie as it is at that
/// moment.
pub struct Guard<'r, C> {
    reader: &'r Reader<C>,
}

impl<C> Guard<'_, C> {
    fn view(&self) -> View<'_, C> {
        // SAFETY: the epoch is pinned as long as self is borrowed.
        unsafe { self.reader.view() }
    }

    /// Returns the content of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<&C> {
        self.view().get(key)
    }

    /// Returns the part of the trie below `prefix`, to read several keys there without a descent
    /// from the root for each.
    #[inline]
    pub fn subtrie(&self, prefix: &[u8]) -> Subtrie<'_, C> {
        Subtrie::new(self.view(), prefix)
    }

    /// Returns a cursor over the whole trie. It does not show one moment: it lists each node in its
    /// state when the walk reaches the node, or in an earlier state since the beginning of the
    /// walk.
    pub fn cursor(&self, direction: Direction) -> MemoryCursor<'_, C> {
        self.cursor_from(&[], direction)
    }

    /// Returns the cursor of [`super::InMemoryTrie::cursor_from`]; see [`Self::cursor`].
    pub fn cursor_from(&self, prefix: &[u8], direction: Direction) -> MemoryCursor<'_, C> {
        self.subtrie(prefix).cursor(direction)
    }

    /// Returns all keys and contents in order.
    pub fn entries(&self, direction: Direction) -> Entries<MemoryCursor<'_, C>> {
        Entries::new(self.cursor(direction))
    }
}

impl<C> Drop for Guard<'_, C> {
    fn drop(&mut self) {
        let guards = self.reader.guards.get() - 1;
        self.reader.guards.set(guards);
        if guards == 0 {
            self.reader.slot().unpin();
        }
    }
}
