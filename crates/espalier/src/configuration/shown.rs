//! The settings in effect, including defaults, as `system_views.settings` shows them. Each value
//! that is shown has the form in which an operator could give it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use espalier_cql::auth::Authorizer;
use espalier_runtime::net::tls::{ClientCertificates, Handshake, TlsOptions, TlsVersion};
use espalier_storage::{CommitLogSync, ReplayPolicy};

use super::NodeConfiguration;

/// Returns names and values; a value is `None` if the setting has no value and no default.
///
/// `storage_compatibility_mode`, the configurations of memtables and the settings of a ring except
/// `join_ring` are left out. Storage adds the settings of guardrails, which can change while the
/// node runs.
pub fn shown(node: &NodeConfiguration) -> Vec<(String, Option<String>)> {
    let NodeConfiguration { storage, server, .. } = node;
    let sync = match storage.commit_log.sync {
        CommitLogSync::Group { .. } => "group",
        CommitLogSync::Batch => "batch",
        CommitLogSync::Periodic { .. } => "periodic",
    };
    let failure_policy = match storage.commit_log.failure_policy {
        ReplayPolicy::Stop => "stop",
        ReplayPolicy::Ignore => "ignore",
    };
    let limits = server.connection_limits;
    let admin = server.admin_listen;
    let mut shown = Shown::default();
    shown.put("cluster_name", &node.cluster_name);
    shown.put("join_ring", node.ring.is_some());
    shown.put("workdir", node.directory.display());
    let within = |path: &Path| path_within(&node.directory, path);
    shown.put("data_file_directories", format!("[{}]", within(&storage.data_directory)));
    shown.put("commitlog_directory", within(&storage.commit_log.directory));
    shown.put("rpc_address", server.listen.ip());
    shown.put("broadcast_rpc_address", node.broadcast_address);
    shown.put("native_transport_port", server.listen.port());
    shown.put_or_null(
        "native_shard_aware_transport_port",
        server.shard_aware_listen.map(|address| address.port()),
    );
    shown.encryption(node);
    shown.put_or_null("api_address", admin.map(|address| address.ip()));
    shown.put_or_null("api_port", admin.map(|address| address.port()));
    // The value is never shown.
    shown.put_or_null("api_token", None::<&str>);
    shown.put("native_transport_max_frame_size", size(server.max_frame_size as u64));
    shown.put("native_transport_max_concurrent_connections", limit(limits.total));
    shown.put("native_transport_max_concurrent_connections_per_ip", limit(limits.per_address));
    shown.put(
        "native_transport_max_request_data_in_flight",
        size(server.max_request_data_in_flight as u64),
    );
    shown.put(
        "native_transport_max_request_data_in_flight_per_ip",
        size(server.max_request_data_in_flight_per_ip as u64),
    );
    shown.put("commitlog_sync", sync);
    shown.put("commitlog_sync_period", duration(node.sync_period));
    shown.put("commitlog_sync_group_window", duration(node.sync_group_window));
    shown.put("commitlog_segment_size", size(storage.commit_log.segment_bytes.into()));
    shown.put("commitlog_total_space", size(storage.commit_log.total_bytes));
    shown.put("commit_failure_policy", failure_policy);
    // Memtables have one memory; its size is the sum of the two settings.
    shown.put("memtable_heap_space", size(storage.memtables.bytes as u64));
    shown.put("memtable_offheap_space", size(0));
    shown.put("memtable_cleanup_threshold", storage.memtables.cleanup_threshold);
    shown.put("file_cache_size", size(storage.caches.page_cache_bytes as u64));
    shown.put("enable_cache", storage.caches.row_cache_bytes > 0);
    shown.put("enable_index_cache", storage.caches.enable_index_cache);
    let throughput = storage.compaction_bytes_per_second.unwrap_or(0);
    shown.put("compaction_throughput", format!("{}/s", size(throughput)));
    shown.put_or_null("sstable_summary_ratio", storage.sstables.summary_ratio);
    shown.put("sstable_format", &storage.sstables.format);
    shown.put_or_null("sstable.selected_format", family(&storage.sstables.format));
    let version = espalier_sstable::versions::Version::named(&storage.sstables.format);
    let column_index_bytes = version.map(|version| storage.column_index_size(version));
    shown.put_or_null("column_index_size", column_index_bytes.map(|bytes| size(bytes.into())));
    shown.put("query_tombstone_page_limit", storage.query_tombstone_page_limit);
    let features = storage.schema_features;
    shown.put("allow_unknown_data_centers", features.allow_unknown_data_centers);
    shown.put("drop_compact_storage_enabled", features.drop_compact_storage_enabled);
    shown.put("materialized_views_enabled", features.materialized_views_enabled);
    shown.put("sasi_indexes_enabled", features.sasi_indexes_enabled);
    shown.put("dynamic_data_masking_enabled", features.dynamic_data_masking_enabled);
    shown.put("write_request_timeout", duration(storage.timeouts.write));
    shown.put("cas_contention_timeout", duration(storage.timeouts.cas_contention));
    shown.put("counter_write_request_timeout", duration(storage.timeouts.counter_write));
    let auth = &node.auth;
    let authorizer = match auth.authorizer {
        Authorizer::AllowAll => "AllowAllAuthorizer",
        Authorizer::Cassandra => "CassandraAuthorizer",
        Authorizer::Transitional => "TransitionalAuthorizer",
    };
    let or_all = |limits: bool, kind: &str| {
        format!("{}{kind}Authorizer", if limits { "Cassandra" } else { "AllowAll" })
    };
    for (name, value) in server.audit.shown() {
        let is_directory = name == "audit_logs_dir";
        let value = if is_directory { within(&server.audit.directory) } else { value };
        shown.put(&format!("audit_logging_options.{name}"), value);
    }
    shown.put("authenticator", auth.authenticator.class_name());
    shown.put("authorizer", authorizer);
    shown.put("network_authorizer", or_all(auth.limits_datacenters, "Network"));
    shown.put("cidr_authorizer", or_all(auth.limits_cidrs, "CIDR"));
    shown.put("role_manager", "CassandraRoleManager");
    shown.put_or_null("auth_superuser_name", auth.superuser.name.as_ref());
    // The values are never shown.
    shown.put_or_null("auth_superuser_password", None::<&str>);
    shown.put_or_null("auth_superuser_salted_password", None::<&str>);
    shown.put("trace_type_query_ttl", format!("{}s", server.trace_ttl_s));
    shown.0
}

