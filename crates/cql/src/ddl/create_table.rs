//! CREATE TABLE and DROP TABLE.

use espalier_mutation::schema::{TableBuilder, TableId, TableOptions};
use espalier_runtime::random;
use espalier_types::CqlType;
use hashbrown::HashSet;

use super::{
    Context, Outcome, already_exists, changed, check_name_length, check_table_name,
    clustering_order::descending_columns,
    options::{check_counter_options, set_default_options, set_options},
    type_check::{self, Refusal},
    unreadable,
};
use crate::{
    ChangeKind, ChangeTarget, Error, Result,
    grammar::ast::{ColumnDefinition, CreateTable, DropTable, Name, PropertyValue},
    term::resolve_type,
};

pub fn create(context: &Context<'_>, statement: &CreateTable<'_>) -> Outcome {
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let name = statement.name.name.as_str();
    check_table_name(&keyspace.name, name)?;
    if keyspace.tables.contains_key(name) {
        return if statement.if_not_exists {
            Ok(None)
        } else {
            Err(already_exists(&keyspace.name, name))
        };
    }
    if let Some(table) = keyspace.unreadable.tables.get(name) {
        return Err(unreadable("Table", &keyspace.name, name, &table.reason));
    }
    let invalid = |position, message: String| Error::invalid_at(context.text, position, message);
    if let Some(position) = statement.options.compact_storage {
        return Err(invalid(position, "COMPACT STORAGE tables are not supported".into()));
    }
    let key = match statement.primary_keys.as_slice() {
        [key] => key,
        [] => {
            return Err(invalid(
                statement.position,
                format!(
                    "No PRIMARY KEY specifed for table '{}.{name}' (exactly one required)",
                    keyspace.name
                ),
            ));
        }
        [_, second, ..] => {
            return Err(invalid(
                second.position,
                format!(
                    "Multiple PRIMARY KEY specified for table '{}.{name}' (exactly one required)",
                    keyspace.name
                ),
            ));
        }
    };
    let mut declared = HashSet::with_capacity(statement.columns.len());
    for column in &statement.columns {
        if !declared.insert(column.name.as_str()) {
            return Err(invalid(
                column.name.position,
                format!(
                    "Duplicate column '{}' declaration for table '{}.{name}'",
                    column.name, keyspace.name
                ),
            ));
        }
        check_name_length(context.text, &column.name)?;
        if column.mask.is_some() {
            return Err(invalid(
                column.name.position,
                "Dynamic data masking is not supported yet".into(),
            ));
        }
    }
    let find = |key_column: &Name<'_>| {
        let found = statement.columns.iter().find(|column| column.name == *key_column);
        found.ok_or_else(|| {
            invalid(
                key_column.position,
                format!(
                    "Unknown column '{key_column}' referenced in PRIMARY KEY for table '{name}'"
                ),
            )
        })
    };
    let resolve = |column: &ColumnDefinition<'_>| {
        resolve_type(context.text, context.schema, &keyspace.name, &column.type_name)
    };
    let refuse = |column: &ColumnDefinition<'_>, refusal: Refusal| {
        refusal.map_err(|reason| invalid(column.name.position, reason))
    };
    let key_type = |column: &ColumnDefinition<'_>| -> Result<CqlType> {
        let column_type = resolve(column)?;
        refuse(column, type_check::check_key(column.name.as_str(), &column_type))?;
        Ok(column_type.freeze())
    };
    let mut seen = HashSet::new();
    for key_column in key.partition.iter().chain(&key.clustering) {
        if !seen.insert(key_column.as_str()) {
            return Err(invalid(
                key_column.position,
                format!("Duplicate column '{key_column}' in PRIMARY KEY clause for table '{name}'"),
            ));
        }
    }
    let mut builder =
        TableBuilder::new(keyspace.name.as_str(), name, table_id(context, statement)?);
    for key_column in &key.partition {
        builder = builder.partition_key(key_column.as_str(), key_type(find(key_column)?)?);
    }
    let table_name = format!("{}.{name}", keyspace.name);
    let order = &statement.options.clustering_order;
    let descending = descending_columns(context.text, &table_name, key, order)?;
    for (key_column, reversed) in key.clustering.iter().zip(descending) {
        builder = builder.clustering(key_column.as_str(), key_type(find(key_column)?)?, reversed);
    }
    let (mut counters, mut others) = (None, None);
    for column in statement.columns.iter().filter(|column| !seen.contains(column.name.as_str())) {
        let column_type = resolve(column)?;
        refuse(column, type_check::check_column(&column_type))?;
        if column_type.is_counter() {
            counters.get_or_insert(column.name.position);
        } else {
            others.get_or_insert(column.name.position);
        }
        if column.is_static && key.clustering.is_empty() {
            return Err(invalid(column.name.position, "Static columns are only useful (and thus allowed) if the table has at least one clustering column".into()));
        }
        builder = if column.is_static {
            builder.static_column(column.name.as_str(), column_type)
        } else {
            builder.regular(column.name.as_str(), column_type)
        };
    }
    for column in statement.columns.iter().filter(|column| seen.contains(column.name.as_str())) {
        if column.is_static {
            return Err(invalid(
                column.name.position,
                format!("Static column '{}' cannot be part of the PRIMARY KEY", column.name),
            ));
        }
    }
    if let (Some(_), Some(position)) = (counters, others) {
        return Err(invalid(
            position,
            "Cannot mix counter and non counter columns in the same table".into(),
        ));
    }
    let mut options = TableOptions::default();
    set_default_options(&mut options, &statement.options.properties);
    set_options(&mut options, &statement.options.properties, context.memtables)?;
    check_counter_options(counters.is_some(), &options)?;
    let table = builder.options(options).build();
    let change = changed(ChangeKind::Created, ChangeTarget::Table, &keyspace.name, name);
    Ok(Some((context.with_table(keyspace, table), change)))
}

