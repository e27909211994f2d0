//! Changes one partition of a memtable, and counts the changes. `row_change`, `range_tombstones`
//! and `tombstone_runs` add the changes of rows, range deletions and runs.

use espalier_mutation::{DeletionTime, path, schema::TableMetadata};

use super::{
    Memtable,
    content::Content,
    store::{StoreFull, StorePartition},
};

/// The changes of one partition by one write. They become visible together when this is dropped.
pub(super) struct PartitionWriter<'a> {
    pub(super) memtable: &'a Memtable,
    pub(super) table: &'a TableMetadata,
    pub(super) partition: StorePartition<'a>,
}

impl PartitionWriter<'_> {
    /// Adds the partition if it is missing, and keeps the newer of its deletion and `deletion`.
    pub(super) fn put_deletion(&mut self, deletion: DeletionTime) -> Result<(), StoreFull> {
        let (memtable, partition) = (self.memtable, &mut self.partition);
        let is_new = match partition.get(&[]) {
            Some(Content::Partition(present)) if !deletion.supersedes(present) => {
                return Ok(());
            }
            Some(_) => false,
            None => !memtable.format.is_single_row || partition.get(&[path::FIRST_ROW]).is_none(),
        };
        partition.put(&[], Content::Partition(deletion))?;
        memtable.statistics.borrow_mut().partitions += u64::from(is_new);
        Ok(())
    }

    /// Writes a content that is no row.
    pub(super) fn put(&mut self, key: &[u8], content: Content) -> Result<(), StoreFull> {
        let added = content.heap_bytes();
        let replace = |old: Option<&Content>| (content, old.map_or(0, Content::heap_bytes));
        let replaced = self.partition.put_with(key, replace)?;
        self.memtable.count_heap(replaced, added);
        Ok(())
    }

    /// Removes a content that is no row.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<(), StoreFull> {
        let freed = self.partition.get(key).map_or(0, Content::heap_bytes);
        self.partition.remove(key)?;
        self.memtable.count_heap(freed, 0);
        Ok(())
    }
}
