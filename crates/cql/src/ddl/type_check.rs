//! Checks the types of columns, fields and keys. The error texts are Cassandra's, with a remedy
//! where there is one.
//!
//! Each reader of type names can read a type that this module accepts, because the module applies
//! the limits of [`espalier_types::type_name`] to the type with all user types inside it.

use espalier_mutation::schema::{KeyspaceMetadata, TableMetadata};
use espalier_types::{
    CqlType, UserType,
    type_name::{MAX_TYPE_DEPTH, MAX_TYPE_PARTS, TypeLimitError},
};

use crate::{Error, Result, grammar::MAX_NESTING};

// DESCRIBE prints two levels of text for each level of a frozen type, and its output must parse.
const _: () = assert!(2 * MAX_TYPE_DEPTH <= MAX_NESTING as usize);

/// The result of a check; the error is the reason without its place in the statement.
pub type Refusal = std::result::Result<(), String>;

fn text_of(error: TypeLimitError) -> String {
    error.to_string()
}

/// Refuses a user type with more fields than a type may have parts.
///
/// # Errors
/// `count` is above [`MAX_TYPE_PARTS`].
pub fn check_field_count(count: usize) -> Result<()> {
    if count > MAX_TYPE_PARTS {
        return Err(Error::invalid(TypeLimitError::Parts.to_string()));
    }
    Ok(())
}

/// Checks the type of a column that is not in the primary key.
///
/// # Errors
/// The type exceeds the limits of types, its parts are refused by [`check_nested`], or it is a UDT
/// that is not frozen and has a collection that is not frozen.
pub fn check_column(column_type: &CqlType) -> Refusal {
    column_type.check_limits().map_err(text_of)?;
    check_nested(column_type)?;
    if let CqlType::UserDefined { definition, frozen: false } = column_type
        && let Some((_, field)) = definition.fields.iter().find(|(_, field)| field.is_multi_cell())
    {
        return Err(format!(
            "Non-frozen UDTs with nested non-frozen collections are not supported: write frozen<{}> for the column, or frozen<{}> in CREATE TYPE",
            column_type.cql_name(),
            field.cql_name()
        ));
    }
    Ok(())
}

/// Checks the type of a column of the primary key.
///
/// # Errors
/// The type exceeds the limits of types, its parts are refused by [`check_nested`], or it is a
/// counter, has a duration or is not frozen.
pub fn check_key(column: &str, column_type: &CqlType) -> Refusal {
    column_type.check_limits().map_err(text_of)?;
    check_nested(column_type)?;
    let key = format!("PRIMARY KEY column '{column}'");
    if column_type.is_counter() {
        return Err(format!("counter type is not supported for {key}"));
    }
    let name = column_type.cql_name();
    match column_type {
        CqlType::UserDefined { definition, frozen: false } => Err(format!(
            "Invalid non-frozen user-defined type \"{}.{name}\" for {key}: write frozen<{name}>",
            definition.keyspace
        )),
        _ if column_type.is_multi_cell() => Err(format!(
            "Invalid non-frozen collection type {name} for {key}: write frozen<{name}>"
        )),
        _ if contains_duration(column_type) => {
            Err(format!("duration type is not supported for {key}"))
        }
        _ => Ok(()),
    }
}

/// Checks the type of a field of a user type.
///
/// # Errors
/// The type exceeds the limits of types, its parts are refused by [`check_nested`], or it is a
/// counter or a UDT that is not frozen.
pub fn check_field(field_type: &CqlType) -> Refusal {
    field_type.check_limits().map_err(text_of)?;
    if field_type.is_counter() {
        return Err("A user type cannot contain counters".into());
    }
    if matches!(field_type, CqlType::UserDefined { frozen: false, .. }) {
        let name = field_type.cql_name();
        return Err(format!("A user type cannot contain non-frozen UDTs; write frozen<{name}>"));
    }
    check_nested(field_type)
}

