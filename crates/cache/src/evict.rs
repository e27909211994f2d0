//! Eviction: a clock hand goes over the keys in their order and evicts the oldest entries that it
//! meets.
//!
//! An eviction step passes a bounded number of entries, so its cost does not depend on the size of
//! a partition. Rule 8 of docs/cache.md: an evicted row leaves the range before the next entry not
//! continuous; nothing else changes.

use espalier_runtime::{maybe_yield, shard, spawn_local};
use espalier_trie::cursor::Direction;

use super::{Inner, RowCache, entry::Entry, ghost_list::hash};

/// Entries that the hand passes in one step: some microseconds.
const PASSED_AT_ONCE: usize = 48;
/// Bytes of rows after which a step ends early, because each large row costs the allocator a system
/// call.
const FREED_BYTES_AT_ONCE: usize = 1 << 20;
/// Nothing is evicted while readers of older states retain more than 1/4 of the limit (arbitrary).
const KEPT_PART: usize = 4;
/// Eviction begins when less than 1/64 of the limit is free, because an insertion also splits
/// nodes.
const ROOM_PART: usize = 64;
/// Entries of a forgotten table that are removed in one step.
const REMOVED_AT_ONCE: usize = 32;
/// Retired blocks that are freed in one step.
const FREED_AT_ONCE: u32 = 256;
/// Maximum number of calls of [`Inner::make_room`] after a move of the border between rows and
/// pages. If readers retain so much memory that usage stays above the limit, later insertions
/// continue the eviction.
const MAX_TURNS: usize = 1 << 14;

impl RowCache {
    /// Moves the border between rows and pages towards the side that evicts too early, and evicts
    /// rows if their limit is lower now. The caller calls this every second.
    pub async fn split_memory(&self) {
        let is_lower = {
            let inner = &mut *self.0.borrow_mut();
            let returned = std::mem::take(&mut inner.ghosts.returned);
            inner.memory.move_border(returned)
        };
        if !is_lower {
            return;
        }
        for _ in 0..MAX_TURNS {
            {
                let mut inner = self.0.borrow_mut();
                if !inner.is_over(0) || inner.trie.is_empty() {
                    break;
                }
                inner.make_room();
            }
            maybe_yield().await;
        }
    }

    pub(super) fn new_number(&self) -> u32 {
        let mut inner = self.0.borrow_mut();
        inner.next_number += 1;
        inner.next_number
    }

    /// Removes the entries under a table number that is no longer in use, in steps.
    pub(super) fn remove_later(&self, number: u32) {
        let Ok(inner) = self.0.try_borrow() else { return };
        let is_empty = inner
            .trie
            .subtrie(&number.to_be_bytes())
            .entries(Direction::Forward)
            .next_entry()
            .is_none();
        drop(inner);
        if is_empty {
            return;
        }
        let cache = self.clone();
        if shard::loop_report().is_none() {
            while cache.remove_some(number) {}
            return;
        }
        spawn_local(async move {
            while cache.remove_some(number) {
                maybe_yield().await;
            }
        })
        .detach();
    }

    /// Removes some entries under a number. Returns `false` if none is left, or if one could not be
    /// removed.
    fn remove_some(&self, number: u32) -> bool {
        let mut inner = self.0.borrow_mut();
        let mut keys = Vec::with_capacity(REMOVED_AT_ONCE);
        let prefix = number.to_be_bytes();
        let mut entries = inner.trie.subtrie(&prefix).entries(Direction::Forward);
        while keys.len() < REMOVED_AT_ONCE
            && let Some((key, _)) = entries.next_entry()
        {
            keys.push([&prefix[..], key].concat());
        }
        drop(entries);
        for key in &keys {
            let rows = inner.metrics.rows;
            if !inner.remove(key) {
                return false;
            }
            inner.metrics.row_removals += rows - inner.metrics.rows;
        }
        inner.trie.free_retired(FREED_AT_ONCE);
        inner.settle();
        !keys.is_empty()
    }
}

impl Inner {
    /// Returns whether `more` additional bytes would exceed the limit.
    pub(super) fn is_over(&self, more: usize) -> bool {
        self.used_bytes() + more > self.memory.limit_bytes
    }

    /// Returns whether an insertion may cause evictions. Data that no reader has asked for is then
    /// not added.
    pub(super) fn is_short_of_room(&self) -> bool {
        self.is_over(self.memory.limit_bytes / ROOM_PART * 2)
    }

