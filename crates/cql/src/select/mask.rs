//! Adds masks to the selectors of a SELECT, for clients that lack the permission UNMASK.
//!
//! A mask replaces each value of its column before functions, aggregates, elements and JSON read
//! the value. Conditions, the order of rows, and the write time and TTL of a column of one cell
//! come from the stored values, as in Cassandra. The write times and TTLs of a part of a masked
//! column, or of a masked column of many cells, are null here, because they would show which
//! elements the column has.

use espalier_mutation::schema::{ColumnDefinition, Schema, TableMetadata};

use super::{PlannedNearest, SelectExpression, expression::MetadataPart};
use crate::{functions::mask_of_column, grammar::ast::WhereClause, term::Term};

/// Returns the selectors with the masks of masked columns, or `None` if they read no masked column.
pub(super) fn masked(
    schema: &Schema,
    table: &TableMetadata,
    selectors: &[SelectExpression],
) -> Option<Vec<SelectExpression>> {
    let is_masked = |column: &ColumnDefinition| table.mask_of(column).is_some();
    let mut selects_masked = false;
    for selector in selectors {
        selector.for_each_column(&mut |column| selects_masked |= is_masked(column));
    }
    let with_masks = |selector| with_masks(schema, table, selector);
    selects_masked.then(|| selectors.iter().map(with_masks).collect())
}

fn with_masks(
    schema: &Schema,
    table: &TableMetadata,
    expression: &SelectExpression,
) -> SelectExpression {
    use SelectExpression as E;
    let with_masks = |inner: &SelectExpression| with_masks(schema, table, inner);
    let one = |inner: &SelectExpression| Box::new(with_masks(inner));
    let all = |parts: &[SelectExpression]| parts.iter().map(with_masks).collect();
    match expression {
        E::Column(column) => match table.mask_of(column) {
            Some(mask) => {
                let function = mask_of_column(schema, mask, &column.column_type);
                E::Call(Box::new(function), vec![E::Column(column.clone())])
            }
            None => expression.clone(),
        },
        E::Call(function, parts) => E::Call(function.clone(), all(parts)),
        E::Composite(column_type, parts) => E::Composite(column_type.clone(), all(parts)),
        E::Aggregate(number, function, argument) => {
            E::Aggregate(*number, function.clone(), argument.as_deref().map(one))
        }
        E::Field(inner, index) => E::Field(one(inner), *index),
        E::Element(inner, column_type, key) => {
            E::Element(one(inner), column_type.clone(), one(key))
        }
        E::Slice(inner, column_type, from, to) => {
            E::Slice(one(inner), column_type.clone(), from.clone(), to.clone())
        }
        E::Metadata(_, column, part) if shows_elements(table, column, part) => {
            E::Term(Term::Constant(None))
        }
        E::Term(_) | E::Metadata(..) => expression.clone(),
    }
}

/// Returns whether a write time or TTL depends on the elements of a masked column.
fn shows_elements(table: &TableMetadata, column: &ColumnDefinition, part: &MetadataPart) -> bool {
    let is_one_cell = matches!(part, MetadataPart::Whole) && !column.is_complex();
    table.mask_of(column).is_some() && !is_one_cell
}

/// Returns the names of the masked columns that a WHERE clause restricts or that order the rows by
/// similarity, in the order of the table.
pub(super) fn restricted(
    table: &TableMetadata,
    clause: &WhereClause<'_>,
    nearest: Option<&PlannedNearest>,
) -> Vec<String> {
    if !table.has_masks() {
        return Vec::new();
    }
    let is_restricted = |column: &ColumnDefinition| {
        let is_nearest = nearest.is_some_and(|nearest| nearest.column.id == column.id);
        let mut names = clause.relations.iter().flat_map(|relation| relation.target.names());
        is_nearest || names.any(|name| name.as_str() == column.name)
    };
    let masked = table.columns().iter().filter(|column| table.mask_of(column).is_some());
    masked.filter(|column| is_restricted(column)).map(|column| column.name.clone()).collect()
}
