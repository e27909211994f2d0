//! This module copies a frozen memtable into an SSTable, in order, and yields in between.

use std::{rc::Rc, sync::Arc};

use espalier_memtable::{Memtable, MemtablePartition, OnlyRows};
use espalier_mutation::{
    CellRef, ClusteringSlices, DecoratedKey, Direction, KeyBound, PackedColumn, PackedRow, RowRef,
    UnfilteredStream,
    reconcile::MergedPartition,
    schema::{ColumnId, TableMetadata},
};
use espalier_runtime::maybe_yield;
use espalier_sstable::SSTableWriter;
use smallvec::SmallVec;

use crate::{StorageError, shard::FlushProgress};

/// Partitions and rows between two reports of the progress.
const ITEMS_BETWEEN_RECORDS: u64 = 64;

type Cells<'a> = SmallVec<[(ColumnId, CellRef<'a>); 8]>;

/// Copies one memtable into an SSTable.
pub(super) struct Copy<'a> {
    memtable: &'a Rc<Memtable>,
    table: &'a Arc<TableMetadata>,
    writer: &'a mut SSTableWriter,
    progress: &'a FlushProgress<'a>,
    all: Arc<ClusteringSlices>,
    all_items: u64,
    items: u64,
    /// True if the memtable may hold cells of dropped columns.
    may_hold_dropped: bool,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        memtable: &'a Rc<Memtable>,
        table: &'a Arc<TableMetadata>,
        writer: &'a mut SSTableWriter,
        progress: &'a FlushProgress<'a>,
    ) -> Self {
        let statistics = memtable.statistics();
        let all_items = (statistics.partitions + statistics.rows).max(1);
        let all = Arc::new(ClusteringSlices::all());
        let may_hold_dropped = memtable.may_hold_dropped(table);
        let items = 0;
        Self { memtable, table, writer, progress, all, all_items, items, may_hold_dropped }
    }

    pub(super) async fn run(mut self) -> Result<(), StorageError> {
        let (mut bound, mut rows) = (KeyBound::Unbounded, OnlyRows::default());
        loop {
            self.memtable.next_only_rows(&bound, &mut rows)?;
            for (key, packed) in rows.iter() {
                self.copy_only_row(key, packed).await?;
                maybe_yield().await;
            }
            if let Some(last) = rows.last() {
                bound = KeyBound::AfterKey(last.clone());
                continue;
            }
            let Some(next) = self.memtable.next_partition(&bound)? else { return Ok(()) };
            self.copy_partition(&next.key).await?;
            bound = KeyBound::AfterKey(next.key);
            maybe_yield().await;
        }
    }

    fn record_items(&mut self, count: u64) {
        let before = self.items / ITEMS_BETWEEN_RECORDS;
        self.items += count;
        if self.items / ITEMS_BETWEEN_RECORDS != before {
            self.progress.rows_written(self.items as f64 / self.all_items as f64);
        }
    }

    /// Copies a partition that consists of one row, without the merge if the row does not need it.
    async fn copy_only_row(
        &mut self,
        key: &DecoratedKey,
        packed: &[u8],
    ) -> Result<(), StorageError> {
        let Some((row, cells)) = self.raw_row(packed) else {
            return self.copy_partition(key).await;
        };
        let row = RowRef { liveness: row.liveness, deletion: row.deletion, cells: &cells };
        self.writer.write_only_row(key.clone(), &row).await?;
        self.record_items(2);
        Ok(())
    }

    /// Returns the row if it can be written without a merge: it has no deletions, and only simple
    /// cells of columns that the table has. Returns `None` for other rows, and for all rows of a
    /// counter table and of a memtable that may hold cells of dropped columns.
    fn raw_row<'p>(&self, packed: &'p [u8]) -> Option<(PackedRow<'p>, Cells<'p>)> {
        let row = PackedRow::new(packed).ok()?;
        let is_live = row.deletion.is_live() && row.shadowable_deletion.is_live();
        if !is_live || self.table.is_counter() || self.may_hold_dropped {
            return None;
        }
        let mut cells = Cells::new();
        for column in row.columns() {
            let Ok(PackedColumn::Simple(id, cell)) = column else { return None };
            if self.table.column_by_id(id).is_none_or(|column| column.is_complex()) {
                return None;
            }
            cells.push((id, cell));
        }
        let holds_something = !row.liveness.is_none() || !cells.is_empty();
        holds_something.then_some((row, cells))
    }

    async fn copy_partition(&mut self, key: &DecoratedKey) -> Result<(), StorageError> {
        let (memtable, table) = (self.memtable, self.table);
        let (all, direction) = (&self.all, Direction::Forward);
        let stream = MemtablePartition::open(memtable, table, key, all, direction, usize::MAX)?;
        // The merge of one stream drops the rows and cells that its own deletions cover.
        let streams = stream.into_iter().collect();
        let merged = MergedPartition::new(table.clone(), direction, streams).await?;
        if let Some(mut partition) = merged {
            let header = partition.header().clone();
            self.writer.start_partition(header)?;
            while let Some(fragment) = partition.next().await? {
                maybe_yield().await;
                self.record_items(1);
                self.writer.put(fragment)?;
                self.writer.make_room().await?;
            }
            self.writer.end_partition().await?;
        }
        self.record_items(1);
        Ok(())
    }
}
