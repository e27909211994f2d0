//! Plans the constraints of columns (`CHECK`), and refuses invalid ones, when a table gets them.

use espalier_mutation::schema::{
    ColumnConstraint, ColumnDefinition, ColumnKind, ConstrainedValue, TableMetadata,
};
use espalier_types::CqlType;

use super::Context;
use crate::{
    Error, Result,
    constraint::{ColumnTest, satisfiable},
    grammar::ast::{self, Check, CheckKind, Expression, ExpressionKind, Literal},
};

/// Adds the constraints of declared columns to a table.
///
/// # Errors
/// As [`plan`].
pub(super) fn constrain<'c>(
    context: &Context<'_>,
    table: TableMetadata,
    columns: impl IntoIterator<Item = &'c ast::ColumnDefinition<'c>>,
) -> Result<TableMetadata> {
    let mut builder = None;
    for declared in columns.into_iter().filter(|column| !column.checks.is_empty()) {
        let Some(column) = table.column(declared.name.as_str()) else { continue };
        let constraints = plan(context, &table, column, &declared.checks)?;
        let constrained = builder.take().unwrap_or_else(|| table.rebuild());
        builder = Some(constrained.constrain(&column.name, constraints));
    }
    Ok(builder.map_or(table, |builder| builder.build()))
}

/// Returns the constraints that `checks` put on a column.
///
/// # Errors
/// The column cannot have constraints, or one of them is unknown, does not fit the column's type or
/// name, has a value that cannot be parsed, or contradicts another.
pub(super) fn plan(
    context: &Context<'_>,
    table: &TableMetadata,
    column: &ColumnDefinition,
    checks: &[Check<'_>],
) -> Result<Vec<ColumnConstraint>> {
    let Some(first) = checks.first() else { return Ok(Vec::new()) };
    let invalid = |message: String| context.invalid(first.position, message);
    check_column(table, column).map_err(invalid)?;
    let constraints = checks
        .iter()
        .map(|check| constraint(context, column, check))
        .collect::<Result<Vec<_>>>()?;
    check_duplicates(column, &constraints).map_err(invalid)?;
    for (constraint, check) in constraints.iter().zip(checks) {
        let invalid = |message: String| context.invalid(check.position, message);
        check_key(column, constraint).map_err(invalid)?;
        check_type(column, constraint).map_err(invalid)?;
        ColumnTest::plan(column, constraint).map_err(invalid)?;
    }
    satisfiable(column, &constraints).map_err(invalid)?;
    Ok(constraints)
}

fn check_column(table: &TableMetadata, column: &ColumnDefinition) -> Result<(), String> {
    let refuse = |hint: &str| {
        Err(format!(
            "Constraint cannot be defined on the column {} of type {} for the table {}.{}.{hint}",
            column.name,
            column.column_type.cql_name(),
            table.keyspace,
            table.name
        ))
    };
    match &column.column_type {
        CqlType::Tuple(_) | CqlType::UserDefined { .. } => refuse(""),
        collection if collection.is_collection() && column.is_complex() => {
            refuse(" When using collections, constraints can be used only of frozen collections.")
        }
        _ => Ok(()),
    }
}

fn constraint(
    context: &Context<'_>,
    column: &ColumnDefinition,
    check: &Check<'_>,
) -> Result<ColumnConstraint> {
    let invalid = |message: String| context.invalid(check.position, message);
    let relation = |left, operator: ast::ComparisonOperator, right: &Expression<'_>| {
        let (operator, right) = (operator.symbol().to_string(), right.to_string());
        ColumnConstraint::Relation { left, operator, right }
    };
    match &check.kind {
        CheckKind::NotNull => Ok(ColumnConstraint::NotNull),
        CheckKind::Column(name, operator, right) if name.as_str() == column.name => {
            Ok(relation(ConstrainedValue::Column, *operator, right))
        }
        CheckKind::Column(name, operator, right) => Err(invalid(format!(
            "Constraint {name} {} {right} was not specified on a column it operates on: {} but on: {name}",
            operator.symbol(),
            column.name
        ))),
        CheckKind::Function { name, arguments, comparison } => {
            let upper = name.as_str().to_ascii_uppercase();
            let constraint = ColumnConstraint::from_parts(&upper, "", "");
            let constraint = constraint.filter(|_| !upper.is_empty());
            let found = match (constraint, comparison) {
                (Some(ColumnConstraint::Relation { left, .. }), Some((operator, right))) => {
                    relation(left, *operator, right)
                }
                (Some(ColumnConstraint::Relation { .. }), None) | (None, _) | (_, Some(_)) => {
                    let name = name.as_str().to_ascii_lowercase();
                    return Err(invalid(format!("Unrecognized constraint function: {name}")));
                }
                (Some(found), None) => found,
            };
            if !arguments.iter().all(is_string) {
                return Err(Error::syntax("Constraint function parameters need to be strings."));
            }
            if !arguments.is_empty() {
                return Err(invalid(format!("Constraint {upper} does not accept any arguments.")));
            }
            Ok(found)
        }
    }
}

