//! CREATE TABLE ... LIKE: creates a table with the columns, constraints, masks and options of
//! another table, and on request with copies of its indexes, comments and security labels.

use std::collections::BTreeSet;

use espalier_mutation::schema::{
    Annotated, Annotation, ColumnKind, KeyspaceMetadata, TableBuilder, TableId, TableMetadata,
};
use espalier_runtime::random;
use espalier_types::{CqlType, UserType};

use super::{
    Context, Outcome, already_exists, check_changeable, check_table_name, create_index, guardrails,
    is_system_keyspace,
    options::{check_counter_options, check_no_id, set_options},
    unchanged_if, unreadable,
};
use crate::{
    ChangeKind, Error, Result,
    grammar::ast::{CopiedPart, CreateTableLike, QualifiedName},
};

/// Executes CREATE TABLE ... LIKE. The new table is empty, and its definition has no dropped
/// columns.
///
/// # Errors
/// A keyspace or the source does not exist, users may not change the target's keyspace, the table
/// exists and the statement lacks IF NOT EXISTS, a user type of the source is missing in the
/// target's keyspace or differs there, or an option is invalid.
pub(super) fn create(context: &Context<'_>, statement: &CreateTableLike<'_>) -> Outcome {
    let source_keyspace = context.keyspace_name(&statement.source)?;
    let target_keyspace = context.keyspace_name(&statement.name)?;
    check_changeable(target_keyspace)?;
    let invalid =
        |name: &QualifiedName<'_>, message: String| context.invalid(name.position(), message);
    let source_owner = context
        .schema
        .keyspace(source_keyspace)
        .filter(|keyspace| !is_system_keyspace(&keyspace.name))
        .ok_or_else(|| {
            let message = format!("Source Keyspace '{source_keyspace}' doesn't exist");
            invalid(&statement.source, message)
        })?;
    let source_name = statement.source.name.as_str();
    let source =
        source_owner.tables.get(source_name).filter(|table| !table.is_view()).ok_or_else(|| {
            let message = format!("Source Table '{source_keyspace}.{source_name}' doesn't exist");
            invalid(&statement.source, message)
        })?;
    let target = context.schema.keyspace(target_keyspace).ok_or_else(|| {
        let message = format!("Target Keyspace '{target_keyspace}' doesn't exist");
        invalid(&statement.name, message)
    })?;
    let name = statement.name.name.as_str();
    check_table_name(target_keyspace, name)?;
    if target.tables.contains_key(name) {
        return unchanged_if(statement.if_not_exists, already_exists(target_keyspace, name));
    }
    if let Some(table) = target.unreadable.tables.get(name) {
        return Err(unreadable("Table", target_keyspace, name, &table.reason));
    }
    check_no_id(&statement.options.properties)?;
    if source_keyspace != target_keyspace {
        check_types(source, source_owner, target)
            .map_err(|message| invalid(&statement.source, message))?;
    }
    let properties = guardrails::unignored(context, &statement.options.properties);
    let options = set_options(context, source.options.clone(), &properties)?;
    check_counter_options(source.is_counter(), &options)?;
    let mut indexes = Vec::new();
    if statement.copied.contains(&CopiedPart::Indexes) {
        indexes = create_index::copied(source, target, name)?;
    }
    let table = copy(source, target, name)?.layout(source.layout).options(options);
    let table = table.indexes(indexes).build();
    let owner = with_annotations(statement, source_owner, target);
    context.with_table(&owner, table, ChangeKind::Created)
}

