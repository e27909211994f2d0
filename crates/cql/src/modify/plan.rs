//! Planning steps that INSERT, UPDATE and DELETE share.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_storage::system::{
    is_changed_by_schema_statements, is_made_when_read, is_needed_for_start, is_virtual,
};
use espalier_types::CqlType;

use super::{PlannedModification, PointTurn, PointWrite, delete, insert, update};
use crate::{
    Error, Result,
    constraint::Checks,
    error::ErrorCode,
    grammar::ast::{InsertSource, Modification, Using},
    term::{Preparation, Term, prepare_term},
};

/// Plans an INSERT, UPDATE or DELETE on `table`.
///
/// # Errors
/// The statement does not fit the table (with Cassandra's code). Or it writes to a table that only
/// schema statements change, or that the node needs for its start (Unauthorized).
pub fn plan_modification(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Modification<'_>,
) -> Result<PlannedModification> {
    if is_changed_by_schema_statements(&table.keyspace) {
        return Err(Error::new(
            ErrorCode::Unauthorized,
            format!(
                "{} keyspace is not user-modifiable, but by CREATE, ALTER and DROP.",
                table.keyspace
            ),
        ));
    }
    if is_needed_for_start(&table.keyspace) && !is_made_when_read(&table.keyspace, &table.name) {
        return Err(Error::new(
            ErrorCode::Unauthorized,
            format!("{} keyspace is not user-modifiable.", table.keyspace),
        ));
    }
    if table.is_view() {
        return Err(Error::invalid("Cannot directly modify a materialized view"));
    }
    let mut plan = match statement {
        Modification::Insert(statement) => insert::plan_insert(preparation, table, statement),
        Modification::Update(statement) => update::plan_update(preparation, table, statement),
        Modification::Delete(statement) => delete::plan_delete(preparation, table, statement),
    }?;
    if let Some(checks) = Checks::of(table)? {
        check_columns(&plan, statement, &checks)?;
        plan.checks = Some(Arc::new(checks));
    }
    if !plan.condition.is_none() {
        check_conditional(&plan)?;
        plan.point_turn = PointTurn::plan(&plan).filter(|_| !table.has_views());
        return Ok(plan);
    }
    plan.point =
        PointWrite::plan(&plan).filter(|_| !is_virtual(&table.keyspace) && !table.has_views());
    Ok(plan)
}

/// Checks that an INSERT or UPDATE writes each column with `NOT NULL`, and that a DELETE deletes
/// none of them. The execution checks the values of a JSON document.
fn check_columns(
    plan: &PlannedModification,
    statement: &Modification<'_>,
    checks: &Checks,
) -> Result<()> {
    let names = |column: &ColumnDefinition| {
        plan.operations.iter().any(|operation| operation.column.id == column.id)
    };
    match statement {
        Modification::Delete(_) => checks.check_deleted(names),
        Modification::Insert(insert) if matches!(insert.source, InsertSource::Json { .. }) => {
            Ok(())
        }
        _ => checks.check_written(names),
    }
}

fn check_conditional(plan: &PlannedModification) -> Result<()> {
    if plan.table.is_counter() {
        return Err(Error::invalid("Conditional updates are not supported on counter tables"));
    }
    if plan.timestamp.is_some() {
        return Err(Error::invalid("Cannot provide custom timestamp for conditional updates"));
    }
    if is_virtual(&plan.table.keyspace) {
        return Err(Error::invalid("Conditional updates are not supported by virtual tables"));
    }
    Ok(())
}

/// Plans `USING TIMESTAMP` and `USING TTL`, and checks that the table allows them.
pub(super) fn plan_using(
    preparation: &mut Preparation<'_>,
    table: &TableMetadata,
    using: &Using<'_>,
) -> Result<(Option<Term>, Option<Term>)> {
    let mut prepare = |expression: &Option<_>, name: &str, column_type: CqlType| {
        let Some(expression) = expression else { return Ok(None) };
        if table.is_counter() {
            return Err(Error::invalid(format!(
                "Cannot provide custom {} for counter updates",
                if name == "[ttl]" { "TTL" } else { "timestamp" }
            )));
        }
        let receiver = preparation.receiver(name, &column_type);
        prepare_term(preparation, expression, &receiver).map(Some)
    };
    let timestamp = prepare(&using.timestamp, "[timestamp]", CqlType::Bigint)?;
    Ok((timestamp, prepare(&using.time_to_live, "[ttl]", CqlType::Int)?))
}
