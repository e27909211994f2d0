//! References of a transaction to the rows that its `LET`s read: `x.column`, `x.column[key]`,
//! `x.column.field`.
//!
//! The statements of a transaction share a list of references. An execution reads the rows,
//! computes the values of all references, and then evaluates the terms.

use std::sync::Arc;

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use super::{Assignable, Preparation, Term, is_assignable, prepare_term};
use crate::{
    Error, Result,
    current_row::{CurrentRow, FrozenColumns},
    grammar::ast::{Expression, ExpressionKind, Name},
    metadata::ColumnSpec,
    restrictions::{element_in, field_in},
    term::Evaluation,
};

/// The rows that terms may refer to, and the references that were found.
#[derive(Debug, Default)]
pub struct References {
    /// The rows, in the order of their `LET`s.
    pub rows: Vec<ReferredRow>,
    /// The references. [`Term::Reference`] is an index into this list.
    pub found: Vec<Reference>,
}

/// A row that a `LET` reads.
#[derive(Clone, Debug)]
pub struct ReferredRow {
    /// The name of the row.
    pub name: String,
    /// Its table.
    pub table: Arc<TableMetadata>,
    /// The names of the columns that the `LET` selects.
    pub columns: Vec<String>,
}

/// A reference to a value of a row.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The index of the row.
    pub row: usize,
    /// The column.
    pub column: ColumnDefinition,
    /// The part of its value.
    pub part: Part,
    /// The type of the value.
    pub value_type: CqlType,
    /// The reference as written, which names the column of an answer.
    pub text: String,
}

/// The part of a column's value.
#[derive(Clone, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// An element of a collection.
    Element(Term),
    /// A field of a UDT, by its index.
    Field(usize),
}

impl Reference {
    /// Returns the value in the row. `frozen` is the same for all references to the row, so that
    /// they share the value of a multi-cell column.
    ///
    /// # Errors
    /// The key of an element is null or has no value, or the stored collection or UDT is malformed.
    pub fn value(
        &self,
        row: &CurrentRow<'_>,
        frozen: &mut FrozenColumns,
        evaluation: &Evaluation<'_>,
    ) -> Result<Option<Bytes>> {
        match &self.part {
            Part::Whole => Ok(frozen.value(row, &self.column)),
            _ if row.plain_value(&self.column) == Some(None) => Ok(None),
            Part::Element(key) => {
                let key = key.evaluate(evaluation)?.required(&self.text)?;
                let null = || Error::invalid(format!("Invalid null key in {}", self.text));
                let key = key.ok_or_else(null)?;
                element_in(row, &self.column, &key)
            }
            Part::Field(index) => {
                let malformed = |error| Error::invalid(format!("{}: {error}", self.text));
                field_in(row, &self.column, *index).map_err(malformed)
            }
        }
    }
}

