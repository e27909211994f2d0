//! The answer of a conditional statement: `[applied]`, and if the condition does not hold, the rows
//! for which the statement tested it.
//!
//! The columns of an answer depend on the outcome, so clients receive them with each answer.

use std::sync::Arc;

use espalier_mutation::{
    Row,
    schema::{ColumnDefinition, ColumnKind, Schema, TableMetadata},
};

use espalier_runtime::maybe_yield;

use super::{ReadRows, plan::TurnPlan};
use crate::{
    Result,
    condition::applied_columns,
    current_row::{CurrentRow, RowView},
    functions::{ResolvedFunction, mask_of_column},
    metadata::{ColumnSpec, ResultMetadata},
    read_budget::check_answer,
    result::Rows,
    select::{key_components, put},
    term::Evaluation,
};

/// Answers an applied statement.
pub fn applied(plan: &TurnPlan<'_>) -> Rows {
    let mut content = Vec::with_capacity(5);
    put(Some(&[1]), &mut content);
    rows(applied_columns(plan.table), 1, content)
}

/// Answers a statement that was not applied, with the rows of its conditions. If no condition is on
/// a row, the answer shows the first row of the partition. With `masks`, masked columns show their
/// masks.
///
/// # Errors
/// The stored key is malformed, a mask has no value, or the answer is too long.
pub async fn not_applied(
    plan: &TurnPlan<'_>,
    read: &ReadRows,
    masks: Option<&Schema>,
    now_us: i64,
) -> Result<Rows> {
    let columns = shown_columns(plan);
    let mask = |column: &&ColumnDefinition| {
        let mask = plan.table.mask_of(column)?;
        Some(mask_of_column(masks?, mask, &column.column_type))
    };
    let masks: Vec<Option<ResolvedFunction>> = columns.iter().map(mask).collect();
    let evaluation = Evaluation { values: &[], now_us, references: &[] };
    let partition_key = key_components(plan.table, &plan.key)?;
    let mut content = Vec::new();
    let mut shown: Vec<Option<&Row>> = if plan.conditions.is_empty() {
        read.first_row.iter().map(Some).collect()
    } else {
        let conditions = plan.conditions.iter();
        let found = conditions.map(|(clustering, _)| read.find(plan.table, clustering));
        found.filter(Option::is_some).collect()
    };
    if shown.is_empty() {
        if read.static_row.is_none() {
            put(Some(&[0]), &mut content);
            return Ok(rows(applied_columns(plan.table), 1, content));
        }
        // A partition with only static content counts as a row.
        shown.push(None);
    }
    let row_count = i32::try_from(shown.len()).unwrap_or(i32::MAX);
    for row in shown {
        maybe_yield().await;
        let row = CurrentRow {
            table: plan.table,
            partition_key: &partition_key,
            static_row: read.static_row.as_ref(),
            row: row.map(RowView::Object),
        };
        put(Some(&[0]), &mut content);
        for (column, mask) in columns.iter().zip(&masks) {
            check_answer(content.len())?;
            let mut value = shown_value(plan, &row, column);
            if let Some(mask) = mask {
                value = mask.call(&[value], &evaluation)?;
            }
            put(value.as_deref(), &mut content);
        }
    }
    let mut specs = applied_columns(plan.table);
    specs.extend(
        columns.iter().map(|column| {
            ColumnSpec::of(plan.table, column.name.clone(), column.column_type.clone())
        }),
    );
    Ok(rows(specs, row_count, content))
}

/// Returns the columns of the answer after `[applied]`: all columns of the table, or the columns
/// with conditions, each once. The answer of a batch has the primary key columns before them.
fn shown_columns<'p>(plan: &TurnPlan<'p>) -> Vec<&'p ColumnDefinition> {
    let table: &'p TableMetadata = plan.table;
    if plan.answers_all_columns {
        return table.visible_columns().collect();
    }
    let keys = table.columns().iter().filter(|column| plan.is_batch && column.is_primary_key());
    let mut shown: Vec<&ColumnDefinition> = Vec::new();
    for column in keys.chain(plan.condition_columns()) {
        if shown.iter().all(|other| other.id != column.id || other.kind != column.kind) {
            shown.push(column);
        }
    }
    shown
}

/// Returns the value of a column in an answer. A request that names no row shows no regular column.
fn shown_value(
    plan: &TurnPlan<'_>,
    row: &CurrentRow<'_>,
    column: &ColumnDefinition,
) -> Option<bytes::Bytes> {
    let is_hidden = column.kind == ColumnKind::Regular && !plan.names_rows;
    if is_hidden { None } else { row.value(column) }
}

fn rows(columns: Vec<ColumnSpec>, row_count: i32, content: Vec<u8>) -> Rows {
    Rows {
        metadata: Arc::new(ResultMetadata::of_one_answer(columns)),
        row_count,
        content,
        paging_state: None,
    }
}
