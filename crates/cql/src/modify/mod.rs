//! INSERT, UPDATE and DELETE: planned once, turned into partition updates at each execution.

mod delete;
mod indexed_decimals;
mod insert;
mod insert_json;
mod list_path;
mod named_rows;
mod operation;
mod plan;
mod point;
mod point_turn;
mod row_writer;
mod stored_rows;
mod update;

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, Clustering, ClusteringSlice, DecoratedKey, DeletionTime, NO_DELETION_TIME,
    PartitionUpdate, RangeTombstone, Row,
    schema::{ColumnKind, TableMetadata},
};

use espalier_storage::system::is_virtual;

pub use operation::{Change, Operation, WriteContext, WriteTimes};
pub use plan::plan_modification;
pub use point::PointWrite;
pub use point_turn::PointTurn;
use row_writer::RowWriter;
pub use stored_rows::{StoredRows, WrittenRows};

use crate::{
    Error, Result,
    condition::Condition,
    constraint::Checks,
    functions::json::DocumentScope,
    guard::Guard,
    restrictions::{Restrictions, check_key_length},
    select::key_components,
    term::{Bound, Evaluation, Term},
};

/// A planned INSERT, UPDATE or DELETE.
#[derive(Clone, Debug)]
pub struct PlannedModification {
    /// The table.
    pub table: Arc<TableMetadata>,
    /// The kind of the statement.
    pub kind: ModificationKind,
    /// The partitions and rows that the statement changes.
    pub restrictions: Restrictions,
    /// The changes of columns; empty in a DELETE of rows or partitions, and in an INSERT of only a
    /// key.
    pub operations: Vec<Operation>,
    /// `USING TIMESTAMP`.
    pub timestamp: Option<Term>,
    /// `USING TTL`.
    pub time_to_live: Option<Term>,
    /// `IF`.
    pub condition: Condition,
    /// The constraints of the table, if it has any.
    pub checks: Option<Arc<Checks>>,
    /// The plan for the fast path of writes without a condition, if the statement may use this
    /// path.
    pub point: Option<PointWrite>,
    /// The plan for the fast path of conditional writes, if the statement may use this path.
    pub point_turn: Option<PointTurn>,
}

/// The kinds of modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ModificationKind {
    Insert,
    Update,
    Delete,
}

/// The clocks of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The write timestamp in µs of a statement without USING TIMESTAMP.
    pub timestamp_us: i64,
    /// The clock for local deletion and expiry times, in seconds since 1970.
    pub now_s: u32,
}

/// A function that returns a row as it is stored. [Some operations](Operation::needs_read) need the
/// row: changes of a list by index or value, `+=` on a number or a string, and `-=` on a number.
pub type CurrentRows<'a> = &'a dyn Fn(&DecoratedKey, Option<&Clustering>) -> Option<Row>;

impl PlannedModification {
    /// Returns whether an operation of the statement needs the stored rows. Conditions do not
    /// count.
    pub fn needs_read(&self) -> bool {
        self.operations.iter().any(Operation::needs_read)
    }

    /// Returns the number of columns that the plan stores: the columns that it changes, and those
    /// in the answer of [`PointTurn`].
    pub fn column_count(&self) -> usize {
        let answer = self.point_turn.as_ref().map_or(0, |turn| turn.applied.columns.len());
        self.operations.len() + answer
    }

    /// Returns [`Self::column_count`] and two more for a statement of a batch or transaction. The
    /// plan of such a statement takes about as much memory as two columns.
    pub fn inner_column_count(&self) -> usize {
        2 + self.column_count()
    }

    /// Returns whether the statement writes the liveness of its rows.
    pub fn writes_liveness(&self) -> bool {
        self.kind == ModificationKind::Insert && self.table.has_row_liveness()
    }

    /// Returns whether the statement changes static columns only.
    pub fn is_static_only(&self) -> bool {
        !self.operations.is_empty() && self.operations.iter().all(Operation::is_static)
    }

    /// Returns whether the statement changes and tests static columns only, and names no row.
    pub fn is_static_alone(&self) -> bool {
        self.is_static_only()
            && !self.condition.tests_regular_columns()
            && self.restrictions.clustering.is_empty()
            && !self.table.clustering_columns().is_empty()
    }

    /// Returns whether the statement reads rows before it writes them. It then takes a turn on
    /// these rows, unless it has no condition and is in a batch or has an IN.
    pub fn takes_turn(&self) -> bool {
        !self.condition.is_none() || self.needs_read()
    }

    /// Returns the timestamp of the writes in µs.
    ///
    /// # Errors
    /// As [`evaluate_timestamp`].
    #[inline]
    pub fn timestamp_us(&self, evaluation: &Evaluation<'_>, clocks: Clocks) -> Result<i64> {
        match &self.timestamp {
            None => Ok(clocks.timestamp_us),
            Some(term) => evaluate_timestamp(term, evaluation, clocks.timestamp_us),
        }
    }

