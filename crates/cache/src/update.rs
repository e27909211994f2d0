//! Applies a flushed memtable to the cache. Its rows and deletions are merged into cached entries
//! and added to continuous ranges. Elsewhere nothing becomes cached; a read finds the data in the
//! new file (rule 6 of docs/cache.md).
//!
//! Meanwhile the table has both the new file and the memtable, so a reader sees the writes whether
//! or not they have arrived in the cache (rule 7). The work is done in steps of some microseconds,
//! and yields between them. It may be repeated from the start without harm.

use std::{rc::Rc, sync::Arc};

use super::{
    Inner, TableCache,
    entry::Entry,
    partitions::Continuity,
    place::{FIRST, LAST},
    populate::CHANGED_AT_ONCE,
};
use crate::CacheError;
use espalier_memtable::{
    Memtable, MemtablePartition, is_covered, merge_packed, replaces, split_stored,
};
use espalier_mutation::{
    Clustering, ClusteringSlices, DecoratedKey, DeletionTime, Direction, KeyBound, PartitionHeader,
    Row, Unfiltered, UnfilteredStream, path, schema::TableMetadata,
};
use espalier_runtime::maybe_yield;

/// The table and the partition to which a memtable's changes are applied.
struct Change<'a> {
    table: &'a TableMetadata,
    /// The number of the table's entries with which `prefix` begins.
    number: u32,
    is_exact: bool,
    prefix: &'a [u8],
}

impl TableCache {
    /// Applies a flushed memtable, after its file has come into the table's view and a new epoch
    /// has begun. `number` is [`Self::number`] at the moment when the caller took `table`.
    ///
    /// The update ends once the table's entries are forgotten. Reads add new entries from the files
    /// of the present view, which have the memtable's data. Besides, `table` may have columns that
    /// were dropped since.
    ///
    /// # Errors
    ///
    /// Fails if data in memory is damaged; the caller then forgets the table's rows.
    pub async fn update(
        self: &Rc<Self>,
        memtable: &Rc<Memtable>,
        table: &Arc<TableMetadata>,
        number: u32,
    ) -> Result<(), CacheError> {
        let mut bound = KeyBound::Unbounded;
        loop {
            maybe_yield().await;
            if self.number() != number {
                break;
            }
            let Some(next) = memtable.next_partition(&bound)? else { break };
            let key = next.key;
            match self.continuity(&key)? {
                Continuity::Known => {}
                Continuity::Absent if self.add_new(&key) => {}
                Continuity::Absent => {
                    bound = KeyBound::AfterKey(key);
                    continue;
                }
                // A seek to the next partition of the cache skips the partitions that only the
                // memtable has.
                Continuity::Unknown(Some(next)) => {
                    bound = next;
                    continue;
                }
                Continuity::Unknown(None) => break,
            }
            let all = Arc::new(ClusteringSlices::all());
            let (direction, wanted) = (Direction::Forward, usize::MAX);
            if let Some(stream) =
                MemtablePartition::open(memtable, table, &key, &all, direction, wanted)?
            {
                let mut prefix = Vec::new();
                self.put_partition(number, key.borrowed(), &mut prefix);
                let is_exact = self.format().is_exact;
                let change = Change { table, number, is_exact, prefix: &prefix };
                if self.format().is_single_row {
                    self.update_single_row(&change, stream).await?
                } else {
                    self.update_partition(&change, stream).await?
                }
            }
            bound = KeyBound::AfterKey(key);
        }
        Ok(())
    }

    /// Adds an empty partition that no file had; the update adds its rows next. If there is no
    /// room, nothing is evicted for the partition, because no read has asked for it. The range of
    /// partitions around it is then no longer continuous.
    fn add_new(&self, key: &DecoratedKey) -> bool {
        let mut prefix = Vec::new();
        self.put_partition(self.ticket().number, key.borrowed(), &mut prefix);
        let mut inner = self.cache.0.borrow_mut();
        let is_added = !inner.is_short_of_room()
            && if self.format().is_single_row {
                inner.add_only_row(&prefix, None)
            } else {
                inner.add(&prefix, &[], Entry::header(DeletionTime::LIVE, &[]))
            };
        if is_added && !self.format().is_single_row {
            // Without this entry no range of rows is continuous.
            inner.add(&prefix, LAST, Entry::bound(true, DeletionTime::LIVE));
        }
        if !is_added {
            inner.forget_partitions_before(&[&prefix[..], &[path::BEHIND]].concat());
        }
        is_added
    }

