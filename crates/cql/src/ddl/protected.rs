//! System keyspaces with tables that users may write to but not alter: roles, histories and traces.

use super::Context;
use crate::{
    Error, ErrorCode, Result,
    grammar::ast::{QualifiedName, Statement},
};

/// Returns whether a keyspace is a system keyspace whose rows users may write. Cassandra replicates
/// these keyspaces.
pub fn is_replicated_system_keyspace(keyspace: &str) -> bool {
    ["system_auth", "system_distributed", "system_traces"].contains(&keyspace)
}

/// Refuses a statement that would change the tables or types of a protected keyspace or drop the
/// keyspace, with Cassandra's text. The error for other system keyspaces differs.
pub(super) fn check(context: &Context<'_>, statement: &Statement<'_>) -> Result<()> {
    let refused = match statement {
        Statement::DropKeyspace(statement) => {
            let keyspace = statement.name.as_str();
            protected(Some(keyspace)).map(|_| format!("Cannot DROP <keyspace {keyspace}>"))
        }
        Statement::CreateTable(statement) => all_tables(context, "CREATE", &statement.name),
        Statement::CreateTableLike(statement) => all_tables(context, "CREATE", &statement.name),
        Statement::CreateType(statement) => all_tables(context, "CREATE", &statement.name),
        Statement::AlterType(statement) => all_tables(context, "ALTER", &statement.name),
        Statement::DropType(statement) => all_tables(context, "DROP", &statement.name),
        Statement::AlterTable(statement) => one_table(context, "ALTER", &statement.name),
        Statement::CreateIndex(statement) => one_table(context, "ALTER", &statement.table),
        Statement::DropTable(statement) => one_table(context, "DROP", &statement.name),
        _ => None,
    };
    match refused {
        Some(message) => Err(Error::new(ErrorCode::Unauthorized, message)),
        None => Ok(()),
    }
}

fn protected(keyspace: Option<&str>) -> Option<&str> {
    keyspace.filter(|keyspace| is_replicated_system_keyspace(keyspace))
}

fn all_tables(context: &Context<'_>, action: &str, name: &QualifiedName<'_>) -> Option<String> {
    let keyspace = protected(context.keyspace_name(name).ok())?;
    Some(format!("Cannot {action} <all tables in {keyspace}>"))
}

fn one_table(context: &Context<'_>, action: &str, name: &QualifiedName<'_>) -> Option<String> {
    let keyspace = protected(context.keyspace_name(name).ok())?;
    Some(format!("Cannot {action} <table {keyspace}.{}>", name.name))
}
