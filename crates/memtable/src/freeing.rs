//! Frees a dropped memtable.
//!
//! The shard itself frees the rows of a large memtable, some at a time; together this takes a tenth
//! of a second. A helper thread would take longer, compete for the core if there is only one, and
//! leave the allocator a list of blocks that the shard must walk in one go later. A helper thread
//! then returns the structure to the system, because unmapping a chunk takes up to a millisecond.
//! It also frees a skip list as a whole, because the nodes of a skip list go all at once.

use espalier_runtime::{maybe_yield, shard, spawn_blocking, spawn_local};

use super::{MemtableBudget, store::StoreRemains};

/// A smaller memtable is freed at once.
const LARGE_BYTES: usize = 256 << 10;

/// Contents freed between two chances to yield: some microseconds.
const FREED_AT_ONCE: u32 = 64;

/// The portion in which the budget gets memory back: a single content is not worth waking the
/// writes that wait for room.
const GIVEN_BACK_AT_ONCE: usize = 1 << 20;

/// The amount of memory to be freed.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// The number of rows, partitions, boundaries of range deletions and tombstone runs.
    pub(super) contents: usize,
    /// Bytes of contents besides the structure, which the allocator gets back as soon as they are
    /// freed.
    pub(super) content_bytes: usize,
    /// All bytes that the budget counts.
    pub(super) bytes: usize,
}

impl Extent {
    /// Returns the bytes available again when `freed` contents are freed.
    fn bytes_of(&self, freed: usize) -> usize {
        let share = freed.min(self.contents) as f64 / self.contents.max(1) as f64;
        ((self.content_bytes as f64 * share) as usize).min(self.bytes)
    }
}

/// Drops a structure on a helper thread, because unmapping its chunks may take a millisecond each.
/// The structure has no contents that must be freed in steps.
pub(super) fn free_elsewhere<T: Send + 'static>(structure: T) {
    if shard::loop_report().is_some() {
        spawn_local(spawn_blocking(move || drop(structure))).detach();
    }
}

/// Frees the remains, and gives the memory back to the budget in portions.
pub(super) fn free(
    remains: impl FnOnce() -> StoreRemains,
    extent: Extent,
    budget: &MemtableBudget,
) {
    let bytes = extent.bytes;
    if bytes < LARGE_BYTES || shard::loop_report().is_none() {
        budget.shrink(bytes);
        return;
    }
    let (mut remains, budget) = (remains(), budget.clone());
    budget.begin_freeing(bytes);
    spawn_local(async move {
        let (mut freed, mut given_bytes) = (0, 0);
        while remains.free_some(FREED_AT_ONCE) {
            freed += FREED_AT_ONCE as usize;
            let freed_bytes = extent.bytes_of(freed);
            if freed_bytes - given_bytes >= GIVEN_BACK_AT_ONCE {
                budget.end_freeing(freed_bytes - given_bytes);
                given_bytes = freed_bytes;
            }
            maybe_yield().await;
        }
        spawn_blocking(move || drop(remains)).await;
        budget.end_freeing(bytes - given_bytes);
    })
    .detach();
}
