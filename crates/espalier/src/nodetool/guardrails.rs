//! `nodetool getguardrailsconfig` and `setguardrailsconfig`, as in versions after Cassandra 5.0.

use std::collections::BTreeMap;

use super::NodetoolError;
use crate::admin_client::{NodeAddress, Request, ask};

const PATH: &str = "/storage_service/guardrails";

/// Returns a line for each setting: its name and value.
///
/// # Errors
/// Fails if the node cannot be reached, or has no setting of this name.
pub async fn show(node: &NodeAddress, name: Option<&str>) -> Result<String, NodetoolError> {
    let settings: BTreeMap<String, Option<String>> = ask(node, &Request::get(PATH)).await?;
    let lines: Vec<String> = settings
        .iter()
        .filter(|(setting, _)| name.is_none_or(|name| name == *setting))
        .map(|(setting, value)| format!("{setting} {}", value.as_deref().unwrap_or("null")))
        .collect();
    match (lines.is_empty(), name) {
        (true, Some(name)) => Err(NodetoolError::Argument(format!("There is no guardrail {name}"))),
        _ => Ok(lines.join("\n")),
    }
}

/// Returns the request that changes a setting. If there are two values, the first is the threshold
/// for refusals and the second that for warnings, as in Cassandra's command.
pub fn set(name: &str, values: &[String]) -> Request {
    let request = Request::post(PATH).with("name", name);
    match values {
        [fail, warn] => request.with("fail", fail).with("warn", warn),
        values => request.with("value", &values.join("")),
    }
}
