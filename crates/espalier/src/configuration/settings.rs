//! The settings that have no module of their own: names, types and ranges. docs/settings.md
//! describes the effect of each.
//!
//! Names are those of cassandra.yaml, or of scylla.yaml if Cassandra has none; a few are ours. Old
//! names are accepted too. A name that Cassandra used before its values had units takes a plain
//! number in the unit of the name.

use std::path::PathBuf;
use std::time::Duration;

use espalier_commands::units::{display_size, parse_duration, parse_size};
use espalier_server::AuditOptions;

use super::document::Value;

/// The given settings, before defaults.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Draft {
    pub cluster_name: Option<String>,
    pub workdir: Option<PathBuf>,
    pub data_file_directories: Option<Vec<PathBuf>>,
    pub commitlog_directory: Option<PathBuf>,
    pub rpc_address: Option<String>,
    pub broadcast_rpc_address: Option<String>,
    pub native_transport_port: Option<u16>,
    pub native_shard_aware_transport_port: Option<u16>,
    pub api_address: Option<String>,
    pub api_port: Option<u16>,
    pub max_frame_bytes: Option<u64>,
    pub max_connections: Option<i64>,
    pub max_connections_per_ip: Option<i64>,
    pub max_in_flight_bytes: Option<u64>,
    pub max_in_flight_bytes_per_ip: Option<u64>,
    pub commitlog_sync: Option<String>,
    pub commitlog_sync_period: Option<Duration>,
    pub commitlog_sync_group_window: Option<Duration>,
    pub commitlog_segment_bytes: Option<u64>,
    pub commitlog_total_bytes: Option<u64>,
    pub commit_failure_policy: Option<String>,
    pub memtable_heap_bytes: Option<u64>,
    pub memtable_offheap_bytes: Option<u64>,
    pub memtable_cleanup_threshold: Option<f64>,
    pub file_cache_bytes: Option<u64>,
    pub enable_cache: Option<bool>,
    pub enable_index_cache: Option<bool>,
    pub sstable_format: Option<String>,
    pub sstable_summary_ratio: Option<f64>,
    pub selected_sstable_format: Option<String>,
    pub storage_compatibility_mode: Option<String>,
    pub column_index_bytes: Option<u64>,
    pub write_request_timeout: Option<Duration>,
    pub cas_contention_timeout: Option<Duration>,
    pub counter_write_request_timeout: Option<Duration>,
    pub query_tombstone_page_limit: Option<i64>,
    pub allow_unknown_data_centers: Option<bool>,
    pub drop_compact_storage_enabled: Option<bool>,
    pub materialized_views_enabled: Option<bool>,
    pub sasi_indexes_enabled: Option<bool>,
    pub dynamic_data_masking_enabled: Option<bool>,
    pub compaction_throughput: Option<String>,
    pub trace_ttl: Option<Duration>,
    pub native_transport_port_ssl: Option<u16>,
    pub native_shard_aware_port_ssl: Option<u16>,
    pub client_encryption: EncryptionDraft,
    pub api_encryption: EncryptionDraft,
    pub api_token: Option<String>,
    pub authenticator: Option<String>,
    pub authorizer: Option<String>,
    pub network_authorizer: Option<String>,
    pub cidr_authorizer: Option<String>,
    pub role_manager: Option<String>,
    pub audit: Vec<(&'static str, String)>,
    pub audit_logs_dir: Option<PathBuf>,
    pub auth_superuser_name: Option<String>,
    pub auth_superuser_password: Option<String>,
    pub auth_superuser_salted_password: Option<String>,
}

/// The given settings of `client_encryption_options`, `api_encryption_options` or
/// `server_encryption_options`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct EncryptionDraft {
    pub enabled: Option<bool>,
    pub optional: Option<bool>,
    pub require_client_auth: Option<String>,
    pub keystore: Option<PathBuf>,
    pub truststore: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub keyfile: Option<PathBuf>,
    pub protocol: Option<String>,
    pub accepted_protocols: Option<Vec<String>>,
    pub cipher_suites: Option<Vec<String>>,
}

/// One setting.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Other accepted names, each with the unit of its plain numbers.
    pub old_names: &'static [(&'static str, OldUnit)],
    kind: Kind,
}

