//! Executes ALTER TABLE.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{ColumnKind, KeyspaceMetadata, TableMetadata};
use espalier_runtime::time;
use espalier_storage::guardrails::Limit;
use espalier_types::CqlType;

use super::{
    Context, Outcome, check_name_length, compact_table, constraint,
    create_index::check_dependent,
    guardrails, mask,
    options::{check_counter_options, check_no_id, set_options},
    type_check::check_column,
    unchanged_if, unreadable, view,
};
use crate::{
    ChangeKind, Error, Result,
    grammar::ast::{
        AlterTable, ColumnDefinition, Expression, ExpressionKind, Literal, Name, TableChange,
        TableOptions,
    },
    term::resolve_type,
};

/// Executes ALTER TABLE.
///
/// # Errors
/// The keyspace is not given or is a system keyspace, the table does not exist and the statement
/// lacks IF EXISTS, the table is a view or the node cannot read its definition, or the change does
/// not fit the table's columns or has an invalid option.
pub fn alter(context: &Context<'_>, statement: &AlterTable<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace_name = context.keyspace_name(&statement.name)?;
    super::check_changeable(keyspace_name)?;
    let found = context
        .schema
        .keyspace(keyspace_name)
        .and_then(|k| k.tables.get(name).map(|table| (k, table)));
    let Some((keyspace, table)) = found else {
        let owner = context.schema.keyspace(keyspace_name);
        if let Some(table) = owner.and_then(|owner| owner.unreadable.tables.get(name)) {
            return Err(unreadable("Table", keyspace_name, name, &table.reason));
        }
        let message = format!("Table '{keyspace_name}.{name}' doesn't exist");
        let missing = context.invalid(statement.name.position(), message);
        return unchanged_if(statement.if_exists, missing);
    };
    if table.is_view() {
        let message =
            "Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead";
        return Err(context.invalid(statement.name.position(), message));
    }
    let altered = match &statement.change {
        TableChange::Add { if_not_exists, columns } => {
            add(context, keyspace, table, *if_not_exists, columns)?
        }
        TableChange::Drop { if_exists, columns, timestamp } => {
            drop(context, table, *if_exists, columns, timestamp.as_ref())?
        }
        TableChange::Rename { if_exists, columns } => rename(context, table, *if_exists, columns)?,
        TableChange::Options(options) => change_options(context, table, options)?,
        TableChange::DropCompactStorage => compact_table::drop_compact_storage(context, table)?,
        TableChange::ColumnType { .. } => {
            return Err(Error::invalid("Altering column types is no longer supported"));
        }
        TableChange::ColumnCheck { if_exists, column, checks } => {
            let Some(found) = table.column(column.as_str()) else {
                let message = format!("Column '{column}' doesn't exist");
                let missing = context.invalid(column.position, message);
                return unchanged_if(*if_exists, missing);
            };
            let constraints = constraint::plan(context, table, found, checks)?;
            table.rebuild().constrain(&found.name, constraints).build()
        }
        TableChange::ColumnMask { if_exists, column, mask } => {
            match mask::alter(context, table, *if_exists, column, mask.as_ref())? {
                Some(altered) => altered,
                None => return Ok(None),
            }
        }
    };
    if is_same(&altered, table) {
        return Ok(None);
    }
    let keyspace = view::follow(keyspace, table, &altered);
    context.with_table(&keyspace, altered, ChangeKind::Updated)
}

/// Returns whether the statement left the table as it was.
fn is_same(altered: &TableMetadata, table: &TableMetadata) -> bool {
    let mut columns = altered.columns().iter();
    altered.columns() == table.columns()
        && altered.options == table.options
        && altered.layout == table.layout
        && altered.has_masks_of(table)
        && columns.all(|column| altered.constraints_of(column) == table.constraints_of(column))
}

fn change_options(
    context: &Context<'_>,
    table: &TableMetadata,
    options: &TableOptions<'_>,
) -> Result<TableMetadata> {
    if !options.clustering_order.is_empty() || options.compact_storage.is_some() {
        return Err(Error::invalid("Cannot alter the clustering order or the storage of a table"));
    }
    check_no_id(&options.properties)?;
    let properties = guardrails::unignored(context, &options.properties);
    let changed_options = set_options(context, table.options.clone(), &properties)?;
    check_counter_options(holds_counters(table), &changed_options)?;
    if table.has_views() && changed_options.gc_grace_seconds == 0 {
        return Err(Error::invalid(
            "Cannot alter gc_grace_seconds of the base table of a materialized view to 0, since this value is used to \
             TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire \
             before being replayed.",
        ));
    }
    Ok(table.rebuild().options(changed_options).build())
}

