//! What the writer and its readers share: the structure, the contents, and the epochs.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::epoch::Epochs;
use super::node::Blocks;
use super::pointer::Link;
use super::pool::Pool;
use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

/// A place for a content. While it is free, the pool keeps a number in its first bytes; that is
/// also why it is never zero-sized.
#[repr(C)]
pub(crate) union ContentSlot<C> {
    pub(crate) value: ManuallyDrop<C>,
    pub(crate) next_free: u32,
}

pub(crate) struct Shared<C> {
    pub(crate) root: Link,
    pub(crate) blocks: Blocks,
    pub(crate) contents: Arena<ContentSlot<C>>,
    pub(crate) epochs: Epochs,
    /// Set when the writer has gone: which contents are alive, to drop them with the last reader.
    estate: Mutex<Option<Pool>>,
}

// SAFETY: the structure is shared through atomics and immutable bytes; contents are shared as &C
// and dropped by whoever leaves last.
unsafe impl<C: Send + Sync> Send for Shared<C> {}
// SAFETY: as above.
unsafe impl<C: Send + Sync> Sync for Shared<C> {}

impl<C> Shared<C> {
    pub(crate) fn new() -> Shared<C> {
        Shared {
            root: Link::none(),
            blocks: Arena::new(),
            contents: Arena::new(),
            epochs: Epochs::new(),
            estate: Mutex::new(None),
        }
    }

    /// Leaves it to the last reader to drop the contents that `pool` says are alive.
    pub(crate) fn leave(&self, pool: Pool) {
        *self.estate.lock().unwrap_or_else(PoisonError::into_inner) = Some(pool);
    }
}

impl<C> Drop for Shared<C> {
    fn drop(&mut self) {
        let estate = self.estate.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(pool) = estate
            && std::mem::needs_drop::<C>()
        {
            for index in pool.taken_units(&self.contents) {
                // SAFETY: neither writer nor readers are left, and the content is alive.
                unsafe { ManuallyDrop::drop(&mut (*self.contents.unit(index)).value) };
            }
        }
    }
}
