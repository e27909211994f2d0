//! CREATE INDEX and DROP INDEX. The messages and the order of the checks are Cassandra's.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{
    CLASS_OPTION, ColumnDefinition, ColumnKind, IndexKind, IndexMetadata, IndexPart,
    KeyspaceMetadata, TARGET_OPTION, TableMetadata, target_text,
};
use espalier_types::CqlType;

use super::{
    Context, Outcome, check_length, contains_duration, index_class::IndexClass, is_word,
    unchanged_if,
};
use crate::{
    ChangeKind, Error, Result,
    grammar::ast::{CreateIndex, DropObject, IndexTarget, PropertyValue},
};

/// The maximum length of an index's name, as in Cassandra. The name is a part of the names of
/// files.
const MAX_INDEX_NAME: usize = 192;

/// Executes CREATE INDEX.
///
/// # Errors
/// The table does not exist, may not be changed or cannot have indexes, the target cannot be
/// indexed, the class is unknown or disabled, an option is invalid, or an index of this name or on
/// this target exists and the statement lacks IF NOT EXISTS.
pub fn create(context: &Context<'_>, statement: &CreateIndex<'_>) -> Outcome {
    let options = given_options(context, statement)?;
    let class = IndexClass::of(statement);
    class.check_enabled(context.node)?;
    let keyspace = context.changeable_keyspace(&statement.table)?;
    let table_name = statement.table.name.as_str();
    let Some(table) = keyspace.tables.get(table_name) else {
        let message = format!("Table '{table_name}' doesn't exist");
        return Err(context.invalid(statement.table.position(), message));
    };
    if let Some(name) = &statement.name
        && find(keyspace, name.as_str()).is_some()
    {
        let exists = context.invalid(name.position, format!("Index '{name}' already exists"));
        return unchanged_if(statement.if_not_exists, exists);
    }
    if let Some(kind) = kind_without_indexes(table) {
        let message = format!("Secondary indexes on {kind} aren't supported");
        return Err(context.invalid(statement.table.position(), message));
    }
    let target = targets(context, table, statement, &class)?;
    let name = match &statement.name {
        Some(name) => name.as_str().to_string(),
        None => {
            let base = default_name(table_name, &statement.targets);
            available_name(&base, |name| find(keyspace, name).is_some())
        }
    };
    let (kind, mut options) = match class.stored() {
        Some(class) => {
            let mut options = options;
            options.insert(CLASS_OPTION.into(), class.into());
            (IndexKind::Custom, options)
        }
        None => (IndexKind::Composites, BTreeMap::new()),
    };
    options.insert(TARGET_OPTION.into(), target);
    let is_same = |other: &&IndexMetadata| is_copy(other, kind, &options);
    if let Some(other) = table.indexes.iter().find(is_same) {
        let message = format!("Index {name} is a duplicate of existing index {}", other.name);
        return unchanged_if(statement.if_not_exists, context.invalid(statement.position, message));
    }
    if !is_word(&name) {
        return Err(Error::configuration(format!("Illegal index name {name}")));
    }
    check_length(&name, MAX_INDEX_NAME)
        .map_err(|reason| Error::configuration(format!("Index name {reason}")))?;
    let warning = class.check_options(table, &options)?;
    if let (Some(warning), Some(guard)) = (warning, context.guard()) {
        // Cassandra repeats the warning for each index on vectors that the table has.
        let others = table.indexes.iter().filter(|index| index.vector_options(table).is_some());
        let others = if class.is_sasi() { 0 } else { others.count() };
        (0..=others).for_each(|_| guard.warn(warning));
    }
    let Some(index) = IndexMetadata::from_options(&name, kind, options) else {
        return Err(context.invalid(statement.position, "this index target is not supported"));
    };
    let mut indexes = table.indexes.clone();
    indexes.push(index);
    let altered = table.rebuild().indexes(indexes).build();
    context.with_table(keyspace, altered, ChangeKind::Updated)
}

/// Returns whether `index` has this kind and these options. The targets are compared with their
/// quotes, because older schemas stored them without.
fn is_copy(index: &IndexMetadata, kind: IndexKind, options: &BTreeMap<String, String>) -> bool {
    let mut own = index.options.clone();
    own.insert(TARGET_OPTION.into(), index.target());
    (index.kind, &own) == (kind, options)
}

/// Returns the kind of a table that cannot have indexes; `None` if it can.
fn kind_without_indexes(table: &TableMetadata) -> Option<&'static str> {
    if table.is_view() {
        return Some("materialized views");
    }
    table.is_counter().then_some("counter tables")
}

