//! Typed selectors, and their evaluation for a row or a group of rows.

use std::cell::RefCell;

use bytes::Bytes;
use espalier_mutation::{Cell, ColumnData, ComplexColumn, schema::ColumnDefinition};
use espalier_types::{CqlType, collection};

use crate::{
    Error, Result,
    current_row::{CurrentRow, FrozenColumns, collapse_cells},
    functions::{
        ResolvedFunction,
        aggregate::{AggregateFunction, State},
        charge_bytes,
    },
    grammar::ast::CellMetadata,
    restrictions::{cell_at, cells_between, element, element_in, field_in},
    term::{Evaluation, Term},
};

/// A selector with resolved names and types.
#[derive(Clone, Debug)]
pub enum SelectExpression {
    /// A column.
    Column(ColumnDefinition),
    /// A term, which does not depend on the row.
    Term(Term),
    /// A function applied to expressions.
    Call(Box<ResolvedFunction>, Vec<SelectExpression>),
    /// A literal of a collection, tuple or UDT with this type. The expressions are its parts in the
    /// order of [`build_literal`](crate::term::build_literal): in a map, each key before its value.
    Composite(CqlType, Vec<SelectExpression>),
    /// An aggregate over the rows of a group: its index among the statement's aggregates, its
    /// function and its argument.
    Aggregate(usize, AggregateFunction, Option<Box<SelectExpression>>),
    /// `writetime(c)`, `maxwritetime(c)` or `ttl(c)`.
    Metadata(CellMetadata, ColumnDefinition, MetadataPart),
    /// `u.field`: the UDT and the index of its field.
    Field(Box<SelectExpression>, usize),
    /// `c[key]`: the collection, its type and the key.
    Element(Box<SelectExpression>, CqlType, Box<SelectExpression>),
    /// `c[from..to]`: the set or map, its type and the bounds. An absent bound is `None`.
    Slice(Box<SelectExpression>, CqlType, Option<Term>, Option<Term>),
}

/// The cells of a column that `writetime`, `maxwritetime` and `ttl` read.
#[derive(Clone, Debug)]
pub enum MetadataPart {
    /// All cells. For a column of several cells, the result is a list, or for `maxwritetime` the
    /// greatest write time.
    Whole,
    /// The cell with this path: one element or field of the column.
    Path(Term),
    /// The cells with paths between these bounds, which may be absent.
    Range(Option<Term>, Option<Term>),
    /// The cell of a frozen column, if this part of its value is not null.
    OfFrozen(Box<SelectExpression>),
}

/// The inputs of an evaluation.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    /// The row, or the first row of a group.
    pub row: CurrentRow<'a>,
    /// The frozen values of the row and its partition.
    pub frozen: &'a RefCell<FrozenColumns>,
    /// The bound values, and the time for `now()` and similar functions.
    pub evaluation: &'a Evaluation<'a>,
    /// The time from which `ttl()` counts, in seconds since 1970.
    pub now_s: u32,
    /// The results of the aggregates by index; empty until the group is complete.
    pub aggregates: &'a [Option<Bytes>],
}

