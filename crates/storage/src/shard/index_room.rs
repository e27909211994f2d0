//! Refuses writes whose entries of secondary indexes would take too much memory.
//!
//! Each entry repeats the primary key, so that a mutation of many small elements or rows under a
//! long key has entries of many times its own size.

use espalier_memtable::IndexCounts;
use espalier_mutation::{ColumnRef, MAX_FORM_BYTES, PartitionUpdate, Row, RowContent};

use super::ShardStore;
use crate::{StorageError, table::Table};

/// Maximum size of a mutation's index entries, in segments of the commit log (arbitrary). A segment
/// is twice as large as the largest mutation.
const SEGMENTS: usize = 2;

/// Checks that the entries of a mutation's updates, each with its table, take no more than
/// [`SEGMENTS`] segments of the commit log, and no more than half of the memory for memtables.
#[inline]
pub(crate) fn check_index_entries<'a>(
    store: &ShardStore,
    updates: impl Iterator<Item = (&'a Table, &'a PartitionUpdate)> + Clone,
) -> Result<(), StorageError> {
    let indexes = |table: &Table| {
        let view = table.borrow_view();
        view.memtable.with_indexes(|indexes| indexes.counts()).unwrap_or_default()
    };
    let mut indexed = updates.filter(|(table, _)| indexes(table).all > 0).peekable();
    if indexed.peek().is_none() {
        return Ok(());
    }
    // For nearly all writes, a rough upper limit, computed without decoding their values, is below
    // the maximum.
    let of_log = store.configuration.commit_log.segment_bytes as usize * SEGMENTS;
    let max_bytes = of_log.min(store.memtables.budget.limit_bytes() / 2);
    let bounds = indexed.clone();
    let bounds = bounds.map(|(table, update)| {
        let IndexCounts { all, has_terms } = indexes(table);
        all.saturating_mul(entries_at_most(update, has_terms))
    });
    if bounds.fold(0, usize::saturating_add) <= max_bytes {
        return Ok(());
    }
    let mut bytes = 0_usize;
    for (table, update) in indexed {
        let (metadata, memtable) = (table.metadata(), table.memtable());
        let of_update = memtable.with_indexes(|indexes| indexes.entry_bytes(&metadata, update));
        bytes = bytes.saturating_add(of_update.unwrap_or(0));
        if bytes > max_bytes {
            return Err(StorageError::Unstorable(format!(
                "the entries of this write in the secondary indexes of {}.{} take {bytes} bytes \
                 or more, and the maximum is {max_bytes} bytes; write fewer rows or elements at \
                 a time",
                metadata.keyspace, metadata.name
            )));
        }
    }
    Ok(())
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
