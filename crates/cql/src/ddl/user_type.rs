//! User-defined types. A change of a type also changes every type and table that uses it.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, TableMetadata};
use espalier_types::{CqlType, UserType};
use hashbrown::HashSet;

use super::{
    Context, Outcome, check_changeable, check_name_length, guardrails,
    type_check::{check_field, check_field_count, check_table, check_types},
    unchanged_if, unreadable,
};
use crate::{
    ChangeKind, ChangeTarget, Error, Result,
    grammar::ast::{AlterType, CreateType, DropType, Name, TypeChange, TypeName},
    term::resolve_type,
};

/// Executes CREATE TYPE.
///
/// # Errors
/// The keyspace does not exist or is a system keyspace, the type exists and the statement lacks IF
/// NOT EXISTS, its name or a field is invalid, or it exceeds the limits of types.
pub fn create(context: &Context<'_>, statement: &CreateType<'_>) -> Outcome {
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let name = statement.name.name.as_str();
    check_name_length(context.text, &statement.name.name)?;
    if keyspace.types.contains_key(name) {
        let message = format!("A user type with name '{name}' already exists");
        return unchanged_if(statement.if_not_exists, Error::invalid(message));
    }
    if let Some(reason) = keyspace.unreadable.types.get(name) {
        return Err(unreadable("Type", &keyspace.name, name, reason));
    }
    check_field_count(statement.fields.len())?;
    let mut fields: Vec<(String, CqlType)> = Vec::with_capacity(statement.fields.len());
    let mut names = HashSet::with_capacity(statement.fields.len());
    for (field, type_name) in &statement.fields {
        if !names.insert(field.as_str()) {
            return Err(context.invalid(
                field.position,
                format!("Duplicate field name '{field}' in type '{name}'"),
            ));
        }
        let field_type = resolve_field(context, keyspace, field, type_name)?;
        fields.push((field.as_str().to_string(), field_type));
    }
    let definition = UserType { keyspace: keyspace.name.clone(), name: name.to_string(), fields };
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.types.insert(name.to_string(), Arc::new(definition));
    check_types(&keyspace).map_err(Error::invalid)?;
    context.with_keyspace(keyspace, ChangeKind::Created, ChangeTarget::Type, name)
}

/// Resolves the type of a field that a statement declares.
fn resolve_field(
    context: &Context<'_>,
    keyspace: &KeyspaceMetadata,
    field: &Name<'_>,
    type_name: &TypeName<'_>,
) -> Result<CqlType> {
    check_name_length(context.text, field)?;
    let field_type = resolve_type(context.text, context.schema, &keyspace.name, type_name)?;
    check_field(&field_type).map_err(|reason| context.invalid(field.position, reason))?;
    guardrails::check_vectors(context, &field_type, &format!("Field {field}"))?;
    Ok(field_type)
}

/// Executes ALTER TYPE.
///
/// # Errors
/// The keyspace is not given or is a system keyspace, the type does not exist and the statement
/// lacks IF EXISTS, a definition that the node cannot read may use it, or the change would make
/// this type, or a type or table that uses it, invalid.
pub fn alter(context: &Context<'_>, statement: &AlterType<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace_name = context.keyspace_name(&statement.name)?;
    check_changeable(keyspace_name)?;
    let found = context.schema.keyspace(keyspace_name);
    let found = found.and_then(|keyspace| Some((keyspace, keyspace.types.get(name)?)));
    let Some((keyspace, old)) = found else {
        let message = format!("Type {keyspace_name}.{name} doesn't exist");
        let missing = context.invalid(statement.name.position(), message);
        return unchanged_if(statement.if_exists, missing);
    };
    check_unreadable(keyspace, "alter", name)?;
    let altered = match &statement.change {
        TypeChange::Add { if_not_exists, field, type_name } => {
            match add_field(context, keyspace, old, field, type_name)? {
                Some(altered) => altered,
                None if *if_not_exists => return Ok(None),
                None => {
                    return Err(context.invalid(
                        field.position,
                        format!(
                            "Cannot add field {field} to type {keyspace_name}.{name}: a field with name {field} already exists"
                        ),
                    ));
                }
            }
        }
        TypeChange::Rename { if_exists, fields } => {
            rename_fields(context, old, *if_exists, fields)?
        }
        TypeChange::FieldType { .. } => {
            return Err(Error::invalid("Altering field types is no longer supported"));
        }
    };
    if altered == **old {
        return Ok(None);
    }
    let keyspace = replace_type(keyspace, altered);
    check_types(&keyspace).map_err(Error::invalid)?;
    for table in keyspace.tables.values().filter(|table| table_uses(table, name)) {
        check_table(table).map_err(Error::invalid)?;
    }
    context.with_keyspace(keyspace, ChangeKind::Updated, ChangeTarget::Type, name)
}

