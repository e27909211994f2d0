//! The rows of materialized views in `system_schema.views`, which are Cassandra's, and in
//! `system_schema.view_conditions`, which hold the conditions in serialised form.

use bytes::Bytes;
use espalier_mutation::schema::{
    TableId, TableMetadata, ViewCondition, ViewDefinition, ViewOperator,
};

use super::row::{Fields, RowWriter};

/// Adds the definition of a view to its row in `system_schema.views`.
pub(super) fn with_definition<'t>(row: RowWriter<'t>, view: &ViewDefinition) -> RowWriter<'t> {
    row.uuid("base_table_id", view.base.0)
        .text("base_table_name", &view.base_name)
        .boolean("include_all_columns", view.includes_all_columns)
        .text("where_clause", &view.where_clause)
}

/// Fills the row of a condition in `system_schema.view_conditions`.
pub(super) fn with_condition<'t>(row: RowWriter<'t>, condition: &ViewCondition) -> RowWriter<'t> {
    row.list("columns", &condition.columns)
        .text("operator", condition.operator.symbol())
        .list("operands", condition.operands.iter().flatten().map(hex))
}

/// Reads a condition from a row of `system_schema.view_conditions`.
///
/// # Errors
/// Returns a text that says which field is wrong.
pub(super) fn read_condition(fields: &Fields<'_>) -> Result<ViewCondition, String> {
    let operator = fields.text("operator").and_then(ViewOperator::from_symbol);
    let columns = fields.texts("columns").filter(|columns| !columns.is_empty());
    let columns = columns.ok_or("a condition of a view has no columns")?;
    let operands = fields.texts("operands").unwrap_or_default();
    let operands: Option<Vec<Bytes>> = operands.iter().map(|operand| unhex(operand)).collect();
    let operands = operands.ok_or("an operand of a view's condition is not hexadecimal")?;
    if operands.len() % columns.len() != 0 {
        return Err("a condition of a view needs as many operands as columns".into());
    }
    let operands = operands.chunks(columns.len()).map(<[Bytes]>::to_vec).collect();
    let operator = operator.ok_or("a condition of a view has an unknown operator")?;
    Ok(ViewCondition { columns, operator, operands })
}

/// Reads the definition of a view from its row in `system_schema.views`.
///
/// # Errors
/// Returns a text that names the missing field.
pub(super) fn read_definition(
    fields: &Fields<'_>,
    conditions: Vec<ViewCondition>,
) -> Result<ViewDefinition, String> {
    Ok(ViewDefinition {
        base: fields.uuid("base_table_id").map(TableId).ok_or("no base_table_id")?,
        base_name: fields.text("base_table_name").ok_or("no base_table_name")?.to_string(),
        includes_all_columns: fields.boolean("include_all_columns").unwrap_or(false),
        where_clause: fields.text("where_clause").unwrap_or_default().to_string(),
        conditions,
    })
}

/// Checks that a view has only columns of its base table, and the whole primary key of the base
/// table in its own.
///
/// # Errors
/// Returns a text that names the column.
pub(super) fn check_columns(view: &TableMetadata, base: &TableMetadata) -> Result<(), String> {
    for column in view.columns() {
        let found = base.column(&column.name);
        if found.is_none_or(|found| found.column_type != column.column_type) {
            return Err(format!("its base table has no such column {}", column.name));
        }
    }
    let key = base.columns().iter().filter(|column| column.is_primary_key());
    for column in key {
        if view.column(&column.name).is_none_or(|found| !found.is_primary_key()) {
            return Err(format!("its primary key lacks column {} of its base table", column.name));
        }
    }
    Ok(())
}

fn hex(value: &Bytes) -> String {
    value.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Bytes> {
    let digits = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.collect()
}