/// Executes DROP INDEX; returns `None` if the index does not exist.
pub(super) fn drop(context: &Context<'_>, statement: &DropObject<'_>, keyspace: &str) -> Outcome {
    let name = statement.name.name.as_str();
    let Some(keyspace) = context.schema.keyspace(keyspace) else { return Ok(None) };
    let Some((table, _)) = find(keyspace, name) else { return Ok(None) };
    super::check_changeable(&keyspace.name)?;
    let mut indexes = table.indexes.clone();
    indexes.retain(|index| index.name != name);
    let altered = table.rebuild().indexes(indexes).build();
    context.with_table(keyspace, altered, ChangeKind::Updated)
}

/// Returns the index with this name, after its table.
pub fn find<'k>(
    keyspace: &'k KeyspaceMetadata,
    name: &str,
) -> Option<(&'k Arc<TableMetadata>, &'k IndexMetadata)> {
    keyspace.tables.values().find_map(|table| Some((table, table.index(name)?)))
}

/// Refuses a change of a column that indexes depend on. `action` returns the error for the names of
/// these indexes.
pub(super) fn check_dependent(
    table: &TableMetadata,
    column: &str,
    action: impl Fn(String) -> String,
) -> std::result::Result<(), String> {
    let names: Vec<&str> = table
        .indexes
        .iter()
        .filter(|index| index.column == column)
        .map(|index| index.name.as_str())
        .collect();
    if names.is_empty() { Ok(()) } else { Err(action(names.join(", "))) }
}

/// Returns the entries of `WITH OPTIONS = {...}`.
fn given_options(
    context: &Context<'_>,
    statement: &CreateIndex<'_>,
) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for property in &statement.properties {
        let refuse = |message: String| context.invalid(property.name.position, message);
        match &property.value {
            PropertyValue::Map(entries) if property.name.as_str() == "options" => {
                let owned = |(key, value): &(_, _)| {
                    let (key, value): (&std::borrow::Cow<'_, str>, &std::borrow::Cow<'_, str>) =
                        (key, value);
                    (key.to_string(), value.to_string())
                };
                options.extend(entries.iter().map(owned));
            }
            PropertyValue::Text(_) if property.name.as_str() == "options" => {
                return Err(refuse(
                    "Invalid value for property 'options'. It should be a map.".into(),
                ));
            }
            _ => return Err(refuse(format!("Unknown property '{}'", property.name))),
        }
    }
    if IndexClass::of(statement).stored().is_none() && !statement.properties.is_empty() {
        let message = "Cannot specify options for a non-CUSTOM index";
        return Err(context.invalid(statement.position, message));
    }
    match [CLASS_OPTION, TARGET_OPTION].into_iter().find(|name| options.contains_key(*name)) {
        Some(name) => Err(Error::invalid(format!("Cannot specify {name} as a CUSTOM option"))),
        None => Ok(options),
    }
}

/// Checks the targets of the index, and returns the text that the schema tables store for them.
fn targets(
    context: &Context<'_>,
    table: &TableMetadata,
    statement: &CreateIndex<'_>,
    class: &IndexClass,
) -> Result<String> {
    let refuse = |message: &str| Err(context.invalid(statement.position, message));
    let mut found: Vec<(&ColumnDefinition, IndexPart)> = Vec::new();
    for target in &statement.targets {
        found.push(resolve(context, table, target)?);
    }
    let is_custom = class.stored().is_some();
    if found.is_empty() {
        return refuse(if is_custom {
            "An index must have a target column"
        } else {
            "Only CUSTOM indexes can be created without specifying a target column"
        });
    }
    if found.len() > 1 && !is_custom {
        return refuse("Only CUSTOM indexes support multiple columns");
    }
    for (index, (column, _)) in found.iter().enumerate() {
        if found[..index].iter().any(|(other, _)| other.name == column.name) {
            return refuse(&format!("Duplicate column '{}' in index target list", column.name));
        }
    }
    for ((column, part), target) in found.iter().zip(&statement.targets) {
        check_target(table, column, *part, is_custom)
            .map_err(|message| context.invalid(target.column.position, message))?;
    }
    let texts: Vec<String> =
        found.iter().map(|(column, part)| target_text(&column.name, *part)).collect();
    // For a SASI index, `check_options` refuses several columns, with another text.
    if texts.len() > 1 && !class.is_sasi() {
        return refuse(&format!(
            "A storage-attached index cannot be created over multiple columns: {}",
            texts.join(", ")
        ));
    }
    Ok(texts.join(", "))
}

