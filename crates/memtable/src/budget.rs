//! The memory budget of all memtables of a shard.
//!
//! No write begins once the limit is reached, so memory exceeds the limit by at most the growth of
//! one write. That is usually a chunk of the trie, 8 MiB. A write of many rows takes the memory of
//! these rows, and while there is a reader also copies of the nodes that lead to them. Memory of
//! flushed memtables that reads of the shard still hold counts until these reads end; memory that
//! an embedder's threads hold does not count. The chunks that flushed memtables leave to the next
//! ones come on top, at most an eighth of the limit.

use std::{cell::Cell, rc::Rc, sync::Arc};

use espalier_runtime::{shard, spawn_blocking, spawn_local, sync::Notify};
use espalier_trie::memory::ChunkPool;

/// The chunk pool keeps free chunks of up to 1/`SPARE_PART` of the limit (arbitrary): a kept chunk
/// need not be allocated again, but is of no use elsewhere.
const SPARE_PART: usize = 8;

/// 1/`MARGIN_PART` of the room between the start of flushes and the limit stays free as long as
/// flushes keep up.
const MARGIN_PART: usize = 8;

/// The maximum size of a trie: its structure and the slots of its contents. Long rows are outside
/// of it.
pub const MAX_TRIE_BYTES: usize = 4 << 30;

/// The memory budget of a shard's memtables. Clones share the count.
#[derive(Clone)]
pub struct MemtableBudget {
    shared: Rc<Shared>,
    trie_bytes: usize,
}

struct Shared {
    limit_bytes: usize,
    flush_bytes: usize,
    used_bytes: Cell<usize>,
    /// The part of `used_bytes` that belongs to memtables that are being freed.
    leaving_bytes: Cell<usize>,
    grown_bytes: Cell<u64>,
    room: Notify,
    chunk_pool: Arc<ChunkPool>,
}

impl MemtableBudget {
    /// Creates a budget of `limit_bytes`; flushes should begin at `flush_bytes`.
    pub fn new(limit_bytes: usize, flush_bytes: usize) -> Self {
        let shared = Shared {
            limit_bytes,
            flush_bytes,
            used_bytes: Cell::new(0),
            leaving_bytes: Cell::new(0),
            grown_bytes: Cell::new(0),
            room: Notify::new(),
            chunk_pool: Arc::new(ChunkPool::new(limit_bytes / SPARE_PART)),
        };
        Self { shared: Rc::new(shared), trie_bytes: MAX_TRIE_BYTES }
    }

    /// Limits a trie to `trie_bytes`, which is at most [`MAX_TRIE_BYTES`].
    #[must_use]
    pub fn with_trie_bytes(self, trie_bytes: usize) -> Self {
        Self { trie_bytes: trie_bytes.min(MAX_TRIE_BYTES), ..self }
    }

    /// Returns the maximum size of a trie.
    #[inline]
    pub(crate) fn trie_bytes(&self) -> usize {
        self.trie_bytes
    }

    /// Refills the chunk pool on a helper thread if it runs low. Otherwise a write that needs a new
    /// chunk would wait for the system, which was measured to hold the core for tens of
    /// milliseconds.
    #[inline]
    pub fn refill_chunk_pool(&self) {
        if self.shared.chunk_pool.is_one_wanted() {
            self.add_pooled_chunk();
        }
    }

    #[cold]
    fn add_pooled_chunk(&self) {
        if shard::loop_report().is_none() {
            return;
        }
        let pool = self.shared.chunk_pool.clone();
        pool.promise_one();
        let make = move || {
            pool.make_one();
            while pool.is_one_wanted() {
                pool.promise_one();
                pool.make_one();
            }
        };
        spawn_local(spawn_blocking(make)).detach();
    }

    /// Returns the pool of free chunks for the next memtables.
    pub fn chunk_pool(&self) -> &Arc<ChunkPool> {
        &self.shared.chunk_pool
    }

    /// Returns the bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.shared.used_bytes.get()
    }

    /// Returns the limit of the bytes in use.
    pub fn limit_bytes(&self) -> usize {
        self.shared.limit_bytes
    }

    /// Returns whether a write may begin.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.shared.used_bytes.get() < self.shared.limit_bytes
    }

    /// Returns the bytes in use that are not being freed.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.shared.used_bytes.get().saturating_sub(self.shared.leaving_bytes.get())
    }

    /// Returns whether a flush should begin.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.held_bytes() >= self.shared.flush_bytes
    }

    /// Returns whether memtables of this total size are a reason to flush.
    pub fn is_flush_due(&self, active_bytes: usize) -> bool {
        active_bytes >= self.shared.flush_bytes
    }

    /// Returns the bytes held at which a flush begins.
    pub fn flush_bytes(&self) -> usize {
        self.shared.flush_bytes
    }

    /// Returns the bytes that should be held at most: writers are slowed down so that a flush ends
    /// before more are held.
    pub fn wanted_bytes(&self) -> usize {
        let (limit, flush) = (self.shared.limit_bytes, self.shared.flush_bytes);
        limit - limit.saturating_sub(flush) / MARGIN_PART
    }

    /// Returns the bytes that may still be taken while flushes keep up, within
    /// [`Self::wanted_bytes`] and the limit.
    pub fn room_bytes(&self) -> usize {
        let held = self.wanted_bytes().saturating_sub(self.held_bytes());
        held.min(self.shared.limit_bytes.saturating_sub(self.shared.used_bytes.get()))
    }

    /// Returns whether there is less free memory than there should be, so that deferrable work
    /// should leave the core to flushes.
    pub fn is_short(&self) -> bool {
        self.held_bytes() > self.wanted_bytes() || !self.has_room()
    }

    /// Returns the sum of all bytes ever taken.
    pub fn grown_bytes(&self) -> u64 {
        self.shared.grown_bytes.get()
    }

    /// Waits until memory is given back.
    pub async fn wait_for_room(&self) {
        self.shared.room.notified().await;
    }

    /// Wakes the writes that wait for room, so that they check again.
    pub fn wake_waiters(&self) {
        self.shared.room.notify_all();
    }

    /// Takes bytes from the budget.
    #[inline]
    pub fn grow(&self, bytes: usize) {
        self.shared.used_bytes.set(self.shared.used_bytes.get() + bytes);
        self.shared.grown_bytes.set(self.shared.grown_bytes.get() + bytes as u64);
    }

    /// Records that `bytes` are about to be given back. They cause no flush, and slow down writers
    /// only when the limit is near.
    pub fn begin_freeing(&self, bytes: usize) {
        self.shared.leaving_bytes.set(self.shared.leaving_bytes.get() + bytes);
    }

    /// Gives back `bytes` of those that were being freed.
    pub fn end_freeing(&self, bytes: usize) {
        self.shared.leaving_bytes.set(self.shared.leaving_bytes.get().saturating_sub(bytes));
        self.shrink(bytes);
    }

    /// Gives bytes back.
    pub fn shrink(&self, bytes: usize) {
        self.shared.used_bytes.set(self.shared.used_bytes.get().saturating_sub(bytes));
        self.shared.room.notify_all();
    }
}
