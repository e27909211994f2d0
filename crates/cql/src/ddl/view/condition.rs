//! The WHERE clause of a view: which conditions it may have, and their forms as text and as values.

use std::{fmt::Write, sync::Arc};

use bytes::Bytes;
use espalier_mutation::schema::{ColumnDefinition, TableMetadata, ViewCondition, ViewOperator};
use espalier_types::{CqlType, type_name::quote_if_needed};

use crate::{
    Error, Result,
    grammar::{
        CqlText, PredicateText,
        ast::{
            ComparisonOperator, Expression, ExpressionKind, InValues, Name, Predicate, Relation,
            RelationTarget, WhereClause,
        },
    },
    restrictions::{Purpose, plan},
    term::{Bound, Evaluation, Preparation, prepare_term},
};

/// The conditions of a view.
pub(super) struct PlannedWhere {
    /// The conditions on values.
    pub(super) conditions: Vec<ViewCondition>,
    /// The names of all restricted columns, including those with `IS NOT NULL`.
    pub(super) restricted: Vec<String>,
    /// The names of the columns that are restricted by values.
    pub(super) by_value: Vec<String>,
}

/// Plans the WHERE clause of a view.
///
/// # Errors
/// A relation names an unknown column, or is invalid in a SELECT or in a view.
pub(super) fn plan_where(
    preparation: &mut Preparation<'_>,
    base: &Arc<TableMetadata>,
    clause: &WhereClause<'_>,
) -> Result<PlannedWhere> {
    let mut planned =
        PlannedWhere { conditions: Vec::new(), restricted: Vec::new(), by_value: Vec::new() };
    let mut values = WhereClause::default();
    for relation in &clause.relations {
        let is_by_value = !matches!(relation.predicate, Predicate::IsNotNull);
        for name in relation.target.names() {
            let column = preparation.column(base, name)?;
            planned.restricted.push(column.name.clone());
            if is_by_value {
                planned.by_value.push(column.name.clone());
            }
        }
        if is_by_value {
            values.relations.push(relation.clone());
        }
    }
    // As in Cassandra, the clause is planned as the clause of a SELECT, with the same errors.
    let purpose = Purpose::Select { allow_filtering: true, is_nearest: false, only_static: false };
    plan(preparation, base, &values, purpose)?;
    for relation in &values.relations {
        let is_key = |name: &Name<'_>| {
            base.column(name.as_str()).is_some_and(ColumnDefinition::is_primary_key)
        };
        // The caller refuses conditions on other columns.
        if relation.target.names().iter().all(is_key) {
            planned.conditions.extend(condition(preparation, base, relation)?);
        }
    }
    Ok(planned)
}

/// Returns the conditions of a relation: two for `BETWEEN`, otherwise one.
fn condition(
    preparation: &mut Preparation<'_>,
    base: &TableMetadata,
    relation: &Relation<'_>,
) -> Result<Vec<ViewCondition>> {
    let names = relation.target.names();
    let columns: Vec<&ColumnDefinition> =
        names.iter().map(|name| preparation.column(base, name)).collect::<Result<_>>()?;
    let is_tuple = matches!(relation.target, RelationTarget::Columns(_));
    let mut made = Vec::new();
    let mut add = |operator, operands: Vec<&Expression<'_>>| -> Result<()> {
        let operands = operands.into_iter().map(|operand| {
            if is_tuple {
                tuple(preparation, &columns, operand)
            } else {
                value(preparation, &columns, operand).map(|value| vec![value])
            }
        });
        let operands = operands.collect::<Result<_>>()?;
        let columns = columns.iter().map(|column| column.name.clone()).collect();
        made.push(ViewCondition { columns, operator, operands });
        Ok(())
    };
    match &relation.predicate {
        Predicate::Compare(operator, operand) => {
            let operator = match operator {
                ComparisonOperator::Equal => ViewOperator::Equal,
                ComparisonOperator::Less => ViewOperator::Less,
                ComparisonOperator::LessOrEqual => ViewOperator::LessOrEqual,
                ComparisonOperator::Greater => ViewOperator::Greater,
                ComparisonOperator::GreaterOrEqual => ViewOperator::GreaterOrEqual,
                ComparisonOperator::NotEqual => return refuse(preparation, relation),
            };
            add(operator, vec![operand])?;
        }
        Predicate::In(InValues::Values(operands)) => {
            add(ViewOperator::In, operands.iter().collect())?;
        }
        Predicate::Between(low, high) if !is_tuple => {
            add(ViewOperator::GreaterOrEqual, vec![low])?;
            add(ViewOperator::LessOrEqual, vec![high])?;
        }
        _ => return refuse(preparation, relation),
    }
    Ok(made)
}

