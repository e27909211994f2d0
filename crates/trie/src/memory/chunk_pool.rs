//! The chunk pool keeps chunks of the largest size for later tries. A dropped trie gives its chunks
//! to the pool, and a thread can make some ahead.
//!
//! New memory costs the process a page fault for each page, because the system fills the page with
//! zeros. Page faults take a quarter of the time of small writes; with huge pages, one takes
//! milliseconds on some virtual machines. The chunks of a dropped trie cause no page faults. A
//! thread for which no write waits can make further chunks, and wait for their page faults
//! ([`ChunkPool::make_one`]).
//!
//! Any thread may give or take a chunk, because the last reader of a trie may give the trie's
//! chunks back. That happens once for each 8 MiB, so a lock is cheap enough.
//!
//! Memory bound: the limit given to [`ChunkPool::new`].

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::arena::{allocate, free, largest_chunk};
use super::node::Block;

/// Bytes of the smallest pages.
const PAGE_BYTES: usize = 4096;

/// Chunks that should be ready for writers. A thread takes at least half as long to make a chunk as
/// writes at full speed take to fill one.
const AHEAD: usize = 2;

/// A trie that takes a chunk of this size may soon take one of the largest size.
const SOON_BYTES: usize = 1 << 20;

/// Chunks that no trie uses, shared by tries. A default pool keeps none.
#[derive(Debug, Default)]
pub struct ChunkPool {
    limit: usize,
    chunks: Mutex<Vec<Chunk>>,
    is_one_wanted: AtomicBool,
}

/// Memory of [`ChunkPool::layout`], of undefined content.
#[derive(Debug)]
struct Chunk(NonNull<u8>);

// SAFETY: a chunk is memory with a single owner.
unsafe impl Send for Chunk {}

impl ChunkPool {
    /// Creates an empty pool that never keeps more than `limit_bytes` of chunks.
    pub const fn new(limit_bytes: usize) -> ChunkPool {
        ChunkPool {
            limit: limit_bytes / Self::layout().size(),
            chunks: Mutex::new(Vec::new()),
            is_one_wanted: AtomicBool::new(false),
        }
    }

    /// Returns the bytes of the chunks that the pool keeps.
    pub fn bytes(&self) -> usize {
        self.chunks().len() * Self::layout().size()
    }

    /// Returns whether the limit allows any chunk to be kept.
    pub(super) fn has_any(&self) -> bool {
        self.limit != 0
    }

    /// Returns whether the pool had too few chunks when a trie last took a large chunk or a thread
    /// last made one, and no thread has called [`ChunkPool::promise_one`] since.
    #[inline]
    pub fn is_one_wanted(&self) -> bool {
        self.is_one_wanted.load(Ordering::Relaxed)
    }

    /// Records that a thread is about to call [`ChunkPool::make_one`]. If a chunk is still wanted
    /// after that call, the thread calls both again.
    pub fn promise_one(&self) {
        self.is_one_wanted.store(false, Ordering::Relaxed);
    }

    /// Allocates a chunk and touches each of its pages, unless the limit is reached. This takes
    /// milliseconds.
    pub fn make_one(&self) {
        if self.chunks().len() >= self.limit {
            return;
        }
        let layout = Self::layout();
        let Some(memory) = allocate(layout, true) else { return };
        for offset in (0..layout.size()).step_by(PAGE_BYTES) {
            // SAFETY: inside of the allocation, which only this thread knows. Volatile, because a
            // plain write could be optimised away.
            unsafe { memory.add(offset).write_volatile(0) };
        }
        // SAFETY: allocated with this layout, and not in use.
        unsafe { self.keep_or_free(memory) };
        self.record_wanted(self.chunks().len());
    }

    fn record_wanted(&self, count: usize) {
        self.is_one_wanted.store(count < AHEAD.min(self.limit), Ordering::Relaxed);
    }

