//! Parses values in fields of CSV and on command lines.

use std::collections::HashSet;

use bytes::Bytes;
use espalier_types::CqlType;
use espalier_types::literal::{FieldCount, Json, from_json_value, from_text, parse_json};

/// A hint for values in CQL's notation, which cqlsh's COPY TO writes too.
const NOT_AS_IN_CQL: &str = "collections, tuples and UDTs are JSON here, not CQL: \
    [1, 2] or [\"a\"] for a list, set or tuple, {\"a\": 1} for a map or UDT";

/// Parses a value: plain text without quotes, or JSON for a collection, tuple, UDT or vector.
/// Returns `None` for the JSON `null`.
///
/// # Errors
/// Fails if the text is not a value of the type.
pub fn from_field(ty: &CqlType, text: &str) -> Result<Option<Bytes>, String> {
    let is_nested = ty.is_collection()
        || matches!(ty, CqlType::Tuple(_) | CqlType::UserDefined { .. } | CqlType::Vector { .. });
    if is_nested {
        let with_hint = |error: String| format!("{error} ({NOT_AS_IN_CQL})");
        let json = parse_json(text).map_err(|error| with_hint(error.to_string()))?;
        refuse_twins(&json)?;
        let is_other_kind = matches!(json, Json::Object(_))
            && !matches!(ty, CqlType::Map { .. } | CqlType::UserDefined { .. });
        return from_json_value(ty, &json, &mut FieldCount::default()).map_err(|error| {
            if is_other_kind { with_hint(error.to_string()) } else { error.to_string() }
        });
    }
    let digits = text.strip_prefix("0x").filter(|_| *ty == CqlType::Blob);
    from_text(ty, digits.unwrap_or(text)).map(Some).map_err(|error| error.to_string())
}

/// Refuses JSON in which an object has a name twice, because it is unclear which value is meant.
///
/// # Errors
/// Fails if an object has a name twice.
pub fn refuse_twins(json: &Json) -> Result<(), String> {
    match json {
        Json::Array(items) => items.iter().try_for_each(refuse_twins),
        Json::Object(members) => {
            let mut seen = HashSet::with_capacity(members.len());
            for (name, value) in members {
                if !seen.insert(name.as_str()) {
                    return Err(format!("an object has '{name}' twice"));
                }
                refuse_twins(value)?;
            }
            Ok(())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => Ok(()),
    }
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

    #[test]
    fn a_collection_in_cql_syntax_is_refused_with_a_hint() {
        let text: std::sync::Arc<CqlType> = CqlType::Text.into();
        let set = CqlType::Set { element: text.clone(), frozen: false };
        let map = CqlType::Map { key: text.clone(), value: text, frozen: false };
        let tuple = CqlType::Tuple([CqlType::Int, CqlType::Text].into());
        for (ty, field) in
            [(&set, "{'a', 'b'}"), (&set, "{}"), (&map, "{'a': 'b'}"), (&tuple, "(1, 'x')")]
        {
            let error = from_field(ty, field).unwrap_err();
            assert!(error.ends_with(&format!("({NOT_AS_IN_CQL})")), "{error}");
        }
        let error = from_field(&set, "[1]").unwrap_err();
        assert!(!error.contains(NOT_AS_IN_CQL), "{error}");
    }

    #[test]
    fn a_name_comes_once_in_an_object() {
        let twins = |text| refuse_twins(&parse_json(text).unwrap());
        assert_eq!(twins("{\"a\": {\"b\": 1}, \"b\": [{\"a\": 1}, {\"a\": 2}]}"), Ok(()));
        for text in ["{\"a\": 1, \"b\": 2, \"a\": 1}", "[{\"b\": {\"a\": 1, \"a\": 2}}]"] {
            assert_eq!(twins(text), Err("an object has 'a' twice".to_owned()));
        }
    }
}