fn add(
    context: &Context<'_>,
    keyspace: &KeyspaceMetadata,
    table: &Arc<TableMetadata>,
    if_not_exists: bool,
    columns: &[ColumnDefinition<'_>],
) -> Result<TableMetadata> {
    let mut builder = table.rebuild();
    let mut added: Vec<&Name<'_>> = Vec::new();
    for column in columns {
        let name = column.name.as_str();
        let invalid = |message: String| context.invalid(column.name.position, message);
        if table.column(name).is_some() || added.contains(&&column.name) {
            if if_not_exists {
                continue;
            }
            return Err(invalid(format!("Column with name '{name}' already exists")));
        }
        if table.is_compact() {
            return Err(invalid("Cannot add new column to a COMPACT STORAGE table".into()));
        }
        check_name_length(context.text, &column.name)?;
        if column.is_static && table.clustering_columns().is_empty() {
            return Err(invalid("Static columns are only useful (and thus allowed) if the table has at least one clustering column".into()));
        }
        let column_type =
            resolve_type(context.text, context.schema, &keyspace.name, &column.type_name)?;
        check_column(&column_type).map_err(invalid)?;
        guardrails::check_vectors(context, &column_type, &format!("Column {name}"))?;
        check_counter(table, name, &column_type)?;
        check_dropped(table, column, &column_type).map_err(invalid)?;
        builder = if column.is_static {
            builder.static_column(name, column_type)
        } else {
            builder.regular(name, column_type)
        };
        added.push(&column.name);
    }
    // With IF NOT EXISTS, a column that exists keeps its constraints and its mask.
    let is_new = |column: &&ColumnDefinition<'_>| table.column(column.name.as_str()).is_none();
    let new_columns = columns.iter().filter(is_new);
    let altered = constraint::constrain(context, builder.build(), new_columns.clone())?;
    let altered = mask::mask_columns(context, altered, new_columns)?;
    if let Some(guard) = context.guard() {
        guard.check(Limit::ColumnsPerTable, altered.columns().len(), &altered.name)?;
    }
    Ok(altered)
}

/// Refuses a column that was dropped before if the old cells would not fit the new column, or if
/// the table has counters.
fn check_dropped(
    table: &TableMetadata,
    column: &ColumnDefinition<'_>,
    column_type: &CqlType,
) -> std::result::Result<(), String> {
    let name = column.name.as_str();
    let Some(dropped) = table.dropped_columns.get(name) else { return Ok(()) };
    let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
    if dropped.kind != kind {
        return Err(format!(
            "Cannot re-add previously dropped column '{name}' of kind {:?}, incompatible with previous kind {:?}",
            kind.name(),
            dropped.kind.name()
        ));
    }
    // The list of dropped columns stores a user type as the tuple of its fields.
    let as_stored = |column_type: &CqlType| column_type.freeze().without_user_types();
    if as_stored(&dropped.column_type) != as_stored(column_type)
        || dropped.column_type.is_multi_cell() != column_type.is_multi_cell()
    {
        return Err(format!(
            "Cannot add a column '{name}' of type {}, incompatible with previously dropped column '{name}' of type {}",
            column_type.cql_name(),
            dropped.column_type.cql_name()
        ));
    }
    if table.is_counter() {
        return Err(format!("Cannot re-add previously dropped counter column {name}"));
    }
    Ok(())
}

/// Refuses a counter in a table without counters, and any other column in a table with counters.
fn check_counter(table: &TableMetadata, name: &str, column_type: &CqlType) -> Result<()> {
    let (column, kind) = match (column_type.is_counter(), holds_counters(table)) {
        (true, false) => ("a counter", "non counter"),
        (false, true) => ("a non counter", "counter"),
        _ => return Ok(()),
    };
    Err(Error::configuration(format!(
        "{}.{}: Cannot have {column} column (\"{name}\") in a {kind} table",
        table.keyspace, table.name
    )))
}

/// Returns whether the table has counters, or had them before all its columns were dropped.
fn holds_counters(table: &TableMetadata) -> bool {
    let has_columns = !table.static_columns().is_empty() || !table.regular_columns().is_empty();
    let mut dropped = table.dropped_columns.values();
    table.is_counter() || !has_columns && dropped.any(|column| column.column_type.is_counter())
}

fn drop(
    context: &Context<'_>,
    table: &Arc<TableMetadata>,
    if_exists: bool,
    columns: &[Name<'_>],
    timestamp: Option<&Expression<'_>>,
) -> Result<TableMetadata> {
    let dropped_time_us = match timestamp.map(|timestamp| (&timestamp.kind, timestamp.position)) {
        None => time::next_timestamp_micros(),
        Some((ExpressionKind::Literal(Literal::Integer(digits)), position)) => digits
            .parse()
            .map_err(|_| context.invalid(position, format!("Invalid timestamp {digits}")))?,
        Some((_, position)) => {
            return Err(context.invalid(position, "The timestamp of a DROP must be an integer"));
        }
    };
    let mut builder = table.rebuild();
    for name in columns {
        let invalid = |message: String| context.invalid(name.position, message);
        match table.column(name.as_str()) {
            None if if_exists => continue,
            None => {
                return Err(invalid(format!(
                    "Column {name} was not found in table '{}.{}'",
                    table.keyspace, table.name
                )));
            }
            Some(column) if column.is_primary_key() => {
                return Err(invalid(format!("Cannot drop PRIMARY KEY column {name}")));
            }
            Some(column) if is_multi_cell_user_type(&column.column_type) => {
                return Err(invalid(format!(
                    "Cannot drop non-frozen column {name} of user type {}",
                    column.column_type.cql_name()
                )));
            }
            Some(_) => {
                compact_table::check_drop(table, name.as_str())?;
                check_dependent(table, name.as_str(), |indexes| {
                    format!(
                        "Cannot drop column {name} because it has dependent secondary indexes ({indexes})"
                    )
                })
                .map_err(invalid)?;
                if table.has_views() {
                    return Err(invalid(format!(
                        "Cannot drop column {name} on base table {} with materialized views",
                        table.name
                    )));
                }
                builder = builder.drop_column(name.as_str(), dropped_time_us);
            }
        }
    }
    Ok(builder.build())
}

/// Returns whether a column of this type has a cell for each field of a user type. The list of
/// dropped columns cannot record such a column: it stores a user type as a tuple, which has one
/// cell.
fn is_multi_cell_user_type(column_type: &CqlType) -> bool {
    matches!(column_type, CqlType::UserDefined { .. }) && column_type.is_multi_cell()
}

fn rename(
    context: &Context<'_>,
    table: &Arc<TableMetadata>,
    if_exists: bool,
    columns: &[(Name<'_>, Name<'_>)],
) -> Result<TableMetadata> {
    let mut renamed: BTreeMap<&str, &str> = BTreeMap::new();
    for (from, to) in columns {
        let invalid = |message: String| context.invalid(from.position, message);
        check_name_length(context.text, to)?;
        match table.visible_column(from.as_str()) {
            // As in Cassandra, a hidden column is an error even with IF EXISTS.
            None if if_exists && table.column(from.as_str()).is_none() => continue,
            None => {
                return Err(invalid(format!(
                    "Undefined column name {from} in table {}.{}",
                    table.keyspace, table.name
                )));
            }
            Some(column) if !column.is_primary_key() => {
                return Err(invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
            }
            Some(_) => {}
        }
        check_dependent(table, from.as_str(), |indexes| {
            format!(
                "Can't rename column {from} because it has dependent secondary indexes ({indexes})"
            )
        })
        .map_err(invalid)?;
        let mut others = renamed.iter().filter(|(other, _)| **other != from.as_str());
        let is_taken = others.any(|(_, name)| *name == to.as_str());
        if is_taken || table.column(to.as_str()).is_some() {
            return Err(invalid(format!(
                "Cannot rename column {from} to {to} in table '{}.{}'; another column with that name already exists",
                table.keyspace, table.name
            )));
        }
        // If a column gets two new names, the last one wins.
        renamed.insert(from.as_str(), to.as_str());
    }
    let builder = table.rebuild().update_columns(|column| {
        if let Some(name) = renamed.get(column.name.as_str()) {
            column.name = (*name).to_string();
        }
    });
    Ok(builder.build())
}
