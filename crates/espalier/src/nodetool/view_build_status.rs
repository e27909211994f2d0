//! `nodetool viewbuildstatus`: shows whether a materialized view is built.

use serde_json::Value;

use super::{NodetoolError, show::text};
use crate::admin_client::{NodeAddress, Request, ask};

/// Returns Cassandra's text: that the view is built, or else the status of the build on this node.
///
/// # Errors
/// Fails if the view does not exist, or if the node refuses or cannot be reached.
pub async fn show(node: &NodeAddress, keyspace: &str, view: &str) -> Result<String, NodetoolError> {
    let path = format!("/storage_service/view_build_statuses/{keyspace}/{view}");
    let answer: Value = ask(node, &Request::get(&path)).await?;
    let nodes: Vec<(&str, &str)> =
        super::show::all(&answer).map(|entry| (text(entry, "key"), text(entry, "value"))).collect();
    if nodes.iter().all(|(_, status)| *status == "SUCCESS") {
        return Ok(format!("{keyspace}.{view} has finished building"));
    }
    let lines: Vec<String> =
        nodes.iter().map(|(host, status)| format!("{host} {status}")).collect();
    Ok(format!(
        "{keyspace}.{view} has not finished building; node status is below.\n\nHost Info\n{}",
        lines.join("\n")
    ))
}