impl Preparation<'_> {
    /// Finds the row of a name.
    ///
    /// # Errors
    /// No `LET` has that name.
    pub fn referred_row(&self, name: &Name<'_>) -> Result<usize> {
        let rows = self.references.iter().flat_map(|references| &references.rows);
        let index = rows.into_iter().position(|row| row.name == name.as_str());
        index.ok_or_else(|| {
            self.invalid(name.position, format!("Cannot resolve reference to tuple '{name}'."))
        })
    }

    /// Prepares a reference, and returns its index. Returns `None` if the expression is not a
    /// reference, or outside a transaction.
    ///
    /// # Errors
    /// No `LET` has the name or selects the column, the column has no such field or no elements,
    /// the key does not fit, or there are too many references.
    pub fn reference(&mut self, expression: &Expression<'_>) -> Result<Option<u16>> {
        if self.references.is_none() {
            return Ok(None);
        }
        let whole = row_and_column(expression);
        let (base, part) = match &expression.kind {
            ExpressionKind::Field(inner, _) | ExpressionKind::Element(inner, _)
                if whole.is_none() =>
            {
                (row_and_column(inner), Some(&expression.kind))
            }
            _ => (whole, None),
        };
        let Some((name, column)) = base else { return Ok(None) };
        let row = self.referred_row(name)?;
        let mut rows = self.references.iter().flat_map(|references| &references.rows);
        let found = rows.nth(row).and_then(|row| {
            let is_selected = row.columns.iter().any(|selected| selected == column.as_str());
            row.table.column(column.as_str()).filter(|_| is_selected).cloned()
        });
        let missing = || format!("Column '{column}' does not exist in tuple '{name}'.");
        let found = found.ok_or_else(|| self.invalid(column.position, missing()))?;
        let (part, value_type) = self.part(&found, part)?;
        let text = expression.to_string();
        let reference = Reference { row, column: found, part, value_type, text };
        let Some(references) = &mut self.references else { return Ok(None) };
        references.found.push(reference);
        u16::try_from(references.found.len() - 1)
            .map(Some)
            .map_err(|_| Error::invalid("Too many references: at most 65535"))
    }

    fn part(
        &mut self,
        column: &ColumnDefinition,
        part: Option<&ExpressionKind<'_>>,
    ) -> Result<(Part, CqlType)> {
        let name = &column.name;
        match part {
            Some(ExpressionKind::Element(_, key)) => {
                let (label, key_type, value_type) = match &column.column_type {
                    CqlType::Map { key, value, .. } => ("key", key.as_ref(), value),
                    CqlType::List { element, .. } => ("idx", &CqlType::Int, element),
                    CqlType::Set { element, .. } => ("value", element.as_ref(), element),
                    other => {
                        let kind = other.cql_name();
                        return Err(Error::invalid(format!(
                            "Element selection not supported for column {name} of type {kind}"
                        )));
                    }
                };
                let receiver = self.receiver(&format!("{label}({name})"), key_type);
                let key = prepare_term(self, key, &receiver)?;
                Ok((Part::Element(key), value_type.as_ref().clone()))
            }
            Some(ExpressionKind::Field(_, field)) => {
                let CqlType::UserDefined { definition, .. } = &column.column_type else {
                    let message = format!("Column {name} is no user-defined type: {field}");
                    return Err(self.invalid(field.position, message));
                };
                let Some((index, field_type)) = definition.field(field.as_str()) else {
                    let message = format!("Unknown field {field} for column {name}");
                    return Err(self.invalid(field.position, message));
                };
                Ok((Part::Field(index), field_type.clone()))
            }
            _ => Ok((Part::Whole, column.column_type.clone())),
        }
    }
}

/// Returns the names of the row and the column in `row.column`.
fn row_and_column<'e, 'a>(expression: &'e Expression<'a>) -> Option<(&'e Name<'a>, &'e Name<'a>)> {
    let ExpressionKind::Field(row, column) = &expression.kind else { return None };
    match &row.kind {
        ExpressionKind::Column(row) => Some((row, column)),
        _ => None,
    }
}

/// Prepares a reference as a value of `receiver`'s type. Returns `None` if the expression is no
/// reference.
///
/// # Errors
/// As [`Preparation::reference`], or the types do not fit.
pub(super) fn prepare_reference(
    preparation: &mut Preparation<'_>,
    expression: &Expression<'_>,
    receiver: &ColumnSpec,
) -> Result<Option<Term>> {
    let Some(index) = preparation.reference(expression)? else { return Ok(None) };
    let references = preparation.references.as_ref();
    let found = references.and_then(|references| references.found.get(usize::from(index)));
    if let Some(reference) = found
        && is_assignable(&reference.value_type, &receiver.column_type) == Assignable::No
    {
        let (from, to) = (reference.value_type.cql_name(), receiver.column_type.cql_name());
        let message = format!(
            "Invalid reference type {from} ({}) for \"{}\" of type {to}",
            reference.column.name, receiver.name
        );
        return Err(preparation.invalid(expression.position, message));
    }
    Ok(Some(Term::Reference(index)))
}
