//! The memory of a shard's memtables, and the flushes that free it.

use std::cell::Cell;

use espalier_commitlog::CommitLog;
use espalier_memtable::{MemtableBudget, MemtableFactory};
use espalier_runtime::{ShardContext, scheduling::STATEMENT_SHARES, sync::Semaphore};

use super::{Logs, flush_estimate::FlushEstimate, write_pace::WritePace};
use crate::StorageConfiguration;

/// Room that memtables must have for a slow flush, as a fraction of the bytes that flushes still
/// have to write. It is somewhat less than the room at the start of a flush that starts at half of
/// the memory or earlier (`memtable_cleanup_threshold`).
const ROOM_OF_SLOW_FLUSH: f64 = 0.75;

/// Shares of a slow flush: a quarter of the core beside busy statements. An unthrottled flush
/// finishes in a third of the time in which the next memtable fills, and cuts write throughput by a
/// third meanwhile. At a quarter of the core a flush takes most of that time, and throughput stays
/// flat.
pub(crate) const SLOW_FLUSH_SHARES: u32 = STATEMENT_SHARES / 3;

/// Counts something in a cell until it is dropped: a flush under way, or a task that waits for one.
pub(crate) struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// The memory of a shard's memtables.
pub(crate) struct Memtables {
    pub(crate) budget: MemtableBudget,
    pub(crate) factory: MemtableFactory,
    pub(crate) flush_estimate: FlushEstimate,
    pub(crate) write_pace: WritePace,
    /// The turn of the write that adds entries of indexes in steps; one unit.
    pub(super) index_turn: Semaphore,
    /// Number of flushes under way.
    flushing: Cell<usize>,
    /// Number of tasks that wait for a flush.
    awaiting_flush: Cell<usize>,
    /// True if flushes start automatically.
    pub(crate) are_flushed: Cell<bool>,
}

impl Memtables {
    pub(super) fn new(context: ShardContext, configuration: &StorageConfiguration) -> Self {
        let limit = (configuration.memtables.bytes / context.count.max(1)).max(1);
        let threshold = configuration.memtables.cleanup_threshold.clamp(0.01, 1.0);
        let flush = (limit as f64 * threshold) as usize;
        let budget =
            MemtableBudget::new(limit, flush).with_trie_bytes(configuration.memtables.trie_bytes);
        Self {
            factory: MemtableFactory::new(
                context,
                configuration.memtables.configurations.clone(),
                budget.clone(),
            ),
            budget,
            flush_estimate: FlushEstimate::default(),
            write_pace: WritePace::default(),
            index_turn: Semaphore::new(1),
            flushing: Cell::new(0),
            awaiting_flush: Cell::new(0),
            are_flushed: Cell::new(false),
        }
    }

    /// Counts a flush as under way until the result is dropped.
    pub(crate) fn begin_flush(&self) -> Counted<'_> {
        Counted::new(&self.flushing)
    }

    /// Counts a task that waits for a flush until the result is dropped.
    pub(crate) fn await_flush(&self) -> Counted<'_> {
        Counted::new(&self.awaiting_flush)
    }

    /// Returns whether a flush is under way on this shard.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.get() > 0
    }

    /// Returns whether deferrable work should leave the core to a flush, because memory is short.
    pub(crate) fn is_flush_urgent(&self) -> bool {
        self.is_flushing() && self.budget.is_short()
    }

    /// Returns the shares of flushes. They are few while no task waits for a flush, and memory and
    /// log last longer than the flushes do. They rise with the room that is missing.
    pub(crate) fn flush_shares(&self, logs: &Logs) -> u32 {
        let (budget, estimate) = (&self.budget, &self.flush_estimate);
        // Bytes of other tables that are due to be flushed and are not being written yet.
        let active_bytes = budget.held_bytes() as f64 - estimate.begun_bytes();
        let due_bytes = (active_bytes - budget.flush_bytes() as f64).max(0.0);
        if self.awaiting_flush.get() > 0
            || self.write_pace.is_slowing()
            || logs.all().any(CommitLog::is_under_pressure)
        {
            return STATEMENT_SHARES;
        }
        let needed_bytes = ROOM_OF_SLOW_FLUSH * (estimate.left_bytes() + due_bytes);
        let missing = (needed_bytes / (budget.room_bytes() as f64).max(1.0) - 1.0).clamp(0.0, 1.0);
        let more = f64::from(STATEMENT_SHARES - SLOW_FLUSH_SHARES) * missing;
        SLOW_FLUSH_SHARES + more as u32
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, file::FileSystem};

    use super::SLOW_FLUSH_SHARES;
    use crate::test_database::open;

    #[test]
    fn a_flush_takes_its_time_while_memory_lasts() {
        block_on(async {
            let store = open(FileSystem::simulated(1)).await.store().clone();
            let shares = || store.memtables.flush_shares(&store.logs);
            let can_flush_slowly = || shares() == SLOW_FLUSH_SHARES;
            assert!(can_flush_slowly());
            let awaiting = store.memtables.await_flush();
            assert_eq!(shares(), 1000);
            drop(awaiting);
            let room = store.memtables.budget.room_bytes();
            let first = store.memtables.flush_estimate.begin(room);
            assert!(can_flush_slowly());
            let second = store.memtables.flush_estimate.begin(room / 2);
            // An eighth of the room is missing.
            assert!((400..430).contains(&shares()), "{}", shares());
            drop(second);
            assert!(can_flush_slowly());
            store.memtables.budget.grow(room / 2);
            assert!((660..680).contains(&shares()), "{}", shares());
            first.advance_to(0.5);
            assert!(can_flush_slowly());
            store.memtables.budget.grow(room / 2);
            assert_eq!(shares(), 1000);
            store.memtables.budget.shrink(room);
        });
    }
}