    /// Returns the times of the cells that one execution writes.
    #[inline]
    fn times(&self, evaluation: &Evaluation<'_>, clocks: Clocks) -> Result<WriteTimes> {
        let timestamp = self.timestamp_us(evaluation, clocks)?;
        let (ttl, expiry) = self.expiry(evaluation, clocks.now_s)?;
        Ok(WriteTimes { timestamp, ttl, expiry, now_s: clocks.now_s })
    }

    /// Returns the partition updates of one execution.
    ///
    /// # Errors
    /// The table is virtual, a key, a clustering value or the timestamp is null, a key or a
    /// clustering is too long, the INs name too many rows, the timestamp or the TTL is out of
    /// range, a constraint refuses a value, an index cannot list a value, or an operation fails
    /// ([`Operation::apply`]).
    pub fn updates(
        &self,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        current: CurrentRows<'_>,
    ) -> Result<Vec<PartitionUpdate>> {
        if is_virtual(&self.table.keyspace) {
            return Err(self.refusal());
        }
        let _document = DocumentScope;
        let written = self.written_rows_in_document(evaluation)?;
        self.updates_at(&written, evaluation, clocks, current)
    }

    /// Returns the partition updates of an execution whose keys are evaluated.
    ///
    /// # Errors
    /// As [`Self::updates`].
    pub fn updates_at(
        &self,
        written: &WrittenRows,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        current: CurrentRows<'_>,
    ) -> Result<Vec<PartitionUpdate>> {
        if is_virtual(&self.table.keyspace) {
            return Err(self.refusal());
        }
        let _document = DocumentScope;
        let times = self.times(evaluation, clocks)?;
        let context = WriteContext { evaluation, times };
        let slices = &written.slices;
        if let Some(checks) = &self.checks {
            self.check_written_rows(checks, written)?;
        }
        let mut updates = Vec::with_capacity(written.keys.len());
        for key in &written.keys {
            let mut update = PartitionUpdate::new(self.table.id, key.clone());
            if self.operations.is_empty() && self.kind == ModificationKind::Delete {
                self.delete_rows(&mut update, &slices.slices, times.deletion())?;
            } else {
                self.write_rows(&mut update, &slices.slices, &context, current)?;
            }
            updates.push(update);
        }
        indexed_decimals::check(&self.table, &updates)?;
        Ok(updates)
    }

    /// Returns the partition updates as [`Self::updates_at`] does, if no guardrail refuses them.
    ///
    /// # Errors
    /// As [`Self::updates_at`], or a guardrail refuses an operation or a value.
    pub fn guarded_updates_at(
        &self,
        written: &WrittenRows,
        evaluation: &Evaluation<'_>,
        clocks: Clocks,
        current: CurrentRows<'_>,
        guard: Guard<'_>,
    ) -> Result<Vec<PartitionUpdate>> {
        if !guard.guardrails.guards_writes() {
            return self.updates_at(written, evaluation, clocks, current);
        }
        self.check_operations(guard)?;
        let updates = self.updates_at(written, evaluation, clocks, current)?;
        self.check_values(&updates, guard)?;
        Ok(updates)
    }

    /// Returns the error for a modification of a virtual table, with Cassandra's text.
    #[cold]
    fn refusal(&self) -> Error {
        let TableMetadata { keyspace, name, .. } = &*self.table;
        match (&self.timestamp, &self.time_to_live) {
            (Some(_), _) => Error::invalid("Custom timestamp is not supported by virtual tables"),
            (_, Some(_)) => Error::invalid("Expiring columns are not supported by virtual tables"),
            _ => {
                Error::invalid(format!("Modification is not supported by table {keyspace}.{name}"))
            }
        }
    }

    /// Checks the constraints of the primary key columns.
    fn check_written_rows(&self, checks: &Checks, written: &WrittenRows) -> Result<()> {
        for key in &written.keys {
            let components = key_components(&self.table, key)?;
            let values = components.iter().map(|value| Some(value.as_ref()));
            checks.check_key(ColumnKind::PartitionKey, values)?;
        }
        if self.restrictions.names_whole_rows(&self.table) {
            for slice in &written.slices.slices {
                let values = slice.start.values.iter().map(|value| value.as_deref());
                checks.check_key(ColumnKind::Clustering, values)?;
            }
        }
        Ok(())
    }

    fn delete_rows(
        &self,
        update: &mut PartitionUpdate,
        slices: &[ClusteringSlice],
        deletion: DeletionTime,
    ) -> Result<()> {
        if self.restrictions.clustering.is_empty() {
            update.deletion = deletion;
            return Ok(());
        }
        let whole_rows = self.restrictions.names_whole_rows(&self.table);
        for slice in slices {
            if whole_rows
                && slice.start.kind == BoundKind::InclusiveStart
                && slice.start.values == slice.end.values
            {
                let clustering = clustering_of(slice)?;
                update.rows.push(Row { deletion, ..Row::empty(clustering) });
            } else {
                let (start, end) = (slice.start.clone(), slice.end.clone());
                update.range_tombstones.push(RangeTombstone { start, end, deletion });
            }
        }
        Ok(())
    }