    /// Returns the layout of every chunk in the pool.
    const fn layout() -> Layout {
        largest_chunk::<Block>()
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a chunk with that layout, if the pool has one. Its content is undefined.
    pub(super) fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() < SOON_BYTES {
            return None;
        }
        let mut chunks = self.chunks();
        let chunk = if layout == Self::layout() { chunks.pop() } else { None };
        self.record_wanted(chunks.len());
        chunk.map(|chunk| chunk.0)
    }

    /// Keeps a chunk for other tries. Returns false if the caller still owns the chunk, because it
    /// has another layout or the pool has enough.
    ///
    /// # Safety
    /// The memory was allocated with this layout and is not in use.
    pub(super) unsafe fn give(&self, memory: NonNull<u8>, layout: Layout) -> bool {
        if layout != Self::layout() {
            return false;
        }
        let mut chunks = self.chunks();
        let is_kept = chunks.len() < self.limit;
        if is_kept {
            chunks.push(Chunk(memory));
        }
        is_kept
    }

    /// Keeps a chunk, or frees it if there are enough.
    ///
    /// # Safety
    /// The memory was allocated with [`ChunkPool::layout`] and is not in use.
    unsafe fn keep_or_free(&self, memory: NonNull<u8>) {
        // SAFETY: the caller's promise, for both.
        unsafe {
            if !self.give(memory, Self::layout()) {
                free(memory.as_ptr(), Self::layout());
            }
        }
    }
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        for chunk in std::mem::take(&mut *self.chunks()) {
            // SAFETY: the callers of `give` promise this layout.
            unsafe { free(chunk.0.as_ptr(), Self::layout()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::InMemoryTrie;
    use super::*;
    use std::sync::Arc;

    /// Returns a trie whose keys fill more than three chunks of the largest size.
    fn fill(spare: &Arc<ChunkPool>) -> InMemoryTrie<u64> {
        let mut trie = InMemoryTrie::with_chunk_pool(spare.clone());
        for key in 0..400_000u64 {
            trie.put(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), key).unwrap();
        }
        trie
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of keys")]
    fn the_next_trie_has_the_chunks_of_the_last() {
        let chunk = ChunkPool::layout().size();
        let spare = Arc::new(ChunkPool::new(2 * chunk + 1));
        let first = fill(&spare);
        assert!(first.allocated_bytes() > 3 * chunk);
        assert_eq!(spare.bytes(), 0);
        let reader = first.reader();
        drop(first);
        assert_eq!(spare.bytes(), 0, "a reader still has it");
        drop(reader);
        assert_eq!(spare.bytes(), 2 * chunk, "the limit holds");
        let second = fill(&spare);
        assert_eq!(spare.bytes(), 0);
        for key in 0..400_000u64 {
            let bytes = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            assert_eq!(second.get(&bytes), Some(&key));
        }
    }

    #[test]
    fn the_pool_wants_a_chunk_once_its_last_was_taken() {
        let layout = ChunkPool::layout();
        let none = ChunkPool::new(layout.size() - 1);
        none.make_one();
        assert!(none.take(layout).is_none());
        assert!(!none.is_one_wanted(), "there will never be one");

        let many = ChunkPool::new(10 * layout.size());
        let half = Layout::from_size_align(layout.size() / 2, layout.align()).unwrap();
        assert!(many.take(half).is_none());
        for made in 1..=3 {
            assert_eq!(many.is_one_wanted(), made <= AHEAD);
            many.promise_one();
            many.make_one();
            assert_eq!(many.bytes(), made * layout.size());
        }

        let spare = ChunkPool::new(layout.size());
        assert!(spare.take(layout).is_none());
        assert!(spare.is_one_wanted());
        spare.promise_one();
        spare.make_one();
        spare.make_one();
        assert_eq!(spare.bytes(), layout.size());
        assert!(!spare.is_one_wanted());
        let chunk = spare.take(layout).unwrap();
        assert!(spare.is_one_wanted());
        // SAFETY: the chunk comes from this pool.
        assert!(unsafe { spare.give(chunk, layout) });
        assert_eq!(spare.bytes(), layout.size());
    }
}
