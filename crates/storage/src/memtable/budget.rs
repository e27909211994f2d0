//! The memory that all memtables of a shard may take together.
//!
//! Guaranteed: no write begins once the limit is reached, so that the limit is passed by one write's growth at most: most
//! often a chunk of the trie, 8 MiB; of a write of many rows what they take, beside a reader also copies of the nodes that
//! lead to them. Memory that reads of the shard still hold of flushed memtables counts until they let go;
//! what an embedder's threads still hold of them is the embedder's. What flushed memtables leave to the next ones, an
//! eighth of the limit at most, comes on top.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use espalier_runtime::{shard, spawn_blocking, spawn_local, sync::Notify};
use espalier_trie::memory::SpareChunks;

/// An arbitrary choice: what is kept needs not be got again, but nobody else can have it.
const SPARE_PART: usize = 8;

/// What a write waits for when memory begins to be short, in µs; at the limit it is doubled so many times.
const LEAST_DELAY_US: f64 = 1000.0;
const DELAY_DOUBLINGS: f64 = 9.0;

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

    /// Whether a flush should begin.
    #[inline]
    pub fn wants_flush(&self) -> bool {
        self.shared.used_bytes.get() >= self.shared.flush_bytes
    }

    /// Whether memtables of this size together are a reason to flush.
    pub(crate) fn is_flush_due(&self, active_bytes: usize) -> bool {
        active_bytes >= self.shared.flush_bytes
    }

    /// From where on writes are slowed down: halfway from where flushes begin to the limit.
    fn slow_bytes(&self) -> usize {
        self.shared.flush_bytes.midpoint(self.shared.limit_bytes)
    }

    /// Whether flushes do not keep up with writes.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.shared.used_bytes.get() > self.slow_bytes()
    }

    /// Whether memory gets short soon, so that what can wait should leave the core to flushes.
    pub(crate) fn is_getting_short(&self) -> bool {
        self.shared.used_bytes.get() > self.shared.flush_bytes.midpoint(self.slow_bytes())
    }

    /// How long a write is to wait before it begins, so that memory lasts until a flush gives some back: nothing as long as there is
    /// enough, and from a millisecond to half a second as it gets short. So writers are slowed down and not stopped.
    pub(crate) fn delay(&self) -> Duration {
        if !self.is_short() {
            return Duration::ZERO;
        }
        let slow = self.slow_bytes();
        let above = self.shared.used_bytes.get().saturating_sub(slow) as f64;
        let share = above / self.shared.limit_bytes.saturating_sub(slow).max(1) as f64;
        let delay_us = LEAST_DELAY_US * (DELAY_DOUBLINGS * share.min(1.0)).exp2();
        Duration::from_micros(delay_us as u64)
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
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        self.shared.used_bytes.set(self.shared.used_bytes.get().saturating_sub(bytes));
        self.shared.room.notify_all();
    }
}
