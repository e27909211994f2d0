//! Planning of UPDATE.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use super::{ModificationKind, Operation, PlannedModification, plan::plan_using};
use crate::{
    Error, Result,
    grammar::ast::{Assignment, AssignmentOperation, Condition, Update},
    restrictions::{self, Purpose},
    term::{Preparation, prepare_term},
};

/// Plans an UPDATE.
pub fn plan_update(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Update<'_>,
) -> Result<PlannedModification> {
    if !matches!(statement.condition, Condition::None) {
        return Err(Error::unsupported("A lightweight transaction (UPDATE ... IF)"));
    }
    // The order in which bind markers are resolved does not matter: USING comes before SET in the
    // text, but does not depend on it.
    let (timestamp, time_to_live) = plan_using(preparation, table, &statement.using)?;
    let mut operations = Vec::with_capacity(statement.assignments.len());
    for assignment in &statement.assignments {
        let column = preparation.column(table, &assignment.column)?;
        if column.is_primary_key() {
            let message = format!("PRIMARY KEY part {} found in SET part", column.name);
            return Err(preparation.invalid(assignment.column.position, message));
        }
        operations.push((column.kind, plan_assignment(preparation, column, assignment)?));
    }
    let restrictions =
        restrictions::plan(preparation, table, &statement.where_clause, Purpose::Modify)?;
    let plan = PlannedModification {
        table: table.clone(),
        kind: ModificationKind::Update,
        restrictions,
        operations,
        timestamp,
        time_to_live,
        point: None,
    };
    check_clustering(&plan)?;
    Ok(plan)
}

/// Checks that the WHERE clause names whole rows if regular columns change; static columns alone
/// need none.
fn check_clustering(plan: &PlannedModification) -> Result<()> {
    let table = &plan.table;
    if plan.is_static_only() && !table.clustering_columns().is_empty() {
        if plan.restrictions.clustering.is_empty() {
            return Ok(());
        }
        return Err(Error::invalid(
            "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns",
        ));
    }
    if plan.restrictions.names_whole_rows(table) {
        return Ok(());
    }
    let given = plan
        .restrictions
        .clustering
        .iter()
        .map(|r| r.equal_column_count().unwrap_or(0))
        .sum::<usize>();
    let missing: Vec<&str> =
        table.clustering_columns().iter().skip(given).map(|column| column.name.as_str()).collect();
    if plan.restrictions.clustering.iter().any(|r| r.equal_column_count().is_none()) {
        return Err(Error::invalid(
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        ));
    }
    Err(Error::invalid(format!("Some clustering keys are missing: {}", missing.join(", "))))
}

fn plan_assignment(
    preparation: &mut Preparation<'_>,
    column: &ColumnDefinition,
    assignment: &Assignment<'_>,
) -> Result<Operation> {
    let position = assignment.column.position;
    let column_type = &column.column_type;
    let receiver = preparation.receiver(&column.name, column_type);
    let refuse = |preparation: &Preparation<'_>, what: &str| {
        let message = format!(
            "Invalid operation ({what}) for column {} of type {}",
            column.name,
            column_type.cql_name()
        );
        Err(preparation.invalid(position, message))
    };
    let is_list = matches!(column_type, CqlType::List { .. });
    match &assignment.operation {
        AssignmentOperation::Set(_) if column_type.is_counter() => {
            let message = format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            );
            Err(preparation.invalid(position, message))
        }
        AssignmentOperation::Set(value) => {
            let term = prepare_term(preparation, value, &receiver)?;
            Ok(if column.is_complex() {
                Operation::Replace(column.clone(), term)
            } else {
                Operation::Set(column.clone(), term)
            })
        }
        AssignmentOperation::Add(value) | AssignmentOperation::Subtract(value) => {
            let is_add = matches!(assignment.operation, AssignmentOperation::Add(_));
            if column_type.is_counter() {
                let receiver = preparation.receiver(&column.name, &CqlType::Counter);
                let term = prepare_term(preparation, value, &receiver)?;
                return Ok(Operation::Count(column.clone(), term, !is_add));
            }
            if !column.is_complex() || !column_type.is_collection() {
                return refuse(preparation, if is_add { "+" } else { "-" });
            }
            if is_add {
                return Ok(Operation::Add(
                    column.clone(),
                    prepare_term(preparation, value, &receiver)?,
                ));
            }
            // The keys to remove from a map are given as a set.
            let receiver = match column_type {
                CqlType::Map { key, .. } => preparation
                    .receiver(&column.name, &CqlType::Set { element: key.clone(), frozen: false }),
                _ => receiver,
            };
            Ok(Operation::Remove(column.clone(), prepare_term(preparation, value, &receiver)?))
        }
        AssignmentOperation::Prepend(value) => {
            if column_type.is_counter() {
                let receiver = preparation.receiver(&column.name, &CqlType::Counter);
                let term = prepare_term(preparation, value, &receiver)?;
                return Ok(Operation::Count(column.clone(), term, false));
            }
            if !column.is_complex() || !is_list {
                return refuse(preparation, "value + column");
            }
            Ok(Operation::Prepend(column.clone(), prepare_term(preparation, value, &receiver)?))
        }
        AssignmentOperation::SetElement(key, value) => {
            let (key_type, value_type) = match column_type {
                CqlType::Map { key, value, .. } if column.is_complex() => {
                    (key.as_ref().clone(), value.as_ref().clone())
                }
                CqlType::List { element, .. } if column.is_complex() => {
                    (CqlType::Int, element.as_ref().clone())
                }
                _ => return refuse(preparation, "[...] = value"),
            };
            let label = if is_list { "idx" } else { "key" };
            let key_receiver =
                preparation.receiver(&format!("{label}({})", column.name), &key_type);
            let key = prepare_term(preparation, key, &key_receiver)?;
            let value_receiver =
                preparation.receiver(&format!("value({})", column.name), &value_type);
            Ok(Operation::SetElement(
                column.clone(),
                key,
                prepare_term(preparation, value, &value_receiver)?,
            ))
        }
        AssignmentOperation::SetField(field, value) => {
            let CqlType::UserDefined { definition, frozen: false } = column_type else {
                return refuse(preparation, ".field = value");
            };
            let Some(index) = definition.fields.iter().position(|(name, _)| name == field.as_str())
            else {
                let message =
                    format!("UDT column {} does not have a field named {field}", column.name);
                return Err(preparation.invalid(field.position, message));
            };
            let receiver = preparation
                .receiver(&format!("{}.{field}", column.name), &definition.fields[index].1);
            Ok(Operation::SetField(
                column.clone(),
                index as u16,
                prepare_term(preparation, value, &receiver)?,
            ))
        }
    }
}
