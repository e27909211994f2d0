//! The memory that all memtables of a shard may take together.
//!
//! Guaranteed: no write begins once the limit is reached, so that the limit is passed by one write's growth at most: most
//! often a chunk of the trie, 8 MiB; of a write of many rows what they take, beside a reader also copies of the nodes that
//! lead to them. Memory that reads of the shard still hold of flushed memtables counts until they let go;
//! what an embedder's threads still hold of them is the embedder's. What flushed memtables leave to the next ones, an
//! eighth of the limit at most, comes on top.

use std::{cell::Cell, rc::Rc, sync::Arc};

use espalier_runtime::{shard, spawn_blocking, spawn_local, sync::Notify};
use espalier_trie::memory::SpareChunks;

/// An arbitrary choice: what is kept needs not be got again, but nobody else can have it.
const SPARE_PART: usize = 8;

/// What is left free when all goes as expected, of what there is from where flushes begin to the limit.
const MARGIN_PART: usize = 8;

/// What a trie can hold, structure and contents together.
pub const LARGEST_TRIE_BYTES: usize = 4 << 30;

/// Clones share the count.
#[derive(Clone)]
pub struct MemtableBudget {
    shared: Rc<Shared>,
    trie_bytes: usize,
}

struct Shared {
    limit_bytes: usize,
    flush_bytes: usize,
    used_bytes: Cell<usize>,
    /// Of them, those of memtables that are being freed.
    leaving_bytes: Cell<usize>,
    grown_bytes: Cell<u64>,
    room: Notify,
    spare_chunks: Arc<SpareChunks>,
}

impl MemtableBudget {
    /// A budget of `limit_bytes`; flushing should begin at `flush_bytes`.
    pub fn new(limit_bytes: usize, flush_bytes: usize) -> Self {
        let shared = Shared {
            limit_bytes,
            flush_bytes,
            used_bytes: Cell::new(0),
            leaving_bytes: Cell::new(0),
            grown_bytes: Cell::new(0),
            room: Notify::new(),
            spare_chunks: Arc::new(SpareChunks::new(limit_bytes / SPARE_PART)),
        };
        Self { shared: Rc::new(shared), trie_bytes: LARGEST_TRIE_BYTES }
    }

    /// The same where one trie may hold so many bytes, which are not more than [`LARGEST_TRIE_BYTES`].
    #[must_use]
    pub fn with_trie_bytes(self, trie_bytes: usize) -> Self {
        Self { trie_bytes: trie_bytes.min(LARGEST_TRIE_BYTES), ..self }
    }

    /// What one trie may hold.
    #[inline]
    pub(crate) fn trie_bytes(&self) -> usize {
        self.trie_bytes
    }

    /// Has chunks made on a helper thread when there are too few: a write that takes a new one would wait for the
    /// system, which was measured to hold the core for tens of milliseconds.
    #[inline]
    pub(crate) fn refill_spare_chunks(&self) {
        if self.shared.spare_chunks.is_one_wanted() {
            self.make_spare_chunk();
        }
    }

    #[cold]
    fn make_spare_chunk(&self) {
        if shard::loop_report().is_none() {
            return;
        }
        let spare = self.shared.spare_chunks.clone();
        spare.promise_one();
        let make = move || {
            spare.make_one();
            while spare.is_one_wanted() {
                spare.promise_one();
                spare.make_one();
            }
        };
        spawn_local(spawn_blocking(make)).detach();
    }

    /// What memtables that are gone have left to the next ones.
    pub(crate) fn spare_chunks(&self) -> &Arc<SpareChunks> {
        &self.shared.spare_chunks
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.shared.used_bytes.get()
    }

    /// Bytes that may be in use.
    pub fn limit_bytes(&self) -> usize {
        self.shared.limit_bytes
    }

    /// Whether a write may begin.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.shared.used_bytes.get() < self.shared.limit_bytes
    }

    /// Bytes in use that nobody is giving back yet.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.shared.used_bytes.get().saturating_sub(self.shared.leaving_bytes.get())
    }

    /// Whether a flush should begin.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.held_bytes() >= self.shared.flush_bytes
    }

    /// Whether memtables of this size together are a reason to flush.
    pub(crate) fn is_flush_due(&self, active_bytes: usize) -> bool {
        active_bytes >= self.shared.flush_bytes
    }

    /// What is held when a flush begins.
    pub(crate) fn flush_bytes(&self) -> usize {
        self.shared.flush_bytes
    }

    /// What should be held at most: writers are slowed down so that a flush is done before there is more.
    pub(crate) fn wanted_bytes(&self) -> usize {
        let (limit, flush) = (self.shared.limit_bytes, self.shared.flush_bytes);
        limit - limit.saturating_sub(flush) / MARGIN_PART
    }

    /// What may still be taken while all goes as expected: up to what should be held, and to the limit of what is in use.
    pub(crate) fn room_bytes(&self) -> usize {
        let held = self.wanted_bytes().saturating_sub(self.held_bytes());
        held.min(self.shared.limit_bytes.saturating_sub(self.shared.used_bytes.get()))
    }

    /// Whether there is less memory than there should be, so that what can wait should leave the core to flushes.
    pub(crate) fn is_short(&self) -> bool {
        self.held_bytes() > self.wanted_bytes() || !self.has_room()
    }

    /// All that was ever taken.
    pub(crate) fn grown_bytes(&self) -> u64 {
        self.shared.grown_bytes.get()
    }

    /// Waits until memory was given back.
    pub async fn wait_for_room(&self) {
        self.shared.room.notified().await;
    }

    /// Wakes those who wait, so that they look again.
    pub(crate) fn wake_waiters(&self) {
        self.shared.room.notify_all();
    }

    #[inline]
    pub(crate) fn grow(&self, bytes: usize) {
        self.shared.used_bytes.set(self.shared.used_bytes.get() + bytes);
        self.shared.grown_bytes.set(self.shared.grown_bytes.get() + bytes as u64);
    }

    /// So many bytes are about to be given back: no flush would help, nor is there a reason to slow down before the limit is near.
    pub(crate) fn begin_freeing(&self, bytes: usize) {
        self.shared.leaving_bytes.set(self.shared.leaving_bytes.get() + bytes);
    }

    /// So many of them are there.
    pub(crate) fn end_freeing(&self, bytes: usize) {
        self.shared.leaving_bytes.set(self.shared.leaving_bytes.get().saturating_sub(bytes));
        self.shrink(bytes);
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.shared.used_bytes.set(self.shared.used_bytes.get().saturating_sub(bytes));
        self.shared.room.notify_all();
    }
}
