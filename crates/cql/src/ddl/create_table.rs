//! Executes CREATE TABLE and DROP TABLE.

use espalier_mutation::schema::{TableBuilder, TableId, TableMetadata};
use espalier_runtime::random;
use espalier_types::CqlType;
use hashbrown::HashSet;

use super::{
    Context, Outcome, already_exists, check_name_length, check_table_name,
    clustering_order::descending_columns,
    compact_table::{self, OtherColumn},
    constraint, guardrails, mask,
    options::{check_counter_options, find_property, new_options},
    type_check::{self, Refusal},
    unchanged_if, unreadable,
};
use crate::{
    ChangeKind, ChangeTarget, Error, Result,
    grammar::ast::{
        ColumnDefinition, CreateTable, DropTable, Name, PrimaryKey, Property, PropertyValue,
    },
    term::resolve_type,
};

/// Executes CREATE TABLE.
///
/// # Errors
/// The keyspace does not exist or is a system keyspace, the table exists and the statement lacks IF
/// NOT EXISTS, or the name, the id, the primary key, a column or an option of the new table is
/// invalid.
pub fn create(context: &Context<'_>, statement: &CreateTable<'_>) -> Outcome {
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let name = statement.name.name.as_str();
    check_table_name(&keyspace.name, name)?;
    if keyspace.tables.contains_key(name) {
        return unchanged_if(statement.if_not_exists, already_exists(&keyspace.name, name));
    }
    if let Some(table) = keyspace.unreadable.tables.get(name) {
        return Err(unreadable("Table", &keyspace.name, name, &table.reason));
    }
    let declaration = Declaration { context, statement, keyspace: &keyspace.name };
    let key = declaration.primary_key()?;
    declaration.check_columns()?;
    let key_names = declaration.key_names(key)?;
    let mut builder = TableBuilder::new(
        keyspace.name.as_str(),
        name,
        table_id(context, &statement.options.properties)?,
    );
    builder = declaration.add_key_columns(builder, key)?;
    let (builder, has_counters) = declaration.add_other_columns(builder, key, &key_names)?;
    let properties = guardrails::unignored(context, &statement.options.properties);
    let options = new_options(context, &properties)?;
    check_counter_options(has_counters, &options)?;
    let table = builder.options(options).build();
    let table = constraint::constrain(context, table, &statement.columns)?;
    let table = mask::mask_columns(context, table, &statement.columns)?;
    context.with_table(keyspace, table, ChangeKind::Created)
}

/// The columns and the primary key as a CREATE TABLE declares them.
struct Declaration<'s> {
    context: &'s Context<'s>,
    statement: &'s CreateTable<'s>,
    keyspace: &'s str,
}

