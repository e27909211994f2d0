//! User-defined types. Altering one alters every type and table that uses it.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::schema::{KeyspaceMetadata, TableMetadata};
use espalier_types::{CqlType, UserType};

use super::{
    Context, Outcome, changed, check_name,
    type_size::{check_field_count, check_keyspace, check_size},
};
use crate::{
    ChangeKind, ChangeTarget, Error, Result,
    grammar::ast::{AlterType, CreateType, DropType, TypeChange},
    term::resolve_type,
};

pub fn create(context: &Context<'_>, statement: &CreateType<'_>) -> Outcome {
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let name = statement.name.name.as_str();
    check_name("Type", name)?;
    if keyspace.types.contains_key(name) {
        let message = format!("A user type with name '{name}' already exists");
        return if statement.if_not_exists { Ok(None) } else { Err(Error::invalid(message)) };
    }
    check_field_count(statement.fields.len())?;
    let mut fields: Vec<(String, CqlType)> = Vec::with_capacity(statement.fields.len());
    for (field, type_name) in &statement.fields {
        if fields.iter().any(|(other, _)| other == field.as_str()) {
            return Err(Error::invalid_at(
                context.text,
                field.position,
                format!("Duplicate field name {field} in type '{name}'"),
            ));
        }
        let field_type = resolve_type(context.text, context.schema, &keyspace.name, type_name)?;
        check_field(context, field.position, name, field.as_str(), &field_type)?;
        fields.push((field.as_str().to_string(), field_type));
    }
    let definition = UserType { keyspace: keyspace.name.clone(), name: name.to_string(), fields };
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.types.insert(name.to_string(), Arc::new(definition));
    check_keyspace(&keyspace)?;
    let change = changed(ChangeKind::Created, ChangeTarget::Type, &keyspace.name, name);
    let keyspace_name = keyspace.name.clone();
    Ok(Some((context.with_keyspace(&keyspace_name, Some(keyspace)), change)))
}

fn check_field(
    context: &Context<'_>,
    position: crate::grammar::ast::Position,
    type_name: &str,
    field: &str,
    field_type: &CqlType,
) -> Result<()> {
    check_size(field_type)?;
    if field_type.is_counter() {
        return Err(Error::invalid_at(
            context.text,
            position,
            "A user type cannot contain counters",
        ));
    }
    if matches!(field_type, CqlType::UserDefined { frozen: false, .. }) {
        let message = format!(
            "A user type cannot contain non-frozen UDTs: field {field} of '{type_name}'; write frozen<{}>",
            field_type.cql_name()
        );
        return Err(Error::invalid_at(context.text, position, message));
    }
    Ok(())
}

pub fn alter(context: &Context<'_>, statement: &AlterType<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace = context.changeable_keyspace(&statement.name)?;
    let Some(old) = keyspace.types.get(name) else {
        let message = format!("Type {}.{name} doesn't exist", keyspace.name);
        return if statement.if_exists {
            Ok(None)
        } else {
            Err(Error::invalid_at(context.text, statement.name.position(), message))
        };
    };
    let mut definition = old.as_ref().clone();
    match &statement.change {
        TypeChange::Add { if_not_exists, field, type_name } => {
            if definition.fields.iter().any(|(other, _)| other == field.as_str()) {
                if *if_not_exists {
                    return Ok(None);
                }
                return Err(Error::invalid_at(
                    context.text,
                    field.position,
                    format!(
                        "Cannot add field {field} to type {name}: a field with name {field} already exists"
                    ),
                ));
            }
            let field_type = resolve_type(context.text, context.schema, &keyspace.name, type_name)?;
            check_field(context, field.position, name, field.as_str(), &field_type)?;
            if refers_to(&field_type, &keyspace.name, name) {
                return Err(Error::invalid_at(
                    context.text,
                    field.position,
                    format!(
                        "Cannot add new field {field} of type {} to user type {name} as it would create a circular reference",
                        field_type.cql_name()
                    ),
                ));
            }
            definition.fields.push((field.as_str().to_string(), field_type));
        }
        TypeChange::Rename { if_exists, fields } => {
            for (from, to) in fields {
                if definition.fields.iter().any(|(other, _)| other == to.as_str()) {
                    return Err(Error::invalid_at(
                        context.text,
                        to.position,
                        format!(
                            "Unable to rename field {from} to {to} of type {name}: it exists already"
                        ),
                    ));
                }
                match definition.fields.iter_mut().find(|(other, _)| other == from.as_str()) {
                    Some((field, _)) => *field = to.as_str().to_string(),
                    None if *if_exists => {}
                    None => {
                        return Err(Error::invalid_at(
                            context.text,
                            from.position,
                            format!("Unknown field {from} in user type {name}"),
                        ));
                    }
                }
            }
        }
        TypeChange::FieldType { .. } => {
            return Err(Error::invalid("Altering field types is no longer supported"));
        }
    }
    let keyspace = replace_type(keyspace, definition);
    check_keyspace(&keyspace)?;
    let change = changed(ChangeKind::Updated, ChangeTarget::Type, &keyspace.name, name);
    let keyspace_name = keyspace.name.clone();
    Ok(Some((context.with_keyspace(&keyspace_name, Some(keyspace)), change)))
}