#[derive(Default)]
struct Shown(Vec<(String, Option<String>)>);

impl Shown {
    fn put(&mut self, name: &str, value: impl ToString) {
        self.put_or_null(name, Some(value));
    }

    fn put_or_null(&mut self, name: &str, value: Option<impl ToString>) {
        self.0.push((name.to_owned(), value.map(|value| value.to_string())));
    }
}

impl Shown {
    fn encryption(&mut self, node: &NodeConfiguration) {
        let encryption = node.encryption.as_ref();
        let is_optional = encryption.map(|encryption| encryption.handshake == Handshake::Optional);
        let is_optional = is_optional.unwrap_or(false);
        self.put("client_encryption_options.optional", is_optional);
        let options = encryption.map(|encryption| &encryption.options);
        self.tls("client_encryption_options", options);
        self.tls("api_encryption_options", node.api_encryption.as_ref());
        let port = encryption.and_then(|encryption| encryption.port);
        self.put_or_null("native_transport_port_ssl", port);
        let port = encryption.and_then(|encryption| encryption.shard_aware_port);
        self.put_or_null("native_shard_aware_transport_port_ssl", port);
    }

    /// Adds the settings that CQL connections and the admin API have in common.
    fn tls(&mut self, section: &str, options: Option<&TlsOptions>) {
        let mut put = |name: &str, value: Option<String>| {
            self.put_or_null(&format!("{section}.{name}"), value);
        };
        put("enabled", Some(options.is_some().to_string()));
        let client_certificates = options.map(|options| options.client_certificates);
        let required = match client_certificates.unwrap_or_default() {
            ClientCertificates::NotAsked => "false",
            ClientCertificates::Asked => "optional",
            ClientCertificates::Required => "true",
        };
        put("require_client_auth", Some(required.to_owned()));
        let path = |path: &PathBuf| path.display().to_string();
        let [keystore, pair] = [true, false].map(|is_one_file| {
            options.filter(|options| (options.certificate == options.key) == is_one_file)
        });
        put("keystore", keystore.map(|options| path(&options.certificate)));
        put("certificate", pair.map(|options| path(&options.certificate)));
        put("keyfile", pair.map(|options| path(&options.key)));
        put("truststore", options.and_then(|options| options.truststore.as_ref().map(path)));
        let one_version = options.and_then(|options| match options.versions.as_slice() {
            [TlsVersion::V1_2] => Some("TLSv1.2"),
            [TlsVersion::V1_3] => Some("TLSv1.3"),
            _ => None,
        });
        put("protocol", Some(one_version.unwrap_or("TLS").to_owned()));
        put("accepted_protocols", one_version.map(str::to_owned));
        let suites = options.map(|options| format!("[{}]", options.cipher_suites.join(", ")));
        put("cipher_suites", suites.filter(|suites| suites != "[]"));
    }
}

/// Returns a relative path that begins with the working directory without that beginning. Returns
/// any other path unchanged.
fn path_within(directory: &Path, path: &Path) -> String {
    let below = path.strip_prefix(directory).ok().filter(|_| path.is_relative());
    below.unwrap_or(path).display().to_string()
}

/// Formats a limit; -1 means none.
fn limit(limit: Option<usize>) -> String {
    limit.map_or_else(|| "-1".to_owned(), |limit| limit.to_string())
}

/// Formats a size in the largest unit of which it is a whole number.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "B"));
    format!("{}{name}", bytes / unit)
}

fn duration(duration: Duration) -> String {
    match duration.subsec_nanos() % 1_000_000 {
        0 => format!("{}ms", duration.as_millis()),
        _ => format!("{}ns", duration.as_nanos()),
    }
}

/// Returns Cassandra's word for the kind of index in a version of SSTables.
fn family(format: &str) -> Option<&'static str> {
    let version = espalier_sstable::versions::Version::named(format)?;
    Some(if version.has_trie_index() { "bti" } else { "big" })
}
