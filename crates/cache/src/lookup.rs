//! Look-ups of single entries.

use espalier_memtable::split_stored;
use espalier_mutation::{
    DecoratedKey, DecoratedKeyRef, DeletionTime, FoundRow, Lookup, PackedRow, PartitionHeader,
    path, schema::TableMetadata,
};
use espalier_runtime::trace_event;

use super::{Inner, TableCache, Ticket, partitions::are_continuous};
use crate::CacheError;

impl TableCache {
    /// Looks up a row, and returns what `take` makes of the cached row. The row is not reconciled
    /// with the memtables.
    #[inline]
    pub fn look_up<V: AsRef<[u8]>, R>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        take: impl FnOnce(FoundRow<'_>) -> R,
    ) -> Lookup<R> {
        let format = self.format();
        let mut buffer = self.path.borrow_mut();
        let Inner { trie, eviction_ages, metrics, has_partition_ranges, .. } =
            &mut *self.cache.0.borrow_mut();
        if trie.is_empty() {
            return Lookup::Unknown;
        }
        self.put_partition(self.ticket().number, key, &mut buffer);
        let mut found = FoundRow::NOTHING;
        let entry = if format.is_single_row {
            buffer.push(path::FIRST_ROW);
            trie.get(&buffer)
        } else {
            let partition = trie.subtrie(&buffer);
            match partition.get(&[]) {
                None => None,
                Some(header) => {
                    eviction_ages.touch(header);
                    found.partition_deletion = header.deletion();
                    let length = buffer.len();
                    path::put_row(table.comparator(), clustering, &mut buffer);
                    match partition.get(&buffer[length..]) {
                        Some(entry) if entry.is_row() => Some(entry),
                        _ => return Lookup::Unknown,
                    }
                }
            }
        };
        match entry {
            Some(entry) => {
                eviction_ages.touch(entry);
                if entry.is_row() {
                    let stored = split_stored(format.is_exact, entry.row_bytes()).1;
                    let Ok(row) = PackedRow::new(stored) else { return Lookup::Unknown };
                    (found.row, found.range_deletion) = (Some(row), entry.deletion());
                }
                metrics.row_hits += 1;
                metrics.reads_without_misses += 1;
                Lookup::Row(take(found))
            }
            None if *has_partition_ranges && are_continuous(trie, &buffer) => {
                metrics.reads_without_misses += 1;
                Lookup::Absent
            }
            None => Lookup::Unknown,
        }
    }

    /// Prefetches into the processor's caches the memory that look-ups of these rows will read.
    /// `rows` yields their paths with the table's number in front. Calls `met` with the index of
    /// each row that has an entry.
    pub fn look_ahead<'path>(
        &self,
        rows: impl IntoIterator<Item = &'path [u8]>,
        mut met: impl FnMut(usize),
    ) {
        self.cache.0.borrow().trie.look_ahead(rows, |index, entry| {
            entry.prefetch();
            met(index);
        });
    }

    /// Returns the header of a partition. Returns `None` if the cache knows nothing of the
    /// partition or `ticket` is invalid, and `Some(None)` if no file has the partition. With
    /// `is_use` the entry counts as used.
    pub(super) fn header(
        &self,
        ticket: Ticket,
        table: &TableMetadata,
        key: &DecoratedKey,
        prefix: &[u8],
        is_use: bool,
    ) -> Result<Option<Option<PartitionHeader>>, CacheError> {
        if !self.is_valid(ticket) {
            return Ok(None);
        }
        let Inner { trie, eviction_ages, has_partition_ranges, .. } =
            &mut *self.cache.0.borrow_mut();
        let Some(entry) = trie.get(prefix) else {
            let is_absent = *has_partition_ranges && are_continuous(trie, prefix);
            return Ok(is_absent.then_some(None));
        };
        if is_use {
            eviction_ages.touch(entry);
        }
        let static_row = match entry.row_bytes() {
            [] => None,
            bytes => Some(self.format().row_of(table, &[], bytes)?),
        };
        let (key, deletion) = (key.clone(), entry.deletion());
        Ok(Some(Some(PartitionHeader { key, deletion, static_row })))
    }

    /// Adds a partition with the deletion and the static row of `header`; `None` adds a partition
    /// that no file has.
    pub(super) fn add_header(&self, prefix: &[u8], header: Option<&PartitionHeader>) {
        let mut bytes = Vec::new();
        if let Some(row) = header.and_then(|header| header.static_row.as_ref()) {
            self.format().store_row(row, &mut bytes);
        }
        let deletion = header.map_or(DeletionTime::LIVE, |header| header.deletion);
        self.cache.0.borrow_mut().add_header(prefix, deletion, &bytes);
    }
}

/// Traces the result of a look-up of a partition in the cache. `None` means that the cache knows
/// nothing of it, and `Some(None)` that no file has it.
pub fn trace_look<T>(found: &Option<Option<T>>) {
    match found {
        Some(Some(_)) => trace_event!("Partition found in row cache"),
        Some(None) => trace_event!("Partition found in row cache: no file has it"),
        None => trace_event!("Partition not found in row cache"),
    }
}