impl<'s> Declaration<'s> {
    fn name(&self) -> &'s str {
        self.statement.name.name.as_str()
    }

    /// Returns the primary key, which the statement must declare exactly once.
    fn primary_key(&self) -> Result<&'s PrimaryKey<'s>> {
        let (keyspace, name) = (self.keyspace, self.name());
        match self.statement.primary_keys.as_slice() {
            [key] => Ok(key),
            [] => Err(self.context.invalid(
                self.statement.position,
                format!(
                    "No PRIMARY KEY specifed for table '{keyspace}.{name}' (exactly one required)"
                ),
            )),
            [_, second, ..] => Err(self.context.invalid(
                second.position,
                format!(
                    "Multiple PRIMARY KEY specified for table '{keyspace}.{name}' (exactly one required)"
                ),
            )),
        }
    }

    /// Checks the names of all columns.
    fn check_columns(&self) -> Result<()> {
        let mut declared = HashSet::with_capacity(self.statement.columns.len());
        for column in &self.statement.columns {
            if !declared.insert(column.name.as_str()) {
                return Err(self.context.invalid(
                    column.name.position,
                    format!(
                        "Duplicate column '{}' declaration for table '{}.{}'",
                        column.name,
                        self.keyspace,
                        self.name()
                    ),
                ));
            }
            check_name_length(self.context.text, &column.name)?;
        }
        Ok(())
    }

    /// Returns the names of the primary key's columns. Refuses a name that comes twice.
    fn key_names(&self, key: &'s PrimaryKey<'s>) -> Result<HashSet<&'s str>> {
        let mut seen = HashSet::new();
        for key_column in key.partition.iter().chain(&key.clustering) {
            if !seen.insert(key_column.as_str()) {
                return Err(self.context.invalid(
                    key_column.position,
                    format!(
                        "Duplicate column '{key_column}' in PRIMARY KEY clause for table '{}'",
                        self.name()
                    ),
                ));
            }
        }
        Ok(seen)
    }

    fn add_key_columns(
        &self,
        mut builder: TableBuilder,
        key: &PrimaryKey<'_>,
    ) -> Result<TableBuilder> {
        for key_column in &key.partition {
            builder = builder.partition_key(key_column.as_str(), self.key_type(key_column)?);
        }
        let table_name = format!("{}.{}", self.keyspace, self.name());
        let order = &self.statement.options.clustering_order;
        let descending = descending_columns(self.context.text, &table_name, key, order)?;
        for (key_column, reversed) in key.clustering.iter().zip(descending) {
            builder = builder.clustering(key_column.as_str(), self.key_type(key_column)?, reversed);
        }
        Ok(builder)
    }

    /// Returns the type of a column of the primary key.
    fn key_type(&self, key_column: &Name<'_>) -> Result<CqlType> {
        let found = self.statement.columns.iter().find(|column| column.name == *key_column);
        let column = found.ok_or_else(|| {
            self.context.invalid(
                key_column.position,
                format!(
                    "Unknown column '{key_column}' referenced in PRIMARY KEY for table '{}'",
                    self.name()
                ),
            )
        })?;
        let column_type = self.resolve(column)?;
        self.refuse(column, type_check::check_key(column.name.as_str(), &column_type))?;
        Ok(column_type.freeze())
    }

    /// Adds the columns outside the primary key, and returns whether they are counters.
    fn add_other_columns(
        &self,
        mut builder: TableBuilder,
        key: &PrimaryKey<'_>,
        key_names: &HashSet<&str>,
    ) -> Result<(TableBuilder, bool)> {
        let is_key = |column: &&ColumnDefinition<'_>| key_names.contains(column.name.as_str());
        let is_compact = self.statement.options.compact_storage.is_some();
        let (mut counters, mut others) = (None, None);
        let mut compact_columns = Vec::new();
        for column in self.statement.columns.iter().filter(|column| !is_key(column)) {
            let column_type = self.resolve(column)?;
            self.refuse(column, type_check::check_column(&column_type))?;
            let (name, is_static) = (column.name.as_str(), column.is_static);
            if column_type.is_counter() {
                counters.get_or_insert(column.name.position);
            } else {
                others.get_or_insert(column.name.position);
            }
            if is_compact {
                compact_columns.push(OtherColumn { name, column_type, is_static });
                continue;
            }
            if is_static && key.clustering.is_empty() {
                return Err(self.context.invalid(column.name.position, "Static columns are only useful (and thus allowed) if the table has at least one clustering column"));
            }
            builder = if is_static {
                builder.static_column(name, column_type)
            } else {
                builder.regular(name, column_type)
            };
        }
        let mut key_columns = self.statement.columns.iter().filter(is_key);
        if let Some(column) = key_columns.find(|column| column.is_static) {
            return Err(self.context.invalid(
                column.name.position,
                format!("Static column '{}' cannot be part of the PRIMARY KEY", column.name),
            ));
        }
        if let Some(position) = self.statement.options.compact_storage {
            builder = compact_table::add_columns(builder, key.clustering.len(), compact_columns)
                .map_err(|reason| self.context.invalid(position, reason))?;
        }
        if let (Some(_), Some(position)) = (counters, others) {
            return Err(self.context.invalid(
                position,
                "Cannot mix counter and non counter columns in the same table",
            ));
        }
        Ok((builder, counters.is_some()))
    }

    fn resolve(&self, column: &ColumnDefinition<'_>) -> Result<CqlType> {
        let column_type =
            resolve_type(self.context.text, self.context.schema, self.keyspace, &column.type_name)?;
        let what = format!("Column {}", column.name);
        guardrails::check_vectors(self.context, &column_type, &what)?;
        Ok(column_type)
    }

    fn refuse(&self, column: &ColumnDefinition<'_>, refusal: Refusal) -> Result<()> {
        refusal.map_err(|reason| self.context.invalid(column.name.position, reason))
    }
}

/// Returns the id that the properties give, or a new one.
pub(super) fn table_id(context: &Context<'_>, properties: &[Property<'_>]) -> Result<TableId> {
    let Some(property) = find_property(properties, "id") else {
        return Ok(TableId(random::timeuuid_now()));
    };
    let id = match &property.value {
        PropertyValue::Text(text) => uuid::Uuid::parse_str(text).ok(),
        PropertyValue::Map(_) => None,
    };
    let Some(id) = id.map(TableId) else {
        return Err(Error::configuration("Invalid table id"));
    };
    if let Some(other) = context.schema.table_by_id(id) {
        return Err(context.invalid(
            property.name.position,
            format!("Table id {id} is already used by {}.{}", other.keyspace, other.name),
        ));
    }
    if context.schema.is_unreadable(id) {
        return Err(context.invalid(
            property.name.position,
            format!("Table id {id} is already used by a table that this node cannot read"),
        ));
    }
    Ok(id)
}

/// Refuses to drop a view as a table, and a table that has views.
fn check_drop(table: &TableMetadata) -> std::result::Result<(), String> {
    if table.is_view() {
        return Err("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.".into());
    }
    if table.has_views() {
        return Err(format!(
            "Cannot drop a table when materialized views still depend on it ({})",
            // Cassandra's text has the keyspace here, not the views.
            table.keyspace
        ));
    }
    Ok(())
}

/// Executes DROP TABLE.
///
/// # Errors
/// The keyspace is not given or is a system keyspace, the table does not exist and the statement
/// lacks IF EXISTS, or the table is a view or has views.
pub fn drop(context: &Context<'_>, statement: &DropTable<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace_name = context.keyspace_name(&statement.name)?;
    super::check_changeable(keyspace_name)?;
    let Some(keyspace) = context.schema.keyspace(keyspace_name).filter(|keyspace| {
        keyspace.tables.contains_key(name) || keyspace.unreadable.tables.contains_key(name)
    }) else {
        let message = format!("Table '{keyspace_name}.{name}' doesn't exist");
        let missing = context.invalid(statement.name.position(), message);
        return unchanged_if(statement.if_exists, missing);
    };
    if let Some(table) = keyspace.tables.get(name) {
        check_drop(table).map_err(|message| context.invalid(statement.name.position(), message))?;
    }
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.tables.remove(name);
    // The directory of a table that the node cannot read stays, with its files.
    keyspace.unreadable.tables.remove(name);
    context.with_keyspace(keyspace, ChangeKind::Dropped, ChangeTarget::Table, name)
}