fn is_string(expression: &Expression<'_>) -> bool {
    matches!(expression.kind, ExpressionKind::Literal(Literal::String(_)))
}

/// Returns the name of a constraint in errors. Two constraints of a column may have the same name
/// only if their operator is `!=`.
fn label(column: &ColumnDefinition, constraint: &ColumnConstraint) -> String {
    match constraint {
        ColumnConstraint::Relation { left: ConstrainedValue::Column, operator, .. } => {
            format!("{} {operator}", column.name)
        }
        ColumnConstraint::Relation { left, operator, .. } => format!("{} {operator}", left.name()),
        other => other.parts()[0].to_string(),
    }
}

fn check_duplicates(
    column: &ColumnDefinition,
    constraints: &[ColumnConstraint],
) -> Result<(), String> {
    let is_single = |constraint: &&ColumnConstraint| constraint.parts()[1] != "!=";
    let labels: Vec<String> =
        constraints.iter().filter(is_single).map(|one| label(column, one)).collect();
    let mut twice: Vec<&str> = Vec::new();
    for (index, label) in labels.iter().enumerate() {
        if labels[..index].contains(label) && !twice.contains(&label.as_str()) {
            twice.push(label);
        }
    }
    if twice.is_empty() {
        return Ok(());
    }
    Err(format!(
        "There are duplicate constraint definitions on column '{}': [{}]",
        column.name,
        twice.join(", ")
    ))
}

fn check_key(column: &ColumnDefinition, constraint: &ColumnConstraint) -> Result<(), String> {
    let kind = match column.kind {
        ColumnKind::PartitionKey => "partition",
        ColumnKind::Clustering => "clustering",
        _ => return Ok(()),
    };
    if *constraint != ColumnConstraint::NotNull {
        return Ok(());
    }
    Err(format!(
        "NOT_NULL constraint can not be specified on a {kind} key column '{}'",
        column.name
    ))
}

const MARSHAL: &str = "org.apache.cassandra.db.marshal.";
const ORDERED: &[&str] = &[
    "ByteType",
    "CounterColumnType",
    "DecimalType",
    "DoubleType",
    "FloatType",
    "Int32Type",
    "IntegerType",
    "LongType",
    "ShortType",
    "TimeType",
    "SimpleDateType",
    "TimestampType",
];

/// Refuses a constraint that the column's type does not support, with Cassandra's names of types.
fn check_type(column: &ColumnDefinition, constraint: &ColumnConstraint) -> Result<(), String> {
    let (name, supported): (String, &[&str]) = match constraint {
        ColumnConstraint::NotNull => return Ok(()),
        ColumnConstraint::Relation { left: ConstrainedValue::Column, .. } => {
            (label(column, constraint), ORDERED)
        }
        ColumnConstraint::Relation {
            left: left @ (ConstrainedValue::Length | ConstrainedValue::OctetLength),
            ..
        } => (left.name().into(), &["BytesType", "UTF8Type", "AsciiType"]),
        other => (other.parts()[0].into(), &["UTF8Type", "AsciiType"]),
    };
    let marshal = column.column_type.marshal_name();
    let frozen = format!("{MARSHAL}FrozenType(");
    let class = marshal.strip_prefix(&frozen).unwrap_or(&marshal);
    let class = class.split('(').next().unwrap_or(class);
    if supported.iter().any(|known| class.strip_prefix(MARSHAL) == Some(*known)) {
        return Ok(());
    }
    let supported: Vec<String> =
        supported.iter().map(|known| format!("{MARSHAL}{known}")).collect();
    Err(format!(
        "Constraint '{name}' can be used only for columns of type [{}] but it was class {class}",
        supported.join(", ")
    ))
}
