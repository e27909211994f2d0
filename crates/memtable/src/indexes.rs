//! The entries of secondary indexes that a memtable keeps beside its rows.

use espalier_mutation::{DecoratedKeyRef, PartitionUpdate, RowContent, schema::TableMetadata};

use super::{
    Memtable, MemtableError,
    index_entries::{IndexPortion, IndexPosition, MemtableIndexes},
    store::StoreFull,
};

impl Memtable {
    /// Adds the entries of an update.
    #[inline]
    pub(super) fn index_update(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
    ) -> Result<(), StoreFull> {
        match &self.indexes {
            Some(indexes) => Ok(indexes.borrow_mut().add_update(table, update)?),
            None => Ok(()),
        }
    }

    /// Adds the entries of a row.
    #[inline]
    pub(super) fn index_row<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &impl RowContent,
    ) -> Result<(), StoreFull> {
        match &self.indexes {
            Some(indexes) => Ok(indexes.borrow_mut().add_row(table, key, Some(clustering), row)?),
            None => Ok(()),
        }
    }

    /// Adds the entries of about `most` cells of an update that [`Self::apply_rows`] will write,
    /// from `position` on, and moves the position behind them. Returns whether no entries are left.
    /// A reader skips entries whose rows do not exist.
    ///
    /// # Errors
    ///
    /// [`MemtableError::Full`] if a trie is full.
    pub fn add_some_entries(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        position: &mut IndexPosition,
        most: usize,
    ) -> Result<bool, MemtableError> {
        let Some(indexes) = &self.indexes else { return Ok(true) };
        let outcome = indexes.borrow_mut().add_some(table, update, position, most);
        self.settle();
        outcome.map_err(|_| MemtableError::Full { bytes: self.memory_bytes() })
    }

    /// Returns the approximate number of bytes of an update's entries.
    pub fn index_entry_bytes(&self, table: &TableMetadata, update: &PartitionUpdate) -> usize {
        let indexes = self.indexes.as_ref();
        indexes.map_or(0, |indexes| indexes.borrow_mut().entry_bytes(table, update))
    }

    /// Returns whether the memtable has the entries of an index.
    pub fn has_index(&self, name: &str, signature: &str) -> bool {
        self.indexes.as_ref().is_some_and(|indexes| indexes.borrow().has(name, signature))
    }

    /// Returns entries of an index in order, from the first one that is not below `from`, while
    /// they begin with `start`: at most `most` entries, and about 64 KiB.
    pub fn index_entries(
        &self,
        name: &str,
        (from, start): (&[u8], &[u8]),
        most: usize,
    ) -> IndexPortion {
        match &self.indexes {
            Some(indexes) => indexes.borrow().entries_from(name, (from, start), most),
            None => IndexPortion { entries: Vec::new(), is_last: true },
        }
    }

    /// Calls `visit` with the entries of all indexes, if there are any. `visit` must not write to
    /// this memtable, because it borrows the indexes.
    pub fn with_indexes<R>(&self, visit: impl FnOnce(&MemtableIndexes) -> R) -> Option<R> {
        self.indexes.as_ref().map(|indexes| visit(&indexes.borrow()))
    }

    #[inline]
    pub(super) fn index_memory_bytes(&self) -> usize {
        self.indexes.as_ref().map_or(0, |indexes| indexes.borrow().memory_bytes())
    }

    #[inline]
    pub(super) fn index_used_bytes(&self) -> usize {
        self.indexes.as_ref().map_or(0, |indexes| indexes.borrow().used_bytes())
    }

    #[inline]
    pub(super) fn index_fullest_bytes(&self) -> usize {
        self.indexes.as_ref().map_or(0, |indexes| indexes.borrow().fullest_bytes())
    }
}
