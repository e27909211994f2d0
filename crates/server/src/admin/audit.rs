//! Switches the audit log on and off while the node runs, and shows its options. ScyllaDB's API has
//! no such path.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::http::{Answer, HttpRequest, HttpResponse};
use crate::audit::AuditOptions;
use crate::shard::ShardServer;

/// Answers `GET /storage_service/audit_log`: returns an object with all options and their values.
pub(super) fn get(server: &ShardServer) -> HttpResponse {
    let options: BTreeMap<_, _> = server.audit.options().shown().into_iter().collect();
    HttpResponse::json(&options)
}

/// Answers `POST /storage_service/audit_log?NAME=VALUE&...`: switches the log on. An option that
/// the request lacks gets its value from the settings, as with Cassandra's nodetool.
pub(super) fn enable(server: &Rc<ShardServer>, request: &HttpRequest) -> Answer {
    let mut options = AuditOptions { enabled: true, ..server.config.audit.clone() };
    for (name, value) in &request.query {
        if !options.set(name, value).map_err(|reason| format!("{name}: {reason}"))? {
            return Err(format!("The audit log has no option '{}'", name.escape_debug()).into());
        }
    }
    options.enabled = true;
    tracing::info!(?options, "audit log switched on until the node stops");
    server.audit.change(server, options);
    Ok(HttpResponse::done())
}

/// Answers `DELETE /storage_service/audit_log`: switches the log off.
pub(super) fn disable(server: &Rc<ShardServer>) -> HttpResponse {
    let options = AuditOptions { enabled: false, ..(*server.audit.options()).clone() };
    tracing::info!("audit log switched off until the node stops");
    server.audit.change(server, options);
    HttpResponse::done()
}
