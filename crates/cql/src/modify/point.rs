//! The fast path of writes: one row by its full primary key, plain columns set or deleted.
//!
//! This path builds no update: values go straight from the request into the record of the commit
//! log and the memtable. Statements that it does not support or would refuse go to the general
//! path, which reports the errors.

use espalier_mutation::{
    CellRef, DecoratedKeyRef, DeletionTime, Liveness, RowRef,
    schema::{ColumnId, ColumnKind, TableLayout},
};
use espalier_storage::{CommitTicket, Node, StorageError};
use smallvec::SmallVec;

use super::{
    Change, Clocks, ModificationKind, Operation, PlannedModification,
    indexed_decimals::lists_decimals_of,
};
use crate::{
    options::Value,
    restrictions::{PointClustering, PointKey},
    term::{BorrowedBound, Evaluation, Term},
};

/// The plan of a modification that writes one row.
#[derive(Clone, Debug)]
pub struct PointWrite {
    pub(super) key: PointKey,
    /// The cells to write, ascending by id, each id once. `None` deletes the cell.
    cells: Box<[(ColumnId, Option<Term>)]>,
    writes_liveness: bool,
    deletes_row: bool,
    /// True if the clustering may not be empty.
    refuses_empty: bool,
}

impl PointWrite {
    /// Plans the write, or returns `None` if the modification is not of this kind.
    pub fn plan(plan: &PlannedModification) -> Option<PointWrite> {
        let key = plan.restrictions.point(&plan.table)?;
        let borrowable = |term: &Option<Term>| term.as_ref().is_none_or(Term::is_borrowable);
        if plan.table.is_counter()
            || plan.checks.is_some()
            || !borrowable(&plan.timestamp)
            || !borrowable(&plan.time_to_live)
        {
            return None;
        }
        let is_delete = plan.kind == ModificationKind::Delete;
        let deletes_row = is_delete && plan.operations.is_empty();
        if deletes_row && plan.table.clustering_columns().is_empty() {
            return None; // It deletes the partition.
        }
        let cells = plan.operations.iter().map(|Operation { column, change }| match change {
            _ if column.kind != ColumnKind::Regular => None,
            Change::Set(term)
                if term.is_borrowable() && !lists_decimals_of(&plan.table, column.id) =>
            {
                Some((column.id, Some(term.clone())))
            }
            Change::Delete if !column.is_complex() => Some((column.id, None)),
            _ => None,
        });
        let mut cells = cells.collect::<Option<Vec<_>>>()?;
        cells.sort_by_key(|(id, _)| *id);
        if cells.windows(2).any(|pair| matches!(pair, [left, right] if left.0 == right.0)) {
            return None;
        }
        let writes_liveness = plan.writes_liveness();
        let refuses_empty = plan.table.layout == TableLayout::Dense;
        let cells = cells.into();
        Some(PointWrite { key, cells, writes_liveness, deletes_row, refuses_empty })
    }
}

impl PlannedModification {
    /// Returns the key of the only row that the statement writes, if it is a point write.
    pub fn point_key(&self) -> Option<&PointKey> {
        self.point.as_ref().map(|point| &point.key)
    }

    /// Executes the write without waiting. Returns `None` if the write would have to wait, or if
    /// the general path must execute the statement. The caller has checked `values` against their
    /// markers; `buffer` is scratch space for the key.
    #[inline]
    pub fn write_point(
        &self,
        database: &Node,
        values: &[Value],
        clocks: Clocks,
        buffer: &mut Vec<u8>,
    ) -> Option<Result<CommitTicket, StorageError>> {
        let point = self.point.as_ref()?;
        let key = point.key.partition(values, buffer)?;
        let clustering = point.key.clustering(values)?;
        self.write_row(point, database, (key, &clustering), values, clocks)
    }

    /// Writes the row as [`Self::write_point`] does.
    #[inline]
    pub(super) fn write_row(
        &self,
        point: &PointWrite,
        database: &Node,
        (key, clustering): (DecoratedKeyRef<'_>, &PointClustering<'_>),
        values: &[Value],
        clocks: Clocks,
    ) -> Option<Result<CommitTicket, StorageError>> {
        if point.refuses_empty && clustering.iter().flatten().any(|value| value.is_empty()) {
            return None;
        }
        let times = self.times(&Evaluation { values, now_us: 0, references: &[] }, clocks).ok()?;
        let mut cells: SmallVec<[(ColumnId, CellRef<'_>); 8]> = SmallVec::new();
        for (id, term) in &point.cells {
            let cell = match term {
                None => times.tombstone(),
                Some(term) => match term.borrow(values)? {
                    BorrowedBound::Value(value) => times.cell(value),
                    BorrowedBound::Null => times.tombstone(),
                    BorrowedBound::Unset => continue,
                },
            };
            cells.push((*id, cell));
        }
        if cells.is_empty() && !point.writes_liveness && !point.deletes_row {
            return None;
        }
        let row = RowRef {
            liveness: if point.writes_liveness { times.liveness() } else { Liveness::NONE },
            deletion: if point.deletes_row { times.deletion() } else { DeletionTime::LIVE },
            cells: &cells,
        };
        database.store().try_write_row(&self.table, key, clustering, &row)
    }
}
