//! The options of storage-attached indexes that analyse texts, and the types that storage-attached
//! indexes support. The messages and the order of the checks are Cassandra's.

use espalier_mutation::schema::{
    ASCII_OPTION, CASE_SENSITIVE_OPTION, IndexMetadata, IndexPart, NORMALIZE_OPTION, TableMetadata,
};
use espalier_types::CqlType;

use crate::{Error, Result, restrictions::indexed_type};

/// The names of the options.
pub(super) const OPTIONS: [&str; 3] = [ASCII_OPTION, CASE_SENSITIVE_OPTION, NORMALIZE_OPTION];

/// Checks the options of an index. `vector_index` has refused these options for vectors.
pub(super) fn check(table: &TableMetadata, index: &IndexMetadata) -> Result<()> {
    let given: Vec<(&str, &str)> = OPTIONS
        .into_iter()
        .filter_map(|name| Some((name, index.options.get(name)?.as_str())))
        .collect();
    let Some(column) = index.column_of(table) else { return Ok(()) };
    if given.is_empty() {
        return Ok(());
    }
    if column.is_primary_key() {
        let given: Vec<String> =
            given.iter().map(|(name, value)| format!("'{name}': '{value}'")).collect();
        return Err(Error::invalid(format!(
            "Analysis options are not supported on primary key columns, but found {{{}}}",
            given.join(", ")
        )));
    }
    let analysed = match (&column.column_type, index.part) {
        (CqlType::Map { key, value, .. }, IndexPart::Entries) => Err(format!(
            "'org.apache.cassandra.db.marshal.CompositeType({},{})'",
            key.marshal_name(),
            value.marshal_name()
        )),
        (column_type, part) => match indexed_type(column_type, part) {
            CqlType::Text | CqlType::Ascii => Ok(()),
            other => Err(other.cql_name()),
        },
    };
    analysed.map_err(|name| Error::invalid(format!("CQL type {name} cannot be analyzed.")))?;
    for (name, value) in given {
        if value.is_empty() {
            return Err(Error::invalid(format!("Empty value for boolean option '{name}'")));
        }
        if !["true", "false"].iter().any(|known| value.eq_ignore_ascii_case(known)) {
            return Err(Error::invalid(format!(
                "Illegal value for boolean option '{name}': {value}"
            )));
        }
    }
    Ok(())
}

/// Refuses an index on blobs, which Cassandra's storage-attached indexes do not support.
pub(super) fn check_type(table: &TableMetadata, index: &IndexMetadata) -> Result<()> {
    let Some(column) = index.column_of(table) else { return Ok(()) };
    let of_key = match (&column.column_type, index.part) {
        (CqlType::Map { key, .. }, IndexPart::Entries) => Some(key.as_ref().clone()),
        _ => None,
    };
    let of_value = indexed_type(&column.column_type, index.part);
    match [of_key, Some(of_value)].into_iter().flatten().find(|found| *found == CqlType::Blob) {
        Some(blob) => Err(Error::invalid(format!("Unsupported type: {}", blob.cql_name()))),
        None => Ok(()),
    }
}
