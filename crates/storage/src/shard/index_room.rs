//! Refuses writes whose entries of secondary indexes would take too much memory.
//!
//! Each entry repeats the primary key, so that a mutation of many small elements or rows under a
//! long key has entries of many times its own size.

use espalier_memtable::{IndexCounts, IndexPosition};
use espalier_mutation::{ColumnRef, MAX_FORM_BYTES, PartitionUpdate, Row, RowContent};

use super::ShardStore;
use crate::{StorageError, table::Table};

/// Maximum size of a mutation's index entries, in segments of the commit log (arbitrary). A segment
/// is twice as large as the largest mutation.
const SEGMENTS: usize = 2;

/// Returns the maximum number of bytes of a mutation's entries: [`SEGMENTS`] segments of the commit
/// log, or half of the memory for memtables if that is less.
fn max_bytes(store: &ShardStore) -> usize {
    let of_log = store.configuration.commit_log.segment_bytes as usize * SEGMENTS;
    of_log.min(store.memtables.budget.limit_bytes() / 2)
}

/// Returns whether the entries of a mutation's updates, each with its table, may take more than the
/// maximum. For nearly all writes, an upper limit, which needs no look at their values, is below
/// it.
#[inline]
pub(crate) fn may_lack_index_room<'a>(
    store: &ShardStore,
    updates: impl Iterator<Item = (&'a Table, &'a PartitionUpdate)>,
) -> bool {
    let bounds = updates.map(|(table, update)| {
        let view = table.borrow_view();
        let IndexCounts { all, has_terms } =
            view.memtable.with_indexes(|indexes| indexes.counts()).unwrap_or_default();
        if all == 0 { 0 } else { all.saturating_mul(entries_at_most(update, has_terms)) }
    });
    let bound = bounds.fold(0, usize::saturating_add);
    bound > 0 && bound > max_bytes(store)
}

/// Checks that the entries of a mutation's updates, each with its table, take no more than the
/// maximum.
pub(crate) fn check_index_entries<'a>(
    store: &ShardStore,
    updates: impl Iterator<Item = (&'a Table, &'a PartitionUpdate)> + Clone,
) -> Result<(), StorageError> {
    if !may_lack_index_room(store, updates.clone()) {
        return Ok(());
    }
    let mut room = IndexRoom::of(store);
    for (table, update) in updates {
        room.take(table, update, &mut IndexPosition::default(), usize::MAX)?;
    }
    Ok(())
}

/// The bytes that are left for the entries of a mutation.
pub(crate) struct IndexRoom {
    used_bytes: usize,
    max_bytes: usize,
}

impl IndexRoom {
    pub(crate) fn of(store: &ShardStore) -> Self {
        Self { used_bytes: 0, max_bytes: max_bytes(store) }
    }

    /// Takes the bytes of some entries of an update, as [`Memtable::some_entry_bytes`] counts them.
    /// Returns whether there are no others.
    ///
    /// [`Memtable::some_entry_bytes`]: espalier_memtable::Memtable::some_entry_bytes
    ///
    /// # Errors
    ///
    /// Fails if all entries so far take more than the maximum.
    pub(crate) fn take(
        &mut self,
        table: &Table,
        update: &PartitionUpdate,
        position: &mut IndexPosition,
        most: usize,
    ) -> Result<bool, StorageError> {
        let (metadata, memtable) = (table.metadata(), table.memtable());
        let (bytes, is_last) = memtable.some_entry_bytes(&metadata, update, position, most);
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        let Self { used_bytes, max_bytes } = self;
        if used_bytes > max_bytes {
            return Err(StorageError::Unstorable(format!(
                "the entries of this write in the secondary indexes of {}.{} take {used_bytes} \
                 bytes or more, and the maximum is {max_bytes} bytes; write fewer rows, elements \
                 or terms at a time",
                metadata.keyspace, metadata.name
            )));
        }
        Ok(is_last)
    }
}

/// Returns an upper limit of the bytes of an update's entries in one index. An index that has terms
/// lists the terms of a text, and perhaps their suffixes.
fn entries_at_most(update: &PartitionUpdate, has_terms: bool) -> usize {
    /// Escapes double a key at most.
    const ESCAPED: usize = 2;
    /// A change of case makes at most three letters of one, each of which begins a suffix. Besides,
    /// each term has at least one letter.
    const ENTRIES_PER_BYTE: usize = 4;
    let rows = update.static_row.iter().chain(&update.rows);
    let of_row = |row: &Row| {
        let clustering: usize =
            row.clustering.values.iter().flatten().map(|value| value.len() + 2).sum();
        let place = ESCAPED * (update.key.key.len() + clustering) + 16;
        let of_text = |length: usize| if has_terms { 1 + ENTRIES_PER_BYTE * length } else { 1 };
        let entries = row.columns().map(|(_, column)| match column {
            ColumnRef::Simple(cell) => of_text(cell.value.len()),
            ColumnRef::Complex(column) => column.cells.len(),
        });
        let of_clustering = row.clustering.values.iter().flatten();
        let of_clustering = of_clustering.map(|value| of_text(value.len())).max().unwrap_or(1);
        let entries = entries.max().unwrap_or(0).max(of_clustering);
        entries.saturating_mul(place + ESCAPED * MAX_FORM_BYTES)
    };
    rows.map(of_row).fold(0, usize::saturating_add)
}