fn refuse<T>(preparation: &Preparation<'_>, relation: &Relation<'_>) -> Result<T> {
    let message = format!("the condition {relation} is not supported yet in materialized views");
    Err(preparation.invalid(relation.position, message))
}

fn value(
    preparation: &mut Preparation<'_>,
    columns: &[&ColumnDefinition],
    operand: &Expression<'_>,
) -> Result<Bytes> {
    let Some(column) = columns.first() else { return Err(null(preparation, operand)) };
    constant(preparation, column, operand)
}

fn tuple(
    preparation: &mut Preparation<'_>,
    columns: &[&ColumnDefinition],
    operand: &Expression<'_>,
) -> Result<Vec<Bytes>> {
    match &operand.kind {
        ExpressionKind::Tuple(parts) if parts.len() == columns.len() => {
            let parts = columns.iter().zip(parts);
            parts.map(|(column, part)| constant(preparation, column, part)).collect()
        }
        _ => Err(preparation.invalid(operand.position, "a tuple of values is expected")),
    }
}

fn constant(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    operand: &Expression<'_>,
) -> Result<Bytes> {
    let column_type: &CqlType = &column.column_type;
    let receiver = preparation.receiver(&column.name, column_type);
    let term = prepare_term(preparation, operand, &receiver)?;
    let now_us = espalier_runtime::time::now_micros();
    match term.evaluate(&Evaluation { values: &[], now_us, references: &[] })? {
        Bound::Value(value) => Ok(value),
        Bound::Null | Bound::Unset => Err(null(preparation, operand)),
    }
}

fn null(preparation: &Preparation<'_>, operand: &Expression<'_>) -> Error {
    preparation.invalid(operand.position, "a condition of a materialized view cannot be null")
}

/// Returns the clause as `system_schema.views` stores it, without `WHERE`.
pub(super) fn where_text(clause: &WhereClause<'_>) -> String {
    let mut text = String::new();
    for relation in &clause.relations {
        if !text.is_empty() {
            text.push_str(" AND ");
        }
        let names = relation.target.names().iter();
        let names: Vec<_> = names.map(|name| quote_if_needed(name.as_str())).collect();
        let names = names.join(", ");
        let target = match &relation.target {
            RelationTarget::Columns(_) => format!("({names})"),
            RelationTarget::Token(_) => format!("token({names})"),
            RelationTarget::Element(_, key) => format!("{names}[{}]", CqlText(key)),
            RelationTarget::Column(_) | RelationTarget::Field(..) => names,
        };
        let _ = write!(text, "{target}{}", PredicateText(&relation.predicate));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::{self, ast::Statement};

    #[test]
    fn the_stored_text_parses_to_the_clause() {
        for clause in [
            "a = 'it''s' AND b > $$it's$$",
            "a = -1 AND b = 1.5e3 AND c = NaN AND d = -Infinity AND e = true AND f = - -1",
            "a = 0xff AND b = 123e4567-e89b-12d3-a456-426614174000 AND c = 1h30m AND d = P1Y",
            "a IN ('x''y', 'z') AND (b, c) > (1, '''')",
            "(a, b) IN ((1, 'it''s'), (2, '')) AND c BETWEEN 'a''' AND 'b'",
            "a = ['it''s', ''] AND b = {'it''s'} AND c = {'it''s': ''''}",
            "a = {\"Field\": 1, \"order\": 'it''s'} AND \"Mixed\" IS NOT NULL",
            "a = (int) 5 AND b = 1 + 2 AND c = currentdate() AND d = \"Ks\".\"F\"('it''s')",
            "m['it''s'] = 1 AND l CONTAINS 'it''s' AND m CONTAINS KEY '''' AND a LIKE '''%'",
        ] {
            let statement = format!("SELECT * FROM t WHERE {clause}");
            let parsed = grammar::parse(&statement).unwrap();
            let Statement::Select(select) = &parsed.statement else { panic!("no SELECT") };
            let text = where_text(&select.where_clause);
            let again = format!("SELECT * FROM t WHERE {text}");
            let again = grammar::parse(&again).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(again.to_string(), parsed.to_string(), "{text}");
        }
    }
}
