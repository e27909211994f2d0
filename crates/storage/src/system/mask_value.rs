//! The text of a mask's argument in `system_schema.column_masks`: the usual text of a value, and
//! hex digits for collections, as in Cassandra. Tuples, user types and vectors are hex digits here
//! too; Cassandra separates the parts of the former two with colons.

use bytes::Bytes;
use espalier_types::{
    CqlType,
    literal::{from_text, to_text},
};

fn is_hex(argument_type: &CqlType) -> bool {
    use CqlType as T;
    matches!(
        argument_type,
        T::List { .. }
            | T::Set { .. }
            | T::Map { .. }
            | T::Tuple(_)
            | T::UserDefined { .. }
            | T::Vector { .. }
    )
}

/// Returns the text of a value.
pub(super) fn write(argument_type: &CqlType, value: &[u8]) -> String {
    if is_hex(argument_type) {
        return value.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    to_text(argument_type, value)
}

/// Reads the text of a value.
pub(super) fn read(argument_type: &CqlType, text: &str) -> Result<Bytes, String> {
    let wrong = |reason: &dyn std::fmt::Display| format!("argument {text}: {reason}");
    if !is_hex(argument_type) {
        return from_text(argument_type, text).map_err(|error| wrong(&error));
    }
    let bytes = from_text(&CqlType::Blob, &format!("0x{text}")).map_err(|error| wrong(&error))?;
    argument_type.validate(&bytes).map_err(|error| wrong(&error))?;
    Ok(bytes)
}
