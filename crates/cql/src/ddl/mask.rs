//! Plans the masks of columns (`MASKED WITH`), and refuses invalid ones, when a table gets them.
//! The error texts are Cassandra's.

use espalier_mutation::schema::{ColumnDefinition, ColumnMask, MaskArgument, TableMetadata};

use super::Context;
use crate::{
    Error, Result,
    functions::{self, Argument, Text, aggregate::AggregateFunction, argument_of},
    grammar::{
        TermText,
        ast::{
            self, BindMarkers, Expression, ExpressionKind, Name, QualifiedName, Statement,
            TableChange,
        },
    },
    term::{Evaluation, Preparation, prepare_term},
};

const DISABLED: &str = "Cannot mask columns because dynamic data masking is not enabled. You can \
                        enable it with the dynamic_data_masking_enabled property on cassandra.yaml";

/// Refuses a mask if dynamic data masking is disabled. As in Cassandra, a mask can always be
/// dropped, and the masks of ALTER TABLE ADD are not checked here.
///
/// # Errors
/// Error 0x2200 with Cassandra's text.
pub(super) fn check_enabled(context: &Context<'_>, statement: &Statement<'_>) -> Result<()> {
    let makes_mask = match statement {
        Statement::CreateTable(create) => create.columns.iter().any(|column| column.mask.is_some()),
        Statement::AlterTable(alter) => {
            matches!(alter.change, TableChange::ColumnMask { mask: Some(_), .. })
        }
        _ => false,
    };
    let is_enabled = context.node.is_none_or(|node| node.features.dynamic_data_masking_enabled);
    if makes_mask && !is_enabled { Err(Error::invalid(DISABLED)) } else { Ok(()) }
}

/// Adds the masks of declared columns to a table.
///
/// # Errors
/// As [`plan`].
pub(super) fn mask_columns<'c>(
    context: &Context<'_>,
    table: TableMetadata,
    columns: impl IntoIterator<Item = &'c ast::ColumnDefinition<'c>>,
) -> Result<TableMetadata> {
    let mut builder = None;
    for declared in columns {
        let column = table.column(declared.name.as_str());
        let (Some(mask), Some(column)) = (&declared.mask, column) else { continue };
        let mask = plan(context, &table, column, mask)?;
        let masked = builder.take().unwrap_or_else(|| table.rebuild());
        builder = Some(masked.mask(&column.name, Some(mask)));
    }
    Ok(builder.map_or(table, |builder| builder.build()))
}

/// Returns the table with the mask of a column replaced or removed, or `None` if there is no such
/// column and the statement has IF EXISTS.
///
/// # Errors
/// There is no such column and the statement lacks IF EXISTS, or as [`plan`].
pub(super) fn alter(
    context: &Context<'_>,
    table: &TableMetadata,
    if_exists: bool,
    column: &Name<'_>,
    mask: Option<&ast::ColumnMask<'_>>,
) -> Result<Option<TableMetadata>> {
    let Some(found) = table.visible_column(column.as_str()) else {
        if if_exists {
            return Ok(None);
        }
        let message =
            format!("Column with name '{column}' doesn't exist on table '{}'", table.name);
        return Err(context.invalid(column.position, message));
    };
    let mask = mask.map(|mask| plan(context, table, found, mask)).transpose()?;
    Ok(Some(table.rebuild().mask(&found.name, mask).build()))
}

/// Returns the mask that a statement puts on a column.
///
/// # Errors
/// No masking function fits the column and the arguments, its result has another type than the
/// column, or an argument is not a constant.
pub(super) fn plan(
    context: &Context<'_>,
    table: &TableMetadata,
    column: &ColumnDefinition,
    mask: &ast::ColumnMask<'_>,
) -> Result<ColumnMask> {
    let markers = BindMarkers::default();
    let mut preparation = Preparation::of_table(context.text, context.schema, table, &markers);
    let position = mask.position;
    let named = |text: &'static str| Name { text: text.into(), position };
    let default = QualifiedName { keyspace: Some(named("system")), name: named("mask_default") };
    let (name, given) = match &mask.function {
        Some(call) => (&call.name, call.arguments.as_slice()),
        None => (&default, &[][..]),
    };
    let written: Vec<String> = given.iter().map(|term| TermText(term).to_string()).collect();
    let written = format!("{name}({})", written.join(", "));
    let invalid = |message: String| context.invalid(position, message);
    let column_type = &column.column_type;
    // In errors, Cassandra shows the class of the column's type as the first argument.
    let class = Name { text: column_type.marshal_name().into(), position };
    let class = Expression { kind: ExpressionKind::Column(class), position };
    let mut arguments = vec![Argument::Typed(column_type.clone(), Text::Whole(&class))];
    for term in given {
        arguments.push(argument_of(&preparation, term)?);
    }
    if AggregateFunction::is_native(name) {
        return Err(invalid(format!(
            "Aggregate function {written} cannot be used for masking table columns"
        )));
    }
    let found = functions::find_function(&preparation, name, &arguments, Some(column_type))?;
    let Some(function) = found else {
        return Err(invalid(format!(
            "Unable to find masking function for {}, no declared function matches the signature \
             {written}",
            column.name
        )));
    };
    if !functions::is_mask(&function.name) {
        return Err(invalid(format!(
            "Not-masking function {written} cannot be used for masking table columns"
        )));
    }
    if function.return_type.freeze() != column_type.freeze() {
        return Err(invalid(format!(
            "Masking function {written} return type is {}. This is different to the type of the \
             masked column {} of type {}. Masking functions can only be attached to table columns \
             if they return the same data type as the masked column.",
            function.return_type.cql_name(),
            column.name,
            column_type.cql_name()
        )));
    }
    let types = function.argument_types.iter().skip(1);
    let mut arguments = Vec::with_capacity(given.len());
    for (term, argument_type) in given.iter().zip(types) {
        let value = constant(&mut preparation, term, argument_type)?;
        // A replacement gets the column's type; the function's signature has only the frozen type.
        let is_replacement = *argument_type == column_type.freeze();
        let argument_type = if is_replacement { column_type } else { argument_type }.clone();
        arguments.push(MaskArgument { argument_type, value });
    }
    Ok(ColumnMask { keyspace: "system".into(), function: function.name, arguments })
}

/// Evaluates an argument once, when the mask is made.
fn constant(
    preparation: &mut Preparation<'_>,
    term: &Expression<'_>,
    argument_type: &espalier_types::CqlType,
) -> Result<Option<bytes::Bytes>> {
    let receiver = preparation.receiver("--dummy--", argument_type);
    let prepared = prepare_term(preparation, term, &receiver)?;
    let now_us = espalier_runtime::time::now_micros();
    let evaluation = Evaluation { values: &[], now_us, references: &[] };
    prepared.evaluate(&evaluation)?.required("an argument of a mask")
}
