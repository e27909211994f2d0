//! The state that the writer and its readers share: the structure, the contents, and the epochs.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::chunk_pool::ChunkPool;
use super::epoch::Epochs;
use super::live::Live;
use super::node::{BLOCK_BYTES, Blocks};
use super::pointer::{Link, Pointer};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct Shared<C> {
    pub(crate) root: Link,
    pub(crate) blocks: Blocks,
    pub(crate) epochs: Epochs,
    /// Set when the writer is gone: the contents that are alive, for the last reader to drop.
    estate: Mutex<Option<Live>>,
    /// Returns the bytes that a content takes besides its block.
    pub(crate) weight: fn(&C) -> usize,
    contents: PhantomData<C>,
}

// SAFETY: the structure is shared through atomics and immutable bytes; contents are shared as &C
// and dropped by the last user.
unsafe impl<C: Send + Sync> Send for Shared<C> {}
// SAFETY: as above.
unsafe impl<C: Send + Sync> Sync for Shared<C> {}

impl<C> Shared<C> {
    pub(crate) fn new(spare: Option<Arc<ChunkPool>>) -> Shared<C> {
        const { assert!(size_of::<C>() <= BLOCK_BYTES && align_of::<C>() <= BLOCK_BYTES) };
        Shared {
            root: Link::none(),
            blocks: Arena::new(spare),
            epochs: Epochs::new(),
            estate: Mutex::new(None),
            weight: |_| 0,
            contents: PhantomData,
        }
    }

    /// Returns the address of a content, or of the block for one.
    ///
    /// # Safety
    /// As for [`Arena::unit`](super::arena::Arena::unit).
    #[inline(always)]
    pub(crate) unsafe fn content(&self, index: u32) -> *mut C {
        // SAFETY: the caller's promise.
        unsafe { self.blocks.unit(index) }.cast()
    }

    /// Returns the bytes that a live content takes besides its block.
    pub(crate) fn weight_of(&self, leaf: Pointer) -> usize {
        // SAFETY: only the writer calls this, for a content in the structure or among the retired
        // units: it is alive.
        (self.weight)(unsafe { &*self.content(leaf.index()) })
    }

    /// Leaves it to the last reader to drop the contents that are alive.
    pub(crate) fn leave(&self, live: Live) {
        *self.estate.lock().unwrap_or_else(PoisonError::into_inner) = Some(live);
    }
}

impl<C> Drop for Shared<C> {
    fn drop(&mut self) {
        let estate = self.estate.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        for index in estate.iter().flat_map(Live::iter) {
            // SAFETY: neither writer nor readers are left, and the content is alive.
            unsafe { std::ptr::drop_in_place(self.content(index)) };
        }
    }
}
