//! Applies partition updates to the memtable.

use super::{
    Memtable,
    buffers::Buffers,
    content::Content,
    merge,
    range_tombstones::deletion_before,
    row_format::split_stored,
    store::{StoreFull, StorePartition},
    tombstone_runs,
};
use crate::MemtableError;
use espalier_mutation::{
    DecoratedKeyRef, DeletionTime, PackError, PartitionUpdate, RowContent,
    encoding::body::put_values, path, schema::TableMetadata,
};

/// The effect of a write on a row.
#[derive(Default)]
struct Change {
    is_new: bool,
    heap_before: usize,
    heap_after: usize,
    error: Option<PackError>,
}

impl Memtable {
    /// Applies an update. `packed` returns the packed form of a row by its number. The static row,
    /// if there is one, comes before the other rows. This never yields: readers of this shard see
    /// all of the update or nothing.
    ///
    /// # Errors
    ///
    /// [`MemtableError::Full`] if a trie is full; [`MemtableError::PackedRow`] if a row is damaged.
    pub fn apply<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        packed: impl Fn(usize) -> &'p [u8],
    ) -> Result<(), MemtableError> {
        let indexed = self.index_update(table, update).map_err(Failure::from);
        let outcome = indexed.and_then(|()| self.apply_inner(table, update, packed));
        self.settle();
        outcome.map_err(|failure| self.error(table, failure))
    }

    /// Applies an update as [`Self::apply`] does. The memtable already has the update's entries in
    /// secondary indexes ([`Self::add_some_entries`]).
    ///
    /// # Errors
    ///
    /// As for [`Self::apply`].
    pub fn apply_rows<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        packed: impl Fn(usize) -> &'p [u8],
    ) -> Result<(), MemtableError> {
        let outcome = self.apply_inner(table, update, packed);
        self.settle();
        outcome.map_err(|failure| self.error(table, failure))
    }

    /// Applies the write of one row, as [`Self::apply`] does with an update of nothing else.
    /// `packed` is the row's packed form.
    ///
    /// # Errors
    ///
    /// As for [`Self::apply`].
    #[inline]
    pub fn apply_row<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &impl RowContent,
        packed: &[u8],
    ) -> Result<(), MemtableError> {
        let outcome = self.apply_row_inner(table, key, clustering, row, packed);
        self.settle();
        outcome.map_err(|failure| self.error(table, failure))
    }

    #[cold]
    fn error(&self, table: &TableMetadata, failure: Failure) -> MemtableError {
        match failure {
            Failure::Full => MemtableError::Full { bytes: self.memory_bytes() },
            Failure::Packed(source) => MemtableError::PackedRow {
                table: format!("{}.{}", table.keyspace, table.name),
                source,
            },
        }
    }

    #[inline]
    fn apply_row_inner<V: AsRef<[u8]>>(
        &self,
        table: &TableMetadata,
        key: DecoratedKeyRef<'_>,
        clustering: &[Option<V>],
        row: &impl RowContent,
        packed: &[u8],
    ) -> Result<(), Failure> {
        let mut buffers = self.buffers.borrow_mut();
        let Buffers { path, kept, merged } = &mut *buffers;
        self.is_read.set(self.store.borrow().has_readers());
        self.index_row(table, key, clustering, row)?;
        path.clear();
        path::put_partition(key, path);
        self.statistics.borrow_mut().add_row(row);
        if self.format.is_single_row {
            return self.put_single_row(table, path, packed, merged);
        }
        let mut store = self.store.borrow_mut();
        let mut partition = store.transaction(path);
        self.put_partition(&mut partition, DeletionTime::LIVE)?;
        path.clear();
        path::put_row(table.comparator(), clustering, path);
        self.keep(clustering, kept);
        self.put_row(table, &mut partition, path, kept, packed, merged)
    }

    fn apply_inner<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        packed: impl Fn(usize) -> &'p [u8],
    ) -> Result<(), Failure> {
        let mut buffers = self.buffers.borrow_mut();
        let Buffers { path, kept, merged } = &mut *buffers;
        self.is_read.set(self.store.borrow().has_readers());
        path.clear();
        path::put_partition(update.key.borrowed(), path);
        self.add_statistics(update);
        if self.format.is_single_row {
            return match (update.deletion.is_live(), update.rows.len()) {
                (true, 0) => Ok(()),
                (true, 1) => self.put_single_row(table, path, packed(0), merged),
                _ => self.apply_single_row(table, update, path, packed, merged),
            };
        }
        let mut store = self.store.borrow_mut();
        let mut partition = store.transaction(path);
        self.put_partition(&mut partition, update.deletion)?;
        if self.covers(update.deletion) {
            let _ = self.cover(&mut partition, vec![path::BOTTOM], vec![path::TOP]);
        }
        let mut index = 0;
        if update.static_row.is_some() {
            self.keep::<&[u8]>(&[], kept);
            let target = self.target(table, &partition, &[path::STATIC]);
            let change = partition.put_with(&[path::STATIC], |old| {
                change_row(&target, old, kept, packed(index), merged)
            })?;
            self.count(&change, false);
            change.error.map_or(Ok(()), Err)?;
            index += 1;
        }
        for row in &update.rows {
            path.clear();
            path::put_row(table.comparator(), &row.clustering.values, path);
            self.keep(&row.clustering.values, kept);
            self.put_row(table, &mut partition, path, kept, packed(index), merged)?;
            index += 1;
        }
        for tombstone in &update.range_tombstones {
            self.add_range_tombstone(table, &mut partition, tombstone)?;
        }
        Ok(())
    }

    /// Writes a row of a partition that may have several. `path` is the row's path in the
    /// partition.
    #[inline]
    fn put_row(
        &self,
        table: &TableMetadata,
        partition: &mut StorePartition<'_>,
        path: &[u8],
        kept: &[u8],
        packed: &[u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let is_dead = tombstone_runs::is_dead(packed);
        if !is_dead {
            self.leave_run(partition, path)?;
        }
        self.put_row_content(table, partition, path, kept, packed, merged)?;
        // Runs are hints: if there is no room for one, reads walk the tombstones.
        if is_dead {
            let _ = self.join_run(partition, path);
        }
        Ok(())
    }

    #[inline]
    fn put_row_content(
        &self,
        table: &TableMetadata,
        partition: &mut StorePartition<'_>,
        path: &[u8],
        kept: &[u8],
        packed: &[u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let target = self.target(table, partition, path);
        let change =
            partition.put_with(path, |old| change_row(&target, old, kept, packed, merged))?;
        self.count(&change, true);
        change.error.map_or(Ok(()), Err)?;
        Ok(())
    }

    /// Applies an update that deletes a single-row partition or has several writes of its row.
    #[cold]
    fn apply_single_row<'p>(
        &self,
        table: &TableMetadata,
        update: &PartitionUpdate,
        path: &[u8],
        packed: impl Fn(usize) -> &'p [u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let mut store = self.store.borrow_mut();
        let mut partition = store.transaction(path);
        let row = &[path::FIRST_ROW];
        if !update.deletion.is_live() {
            self.put_partition(&mut partition, update.deletion)?;
        } else if partition.get(&[]).is_none() && partition.get(row).is_none() {
            self.statistics.borrow_mut().partitions += 1;
        }
        for index in 0..update.rows.len() {
            self.put_row_content(table, &mut partition, row, &[], packed(index), merged)?;
        }
        Ok(())
    }

    /// Writes the only row of the partition whose path is in `path`. Changes `path`.
    #[inline]
    fn put_single_row(
        &self,
        table: &TableMetadata,
        path: &mut Vec<u8>,
        packed: &[u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let active = if table.is_counter() {
            partition_deletion(self.store.borrow().get(path))
        } else {
            DeletionTime::LIVE
        };
        let target = Target { table, is_exact: true, active };
        let change = if self.is_read.get() {
            // A snapshot of the partition must stay as it is.
            let mut store = self.store.borrow_mut();
            let change = |old: Option<&Content>| change_row(&target, old, &[], packed, merged);
            let change = store.transaction(path).put_with(&[path::FIRST_ROW], change)?;
            path.push(path::FIRST_ROW);
            change
        } else {
            path.push(path::FIRST_ROW);
            let mut store = self.store.borrow_mut();
            store.put_with(path, |old| change_row(&target, old, &[], packed, merged))?
        };
        self.count(&change, true);
        if change.is_new {
            path.pop();
            self.count_single_row_partition(path);
        }
        change.error.map_or(Ok(()), Err)?;
        Ok(())
    }

    /// Returns the context of the merge of a row that is written at `path`.
    #[inline]
    fn target<'t>(
        &self,
        table: &'t TableMetadata,
        partition: &StorePartition<'_>,
        path: &[u8],
    ) -> Target<'t> {
        let mut active = DeletionTime::LIVE;
        if table.is_counter() {
            active = partition_deletion(partition.get(&[]));
            if self.has_boundaries.get() && path != [path::STATIC] {
                active = active.max(deletion_before(partition.subtrie(), path, true));
            }
        }
        Target { table, is_exact: self.format.is_exact, active }
    }

    /// Returns whether a deletion is at least as new as all that the memtable holds.
    pub(super) fn covers(&self, deletion: DeletionTime) -> bool {
        !deletion.is_live()
            && deletion.marked_for_delete_at >= self.statistics.borrow().maximum_timestamp
    }

    /// Adds the partition if it is missing, and keeps the newer of its deletion and `deletion`.
    fn put_partition(
        &self,
        partition: &mut StorePartition<'_>,
        deletion: DeletionTime,
    ) -> Result<(), Failure> {
        let is_new = match partition.get(&[]) {
            Some(Content::Partition(present)) if !deletion.supersedes(present) => {
                return Ok(());
            }
            Some(_) => false,
            None => !self.format.is_single_row || partition.get(&[path::FIRST_ROW]).is_none(),
        };
        partition.put(&[], Content::Partition(deletion))?;
        self.statistics.borrow_mut().partitions += u64::from(is_new);
        Ok(())
    }

    #[inline]
    fn count_single_row_partition(&self, path: &[u8]) {
        let mut statistics = self.statistics.borrow_mut();
        // Contents that are no rows are partitions with a deletion, which were counted when they
        // were added.
        let is_counted = statistics.rows < self.store.borrow().content_count() as u64
            && self.store.borrow().get(path).is_some();
        if !is_counted {
            statistics.partitions += 1;
        }
    }

    #[inline]
    fn count(&self, change: &Change, is_row: bool) {
        if change.is_new && is_row {
            self.statistics.borrow_mut().rows += 1;
        }
        self.count_heap(change.heap_before, change.heap_after);
    }

    /// Writes a content that is no row.
    pub(super) fn put_counted(
        &self,
        partition: &mut StorePartition<'_>,
        key: &[u8],
        content: Content,
    ) -> Result<(), StoreFull> {
        let added = content.heap_bytes();
        let replaced =
            partition.put_with(key, |old| (content, old.map_or(0, Content::heap_bytes)))?;
        self.count_heap(replaced, added);
        Ok(())
    }

    /// Removes a content that is no row.
    pub(super) fn remove_counted(
        &self,
        partition: &mut StorePartition<'_>,
        key: &[u8],
    ) -> Result<(), StoreFull> {
        let freed = partition.get(key).map_or(0, Content::heap_bytes);
        partition.remove(key)?;
        self.count_heap(freed, 0);
        Ok(())
    }

    /// Counts the heap bytes of a replaced content, and of its replacement.
    #[inline]
    pub(super) fn count_heap(&self, replaced: usize, added: usize) {
        self.heap_bytes.set(self.heap_bytes.get() - replaced + added);
    }

    #[inline]
    fn keep<V: AsRef<[u8]>>(&self, values: &[Option<V>], kept: &mut Vec<u8>) {
        kept.clear();
        if self.format.is_exact {
            return;
        }
        kept.extend_from_slice(&[0; 4]);
        put_values(values, kept);
        let length = (kept.len() - 4) as u32;
        kept[..4].copy_from_slice(&length.to_le_bytes());
    }

    #[inline]
    fn add_statistics(&self, update: &PartitionUpdate) {
        let mut statistics = self.statistics.borrow_mut();
        statistics.add_wide_deletion(update.deletion);
        update.static_row.iter().for_each(|row| statistics.add_row(row));
        update.rows.iter().for_each(|row| statistics.add_row(row));
        for tombstone in &update.range_tombstones {
            statistics.add_wide_deletion(tombstone.deletion);
        }
    }
}

