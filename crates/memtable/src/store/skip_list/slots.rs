//! The contents, each in a slot of 32 bytes. Slots are in chunks that never move, and are reused.
//!
//! Memory bound: the largest number of contents that existed at once, rounded up to a chunk of half
//! a MiB (or to the next power of two while there is one chunk only), and 4 bytes for each slot
//! that was freed.

use super::super::super::content::Content;

const CHUNK_BITS: u32 = 14;
const CHUNK_SLOTS: usize = 1 << CHUNK_BITS;
const SLOT_BYTES: usize = size_of::<Option<Content>>();

const _: () = assert!(SLOT_BYTES == size_of::<Content>());

#[derive(Default)]
pub(super) struct Slots {
    /// All chunks but the last are full.
    chunks: Vec<Vec<Option<Content>>>,
    free: Vec<u32>,
}

impl Slots {
    /// Returns the slot that [`Self::fill`] will use next; `None` if there are no more numbers.
    #[inline]
    pub(super) fn next(&self) -> Option<u32> {
        if let Some(free) = self.free.last() {
            return Some(*free);
        }
        let Some(last) = self.chunks.last() else { return Some(0) };
        u32::try_from((self.chunks.len() - 1) * CHUNK_SLOTS + last.len()).ok()
    }

    /// Puts a content into the next slot.
    #[inline]
    pub(super) fn fill(&mut self, content: Content) {
        if let Some(slot) = self.free.pop() {
            self.replace(slot, Some(content));
            return;
        }
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_SLOTS => last.push(Some(content)),
            last => {
                // The first chunk grows, so that small memtables stay small.
                let capacity = if last.is_none() { 4 } else { CHUNK_SLOTS };
                let mut chunk = Vec::with_capacity(capacity);
                chunk.push(Some(content));
                self.chunks.push(chunk);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&Content> {
        let chunk = self.chunks.get((slot >> CHUNK_BITS) as usize)?;
        chunk.get(slot as usize % CHUNK_SLOTS)?.as_ref()
    }

    /// Replaces the content of a slot that is in use. Returns the old content.
    #[inline]
    pub(super) fn replace(&mut self, slot: u32, content: Option<Content>) -> Option<Content> {
        let chunk = self.chunks.get_mut((slot >> CHUNK_BITS) as usize)?;
        std::mem::replace(chunk.get_mut(slot as usize % CHUNK_SLOTS)?, content)
    }

    /// Frees an empty slot.
    pub(super) fn free(&mut self, slot: u32) {
        debug_assert!(self.get(slot).is_none());
        self.free.push(slot);
    }

    /// Returns the bytes of allocated memory.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        let first = self.chunks.first().map_or(0, Vec::capacity);
        (first + self.chunks.len().saturating_sub(1) * CHUNK_SLOTS) * SLOT_BYTES
            + self.free.capacity() * size_of::<u32>()
            + self.chunks.capacity() * size_of::<Vec<Option<Content>>>()
    }
}