/// Returns the target's keyspace with the texts that the statement copies: the comments and labels
/// of columns, and the label of the table. The comment of the table is copied with its options.
fn with_annotations(
    statement: &CreateTableLike<'_>,
    source: &KeyspaceMetadata,
    target: &KeyspaceMetadata,
) -> KeyspaceMetadata {
    let mut owner = target.clone();
    let comments = statement.copied.contains(&CopiedPart::Comments);
    let labels = statement.copied.contains(&CopiedPart::SecurityLabels);
    let name = statement.name.name.as_str();
    for (object, annotation) in &source.annotations {
        let object = match object {
            Annotated::Table(table) if table == statement.source.name.as_str() => {
                Annotated::Table(name.into())
            }
            Annotated::Column(table, column) if table == statement.source.name.as_str() => {
                Annotated::Column(name.into(), column.clone())
            }
            _ => continue,
        };
        let text = |is_copied, text: &String| if is_copied { text.clone() } else { String::new() };
        let annotation = Annotation {
            comment: text(comments, &annotation.comment),
            security_label: text(labels, &annotation.security_label),
        };
        if !annotation.is_empty() {
            owner.annotations.insert(object, annotation);
        }
    }
    owner
}

/// Returns the builder of a table in the keyspace `target`, with the columns, constraints and masks
/// of `source`.
fn copy(source: &TableMetadata, target: &KeyspaceMetadata, name: &str) -> Result<TableBuilder> {
    let id = TableId(random::timeuuid_now());
    let mut builder = TableBuilder::new(target.name.as_str(), name, id);
    for column in source.columns() {
        let column_type = if source.keyspace == target.name {
            column.column_type.clone()
        } else {
            let resolve = |name: &str| target.types.get(name).cloned();
            CqlType::parse_cql(&column.column_type.cql_name(), &target.name, &resolve)
                .map_err(|error| Error::invalid(format!("column {}: {error}", column.name)))?
        };
        builder = match column.kind {
            ColumnKind::PartitionKey => builder.partition_key(&column.name, column_type),
            ColumnKind::Clustering => {
                builder.clustering(&column.name, column_type, column.reversed)
            }
            ColumnKind::Static => builder.static_column(&column.name, column_type),
            ColumnKind::Regular => builder.regular(&column.name, column_type),
        };
        builder = builder
            .constrain(&column.name, source.constraints_of(column).to_vec())
            .mask(&column.name, source.mask_of(column).cloned());
    }
    Ok(builder)
}

/// Checks that the user types of a table exist in the keyspace of its copy, with the same fields.
fn check_types(
    table: &TableMetadata,
    source: &KeyspaceMetadata,
    target: &KeyspaceMetadata,
) -> Result<(), String> {
    let mut used = BTreeSet::new();
    for column in table.columns() {
        add_types(&column.column_type, &mut used);
    }
    let missing: Vec<&str> =
        used.iter().map(String::as_str).filter(|name| !target.types.contains_key(*name)).collect();
    if !missing.is_empty() {
        return Err(format!(
            "UDTs {} do not exist in target keyspace '{}'.",
            missing.join(", "),
            target.name
        ));
    }
    let same = |name: &String| match (source.types.get(name), target.types.get(name)) {
        (Some(left), Some(right)) => fields(left).eq(fields(right)),
        _ => false,
    };
    match used.iter().find(|name| !same(name)) {
        Some(name) => Err(format!(
            "Target keyspace '{}' has same UDT name '{name}' as source keyspace '{}' but with different structure.",
            target.name, source.name
        )),
        None => Ok(()),
    }
}

/// Returns the fields with the CQL names of their types. These names do not contain the keyspace.
fn fields(definition: &UserType) -> impl Iterator<Item = (&str, String)> {
    definition.fields.iter().map(|(name, field_type)| (name.as_str(), field_type.cql_name()))
}

/// Adds the names of the user types in a type, except those in a composite. The CQL name of a
/// composite, a Java class, contains the definitions of its user types.
fn add_types(column_type: &CqlType, used: &mut BTreeSet<String>) {
    if let CqlType::UserDefined { definition, .. } = column_type {
        used.insert(definition.name.clone());
    }
    if !matches!(column_type, CqlType::Composite(_)) {
        column_type.parts().for_each(|part| add_types(part, used));
    }
}