impl SelectExpression {
    /// Computes the value; `None` is null.
    ///
    /// # Errors
    /// A term has no value ([`Term::evaluate`]), a function fails, a stored value is malformed, or
    /// the row computes too much ([`charge_bytes`]).
    pub fn value(&self, context: &RowContext<'_>) -> Result<Option<Bytes>> {
        match self {
            Self::Column(column) => Ok(context.frozen.borrow_mut().value(&context.row, column)),
            Self::Term(term) => term.evaluate(context.evaluation)?.required("a selector"),
            Self::Call(function, arguments) => {
                let value_of = |argument: &Self| match argument {
                    Self::Term(term) => {
                        term.evaluate(context.evaluation)?.required_argument(&function.name)
                    }
                    _ => argument.value(context),
                };
                let values = arguments.iter().map(value_of).collect::<Result<Vec<_>>>()?;
                function.call(&values, context.evaluation)
            }
            Self::Composite(column_type, parts) => {
                let values =
                    parts.iter().map(|part| part.value(context)).collect::<Result<Vec<_>>>()?;
                if let CqlType::List { .. } = column_type {
                    // Unlike a stored list, a selected list may have nulls.
                    charge_bytes(values.iter().flatten().map(Bytes::len).sum())?;
                    let mut list = collection::Builder::default();
                    values.iter().for_each(|value| list.push(value.as_deref()));
                    return Ok(Some(list.finish()));
                }
                crate::term::build_literal(column_type, values).map(Some)
            }
            Self::Aggregate(number, ..) => Ok(context.aggregates.get(*number).cloned().flatten()),
            Self::Metadata(metadata, column, part) => {
                metadata_value(*metadata, column, part, context)
            }
            Self::Field(inner, index) => {
                if let Self::Column(column) = &**inner {
                    return field_in(&context.row, column, *index).map_err(malformed);
                }
                let Some(value) = inner.value(context)? else { return Ok(None) };
                let field = collection::fields(&value)
                    .nth(*index)
                    .transpose()
                    .map_err(malformed)?
                    .flatten();
                Ok(field.map(|field| value.slice_ref(field)))
            }
            Self::Element(inner, column_type, key) => {
                if let Some((column, _)) = inner.cells(context) {
                    let Some(key) = key.value(context)? else { return Ok(None) };
                    return element_in(&context.row, column, &key);
                }
                let (Some(value), Some(key)) = (inner.value(context)?, key.value(context)?) else {
                    return Ok(None);
                };
                let (_, element) = element(column_type, &value, &key)?;
                charge_bytes(element.as_ref().map_or(value.len(), |it| end_in(&value, it)))?;
                Ok(element)
            }
            Self::Slice(inner, column_type, from, to) => {
                let (from, to) = (slice_bound(from, context)?, slice_bound(to, context)?);
                let bounds = [from.as_deref(), to.as_deref()];
                if let Some((column, complex)) = inner.cells(context) {
                    let cells = cells_between(&context.row, column, complex, bounds);
                    return Ok(collapse_cells(column_type, cells));
                }
                let Some(value) = inner.value(context)? else { return Ok(None) };
                charge_bytes(value.len())?;
                slice(column_type, &value, bounds)
            }
        }
    }

    /// Returns the cells of the expression if it is a multi-cell column, so that the caller can
    /// find some of them without a copy of the others.
    fn cells<'c>(
        &'c self,
        context: &RowContext<'c>,
    ) -> Option<(&'c ColumnDefinition, &'c ComplexColumn)> {
        let Self::Column(column) = self else { return None };
        match context.row.data(column)? {
            ColumnData::Complex(complex) => Some((column, complex)),
            ColumnData::Simple(_) => None,
        }
    }

    /// Calls `visit` with the expression and with each expression inside it.
    fn walk<'e>(&'e self, visit: &mut impl FnMut(&'e Self)) {
        visit(self);
        match self {
            Self::Call(_, parts) | Self::Composite(_, parts) => {
                parts.iter().for_each(|part| part.walk(visit));
            }
            Self::Aggregate(_, _, Some(inner)) | Self::Field(inner, _) | Self::Slice(inner, ..) => {
                inner.walk(visit);
            }
            Self::Element(inner, _, key) => {
                inner.walk(visit);
                key.walk(visit);
            }
            Self::Column(_) | Self::Term(_) | Self::Aggregate(_, _, None) | Self::Metadata(..) => {}
        }
    }

    /// Returns whether the value is the same for all rows.
    pub fn is_constant(&self) -> bool {
        let mut is_constant = true;
        self.walk(&mut |part| {
            is_constant &= match part {
                Self::Column(_) | Self::Aggregate(..) | Self::Metadata(..) => false,
                Self::Call(function, _) => function.is_pure,
                _ => true,
            };
        });
        is_constant
    }

    /// Returns whether the expression reads the write time or TTL of cells.
    pub fn reads_metadata(&self) -> bool {
        let mut is_found = false;
        self.walk(&mut |part| is_found |= matches!(part, Self::Metadata(..)));
        is_found
    }

    /// Calls `visit` with every column that the expression reads.
    pub fn for_each_column(&self, visit: &mut dyn FnMut(&ColumnDefinition)) {
        self.walk(&mut |part| {
            if let Self::Column(column) | Self::Metadata(_, column, _) = part {
                visit(column);
            }
        });
    }
}

