//! Plans UPDATE.

use std::sync::Arc;

use espalier_mutation::schema::{ColumnDefinition, TableMetadata};
use espalier_types::CqlType;

use super::{Change, ModificationKind, Operation, PlannedModification, plan::plan_using};
use crate::{
    Error, Result,
    condition::plan_condition,
    functions,
    grammar::ast::{
        ArithmeticOperator as Operator, Assignment, AssignmentOperation, Expression, Name,
        Position, Update,
    },
    restrictions::{self, Purpose},
    term::{Preparation, Term, prepare_term},
};

/// Plans an UPDATE.
///
/// # Errors
/// The IF, the USING or the WHERE does not fit the table, or the statement assigns to a column of
/// the primary key, has an operation that the column does not support, or has a value of a wrong
/// type.
pub fn plan_update(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Update<'_>,
) -> Result<PlannedModification> {
    let condition = plan_condition(preparation, table, &statement.using, &statement.condition)?;
    // The order of these steps does not matter for bind markers, because the parser has numbered
    // them.
    let (timestamp, time_to_live) = plan_using(preparation, table, &statement.using)?;
    let mut operations = Vec::with_capacity(statement.assignments.len());
    for assignment in &statement.assignments {
        let column = preparation.column(table, &assignment.column)?;
        if column.is_primary_key() {
            let message = format!("PRIMARY KEY part {} found in SET part", column.name);
            return Err(preparation.invalid(assignment.column.position, message));
        }
        let reads = !condition.is_none() || preparation.references.is_some();
        let change = plan_assignment(preparation, column, assignment, reads)?;
        operations.push(Operation { column: column.clone(), change });
    }
    let only_static =
        !condition.tests_regular_columns() && operations.iter().all(Operation::is_static);
    let purpose = Purpose::Modify { statement: "UPDATE", only_static };
    let restrictions = restrictions::plan(preparation, table, &statement.where_clause, purpose)?;
    let plan = PlannedModification {
        table: table.clone(),
        kind: ModificationKind::Update,
        restrictions,
        operations,
        timestamp,
        time_to_live,
        condition,
        checks: None,
        point: None,
        point_turn: None,
    };
    check_clustering(&plan)?;
    Ok(plan)
}

