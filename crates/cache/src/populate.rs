//! Adds to the cache the rows, ranges and headers that reads find in files. All positions are
//! within the partition with the path `prefix`.
//!
//! Every addition must be true of the files of the present epoch. Callers check their ticket first.
//! An entry that exists is not replaced (rule 5 of docs/cache.md), because it may be newer.

use std::borrow::Cow;

use espalier_mutation::{ColumnData, DeletionTime, Direction, Row};
use espalier_runtime::maybe_yield;
use espalier_trie::cursor::Direction as WalkDirection;

use super::{
    CacheAccess, Inner,
    entry::Entry,
    ghost_list::hash,
    place::{FIRST, are_adjacent, before, behind, is_row},
};

/// Adds the rows and ranges that a read in one direction finds in the files of one partition.
pub(super) struct Filler<'a> {
    pub(super) access: &'a CacheAccess,
    pub(super) prefix: &'a [u8],
    pub(super) direction: Direction,
}

impl Filler<'_> {
    /// Adds the next row, and records that nothing lies between `near` and the row. Returns the
    /// row's length in bytes. Returns a lower bound of the length if the row is too large to be
    /// added, and 0 if the read may not add anything.
    pub(super) async fn add_row(
        &self,
        near: &[u8],
        place: &[u8],
        deletion: DeletionTime,
        row: &Row,
    ) -> usize {
        if !self.access.may_add() {
            return 0;
        }
        let least = min_bytes(row);
        if self.access.cache.cache.0.borrow().is_too_large(least) {
            self.add_range(near, place, deletion).await;
            return least;
        }
        let mut bytes = Vec::new();
        self.access.cache.format().store_row(row, &mut bytes);
        if !self.add_row_at_once(near, place, deletion, &bytes) {
            self.add_range(near, place, deletion).await;
        }
        bytes.len()
    }

    /// Adds a row. Returns `false` if the range between `near` and the row still has to be added.
    fn add_row_at_once(
        &self,
        near: &[u8],
        place: &[u8],
        deletion: DeletionTime,
        row: &[u8],
    ) -> bool {
        let mut inner = self.access.cache.cache.0.borrow_mut();
        let is_forward = self.direction == Direction::Forward;
        if is_forward && inner.add_next_row(self.prefix, near, place, deletion, row) {
            return true;
        }
        inner.add_row(self.prefix, place, deletion, row);
        false
    }

    /// Records that nothing lies between two positions, given in the direction of the walk. Other
    /// reads may have added any number of positions in between, so this yields, and ends early if
    /// the table's files change.
    pub(super) async fn add_range(&self, near: &[u8], far: &[u8], deletion: DeletionTime) {
        let (low, high) = self.direction.order(near, far);
        let mut low = Cow::Borrowed(low);
        while self.access.may_add() {
            let cache = &self.access.cache.cache;
            let reached = cache.0.borrow_mut().add_some_of_range(self.prefix, &low, high, deletion);
            match reached {
                Some(reached) => low = Cow::Owned(reached),
                None => return,
            }
            maybe_yield().await;
        }
    }
}

/// Returns a lower bound of a row's stored length, so that a large row is refused without being
/// packed.
pub(super) fn min_bytes(row: &Row) -> usize {
    let of_column = |data: &ColumnData| match data {
        ColumnData::Simple(cell) => cell.value.len(),
        ColumnData::Complex(column) => {
            column.cells.iter().map(|(path, cell)| path.len() + cell.value.len()).sum()
        }
    };
    row.columns.iter().map(|(_, data)| of_column(data)).sum()
}

/// Entries of a range that are changed in one step.
pub(super) const CHANGED_AT_ONCE: usize = 16;
/// Rows above 1/16 of the cache are not kept (arbitrary).
const MAX_ROW_PART: usize = 16;

impl Inner {
    /// Adds a partition's header, unless there is one. Returns `false` if there is no room or the
    /// static row is too large.
    pub(super) fn add_header(
        &mut self,
        prefix: &[u8],
        deletion: DeletionTime,
        static_row: &[u8],
    ) -> bool {
        if self.trie.get(prefix).is_some() {
            return true;
        }
        self.make_room();
        self.add(prefix, &[], Entry::header(deletion, static_row))
    }