/// The states of a statement's aggregates within one group.
pub struct Aggregation<'s> {
    parts: Vec<(&'s AggregateFunction, Option<&'s SelectExpression>, State)>,
}

impl<'s> Aggregation<'s> {
    /// Creates the initial states of all aggregates in the selectors.
    pub fn new(selectors: &'s [SelectExpression]) -> Self {
        let mut found = Vec::new();
        for selector in selectors {
            selector.walk(&mut |part| {
                if let SelectExpression::Aggregate(number, function, argument) = part {
                    found.push((*number, function, argument.as_deref()));
                }
            });
        }
        found.sort_by_key(|(number, ..)| *number);
        let parts = found
            .into_iter()
            .map(|(_, function, argument)| (function, argument, function.start()))
            .collect();
        Self { parts }
    }

    /// Adds a row to each aggregate.
    ///
    /// # Errors
    /// As [`SelectExpression::value`] and [`AggregateFunction::add`].
    pub fn add(&mut self, context: &RowContext<'_>) -> Result<()> {
        for (function, argument, state) in &mut self.parts {
            let plain = match argument {
                None => Some(None),
                Some(SelectExpression::Column(column)) => context.row.plain_value(column),
                Some(_) => None,
            };
            match (plain, argument) {
                (Some(value), _) => function.add(state, value)?,
                (None, Some(argument)) => {
                    function.add(state, argument.value(context)?.as_deref())?
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Returns the results by the index of the aggregate.
    ///
    /// # Errors
    /// As [`AggregateFunction::finish`].
    pub fn finish(self) -> Result<Vec<Option<Bytes>>> {
        self.parts.into_iter().map(|(function, _, state)| function.finish(state)).collect()
    }
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::new(crate::ErrorCode::ServerError, format!("a stored value is malformed: {error}"))
}

/// Returns the number of bytes of `value` up to the end of `part`, which is a slice of it.
fn end_in(value: &Bytes, part: &Bytes) -> usize {
    let start = (part.as_ptr() as usize).saturating_sub(value.as_ptr() as usize);
    (start + part.len()).min(value.len())
}

fn metadata_value(
    metadata: CellMetadata,
    column: &ColumnDefinition,
    part: &MetadataPart,
    context: &RowContext<'_>,
) -> Result<Option<Bytes>> {
    let of_cell = |cell: &Cell| match metadata {
        CellMetadata::WriteTime | CellMetadata::MaximumWriteTime => {
            Some(Bytes::copy_from_slice(&cell.timestamp.to_be_bytes()))
        }
        CellMetadata::TimeToLive => cell.is_expiring().then(|| {
            let left = cell.local_deletion_time.saturating_sub(context.now_s);
            Bytes::copy_from_slice(&left.to_be_bytes())
        }),
    };
    let Some(data) = context.row.data(column) else { return Ok(None) };
    match (data, part) {
        (ColumnData::Simple(cell), MetadataPart::OfFrozen(part)) => {
            // A slice without elements is an empty collection, which counts as null here.
            let is_slice = matches!(**part, SelectExpression::Slice(..));
            let is_there = |value: &Bytes| !is_slice || value.iter().any(|byte| *byte != 0);
            Ok(part.value(context)?.filter(is_there).and_then(|_| of_cell(cell)))
        }
        (ColumnData::Simple(cell), _) => Ok(of_cell(cell)),
        (ColumnData::Complex(_), MetadataPart::OfFrozen(_)) => Ok(None),
        (ColumnData::Complex(complex), MetadataPart::Path(term)) => {
            let Some(path) = term.evaluate(context.evaluation)?.required("an element")? else {
                return Ok(None);
            };
            let found = cell_at(&context.row, column, complex, &path);
            Ok(found.and_then(|(_, cell)| of_cell(cell)))
        }
        (ColumnData::Complex(complex), MetadataPart::Whole | MetadataPart::Range(..)) => {
            let cells = if let MetadataPart::Range(from, to) = part {
                let (from, to) = (slice_bound(from, context)?, slice_bound(to, context)?);
                let bounds = [from.as_deref(), to.as_deref()];
                cells_between(&context.row, column, complex, bounds)
            } else {
                complex.cells.as_slice()
            };
            charge_bytes(cells.len() * LISTED_BYTES)?;
            if metadata == CellMetadata::MaximumWriteTime {
                let latest = cells.iter().max_by_key(|(_, cell)| cell.timestamp);
                return Ok(latest.and_then(|(_, cell)| of_cell(cell)));
            }
            if let CqlType::UserDefined { definition, .. } = &column.column_type {
                // The list has an entry for each field of the type, so that clients find a field's
                // entry by its index. The entry of a null field is null.
                let mut fields = vec![None; definition.fields.len()];
                for (path, cell) in cells {
                    let index = <[u8; 2]>::try_from(path.as_ref()).map(u16::from_be_bytes);
                    if let Some(field) =
                        index.ok().and_then(|index| fields.get_mut(usize::from(index)))
                    {
                        *field = of_cell(cell);
                    }
                }
                return Ok(Some(nullable_list(&fields)));
            }
            let parts: Vec<Option<Bytes>> = cells.iter().map(|(_, cell)| of_cell(cell)).collect();
            let is_null = parts.is_empty() && matches!(part, MetadataPart::Range(..));
            Ok((!is_null).then(|| nullable_list(&parts)))
        }
    }
}

/// Evaluates a bound of a slice; `None` is no bound.
fn slice_bound(term: &Option<Term>, context: &RowContext<'_>) -> Result<Option<Bytes>> {
    match term {
        Some(term) => term.evaluate(context.evaluation)?.required("a slice bound"),
        None => Ok(None),
    }
}

fn nullable_list(parts: &[Option<Bytes>]) -> Bytes {
    let mut list = Vec::with_capacity(4 + parts.len() * LISTED_BYTES);
    list.extend_from_slice(&(parts.len() as u32).to_be_bytes());
    for part in parts {
        collection::write_value(part.as_deref(), &mut list);
    }
    list.into()
}

/// Bytes of a write time in a list, with its length.
const LISTED_BYTES: usize = 12;

/// Returns the part of a set or map between two bounds. If no element is inside, the part is null,
/// or an empty collection if the type is frozen, as in Cassandra.
fn slice(
    column_type: &CqlType,
    value: &Bytes,
    [from, to]: [Option<&[u8]>; 2],
) -> Result<Option<Bytes>> {
    let inside = |key_type: &CqlType, key: &[u8]| {
        from.is_none_or(|from| key_type.compare(key, from).is_ge())
            && to.is_none_or(|to| key_type.compare(key, to).is_le())
    };
    match column_type {
        CqlType::Set { element, frozen } => {
            let mut kept = Vec::new();
            for candidate in collection::elements(value).map_err(malformed)? {
                kept.extend(
                    candidate.map_err(malformed)?.filter(|candidate| inside(element, candidate)),
                );
            }
            Ok((*frozen || !kept.is_empty()).then(|| collection::list_of(kept)))
        }
        CqlType::Map { key, frozen, .. } => {
            let mut kept = Vec::new();
            for entry in collection::entries(value).map_err(malformed)? {
                let (k, v) = entry.map_err(malformed)?;
                if inside(key, k) {
                    kept.push((k, v));
                }
            }
            Ok((*frozen || !kept.is_empty()).then(|| collection::map_of(kept)))
        }
        other => Err(Error::invalid(format!("Slices of {} are not supported", other.cql_name()))),
    }
}
