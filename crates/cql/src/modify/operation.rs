//! Operations: the change that a statement makes to one column.

use bytes::Bytes;
use espalier_mutation::{
    Cell, CellRef, ColumnData, DeletionTime, Liveness, counter,
    schema::{ColumnDefinition, ColumnKind},
};
use espalier_types::{CqlType, collection};

use super::{list_path, row_writer::RowWriter};
use crate::{
    Error, Result,
    functions::ResolvedFunction,
    term::{Bound, Evaluation, Term},
};

/// The change that a statement makes to a column.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The column.
    pub column: ColumnDefinition,
    /// The change.
    pub change: Change,
}

/// The change of a column. Collections and UDTs in these variants are multi-cell; frozen ones are
/// plain values.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets a plain value; null deletes the value.
    Set(Term),
    /// Replaces a whole collection or UDT. A deletion with the statement's timestamp less one
    /// removes the former value, also if the new value is null or empty. Elements with the
    /// statement's own timestamp stay.
    Replace(Term),
    /// Adds elements: list append, set or map union.
    Add(Term),
    /// Prepends elements to a list.
    Prepend(Term),
    /// Removes elements of a set, keys of a map, or elements of a list by value.
    Remove(Term),
    /// `m[key] = value`, `l[index] = value`; a null value deletes the element.
    SetElement(Term, Term),
    /// `u.field = value`; a null value deletes the field.
    SetField(u16, Term),
    /// Deletes the whole column, with the statement's own timestamp.
    Delete,
    /// `DELETE m[key]`, `s[element]`, `l[index]`.
    DeleteElement(Term),
    /// Applies the function (`+` or `-`) to the column and the term. A null column stays null.
    Increase(Box<ResolvedFunction>, Term),
    /// Changes a counter by a term, or by its negation if the flag is set.
    Count(Term, bool),
}

impl Change {
    /// Returns the change that gives a column a new value.
    pub fn of_whole(column: &ColumnDefinition, value: Term) -> Self {
        if column.is_complex() { Self::Replace(value) } else { Self::Set(value) }
    }
}

/// The times of the cells that a statement writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteTimes {
    /// Write timestamp in µs.
    pub timestamp: i64,
    /// Time to live in seconds, or 0.
    pub ttl: u32,
    /// Second of expiry; [`espalier_mutation::NO_DELETION_TIME`] without a ttl.
    pub expiry: u32,
    /// Local deletion time of tombstones, in seconds since 1970.
    pub now_s: u32,
}

impl WriteTimes {
    /// Returns the liveness of an inserted row.
    #[inline]
    pub fn liveness(&self) -> Liveness {
        Liveness { timestamp: self.timestamp, ttl: self.ttl, local_expiration: self.expiry }
    }

    /// Returns the deletion time of a deletion.
    #[inline]
    pub fn deletion(&self) -> DeletionTime {
        DeletionTime::new(self.timestamp, self.now_s)
    }

    /// Returns a cell with a value.
    #[inline]
    pub fn cell<'v>(&self, value: &'v [u8]) -> CellRef<'v> {
        let (timestamp, ttl) = (self.timestamp, self.ttl);
        CellRef { timestamp, ttl, local_deletion_time: self.expiry, value }
    }

    /// Returns a cell tombstone.
    #[inline]
    pub fn tombstone(&self) -> CellRef<'static> {
        let (timestamp, local_deletion_time) = (self.timestamp, self.now_s);
        CellRef { timestamp, ttl: 0, local_deletion_time, value: &[] }
    }
}

/// The input of [`Operation::apply`].
#[derive(Clone, Copy, Debug)]
pub struct WriteContext<'a> {
    /// Bound values and clock.
    pub evaluation: &'a Evaluation<'a>,
    /// The times of the cells.
    pub times: WriteTimes,
}

impl WriteContext<'_> {
    fn cell(&self, value: Bytes) -> Cell {
        let CellRef { timestamp, ttl, local_deletion_time, .. } = self.times.cell(&value);
        Cell { timestamp, ttl, local_deletion_time, value }
    }

    fn tombstone(&self) -> Cell {
        Cell::tombstone(self.times.timestamp, self.times.now_s)
    }

    /// Returns the cell that a bound value sets: a tombstone for null, `None` for an unset value.
    #[inline]
    fn bound_cell(&self, bound: Bound) -> Option<Cell> {
        match bound {
            Bound::Unset => None,
            Bound::Null => Some(self.tombstone()),
            Bound::Value(value) => Some(self.cell(value)),
        }
    }

    /// Returns a deletion of all cells with earlier timestamps than the statement's. The
    /// statement's own cells stay visible.
    fn deletion_before(&self) -> DeletionTime {
        DeletionTime::new(self.times.timestamp.saturating_sub(1), self.times.now_s)
    }
}

