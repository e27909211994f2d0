//! The conversions between native types and `blob`: `int_as_blob(x)`, `blob_as_int(b)` and so on.
//! Each has an older name without underscores, such as `intasblob`.
//!
//! A conversion changes the type and keeps the bytes. A conversion from `blob` fails if the bytes
//! are not a valid value of the other type.

use espalier_types::CqlType;

use super::ResolvedFunction;
use crate::Error;

/// The native types, by the names that the conversions use for them.
const NATIVE: [(&str, CqlType); 21] = [
    ("ascii", CqlType::Ascii),
    ("bigint", CqlType::Bigint),
    ("boolean", CqlType::Boolean),
    ("counter", CqlType::Counter),
    ("date", CqlType::Date),
    ("decimal", CqlType::Decimal),
    ("double", CqlType::Double),
    ("duration", CqlType::Duration),
    ("empty", CqlType::Empty),
    ("float", CqlType::Float),
    ("inet", CqlType::Inet),
    ("int", CqlType::Int),
    ("smallint", CqlType::Smallint),
    ("text", CqlType::Text),
    ("time", CqlType::Time),
    ("timestamp", CqlType::Timestamp),
    ("timeuuid", CqlType::Timeuuid),
    ("tinyint", CqlType::Tinyint),
    ("uuid", CqlType::Uuid),
    ("varchar", CqlType::Text),
    ("varint", CqlType::Varint),
];

fn native(name: &str) -> Option<&'static CqlType> {
    NATIVE.iter().find(|(known, _)| *known == name).map(|(_, found)| found)
}

/// Returns the conversion with this name, if there is one.
pub fn overload(name: &str) -> Option<ResolvedFunction> {
    let to_blob = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob"));
    if let Some(source) = to_blob.and_then(native) {
        let types = vec![source.clone()];
        return Some(ResolvedFunction::strict(name, types, CqlType::Blob, |values, _| {
            Ok(values.first().cloned())
        }));
    }
    let from_blob = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas"));
    let target = from_blob.and_then(native)?;
    let called = name.to_string();
    let types = vec![CqlType::Blob];
    Some(ResolvedFunction::strict(name, types, target.clone(), move |values, _| {
        let Some(value) = values.first() else { return Ok(None) };
        target.validate(value).map_err(|_| {
            Error::invalid(format!(
                "In call to function system.{called}, value 0x{value:x} is not a valid binary representation for type {}",
                target.cql_name()
            ))
        })?;
        Ok(Some(value.clone()))
    }))
}