    async fn update_single_row(
        &self,
        change: &Change<'_>,
        mut stream: MemtablePartition,
    ) -> Result<(), CacheError> {
        let deletion = stream.header().deletion;
        let mut row = match stream.next().await? {
            Some(Unfiltered::Row(row)) => row,
            _ => Row::empty(Clustering::empty()),
        };
        row.deletion = row.deletion.max(deletion);
        let mut bytes = Vec::new();
        self.format().store_row(&row, &mut bytes);
        self.merge_row(change, &[path::FIRST_ROW], &bytes, DeletionTime::LIVE);
        Ok(())
    }

    async fn update_partition(
        &self,
        change: &Change<'_>,
        mut stream: MemtablePartition,
    ) -> Result<(), CacheError> {
        let (table, format) = (change.table, self.format());
        self.update_header(change, stream.header());
        let deletion = stream.header().deletion;
        if !deletion.is_live() {
            // The header records the deletion already; this removes the rows that it covers.
            self.delete(change, FIRST.to_vec(), LAST, deletion).await;
        }
        let (mut bytes, mut place) = (Vec::new(), Vec::new());
        let mut open: Option<(Vec<u8>, DeletionTime)> = None;
        while let Some(fragment) = stream.next().await? {
            maybe_yield().await;
            if self.number() != change.number {
                break;
            }
            place.clear();
            match fragment {
                Unfiltered::Row(row) => {
                    path::put_row(table.comparator(), &row.clustering.values, &mut place);
                    bytes.clear();
                    format.store_row(&row, &mut bytes);
                    let active = open.as_ref().map_or(deletion, |(_, open)| deletion.max(*open));
                    self.merge_row(change, &place, &bytes, active);
                }
                Unfiltered::Marker(marker) => {
                    path::put_bound(table.comparator(), &marker.position, &mut place);
                    if let Some((low, deletion)) = open.take() {
                        self.delete(change, low, &place, deletion).await;
                    }
                    if !marker.after.is_live() {
                        open = Some((place.clone(), marker.after));
                    }
                }
            }
        }
        Ok(())
    }

    fn merge_row(&self, change: &Change<'_>, place: &[u8], row: &[u8], active: DeletionTime) {
        let is_true = self.cache.0.borrow_mut().merge_row(change, place, row, active);
        if !is_true {
            // The outdated row could not be removed, so the cache forgets the table.
            self.forget();
        }
    }

    /// Applies a partition deletion and the static row.
    fn update_header(&self, change: &Change<'_>, header: &PartitionHeader) {
        let mut inner = self.cache.0.borrow_mut();
        // The rows that follow will count as new. Meanwhile the header must not be among the oldest
        // entries, because it cannot be evicted before its rows.
        inner.renew(change.prefix);
        let Some(present) = inner.get(change.prefix, &[]) else { return };
        let deletion = present.deletion().max(header.deletion);
        let present = present.row_bytes().to_vec();
        let present_length = present.len();
        let static_row = match &header.static_row {
            None => Some(present),
            Some(row) => {
                let mut bytes = Vec::new();
                self.format().store_row(row, &mut bytes);
                if present.is_empty() {
                    Some(bytes)
                } else {
                    inner.merged(change, &present, &bytes, deletion)
                }
            }
        };
        // A header cannot be evicted before its rows. So if the new static row cannot be put into
        // the header, the cache forgets the whole table. A static row that has not grown may stay
        // even if it is too large: it was cached before the limit went down, and otherwise each
        // flush would forget the table again.
        let is_changed = static_row.is_some_and(|static_row| {
            let has_grown = static_row.len() > present_length;
            !(has_grown && inner.is_too_large(static_row.len()))
                && inner.change(change.prefix, &[], |old| old.with(deletion, &static_row))
        });
        drop(inner);
        if !is_changed {
            // The outdated header cannot stay, so the cache forgets the table.
            self.forget();
        }
    }

