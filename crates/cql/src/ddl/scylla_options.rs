//! Table properties of ScyllaDB. The schema keeps them as extensions, so that DESCRIBE shows them
//! and a schema can go back to ScyllaDB. They have no effect here, so CREATE and ALTER of tables
//! and materialized views warn the client.
//!
//! The bytes of an extension are those of a `map<text, text>`, or the text itself.

use std::collections::BTreeMap;

use espalier_mutation::schema::TableOptions;
use espalier_types::collection;

use super::{Context, options::parse_boolean};
use crate::{
    Error, Result,
    grammar::ast::{Property, PropertyValue},
};

/// Properties with a map.
const MAPS: [&str; 4] = ["cdc", "per_partition_rate_limit", "tablets", "tombstone_gc"];
/// Properties with one value.
const SCALARS: [&str; 3] = ["in_memory", "paxos_grace_seconds", "synchronous_updates"];

/// Returns whether only ScyllaDB has this property. `cdc` with a map is ScyllaDB's, and `cdc` with
/// a boolean is Cassandra's.
pub(super) fn is_property(name: &str, value: &PropertyValue<'_>) -> bool {
    match value {
        PropertyValue::Map(_) => MAPS.contains(&name),
        PropertyValue::Text(_) => SCALARS.contains(&name),
    }
}

/// Stores a property as an extension.
///
/// # Errors
/// The value is invalid for the property.
pub(super) fn set(options: &mut TableOptions, name: &str, value: &PropertyValue<'_>) -> Result<()> {
    let bytes = match value {
        PropertyValue::Map(entries) => {
            let sorted: BTreeMap<&str, &str> =
                entries.iter().map(|(key, value)| (key.as_ref(), value.as_ref())).collect();
            check_map(name, &sorted)?;
            collection::map_of(sorted.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())))
                .to_vec()
        }
        PropertyValue::Text(text) if name == "paxos_grace_seconds" => {
            text.parse::<u32>().map_err(|_| {
                Error::configuration(format!(
                    "{name} must be a number of seconds, not negative (got {text})"
                ))
            })?;
            text.as_bytes().to_vec()
        }
        value => parse_boolean(name, value)?.to_string().into_bytes(),
    };
    options.extensions.insert(name.to_owned(), bytes);
    Ok(())
}

fn check_map(name: &str, entries: &BTreeMap<&str, &str>) -> Result<()> {
    let known: &[&str] = match name {
        "cdc" => &["enabled", "preimage", "postimage", "delta", "ttl"],
        "per_partition_rate_limit" => &["max_reads_per_second", "max_writes_per_second"],
        "tombstone_gc" => &["mode", "propagation_delay_in_seconds"],
        _ => return Ok(()),
    };
    if let Some(unknown) = entries.keys().find(|key| !known.contains(*key)) {
        let (unknown, known) = (unknown.escape_debug(), known.join(", "));
        return Err(Error::configuration(format!(
            "Unknown sub-option '{unknown}' of {name}: there are {known}"
        )));
    }
    let modes = ["timeout", "disabled", "immediate", "repair"];
    match entries.get("mode") {
        Some(mode) if !modes.contains(mode) => Err(Error::configuration(format!(
            "Invalid value for tombstone_gc mode: {}; there are {}",
            mode.escape_debug(),
            modes.join(", ")
        ))),
        _ => Ok(()),
    }
}

/// Warns about the properties that have no effect.
pub(super) fn warn(context: &Context<'_>, properties: &[&Property<'_>]) {
    let Some(guard) = context.guard() else { return };
    for property in properties {
        let name = property.name.as_str();
        if is_property(name, &property.value) {
            guard.warn(format!(
                "The table property {name} of ScyllaDB is kept, but has no effect on this node"
            ));
        }
    }
}

/// Returns a stored property as CQL, or `None` if the extension is no such property or is damaged.
pub(crate) fn describe(name: &str, bytes: &[u8]) -> Option<String> {
    let quote =
        |bytes: &[u8]| Some(format!("'{}'", std::str::from_utf8(bytes).ok()?.replace('\'', "''")));
    if SCALARS.contains(&name) {
        let text = std::str::from_utf8(bytes).ok()?;
        let is_plain = text.parse::<u32>().is_ok() || ["true", "false"].contains(&text);
        return is_plain.then(|| text.to_owned());
    }
    if !MAPS.contains(&name) {
        return None;
    }
    let mut parts = Vec::new();
    for entry in collection::entries(bytes).ok()? {
        let (key, value) = entry.ok()?;
        parts.push(format!("{}: {}", quote(key)?, quote(value)?));
    }
    Some(format!("{{{}}}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_properties_are_described_as_they_were_given() {
        let mut options = TableOptions::default();
        let map = PropertyValue::Map(vec![
            ("mode".into(), "repair".into()),
            ("propagation_delay_in_seconds".into(), "3600".into()),
        ]);
        set(&mut options, "tombstone_gc", &map).unwrap();
        set(&mut options, "paxos_grace_seconds", &PropertyValue::Text("1234".into())).unwrap();
        set(&mut options, "synchronous_updates", &PropertyValue::Text("TRUE".into())).unwrap();
        let described = |name: &str| describe(name, &options.extensions[name]);
        assert_eq!(
            described("tombstone_gc").as_deref(),
            Some("{'mode': 'repair', 'propagation_delay_in_seconds': '3600'}")
        );
        assert_eq!(described("paxos_grace_seconds").as_deref(), Some("1234"));
        assert_eq!(described("synchronous_updates").as_deref(), Some("true"));
        assert_eq!(describe("other", b"x"), None);
        assert_eq!(describe("tombstone_gc", b"\x00\x00\x00\x01"), None);
        let wrong = PropertyValue::Map(vec![("mode".into(), "never".into())]);
        assert!(set(&mut options, "tombstone_gc", &wrong).is_err());
        let wrong = PropertyValue::Text("soon".into());
        assert!(set(&mut options, "paxos_grace_seconds", &wrong).is_err());
    }
}