/// The unit of a plain number under an old name.
#[derive(Clone, Copy, Debug)]
pub enum OldUnit {
    /// `…_in_bytes`
    Bytes,
    /// `…_in_kb`, meaning KiB.
    Kibibytes,
    /// `…_in_mb`, meaning MiB.
    Mebibytes,
    /// `…_in_ms`
    Milliseconds,
    /// Seconds; the name has no unit.
    Seconds,
    /// Another name with the same values.
    Alias,
}

type Slot<T> = fn(&mut Draft) -> &mut Option<T>;

enum Kind {
    Text(Slot<String>),
    Choice(Slot<String>, &'static [&'static str]),
    /// A class of Cassandra or ScyllaDB by its name, with or without its package.
    Class(Slot<String>, &'static [&'static str]),
    Path(Slot<PathBuf>),
    Paths(Slot<Vec<PathBuf>>),
    Texts(Slot<Vec<String>>),
    Port(Slot<u16>),
    /// A number; -1 means no limit.
    Limit(Slot<i64>),
    Fraction(Slot<f64>),
    Switch(Slot<bool>),
    /// A size, with minimum and maximum in bytes.
    Size(Slot<u64>, u64, u64),
    Duration(Slot<Duration>),
    /// Bytes per second; under the old name a plain number of MiB per second.
    Rate(Slot<String>),
    /// An option of the audit log, which the server crate reads.
    Audit(&'static str),
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn setting(name: &'static str, kind: Kind) -> Setting {
    Setting { name, old_names: &[], kind }
}

const fn renamed(
    name: &'static str,
    old_names: &'static [(&'static str, OldUnit)],
    kind: Kind,
) -> Setting {
    Setting { name, old_names, kind }
}