    fn write_rows(
        &self,
        update: &mut PartitionUpdate,
        slices: &[ClusteringSlice],
        context: &WriteContext<'_>,
        current: CurrentRows<'_>,
    ) -> Result<()> {
        let static_row = Row::empty(Clustering::empty());
        let static_row = self.apply_operations(true, static_row, &update.key, context, current)?;
        let checks = self.checks.as_ref().filter(|_| self.kind != ModificationKind::Delete);
        if let Some(checks) = checks {
            checks.check_row(&static_row)?;
        }
        if !static_row.is_empty() {
            update.static_row = Some(static_row);
        }
        let static_only = self.is_static_only() && self.restrictions.clustering.is_empty();
        if static_only && !self.table.clustering_columns().is_empty() {
            return Ok(());
        }
        for slice in slices {
            let mut row = Row::empty(clustering_of(slice)?);
            if self.writes_liveness() {
                row.liveness = context.times.liveness();
            }
            let row = self.apply_operations(false, row, &update.key, context, current)?;
            if let Some(checks) = checks {
                checks.check_row(&row)?;
            }
            if !row.is_empty() {
                update.rows.push(row);
            }
        }
        Ok(())
    }

    /// Applies the operations on static columns (`is_static`), or the operations on other columns,
    /// to a row.
    fn apply_operations(
        &self,
        is_static: bool,
        row: Row,
        key: &DecoratedKey,
        context: &WriteContext<'_>,
        current: CurrentRows<'_>,
    ) -> Result<Row> {
        let read = || current(key, (!is_static).then_some(&row.clustering));
        let stored = if self.reads(is_static) { read() } else { None };
        let mut row = RowWriter::new(&self.table, row, stored, context.times.now_s);
        for operation in self.operations.iter().filter(|it| it.is_static() == is_static) {
            operation.apply(context, &mut row)?;
        }
        Ok(row.into_row())
    }

    /// Returns the TTL in seconds and the second of the expiry; 0 and [`NO_DELETION_TIME`] without
    /// a TTL.
    #[inline]
    fn expiry(&self, evaluation: &Evaluation<'_>, now_s: u32) -> Result<(u32, u32)> {
        let default = self.table.options.default_time_to_live;
        if default == 0 && self.time_to_live.is_none() {
            return Ok((0, NO_DELETION_TIME));
        }
        let ttl = match &self.time_to_live {
            None => default,
            Some(term) => match term.evaluate(evaluation)? {
                Bound::Unset => default,
                Bound::Null => 0,
                Bound::Value(bytes) => {
                    let ttl =
                        <[u8; 4]>::try_from(bytes.as_ref()).map(i32::from_be_bytes).unwrap_or(0);
                    u32::try_from(ttl).map_err(|_| {
                        Error::invalid(format!(
                            "A TTL must be greater or equal to 0, but was {ttl}"
                        ))
                    })?
                }
            },
        };
        let maximum = espalier_mutation::MAX_TTL_SECONDS;
        if ttl > maximum {
            return Err(Error::invalid(format!(
                "ttl is too large. requested ({ttl}) maximum ({maximum})"
            )));
        }
        if ttl == 0 || self.kind == ModificationKind::Delete {
            return Ok((0, NO_DELETION_TIME));
        }
        // Later expiries are cut to the latest that version `da` of the files can hold: February
        // 2106.
        Ok((ttl, now_s.saturating_add(ttl).min(NO_DELETION_TIME - 2)))
    }
}

/// Evaluates a timestamp in µs. Returns `default_us` if it is unset.
///
/// # Errors
/// The timestamp is null, is the least `bigint` or does not have 8 bytes, or the term has no value
/// ([`Term::evaluate`]).
pub fn evaluate_timestamp(
    term: &Term,
    evaluation: &Evaluation<'_>,
    default_us: i64,
) -> Result<i64> {
    match term.evaluate(evaluation)? {
        Bound::Unset => Ok(default_us),
        Bound::Null => Err(Error::invalid("Invalid null value of timestamp")),
        Bound::Value(bytes) => match <[u8; 8]>::try_from(bytes.as_ref()).map(i64::from_be_bytes) {
            Ok(i64::MIN) => Err(Error::invalid(
                "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]",
            )),
            Ok(timestamp) => Ok(timestamp),
            Err(_) => Err(Error::invalid("Invalid timestamp value: a bigint has 8 bytes")),
        },
    }
}

/// Returns the clustering of the only row that a slice selects. Refuses a clustering of more than
/// 65,535 bytes in total, which is also the limit of a partition key.
fn clustering_of(slice: &ClusteringSlice) -> Result<Clustering> {
    let values = &slice.start.values;
    check_key_length(values.iter().flatten().map(|value| value.len()).sum())?;
    Ok(Clustering { values: values.clone() })
}