    /// Adds a row without any continuity around it. Returns `false` if the row is not in the cache
    /// afterwards.
    pub(super) fn add_row(
        &mut self,
        prefix: &[u8],
        place: &[u8],
        deletion: DeletionTime,
        row: &[u8],
    ) -> bool {
        self.make_room();
        // The header may have been evicted since the reader found it; rows without a header are
        // never found.
        if self.get(prefix, &[]).is_none() {
            return false;
        }
        if let Some(present) = self.get(prefix, place) {
            return present.is_row();
        }
        // A continuous range lacks the row, so a deletion covers the row. Both the cache and the
        // files have that deletion.
        if self.successor(prefix, place).is_some_and(|(_, is_continuous, _)| is_continuous) {
            return false;
        }
        self.add(prefix, place, Entry::row(false, deletion, row))
    }

    /// Adds a row, and records that nothing lies between `low` and the row. Handles only the usual
    /// case: `low` has an entry, and the range behind `low` is not continuous. Returns `false` if
    /// nothing was done.
    pub(super) fn add_next_row(
        &mut self,
        prefix: &[u8],
        low: &[u8],
        place: &[u8],
        deletion: DeletionTime,
        row: &[u8],
    ) -> bool {
        self.make_room();
        let mut entries = self.trie.subtrie(prefix).entries(WalkDirection::Forward);
        entries.seek(low);
        // No entry exists without its partition's header.
        let mut is_low_continuous = low == FIRST && self.get(prefix, &[]).is_some();
        loop {
            match entries.next_entry() {
                None => break,
                Some((key, _)) if key == low => is_low_continuous = true,
                Some((_, entry)) if entry.is_header() => {}
                Some((key, entry)) if key > place && !entry.is_continuous() => break,
                Some(_) => return false,
            }
        }
        drop(entries);
        is_low_continuous && self.add(prefix, place, Entry::row(true, deletion, row))
    }

    /// Records that nothing lies between two positions, under `deletion`; the positions themselves
    /// may have rows. Both have entries afterwards if there is room. Each call handles a part and
    /// returns the position reached; the caller continues there as long as the files have nothing
    /// between the positions. Returns `None` if all is done, or if there is no room.
    fn add_some_of_range(
        &mut self,
        prefix: &[u8],
        low: &[u8],
        high: &[u8],
        deletion: DeletionTime,
    ) -> Option<Vec<u8>> {
        if low >= high || are_adjacent(low, high) {
            return None;
        }
        self.make_room();
        // A deletion older than the partition's has no effect, so comparisons use the partition's.
        let least = self.get(prefix, &[])?.deletion();
        let in_force = |of_range: DeletionTime| of_range.max(least);
        // A row's position without an entry cannot begin the range; the position behind it does.
        let mut low = low.to_vec();
        if is_row(&low) && self.get(prefix, &low).is_none() {
            low = behind(&low);
        }
        let mut high = high.to_vec();
        // If the row at the end has another deletion than the range, the range ends before the row,
        // because an entry has one deletion for both.
        if is_row(&high)
            && self
                .get(prefix, &high)
                .is_none_or(|entry| in_force(entry.deletion()) != in_force(deletion))
        {
            high = before(&high);
        }
        if low >= high || !self.ensure_place(prefix, &low) || !self.ensure_place(prefix, &high) {
            return None;
        }
        // Usually `high` is the only entry; other reads may have added positions in between.
        let mut at = low;
        for _ in 0..CHANGED_AT_ONCE {
            let (place, is_continuous, present) = self.successor(prefix, &at)?;
            if place > high {
                return None;
            }
            let is_continuous = if is_continuous {
                !deletion.supersedes(&present)
                    || self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            } else if !is_row(&place) {
                // The entry's deletion may be outdated, because its range was not continuous.
                self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            } else if in_force(present).supersedes(&in_force(deletion)) {
                // The row's deletion was purged from the files, or is newer than the read: it does
                // not apply to the range before the row.
                let before = before(&place);
                at >= before || self.add(prefix, &before, Entry::bound(true, deletion))
            } else {
                let deletion = present.max(deletion);
                self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            };
            if !is_continuous {
                return None;
            }
            if place == high {
                return None;
            }
            at = place;
        }
        Some(at)
    }