/// Checks a table after a change of a user type that its columns may have.
///
/// # Errors
/// As [`check_key`] and [`check_column`], for any column.
pub fn check_table(table: &TableMetadata) -> Refusal {
    for column in table.columns() {
        let column_type = &column.column_type;
        let checked = if column.is_primary_key() {
            check_key(&column.name, column_type)
        } else {
            check_column(column_type)
        };
        checked.map_err(|reason| format!("{reason} (column {} of {})", column.name, table.name))?;
    }
    Ok(())
}

/// Checks the size of all user types of a keyspace, because a changed type may be a part of other
/// types.
///
/// # Errors
/// A type exceeds the limits of types.
pub fn check_types(keyspace: &KeyspaceMetadata) -> Refusal {
    for definition in keyspace.types.values() {
        check_definition(definition).map_err(text_of)?;
    }
    Ok(())
}

fn check_definition(definition: &UserType) -> std::result::Result<(), TypeLimitError> {
    let mut parts = 1;
    definition.field_types().try_for_each(|field| field.check_limits_inside(1, &mut parts))
}

/// Checks the parts of collections, vectors, tuples and composites, however deep. The fields of a
/// type of the keyspace were checked when the type was made. The fields of a user type inside a
/// composite are not checked.
///
/// # Errors
/// A part is a counter, is a collection or UDT that has to be frozen, or is a duration in a set or
/// as the key of a map.
pub fn check_nested(column_type: &CqlType) -> Refusal {
    match column_type {
        CqlType::List { element, .. } => check_part(column_type, element)?,
        CqlType::Set { element, .. } => {
            check_part(column_type, element)?;
            if matches!(**element, CqlType::Duration) {
                let name = column_type.cql_name();
                return Err(format!("Durations are not allowed inside sets: {name}"));
            }
        }
        CqlType::Map { key, value, .. } => {
            check_part(column_type, key)?;
            check_part(column_type, value)?;
            if matches!(**key, CqlType::Duration) {
                let name = column_type.cql_name();
                return Err(format!("Durations are not allowed as map keys: {name}"));
            }
        }
        CqlType::Tuple(parts) if parts.iter().any(CqlType::is_counter) => {
            return Err("Counters are not allowed inside tuples".into());
        }
        CqlType::UserDefined { .. } => return Ok(()),
        _ => {}
    }
    column_type.parts().try_for_each(check_nested)
}

/// Checks an element, key or value of a collection.
fn check_part(collection: &CqlType, part: &CqlType) -> Refusal {
    if part.is_counter() {
        let name = collection.cql_name();
        return Err(format!("Counters are not allowed inside collections: {name}"));
    }
    if !part.is_multi_cell() {
        return Ok(());
    }
    let what = if part.is_collection() { "collections" } else { "UDTs" };
    let name = collection.cql_name();
    Err(format!(
        "Non-frozen {what} are not allowed inside collections: {name}; write {}",
        with_frozen_parts(collection)
    ))
}

/// Returns the CQL name of a collection with frozen parts, for the hint in an error.
fn with_frozen_parts(collection: &CqlType) -> String {
    let frozen = |part: &CqlType| {
        if part.is_multi_cell() { format!("frozen<{}>", part.cql_name()) } else { part.cql_name() }
    };
    match collection {
        CqlType::List { element, .. } => format!("list<{}>", frozen(element)),
        CqlType::Set { element, .. } => format!("set<{}>", frozen(element)),
        CqlType::Map { key, value, .. } => format!("map<{}, {}>", frozen(key), frozen(value)),
        other => frozen(other),
    }
}

/// Returns whether a type is or contains a duration where Cassandra looks for one: in lists, maps,
/// tuples and user types, but not in sets and vectors. Looks also in composites, unlike Cassandra.
pub(crate) fn contains_duration(column_type: &CqlType) -> bool {
    match column_type {
        CqlType::Duration => true,
        CqlType::Set { .. } | CqlType::Vector { .. } => false,
        other => other.parts().any(contains_duration),
    }
}
