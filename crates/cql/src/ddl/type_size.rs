//! How large a type may be when the user types in it are written out, as clients are told them.
//!
//! A type that names another twice, which names a third twice, and so on, doubles with every step: thirty short statements would
//! make a type that no memory holds. Walks over types recurse, so that their depth has a bound, too.

use espalier_mutation::schema::KeyspaceMetadata;
use espalier_types::CqlType;

use crate::{Error, Result, grammar::MAXIMUM_NESTING};

/// The most types in a type, itself and those of the fields of its user types included. An arbitrary choice.
const MAXIMUM_PARTS: usize = 4096;

/// Refuses a user type with more fields than a type may have parts.
pub fn check_field_count(count: usize) -> Result<()> {
    if count > MAXIMUM_PARTS {
        return Err(too_large());
    }
    Ok(())
}

/// Refuses a type that is too large or too deep. Takes time for as many parts as are allowed.
pub fn check_size(column_type: &CqlType) -> Result<()> {
    let mut parts = 0;
    count(column_type, 0, &mut parts)
}

/// Refuses a keyspace with such a type in a user type or a table.
pub fn check_keyspace(keyspace: &KeyspaceMetadata) -> Result<()> {
    for definition in keyspace.types.values() {
        let mut parts = 0;
        definition.fields.iter().try_for_each(|(_, field)| count(field, 1, &mut parts))?;
    }
    let mut columns = keyspace.tables.values().flat_map(|table| table.columns());
    columns.try_for_each(|column| check_size(&column.column_type))
}

fn too_large() -> Error {
    Error::invalid(format!(
        "A type with all fields of its user types may have at most {MAXIMUM_PARTS} parts"
    ))
}

fn count(column_type: &CqlType, depth: u32, parts: &mut usize) -> Result<()> {
    *parts += 1;
    if *parts > MAXIMUM_PARTS {
        return Err(too_large());
    }
    if depth > MAXIMUM_NESTING {
        return Err(Error::invalid(format!(
            "Types nested deeper than {MAXIMUM_NESTING} levels, those of user types included, are not supported"
        )));
    }
    let mut inner = |part: &CqlType| count(part, depth + 1, parts);
    match column_type {
        CqlType::List { element, .. }
        | CqlType::Set { element, .. }
        | CqlType::Vector { element, .. } => inner(element),
        CqlType::Map { key, value, .. } => inner(key).and_then(|()| inner(value)),
        CqlType::Tuple(types) | CqlType::Composite(types) => types.iter().try_for_each(inner),
        CqlType::UserDefined { definition, .. } => {
            definition.fields.iter().try_for_each(|(_, field)| inner(field))
        }
        _ => Ok(()),
    }
}