/// All settings that have no module of their own.
pub const SETTINGS: &[Setting] = &[
    setting("cluster_name", Kind::Text(|draft| &mut draft.cluster_name)),
    // Directories.
    setting("workdir", Kind::Path(|draft| &mut draft.workdir)),
    setting("data_file_directories", Kind::Paths(|draft| &mut draft.data_file_directories)),
    setting("commitlog_directory", Kind::Path(|draft| &mut draft.commitlog_directory)),
    // The native protocol and the admin API.
    setting("rpc_address", Kind::Text(|draft| &mut draft.rpc_address)),
    setting("broadcast_rpc_address", Kind::Text(|draft| &mut draft.broadcast_rpc_address)),
    setting("native_transport_port", Kind::Port(|draft| &mut draft.native_transport_port)),
    setting(
        "native_shard_aware_transport_port",
        Kind::Port(|draft| &mut draft.native_shard_aware_transport_port),
    ),
    setting("api_address", Kind::Text(|draft| &mut draft.api_address)),
    setting("api_port", Kind::Port(|draft| &mut draft.api_port)),
    setting("api_token", Kind::Text(|draft| &mut draft.api_token)),
    renamed(
        "native_transport_max_frame_size",
        &[("native_transport_max_frame_size_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.max_frame_bytes, KIB, GIB),
    ),
    setting(
        "native_transport_max_concurrent_connections",
        Kind::Limit(|draft| &mut draft.max_connections),
    ),
    setting(
        "native_transport_max_concurrent_connections_per_ip",
        Kind::Limit(|draft| &mut draft.max_connections_per_ip),
    ),
    renamed(
        "native_transport_max_request_data_in_flight",
        &[("native_transport_max_concurrent_requests_in_bytes", OldUnit::Bytes)],
        Kind::Size(|draft| &mut draft.max_in_flight_bytes, 0, TIB),
    ),
    renamed(
        "native_transport_max_request_data_in_flight_per_ip",
        &[("native_transport_max_concurrent_requests_in_bytes_per_ip", OldUnit::Bytes)],
        Kind::Size(|draft| &mut draft.max_in_flight_bytes_per_ip, 0, TIB),
    ),
    // TLS.
    setting("native_transport_port_ssl", Kind::Port(|draft| &mut draft.native_transport_port_ssl)),
    setting(
        "native_shard_aware_transport_port_ssl",
        Kind::Port(|draft| &mut draft.native_shard_aware_port_ssl),
    ),
    setting(
        "client_encryption_options.enabled",
        Kind::Switch(|draft| &mut draft.client_encryption.enabled),
    ),
    setting(
        "client_encryption_options.optional",
        Kind::Switch(|draft| &mut draft.client_encryption.optional),
    ),
    setting(
        "client_encryption_options.require_client_auth",
        Kind::Choice(
            |draft| &mut draft.client_encryption.require_client_auth,
            &["false", "true", "optional"],
        ),
    ),
    setting(
        "client_encryption_options.keystore",
        Kind::Path(|draft| &mut draft.client_encryption.keystore),
    ),
    setting(
        "client_encryption_options.truststore",
        Kind::Path(|draft| &mut draft.client_encryption.truststore),
    ),
    setting(
        "client_encryption_options.certificate",
        Kind::Path(|draft| &mut draft.client_encryption.certificate),
    ),
    setting(
        "client_encryption_options.keyfile",
        Kind::Path(|draft| &mut draft.client_encryption.keyfile),
    ),
    setting(
        "client_encryption_options.protocol",
        Kind::Text(|draft| &mut draft.client_encryption.protocol),
    ),
    setting(
        "client_encryption_options.accepted_protocols",
        Kind::Texts(|draft| &mut draft.client_encryption.accepted_protocols),
    ),
    setting(
        "client_encryption_options.cipher_suites",
        Kind::Texts(|draft| &mut draft.client_encryption.cipher_suites),
    ),
    setting(
        "api_encryption_options.enabled",
        Kind::Switch(|draft| &mut draft.api_encryption.enabled),
    ),
    setting(
        "api_encryption_options.require_client_auth",
        Kind::Choice(|draft| &mut draft.api_encryption.require_client_auth, &["false", "true"]),
    ),
    setting(
        "api_encryption_options.keystore",
        Kind::Path(|draft| &mut draft.api_encryption.keystore),
    ),
    setting(
        "api_encryption_options.truststore",
        Kind::Path(|draft| &mut draft.api_encryption.truststore),
    ),
    setting(
        "api_encryption_options.certificate",
        Kind::Path(|draft| &mut draft.api_encryption.certificate),
    ),
    setting(
        "api_encryption_options.keyfile",
        Kind::Path(|draft| &mut draft.api_encryption.keyfile),
    ),
    setting(
        "api_encryption_options.protocol",
        Kind::Text(|draft| &mut draft.api_encryption.protocol),
    ),
    setting(
        "api_encryption_options.accepted_protocols",
        Kind::Texts(|draft| &mut draft.api_encryption.accepted_protocols),
    ),
    setting(
        "api_encryption_options.cipher_suites",
        Kind::Texts(|draft| &mut draft.api_encryption.cipher_suites),
    ),
    // The commit log.
    setting(
        "commitlog_sync",
        Kind::Choice(|draft| &mut draft.commitlog_sync, &["group", "batch", "periodic"]),
    ),
    renamed(
        "commitlog_sync_period",
        &[("commitlog_sync_period_in_ms", OldUnit::Milliseconds)],
        Kind::Duration(|draft| &mut draft.commitlog_sync_period),
    ),
    renamed(
        "commitlog_sync_group_window",
        &[("commitlog_sync_group_window_in_ms", OldUnit::Milliseconds)],
        Kind::Duration(|draft| &mut draft.commitlog_sync_group_window),
    ),
    renamed(
        "commitlog_segment_size",
        &[("commitlog_segment_size_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.commitlog_segment_bytes, MIB, 2 * GIB - MIB),
    ),
    renamed(
        "commitlog_total_space",
        &[("commitlog_total_space_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.commitlog_total_bytes, MIB, 1024 * TIB),
    ),
    setting(
        "commit_failure_policy",
        Kind::Choice(
            |draft| &mut draft.commit_failure_policy,
            &["stop", "die", "stop_commit", "ignore"],
        ),
    ),
    // Memory.
    renamed(
        "memtable_heap_space",
        &[("memtable_heap_space_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.memtable_heap_bytes, 0, 1024 * TIB),
    ),
    renamed(
        "memtable_offheap_space",
        &[("memtable_offheap_space_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.memtable_offheap_bytes, 0, 1024 * TIB),
    ),
    setting(
        "memtable_cleanup_threshold",
        Kind::Fraction(|draft| &mut draft.memtable_cleanup_threshold),
    ),
    renamed(
        "file_cache_size",
        &[("file_cache_size_in_mb", OldUnit::Mebibytes)],
        Kind::Size(|draft| &mut draft.file_cache_bytes, MIB, 1024 * TIB),
    ),
    setting("enable_cache", Kind::Switch(|draft| &mut draft.enable_cache)),
    setting("enable_index_cache", Kind::Switch(|draft| &mut draft.enable_index_cache)),
    // Tables on disk.
    renamed(
        "compaction_throughput",
        &[("compaction_throughput_mb_per_sec", OldUnit::Mebibytes)],
        Kind::Rate(|draft| &mut draft.compaction_throughput),
    ),
    setting("sstable_summary_ratio", Kind::Fraction(|draft| &mut draft.sstable_summary_ratio)),
    setting(
        "sstable_format",
        Kind::Choice(
            |draft| &mut draft.sstable_format,
            &["da", "oa", "nb", "me", "mt", "bti", "big", "ms"],
        ),
    ),
    setting(
        "sstable.selected_format",
        Kind::Choice(|draft| &mut draft.selected_sstable_format, &["bti", "big"]),
    ),
    setting(
        "storage_compatibility_mode",
        Kind::Choice(
            |draft| &mut draft.storage_compatibility_mode,
            &["NONE", "UPGRADING", "CASSANDRA_4"],
        ),
    ),
    renamed(
        "column_index_size",
        &[("column_index_size_in_kb", OldUnit::Kibibytes)],
        Kind::Size(|draft| &mut draft.column_index_bytes, KIB, GIB),
    ),
    setting(
        "query_tombstone_page_limit",
        Kind::Limit(|draft| &mut draft.query_tombstone_page_limit),
    ),
    setting(
        "allow_unknown_data_centers",
        Kind::Switch(|draft| &mut draft.allow_unknown_data_centers),
    ),
    setting(
        "drop_compact_storage_enabled",
        Kind::Switch(|draft| &mut draft.drop_compact_storage_enabled),
    ),
    setting(
        "dynamic_data_masking_enabled",
        Kind::Switch(|draft| &mut draft.dynamic_data_masking_enabled),
    ),
    renamed(
        "materialized_views_enabled",
        &[("enable_materialized_views", OldUnit::Alias)],
        Kind::Switch(|draft| &mut draft.materialized_views_enabled),
    ),
    renamed(
        "sasi_indexes_enabled",
        &[("enable_sasi_indexes", OldUnit::Alias)],
        Kind::Switch(|draft| &mut draft.sasi_indexes_enabled),
    ),
    renamed(
        "write_request_timeout",
        &[("write_request_timeout_in_ms", OldUnit::Milliseconds)],
        Kind::Duration(|draft| &mut draft.write_request_timeout),
    ),
    renamed(
        "cas_contention_timeout",
        &[("cas_contention_timeout_in_ms", OldUnit::Milliseconds)],
        Kind::Duration(|draft| &mut draft.cas_contention_timeout),
    ),
    renamed(
        "counter_write_request_timeout",
        &[("counter_write_request_timeout_in_ms", OldUnit::Milliseconds)],
        Kind::Duration(|draft| &mut draft.counter_write_request_timeout),
    ),
    renamed(
        "trace_type_query_ttl",
        &[("tracetype_query_ttl", OldUnit::Seconds)],
        Kind::Duration(|draft| &mut draft.trace_ttl),
    ),
    // Authentication and authorization.
    renamed(
        "authenticator",
        &[("authenticator.class_name", OldUnit::Alias)],
        Kind::Class(
            |draft| &mut draft.authenticator,
            &[
                "AllowAllAuthenticator",
                "PasswordAuthenticator",
                "MutualTlsAuthenticator",
                "MutualTlsWithPasswordFallbackAuthenticator",
                "TransitionalAuthenticator",
            ],
        ),
    ),
    renamed(
        "authorizer",
        &[("authorizer.class_name", OldUnit::Alias)],
        Kind::Class(
            |draft| &mut draft.authorizer,
            &["AllowAllAuthorizer", "CassandraAuthorizer", "TransitionalAuthorizer"],
        ),
    ),
    renamed(
        "network_authorizer",
        &[("network_authorizer.class_name", OldUnit::Alias)],
        Kind::Class(
            |draft| &mut draft.network_authorizer,
            &["AllowAllNetworkAuthorizer", "CassandraNetworkAuthorizer"],
        ),
    ),
    renamed(
        "cidr_authorizer",
        &[("cidr_authorizer.class_name", OldUnit::Alias)],
        Kind::Class(
            |draft| &mut draft.cidr_authorizer,
            &["AllowAllCIDRAuthorizer", "CassandraCIDRAuthorizer"],
        ),
    ),
    renamed(
        "role_manager",
        &[("role_manager.class_name", OldUnit::Alias)],
        Kind::Class(
            |draft| &mut draft.role_manager,
            &["CassandraRoleManager", "StandardRoleManager"],
        ),
    ),
    setting("auth_superuser_name", Kind::Text(|draft| &mut draft.auth_superuser_name)),
    setting("auth_superuser_password", Kind::Text(|draft| &mut draft.auth_superuser_password)),
    setting(
        "auth_superuser_salted_password",
        Kind::Text(|draft| &mut draft.auth_superuser_salted_password),
    ),
    // The audit log.
    setting("audit_logging_options.enabled", Kind::Audit("enabled")),
    renamed(
        "audit_logging_options.logger",
        &[("audit_logging_options.logger.class_name", OldUnit::Alias)],
        Kind::Audit("logger"),
    ),
    setting("audit_logging_options.archive_command", Kind::Audit("archive_command")),
    setting("audit_logging_options.roll_cycle", Kind::Audit("roll_cycle")),
    setting("audit_logging_options.block", Kind::Audit("block")),
    setting("audit_logging_options.max_log_size", Kind::Audit("max_log_size")),
    setting("audit_logging_options.max_queue_weight", Kind::Audit("max_queue_weight")),
    setting("audit_logging_options.max_archive_retries", Kind::Audit("max_archive_retries")),
    setting("audit_logging_options.included_keyspaces", Kind::Audit("included_keyspaces")),
    setting("audit_logging_options.excluded_keyspaces", Kind::Audit("excluded_keyspaces")),
    setting("audit_logging_options.included_categories", Kind::Audit("included_categories")),
    setting("audit_logging_options.excluded_categories", Kind::Audit("excluded_categories")),
    setting("audit_logging_options.included_users", Kind::Audit("included_users")),
    setting("audit_logging_options.excluded_users", Kind::Audit("excluded_users")),
    setting("audit_logging_options.audit_logs_dir", Kind::Path(|draft| &mut draft.audit_logs_dir)),
];

/// Finds the setting with a new or old name. Also returns the unit of an old name, and `None` for a
/// new name.
pub fn find(name: &str) -> Option<(&'static Setting, Option<OldUnit>)> {
    SETTINGS.iter().find_map(|setting| {
        if setting.name == name {
            return Some((setting, None));
        }
        let old = setting.old_names.iter().find(|(old, _)| *old == name);
        old.map(|(_, unit)| (setting, Some(*unit)))
    })
}

/// Returns all names, new and old.
pub fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().flat_map(|setting| {
        std::iter::once(setting.name).chain(setting.old_names.iter().map(|(name, _)| *name))
    })
}

impl Setting {
    /// Stores a value in the draft.
    ///
    /// # Errors
    /// Fails if the value is not of the setting's type or range; the text names the allowed values.
    pub fn set(
        &self,
        draft: &mut Draft,
        value: &Value,
        old: Option<OldUnit>,
    ) -> Result<(), String> {
        if let Kind::Paths(slot) = &self.kind {
            *slot(draft) = Some(paths(value)?);
            return Ok(());
        }
        if let Kind::Texts(slot) = &self.kind {
            *slot(draft) = Some(texts(value)?);
            return Ok(());
        }
        if let Kind::Audit(option) = self.kind {
            let text = audit_value(value)?;
            // Each option is checked alone, so that an error names its place.
            AuditOptions::new("").set(option, &text)?;
            draft.audit.push((option, text));
            return Ok(());
        }
        let Value::Scalar(text) = value else {
            return Err("expected one value".to_owned());
        };
        match &self.kind {
            Kind::Text(slot) => *slot(draft) = Some(text.clone()),
            Kind::Choice(slot, choices) => {
                let choice = choices.iter().find(|choice| **choice == text.as_str());
                let choice = choice.ok_or_else(|| format!("expected {}", choices.join(", ")))?;
                *slot(draft) = Some((*choice).to_owned());
            }
            Kind::Class(slot, classes) => {
                let class = text.rsplit('.').next().unwrap_or(text);
                let known = classes.iter().find(|known| **known == class);
                let known = known.ok_or_else(|| format!("expected {}", classes.join(", ")))?;
                *slot(draft) = Some((*known).to_owned());
            }
            Kind::Path(slot) => *slot(draft) = Some(PathBuf::from(text)),
            Kind::Paths(_) | Kind::Texts(_) | Kind::Audit(_) => {}
            Kind::Port(slot) => {
                let port = text.parse().map_err(|_| "expected a port, from 0 to 65535")?;
                *slot(draft) = Some(port);
            }
            Kind::Limit(slot) => {
                let limit = text.parse().ok().filter(|limit| *limit >= -1);
                *slot(draft) = Some(limit.ok_or("expected a number, or -1 for no limit")?);
            }
            Kind::Fraction(slot) => {
                let fraction: Option<f64> = text.parse().ok();
                let fraction = fraction.filter(|fraction| *fraction > 0.0 && *fraction <= 1.0);
                *slot(draft) = Some(fraction.ok_or("expected a number above 0 and up to 1")?);
            }
            Kind::Switch(slot) => {
                let switch = match text.to_ascii_lowercase().as_str() {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err("expected true or false".to_owned()),
                };
                *slot(draft) = Some(switch);
            }
            Kind::Size(slot, least, most) => {
                let bytes = size(text, old)?;
                if bytes < *least || bytes > *most {
                    let show = display_size;
                    return Err(format!("expected {} to {}", show(*least), show(*most)));
                }
                *slot(draft) = Some(bytes);
            }
            Kind::Duration(slot) => *slot(draft) = Some(duration(text, old)?),
            Kind::Rate(slot) => {
                *slot(draft) = Some(match old {
                    None => text.clone(),
                    Some(_) => format!("{}B/s", size(text, old)?),
                });
            }
        }
        Ok(())
    }
}

fn size(text: &str, old: Option<OldUnit>) -> Result<u64, String> {
    let unit = match old {
        None | Some(OldUnit::Alias | OldUnit::Milliseconds | OldUnit::Seconds) => {
            return parse_size(text);
        }
        Some(OldUnit::Bytes) => 1,
        Some(OldUnit::Kibibytes) => KIB,
        Some(OldUnit::Mebibytes) => MIB,
    };
    let number: Option<u64> = text.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "expected a whole number without a unit: the name gives the unit".to_owned())
}

fn duration(text: &str, old: Option<OldUnit>) -> Result<Duration, String> {
    match old {
        None | Some(OldUnit::Alias) => parse_duration(text),
        Some(OldUnit::Seconds) => text
            .parse()
            .map(Duration::from_secs)
            .map_err(|_| "expected a whole number of seconds without a unit".to_owned()),
        Some(_) => text
            .parse()
            .map(Duration::from_millis)
            .map_err(|_| "expected a whole number of milliseconds without a unit".to_owned()),
    }
}

fn paths(value: &Value) -> Result<Vec<PathBuf>, String> {
    let paths = texts(value).map_err(|_| "expected a directory, or a list of them")?;
    Ok(paths.into_iter().map(PathBuf::from).collect())
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let items = match value {
        Value::List(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let text = |item: &Value| match item {
        Value::Scalar(text) => Ok(text.clone()),
        _ => Err("expected a value, or a list of them".to_owned()),
    };
    items.iter().map(text).collect()
}

/// Returns the text of an option of the audit log. In Cassandra's file, the logger is a list of one
/// `class_name`.
fn audit_value(value: &Value) -> Result<String, String> {
    match value {
        Value::Scalar(text) => Ok(text.clone()),
        Value::List(items) => match items.as_slice() {
            [Value::Map(keys)] => match keys.as_slice() {
                [(key, _, Value::Scalar(class))] if key == "class_name" => Ok(class.clone()),
                _ => Err("expected one class_name".to_owned()),
            },
            _ => Err("expected names separated by commas".to_owned()),
        },
        _ => Err("expected one value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_described() {
        let document = include_str!("../../../../docs/settings.md");
        for setting in SETTINGS {
            let rows = document.lines().filter(|line| line.starts_with("| `"));
            let described = rows.filter_map(|row| row.split(" | ").next());
            let name = format!("`{}`", setting.name);
            let is_described = described.into_iter().any(|names| names.contains(&name));
            assert!(is_described, "{} has no line in docs/settings.md", setting.name);
        }
    }
}
