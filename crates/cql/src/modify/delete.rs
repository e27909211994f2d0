//! Plans DELETE.

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_types::CqlType;

use super::{Change, ModificationKind, Operation, PlannedModification, plan::plan_using};
use crate::{
    Error, Result,
    condition::plan_condition,
    grammar::ast::{Delete, DeleteTarget},
    restrictions::{self, Purpose},
    term::{Preparation, Term, prepare_term},
};

/// Plans a DELETE.
///
/// # Errors
/// The IF, the USING or the WHERE does not fit the table, or the statement names a column, element
/// or field that it cannot delete.
pub fn plan_delete(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Delete<'_>,
) -> Result<PlannedModification> {
    let condition = plan_condition(preparation, table, &statement.using, &statement.condition)?;
    let (timestamp, _) = plan_using(preparation, table, &statement.using)?;
    let mut operations = Vec::with_capacity(statement.targets.len());
    for target in &statement.targets {
        operations.push(plan_target(preparation, table, target)?);
    }
    let only_static = !operations.is_empty()
        && !condition.tests_regular_columns()
        && operations.iter().all(Operation::is_static);
    let purpose = Purpose::Modify { statement: "DELETE", only_static };
    let restrictions = restrictions::plan(preparation, table, &statement.where_clause, purpose)?;
    let plan = PlannedModification {
        table: table.clone(),
        kind: ModificationKind::Delete,
        restrictions,
        operations,
        timestamp,
        time_to_live: None,
        condition,
        checks: None,
        point: None,
        point_turn: None,
    };
    if !plan.condition.is_none() {
        check_conditional(&plan)?;
    }
    if !plan.operations.is_empty() {
        check_clustering(&plan)?;
    }
    Ok(plan)
}

fn plan_target(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    target: &DeleteTarget<'_>,
) -> Result<Operation> {
    let (DeleteTarget::Column(name)
    | DeleteTarget::Element(name, _)
    | DeleteTarget::Field(name, _)) = target;
    let column = preparation.column(table, name)?;
    if column.is_primary_key() {
        return Err(preparation.invalid(
            name.position,
            format!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"),
        ));
    }
    let change = match target {
        DeleteTarget::Column(_) => Change::Delete,
        DeleteTarget::Element(_, key) => {
            let (label, key_type) = match &column.column_type {
                CqlType::Map { key, .. } if column.is_complex() => ("key", key.as_ref().clone()),
                CqlType::Set { element, .. } if column.is_complex() => {
                    ("value", element.as_ref().clone())
                }
                CqlType::List { .. } if column.is_complex() => ("idx", CqlType::Int),
                other => {
                    let kind =
                        if other.is_collection() { "frozen collection" } else { "non collection" };
                    return Err(preparation.invalid(
                        name.position,
                        format!("Invalid deletion operation for {kind} column {name}"),
                    ));
                }
            };
            let receiver = preparation.receiver(&format!("{label}({})", column.name), &key_type);
            Change::DeleteElement(prepare_term(preparation, key, &receiver)?)
        }
        DeleteTarget::Field(_, field) => {
            let CqlType::UserDefined { definition, frozen: false } = &column.column_type else {
                let message = match column.column_type {
                    CqlType::UserDefined { .. } => {
                        format!("Frozen UDT column {name} does not support field deletions")
                    }
                    _ => format!("Invalid field deletion operation for non-UDT column {name}"),
                };
                return Err(preparation.invalid(name.position, message));
            };
            let Some((index, _)) = definition.field(field.as_str()) else {
                return Err(preparation.invalid(
                    field.position,
                    format!("UDT column {name} does not have a field named {field}"),
                ));
            };
            Change::SetField(index as u16, Term::NULL)
        }
    };
    Ok(Operation { column: column.clone(), change })
}

/// Checks that a conditional DELETE names rows, unless it deletes and tests static columns only.
fn check_conditional(plan: &PlannedModification) -> Result<()> {
    if plan.restrictions.names_whole_rows(&plan.table) {
        return Ok(());
    }
    if !plan.is_static_only() {
        return Err(Error::invalid(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non static columns",
        ));
    }
    if plan.condition.tests_regular_columns() {
        return Err(Error::invalid(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use IF condition on non static columns",
        ));
    }
    Ok(())
}

fn check_clustering(plan: &PlannedModification) -> Result<()> {
    let clustering = &plan.restrictions.clustering;
    if plan.is_static_only() && !plan.condition.tests_regular_columns() {
        return if clustering.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(
                "Invalid restrictions on clustering columns since the DELETE statement modifies only static columns",
            ))
        };
    }
    if plan.restrictions.names_whole_rows(&plan.table) {
        return Ok(());
    }
    Err(Error::invalid("Range deletions are not supported for specific columns"))
}
