//! Resolves the given settings: adds defaults and checks settings that depend on each other.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use espalier_commands::memory::MemoryBudget;
use espalier_commands::units::{display_size, parse_size};
use espalier_cql::auth::{AuthSettings, Authenticator, Authorizer, Superuser};
use espalier_internode::MessagingVersion;
use espalier_internode::ring::RingSettings;
use espalier_runtime::ShardOptions;
use espalier_runtime::net::tls::{ClientCertificates, TlsOptions};
use espalier_server::{AdminToken, AuditOptions, ConnectionLimits, ServerConfig};
use espalier_storage::{CommitLogSync, ReplacedNode, ReplayPolicy, StorageConfiguration};

use super::client_encryption::{self, ClientEncryptionSettings};
use super::error::ConfigurationError;
use super::settings::Draft;
use super::{Given, Machine, replaced};
use crate::command_line::ServeArguments;

const DEFAULT_DIRECTORY: &str = "espalier-data";
const DEFAULT_CLUSTER_NAME: &str = "Test Cluster";
const DEFAULT_ADDRESS: &str = "127.0.0.1";
const DEFAULT_CQL_PORT: u16 = 9042;
const DEFAULT_API_PORT: u16 = 10_000;

/// Cassandra's default.
const DEFAULT_SYNC_PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of shards. Arbitrary: a larger number is probably a mistake.
const MAX_SHARDS: usize = 1024;

/// Minimum length of `api_token`. Arbitrary: shorter secrets can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// A node's settings, complete and consistent.
#[derive(Clone, Debug)]
pub struct NodeConfiguration {
    /// The name in `system.local`, which clients show.
    pub cluster_name: String,
    /// The working directory. No other node may use it.
    pub directory: PathBuf,
    /// The address that the node announces to clients.
    pub broadcast_address: IpAddr,
    /// `commitlog_sync_period`. Storage gets it only if `commitlog_sync` is `periodic`.
    pub sync_period: Duration,
    /// `commitlog_sync_group_window`. Storage gets it only if `commitlog_sync` is `group`.
    pub sync_group_window: Duration,
    /// The number of shards, and the processors to which the shards are pinned.
    pub shards: ShardOptions,
    /// The memory budget.
    pub memory: MemoryBudget,
    /// The configuration of storage.
    pub storage: StorageConfiguration,
    /// `client_encryption_options`; `None` if clients connect without TLS.
    pub encryption: Option<ClientEncryptionSettings>,
    /// `api_encryption_options`; `None` if the admin API is plain.
    pub api_encryption: Option<TlsOptions>,
    /// The configuration of the server. The encryption of CQL and of the admin API is missing until
    /// the certificates are read.
    pub server: ServerConfig,
    /// Authentication and authorization.
    pub auth: AuthSettings,
    /// The settings of a member of a Cassandra ring; `None` if the node is a cluster of its own.
    pub ring: Option<RingSettings>,
    /// The Cassandra node that this node replaces.
    pub replaced: Option<ReplacedNode>,
    /// Keys that have no effect, each with the reason.
    pub ignored: Vec<(String, &'static str)>,
}

pub(super) fn resolve(
    arguments: &ServeArguments,
    given: Given,
    machine: Machine,
) -> Result<NodeConfiguration, ConfigurationError> {
    let Given { mut draft, memtables, guardrails, ring, rack_file, mut ignored, .. } = given;
    let memory = MemoryBudget::new(arguments.memory, machine.memory_bytes)?;
    let directory = arguments.workdir.clone().or_else(|| draft.workdir.clone());
    let directory = directory.unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY));
    let mut server = server(arguments, &draft, &memory)?;
    server.audit = audit(&draft, &directory);
    let encryption = client_encryption::resolve(&draft, server.listen.port())?;
    let auth = auth(&draft, encryption.as_ref())?;
    let cluster_name = draft.cluster_name.as_deref().unwrap_or(DEFAULT_CLUSTER_NAME).to_owned();
    let replaced = if ring.replaces()? {
        Some(replaced::take_directories(&mut draft, &directory)?)
    } else {
        None
    };
    let version = messaging_version(&draft);
    let ring = ring.resolve(&cluster_name, version, rack_file.as_deref(), &mut ignored)?;
    server.is_ring_member = ring.is_some();
    if ring.is_some() && draft.commitlog_sync.as_deref() == Some("periodic") {
        return Err(ConfigurationError::Inconsistent(
            "join_ring needs commitlog_sync group or batch: writes of the ring are acknowledged \
             after a sync"
                .to_owned(),
        ));
    }
    let (memtables, guardrails) = (memtables.resolve()?, guardrails.resolve()?);
    let mut storage = storage(&draft, &directory, &memory)?;
    storage.memtables.configurations = memtables;
    storage.guardrails = guardrails;
    Ok(NodeConfiguration {
        ring,
        replaced,
        cluster_name,
        broadcast_address: server.broadcast_address,
        sync_period: sync_period(&draft),
        sync_group_window: sync_group_window(&draft),
        shards: shards(arguments.smp, machine)?,
        storage,
        encryption,
        api_encryption: api_encryption(&draft, &server)?,
        server,
        auth,
        memory,
        directory,
        ignored,
    })
}

