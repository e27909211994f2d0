//! Reading a memtable on any thread, without locks, while its shard writes to it.
//!
//! **Invariants.** A [`PartitionSnapshot`] shows all writes to its partition up to one moment, each wholly, however long it
//! lives: as long as there is a reader, the shard writes to copies of the nodes on its paths and publishes them by one store
//! (works 002 names consistent readers as what remains to be done). Different partitions may be as of different moments.
//!
//! **Cost.** A reader makes writes copy, and keeps the memory of the memtable after a flush; it is not for keeps. A snapshot
//! keeps what was overwritten since it was taken.

use std::sync::Arc;

use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, Direction, PartitionHeader, Row,
    reconcile::apply_deletion, schema::TableMetadata,
};
use espalier_trie::{
    cursor::Entries,
    memory::{MemoryCursor, Reader, Snapshot, Subtrie},
};

use super::{
    Memtable,
    content::Content,
    path, range_tombstones,
    row_format::{RowFormat, corrupt},
    store::{PartMap, PartitionView},
    walk::walk_direction,
};
use crate::StorageError;

/// A handle to read a memtable from another thread: it may be sent there and cloned.
#[derive(Clone)]
pub struct MemtableReader {
    table: Arc<TableMetadata>,
    format: RowFormat,
    parts: Vec<Reader<Content>>,
    /// Where there are several.
    map: Option<PartMap>,
}

impl Memtable {
    /// A handle for other threads; `None` if the memtable is no trie. `table` is the one that the memtable is of.
    pub fn reader(&self, table: &Arc<TableMetadata>) -> Option<MemtableReader> {
        let (parts, map) = self.store.borrow().readers()?;
        Some(MemtableReader { table: table.clone(), format: self.format, parts, map })
    }
}

impl MemtableReader {
    /// A partition as it is now; `None` if the memtable has nothing of it.
    pub fn partition(&self, key: &DecoratedKey) -> Result<Option<PartitionSnapshot>, StorageError> {
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

/// One partition of a memtable as it was at one moment. May go to another thread.
pub struct PartitionSnapshot {
    table: Arc<TableMetadata>,
    format: RowFormat,
    header: PartitionHeader,
    snapshot: Snapshot<Content>,
}

impl PartitionSnapshot {
    /// Key, deletion and static row.
    pub fn header(&self) -> &PartitionHeader {
        &self.header
    }

    /// One row, without what the partition's own deletions cover; `None` if nothing of it is left.
    pub fn row(&self, clustering: &Clustering) -> Result<Option<Row>, StorageError> {
        let mut row_path = Vec::new();
        path::put_row(self.table.comparator(), &clustering.values, &mut row_path);
        match self.snapshot.subtrie().get(&row_path) {
            Some(content) => self.reconciled(&row_path, content),
            None => Ok(None),
        }
    }

    /// All rows in clustering order, or against it, without what the partition's own deletions cover. A row with a deletion
    /// of its own has it.
    pub fn rows(&self, direction: Direction) -> SnapshotRows<'_> {
        let entries = self.snapshot.subtrie().entries(walk_direction(direction));
        SnapshotRows { partition: self, entries }
    }

    /// The strongest deletion of the partition or of a range over a row.
    pub fn deletion_over(&self, clustering: &Clustering) -> DeletionTime {
        let mut row_path = Vec::new();
        path::put_row(self.table.comparator(), &clustering.values, &mut row_path);
        self.deletion_at(self.snapshot.subtrie(), &row_path)
    }

    fn deletion_at(&self, view: Subtrie<'_, Content>, row_path: &[u8]) -> DeletionTime {
        let range = range_tombstones::deletion_before(PartitionView::Trie(view), row_path, true);
        self.header.deletion.max(range)
    }

    fn reconciled(&self, row_path: &[u8], content: &Content) -> Result<Option<Row>, StorageError> {
        if content.row_bytes().is_none() {
            return Err(corrupt(&self.table, &NoRow));
        }
        let mut row = self.format.row(&self.table, row_path, content)?;
        let deletion = self.deletion_at(self.snapshot.subtrie(), row_path);
        Ok(apply_deletion(&mut row, deletion).then_some(row))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is something else in the place of a row")]
struct NoRow;

/// See [`PartitionSnapshot::rows`].
pub struct SnapshotRows<'a> {
    partition: &'a PartitionSnapshot,
    entries: Entries<MemoryCursor<'a, Content>>,
}

impl Iterator for SnapshotRows<'_> {
    type Item = Result<Row, StorageError>;

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
