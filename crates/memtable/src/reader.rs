//! Reads a memtable on any thread, without locks, while its shard writes to it.
//!
//! **Invariants.** A [`PartitionSnapshot`] shows all writes to its partition up to one moment, each
//! wholly, however long it lives: as long as there is a reader, the shard writes to copies of the
//! nodes on its paths and publishes them by one atomic store. ("Trie Memtables in Cassandra",
//! Lambov, VLDB 2022, names consistent readers as future work.) Snapshots of different partitions
//! may show different moments.
//!
//! **Cost.** A reader makes writes copy, and retains the memtable's memory after a flush, so it
//! should be short-lived. A snapshot retains the contents that were overwritten since it was taken.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, Direction, PartitionHeader, Row, path,
    reconcile::apply_deletion, schema::TableMetadata,
};
use espalier_trie::{
    cursor::Entries,
    memory::{MemoryCursor, Reader, Snapshot, Subtrie},
};

use super::{
    Memtable,
    content::Content,
    range_tombstones,
    row_format::RowFormat,
    store::{PartMap, PartitionView},
    walk::walk_direction,
};
use crate::MemtableError;

/// A handle to read a memtable from another thread: it may be sent there and cloned.
#[derive(Clone)]
pub struct MemtableReader {
    table: Arc<TableMetadata>,
    format: RowFormat,
    parts: Vec<Reader<Content>>,
    /// The map of the parts, if there are several.
    map: Option<PartMap>,
}

impl Memtable {
    /// Returns a handle for other threads; `None` if the memtable is no trie. `table` must be the
    /// memtable's table.
    pub fn reader(&self, table: &Arc<TableMetadata>) -> Option<MemtableReader> {
        let (parts, map) = self.store.borrow().readers()?;
        Some(MemtableReader { table: table.clone(), format: self.format, parts, map })
    }
}

impl MemtableReader {
    /// Returns the present state of a partition; `None` if the memtable has nothing of it.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored static row cannot be decoded.
    pub fn partition(
        &self,
        key: &DecoratedKey,
    ) -> Result<Option<PartitionSnapshot>, MemtableError> {
        let mut prefix = Vec::with_capacity(key.key.len() + 16);
        path::put_partition(key.borrowed(), &mut prefix);
        let part = self.map.map_or(0, |map| map.index(&prefix));
        let Some(reader) = self.parts.get(part) else { return Ok(None) };
        let snapshot = reader.snapshot(&prefix);
        let view = PartitionView::Trie(snapshot.subtrie());
        let Some(mut header) = self.format.header(&self.table, key, view)? else {
            return Ok(None);
        };
        let deletion = header.deletion;
        header.static_row.take_if(|row| !apply_deletion(row, deletion));
        let (table, format) = (self.table.clone(), self.format);
        Ok(Some(PartitionSnapshot { table, format, header, snapshot }))
    }
}

/// The state of one partition of a memtable at one moment. It may go to another thread.
pub struct PartitionSnapshot {
    table: Arc<TableMetadata>,
    format: RowFormat,
    header: PartitionHeader,
    snapshot: Snapshot<Content>,
}

impl PartitionSnapshot {
    /// Returns key, deletion and static row.
    pub fn header(&self) -> &PartitionHeader {
        &self.header
    }

    /// Returns one row, without the cells that the partition's own deletions cover; `None` if
    /// nothing of it is left.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored row cannot be decoded.
    pub fn row(&self, clustering: &Clustering) -> Result<Option<Row>, MemtableError> {
        let mut row_path = Vec::new();
        path::put_row(self.table.comparator(), &clustering.values, &mut row_path);
        match self.snapshot.subtrie().get(&row_path) {
            Some(content) => self.reconciled(&row_path, content),
            None => Ok(None),
        }
    }

    /// Iterates over all rows in clustering order, or against it, without the cells that the
    /// partition's own deletions cover. A row keeps its own deletion.
    pub fn rows(&self, direction: Direction) -> SnapshotRows<'_> {
        let entries = self.snapshot.subtrie().entries(walk_direction(direction));
        SnapshotRows { partition: self, entries }
    }

    fn deletion_at(&self, view: Subtrie<'_, Content>, row_path: &[u8]) -> DeletionTime {
        let range = range_tombstones::deletion_before(PartitionView::Trie(view), row_path, true);
        self.header.deletion.max(range)
    }

    fn reconciled(&self, row_path: &[u8], content: &Content) -> Result<Option<Row>, MemtableError> {
        if content.row_bytes().is_none() {
            return Err(MemtableError::corrupt(&self.table, &NoRow));
        }
        let mut row = self.format.row(&self.table, row_path, content)?;
        let deletion = self.deletion_at(self.snapshot.subtrie(), row_path);
        Ok(apply_deletion(&mut row, deletion).then_some(row))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected a row, found another kind of content")]
struct NoRow;

/// The iterator of [`PartitionSnapshot::rows`].
pub struct SnapshotRows<'a> {
    partition: &'a PartitionSnapshot,
    entries: Entries<MemoryCursor<'a, Content>>,
}

impl Iterator for SnapshotRows<'_> {
    type Item = Result<Row, MemtableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (row_path, content) = self.entries.next_entry()?;
            if row_path.first().is_none_or(|first| *first < path::FIRST_ROW) {
                continue;
            }
            if let Some(row) = self.partition.reconciled(row_path, content).transpose() {
                return Some(row);
            }
        }
    }
}
