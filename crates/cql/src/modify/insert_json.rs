//! `INSERT INTO t JSON '{...}'`: the statement writes each column of the table. A column that the
//! document omits becomes null. With `DEFAULT UNSET`, such a column keeps its value.
//!
//! The planner parses a literal document, unless the plan must keep an operation for each column
//! that the document leaves unset (`keeps_unset`). Other documents are parsed at each execution.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use crate::{
    Error, Result,
    functions::json::{Document, JsonColumn},
    grammar::ast::Expression,
    prepared::MAX_COLUMNS,
    term::{Bound, Preparation, Term, prepare_term},
};

/// Returns the columns that a literal document sets, with their values. If the document is no
/// literal or `keeps_unset` is true, returns all columns, each with a term that reads the document
/// at execution.
pub(super) fn given_by_document<'t>(
    preparation: &mut Preparation<'_>,
    table: &'t TableMetadata,
    document: &Expression<'_>,
    default_unset: bool,
    keeps_unset: bool,
) -> Result<Vec<(&'t ColumnDefinition, Term)>> {
    let receiver = preparation.receiver("[json]", &CqlType::Text);
    let document = prepare_term(preparation, document, &receiver)?;
    let columns: Arc<[(String, CqlType)]> = table
        .visible_columns()
        .map(|column| (column.name.clone(), column.column_type.clone()))
        .collect();
    let constant = match &document {
        Term::Constant(Some(text)) if !keeps_unset => Some(text),
        _ => None,
    };
    let Some(text) = constant else {
        count_columns(preparation, columns.len())?;
        let of_column = |column: &'t ColumnDefinition| {
            let term = JsonColumn {
                document: document.clone(),
                name: column.name.clone(),
                columns: columns.clone(),
                default_unset,
            };
            (column, Term::JsonColumn(Box::new(term)))
        };
        return Ok(table.visible_columns().map(of_column).collect());
    };
    let document = Document::parse(text, &columns, &mut preparation.fields)?;
    let mut given = Vec::with_capacity(columns.len());
    for column in table.visible_columns() {
        match document.column(&column.name, default_unset) {
            Bound::Value(value) => given.push((column, Term::Constant(Some(value)))),
            Bound::Null => given.push((column, Term::NULL)),
            Bound::Unset if column.is_primary_key() => {
                let name = &column.name;
                return Err(Error::invalid(format!("Invalid unset value for column {name}")));
            }
            Bound::Unset => {}
        }
    }
    count_columns(preparation, given.len())?;
    Ok(given)
}

/// Counts the columns of a document towards [`MAX_COLUMNS`]. A short `INSERT … JSON ?` plans all
/// columns of its table, so without this limit the plan of a batch of 1 MiB could take many GB.
fn count_columns(preparation: &mut Preparation<'_>, columns: usize) -> Result<()> {
    preparation.document_columns += columns;
    if preparation.document_columns <= MAX_COLUMNS {
        return Ok(());
    }
    let message =
        format!("The JSON documents of a statement write more than {MAX_COLUMNS} columns");
    Err(Error::invalid(message))
}
