//! Freeing what a memtable leaves behind.
//!
//! The rows of a large one are freed by the shard itself, some at a time: altogether it takes a tenth of a second. On a helper thread it
//! would take longer, share the core where there is no other one, and leave the allocator a list of blocks that the shard must walk in one
//! go later. What is left then is given back to the system by a helper thread, for unmapping a chunk takes up to a millisecond.

use espalier_runtime::{maybe_yield, shard, spawn_blocking, spawn_local};

use super::{MemtableBudget, store::StoreRemains};

/// What is smaller is freed at once.
const LARGE_BYTES: usize = 256 << 10;

/// Rows between two chances to give way: some microseconds.
const FREED_AT_ONCE: u32 = 64;

/// Frees what there is; the budget, in which it counts with so many bytes, has them when that is done.
pub(super) fn free(remains: impl FnOnce() -> StoreRemains, bytes: usize, budget: &MemtableBudget) {
    if bytes < LARGE_BYTES || shard::loop_report().is_none() {
        budget.shrink(bytes);
        return;
    }
    let (mut remains, budget) = (remains(), budget.clone());
    budget.begin_freeing(bytes);
    spawn_local(async move {
        while remains.free_some(FREED_AT_ONCE) {
            maybe_yield().await;
        }
        spawn_blocking(move || drop(remains)).await;
        budget.end_freeing(bytes);
    })
    .detach();
}
