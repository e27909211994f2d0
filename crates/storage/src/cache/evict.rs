//! Making room: a hand goes over the keys, in their order, and takes the oldest entries that it meets.
//!
//! What costs the core is bounded by what the hand passes at a time, however large a partition is. Rule 8: a row that goes
//! leaves the range before the next entry unknown; nothing else changes.

use espalier_runtime::{maybe_yield, shard, spawn_local};
use espalier_trie::cursor::Direction;

use super::{Inner, RowCache, balance::hash, entry::Entry};

/// Entries that the hand passes at a time: some microseconds.
const PASSED_AT_ONCE: usize = 48;
/// Bytes of rows after which it stops earlier: large ones cost the allocator a call to the system each.
const FREED_BYTES_AT_ONCE: usize = 1 << 20;
/// While readers of older states keep more than this part of the limit, nothing is evicted. An arbitrary choice.
const KEPT_PART: usize = 4;
/// Entries go when less than this part of the limit is free: an insertion splits nodes, too.
const ROOM_PART: usize = 64;
/// Entries of a table that is forgotten that are removed at a time.
const REMOVED_AT_ONCE: usize = 32;
/// What was replaced while it was read is freed in such portions.
const FREED_AT_ONCE: u32 = 256;

impl RowCache {
    pub(super) fn new_number(&self) -> u32 {
        let mut inner = self.0.borrow_mut();
        inner.next_number += 1;
        inner.next_number
    }

    /// Removes what is under a number that nobody uses any more, in steps.
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

    /// Removes some entries under a number; `false` if there is none left.
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
    /// Whether so many bytes more are too many.
    pub(super) fn is_over(&self, more: usize) -> bool {
        self.used_bytes() + more > self.limit_bytes
    }

    /// Whether an insertion may make others go: for what nobody has asked for there is no room then.
    pub(super) fn is_short_of_room(&self) -> bool {
        self.is_over(self.limit_bytes / ROOM_PART * 2)
    }

    /// Lets the hand go on if there is little room: an insertion calls this once, so that room grows faster than it is taken. Gives whether
    /// anything is another than before: an entry is gone, or a header counts as newer. Without insertions and uses, that ends.
    pub(super) fn make_room(&mut self) -> bool {
        self.settle();
        if !self.is_over(self.limit_bytes / ROOM_PART) {
            return false;
        }
        self.trie.free_retired(FREED_AT_ONCE);
        // What goes while much is kept by readers gives no room before they leave: it would all go for nothing.
        if self.trie.is_empty() || self.kept_bytes() > self.limit_bytes / KEPT_PART {
            return false;
        }
        let victims = self.ages.victims();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let Self { trie, ages, hand, .. } = self;
        let mut entries = trie.entries(Direction::Forward);
        entries.seek(hand);
        // A header goes when nothing of its partition follows it.
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
                    // It cannot go yet. Flushes add rows below headers that nobody looks at: if these stayed the oldest, nothing else would
                    // go. And none would if they were all that was used once: they take after their rows.
                    is_changed |= match entry.is_reused() {
                        true => ages.touch(header),
                        false => ages.renew(header),
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
        self.hand = reached;
        is_changed
    }

    fn evict(&mut self, key: &[u8]) -> bool {
        let before = self.metrics;
        let is_gone = self.remove(key);
        if before.rows > self.metrics.rows {
            self.gone.note(hash(key, &[]));
        }
        self.metrics.row_evictions += before.rows - self.metrics.rows;
        self.metrics.partition_evictions += before.partitions - self.metrics.partitions;
        is_gone
    }

    /// Removes an entry, whatever follows it of its partition; the range of partitions behind it gets lost. `false`: it is still there.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.trie.get(key) else { return false };
        let (age, heap_bytes) = (entry.age(), entry.heap_bytes());
        let (is_row, is_partition) = (entry.is_row(), entry.is_partition());
        let (is_of_partitions, is_fence) = (entry.is_of_partitions(), entry.is_fence());
        let is_removed = match self.trie.has_readers() {
            false => self.trie.remove(key).unwrap_or(false),
            // Nothing of what a snapshot shows may change: copies of the nodes on the way do. The last entry of all stays.
            true => self.trie.transaction(&[]).remove(key).unwrap_or(false),
        };
        if !is_removed {
            return false;
        }
        if is_of_partitions {
            self.forget_partitions_behind(key, is_fence);
        }
        self.live_heap_bytes -= heap_bytes;
        self.ages.remove(&age);
        self.metrics.rows -= u64::from(is_row);
        self.metrics.partitions -= u64::from(is_partition);
        true
    }
}

#[cfg(test)]
mod tests {
    use espalier_mutation::DeletionTime;
    use espalier_sstable::PageCache;

    use super::*;
    use crate::memtable::{MemtableBudget, path};

    /// A header that was used once and cannot go before its row, which was used again, must not be all that the hand looks for.
    #[test]
    fn headers_take_after_their_rows() {
        let budget = MemtableBudget::new(1 << 20, 1 << 20);
        let cache = RowCache::new(1 << 20, PageCache::new(0), 1 << 20, budget);
        let live = DeletionTime::LIVE;
        for partition in 0..100 {
            let inner = &mut *cache.0.borrow_mut();
            let (prefix, place) = ([0, 0, 0, 1, partition], [path::FIRST_ROW]);
            assert!(inner.add_header(&prefix, live, &[]));
            assert!(inner.add(&prefix, &place, Entry::row(true, live, b"row")));
            let Inner { trie, ages, .. } = inner;
            let row = trie.subtrie(&prefix).get(&place).unwrap();
            ages.touch(row);
        }
        assert_eq!(cache.metrics().partitions, 100);
        // From any place on.
        cache.0.borrow_mut().hand = vec![0, 0, 0, 1, 90];
        cache.set_limit(0);
        let metrics = cache.metrics();
        assert_eq!((metrics.rows, metrics.partitions, metrics.used_bytes), (0, 0, 0));
    }
}
