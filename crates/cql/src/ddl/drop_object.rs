//! DROP of indexes, materialized views, functions, aggregates and triggers.
//!
//! The node has no user-defined functions, aggregates or triggers. So DROP FUNCTION, DROP AGGREGATE
//! and DROP TRIGGER fail or, with IF EXISTS, change nothing, as for any missing object. The
//! messages are Cassandra's; the checks run in Cassandra's order, so that a statement with several
//! faults gets the same message.

use espalier_mutation::schema::KeyspaceMetadata;

use super::{
    Context, Outcome, create_index, is_replicated_system_keyspace, is_system_keyspace,
    type_check::check_nested, unchanged_if, view,
};
use crate::{
    Error, Result,
    grammar::ast::{DropObject, ObjectKind, QualifiedName, TypeName, TypeNameKind},
    term::resolve_type,
};

/// Executes a DROP of an object other than a keyspace, table or type.
///
/// # Errors
/// The keyspace is not given or not changeable, an argument type of a function is invalid, or the
/// object does not exist and the statement lacks IF EXISTS.
pub fn drop(context: &Context<'_>, statement: &DropObject<'_>) -> Outcome {
    let owner = match &statement.kind {
        ObjectKind::Trigger { table } => table,
        _ => &statement.name,
    };
    let keyspace = changeable(context, owner)?;
    let dropped = match &statement.kind {
        ObjectKind::Index => create_index::drop(context, statement, keyspace)?,
        ObjectKind::MaterializedView => view::drop(context, statement, keyspace)?,
        _ => None,
    };
    if dropped.is_some() {
        return Ok(dropped);
    }
    let name = format!("{keyspace}.{}", statement.name.name);
    let missing = match &statement.kind {
        // Cassandra's message has the quote at its end, too.
        ObjectKind::Index => format!("Index '{name}' doesn't exist'"),
        ObjectKind::MaterializedView => format!("Materialized view '{name}' doesn't exist"),
        ObjectKind::Trigger { table } => {
            let (trigger, table) = (&statement.name.name, &table.name);
            format!("Trigger '{trigger}' on '{keyspace}.{table}' doesn't exist")
        }
        ObjectKind::Function { arguments } => {
            format!("Function '{name}{}' doesn't exist", list(arguments.as_deref()))
        }
        ObjectKind::Aggregate { arguments } => {
            format!("Aggregate '{name}{}' doesn't exist", list(arguments.as_deref()))
        }
    };
    if let ObjectKind::Function { arguments } | ObjectKind::Aggregate { arguments } =
        &statement.kind
        && let Some(keyspace) = context.schema.keyspace(keyspace)
    {
        let mut arguments = arguments.iter().flatten();
        arguments.try_for_each(|argument| check_argument(context, keyspace, argument))?;
    }
    let missing = context.invalid(owner.position(), missing);
    unchanged_if(statement.if_exists, missing)
}

/// Returns the keyspace of the name. The keyspace need not exist. Refuses the system keyspaces
/// except the replicated ones: there, the statement first looks up the object, as in Cassandra.
pub(super) fn changeable<'n>(
    context: &'n Context<'_>,
    name: &'n QualifiedName<'_>,
) -> Result<&'n str> {
    let keyspace = context.keyspace_name(name)?;
    if is_system_keyspace(keyspace) && !is_replicated_system_keyspace(keyspace) {
        let message = format!("System keyspace '{keyspace}' is not user-modifiable");
        return Err(Error::invalid(message));
    }
    Ok(keyspace)
}

fn check_argument(
    context: &Context<'_>,
    keyspace: &KeyspaceMetadata,
    argument: &TypeName<'_>,
) -> Result<()> {
    let refuse = |message| context.invalid(argument.position, message);
    if let TypeNameKind::Frozen(inner) = &argument.kind
        && !matches!(inner.kind, TypeNameKind::Tuple(_))
    {
        return Err(refuse(format!(
            "Argument '{argument}' cannot be frozen; remove frozen<> modifier from '{argument}'"
        )));
    }
    let resolved = resolve_type(context.text, context.schema, &keyspace.name, argument)?;
    check_nested(&resolved).map_err(refuse)
}

/// Returns the argument types in parentheses, or an empty string if the statement has none.
fn list(arguments: Option<&[TypeName<'_>]>) -> String {
    let Some(arguments) = arguments else { return String::new() };
    let names: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    format!("({})", names.join(", "))
}