pub fn drop(context: &Context<'_>, statement: &DropType<'_>) -> Outcome {
    let name = statement.name.name.as_str();
    let keyspace = context.changeable_keyspace(&statement.name)?;
    if !keyspace.types.contains_key(name) {
        let message = format!("Type '{}.{name}' doesn't exist", keyspace.name);
        return if statement.if_exists {
            Ok(None)
        } else {
            Err(Error::invalid_at(context.text, statement.name.position(), message))
        };
    }
    let users: Vec<&str> = keyspace
        .types
        .values()
        .filter(|other| {
            other.fields.iter().any(|(_, field)| refers_to(field, &keyspace.name, name))
        })
        .map(|other| other.name.as_str())
        .chain(
            keyspace
                .tables
                .values()
                .filter(|table| table_uses(table, name))
                .map(|table| table.name.as_str()),
        )
        .collect();
    if !users.is_empty() {
        return Err(Error::invalid(format!(
            "Cannot drop user type '{}.{name}' as it is still used by {}",
            keyspace.name,
            users.join(", ")
        )));
    }
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.types.remove(name);
    let change = changed(ChangeKind::Dropped, ChangeTarget::Type, &keyspace.name, name);
    let keyspace_name = keyspace.name.clone();
    Ok(Some((context.with_keyspace(&keyspace_name, Some(keyspace)), change)))
}

fn table_uses(table: &TableMetadata, name: &str) -> bool {
    table.columns().iter().any(|column| refers_to(&column.column_type, &table.keyspace, name))
}

fn refers_to(column_type: &CqlType, keyspace: &str, name: &str) -> bool {
    match column_type {
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => refers_to(element, keyspace, name),
        CqlType::Map { key, value, .. } => {
            refers_to(key, keyspace, name) || refers_to(value, keyspace, name)
        }
        CqlType::Tuple(parts) | CqlType::Composite(parts) => {
            parts.iter().any(|part| refers_to(part, keyspace, name))
        }
        CqlType::UserDefined { definition, .. } => {
            (definition.name == name && definition.keyspace == keyspace)
                || definition.fields.iter().any(|(_, field)| refers_to(field, keyspace, name))
        }
        _ => false,
    }
}

/// Puts a changed type everywhere it is used.
fn replace_type(keyspace: &KeyspaceMetadata, definition: UserType) -> KeyspaceMetadata {
    let (owner, name) = (keyspace.name.clone(), definition.name.clone());
    let definition = Arc::new(definition);
    let mut types: BTreeMap<String, Arc<UserType>> = BTreeMap::new();
    for (other, user_type) in &keyspace.types {
        let replaced = if *other == name {
            definition.clone()
        } else if user_type.fields.iter().any(|(_, field)| refers_to(field, &owner, &name)) {
            let fields = user_type
                .fields
                .iter()
                .map(|(field, t)| (field.clone(), replace(t, &definition)))
                .collect();
            Arc::new(UserType { fields, ..user_type.as_ref().clone() })
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
            // Inside a frozen value everything is frozen.
            let definition =
                if *frozen { Arc::new(frozen_definition(definition)) } else { definition.clone() };
            CqlType::UserDefined { definition, frozen: *frozen }
        }
        CqlType::UserDefined { definition: old, frozen } => {
            let fields = old.fields.iter().map(|(field, t)| (field.clone(), inner(t))).collect();
            let definition = Arc::new(UserType { fields, ..old.as_ref().clone() });
            CqlType::UserDefined { definition, frozen: *frozen }
        }
        other => other.clone(),
    }
}

fn frozen_definition(definition: &UserType) -> UserType {
    let fields = definition.fields.iter().map(|(field, t)| (field.clone(), t.freeze())).collect();
    UserType { fields, ..definition.clone() }
}
