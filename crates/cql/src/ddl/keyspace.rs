//! CREATE, ALTER and DROP KEYSPACE. Replication is stored and shown, but has no effect: there is
//! one node.

use std::collections::BTreeMap;

use espalier_mutation::schema::{KeyspaceMetadata, Unreadable};

use super::{
    Context, Outcome, SYSTEM_KEYSPACES, already_exists, changed, check_changeable,
    check_keyspace_name, options::parse_boolean,
};
use crate::{
    ChangeKind, ChangeTarget, Error, ErrorCode, Result,
    grammar::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property, PropertyValue},
};

/// Executes CREATE KEYSPACE.
///
/// # Errors
/// The name is invalid or a system keyspace's, the keyspace exists and the statement lacks IF NOT
/// EXISTS, or a property is missing, unknown or invalid.
pub fn create(context: &Context<'_>, statement: &CreateKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    if SYSTEM_KEYSPACES.contains(&name) {
        let message = format!("System keyspace '{name}' is not user-modifiable");
        return Err(Error::invalid(message));
    }
    check_keyspace_name(name)?;
    if context.schema.keyspace(name).is_some() {
        return if statement.if_not_exists { Ok(None) } else { Err(already_exists(name, "")) };
    }
    let mut keyspace = KeyspaceMetadata {
        name: name.to_string(),
        replication: BTreeMap::new(),
        durable_writes: true,
        tables: BTreeMap::new(),
        types: BTreeMap::new(),
        unreadable: Unreadable::default(),
    };
    set_properties(&mut keyspace, &statement.properties)?;
    if keyspace.replication.is_empty() {
        return Err(Error::invalid("Missing mandatory option 'replication'"));
    }
    let change = changed(ChangeKind::Created, ChangeTarget::Keyspace, name, "");
    Ok(Some((context.with_keyspace(name, Some(keyspace)), change)))
}

/// Executes ALTER KEYSPACE.
///
/// # Errors
/// The keyspace is a system keyspace, it does not exist and the statement lacks IF EXISTS, or a
/// property is unknown or invalid.
pub fn alter(context: &Context<'_>, statement: &AlterKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    check_changeable(name)?;
    let Some(keyspace) = context.schema.keyspace(name) else {
        return if statement.if_exists {
            Ok(None)
        } else {
            Err(Error::invalid(format!("Keyspace '{name}' doesn't exist")))
        };
    };
    let mut altered = keyspace.as_ref().clone();
    set_properties(&mut altered, &statement.properties)?;
    if altered == **keyspace {
        return Ok(None);
    }
    let change = changed(ChangeKind::Updated, ChangeTarget::Keyspace, name, "");
    Ok(Some((context.with_keyspace(name, Some(altered)), change)))
}

/// Executes DROP KEYSPACE.
///
/// # Errors
/// The keyspace is a system keyspace, or it does not exist and the statement lacks IF EXISTS.
pub fn drop(context: &Context<'_>, statement: &DropKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    check_changeable(name)?;
    if context.schema.keyspace(name).is_none() {
        return if statement.if_exists {
            Ok(None)
        } else {
            Err(Error::invalid(format!("Keyspace '{name}' doesn't exist")))
        };
    }
    let change = changed(ChangeKind::Dropped, ChangeTarget::Keyspace, name, "");
    Ok(Some((context.with_keyspace(name, None), change)))
}

fn set_properties(keyspace: &mut KeyspaceMetadata, properties: &[Property<'_>]) -> Result<()> {
    for property in properties {
        match (property.name.as_str(), &property.value) {
            ("replication", PropertyValue::Map(entries)) => {
                keyspace.replication = entries
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect();
                check_replication(&keyspace.name, &mut keyspace.replication)?;
            }
            ("durable_writes", value) => {
                keyspace.durable_writes = parse_boolean("durable_writes", value)?;
            }
            ("replication", PropertyValue::Text(_)) => {
                return Err(Error::new(
                    ErrorCode::SyntaxError,
                    "Invalid value for property 'replication'. It should be a map.",
                ));
            }
            // Schemas of ScyllaDB have this option. This node has no tablets.
            ("tablets", _) => {}
            (unknown, _) => {
                return Err(Error::new(
                    ErrorCode::SyntaxError,
                    format!("Unknown property '{unknown}'"),
                ));
            }
        }
    }
    Ok(())
}

fn check_replication(keyspace: &str, replication: &mut BTreeMap<String, String>) -> Result<()> {
    let Some(class) = replication.get("class").cloned() else {
        return Err(Error::configuration("Missing replication strategy class"));
    };
    let simple = class.rsplit('.').next().unwrap_or_default().to_string();
    let known =
        ["SimpleStrategy", "NetworkTopologyStrategy", "LocalStrategy", "EverywhereStrategy"];
    if !known.contains(&simple.as_str()) {
        return Err(Error::configuration(format!(
            "Unable to find replication strategy class 'org.apache.cassandra.locator.{class}'"
        )));
    }
    for (name, value) in replication.iter().filter(|(name, _)| *name != "class") {
        let factor = value.split('/').next().unwrap_or_default();
        if factor.parse::<u32>().is_err() {
            return Err(Error::configuration(format!(
                "Replication factor must be numeric; found {value} for {name}"
            )));
        }
    }
    if simple == "SimpleStrategy" {
        let mut names = replication.keys();
        if let Some(name) = names.find(|name| *name != "class" && *name != "replication_factor") {
            return Err(Error::configuration(format!(
                "Unrecognized strategy option {{{name}}} passed to SimpleStrategy for keyspace {keyspace}"
            )));
        }
        // Cassandra's default_keyspace_rf.
        replication.entry("replication_factor".into()).or_insert_with(|| "1".into());
    }
    replication.insert("class".into(), format!("org.apache.cassandra.locator.{simple}"));
    Ok(())
}