/// Returns the type with one more field; `None` if a field has that name already.
fn add_field(
    context: &Context<'_>,
    keyspace: &KeyspaceMetadata,
    old: &UserType,
    field: &Name<'_>,
    type_name: &TypeName<'_>,
) -> Result<Option<UserType>> {
    if old.fields.iter().any(|(other, _)| other == field.as_str()) {
        return Ok(None);
    }
    let field_type = resolve_field(context, keyspace, field, type_name)?;
    let name = format!("{}.{}", keyspace.name, old.name);
    let refuse = |reason: String| {
        let message = format!(
            "Cannot add new field {field} of type {} to user type {name} as {reason}",
            field_type.cql_name()
        );
        Err(context.invalid(field.position, message))
    };
    if refers_to(&field_type, &keyspace.name, &old.name) {
        return refuse("it would create a circular reference".into());
    }
    // The types of partition keys get no field: it would change the bytes by which keys compare.
    let keyed: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| {
            let mut columns = table.partition_key_columns().iter();
            columns.any(|column| refers_to(&column.column_type, &keyspace.name, &old.name))
        })
        .map(|table| format!("{}.{}", table.keyspace, table.name))
        .collect();
    if !keyed.is_empty() {
        return refuse(format!(
            "the type is being used in partition key by the following tables: {}",
            keyed.join(", ")
        ));
    }
    let mut altered = old.clone();
    altered.fields.push((field.as_str().to_string(), field_type));
    Ok(Some(altered))
}

/// Returns the type with renamed fields. All renames happen at once: `a TO b AND b TO a` swaps two
/// fields. If a field gets two new names, the last one wins.
fn rename_fields(
    context: &Context<'_>,
    old: &UserType,
    if_exists: bool,
    fields: &[(Name<'_>, Name<'_>)],
) -> Result<UserType> {
    let mut altered = old.clone();
    for (from, to) in fields {
        check_name_length(context.text, to)?;
        let index = old.fields.iter().position(|(name, _)| name == from.as_str());
        match index.and_then(|index| altered.fields.get_mut(index)) {
            Some((name, _)) => *name = to.as_str().to_string(),
            None if if_exists => {}
            None => {
                // The misspelling is Cassandra's.
                let message =
                    format!("Unkown field {from} in user type {}.{}", old.keyspace, old.name);
                return Err(context.invalid(from.position, message));
            }
        }
    }
    let twice = {
        let mut names = HashSet::with_capacity(altered.fields.len());
        let twice = altered.fields.iter().find(|(name, _)| !names.insert(name.as_str()));
        twice.map(|(name, _)| name.clone())
    };
    if let Some(name) = twice {
        // Cassandra's text names the keyspace.
        let message = format!("Duplicate field name {name} in type {}", old.keyspace);
        return Err(Error::invalid(message));
    }
    Ok(altered)
}

/// Refuses to change a type in a keyspace with tables or types that the node cannot read, because
/// they may use it.
fn check_unreadable(keyspace: &KeyspaceMetadata, action: &str, name: &str) -> Result<()> {
    let unreadable = &keyspace.unreadable;
    let mut names = unreadable.tables.keys().chain(unreadable.types.keys());
    match names.next() {
        None => Ok(()),
        Some(user) => Err(Error::invalid(format!(
            "Cannot {action} user type '{}.{name}' while '{}.{user}' cannot be read and may use it",
            keyspace.name, keyspace.name
        ))),
    }
}

/// Executes DROP TYPE.
///
/// # Errors
/// The keyspace is not given or is a system keyspace, the type does not exist and the statement
/// lacks IF EXISTS, or a type or table uses it or may use it.
pub fn drop(context: &Context<'_>, statement: &DropType<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace_name = context.keyspace_name(&statement.name)?;
    check_changeable(keyspace_name)?;
    let found = context.schema.keyspace(keyspace_name);
    let Some(keyspace) = found.filter(|keyspace| {
        keyspace.types.contains_key(name) || keyspace.unreadable.types.contains_key(name)
    }) else {
        let message = format!("Type '{keyspace_name}.{name}' doesn't exist");
        let missing = context.invalid(statement.name.position(), message);
        return unchanged_if(statement.if_exists, missing);
    };
    if keyspace.types.contains_key(name) {
        check_unreadable(keyspace, "drop", name)?;
    }
    let types = keyspace.types.values().filter(|other| has_field_of(other, &keyspace.name, name));
    let tables = keyspace.tables.values().filter(|table| table_uses(table, name));
    let types: Vec<&str> = types.map(|other| other.name.as_str()).collect();
    let tables: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
    for (kind, users) in [("user types", types), ("tables", tables)] {
        if !users.is_empty() {
            return Err(Error::invalid(format!(
                "Cannot drop user type '{}.{name}' as it is still used by {kind} {}",
                keyspace.name,
                users.join(", ")
            )));
        }
    }
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.types.remove(name);
    keyspace.unreadable.types.remove(name);
    context.with_keyspace(keyspace, ChangeKind::Dropped, ChangeTarget::Type, name)
}