    /// Advances the clock hand by one step if memory is short. Each insertion calls this once. A
    /// step evicts more than an insertion takes, so that room grows faster than insertions use it
    /// up. Returns whether anything changed: an entry was evicted, or a header became newer. If no
    /// entry is inserted or used meanwhile, repeated calls eventually return `false`.
    pub(super) fn make_room(&mut self) -> bool {
        self.settle();
        if !self.is_over(self.memory.limit_bytes / ROOM_PART) {
            return false;
        }
        self.trie.free_retired(FREED_AT_ONCE);
        // While readers retain much, evictions free no memory until these readers end, and
        // everything would be evicted in vain.
        if self.trie.is_empty() || self.kept_bytes() > self.memory.limit_bytes / KEPT_PART {
            return false;
        }
        let victims = self.eviction_ages.victims();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let Self { trie, eviction_ages, clock_hand, .. } = self;
        let mut entries = trie.entries(Direction::Forward);
        entries.seek(clock_hand);
        // A header is evicted if no entry of its partition follows it.
        let mut header: Option<(Vec<u8>, &Entry)> = None;
        let mut is_range_lost = false;
        let (mut passed, mut freed_bytes, mut is_changed) = (0, 0, false);
        let mut reached = Vec::new();
        loop {
            let Some((key, entry)) = entries.next_entry() else {
                keys.extend(header.map(|(key, _)| key));
                break;
            };
            if let Some((header_key, header)) = header.take() {
                if !key.starts_with(&header_key) {
                    keys.push(header_key);
                } else if !victims.contain(entry) {
                    // The header cannot be evicted before the entry that follows it, so it becomes
                    // as new as an inserted entry. Otherwise headers that no reader looks at would
                    // stay the oldest entries while flushes add rows below them, and nothing else
                    // would be evicted. A header also counts as used again if its row does.
                    // Otherwise nothing would be evicted if such headers were the only entries used
                    // once.
                    is_changed |= if entry.is_reused() {
                        eviction_ages.touch(header)
                    } else {
                        eviction_ages.renew(header)
                    };
                }
            }
            if is_range_lost && !entry.is_of_partitions() {
                entry.forget_range();
            }
            is_range_lost = false;
            passed += 1;
            if passed > PASSED_AT_ONCE || freed_bytes > FREED_BYTES_AT_ONCE {
                reached.extend_from_slice(key);
                break;
            }
            if !victims.contain(entry) {
                continue;
            }
            if entry.is_header() {
                header = Some((key.to_vec(), entry));
            } else {
                keys.push(key.to_vec());
                freed_bytes += entry.heap_bytes();
                is_range_lost = true;
            }
        }
        drop(entries);
        for key in &keys {
            is_changed |= self.evict(key);
        }
        self.clock_hand = reached;
        is_changed
    }

    fn evict(&mut self, key: &[u8]) -> bool {
        let before = self.metrics;
        let is_gone = self.remove(key);
        if before.rows > self.metrics.rows {
            self.ghosts.note(hash(key, &[]));
        }
        self.metrics.row_evictions += before.rows - self.metrics.rows;
        self.metrics.partition_evictions += before.partitions - self.metrics.partitions;
        is_gone
    }

    /// Removes an entry, whatever entries of its partition follow it. If the entry is in the
    /// sequence of partitions, the range of partitions behind it is no longer continuous. Returns
    /// `false` if the entry could not be removed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.trie.get(key) else { return false };
        let (age, heap_bytes) = (entry.age(), entry.heap_bytes());
        let (is_row, is_partition) = (entry.is_row(), entry.is_partition());
        let (is_of_partitions, is_fence) = (entry.is_of_partitions(), entry.is_fence());
        let is_removed = if self.trie.has_readers() {
            // A snapshot must not change, so the nodes on the path are copied. This way cannot
            // remove the last entry of the trie.
            self.trie.transaction(&[]).remove(key).unwrap_or(false)
        } else {
            self.trie.remove(key).unwrap_or(false)
        };
        if !is_removed {
            return false;
        }
        if is_of_partitions {
            self.forget_partitions_behind(key, is_fence);
        }
        self.live_heap_bytes -= heap_bytes;
        self.eviction_ages.remove(&age);
        self.metrics.rows -= u64::from(is_row);
        self.metrics.partitions -= u64::from(is_partition);
        true
    }
}

#[cfg(test)]
mod tests {
    use espalier_memtable::MemtableBudget;
    use espalier_mutation::{DeletionTime, path};
    use espalier_sstable::PageCache;

    use super::*;

    /// Headers used once cannot be evicted before their rows. If the rows were used again, the hand
    /// must not look only for these headers.
    #[test]
    fn headers_used_once_are_evicted_with_rows_used_again() {
        let budget = MemtableBudget::new(1 << 20, 1 << 20);
        let cache = RowCache::new(1 << 20, PageCache::new(0), 1 << 20, budget);
        let live = DeletionTime::LIVE;
        for partition in 0..100 {
            let inner = &mut *cache.0.borrow_mut();
            let (prefix, place) = ([0, 0, 0, 1, partition], [path::FIRST_ROW]);
            assert!(inner.add_header(&prefix, live, &[]));
            assert!(inner.add(&prefix, &place, Entry::row(true, live, b"row")));
            let Inner { trie, eviction_ages, .. } = inner;
            let row = trie.subtrie(&prefix).get(&place).unwrap();
            eviction_ages.touch(row);
        }
        assert_eq!(cache.metrics().partitions, 100);
        // The result must not depend on where the hand begins.
        cache.0.borrow_mut().clock_hand = vec![0, 0, 0, 1, 90];
        cache.set_limit(0);
        let metrics = cache.metrics();
        assert_eq!((metrics.rows, metrics.partitions, metrics.used_bytes), (0, 0, 0));
    }
}
