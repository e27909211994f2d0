//! The entries of secondary indexes that a memtable keeps beside its rows.

use espalier_mutation::{PartitionUpdate, schema::TableMetadata};

use super::{
    Memtable, MemtableError,
    index_entries::{IndexEntryCount, IndexPortion, IndexPosition, MemtableIndexes},
};

impl Memtable {
    /// Adds the entries of about `most` elements of an update that [`Self::apply_rows`] will write,
    /// from `position` on, and moves the position behind them. Returns whether they were the last
    /// ones. Until the rows are written, readers skip the entries, because their rows do not exist.
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

    /// Returns the bytes of the entries that [`Self::add_some_entries`] would add, and whether they
    /// are the last ones. All steps of a count must use the same memtable.
    pub fn some_entry_bytes(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        count: &mut IndexEntryCount,
        most: usize,
    ) -> (usize, bool) {
        match &self.indexes {
            Some(indexes) => indexes.borrow_mut().count_some(table, update, count, most),
            None => (0, true),
        }
    }

    /// Returns entries of an index in order, from the first one that is not below `from`, while
    /// they begin with `start`: at most `most` entries, and about 64 KiB.
    pub fn index_entries(
        &self,
        name: &str,
        (from, start): (&[u8], &[u8]),
        most: usize,
    ) -> IndexPortion {
        let found = self.with_indexes(|indexes| indexes.entries_from(name, (from, start), most));
        found.unwrap_or(IndexPortion { entries: Vec::new(), is_last: true })
    }

    /// Calls `visit` with the entries of all indexes, if there are any. `visit` must not write to
    /// this memtable, because it borrows the indexes.
    #[inline]
    pub fn with_indexes<R>(&self, visit: impl FnOnce(&MemtableIndexes) -> R) -> Option<R> {
        self.indexes.as_ref().map(|indexes| visit(&indexes.borrow()))
    }
}
