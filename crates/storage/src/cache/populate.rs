//! Adding what was read from files. All places are within a partition, of which `prefix` is the path.
//!
//! Whatever is added here is true of the files of the present phase; callers look at their ticket first. An entry that is there
//! already stays as it is (rule 5): it may be newer.

use std::borrow::Cow;

use espalier_mutation::{ColumnData, DeletionTime, Direction, Row};
use espalier_runtime::maybe_yield;
use espalier_trie::cursor::Direction as WalkDirection;

use super::{
    CacheAccess, Inner,
    balance::hash,
    entry::Entry,
    place::{FIRST, are_adjacent, before, behind, is_row},
};

/// Adds what a read meets in the files of one partition, on its way in one direction.
pub(super) struct Filler<'a> {
    pub(super) access: &'a CacheAccess,
    pub(super) prefix: &'a [u8],
    pub(super) direction: Direction,
}

impl Filler<'_> {
    /// The next row: between `near` and it there is nothing. Gives its length in bytes, or of one that is too large at least how long
    /// it is; 0 where nothing may be added.
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
        let least = least_bytes(row);
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

    /// `false`: what is between `near` and the row is still to be told.
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

    /// Nothing is between two places, given in the direction of the walk. Others may have put any number of places between: gives way,
    /// and ends when the table's files have others.
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

/// What a row takes in any case, as it is stored: so that a large one need not be packed to be refused.
pub(super) fn least_bytes(row: &Row) -> usize {
    let of_column = |data: &ColumnData| match data {
        ColumnData::Simple(cell) => cell.value.len(),
        ColumnData::Complex(column) => {
            column.cells.iter().map(|(path, cell)| path.len() + cell.value.len()).sum()
        }
    };
    row.columns.iter().map(|(_, data)| of_column(data)).sum()
}

/// Entries of a range that are changed at a time.
pub(super) const CHANGED_AT_ONCE: usize = 16;
/// Rows beyond this part of the cache are not kept. An arbitrary choice.
const LARGEST_ROW_PART: usize = 16;

impl Inner {
    /// Makes the partition known. `false`: there is no room.
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

    /// Adds a row with nothing known of what is beside it. `false`: it is not in the cache.
    pub(super) fn add_row(
        &mut self,
        prefix: &[u8],
        place: &[u8],
        deletion: DeletionTime,
        row: &[u8],
    ) -> bool {
        self.make_room();
        // It may have made room since the reader found it; what is under it would be found by nobody.
        if self.get(prefix, &[]).is_none() {
            return false;
        }
        if let Some(present) = self.get(prefix, place) {
            return present.is_row();
        }
        // A known range without the row: it was deleted by what the cache knows and the files tell as well.
        if self.successor(prefix, place).is_some_and(|(_, is_continuous, _)| is_continuous) {
            return false;
        }
        self.add(prefix, place, Entry::row(false, deletion, row))
    }

    /// Adds a row, and that there is nothing between `low` and it, in the usual case: `low` is known, and nothing behind it.
    /// `false`: nothing was done.
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
        // An entry is not there without the partition's own.
        let mut is_low_known = low == FIRST && self.get(prefix, &[]).is_some();
        loop {
            match entries.next_entry() {
                None => break,
                Some((key, _)) if key == low => is_low_known = true,
                Some((_, entry)) if entry.is_header() => {}
                Some((key, entry)) if key > place && !entry.is_continuous() => break,
                Some(_) => return false,
            }
        }
        drop(entries);
        is_low_known && self.add(prefix, place, Entry::row(true, deletion, row))
    }

    /// Between two places there is nothing, under `deletion`; of the places themselves this says nothing. Both are in the cache
    /// afterwards, unless there is no room. Does a part at a time: gives the place reached, from which it goes on, as long as this is true
    /// of the files. `None`: all is done, or there is no room.
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
        // Below the partition's own all deletions are the same.
        let least = self.get(prefix, &[])?.deletion();
        let in_force = |of_range: DeletionTime| of_range.max(least);
        // A row that is not there any more says nothing; the place beside it does.
        let mut low = low.to_vec();
        if is_row(&low) && self.get(prefix, &low).is_none() {
            low = behind(&low);
        }
        let mut high = high.to_vec();
        // Nor may a row take on the deletion of what is before it, if it is under another one.
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
        // Mostly `high` alone; places between that others have put there, too.
        let mut at = low;
        for _ in 0..CHANGED_AT_ONCE {
            let (place, is_continuous, present) = self.successor(prefix, &at)?;
            if place > high {
                return None;
            }
            let is_known = if is_continuous {
                !deletion.supersedes(&present)
                    || self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            } else if !is_row(&place) {
                // It may tell what was true of the range once.
                self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            } else if in_force(present).supersedes(&in_force(deletion)) {
                // What deletes the row was purged from the files, or has come since they were read: it is not of what is before it.
                let before = before(&place);
                at >= before || self.add(prefix, &before, Entry::bound(true, deletion))
            } else {
                let deletion = present.max(deletion);
                self.change(prefix, &place, |entry| entry.made_continuous(deletion))
            };
            if !is_known {
                return None;
            }
            if place == high {
                return None;
            }
            at = place;
        }
        Some(at)
    }

    /// Sees to it that there is an entry at a place between rows, or that none is needed.
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

    /// The entry at a place.
    pub(super) fn get(&self, prefix: &[u8], place: &[u8]) -> Option<&Entry> {
        self.trie.subtrie(prefix).get(place)
    }

    /// The first entry behind a place: where it is, whether it is continuous, its deletion.
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

    /// Whether the cache keeps no row of this length in bytes, wherever it comes from (rule 18). Static rows are rows here.
    pub(super) fn is_too_large(&self, row_bytes: usize) -> bool {
        row_bytes > self.limit_bytes / LARGEST_ROW_PART
    }

    /// Puts a new entry where there is none. Nothing is evicted for it: callers make room before they look at what there is. Of a row
    /// that is too large there will be no entry.
    pub(super) fn add(&mut self, prefix: &[u8], place: &[u8], entry: Entry) -> bool {
        if self.is_too_large(entry.row_bytes().len()) {
            return false;
        }
        if self.is_over(0) {
            self.metrics.refusals += 1;
            return false;
        }
        if entry.is_of_partitions() && self.has_partition_ranges {
            entry.set_partitions_known(self.are_partitions_known(&[prefix, place].concat()));
        }
        if entry.is_row() {
            self.gone.recall(hash(prefix, place));
        }
        self.ages.add(&entry);
        let (age, heap_bytes) = (entry.age(), entry.heap_bytes());
        let (is_row, is_partition) = (entry.is_row(), entry.is_partition());
        let entry = entry.owned_by(self.owner);
        if self.trie.transaction(prefix).put(place, entry).is_err() {
            self.ages.remove(&age);
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

    /// Replaces an entry that is there. `false`: there is no room, and it is as it was.
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