fn table_uses(table: &TableMetadata, name: &str) -> bool {
    table.columns().iter().any(|column| refers_to(&column.column_type, &table.keyspace, name))
}

/// Returns whether a field of a user type has another user type, or contains it.
fn has_field_of(definition: &UserType, keyspace: &str, name: &str) -> bool {
    definition.field_types().any(|field| refers_to(field, keyspace, name))
}

fn refers_to(column_type: &CqlType, keyspace: &str, name: &str) -> bool {
    let is_it = match column_type {
        CqlType::UserDefined { definition, .. } => {
            definition.name == name && definition.keyspace == keyspace
        }
        _ => false,
    };
    is_it || column_type.parts().any(|part| refers_to(part, keyspace, name))
}

/// Replaces a type wherever the keyspace uses it.
fn replace_type(keyspace: &KeyspaceMetadata, definition: UserType) -> KeyspaceMetadata {
    let (owner, name) = (keyspace.name.clone(), definition.name.clone());
    let definition = Arc::new(definition);
    let mut types: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    for (other, user_type) in &keyspace.types {
        let replaced = if *other == name {
            definition.clone()
        } else if has_field_of(user_type, &owner, &name) {
            Arc::new(with_field_types(user_type, |field| replace(field, &definition)))
        } else {
            user_type.clone()
        };
        types.insert(other.clone(), replaced);
    }
    let tables = keyspace
        .tables
        .iter()
        .map(|(table_name, table)| {
            let table = if table_uses(table, &name) {
                let change = |column: &mut espalier_mutation::schema::ColumnDefinition| {
                    column.column_type = replace(&column.column_type, &definition);
                };
                Arc::new(table.rebuild().update_columns(change).build())
            } else {
                table.clone()
            };
            (table_name.clone(), table)
        })
        .collect();
    KeyspaceMetadata { types, tables, ..keyspace.clone() }
}

fn replace(column_type: &CqlType, definition: &Arc<UserType>) -> CqlType {
    let inner = |part: &CqlType| replace(part, definition);
    match column_type {
        CqlType::List { element, frozen } => {
            CqlType::List { element: Arc::new(inner(element)), frozen: *frozen }
        }
        CqlType::Set { element, frozen } => {
            CqlType::Set { element: Arc::new(inner(element)), frozen: *frozen }
        }
        CqlType::Map { key, value, frozen } => CqlType::Map {
            key: Arc::new(inner(key)),
            value: Arc::new(inner(value)),
            frozen: *frozen,
        },
        CqlType::Vector { element, dimension } => {
            CqlType::Vector { element: Arc::new(inner(element)), dimension: *dimension }
        }
        CqlType::Tuple(parts) => CqlType::Tuple(parts.iter().map(inner).collect()),
        CqlType::Composite(parts) => CqlType::Composite(parts.iter().map(inner).collect()),
        CqlType::UserDefined { definition: old, frozen }
            if old.name == definition.name && old.keyspace == definition.keyspace =>
        {
            // Inside a frozen value every type is frozen.
            let definition = if *frozen {
                Arc::new(with_field_types(definition, CqlType::freeze))
            } else {
                definition.clone()
            };
            CqlType::UserDefined { definition, frozen: *frozen }
        }
        CqlType::UserDefined { definition: old, frozen } => {
            let definition = Arc::new(with_field_types(old, inner));
            CqlType::UserDefined { definition, frozen: *frozen }
        }
        other => other.clone(),
    }
}

/// Returns the user type with the type of each field changed.
fn with_field_types(definition: &UserType, change: impl Fn(&CqlType) -> CqlType) -> UserType {
    let fields = definition.fields.iter().map(|(field, t)| (field.clone(), change(t))).collect();
    UserType { fields, ..definition.clone() }
}
