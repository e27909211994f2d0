//! The entries of a memtable: a trie for each index of the table.
//!
//! A write adds entries and removes none, so that it need not read the row. The tries belong to the
//! shard alone and have no readers on other threads. Their memory counts as that of the memtable.

use espalier_mutation::{
    DecoratedKeyRef, IndexedColumn, IndexedRow, Listed, PartitionUpdate, RowContent,
    schema::TableMetadata,
};
use espalier_trie::{
    cursor::{Cursor, Direction},
    memory::{InMemoryTrie, TrieFull},
};

use super::entry;
use crate::memtable::MemtableBudget;

/// The entries of one index.
struct Trie {
    name: String,
    signature: String,
    column: IndexedColumn,
    entries: InMemoryTrie<()>,
}

/// The entries of all indexes of a memtable.
pub(crate) struct MemtableIndexes {
    tries: Vec<Trie>,
    form: Vec<u8>,
    entry: Vec<u8>,
}

impl MemtableIndexes {
    /// Creates empty tries; `None` for a table without indexes.
    pub(crate) fn new(table: &TableMetadata, budget: &MemtableBudget) -> Option<Self> {
        let trie = |index: &espalier_mutation::schema::IndexMetadata| {
            let column = IndexedColumn::new(table, index)?;
            let entries = InMemoryTrie::with_chunk_pool(budget.chunk_pool().clone());
            let (name, signature) = (index.name.clone(), index.signature(table));
            Some(Trie { name, signature, column, entries })
        };
        let tries: Vec<Trie> = table.indexes.iter().filter_map(trie).collect();
        (!tries.is_empty()).then(|| Self { tries, form: Vec::new(), entry: Vec::new() })
    }

    /// Adds the entries of an update.
    pub(crate) fn add_update(
        &mut self,
        table: &TableMetadata,
        update: &PartitionUpdate,
    ) -> Result<(), TrieFull> {
        let key = update.key.borrowed();
        if let Some(row) = &update.static_row {
            self.add_row(table, key, None::<&[Option<&[u8]>]>, row)?;
        }
        update
            .rows
            .iter()
            .try_for_each(|row| self.add_row(table, key, Some(&*row.clustering.values), row))
    }

    /// Adds the entries of a row, or of the static row if there is no clustering.
    pub(crate) fn add_row<R: RowContent, V: AsRef<[u8]>>(
        &mut self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: Option<&[Option<V>]>,
        row: &R,
    ) -> Result<(), TrieFull> {
        let Self { tries, form, entry } = self;
        let row = IndexedRow { key, clustering, row };
        for Trie { column, entries, .. } in tries {
            let mut outcome = Ok(());
            column.for_each_value(&row, form, |form| {
                entry.clear();
                entry::put_value(form, entry);
                put_place(table, column, key, clustering, entry);
                if outcome.is_ok() {
                    outcome = entries.put(entry, ()).map(|_| ());
                }
            });
            outcome?;
        }
        Ok(())
    }

    /// Returns the number of indexes.
    pub(crate) fn count(&self) -> usize {
        self.tries.len()
    }

    /// Returns about how many bytes the entries of an update have.
    pub(crate) fn entry_bytes(&mut self, table: &TableMetadata, update: &PartitionUpdate) -> usize {
        let Self { tries, form, entry } = self;
        let (key, mut bytes) = (update.key.borrowed(), 0_usize);
        let static_row = update.static_row.iter().map(|row| (None, row));
        let rows = update.rows.iter().map(|row| (Some(&*row.clustering.values), row));
        for (clustering, row) in static_row.chain(rows) {
            let indexed = IndexedRow { key, clustering, row };
            for Trie { column, .. } in &*tries {
                entry.clear();
                put_place(table, column, key, clustering, entry);
                column.for_each_value(&indexed, form, |form| {
                    bytes = bytes.saturating_add(form.len() + entry.len());
                });
            }
        }
        bytes
    }

    /// Returns the bytes of memory of all tries.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |trie: &Trie| trie.entries.allocated_bytes() + trie.entries.record_bytes();
        self.tries.iter().map(bytes).sum()
    }

    /// Returns the bytes of memory in use, without free blocks.
    pub(crate) fn used_bytes(&self) -> usize {
        self.tries.iter().map(|trie| trie.entries.used_bytes()).sum()
    }

    /// Returns the bytes of the largest trie.
    pub(crate) fn fullest_bytes(&self) -> usize {
        self.tries.iter().map(|trie| trie.entries.used_bytes()).max().unwrap_or(0)
    }

    /// Returns names and signatures of the indexes.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        self.tries.iter().map(|trie| (trie.name.clone(), trie.signature.clone())).collect()
    }

    /// Returns whether there are the entries of an index.
    pub(crate) fn has(&self, name: &str, signature: &str) -> bool {
        self.tries.iter().any(|trie| trie.name == name && trie.signature == signature)
    }

    /// Collects up to `most` entries of an index, from the first one that is not below `from`.
    pub(crate) fn entries_from(&self, name: &str, from: &[u8], most: usize) -> Vec<Vec<u8>> {
        let Some(trie) = self.tries.iter().find(|trie| trie.name == name) else {
            return Vec::new();
        };
        let mut walk = trie.entries.cursor(Direction::Forward).into_entries();
        walk.seek(from);
        let mut found = Vec::new();
        while found.len() < most
            && let Some((entry, _)) = walk.next_entry()
        {
            found.push(entry.to_vec());
        }
        found
    }
}

/// Appends the place of a row, behind the value of an entry.
fn put_place<V: AsRef<[u8]>>(
    table: &TableMetadata,
    column: &IndexedColumn,
    key: DecoratedKeyRef<'_>,
    clustering: Option<&[Option<V>]>,
    entry: &mut Vec<u8>,
) {
    entry::put_partition(key, entry);
    if let (Listed::Rows, Some(clustering)) = (column.listed(), clustering) {
        entry::put_row(table.comparator(), clustering, entry);
    }
}
