//! `nodetool enableauditlog`, `disableauditlog` and `getauditlog`.

use std::collections::BTreeMap;

use clap::Args;

use super::NodetoolError;
use crate::admin_client::{NodeAddress, Request, ask};

const PATH: &str = "/storage_service/audit_log";

/// The order in which Cassandra's nodetool prints the options.
const ORDER: [&str; 15] = [
    "enabled",
    "logger",
    "audit_logs_dir",
    "archive_command",
    "roll_cycle",
    "block",
    "max_log_size",
    "max_queue_weight",
    "max_archive_retries",
    "included_keyspaces",
    "excluded_keyspaces",
    "included_categories",
    "excluded_categories",
    "included_users",
    "excluded_users",
];

/// The options of `enableauditlog`. An option that is not given has the value of the node's
/// settings.
#[derive(Args, Clone, Debug)]
pub struct AuditArguments {
    /// BinAuditLogger (files of JSON lines), FileAuditLogger (the log) or NoOpAuditLogger
    #[arg(long)]
    logger: Option<String>,
    /// Keyspaces to log, separated by commas
    #[arg(long)]
    included_keyspaces: Option<String>,
    /// Keyspaces not to log
    #[arg(long)]
    excluded_keyspaces: Option<String>,
    /// Categories to log: QUERY, DML, DDL, DCL, OTHER, AUTH, ERROR, PREPARE
    #[arg(long)]
    included_categories: Option<String>,
    /// Categories not to log
    #[arg(long)]
    excluded_categories: Option<String>,
    /// Roles to log
    #[arg(long)]
    included_users: Option<String>,
    /// Roles not to log
    #[arg(long)]
    excluded_users: Option<String>,
    /// How often a new file begins: MINUTELY, HOURLY or DAILY
    #[arg(long)]
    roll_cycle: Option<String>,
    /// Make requests wait while the queue is full, instead of losing entries
    #[arg(long, value_name = "true|false")]
    blocking: Option<String>,
    /// Bytes of entries that wait to be written
    #[arg(long, value_name = "BYTES")]
    max_queue_weight: Option<String>,
    /// Bytes of all files together; older files are removed
    #[arg(long, value_name = "BYTES")]
    max_log_size: Option<String>,
}

/// Switches the log on.
///
/// # Errors
/// Fails if the node cannot be reached, or refuses an option.
pub async fn enable(node: &NodeAddress, arguments: &AuditArguments) -> Result<(), NodetoolError> {
    let given = [
        ("logger", &arguments.logger),
        ("included_keyspaces", &arguments.included_keyspaces),
        ("excluded_keyspaces", &arguments.excluded_keyspaces),
        ("included_categories", &arguments.included_categories),
        ("excluded_categories", &arguments.excluded_categories),
        ("included_users", &arguments.included_users),
        ("excluded_users", &arguments.excluded_users),
        ("roll_cycle", &arguments.roll_cycle),
        ("block", &arguments.blocking),
        ("max_queue_weight", &arguments.max_queue_weight),
        ("max_log_size", &arguments.max_log_size),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let request =
        given.fold(Request::post(PATH), |request, (name, value)| request.with(name, value));
    Ok(ask(node, &request).await?)
}

/// Returns the request that switches the log off.
pub fn disable() -> Request {
    Request::delete(PATH)
}

/// Returns a line for each option: its name and value.
///
/// # Errors
/// Fails if the node cannot be reached.
pub async fn show(node: &NodeAddress) -> Result<String, NodetoolError> {
    let options: BTreeMap<String, String> = ask(node, &Request::get(PATH)).await?;
    let line = |name: &&str| {
        let value = options.get(*name).map(String::as_str).unwrap_or_default();
        format!("{name:<20}{value}").trim_end().to_owned()
    };
    Ok(ORDER.iter().map(line).collect::<Vec<_>>().join("\n"))
}
