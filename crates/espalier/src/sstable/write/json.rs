//! Parses a line of JSON lines.

use espalier_types::literal::{Json, parse_json};

use crate::sstable::values::refuse_twins;

/// Parses the members of the object on a line. Returns `None` for a blank line. As in
/// `INSERT JSON`, names without CQL quotes are lower-cased. Names that begin with `$` are not
/// changed.
///
/// # Errors
/// Fails if the line is not UTF-8 or not a JSON object, or if an object in a value has a name
/// twice.
pub fn object(line: &[u8]) -> Result<Option<Vec<(String, Json)>>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    match parse_json(text).map_err(|error| error.to_string())? {
        Json::Object(members) => {
            members.iter().try_for_each(|(_, value)| refuse_twins(value))?;
            Ok(Some(members.into_iter().map(|(name, value)| (column_name(name), value)).collect()))
        }
        other => Err(format!("expected an object, as in {{\"id\": 1}}, and not {other}")),
    }
}

/// Removes the quotes of a name, or lower-cases a name without quotes, as CQL does. A name that
/// begins with `$` is not changed.
pub fn column_name(name: String) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None if name.starts_with('$') => name,
        None => name.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_insert_json() {
        let members = object(b"{\"Id\": 1, \"\\\"Id\\\"\": null, \"$ts\": 5}").unwrap().unwrap();
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "Id", "$ts"]);
        assert_eq!(object(b" \r").unwrap(), None);
        assert!(object(b"[1]").is_err());
        assert!(object(b"{").is_err());
        assert!(object(b"\xFF").is_err());
    }
}
