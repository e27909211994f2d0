//! Freeing what a memtable leaves behind.
//!
//! The rows of a large one are freed by the shard itself, some at a time: altogether it takes a tenth of a second. On a helper thread it
//! would take longer, share the core where there is no other one, and leave the allocator a list of blocks that the shard must walk in one
//! go later. What is left then is given back to the system by a helper thread, for unmapping a chunk takes up to a millisecond. So does a
//! skip list, whose nodes go all at once.

use espalier_runtime::{maybe_yield, shard, spawn_blocking, spawn_local};

use super::{MemtableBudget, store::StoreRemains};

/// What is smaller is freed at once.
const LARGE_BYTES: usize = 256 << 10;

/// Contents between two chances to give way: some microseconds.
const FREED_AT_ONCE: u32 = 64;

/// What the budget gets back at a time: not each of these contents is worth waking who waits for room.
const GIVEN_BACK_AT_ONCE: usize = 1 << 20;

/// How much there is to be freed.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Rows, deletions and places where range deletions change.
    pub(super) contents: usize,
    /// What they take besides the structure: the allocator has it again as soon as they are freed.
    pub(super) content_bytes: usize,
    /// All that the budget counts.
    pub(super) bytes: usize,
}

impl Extent {
    /// What is there again when so many contents are freed.
    fn bytes_of(&self, freed: usize) -> usize {
        let share = freed.min(self.contents) as f64 / self.contents.max(1) as f64;
        ((self.content_bytes as f64 * share) as usize).min(self.bytes)
    }
}

/// Frees what there is, and gives it back to the budget as it goes.
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
