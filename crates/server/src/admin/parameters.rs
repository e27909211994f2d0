//! Checks the parameters of requests that change something. The API refuses an unknown parameter,
//! because a mistyped name would widen the request to all tables, or to all snapshots.

use super::http::HttpRequest;

/// Returns the parameters that a path has, and those that ScyllaDB's tools may send and that have
/// no effect here. Returns `None` if the path changes nothing, or if it checks its parameters
/// itself (the audit log).
fn known(path: &[&str]) -> Option<&'static [&'static str]> {
    match path {
        ["storage_service", "keyspace_flush", _] => Some(&["cf"]),
        ["storage_service", "keyspace_compaction", _] => Some(&[
            "cf",
            "flush_memtables",
            "startToken",
            "endToken",
            "split_output",
            "consider_only_existing_data",
        ]),
        ["storage_service", "keyspace_upgrade_sstables", _] => {
            Some(&["cf", "exclude_current_version"])
        }
        ["storage_service", "keyspace_scrub", _] => Some(&[
            "cf",
            "scrub_mode",
            "disable_snapshot",
            "quarantine_mode",
            "skip_corrupted",
            "counts",
        ]),
        ["storage_service", "snapshots"] => {
            Some(&["tag", "kn", "cf", "sf", "use_sstable_identifier"])
        }
        ["storage_service", "sstables", _] => Some(&[
            "cf",
            "path",
            "load_and_stream",
            "primary_replica_only",
            "skip_cleanup",
            "skip_reshape",
            "scope",
        ]),
        ["storage_service", "keyspace_cleanup", _] => Some(&["cf"]),
        ["storage_service", "auto_compaction", _] => Some(&["cf"]),
        ["column_family", "autocompaction", _] => Some(&[]),
        ["storage_service", "orphans"] => Some(&["path"]),
        ["storage_service", "restore"] => Some(&["keyspace", "table", "snapshot"]),
        ["compaction_manager", "force_user_defined_compaction"] => Some(&["data_files"]),
        ["storage_service", "trace_probability"] => Some(&["probability"]),
        ["storage_service", "compaction_throughput"] => Some(&["value"]),
        ["storage_service", "guardrails"] => Some(&["name", "value", "fail", "warn"]),
        ["compaction_manager", "stop_compaction"] => Some(&["type"]),
        ["compaction_manager", "stop_keyspace_compaction", _] => Some(&["type", "tables"]),
        ["storage_service", "flush" | "reload_ssl_certificates"]
        | ["lsa", "compact"]
        | ["system", "drop_sstable_caches"] => Some(&[]),
        _ => None,
    }
}

/// Parameters with the value `true` or `false`.
const FLAGS: [&str; 7] = [
    "counts",
    "flush_memtables",
    "exclude_current_version",
    "disable_snapshot",
    "skip_corrupted",
    "sf",
    "consider_only_existing_data",
];

/// Returns the name of a parameter that is empty or has an empty name in its list, for example
/// because a script's variable is not set.
fn empty_one(request: &HttpRequest) -> Option<&str> {
    let is_empty = |name: &str, value: &str| match name {
        "kn" | "cf" | "tables" => value.split(',').any(|part| part.trim().is_empty()),
        _ => value.is_empty(),
    };
    let empty = request.query.iter().find(|(name, value)| is_empty(name, value));
    empty.map(|(name, _)| name.as_str())
}

/// Checks the parameters of a request. The error describes the first fault.
pub(super) fn check(request: &HttpRequest) -> Result<(), String> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    // A scrub and an upgrade change files, although GET may request them.
    let is_change = matches!(request.method.as_str(), "POST" | "DELETE")
        || matches!(
            path.as_slice(),
            ["storage_service", "keyspace_scrub" | "keyspace_upgrade_sstables", _]
        );
    if !is_change {
        return Ok(());
    }
    let Some(known) = known(&path) else { return Ok(()) };
    if let Some(name) = empty_one(request) {
        return Err(format!(
            "The parameter '{}' is empty, or has an empty name in its list: leave it out only if the request may apply to all tables or snapshots",
            name.escape_debug()
        ));
    }
    let is_again =
        |at: usize, name: &str| request.query.iter().take(at).any(|(other, _)| other == name);
    let again = request.query.iter().enumerate().find(|(at, (name, _))| is_again(*at, name));
    if let Some((_, (name, _))) = again {
        return Err(format!(
            "The parameter '{}' occurs twice: list several names in one parameter, with commas",
            name.escape_debug()
        ));
    }
    let unknown = request.query.iter().find(|(name, _)| !known.contains(&name.as_str()));
    let Some((name, _)) = unknown else { return check_flags(request) };
    let name = name.escape_debug();
    Err(match known {
        [] => format!("There is no parameter '{name}' here: there is none"),
        known => format!("There is no parameter '{name}' here: there are {}", known.join(", ")),
    })
}

