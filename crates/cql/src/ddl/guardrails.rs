//! The guardrails of schema statements. [`check`] runs before a statement is applied, so it refuses
//! a statement even if `IF [NOT] EXISTS` would leave the schema unchanged, as in Cassandra. The
//! other checks run while the statement is applied.

use espalier_mutation::schema::KeyspaceMetadata;
use espalier_storage::{
    guardrails::{Feature, Limit, Names},
    system::DATA_CENTER,
};
use espalier_types::CqlType;

use super::{
    Context, is_system_keyspace,
    options::{class_of, find_property},
};
use crate::{
    Result,
    grammar::ast::{
        AlterTable, CreateIndex, CreateTable, Property, PropertyValue, QualifiedName, Statement,
        TableChange, TypeChange,
    },
    guard::Guard,
};

/// Checks a schema statement.
///
/// # Errors
/// A guardrail refuses it.
pub(super) fn check(context: &Context<'_>, statement: &Statement<'_>) -> Result<()> {
    let Some(guard) = context.guard() else { return Ok(()) };
    match statement {
        Statement::CreateKeyspace(statement) => {
            let keyspaces = user_keyspaces(context).count() + 1;
            guard.check(Limit::Keyspaces, keyspaces, &statement.name)?;
            check_strategy(&statement.properties, guard)
        }
        Statement::AlterKeyspace(statement) => check_strategy(&statement.properties, guard),
        Statement::DropKeyspace(_) => guard.require(Feature::DropKeyspace),
        Statement::CreateTable(statement) => check_table(context, statement, guard),
        Statement::CreateTableLike(statement) => {
            let properties = &statement.options.properties;
            check_compression(properties, guard)?;
            judge_properties(properties, guard)?;
            check_number_of_tables(context, &statement.name, guard)
        }
        Statement::AlterTable(statement) => check_change(statement, guard),
        Statement::DropTable(_) => guard.require(Feature::DropTruncateTable),
        Statement::CreateType(statement) => {
            guard.check(Limit::FieldsPerUdt, statement.fields.len(), &statement.name.name)
        }
        Statement::AlterType(statement) => {
            let TypeChange::Add { .. } = &statement.change else { return Ok(()) };
            let keyspace = context.keyspace_name(&statement.name)?;
            let keyspace = context.schema.keyspace(keyspace);
            let altered =
                keyspace.and_then(|keyspace| keyspace.types.get(statement.name.name.as_str()));
            altered.map_or(Ok(()), |altered| {
                guard.check(Limit::FieldsPerUdt, altered.fields.len() + 1, &altered.name)
            })
        }
        Statement::CreateIndex(statement) => check_index(context, statement, guard),
        _ => Ok(()),
    }
}

fn check_index(context: &Context<'_>, statement: &CreateIndex<'_>, guard: Guard<'_>) -> Result<()> {
    guard.require(Feature::SecondaryIndexes)?;
    let table = statement.table.name.as_str();
    let keyspace = context.keyspace_name(&statement.table)?;
    let Some(found) = context.schema.table(keyspace, table) else { return Ok(()) };
    let what = match &statement.name {
        Some(name) => format!("{name} on table {table}"),
        None => format!("on table {table}"),
    };
    guard.check(Limit::SecondaryIndexesPerTable, found.indexes.len() + 1, &what)
}

fn user_keyspaces<'a>(
    context: &'a Context<'_>,
) -> impl Iterator<Item = &'a std::sync::Arc<KeyspaceMetadata>> {
    let keyspaces = context.schema.keyspaces.values();
    keyspaces.filter(|keyspace| !is_system_keyspace(&keyspace.name))
}

/// Refuses a statement that chooses SimpleStrategy if the guardrails forbid this strategy.
fn check_strategy(properties: &[Property<'_>], guard: Guard<'_>) -> Result<()> {
    let is_simple = class_of(properties, "replication") == Some("SimpleStrategy");
    if is_simple { guard.require(Feature::SimpleStrategy) } else { Ok(()) }
}

fn check_table(context: &Context<'_>, statement: &CreateTable<'_>, guard: Guard<'_>) -> Result<()> {
    let properties = &statement.options.properties;
    check_compression(properties, guard)?;
    judge_properties(properties, guard)?;
    let name = &statement.name.name;
    guard.check(Limit::ColumnsPerTable, statement.columns.len(), name)?;
    check_number_of_tables(context, &statement.name, guard)?;
    if statement.options.compact_storage.is_some() {
        guard.require(Feature::CompactTables)?;
    }
    check_expiry(properties, guard)
}

fn check_number_of_tables(
    context: &Context<'_>,
    name: &QualifiedName<'_>,
    guard: Guard<'_>,
) -> Result<()> {
    let tables: usize = user_keyspaces(context).map(|keyspace| keyspace.tables.len()).sum();
    guard.check(Limit::Tables, tables + 1, &name.name)
}

fn check_change(statement: &AlterTable<'_>, guard: Guard<'_>) -> Result<()> {
    match &statement.change {
        TableChange::Add { .. } | TableChange::Drop { .. } | TableChange::Rename { .. } => {
            guard.require(Feature::AlterTable)
        }
        TableChange::Options(options) => {
            judge_properties(&options.properties, guard)?;
            check_expiry(&options.properties, guard)?;
            check_compression(&options.properties, guard)
        }
        _ => Ok(()),
    }
}

/// Checks the names of a view's options.
///
/// # Errors
/// A guardrail refuses a name.
pub(super) fn judge(context: &Context<'_>, properties: &[Property<'_>]) -> Result<()> {
    context.guard().map_or(Ok(()), |guard| judge_properties(properties, guard))
}

