//! Guardrails on the timestamp, the list operations and the values of a write. Sizes are counted as
//! in Cassandra: a cell has 20 bytes for its times, in addition to its value and its path.

use espalier_mutation::{
    ColumnData, PartitionUpdate, Row,
    schema::{ColumnDefinition, ColumnKind},
};
use espalier_storage::guardrails::{Feature, Limit};
use espalier_types::{CqlType, collection};

use super::Guard;
use crate::{
    Result,
    modify::{Change, Clocks, Operation, PlannedModification},
    term::Evaluation,
};

/// Bytes of a cell in addition to its value and its path.
const CELL: usize = 20;

impl PlannedModification {
    /// Checks the timestamp of a single statement. As in Cassandra, statements in batches are not
    /// checked.
    ///
    /// # Errors
    /// The timestamp is too old or too new, or invalid.
    pub fn check_timestamp(
        &self,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        guard: Guard<'_>,
    ) -> Result<()> {
        let limits = [Limit::MaximumTimestamp, Limit::MinimumTimestamp];
        let is_limited = limits.into_iter().any(|limit| guard.guardrails.is_limited(limit));
        if self.timestamp.is_none() || !is_limited {
            return Ok(());
        }
        let timestamp_us = self.timestamp_us(evaluation, clocks)?;
        limits.into_iter().try_for_each(|limit| guard.check(limit, timestamp_us, &self.table.name))
    }

    /// Checks the operations of an execution, before they read the stored rows.
    ///
    /// # Errors
    /// An operation on a list must read the list first, and such operations are switched off.
    pub fn check_operations(&self, guard: Guard<'_>) -> Result<()> {
        for operation in &self.operations {
            let what = match operation.change {
                Change::SetElement(..) => {
                    "Setting of list items by index requiring read before write"
                }
                Change::DeleteElement(_) => {
                    "Removal of list items by index requiring read before write"
                }
                Change::Remove(_) => "Removal of list items requiring read before write",
                _ => continue,
            };
            if operation.needs_read() {
                guard.require_as(Feature::ReadBeforeWriteListOperations, what)?;
            }
        }
        Ok(())
    }

    /// Checks the values that an execution writes.
    ///
    /// # Errors
    /// A value or a collection is too large.
    pub fn check_values(&self, updates: &[PartitionUpdate], guard: Guard<'_>) -> Result<()> {
        let limits = [Limit::ColumnValueSize, Limit::CollectionSize, Limit::ItemsPerCollection];
        if !limits.into_iter().any(|limit| guard.guardrails.is_limited(limit)) {
            return Ok(());
        }
        for update in updates {
            for row in update.static_row.iter().chain(&update.rows) {
                self.check_row(row, guard)?;
            }
        }
        Ok(())
    }

    fn check_row(&self, row: &Row, guard: Guard<'_>) -> Result<()> {
        let is_static = |kind: ColumnKind| kind == ColumnKind::Static;
        for Operation { column, change } in &self.operations {
            let found = row.columns.iter().find(|(id, _)| *id == column.id);
            let Some((_, data)) =
                found.filter(|_| is_static(column.kind) == self.is_static_row(row))
            else {
                continue;
            };
            match data {
                ColumnData::Simple(cell) if cell.is_tombstone() => {}
                ColumnData::Simple(cell) => check_plain(column, &cell.value, guard)?,
                ColumnData::Complex(complex) => {
                    let is_live = |cell: &espalier_mutation::Cell| !cell.is_tombstone();
                    let live = complex.cells.iter().filter(|(_, cell)| is_live(cell));
                    let is_whole = matches!(change, Change::Replace(_) | Change::Add(_));
                    let is_collection = is_whole && column.column_type.is_collection();
                    if is_collection {
                        let items = live.clone().count();
                        guard.check(Limit::ItemsPerCollection, items, &column.name)?;
                    }
                    for (path, cell) in &complex.cells {
                        if is_live(cell) {
                            guard.check(Limit::ColumnValueSize, cell.value.len(), &column.name)?;
                        }
                        guard.check(Limit::ColumnValueSize, path.len(), &column.name)?;
                    }
                    if is_collection {
                        let size: usize =
                            live.map(|(path, cell)| CELL + path.len() + cell.value.len()).sum();
                        guard.check(Limit::CollectionSize, size, &column.name)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a row of an update is the static row: it has no clustering in a table with
    /// clustering columns.
    fn is_static_row(&self, row: &Row) -> bool {
        row.clustering.values.is_empty() && !self.table.clustering_columns().is_empty()
    }
}

/// Checks the value of a column that has one cell.
fn check_plain(column: &ColumnDefinition, value: &[u8], guard: Guard<'_>) -> Result<()> {
    let items = match &column.column_type {
        CqlType::List { .. } | CqlType::Set { .. } => {
            collection::elements(value).map(|elements| elements.len()).ok()
        }
        CqlType::Map { .. } => collection::entries(value).map(|entries| entries.len()).ok(),
        _ => None,
    };
    if let Some(items) = items {
        guard.check(Limit::ItemsPerCollection, items, &column.name)?;
    }
    guard.check(Limit::ColumnValueSize, value.len(), &column.name)?;
    if items.is_some() {
        guard.check(Limit::CollectionSize, CELL + value.len(), &column.name)?;
    }
    Ok(())
}