fn check_flags(request: &HttpRequest) -> Result<(), String> {
    let is_wrong = |name: &str, value: &str| {
        FLAGS.contains(&name)
            && !["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word))
    };
    if request
        .parameter("consider_only_existing_data")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    {
        return Err("consider_only_existing_data=true is not supported: a compaction always considers the data outside of it".into());
    }
    match request.query.iter().find(|(name, value)| is_wrong(name, value)) {
        None => Ok(()),
        Some((name, value)) => {
            Err(format!("{name}={} is neither true nor false", value.escape_debug()))
        }
    }
}

/// Returns whether [`known`] lists the path: requests with it change something.
pub(super) fn is_known(path: &[&str]) -> bool {
    known(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str) -> HttpRequest {
        HttpRequest::of(&format!("{method} {target} HTTP/1.1\r\n\r\n"))
    }

    #[test]
    fn repeated_and_unsupported_parameters_are_refused() {
        for (query, expected) in [
            ("cf=a&cf=b", "occurs twice"),
            ("cf=a&flush_memtables=true&flush_memtables=false", "occurs twice"),
            ("consider_only_existing_data=true", "not supported"),
            ("consider_only_existing_data=maybe", "neither"),
        ] {
            let target = format!("/storage_service/keyspace_compaction/ks?{query}");
            let refused = check(&request("POST", &target)).unwrap_err();
            assert!(refused.contains(expected), "{query}: {refused}");
        }
        let taken =
            "/storage_service/keyspace_compaction/ks?consider_only_existing_data=false&cf=a,b";
        assert_eq!(check(&request("POST", taken)), Ok(()));
    }

    #[test]
    fn a_parameter_that_is_not_known_is_refused() {
        for (method, target) in [
            ("DELETE", "/storage_service/snapshots?name=p"),
            ("POST", "/storage_service/snapshots?tag=p&keyspace=ks"),
            ("DELETE", "/storage_service/snapshots?tag="),
            ("DELETE", "/storage_service/snapshots?tag"),
            ("DELETE", "/storage_service/snapshots?tag=p&kn="),
            ("DELETE", "/storage_service/snapshots?tag=p&kn=ks&cf=t,"),
            ("POST", "/storage_service/keyspace_flush/ks?table=t"),
            ("POST", "/storage_service/keyspace_compaction/ks?cf=t&CF=u"),
            ("POST", "/lsa/compact?cf=t"),
            ("GET", "/storage_service/keyspace_scrub/ks?table=t"),
            ("GET", "/storage_service/keyspace_upgrade_sstables/ks?table=t"),
            ("POST", "/storage_service/keyspace_flush/ks?cf="),
            ("GET", "/storage_service/keyspace_scrub/ks?scrub_mode=VALIDATE&cf="),
            ("POST", "/storage_service/snapshots?tag=p&sf=perhaps"),
            ("POST", "/compaction_manager/stop_keyspace_compaction/ks?tables="),
            ("POST", "/compaction_manager/stop_compaction?kind=SCRUB"),
            ("POST", "/storage_service/compaction_throughput?mebibytes=5"),
        ] {
            assert!(check(&request(method, target)).is_err(), "{target}");
        }
        for (method, target) in [
            ("DELETE", "/storage_service/snapshots?tag=p&kn=ks&cf=t"),
            ("DELETE", "/storage_service/snapshots"),
            ("POST", "/storage_service/keyspace_flush/ks?cf=t,u"),
            ("POST", "/storage_service/sstables/ks?cf=t&path=/x"),
            (
                "GET",
                "/storage_service/keyspace_scrub/ks?cf=t&scrub_mode=SKIP&disable_snapshot=true",
            ),
            ("POST", "/storage_service/compaction_throughput?value=5"),
            // A collector of metrics may add parameters of its own.
            ("GET", "/metrics?from=here"),
        ] {
            assert_eq!(check(&request(method, target)), Ok(()), "{target}");
        }
    }
}