fn judge_properties(properties: &[Property<'_>], guard: Guard<'_>) -> Result<()> {
    let names: Vec<&str> = properties.iter().map(|property| property.name.as_str()).collect();
    guard.judge(Names::TableProperties, &names).map(drop)
}

/// Returns the properties that the guardrails do not ignore. [`check`] or [`judge`] has warned the
/// client of the ignored properties.
pub(super) fn unignored<'p, 't>(
    context: &Context<'_>,
    properties: &'p [Property<'t>],
) -> Vec<&'p Property<'t>> {
    let is_ignored = |property: &&Property<'_>| {
        let guard = context.guard().map(|guard| Guard { warnings: None, ..guard });
        let name = property.name.as_str();
        guard.is_some_and(|guard| {
            guard.judge(Names::TableProperties, &[name]).is_ok_and(|ignored| !ignored.is_empty())
        })
    };
    properties.iter().filter(|property| !is_ignored(property)).collect()
}

fn check_compression(properties: &[Property<'_>], guard: Guard<'_>) -> Result<()> {
    let is_off = |(key, value): &(_, _)| match <_ as AsRef<str>>::as_ref(key) {
        "enabled" => !<_ as AsRef<str>>::as_ref(value).eq_ignore_ascii_case("true"),
        "class" | "sstable_compression" => <_ as AsRef<str>>::as_ref(value).is_empty(),
        _ => false,
    };
    let compression = find_property(properties, "compression");
    let disables = compression.is_some_and(|property| match &property.value {
        PropertyValue::Map(entries) => entries.is_empty() || entries.iter().any(is_off),
        PropertyValue::Text(_) => false,
    });
    if disables { guard.require(Feature::UncompressedTables) } else { Ok(()) }
}

/// Checks a statement that chooses TimeWindowCompactionStrategy without a default time to live.
fn check_expiry(properties: &[Property<'_>], guard: Guard<'_>) -> Result<()> {
    let has_windows = class_of(properties, "compaction")
        .is_some_and(|class| class.ends_with("TimeWindowCompactionStrategy"));
    let ttl = find_property(properties, "default_time_to_live");
    let expires = ttl.is_some_and(|property| match &property.value {
        PropertyValue::Text(text) => text.trim() != "0",
        PropertyValue::Map(_) => false,
    });
    if has_windows && !expires { guard.require(Feature::ZeroTtlOnTwcs) } else { Ok(()) }
}

/// Checks the vectors of a type. Error texts call the column or field `what`, for example `Column
/// v`. The check looks into composites, tuples and collections that are written as classes, too;
/// Cassandra does not.
///
/// # Errors
/// Vectors are switched off, or a vector has too many dimensions.
pub(super) fn check_vectors(
    context: &Context<'_>,
    column_type: &CqlType,
    what: &str,
) -> Result<()> {
    let Some(guard) = context.guard() else { return Ok(()) };
    match column_type {
        CqlType::Vector { dimension, .. } => {
            guard.require_as(Feature::VectorType, what)?;
            guard.check(Limit::VectorDimensions, *dimension, what)?;
        }
        // The fields of a type of the keyspace were checked when the type was made.
        CqlType::UserDefined { .. } => return Ok(()),
        // A composite contains the definitions of its user types, so their fields are checked.
        CqlType::Composite(parts) => {
            let mut parts = parts.iter().map(CqlType::without_user_types);
            return parts.try_for_each(|part| check_vectors(context, &part, what));
        }
        _ => {}
    }
    column_type.parts().try_for_each(|part| check_vectors(context, part, what))
}

/// Checks the numbers of replicas of a keyspace, and warns of a number above one, because there is
/// one node.
///
/// # Errors
/// A guardrail refuses a number because it is too small or too large.
pub(super) fn check_replication(context: &Context<'_>, keyspace: &KeyspaceMetadata) -> Result<()> {
    let Some(guard) = context.guard() else { return Ok(()) };
    let class = keyspace.replication.get("class").map_or("", String::as_str);
    let is_simple = class.ends_with(".SimpleStrategy");
    if !is_simple && !class.ends_with(".NetworkTopologyStrategy") {
        return Ok(());
    }
    let factors = keyspace.replication.iter().filter(|(name, _)| *name != "class");
    let factors = factors.filter_map(|(name, factor)| Some((name, factor.parse::<i64>().ok()?)));
    let name = &keyspace.name;
    for (_, factor) in factors.clone() {
        guard.check(Limit::MinimumReplicationFactor, factor, name)?;
        guard.check(Limit::MaximumReplicationFactor, factor, name)?;
    }
    for (data_center, factor) in factors.filter(|(_, factor)| *factor > 1) {
        let place = match data_center.as_str() {
            _ if is_simple => "",
            DATA_CENTER => " for datacenter datacenter1",
            _ => continue,
        };
        guard.warn(format!(
            "Your replication factor {factor} for keyspace {name} is higher than the number of nodes 1{place}"
        ));
    }
    Ok(())
}