impl Operation {
    /// Returns whether the operation changes a static column.
    pub fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }

    /// Returns whether the operation depends on the stored row.
    pub fn needs_read(&self) -> bool {
        match self.change {
            Change::Remove(_) | Change::SetElement(..) | Change::DeleteElement(_) => {
                matches!(self.column.column_type, CqlType::List { .. })
            }
            Change::Increase(..) => true,
            _ => false,
        }
    }

    /// Writes the change into `row`.
    ///
    /// # Errors
    /// A term has no value ([`Term::evaluate`]), a collection is malformed, an increment is null,
    /// malformed or out of range, a key or an index is null or unset (an unset one deletes nothing
    /// from a list or set), a list has no element with the index, or a function fails.
    pub fn apply(&self, context: &WriteContext<'_>, row: &mut RowWriter<'_>) -> Result<()> {
        let evaluate = |term: &Term| term.evaluate(context.evaluation);
        let column = &self.column;
        match &self.change {
            Change::Set(term) => {
                if let Some(cell) = context.bound_cell(evaluate(term)?) {
                    row.set(column, cell);
                }
            }
            Change::Replace(term) => replace(context, column, row, evaluate(term)?)?,
            Change::Add(term) => {
                if let Bound::Value(value) = evaluate(term)? {
                    add(context, column, row, &value)?;
                }
            }
            Change::Prepend(term) => {
                if let Bound::Value(value) = evaluate(term)? {
                    prepend(context, column, row, &value)?;
                }
            }
            Change::Remove(term) => {
                if let Bound::Value(value) = evaluate(term)? {
                    let paths = removed_paths(column, &value, row)?;
                    let cells = paths.into_iter().map(|path| (path, context.tombstone())).collect();
                    row.put_all(column, cells);
                }
            }
            Change::SetElement(key, term) => {
                let path = element_path(column, evaluate(key)?, row, true)?;
                if let Some(cell) = context.bound_cell(evaluate(term)?) {
                    row.put(column, path, cell);
                }
            }
            Change::SetField(index, term) => {
                let Some(cell) = context.bound_cell(evaluate(term)?) else { return Ok(()) };
                let path = Bytes::copy_from_slice(&index.to_be_bytes());
                row.put(column, path, cell);
            }
            Change::Delete if column.is_complex() => {
                row.delete_elements(column, context.times.deletion());
            }
            Change::Delete => row.set(column, context.tombstone()),
            Change::DeleteElement(key) => {
                let key = evaluate(key)?;
                if key == Bound::Unset && !matches!(column.column_type, CqlType::Map { .. }) {
                    return Ok(());
                }
                let path = element_path(column, key, row, false)?;
                row.put(column, path, context.tombstone());
            }
            Change::Increase(add, term) => match evaluate(term)? {
                Bound::Unset => {}
                Bound::Null => return Err(null_increment(column)),
                Bound::Value(value) => increase(context, column, row, add, value)?,
            },
            Change::Count(term, negated) => match evaluate(term)? {
                Bound::Unset => {}
                Bound::Null => return Err(null_counter()),
                Bound::Value(value) => {
                    count(context, column, row, counter_delta(&value, *negated)?);
                }
            },
        }
        Ok(())
    }
}

fn replace(
    context: &WriteContext<'_>,
    column: &ColumnDefinition,
    row: &mut RowWriter<'_>,
    bound: Bound,
) -> Result<()> {
    if let Bound::Unset = bound {
        return Ok(());
    }
    row.delete_elements(column, context.deletion_before());
    match bound {
        Bound::Value(value) => add(context, column, row, &value),
        Bound::Null | Bound::Unset => Ok(()),
    }
}

fn prepend(
    context: &WriteContext<'_>,
    column: &ColumnDefinition,
    row: &mut RowWriter<'_>,
    value: &Bytes,
) -> Result<()> {
    let elements = elements(value)?;
    let path = || list_path::prepend(context.evaluation.now_us);
    let cells = elements.into_iter().rev();
    let cells = cells.map(|element| (path(), context.cell(element))).collect();
    row.put_all(column, cells);
    Ok(())
}

/// Returns the paths of the elements to remove: the elements of a set, the keys of a map, and for a
/// list the paths of the stored cells that have one of the values.
fn removed_paths(
    column: &ColumnDefinition,
    value: &Bytes,
    row: &RowWriter<'_>,
) -> Result<Vec<Bytes>> {
    let mut removed = elements(value)?;
    let CqlType::List { element, .. } = &column.column_type else { return Ok(removed) };
    removed.sort_by(|left, right| element.compare(left, right));
    let is_removed = |value: &Bytes| removed.binary_search_by(|r| element.compare(r, value));
    Ok(row
        .elements(column)
        .iter()
        .filter(|(_, cell)| is_removed(&cell.value).is_ok())
        .map(|(path, _)| path.clone())
        .collect())
}

fn null_counter() -> Error {
    Error::invalid("Invalid null value for counter increment/decrement")
}

fn null_increment(column: &ColumnDefinition) -> Error {
    Error::invalid(format!("Invalid null value for increment of column {}", column.name))
}