/// The context of a merge of two writes of a row.
struct Target<'t> {
    table: &'t TableMetadata,
    is_exact: bool,
    /// The deletion over a counter's row. Rows of other tables are merged independently of the
    /// deletions over them.
    active: DeletionTime,
}

fn partition_deletion(content: Option<&Content>) -> DeletionTime {
    match content {
        Some(Content::Partition(deletion)) => *deletion,
        _ => DeletionTime::LIVE,
    }
}

/// Merges a packed row into a stored one. `kept` precedes the packed bytes of a new row.
#[inline]
fn change_row(
    target: &Target<'_>,
    old: Option<&Content>,
    kept: &[u8],
    packed: &[u8],
    merged: &mut Vec<u8>,
) -> (Content, Change) {
    let Some(old) = old else {
        let content = Content::row(kept, packed);
        let heap_after = content.heap_bytes();
        return (content, Change { is_new: true, heap_after, ..Change::default() });
    };
    let bytes = old.row_bytes().unwrap_or_default();
    let table = target.table;
    let old_packed = split_stored(target.is_exact, bytes).1;
    let old_kept = &bytes[..bytes.len() - old_packed.len()];
    let mut change = Change { heap_before: old.heap_bytes(), ..Change::default() };
    let content = if merge::replaces(table, old_packed, packed) {
        Content::row(old_kept, packed)
    } else {
        match merge::merge_packed(table, old_packed, packed, target.active, merged) {
            Ok(()) => Content::row(old_kept, merged),
            Err(error) => {
                change.error = Some(error);
                old.clone()
            }
        }
    };
    change.heap_after = content.heap_bytes();
    (content, change)
}

enum Failure {
    Full,
    Packed(PackError),
}

impl From<StoreFull> for Failure {
    fn from(_: StoreFull) -> Self {
        Self::Full
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        Self::Packed(error)
    }
}
