//! Look-ups of one row without waiting and without copying: the fast path of single-row reads.

use std::sync::Arc;

use espalier_mutation::{
    DecoratedKeyRef, FoundRow, Lookup, PackedRow, path,
    schema::{DroppedColumn, TableMetadata},
};
use espalier_trie::prefetch::prefetch_range;

use super::{Memtable, content::Content, range_tombstones, row_format::split_stored};

/// Bytes at the start of a row on the heap that a look-up prefetches.
pub(super) const LIKELY_BYTES: usize = 256;

impl Memtable {
    /// Returns whether some cells may be older than the drop of a column that was added again.
    /// Reads and flushes must then remove these cells from the rows.
    #[inline]
    pub fn may_hold_dropped(&self, table: &TableMetadata) -> bool {
        let newest = table.newest_former_drop_us();
        newest != i64::MIN && self.statistics.borrow().minimum_timestamp <= newest
    }

    /// Returns the table as a flush writes it: with the dropped columns for which the memtable may
    /// have cells written after the drop.
    pub fn table_to_write(&self, table: &Arc<TableMetadata>) -> Arc<TableMetadata> {
        let statistics = self.statistics.borrow();
        let is_kept = |id, dropped: &DroppedColumn| {
            statistics.has_column(id) && !dropped.deletes(statistics.maximum_timestamp)
        };
        table.with_dropped(is_kept).map_or_else(|| table.clone(), Arc::new)
    }

    /// Returns whether the memtable has anything of the partition. `partition` is a buffer for its
    /// path.
    pub fn has(&self, key: DecoratedKeyRef<'_>, partition: &mut Vec<u8>) -> bool {
        partition.clear();
        path::put_partition(key, partition);
        let store = self.store.borrow();
        if store.get(partition).is_some() {
            return true;
        }
        if !self.format.is_single_row {
            return false;
        }
        partition.push(path::FIRST_ROW);
        store.get(partition).is_some()
    }

    /// Calls `take` with the row and the deletions over it, if the memtable has the partition.
    /// `buffer` holds the path, so that nothing is allocated.
    #[inline]
    pub fn look_up<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        buffer: &mut Vec<u8>,
        take: impl FnOnce(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let store = self.store.borrow();
        buffer.clear();
        path::put_partition(key, buffer);
        let prefix_length = buffer.len();
        let mut found = FoundRow::NOTHING;
        if self.format.is_single_row {
            buffer.push(path::FIRST_ROW);
            let row = store.get(buffer);
            // Such a memtable stores only rows and partition deletions, so more contents than rows
            // means that there are deletions.
            let has_deletions = store.content_count() as u64 > self.statistics.borrow().rows;
            if has_deletions
                && let Some(Content::Partition(deletion)) = store.get(&buffer[..prefix_length])
            {
                found.partition_deletion = *deletion;
            } else if row.is_none() {
                return Lookup::Absent;
            }
            return match self.packed(row) {
                Ok(row) => Lookup::Row(take(FoundRow { row, ..found })),
                Err(()) => Lookup::Unknown,
            };
        }
        let Some(Content::Partition(deletion)) = store.get(buffer) else {
            return Lookup::Absent;
        };
        found.partition_deletion = *deletion;
        path::put_row(table.comparator(), clustering, buffer);
        let Ok(row) = self.packed(store.get(buffer)) else { return Lookup::Unknown };
        found.row = row;
        if self.has_boundaries.get() {
            let (prefix, row_path) = buffer.split_at(prefix_length);
            found.range_deletion =
                range_tombstones::deletion_before(store.subtrie(prefix), row_path, true);
        }
        Lookup::Row(take(found))
    }

    /// Returns whether [`Memtable::look_ahead`] does anything.
    pub fn looks_ahead(&self) -> bool {
        self.store.borrow().looks_ahead()
    }

    /// Prefetches the memory that look-ups of these rows will read. `rows` yields their paths.
    pub fn look_ahead<'path>(&self, rows: impl IntoIterator<Item = &'path [u8]>) {
        self.store.borrow().look_ahead(rows, |content| {
            if let Content::Heap(bytes) = content {
                prefetch_range(bytes, 0, bytes.len().min(LIKELY_BYTES));
            }
        });
    }

    #[inline]
    fn packed<'a>(&self, content: Option<&'a Content>) -> Result<Option<PackedRow<'a>>, ()> {
        let Some(content) = content else { return Ok(None) };
        let bytes = content.row_bytes().ok_or(())?;
        PackedRow::new(split_stored(self.format.is_exact, bytes).1).map(Some).map_err(|_| ())
    }
}