/// Returns the change of a counter.
#[inline]
fn counter_delta(value: &Bytes, negated: bool) -> Result<i64> {
    let delta = <[u8; 8]>::try_from(value.as_ref())
        .map(i64::from_be_bytes)
        .map_err(|_| Error::invalid("Invalid value for counter increment: a bigint has 8 bytes"))?;
    if !negated {
        return Ok(delta);
    }
    delta.checked_neg().ok_or_else(|| {
        Error::invalid(format!(
            "The negation of {delta} overflows supported counter precision (signed 8 bytes integer)"
        ))
    })
}

/// Sets a column to the result of `add` (the function `+` or `-`) for the stored value and `value`.
/// A null column stays null.
fn increase(
    context: &WriteContext<'_>,
    column: &ColumnDefinition,
    row: &mut RowWriter<'_>,
    add: &ResolvedFunction,
    value: Bytes,
) -> Result<()> {
    let Some(ColumnData::Simple(former)) = row.present(column) else { return Ok(()) };
    let operands = [Some(former.value.clone()), Some(value)];
    if let Some(sum) = add.call(&operands, context.evaluation)? {
        row.set(column, context.cell(sum));
    }
    Ok(())
}

/// Changes a counter by `delta`, in addition to the earlier changes of the statement.
#[inline]
fn count(
    context: &WriteContext<'_>,
    column: &ColumnDefinition,
    row: &mut RowWriter<'_>,
    delta: i64,
) {
    let delta = match row.written(column) {
        Some(ColumnData::Simple(former)) => delta.wrapping_add(counter::change(&former.value)),
        _ => delta,
    };
    let value = Bytes::copy_from_slice(&delta.to_be_bytes());
    row.set(column, Cell::live(context.times.timestamp, value));
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("Invalid collection value: {error}"))
}

fn elements(value: &Bytes) -> Result<Vec<Bytes>> {
    collection::elements(value)
        .map_err(malformed)?
        .map(|element| match element.map_err(malformed)? {
            Some(element) => Ok(value.slice_ref(element)),
            None => Err(Error::invalid("null is not supported inside collections")),
        })
        .collect()
}

/// Adds all parts of a frozen collection or UDT as cells.
fn add(
    context: &WriteContext<'_>,
    column: &ColumnDefinition,
    row: &mut RowWriter<'_>,
    value: &Bytes,
) -> Result<()> {
    let cells = match &column.column_type {
        CqlType::List { .. } => elements(value)?
            .into_iter()
            .map(|element| (list_path::append(context.evaluation.now_us), context.cell(element)))
            .collect(),
        CqlType::Set { .. } => elements(value)?
            .into_iter()
            .map(|element| (element, context.cell(Bytes::new())))
            .collect(),
        CqlType::Map { .. } => {
            let cell = |entry: Result<(&[u8], &[u8]), _>| {
                let (key, element) = entry.map_err(malformed)?;
                Ok((value.slice_ref(key), context.cell(value.slice_ref(element))))
            };
            collection::entries(value).map_err(malformed)?.map(cell).collect::<Result<_>>()?
        }
        CqlType::UserDefined { .. } => {
            let mut cells = Vec::new();
            for (index, field) in collection::fields(value).enumerate() {
                if let Some(field) = field.map_err(malformed)? {
                    let path = Bytes::copy_from_slice(&(index as u16).to_be_bytes());
                    cells.push((path, context.cell(value.slice_ref(field))));
                }
            }
            cells
        }
        other => return Err(Error::invalid(format!("{} has no elements", other.cql_name()))),
    };
    row.put_all(column, cells);
    Ok(())
}

/// Returns the path of `c[key]`; for a list, the path of the cell at the index.
fn element_path(
    column: &ColumnDefinition,
    key: Bound,
    row: &RowWriter<'_>,
    is_assignment: bool,
) -> Result<Bytes> {
    let what = match column.column_type {
        CqlType::List { .. } => "value for list index",
        CqlType::Set { .. } => "set element",
        _ => "map key",
    };
    let key = match key {
        Bound::Value(key) => key,
        Bound::Null => return Err(Error::invalid(format!("Invalid null {what}"))),
        Bound::Unset => return Err(Error::invalid(format!("Invalid unset {what}"))),
    };
    if !matches!(column.column_type, CqlType::List { .. }) {
        return Ok(key);
    }
    let index = <[u8; 4]>::try_from(key.as_ref()).map(i32::from_be_bytes).unwrap_or(-1);
    let cells = row.elements(column);
    if cells.is_empty() {
        let attempt = if is_assignment { "set an element on" } else { "delete an element from" };
        return Err(Error::invalid(format!("Attempted to {attempt} a list which is null")));
    }
    match usize::try_from(index).ok().and_then(|index| cells.get(index)) {
        Some((path, _)) => Ok(path.clone()),
        None => Err(Error::invalid(format!(
            "List index {index} out of bound, list has size {}",
            cells.len()
        ))),
    }
}