    /// Applies a range deletion, in steps.
    async fn delete(&self, change: &Change<'_>, low: Vec<u8>, high: &[u8], deletion: DeletionTime) {
        let mut at = low;
        {
            let mut inner = self.cache.0.borrow_mut();
            inner.split(change.prefix, &at);
            inner.split(change.prefix, high);
        }
        while self.number() == change.number {
            let reached = self.cache.0.borrow_mut().delete_some(change, &at, high, deletion);
            match reached {
                Ok(Some(reached)) => at = reached,
                Ok(None) => return,
                Err(()) => {
                    self.forget();
                    return;
                }
            }
            maybe_yield().await;
        }
    }
}

impl Inner {
    /// Merges a row of a memtable, under the memtable's deletion `active`, into the cached row, or
    /// adds it to a continuous range. Returns `false` if an outdated entry could not be removed.
    fn merge_row(
        &mut self,
        change: &Change<'_>,
        place: &[u8],
        row: &[u8],
        active: DeletionTime,
    ) -> bool {
        // A header that was used again shows that the partition is read repeatedly.
        let is_queued = self.get(change.prefix, &[]).is_some_and(Entry::is_reused);
        if is_queued || self.get(change.prefix, place).is_some() {
            self.make_room();
        }
        let present = self
            .get(change.prefix, place)
            .map(|entry| (entry.is_row(), entry.row_bytes().to_vec(), entry.deletion()));
        let is_done = match present {
            Some((true, old, present)) => {
                let partition = self.get(change.prefix, &[]).filter(|entry| entry.is_header());
                let partition = partition.map_or(DeletionTime::LIVE, Entry::deletion);
                let merged = self.merged(change, &old, row, active.max(present).max(partition));
                self.metrics.row_merges += 1;
                merged.is_some_and(|merged| {
                    // A row that outgrows the free memory is removed, and read again from the
                    // files.
                    let kept = if self.trie.has_readers() { 0 } else { old.len() };
                    let grown = merged.len().saturating_sub(kept);
                    !self.is_too_large(merged.len())
                        && (grown == 0 || !self.is_over(grown))
                        && self.change(change.prefix, place, |entry| entry.with_row(&merged))
                })
            }
            // The entry says that the partition has no row.
            Some((false, ..)) => {
                let is_changed = !self.is_too_large(row.len())
                    && self.change(change.prefix, place, |old| old.made_row(row));
                self.metrics.rows += u64::from(is_changed);
                is_changed
            }
            None => match self.successor(change.prefix, place) {
                Some((next, true, deletion)) => {
                    let entry = Entry::row(true, deletion, row);
                    // In a partition that is read repeatedly, a written row counts as inserted and
                    // used. Otherwise rows of earlier flushes would leave the written row no room:
                    // reads have used these rows since, but will not use them again (rule 12).
                    if is_queued {
                        entry.set_reused();
                    }
                    let has_room = is_queued || !self.is_short_of_room();
                    if !has_room || !self.add(change.prefix, place, entry) {
                        self.forget_range(change.prefix, &next);
                    }
                    true
                }
                _ => true,
            },
        };
        is_done || self.lose(change.prefix, place)
    }

    /// Makes an entry count as new.
    fn renew(&mut self, key: &[u8]) {
        if let Some(entry) = self.trie.get(key) {
            self.eviction_ages.renew(entry);
        }
    }

    /// Reconciles two stored rows under a deletion, and returns the result in stored form. Returns
    /// `None` if one of them cannot be decoded.
    fn merged(
        &mut self,
        change: &Change<'_>,
        old: &[u8],
        new: &[u8],
        active: DeletionTime,
    ) -> Option<Vec<u8>> {
        let (old_packed, new_packed) =
            (split_stored(change.is_exact, old).1, split_stored(change.is_exact, new).1);
        let kept = &old[..old.len() - old_packed.len()];
        if replaces(change.table, old_packed, new_packed) {
            return Some([kept, new_packed].concat());
        }
        // An error loses only cached rows, because the files have the rows from which both were
        // packed.
        merge_packed(change.table, old_packed, new_packed, active, &mut self.merged).ok()?;
        Some([kept, self.merged.as_slice()].concat())
    }

    /// Removes an entry that is outdated. Returns `false` if it could not be removed, for example
    /// because the trie has readers and no other entry.
    fn lose(&mut self, prefix: &[u8], place: &[u8]) -> bool {
        if let Some((next, ..)) = self.successor(prefix, place) {
            self.forget_range(prefix, &next);
        }
        self.remove(&[prefix, place].concat())
    }

