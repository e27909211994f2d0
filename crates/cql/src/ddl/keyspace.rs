//! CREATE, ALTER and DROP KEYSPACE. A single node only stores and shows the replication of a
//! keyspace. A member of a ring derives the replicas of a partition from the replication.

use espalier_mutation::schema::{KeyspaceMetadata, Schema};
use espalier_runtime::random;

use super::{
    Context, Outcome, already_exists, changed, check_changeable, check_keyspace_name, guardrails,
    is_system_keyspace,
    options::{self, parse_boolean},
    replication, unchanged_if,
};
use crate::{
    ChangeKind, ChangeTarget, Error, Result,
    grammar::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Property},
};

/// Executes CREATE KEYSPACE.
///
/// # Errors
/// The name is invalid or a system keyspace's, the keyspace exists and the statement lacks IF NOT
/// EXISTS, a property is missing, unknown or invalid, or a guardrail refuses the replication.
pub fn create(context: &Context<'_>, statement: &CreateKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    if is_system_keyspace(name) {
        let message = format!("System keyspace '{name}' is not user-modifiable");
        return Err(Error::invalid(message));
    }
    check_keyspace_name(name)?;
    if context.schema.keyspace(name).is_some() {
        return unchanged_if(statement.if_not_exists, already_exists(name, ""));
    }
    let mut keyspace = KeyspaceMetadata::new(name);
    set_properties(context, &mut keyspace, &statement.properties)?;
    if keyspace.replication.is_empty() {
        return Err(Error::invalid("Missing mandatory option 'replication'"));
    }
    guardrails::check_replication(context, &keyspace)?;
    context.with_keyspace(keyspace, ChangeKind::Created, ChangeTarget::Keyspace, "")
}

/// Executes ALTER KEYSPACE.
///
/// # Errors
/// The keyspace is a system keyspace, it does not exist and the statement lacks IF EXISTS, a
/// property is unknown or invalid, or a guardrail refuses the replication.
pub fn alter(context: &Context<'_>, statement: &AlterKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    check_changeable(name)?;
    let Some(keyspace) = context.schema.keyspace(name) else {
        return unchanged_if(statement.if_exists, missing(name));
    };
    let mut altered = keyspace.as_ref().clone();
    set_properties(context, &mut altered, &statement.properties)?;
    guardrails::check_replication(context, &altered)?;
    if altered == **keyspace {
        return Ok(None);
    }
    context.with_keyspace(altered, ChangeKind::Updated, ChangeTarget::Keyspace, "")
}

/// Executes DROP KEYSPACE.
///
/// # Errors
/// The keyspace is a system keyspace, or it does not exist and the statement lacks IF EXISTS.
pub fn drop(context: &Context<'_>, statement: &DropKeyspace<'_>) -> Outcome {
    let name = statement.name.as_str();
    check_changeable(name)?;
    if context.schema.keyspace(name).is_none() {
        return unchanged_if(statement.if_exists, missing(name));
    }
    let mut keyspaces = context.schema.keyspaces.clone();
    keyspaces.remove(name);
    let change = changed(ChangeKind::Dropped, ChangeTarget::Keyspace, name, "");
    Ok(Some((Schema::new(keyspaces, random::uuid_v4()), change)))
}

fn missing(name: &str) -> Error {
    Error::invalid(format!("Keyspace '{name}' doesn't exist"))
}

fn set_properties(
    context: &Context<'_>,
    keyspace: &mut KeyspaceMetadata,
    properties: &[Property<'_>],
) -> Result<()> {
    for Property { name, value } in properties {
        match name.as_str() {
            "replication" => {
                keyspace.replication = options::map("replication", value)?;
                replication::check(context, &keyspace.name, &mut keyspace.replication)?;
            }
            "durable_writes" => keyspace.durable_writes = parse_boolean("durable_writes", value)?,
            // Schemas of ScyllaDB have this option. This node has no tablets.
            "tablets" => {}
            unknown => return Err(Error::syntax(format!("Unknown property '{unknown}'"))),
        }
    }
    Ok(())
}
