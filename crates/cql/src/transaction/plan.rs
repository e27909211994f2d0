//! Planning of transactions. The error texts are Cassandra's where Cassandra has the error.

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_storage::system::is_virtual;

use super::{Answer, PlannedTransaction, TransactionCondition};
use crate::{
    Error, Result,
    grammar::ast::{
        self, ComparisonOperator as Operator, Expression, ExpressionKind, Modification, Position,
        Select, Transaction, TransactionAnswer, TransactionPredicate,
    },
    metadata::{ColumnSpec, ResultMetadata},
    modify::{PlannedModification, plan_modification},
    restrictions::Alternatives,
    select::{PlannedSelect, SelectExpression, plan_select},
    term::{Preparation, References, ReferredRow, Term, prepare_term},
};

/// Maximum number of rows that a transaction reads by LET (arbitrary). The planner compares their
/// names with one another.
const MAX_LETS: usize = 1_000;

/// Plans a transaction. `find_table` finds the table of a name.
///
/// # Errors
/// The transaction neither returns nor writes anything or has too many LETs, a statement does not
/// fit its table or may not stand in a transaction, or a reference has no row or the wrong type.
pub fn plan_transaction(
    preparation: &mut Preparation<'_>,
    transaction: &Transaction<'_>,
    find_table: &mut dyn FnMut(&ast::QualifiedName<'_>) -> Result<Arc<TableMetadata>>,
) -> Result<PlannedTransaction> {
    if transaction.updates.is_empty() && matches!(transaction.answer, TransactionAnswer::None) {
        return Err(Error::invalid("Transaction contains no reads or writes"));
    }
    if transaction.assignments.len() > MAX_LETS {
        return Err(Error::invalid(format!("A transaction has at most {MAX_LETS} LETs")));
    }
    let mut reads = Vec::with_capacity(transaction.assignments.len());
    let mut rows: Vec<ReferredRow> = Vec::with_capacity(transaction.assignments.len());
    for assignment in &transaction.assignments {
        let name = &assignment.name;
        if rows.iter().any(|row| row.name == name.as_str()) {
            let message = format!("The name '{name}' has already been used by a LET assignment.");
            return Err(preparation.invalid(name.position, message));
        }
        let what = format!("LET assignment {name}");
        let table = find_table(&assignment.select.table)?;
        let select = plan_read(preparation, &table, &assignment.select, &what)?;
        check_one_row(preparation, &select, &assignment.select, &what)?;
        if !select.restrictions.filters.is_empty() {
            let message = format!("{what} may not filter rows");
            return Err(preparation.invalid(assignment.select.position, message));
        }
        let columns = select.selectors.iter().filter_map(|selector| match selector {
            SelectExpression::Column(column) => Some(column.name.clone()),
            _ => None,
        });
        let columns = columns.collect();
        rows.push(ReferredRow { name: name.as_str().to_string(), table, columns });
        reads.push(select);
    }
    preparation.references = Some(References { rows, found: Vec::new() });
    let answer = plan_answer(preparation, transaction, find_table)?;
    let conditions = transaction.conditions.iter();
    let conditions = conditions
        .map(|condition| plan_condition(preparation, condition))
        .collect::<Result<Vec<_>>>()?;
    let updates = transaction.updates.iter();
    let updates = updates
        .map(|update| plan_update(preparation, update, find_table))
        .collect::<Result<Vec<_>>>()?;
    let references = preparation.references.take().unwrap_or_default().found;
    Ok(PlannedTransaction { reads, references, answer, conditions, updates })
}

/// Returns a location in the text as Cassandra's errors about transactions have it.
fn location(preparation: &Preparation<'_>, position: Position) -> String {
    let location = position.line_column(preparation.text);
    format!("at [{}:{}]", location.line, location.column + 1)
}

fn plan_read(
    preparation: &mut Preparation<'_>,
    table: &Arc<TableMetadata>,
    statement: &Select<'_>,
    what: &str,
) -> Result<PlannedSelect> {
    if is_virtual(&table.keyspace) {
        let location = location(preparation, statement.position);
        return Err(Error::invalid(format!(
            "Virtual tables cannot be accessed within a transaction; SELECT statement {location}"
        )));
    }
    if table.is_counter() {
        let location = location(preparation, statement.position);
        return Err(Error::invalid(format!(
            "Counter columns cannot be accessed within a transaction; SELECT statement {location}"
        )));
    }
    preparation.enter(table);
    let references = preparation.references.take();
    let select = plan_select(preparation, table, statement);
    preparation.references = references;
    let select = select?;
    if select.restrictions.partition.keys().is_none() {
        let location = location(preparation, statement.position);
        return Err(Error::invalid(format!(
            "Range queries are not allowed for reads within a transaction; {what} {location}"
        )));
    }
    Ok(select)
}

/// Checks that a query returns at most one row: by its full primary key, or by LIMIT 1.
fn check_one_row(
    preparation: &Preparation<'_>,
    select: &PlannedSelect,
    statement: &Select<'_>,
    what: &str,
) -> Result<()> {
    let restrictions = &select.restrictions;
    let names_one_row = restrictions.names_whole_rows(&select.table) && !restrictions.has_in();
    let is_one = |limit: &Term| match limit {
        Term::Constant(Some(bytes)) => bytes.as_ref() == 1i32.to_be_bytes(),
        // A bound limit is checked at each execution.
        Term::Bind(_) => true,
        _ => false,
    };
    let has_one_key = !restrictions.partition.has_in();
    if names_one_row || (has_one_key && select.limit.as_ref().is_some_and(is_one)) {
        return Ok(());
    }
    let location = location(preparation, statement.position);
    Err(Error::invalid(format!(
        "SELECT must specify either all primary key elements or all partition key elements and LIMIT 1. In both cases partition key elements must be always specified with equality operators; {what} {location}"
    )))
}

fn plan_answer(
    preparation: &mut Preparation<'_>,
    transaction: &Transaction<'_>,
    find_table: &mut dyn FnMut(&ast::QualifiedName<'_>) -> Result<Arc<TableMetadata>>,
) -> Result<Answer> {
    match &transaction.answer {
        TransactionAnswer::None => Ok(Answer::None),
        TransactionAnswer::Select(statement) => {
            let table = find_table(&statement.table)?;
            let select = plan_read(preparation, &table, statement, "returning select")?;
            check_one_row(preparation, &select, statement, "returning select")?;
            Ok(Answer::Select(Box::new(select)))
        }
        TransactionAnswer::References(expressions) => {
            let mut indices = Vec::with_capacity(expressions.len());
            let mut specs = Vec::with_capacity(expressions.len());
            for expression in expressions {
                let Some(index) = preparation.reference(expression)? else {
                    let message = "SELECT references must specify a column.";
                    return Err(preparation.invalid(expression.position, message));
                };
                indices.push(index);
                let references = preparation.references.as_ref();
                let Some((reference, row)) = references.and_then(|references| {
                    let reference = references.found.get(usize::from(index))?;
                    Some((reference, references.rows.get(reference.row)?))
                }) else {
                    continue;
                };
                let (name, column_type) = (reference.text.clone(), reference.value_type.clone());
                specs.push(ColumnSpec::of(&row.table, name, column_type));
            }
            Ok(Answer::References(indices, Arc::new(ResultMetadata::new(specs))))
        }
    }
}

fn plan_condition(
    preparation: &mut Preparation<'_>,
    condition: &ast::TransactionCondition<'_>,
) -> Result<TransactionCondition> {
    let position = condition.left.position;
    let wanted = match &condition.predicate {
        TransactionPredicate::IsNull => false,
        TransactionPredicate::IsNotNull => true,
        TransactionPredicate::Compare(operator, right) => {
            return plan_comparison(preparation, &condition.left, *operator, right);
        }
    };
    if let ExpressionKind::Column(name) = &condition.left.kind {
        return Ok(TransactionCondition::RowExists {
            row: preparation.referred_row(name)?,
            wanted,
        });
    }
    match preparation.reference(&condition.left)? {
        Some(reference) => Ok(TransactionCondition::IsSet { reference, wanted }),
        None => Err(preparation.invalid(position, "IS NULL tests a row or a column of a LET")),
    }
}

fn plan_comparison(
    preparation: &mut Preparation<'_>,
    left: &Expression<'_>,
    operator: Operator,
    right: &Expression<'_>,
) -> Result<TransactionCondition> {
    let (reference, operator, other) = match preparation.reference(left)? {
        Some(reference) => (reference, operator, right),
        None => match preparation.reference(right)? {
            Some(reference) => (reference, mirrored(operator), left),
            None => {
                let message = "Either the left-hand or right-hand side must be a reference!";
                return Err(preparation.invalid(left.position, message));
            }
        },
    };
    let references = preparation.references.as_ref();
    let found = references.and_then(|references| references.found.get(usize::from(reference)));
    let (name, value_type) = match found {
        Some(found) => (found.column.name.clone(), found.value_type.clone()),
        None => return Err(preparation.invalid(left.position, "unknown reference")),
    };
    let receiver = preparation.receiver(&name, &value_type);
    let term = prepare_term(preparation, other, &receiver)?;
    if let Term::Constant(None) = term {
        return Err(preparation.invalid(other.position, NULL_COMPARISON));
    }
    Ok(TransactionCondition::Compare { reference, operator, term })
}

/// The error for a comparison with null.
pub const NULL_COMPARISON: &str =
    "Invalid comparison with null for operator; use IS NULL or IS NOT NULL instead";

fn mirrored(operator: Operator) -> Operator {
    match operator {
        Operator::Less => Operator::Greater,
        Operator::LessOrEqual => Operator::GreaterOrEqual,
        Operator::Greater => Operator::Less,
        Operator::GreaterOrEqual => Operator::LessOrEqual,
        Operator::Equal | Operator::NotEqual => operator,
    }
}

fn plan_update(
    preparation: &mut Preparation<'_>,
    update: &Modification<'_>,
    find_table: &mut dyn FnMut(&ast::QualifiedName<'_>) -> Result<Arc<TableMetadata>>,
) -> Result<PlannedModification> {
    let (statement, position) = match update {
        Modification::Insert(insert) => ("INSERT", insert.position),
        Modification::Update(update) => ("UPDATE", update.position),
        Modification::Delete(delete) => ("DELETE", delete.position),
    };
    let table = find_table(update.table())?;
    preparation.enter(&table);
    let plan = plan_modification(preparation, &table, update)?;
    let refuse = |reason: &str| {
        let location = location(preparation, position);
        Err(Error::invalid(format!("{reason}; {statement} statement {location}")))
    };
    if !plan.condition.is_none() {
        return refuse("Updates within transactions may not specify their own conditions");
    }
    if plan.timestamp.is_some() {
        return refuse("Updates within transactions may not specify custom timestamps");
    }
    if table.is_counter() {
        return refuse("Counter columns cannot be accessed within a transaction");
    }
    if plan.restrictions.partition.keys().is_none_or(<[Alternatives]>::is_empty) {
        return Err(Error::invalid("Some partition key parts are missing"));
    }
    Ok(plan)
}