    fn forget_range(&self, prefix: &[u8], place: &[u8]) {
        if let Some(entry) = self.get(prefix, place) {
            entry.forget_range();
        }
    }

    /// Ensures that no continuous range spans a position.
    fn split(&mut self, prefix: &[u8], place: &[u8]) {
        self.make_room();
        if let Some((next, true, _)) = self.successor(prefix, place)
            && !self.ensure_place(prefix, place)
        {
            self.forget_range(prefix, &next);
        }
    }

    /// Applies a deletion to the entries behind `low`, up to and including `high`. Returns the
    /// position reached if entries are left, and an error if there is no room.
    fn delete_some(
        &mut self,
        change: &Change<'_>,
        low: &[u8],
        high: &[u8],
        deletion: DeletionTime,
    ) -> Result<Option<Vec<u8>>, ()> {
        let mut at = low.to_vec();
        for _ in 0..CHANGED_AT_ONCE {
            let Some((place, _, present)) = self.successor(change.prefix, &at) else {
                return Ok(None);
            };
            if place.as_slice() > high {
                return Ok(None);
            }
            if deletion.supersedes(&present)
                && !self.change(change.prefix, &place, |entry| entry.with_deletion(deletion))
            {
                return Err(());
            }
            self.drop_covered(change, &place, deletion);
            at = place;
        }
        Ok(Some(at))
    }

    /// Removes a row that a deletion covers, if the range before the row is continuous and under
    /// the same deletion, and the range behind the row is continuous too. The entry behind the row
    /// then describes both ranges.
    fn drop_covered(&mut self, change: &Change<'_>, place: &[u8], deletion: DeletionTime) {
        let Some(entry) = self.get(change.prefix, place) else { return };
        if !entry.is_row() || !entry.is_continuous() || entry.deletion() != deletion {
            return;
        }
        let packed = split_stored(change.is_exact, entry.row_bytes()).1;
        if !is_covered(change.table, packed, deletion) {
            return;
        }
        let follows = self.successor(change.prefix, place);
        if follows
            .is_some_and(|(_, is_continuous, next)| is_continuous && next.max(deletion) == deletion)
        {
            // The entry behind the row is under the deletion already, or will be after the next
            // step. Until then, readers get the deletion from the memtable.
            self.remove(&[change.prefix, place].concat());
            self.metrics.row_removals += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use espalier_memtable::MemtableBudget;
    use espalier_mutation::{
        pack_row,
        schema::{TableBuilder, TableId},
    };
    use espalier_sstable::PageCache;
    use espalier_types::CqlType;
    use uuid::Uuid;

    use super::*;
    use crate::RowCache;

    #[test]
    fn a_cached_row_that_cannot_be_merged_is_removed() {
        let table = TableBuilder::new("ks", "t", TableId(Uuid::from_u128(1)))
            .partition_key("k", CqlType::Blob)
            .clustering("c", CqlType::Int, false)
            .regular("v", CqlType::Blob)
            .build();
        let budget = MemtableBudget::new(1 << 20, 1 << 20);
        let cache = RowCache::new(1 << 20, PageCache::new(0), 1 << 20, budget);
        let inner = &mut *cache.0.borrow_mut();
        let (prefix, live) = (&[0, 0, 0, 1, b'k'], DeletionTime::LIVE);
        let mut place = Vec::new();
        path::put_row(table.comparator(), &[Some(7_i32.to_be_bytes())], &mut place);
        assert!(inner.add_header(prefix, live, &[]));
        assert!(inner.add(prefix, &place, Entry::row(true, live, &[0xFF; 3])));
        assert!(inner.add(prefix, LAST, Entry::bound(true, live)));
        let mut row = Vec::new();
        pack_row(&Row::empty(Clustering::empty()), &mut row);
        let change = Change { table: &table, number: 1, is_exact: true, prefix };
        assert!(inner.merge_row(&change, &place, &row, live));
        assert!(inner.get(prefix, &place).is_none());
        assert!(!inner.get(prefix, LAST).unwrap().is_continuous());
        assert_eq!(inner.metrics.rows, 0);
    }
}
