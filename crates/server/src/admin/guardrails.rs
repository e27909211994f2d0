//! Reads and changes the settings of guardrails while the node runs. The paths are our own:
//! ScyllaDB has none.

use std::collections::BTreeMap;

use espalier_storage::{Node, guardrails::Setting};

use super::http::{Answer, HttpRequest, HttpResponse};

/// Answers `GET /storage_service/guardrails`: an object of all settings and their values.
pub(super) fn get(database: &Node) -> HttpResponse {
    let settings: BTreeMap<_, _> =
        database.store().configuration().guardrails.settings().into_iter().collect();
    HttpResponse::json(&settings)
}

/// Answers `POST /storage_service/guardrails?name=SETTING&value=VALUE`. Two thresholds of one limit
/// change together with `fail=VALUE&warn=VALUE` and the name that Cassandra's nodetool uses, such
/// as `keyspaces_threshold`.
pub(super) fn set(database: &Node, request: &HttpRequest) -> Answer {
    let parameter = |name| request.parameter(name);
    let name =
        parameter("name").ok_or("This needs the name of a setting: ?name=SETTING&value=VALUE")?;
    let changes = match (parameter("value"), parameter("fail"), parameter("warn")) {
        (Some(value), None, None) => Setting::find(name).map(|setting| vec![(setting, value)]),
        (None, Some(fail), Some(warn)) => Setting::find_pair(name)
            .map(|(fail_setting, warn_setting)| vec![(fail_setting, fail), (warn_setting, warn)]),
        _ => return Err("This needs ?value=, or ?fail= and ?warn= for a pair of thresholds".into()),
    };
    let changes =
        changes.ok_or_else(|| format!("There is no guardrail {name:?} with such values"))?;
    let guardrails = &database.store().configuration().guardrails;
    guardrails.set(&changes).map_err(|error| format!("{name}: {error}"))?;
    for (setting, value) in changes {
        tracing::info!(setting = setting.name, value, "guardrail changed, until the node stops");
    }
    Ok(HttpResponse::done())
}