/// Returns `--smp` shards; without `--smp`, one for each processor. Shards are pinned only if there
/// are as many shards as processors: two nodes with half of the processors each would otherwise
/// both be pinned to the first half.
fn shards(smp: Option<usize>, machine: Machine) -> Result<ShardOptions, ConfigurationError> {
    let count = smp.unwrap_or(machine.parallelism.max(1));
    if !(1..=MAX_SHARDS).contains(&count) {
        let message = format!("--smp {count}: expected 1 to {MAX_SHARDS} shards");
        return Err(ConfigurationError::Inconsistent(message));
    }
    let pin_to = (machine.allowed_cpus.len() == count).then_some(machine.allowed_cpus);
    Ok(ShardOptions { count, pin_to, ..ShardOptions::default() })
}

fn storage(
    draft: &Draft,
    directory: &Path,
    memory: &MemoryBudget,
) -> Result<StorageConfiguration, ConfigurationError> {
    let mut storage = StorageConfiguration::new(directory);
    match draft.data_file_directories.as_deref() {
        None => {}
        Some([one]) => storage.data_directory = directory.join(one),
        Some(several) => {
            return Err(ConfigurationError::Inconsistent(format!(
                "data_file_directories has {} directories; give exactly one",
                several.len()
            )));
        }
    }
    set_commitlog(&mut storage, draft, directory)?;
    set_memory(&mut storage, draft, memory)?;
    storage.sstables.format = sstable_format(draft)?;
    storage.sstables.summary_ratio = draft.sstable_summary_ratio;
    storage.sstables.column_index_bytes =
        draft.column_index_bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    if let Some(rate) = &draft.compaction_throughput {
        storage.compaction_bytes_per_second = throughput(rate)?;
    }
    if let Some(limit) = draft.query_tombstone_page_limit {
        storage.query_tombstone_page_limit = u32::try_from(limit.max(0)).unwrap_or(u32::MAX);
    }
    let features = &mut storage.schema_features;
    for (given, feature) in [
        (draft.allow_unknown_data_centers, &mut features.allow_unknown_data_centers),
        (draft.drop_compact_storage_enabled, &mut features.drop_compact_storage_enabled),
        (draft.materialized_views_enabled, &mut features.materialized_views_enabled),
        (draft.sasi_indexes_enabled, &mut features.sasi_indexes_enabled),
        (draft.dynamic_data_masking_enabled, &mut features.dynamic_data_masking_enabled),
    ] {
        *feature = given.unwrap_or(*feature);
    }
    if let Some(timeout) = draft.write_request_timeout {
        storage.timeouts.write = timeout;
    }
    if let Some(timeout) = draft.cas_contention_timeout {
        storage.timeouts.cas_contention = timeout;
    }
    if let Some(timeout) = draft.counter_write_request_timeout {
        storage.timeouts.counter_write = timeout;
    }
    Ok(storage)
}

