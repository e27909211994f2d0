//! Values as people write them in fields of CSV and on command lines.

use bytes::Bytes;
use espalier_types::CqlType;
use espalier_types::literal::{from_json_value, from_text, parse_json};

/// A value as plain text, without quotes; of a collection, tuple, UDT or vector, as JSON, whose null is no value.
pub fn from_field(ty: &CqlType, text: &str) -> Result<Option<Bytes>, String> {
    let is_nested = ty.is_collection()
        || matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. } | CqlType::Vector { .. });
    if is_nested {
        let json = parse_json(text).map_err(|error| error.to_string())?;
        return from_json_value(ty, &json).map_err(|error| error.to_string());
    }
    let digits = text.strip_prefix("0x").filter(|_| *ty == CqlType::Blob);
    from_text(ty, digits.unwrap_or(text)).map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_plain_text_or_json() {
        let list = CqlType::List { element: CqlType::Int.into(), frozen: true };
        assert_eq!(from_field(&CqlType::Text, "it's").unwrap().unwrap(), "it's");
        for blob in ["0xabcd", "abcd"] {
            assert_eq!(from_field(&CqlType::Blob, blob).unwrap().unwrap(), &[0xab, 0xcd][..]);
        }
        assert!(from_field(&list, "[5]").unwrap().is_some());
        assert_eq!(from_field(&list, "null"), Ok(None));
        assert!(from_field(&list, "5").is_err() && from_field(&CqlType::Int, "0x5").is_err());
    }
}