fn table_id(context: &Context<'_>, statement: &CreateTable<'_>) -> Result<TableId> {
    let id = statement.options.properties.iter().find(|property| property.name.as_str() == "id");
    let Some(property) = id else { return Ok(TableId(random::timeuuid_now())) };
    let id = match &property.value {
        PropertyValue::Text(text) => uuid::Uuid::parse_str(text).ok(),
        PropertyValue::Map(_) => None,
    };
    let Some(id) = id.map(TableId) else {
        return Err(Error::configuration("Invalid table id"));
    };
    if let Some(other) = context.schema.table_by_id(id) {
        return Err(Error::invalid_at(
            context.text,
            property.name.position,
            format!("Table id {id} is already used by {}.{}", other.keyspace, other.name),
        ));
    }
    if context.schema.is_unreadable(id) {
        return Err(Error::invalid_at(
            context.text,
            property.name.position,
            format!("Table id {id} is already used by a table that this node cannot read"),
        ));
    }
    Ok(id)
}

pub fn drop(context: &Context<'_>, statement: &DropTable<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace_name = context.keyspace_name(&statement.name)?;
    super::check_changeable(keyspace_name)?;
    let Some(keyspace) = context.schema.keyspace(keyspace_name).filter(|keyspace| {
        keyspace.tables.contains_key(name) || keyspace.unreadable.tables.contains_key(name)
    }) else {
        if statement.if_exists {
            return Ok(None);
        }
        return Err(Error::invalid_at(
            context.text,
            statement.name.position(),
            format!("Table '{keyspace_name}.{name}' doesn't exist"),
        ));
    };
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.tables.remove(name);
    // The table's files stay in its directory.
    keyspace.unreadable.tables.remove(name);
    let change = changed(ChangeKind::Dropped, ChangeTarget::Table, keyspace_name, name);
    Ok(Some((context.with_keyspace(keyspace_name, Some(keyspace)), change)))
}