/// Returns the column of a target, and the part of the column to index. The bare name of a
/// collection means its values.
fn resolve<'t>(
    context: &Context<'_>,
    table: &'t TableMetadata,
    target: &IndexTarget<'_>,
) -> Result<(&'t ColumnDefinition, IndexPart)> {
    let column = table.column(target.column.as_str()).ok_or_else(|| {
        let message = format!(
            "Undefined column name {} in table {}.{}",
            target.column, table.keyspace, table.name
        );
        context.invalid(target.column.position, message)
    })?;
    let part = match target.part {
        IndexPart::Simple if column.column_type.is_collection() => IndexPart::Values,
        part => part,
    };
    Ok((column, part))
}

fn check_target(
    table: &TableMetadata,
    column: &ColumnDefinition,
    part: IndexPart,
    is_custom: bool,
) -> std::result::Result<(), String> {
    let (name, column_type) = (&column.name, &column.column_type);
    if contains_duration(column_type) {
        let what = match column_type {
            CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => {
                "collections containing durations"
            }
            CqlType::Tuple(_) => "tuples containing durations",
            CqlType::UserDefined { .. } => "UDTs containing durations",
            _ => "duration columns",
        };
        return Err(format!("Secondary indexes are not supported on {what}"));
    }
    if table.is_compact() {
        let columns = match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => Some("PRIMARY KEY columns in"),
            // The value column of a compact table with clustering columns is its only regular one.
            ColumnKind::Regular if !table.is_static_compact() => Some("compact value column of"),
            _ => None,
        };
        if let Some(columns) = columns {
            return Err(format!(
                "Secondary indexes are not supported on {columns} COMPACT STORAGE tables"
            ));
        }
    }
    if column.kind == ColumnKind::PartitionKey && table.partition_key_columns().len() == 1 {
        return Err(format!(
            "Cannot create secondary index on the only partition key column {name}"
        ));
    }
    let is_frozen = column_type.is_collection() && !column.is_complex();
    let word = part.word().unwrap_or_default();
    if is_frozen && part != IndexPart::Full {
        return Err(format!(
            "Cannot create {word}() index on frozen column {name}. Frozen collections are immutable and must be fully \
             indexed by using the 'full({name})' modifier"
        ));
    }
    if !is_frozen && part == IndexPart::Full {
        return Err("full() indexes can only be created on frozen collections".into());
    }
    if !column_type.is_collection() && part != IndexPart::Simple {
        return Err(format!(
            "Cannot create {word}() index on {name}. Non-collection columns only support simple indexes"
        ));
    }
    let is_map = matches!(column_type, CqlType::Map { .. });
    if !is_map && matches!(part, IndexPart::Keys | IndexPart::Entries) {
        return Err(format!("Cannot create index on {word} of column {name} with non-map type"));
    }
    if matches!(column_type, CqlType::UserDefined { frozen: false, .. }) {
        return Err(format!("Cannot create index on non-frozen UDT column {name}"));
    }
    if matches!(column_type, CqlType::Vector { .. }) && !is_custom {
        return Err(format!(
            "Secondary indexes on the vector column {name} are not supported; a storage-attached \
             index, USING 'sai', serves ORDER BY {name} ANN OF"
        ));
    }
    Ok(())
}

/// Returns the indexes of `source` for a copy of this table. Their names follow the rules of
/// Cassandra 6. A name that begins with the default name for the table and column becomes the
/// default name for the copy. Another name stays. A number makes a name unique in the keyspace of
/// the copy.
pub(super) fn copied(
    source: &TableMetadata,
    keyspace: &KeyspaceMetadata,
    copy: &str,
) -> Result<Vec<IndexMetadata>> {
    let mut indexes: Vec<IndexMetadata> = Vec::new();
    for index in &source.indexes {
        let made = name_of_column(&source.name, &index.column);
        let base = if index.name.starts_with(&made) {
            name_of_column(copy, &index.column)
        } else {
            index.name.clone()
        };
        let name = available_name(&base, |name| {
            find(keyspace, name).is_some() || indexes.iter().any(|other| other.name == name)
        });
        check_length(&name, MAX_INDEX_NAME)
            .map_err(|reason| Error::configuration(format!("Index name {reason}")))?;
        indexes.push(IndexMetadata { name, ..index.clone() });
    }
    Ok(indexes)
}

fn default_name(table: &str, targets: &[IndexTarget<'_>]) -> String {
    match targets {
        [target] => name_of_column(table, target.column.as_str()),
        _ => words(&format!("{table}_idx")),
    }
}

fn name_of_column(table: &str, column: &str) -> String {
    words(&format!("{table}_{column}_idx"))
}

/// Returns a name without the characters that are illegal in names of indexes.
fn words(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// Returns a name that is not taken: `base`, with a number if `base` is taken.
fn available_name(base: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = base.to_string();
    let mut number = 0;
    while is_taken(&name) {
        number += 1;
        name = format!("{base}_{number}");
    }
    name
}
