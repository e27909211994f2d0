//! Plans `GROUP BY`: columns of the primary key, and a function of the last one.
//!
//! Unlike Cassandra, the node refuses a function that is not monotonic when it prepares the
//! statement, and refuses a second function.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, ColumnKind, TableMetadata};
use espalier_types::{CqlType, type_name::quote_if_needed};

use super::{SelectExpression, selection::SelectionPreparation};
use crate::{
    Error, Result,
    functions::{ResolvedFunction, aggregate::AggregateFunction},
    grammar::ast::{Expression, ExpressionKind, Select},
    restrictions::Restrictions,
    term::Preparation,
};

/// A planned `GROUP BY`.
#[derive(Debug)]
pub struct GroupBy {
    /// The number of leading primary key columns that have one value in a group.
    pub columns: usize,
    /// A function of the clustering column after these columns, which has one result in a group.
    pub function: Option<SelectExpression>,
}

/// Cassandra's refusal of expressions other than columns and functions.
const NO_FUNCTION: &str =
    "Only column names and monotonic scalar functions are supported in the GROUP BY clause.";

/// Plans the GROUP BY of a SELECT; `None` if the statement has none.
///
/// # Errors
/// The clause names a column outside of the primary key, skips a column that may have several
/// values in a group, or has a function that could put distant rows into one group.
pub(super) fn plan_group_by(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Select<'_>,
    restrictions: &Restrictions,
) -> Result<Option<GroupBy>> {
    if statement.group_by.is_empty() {
        return Ok(None);
    }
    let key: Vec<_> =
        table.partition_key_columns().iter().chain(table.clustering_columns()).collect();
    let partition_columns = table.partition_key_columns().len();
    let (mut at, mut function) = (0, None);
    for expression in &statement.group_by {
        let (column, planned) = match &expression.kind {
            ExpressionKind::Column(name) => (preparation.column(table, name)?, None),
            _ => {
                let (planned, column) = plan_function(preparation, table, expression)?;
                (column, Some(planned))
            }
        };
        let refuse = |message: &str| Err(preparation.invalid(expression.position, message));
        let Some(index) = key.iter().position(|other| other.name == column.name) else {
            return refuse(&format!(
                "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                column.name
            ));
        };
        if function.is_some() {
            return refuse(
                "Functions are only supported on the last element of the GROUP BY clause",
            );
        }
        function = planned;
        // GROUP BY may omit columns that `=` restricts, because they have one value in all rows.
        let skipped_are_fixed = (at..index).all(|skipped| restrictions.is_fixed(key[skipped]));
        if index < at || !skipped_are_fixed {
            return refuse(
                "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
            );
        }
        at = index + 1;
    }
    if at < partition_columns {
        return Err(Error::invalid(
            "Group by is not supported on only a part of the partition key",
        ));
    }
    if statement.distinct && at > partition_columns {
        return Err(Error::invalid(
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        ));
    }
    Ok(Some(GroupBy { columns: at - usize::from(function.is_some()), function }))
}

/// Plans a function in GROUP BY. Also returns its only column.
fn plan_function<'t>(
    preparation: &mut Preparation<'_>,
    table: &'t Arc<TableMetadata>,
    expression: &Expression<'_>,
) -> Result<(SelectExpression, &'t ColumnDefinition)> {
    let aggregate = match &expression.kind {
        ExpressionKind::CountRows => Some("count_rows"),
        ExpressionKind::Function(call) if AggregateFunction::is_native(&call.name) => {
            Some(call.name.name.as_str())
        }
        ExpressionKind::Function(_) | ExpressionKind::Negate(_) | ExpressionKind::Arithmetic(_) => {
            None
        }
        _ => return Err(preparation.invalid(expression.position, NO_FUNCTION)),
    };
    if let Some(name) = aggregate {
        let message = format!(
            "Aggregate functions are not supported within the GROUP BY clause, got: system.{name}"
        );
        return Err(preparation.invalid(expression.position, message));
    }
    let mut selection =
        SelectionPreparation { preparation, table, aggregates: 0, same_casts: Vec::new() };
    let (function, _) = selection.prepare(expression, None)?;
    let mut columns: Vec<&'t ColumnDefinition> = Vec::new();
    function.for_each_column(&mut |column| {
        if columns.iter().all(|other| other.name != column.name) {
            columns.extend(table.column(&column.name));
        }
    });
    let refuse = |message: String| Err(selection.invalid(expression, message));
    match columns.as_slice() {
        [column] if column.kind == ColumnKind::Clustering => {
            check_monotonic(&selection, expression, &function)?;
            Ok((function, *column))
        }
        [] => refuse("GROUP BY functions must have one clustering column name as parameter".into()),
        [column] => refuse(format!(
            "Group by functions are only supported on clustering columns, got {}",
            column.name
        )),
        many => {
            let names: Vec<_> = many.iter().map(|column| quote_if_needed(&column.name)).collect();
            refuse(format!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                names.join(",")
            ))
        }
    }
}

/// Checks that an expression in GROUP BY is a column, or a monotonic function of such an
/// expression. The rows of a group are then neighbours.
fn check_monotonic(
    selection: &SelectionPreparation<'_, '_>,
    expression: &Expression<'_>,
    planned: &SelectExpression,
) -> Result<()> {
    let (function, arguments) = match planned {
        SelectExpression::Column(_) => return Ok(()),
        SelectExpression::Call(function, arguments) => (function, arguments),
        _ => return Err(selection.invalid(expression, NO_FUNCTION)),
    };
    let are_constant: Vec<bool> = arguments.iter().map(SelectExpression::is_constant).collect();
    if !is_monotonic(function, &are_constant) {
        let message = format!(
            "Only monotonic functions are supported in the GROUP BY clause. Got: {}",
            signature(function, &are_constant)
        );
        return Err(selection.invalid(expression, message));
    }
    let mut varying = arguments.iter().filter(|argument| !argument.is_constant());
    varying.try_for_each(|argument| check_monotonic(selection, expression, argument))
}

/// Returns whether the result of a function never falls while its varying argument grows. The
/// functions are those of Cassandra.
fn is_monotonic(function: &ResolvedFunction, are_constant: &[bool]) -> bool {
    match function.name.as_str() {
        "to_date" | "todate" | "to_timestamp" | "totimestamp" | "to_unix_timestamp"
        | "tounixtimestamp" => true,
        "floor" => matches!(are_constant, [false, rest @ ..] if rest.iter().all(|it| *it)),
        _ => false,
    }
}

/// Returns the signature of a call as Cassandra writes it.
fn signature(function: &ResolvedFunction, are_constant: &[bool]) -> String {
    let argument = |(argument_type, is_constant): (&CqlType, &bool)| {
        let suffix = if *is_constant { "(constant)" } else { "" };
        format!("{}{suffix}", argument_type.cql_name())
    };
    let arguments: Vec<String> =
        function.argument_types.iter().zip(are_constant).map(argument).collect();
    format!(
        "system.{} : ({}) -> {}",
        quote_if_needed(&function.name),
        arguments.join(", "),
        function.return_type.cql_name()
    )
}