/// Checks that the WHERE clause names whole rows, or no row if the statement changes and tests
/// static columns only.
fn check_clustering(plan: &PlannedModification) -> Result<()> {
    let table = &plan.table;
    let is_static_only = plan.is_static_only() && !plan.condition.tests_regular_columns();
    if is_static_only && !table.clustering_columns().is_empty() {
        if plan.restrictions.clustering.is_empty() {
            return Ok(());
        }
        return Err(Error::invalid(
            "Invalid restrictions on clustering columns since the UPDATE statement modifies only static columns",
        ));
    }
    let has_range = plan.restrictions.clustering.iter().any(|r| r.equal_column_count().is_none());
    if plan.names_rows() && !has_range {
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
    if has_range {
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
    reads: bool,
) -> Result<Change> {
    let position = assignment.column.position;
    let mut target = AssignedColumn { preparation, column, position, reads };
    match &assignment.operation {
        AssignmentOperation::Set(value) => target.set(value),
        AssignmentOperation::Add(value) => target.add(value),
        AssignmentOperation::Subtract(value) => target.subtract(value),
        AssignmentOperation::Prepend(value) => target.prepend(value),
        AssignmentOperation::SetElement(key, value) => target.set_element(key, value),
        AssignmentOperation::SetField(field, value) => target.set_field(field, value),
    }
}

/// A column that an assignment changes.
struct AssignedColumn<'p, 'a> {
    preparation: &'p mut Preparation<'a>,
    column: &'p ColumnDefinition,
    /// The place at which the assignment names the column.
    position: Position,
    /// True if the statement has a condition or is part of a transaction, and so may read the row.
    reads: bool,
}

impl AssignedColumn<'_, '_> {
    /// Returns the error for an operation that columns of this `kind` do not support. `what` is the
    /// text of the operation.
    #[cold]
    fn refuse(&self, what: &str, kind: &str) -> Result<Change> {
        let message = format!("Invalid operation ({what}) for {kind} column {}", self.column.name);
        Err(self.preparation.invalid(self.position, message))
    }

    /// Prepares a value of the column's own type.
    fn value(&mut self, value: &Expression<'_>) -> Result<Term> {
        let receiver = self.preparation.receiver(&self.column.name, &self.column.column_type);
        prepare_term(self.preparation, value, &receiver)
    }

    fn set(&mut self, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        if column.column_type.is_counter() {
            let message = format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            );
            return Err(self.preparation.invalid(self.position, message));
        }
        Ok(Change::of_whole(column, self.value(value)?))
    }

    fn count(&mut self, value: &Expression<'_>, negated: bool) -> Result<Change> {
        let receiver = self.preparation.receiver(&self.column.name, &CqlType::Counter);
        let term = prepare_term(self.preparation, value, &receiver)?;
        Ok(Change::Count(term, negated))
    }

    fn add(&mut self, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        if column.column_type.is_counter() {
            return self.count(value, false);
        }
        if !column.is_complex() || !column.column_type.is_collection() {
            return self.compute(Operator::Add, value);
        }
        let term = self.value(value);
        let term = match column.column_type {
            CqlType::Map { .. } => self.part_of_map("addition", "map", value, term)?,
            _ => term?,
        };
        Ok(Change::Add(term))
    }

    /// Plans `v = v + 1`, which needs a condition or a transaction, or `v = v - 1`, which only a
    /// transaction may have.
    fn compute(&mut self, operator: Operator, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        let column_type = &column.column_type;
        let is_string = matches!(column_type, CqlType::Text | CqlType::Ascii);
        let is_numeric = functions::is_numeric(column_type);
        let (sign, is_allowed) = match operator {
            Operator::Add => ('+', self.reads && (is_string || is_numeric)),
            _ => ('-', self.preparation.references.is_some() && is_numeric),
        };
        if !is_allowed {
            return self.refuse_change(sign, value);
        }
        let term = self.value(value)?;
        let function = functions::operation(operator, column_type.clone(), column_type.clone());
        Ok(Change::Increase(Box::new(function), term))
    }

    /// Returns the error for a column that does not support `c = c + v` or `c = c - v`.
    #[cold]
    fn refuse_change(&self, sign: char, value: &Expression<'_>) -> Result<Change> {
        let (name, column_type) = (&self.column.name, &self.column.column_type);
        let kind = match column_type {
            CqlType::Tuple(_) | CqlType::UserDefined { .. } if sign == '+' => "tuple column",
            collection if collection.is_collection() => "frozen collection column",
            _ if self.reads && sign == '+' => "non-numeric and non-text type",
            _ => "non counter column",
        };
        let message =
            format!("Invalid operation ({name} = {name} {sign} {value}) for {kind} {name}");
        Err(self.preparation.invalid(self.position, message))
    }

    fn subtract(&mut self, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        if column.column_type.is_counter() {
            return self.count(value, true);
        }
        if !column.is_complex() || !column.column_type.is_collection() {
            return self.compute(Operator::Subtract, value);
        }
        // In the statement, the keys to remove from a map are a set.
        let receiver = match &column.column_type {
            CqlType::Map { key, .. } => self
                .preparation
                .receiver(&column.name, &CqlType::Set { element: key.clone(), frozen: false }),
            _ => self.preparation.receiver(&column.name, &column.column_type),
        };
        let term = prepare_term(self.preparation, value, &receiver);
        let term = match column.column_type {
            CqlType::Map { .. } => self.part_of_map("substraction", "set", value, term)?,
            _ => term?,
        };
        Ok(Change::Remove(term))
    }

    /// If `term` is an error, replaces its text. The new text is Cassandra's for a value that is
    /// added to a map or removed from a map.
    fn part_of_map(
        &self,
        operation: &str,
        wanted: &str,
        value: &Expression<'_>,
        term: Result<Term>,
    ) -> Result<Term> {
        term.map_err(|error| {
            let message = format!(
                "Value for a map {operation} has to be a {wanted}, but was: '{value}': {}",
                error.message
            );
            Error { message, ..self.preparation.invalid(self.position, "") }
        })
    }

    fn prepend(&mut self, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        if !column.is_complex() || !matches!(column.column_type, CqlType::List { .. }) {
            let is_list = matches!(column.column_type, CqlType::List { .. });
            // Cassandra's text has a minus.
            let what = format!("{0} = {value} - {0}", column.name);
            let kind = if is_list { "frozen list" } else { "non list" };
            return self.refuse(&what, kind);
        }
        Ok(Change::Prepend(self.value(value)?))
    }

    fn set_element(&mut self, key: &Expression<'_>, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        let (label, key_type, value_type) = match &column.column_type {
            CqlType::Map { key, value, .. } if column.is_complex() => ("key", key.as_ref(), value),
            CqlType::List { element, .. } if column.is_complex() => ("idx", &CqlType::Int, element),
            other => {
                let kind = match other {
                    CqlType::Set { .. } if column.is_complex() => "set",
                    collection if collection.is_collection() => "frozen collection",
                    _ => "non collection",
                };
                let what = format!("{}[{key}] = {value}", column.name);
                return self.refuse(&what, kind);
            }
        };
        let key_receiver =
            self.preparation.receiver(&format!("{label}({})", column.name), key_type);
        let key = prepare_term(self.preparation, key, &key_receiver)?;
        let value_receiver =
            self.preparation.receiver(&format!("value({})", column.name), value_type);
        let value = prepare_term(self.preparation, value, &value_receiver)?;
        Ok(Change::SetElement(key, value))
    }

    fn set_field(&mut self, field: &Name<'_>, value: &Expression<'_>) -> Result<Change> {
        let column = self.column;
        let CqlType::UserDefined { definition, frozen: false } = &column.column_type else {
            let is_udt = matches!(column.column_type, CqlType::UserDefined { .. });
            let what = format!("{}.{field} = {value}", column.name);
            let kind = if is_udt { "frozen UDT" } else { "non-UDT" };
            return self.refuse(&what, kind);
        };
        let Some((index, field_type)) = definition.field(field.as_str()) else {
            let message = format!("UDT column {} does not have a field named {field}", column.name);
            return Err(self.preparation.invalid(field.position, message));
        };
        let receiver = self.preparation.receiver(&format!("{}.{field}", column.name), field_type);
        let value = prepare_term(self.preparation, value, &receiver)?;
        Ok(Change::SetField(index as u16, value))
    }
}
