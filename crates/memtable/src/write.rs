//! Applies partition updates to the memtable.
//!
//! A write adds its entries in secondary indexes before its rows, so no row lacks its entries. If
//! the memtable becomes full during a write, it keeps the part of the write that it has, and
//! perhaps entries without rows.

use espalier_mutation::{
    DecoratedKeyRef, DeletionTime, PartitionUpdate, RowContent, path, schema::TableMetadata,
};

use super::{
    Memtable, MemtableError,
    buffers::Buffers,
    content::Content,
    partition_writer::PartitionWriter,
    row_change::{Change, Failure, Target, change_row, partition_deletion},
};

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
        let indexed = match &self.indexes {
            Some(indexes) => indexes.borrow_mut().add_update(table, update),
            None => Ok(()),
        };
        let outcome = match indexed {
            Ok(()) => self.apply_inner(table, update, packed),
            Err(_) => Err(Failure::Full),
        };
        self.settle();
        outcome.map_err(|failure| failure.into_error(self, table))
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
        outcome.map_err(|failure| failure.into_error(self, table))
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
        outcome.map_err(|failure| failure.into_error(self, table))
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
        if let Some(indexes) = &self.indexes {
            let added = indexes.borrow_mut().add_row(table, key, Some(clustering), row);
            added.map_err(|_| Failure::Full)?;
        }
        path.clear();
        path::put_partition(key, path);
        self.statistics.borrow_mut().add_row(row);
        if self.format.is_single_row {
            return self.put_single_row(table, path, packed, merged);
        }
        let mut store = self.store.borrow_mut();
        let partition = store.transaction(path);
        let mut writer = PartitionWriter { memtable: self, table, partition };
        writer.put_deletion(DeletionTime::LIVE)?;
        path.clear();
        path::put_row(table.comparator(), clustering, path);
        kept.clear();
        self.format.keep(clustering, kept);
        writer.put_row(path, kept, packed, merged)
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
        self.statistics.borrow_mut().add_update(update);
        if self.format.is_single_row {
            return match (update.deletion.is_live(), update.rows.len()) {
                (true, 0) => Ok(()),
                (true, 1) => self.put_single_row(table, path, packed(0), merged),
                _ => self.apply_single_row(table, update, path, packed, merged),
            };
        }
        let mut store = self.store.borrow_mut();
        let partition = store.transaction(path);
        let mut writer = PartitionWriter { memtable: self, table, partition };
        writer.put_deletion(update.deletion)?;
        if self.statistics.borrow().is_covered_by(update.deletion) {
            let _ = writer.cover(vec![path::BOTTOM], vec![path::TOP]);
        }
        let mut index = 0;
        if update.static_row.is_some() {
            kept.clear();
            self.format.keep::<&[u8]>(&[], kept);
            writer.merge_row(&[path::STATIC], kept, packed(index), merged)?;
            index += 1;
        }
        for row in &update.rows {
            path.clear();
            path::put_row(table.comparator(), &row.clustering.values, path);
            kept.clear();
            self.format.keep(&row.clustering.values, kept);
            writer.put_row(path, kept, packed(index), merged)?;
            index += 1;
        }
        for tombstone in &update.range_tombstones {
            writer.add_range_tombstone(tombstone)?;
        }
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
        let partition = store.transaction(path);
        let mut writer = PartitionWriter { memtable: self, table, partition };
        let row = &[path::FIRST_ROW];
        if !update.deletion.is_live() {
            writer.put_deletion(update.deletion)?;
        } else if writer.partition.get(&[]).is_none() && writer.partition.get(row).is_none() {
            self.statistics.borrow_mut().partitions += 1;
        }
        for index in 0..update.rows.len() {
            writer.merge_row(row, &[], packed(index), merged)?;
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

    /// Counts the change of a row, or of the static row if not `is_row`.
    #[inline]
    pub(super) fn count(&self, change: &Change, is_row: bool) {
        if change.is_new && is_row {
            self.statistics.borrow_mut().rows += 1;
        }
        self.count_heap(change.heap_before, change.heap_after);
    }

    /// Counts the heap bytes of a replaced content, and of its replacement.
    #[inline]
    pub(super) fn count_heap(&self, replaced: usize, added: usize) {
        self.heap_bytes.set(self.heap_bytes.get() - replaced + added);
    }
}
