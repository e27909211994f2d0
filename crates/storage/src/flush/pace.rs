//! The flush pace limits a flush to a share of the core while memory lasts.
//!
//! An unthrottled flush finishes in a third of the time in which the next memtable fills, and cuts
//! write throughput by a third meanwhile. At 25 % of the core a flush takes most of that time, and
//! throughput stays flat. The same limit applies to the update of the row cache after the file is
//! written. It is lifted when the core is idle, when a task waits for the flush, or when memory or
//! commit log run low.

use std::time::Duration;

use espalier_runtime::{
    background_share::{BackgroundShare, Slice},
    maybe_yield,
    time::Instant,
    yield_now,
};

use crate::ShardStore;

/// Rows and partitions between two readings of the clock.
const ITEMS_BETWEEN_LOOKS: u32 = 16;
/// Share of the core that a flush takes at most while other tasks want it.
const SHARE: f64 = 0.25;

pub(super) struct FlushPace<'a> {
    store: &'a ShardStore,
    slices: BackgroundShare,
    items: u32,
}

impl<'a> FlushPace<'a> {
    pub(super) fn new(store: &'a ShardStore) -> Self {
        Self { store, slices: BackgroundShare::new(), items: 0 }
    }

    /// Yields if the slice is over. The flush calls it for each row and partition.
    #[inline]
    pub(super) async fn look(&mut self) {
        self.items = self.items.wrapping_add(1);
        if self.items.is_multiple_of(ITEMS_BETWEEN_LOOKS) {
            self.keep().await
        } else {
            maybe_yield().await
        }
    }

    async fn keep(&mut self) {
        if !self.store.memtables.can_flush_slowly(&self.store.logs) {
            maybe_yield().await;
            self.slices.begin_slice();
        } else if let Some(worked) = self.slices.worked(Duration::ZERO) {
            let left = Instant::now();
            yield_now().await;
            // The flush hardly waits for the disk, because writes happen in the background.
            self.slices.rest(Slice { worked, waited: Duration::ZERO }, left, SHARE, || false).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, file::FileSystem};

    use crate::test_database::open;

    #[test]
    fn a_flush_takes_its_time_while_memory_lasts() {
        block_on(async {
            let store = open(FileSystem::simulated(1)).await.store().clone();
            let can_flush_slowly = || store.memtables.can_flush_slowly(&store.logs);
            assert!(can_flush_slowly());
            let awaiting = store.memtables.await_flush();
            assert!(!can_flush_slowly());
            drop(awaiting);
            let room = store.memtables.budget.room_bytes();
            let first = store.memtables.flush_estimate.begin(room);
            assert!(can_flush_slowly());
            let second = store.memtables.flush_estimate.begin(room / 2);
            assert!(!can_flush_slowly());
            drop(second);
            assert!(can_flush_slowly());
            store.memtables.budget.grow(room / 2);
            assert!(!can_flush_slowly());
            first.advance_to(0.5);
            assert!(can_flush_slowly());
            store.memtables.budget.shrink(room / 2);
        });
    }
}