fn set_commitlog(
    storage: &mut StorageConfiguration,
    draft: &Draft,
    directory: &Path,
) -> Result<(), ConfigurationError> {
    if let Some(given) = &draft.commitlog_directory {
        storage.commit_log.directory = directory.join(given);
    }
    storage.commit_log.sync = commitlog_sync(draft);
    if let Some(bytes) = draft.commitlog_segment_bytes {
        storage.commit_log.segment_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
    if let Some(bytes) = draft.commitlog_total_bytes {
        storage.commit_log.total_bytes = bytes;
    }
    if storage.commit_log.total_bytes < u64::from(storage.commit_log.segment_bytes) {
        return Err(ConfigurationError::Inconsistent(
            "commitlog_total_space is less than one commitlog_segment_size; give it more"
                .to_owned(),
        ));
    }
    storage.commit_log.failure_policy = match draft.commit_failure_policy.as_deref() {
        Some("ignore") => ReplayPolicy::Ignore,
        _ => ReplayPolicy::Stop,
    };
    Ok(())
}

/// Divides the memory between memtables and caches.
fn set_memory(
    storage: &mut StorageConfiguration,
    draft: &Draft,
    memory: &MemoryBudget,
) -> Result<(), ConfigurationError> {
    let memtables = match (draft.memtable_heap_bytes, draft.memtable_offheap_bytes) {
        (None, None) => memory.memtables,
        // Memtables have one memory here, so Cassandra's two sizes are added.
        (heap, offheap) => heap.unwrap_or(0).saturating_add(offheap.unwrap_or(0)),
    };
    if memtables == 0 {
        return Err(ConfigurationError::Inconsistent(
            "memtable_heap_space and memtable_offheap_space are 0; give memtables some memory"
                .to_owned(),
        ));
    }
    let page_cache = draft.file_cache_bytes.unwrap_or(memory.page_cache);
    if memtables.saturating_add(page_cache) > memory.total {
        return Err(ConfigurationError::Inconsistent(format!(
            "memtables ({}, memtable_heap_space and memtable_offheap_space) and file_cache_size \
             ({}) are more than --memory ({}): lower them, or raise --memory",
            display_size(memtables),
            display_size(page_cache),
            display_size(memory.total)
        )));
    }
    storage.memtables.bytes = to_usize(memtables);
    storage.caches.page_cache_bytes = to_usize(page_cache);
    if let Some(threshold) = draft.memtable_cleanup_threshold {
        storage.memtables.cleanup_threshold = threshold;
    }
    storage.caches.row_cache_bytes = if draft.enable_cache.unwrap_or(true) {
        storage.caches.page_cache_bytes / 4 * 3
    } else {
        0
    };
    storage.caches.enable_index_cache = draft.enable_index_cache.unwrap_or(true);
    Ok(())
}

/// Parses bytes per second, as in `64MiB/s`; 0 means no limit.
fn throughput(rate: &str) -> Result<Option<u64>, ConfigurationError> {
    let bytes = rate.strip_suffix("/s").ok_or("expected a size by the second, such as 64MiB/s");
    let bytes = bytes.map_err(str::to_owned).and_then(parse_size);
    match bytes {
        Ok(0) => Ok(None),
        Ok(bytes) => Ok(Some(bytes)),
        Err(reason) => {
            Err(ConfigurationError::Inconsistent(format!("compaction_throughput: {reason}")))
        }
    }
}

/// Returns the version of new SSTables. Cassandra's settings name a family of formats, and the
/// oldest Cassandra that must be able to read the files.
fn sstable_format(draft: &Draft) -> Result<String, ConfigurationError> {
    let family = draft.selected_sstable_format.as_deref();
    let is_old = draft.storage_compatibility_mode.as_deref() == Some("CASSANDRA_4");
    if let Some(name) = &draft.sstable_format {
        return Ok(name.clone());
    }
    match (family, is_old) {
        (Some("bti"), true) => Err(ConfigurationError::Inconsistent(
            "sstable.selected_format bti does not work with storage_compatibility_mode \
             CASSANDRA_4, which knows only big; give big or another mode"
                .to_owned(),
        )),
        (_, true) => Ok("nb".to_owned()),
        (family, false) => Ok(family.unwrap_or("da").to_owned()),
    }
}

/// Returns the version of messages between nodes. As in Cassandra, a node without the setting uses
/// the version of CASSANDRA_4; UPGRADING and NONE use the new version.
fn messaging_version(draft: &Draft) -> MessagingVersion {
    match draft.storage_compatibility_mode.as_deref() {
        Some("NONE" | "UPGRADING") => MessagingVersion::V13,
        _ => MessagingVersion::V12,
    }
}

fn commitlog_sync(draft: &Draft) -> CommitLogSync {
    match draft.commitlog_sync.as_deref() {
        Some("batch") => CommitLogSync::Batch,
        Some("periodic") => CommitLogSync::Periodic { period: sync_period(draft) },
        _ => CommitLogSync::Group { window: sync_group_window(draft) },
    }
}

fn sync_period(draft: &Draft) -> Duration {
    draft.commitlog_sync_period.unwrap_or(DEFAULT_SYNC_PERIOD)
}

fn sync_group_window(draft: &Draft) -> Duration {
    draft.commitlog_sync_group_window.unwrap_or(Duration::ZERO)
}

fn server(
    arguments: &ServeArguments,
    draft: &Draft,
    memory: &MemoryBudget,
) -> Result<ServerConfig, ConfigurationError> {
    let port = arguments.port.or(draft.native_transport_port).unwrap_or(DEFAULT_CQL_PORT);
    let listen = match arguments.host {
        Some(host) => SocketAddr::new(host, port),
        None => {
            let name = draft.rpc_address.as_deref().unwrap_or(DEFAULT_ADDRESS);
            address("rpc_address", name, port)?
        }
    };
    let api = draft.api_address.as_deref().unwrap_or(DEFAULT_ADDRESS);
    let api = address("api_address", api, draft.api_port.unwrap_or(DEFAULT_API_PORT))?;
    let mut server = ServerConfig::new(listen, to_usize(memory.total));
    server.admin_listen = Some(api);
    server.admin_access.token = draft.api_token.as_ref().map(AdminToken::new);
    server.shard_aware_listen =
        draft.native_shard_aware_transport_port.map(|port| SocketAddr::new(listen.ip(), port));
    if let Some(bytes) = draft.max_frame_bytes {
        server.max_frame_size = to_usize(bytes);
    }
    if let Some(bytes) = draft.max_in_flight_bytes {
        server.max_request_data_in_flight = to_usize(bytes);
    }
    if let Some(bytes) = draft.max_in_flight_bytes_per_ip {
        server.max_request_data_in_flight_per_ip = to_usize(bytes);
    }
    if let Some(name) = &draft.broadcast_rpc_address {
        server.broadcast_address = address("broadcast_rpc_address", name, 0)?.ip();
    }
    if let Some(ttl) = draft.trace_ttl {
        server.trace_ttl_s = trace_ttl_s(ttl)?;
    }
    // -1 means no limit.
    let limit = |given: Option<i64>| given.and_then(|limit| usize::try_from(limit).ok());
    server.connection_limits = ConnectionLimits {
        total: limit(draft.max_connections),
        per_address: limit(draft.max_connections_per_ip),
    };
    Ok(server)
}

/// Returns the TLS of the admin API, after a check that only known clients reach it.
fn api_encryption(
    draft: &Draft,
    server: &ServerConfig,
) -> Result<Option<TlsOptions>, ConfigurationError> {
    let encryption = client_encryption::resolve_api(draft)?;
    let inconsistent = |message: String| Err(ConfigurationError::Inconsistent(message));
    if draft.api_token.as_ref().is_some_and(|token| token.trim().len() < MIN_TOKEN_BYTES) {
        return inconsistent(format!("api_token needs at least {MIN_TOKEN_BYTES} characters"));
    }
    let asks = |options: &TlsOptions| options.client_certificates == ClientCertificates::Required;
    let is_guarded = draft.api_token.is_some() || encryption.as_ref().is_some_and(asks);
    match server.admin_listen.map(|address| address.ip()) {
        Some(address) if !address.is_loopback() && !is_guarded => inconsistent(format!(
            "api_address {address} lets other machines administer this node: set api_token, or \
             api_encryption_options with require_client_auth: true"
        )),
        _ => Ok(encryption),
    }
}

/// Returns the options of the audit log. The draft has only options that were checked, so setting
/// them cannot fail.
fn audit(draft: &Draft, directory: &Path) -> AuditOptions {
    let place = draft.audit_logs_dir.clone().unwrap_or_else(|| "audit".into());
    let mut options = AuditOptions::new(directory.join(place));
    for (name, value) in &draft.audit {
        let _ = options.set(name, value);
    }
    options
}

fn auth(
    draft: &Draft,
    encryption: Option<&ClientEncryptionSettings>,
) -> Result<AuthSettings, ConfigurationError> {
    let authenticator = match draft.authenticator.as_deref() {
        Some("PasswordAuthenticator") => Authenticator::Password,
        Some("MutualTlsAuthenticator") => Authenticator::MutualTls,
        Some("MutualTlsWithPasswordFallbackAuthenticator") => Authenticator::MutualTlsOrPassword,
        Some("TransitionalAuthenticator") => Authenticator::Transitional,
        _ => Authenticator::AllowAll,
    };
    let asks = encryption.is_some_and(|encryption| {
        encryption.options.client_certificates != ClientCertificates::NotAsked
    });
    if authenticator.takes_certificates() && !asks {
        return Err(ConfigurationError::Inconsistent(format!(
            "{} needs client_encryption_options with enabled: true and require_client_auth: true \
             (or optional)",
            authenticator.class_name()
        )));
    }
    let authorizer = match draft.authorizer.as_deref() {
        Some("CassandraAuthorizer") => Authorizer::Cassandra,
        Some("TransitionalAuthorizer") => Authorizer::Transitional,
        _ => Authorizer::AllowAll,
    };
    let is = |given: &Option<String>, class: &str| given.as_deref() == Some(class);
    let limits_datacenters = is(&draft.network_authorizer, "CassandraNetworkAuthorizer");
    let limits_cidrs = is(&draft.cidr_authorizer, "CassandraCIDRAuthorizer");
    let needing = [
        ("authorizer", &draft.authorizer, authorizer != Authorizer::AllowAll),
        ("network_authorizer", &draft.network_authorizer, limits_datacenters),
        ("cidr_authorizer", &draft.cidr_authorizer, limits_cidrs),
    ];
    if let Some((key, class, _)) = needing.into_iter().find(|(.., needs_login)| *needs_login)
        && authenticator == Authenticator::AllowAll
    {
        let class = class.as_deref().unwrap_or_default();
        return Err(ConfigurationError::Inconsistent(format!(
            "AllowAllAuthenticator can't be used with {class}: give {key} only with an \
             authenticator, such as PasswordAuthenticator"
        )));
    }
    if authenticator == Authenticator::Transitional && authorizer == Authorizer::Cassandra {
        return Err(ConfigurationError::Inconsistent(
            "TransitionalAuthenticator can't be used with CassandraAuthorizer, which would refuse \
             every client without a log-in; give authorizer TransitionalAuthorizer"
                .to_owned(),
        ));
    }
    let superuser = Superuser {
        name: draft.auth_superuser_name.clone(),
        password: draft.auth_superuser_password.clone(),
        salted_password: draft.auth_superuser_salted_password.clone(),
    };
    if superuser.password.is_some() && superuser.salted_password.is_some() {
        return Err(ConfigurationError::Inconsistent(
            "auth_superuser_password and auth_superuser_salted_password exclude each other; give \
             one of them"
                .to_owned(),
        ));
    }
    Ok(AuthSettings { authenticator, authorizer, limits_datacenters, limits_cidrs, superuser })
}

/// Returns the time to live of traces in whole seconds.
fn trace_ttl_s(ttl: Duration) -> Result<u32, ConfigurationError> {
    const GREATEST_S: u32 = 20 * 365 * 24 * 3600;
    let seconds = u32::try_from(ttl.as_secs()).ok();
    seconds.filter(|seconds| (1..=GREATEST_S).contains(seconds)).ok_or_else(|| {
        let message = format!("trace_type_query_ttl: {ttl:?}: expected 1s to {GREATEST_S}s");
        ConfigurationError::Inconsistent(message)
    })
}

/// Parses an address, or resolves a name to its first address.
fn address(key: &str, name: &str, port: u16) -> Result<SocketAddr, ConfigurationError> {
    let bad = |reason: String| {
        ConfigurationError::Inconsistent(format!("{key}: {name}: {reason}; give an IP address"))
    };
    let mut found = (name, port).to_socket_addrs().map_err(|error| bad(error.to_string()))?;
    found.next().ok_or_else(|| bad("the name has no address".to_owned()))
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