    /// Ensures that a position between rows has an entry, unless it needs none. Returns `false` if
    /// there is no room, or for a row's position without an entry.
    pub(super) fn ensure_place(&mut self, prefix: &[u8], place: &[u8]) -> bool {
        if place == FIRST || self.get(prefix, place).is_some() {
            return true;
        }
        if is_row(place) {
            return false;
        }
        let entry = match self.successor(prefix, place) {
            Some((_, true, deletion)) => Entry::bound(true, deletion),
            _ => Entry::bound(false, DeletionTime::LIVE),
        };
        self.add(prefix, place, entry)
    }

    /// Returns the entry at a position.
    pub(super) fn get(&self, prefix: &[u8], place: &[u8]) -> Option<&Entry> {
        self.trie.subtrie(prefix).get(place)
    }

    /// Returns the first entry behind a position: its position, whether it is continuous, and its
    /// deletion.
    pub(super) fn successor(
        &self,
        prefix: &[u8],
        place: &[u8],
    ) -> Option<(Vec<u8>, bool, DeletionTime)> {
        let mut entries = self.trie.subtrie(prefix).entries(WalkDirection::Forward);
        entries.seek(place);
        loop {
            let (key, entry) = entries.next_entry()?;
            if key > place && !entry.is_header() {
                return Some((key.to_vec(), entry.is_continuous(), entry.deletion()));
            }
        }
    }

    /// Returns whether a row of this length in bytes is too large for the cache, wherever it comes
    /// from (rule 18). Static rows count as rows.
    pub(super) fn is_too_large(&self, row_bytes: usize) -> bool {
        row_bytes > self.memory.limit_bytes / MAX_ROW_PART
    }

    /// Adds an entry where there is none. Nothing is evicted for it: callers make room before they
    /// look at the cached entries. A row that is too large gets no entry. Returns `false` if no
    /// entry was added.
    pub(super) fn add(&mut self, prefix: &[u8], place: &[u8], entry: Entry) -> bool {
        if self.is_too_large(entry.row_bytes().len()) {
            return false;
        }
        if self.is_over(0) {
            self.metrics.refusals += 1;
            return false;
        }
        if entry.is_of_partitions() && self.has_partition_ranges {
            entry.set_partitions_continuous(
                self.are_partitions_continuous(&[prefix, place].concat()),
            );
        }
        if entry.is_row() {
            self.ghosts.recall(hash(prefix, place));
        }
        self.eviction_ages.add(&entry);
        let (age, heap_bytes) = (entry.age(), entry.heap_bytes());
        let (is_row, is_partition) = (entry.is_row(), entry.is_partition());
        let entry = entry.owned_by(self.owner);
        if self.trie.transaction(prefix).put(place, entry).is_err() {
            self.eviction_ages.remove(&age);
            self.metrics.refusals += 1;
            return false;
        }
        self.live_heap_bytes += heap_bytes;
        self.metrics.row_insertions += u64::from(is_row);
        self.metrics.rows += u64::from(is_row);
        self.metrics.partition_insertions += u64::from(is_partition);
        self.metrics.partitions += u64::from(is_partition);
        true
    }

    /// Replaces a present entry. Returns `false` if there is none or no room; the entry is then
    /// unchanged.
    pub(super) fn change(
        &mut self,
        prefix: &[u8],
        place: &[u8],
        change: impl FnOnce(&Entry) -> Entry,
    ) -> bool {
        let owner = self.owner;
        let mut transaction = self.trie.transaction(prefix);
        if transaction.get(place).is_none() {
            return false;
        }
        let changed = transaction.put_with(place, |old| {
            let Some(old) = old else { return (Entry::bound(false, DeletionTime::LIVE), (0, 0)) };
            let new = change(old).owned_by(owner);
            let heap = (old.heap_bytes(), new.heap_bytes());
            (new, heap)
        });
        drop(transaction);
        match changed {
            Ok((old, new)) => {
                self.live_heap_bytes = self.live_heap_bytes - old + new;
                true
            }
            Err(_) => false,
        }
    }
}
