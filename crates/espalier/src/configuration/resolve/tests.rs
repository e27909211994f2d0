//! Tests of whole configurations: their values, and the errors of refused ones.

use super::*;
use crate::command_line::{Command, parse_from};

const FILE: &str = "node.yaml";

fn machine() -> Machine {
    Machine { memory_bytes: 8 << 30, parallelism: 4, allowed_cpus: vec![2, 3, 6, 7] }
}

fn load(arguments: &[&str], file: &str) -> Result<NodeConfiguration, String> {
    let all = ["espalier", "serve"].iter().chain(arguments);
    let Ok(Command::Serve(arguments)) = parse_from(all) else { panic!("{arguments:?}") };
    let file = (Path::new(FILE), file.as_bytes());
    let loaded = NodeConfiguration::load(&arguments, Some(file), None, machine());
    loaded.map_err(|error| error.to_string())
}

fn refused(file: &str) -> String {
    load(&[], file).unwrap_err()
}

#[test]
fn nothing_is_needed() {
    let node = load(&[], "").unwrap();
    assert_eq!(node.directory, Path::new("espalier-data"));
    assert_eq!(node.storage.data_directory, Path::new("espalier-data/data"));
    assert_eq!(node.storage.commit_log.directory, Path::new("espalier-data/commitlog"));
    assert_eq!(node.storage.commit_log.sync, CommitLogSync::Group { window: Duration::ZERO });
    assert_eq!(node.storage.sstables.format, "da");
    assert_eq!(node.storage.memtables.bytes, 1 << 30);
    assert_eq!(node.server.listen.to_string(), "127.0.0.1:9042");
    assert_eq!(node.server.admin_listen.unwrap().to_string(), "127.0.0.1:10000");
    assert_eq!(node.shards.count, 4);
    assert_eq!(node.shards.pin_to, Some(vec![2, 3, 6, 7]));
}

#[test]
fn flags_beat_set_and_set_beats_the_file() {
    let file = "native_transport_port: 1\napi_port: 2\ncluster_name: x\nworkdir: /w\n";
    let arguments = ["--port", "5", "--set", "native_transport_port=4", "--set", "api_port=3"];
    let node = load(&arguments, file).unwrap();
    assert_eq!(node.server.listen.port(), 5);
    assert_eq!(node.server.admin_listen.unwrap().port(), 3);
    assert_eq!(node.cluster_name, "x");
    assert_eq!(node.directory, Path::new("/w"));
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    let file = "data_file_directories: [tables]\ncommitlog_directory: /log\n";
    let node = load(&["--workdir", "/w"], file).unwrap();
    assert_eq!(node.storage.data_directory, Path::new("/w/tables"));
    assert_eq!(node.storage.commit_log.directory, Path::new("/log"));
}

#[test]
fn the_directories_of_a_replaced_node_are_not_those_of_the_node() {
    let file = "data_file_directories: [/c/data, /d/data]\ncommitlog_directory: /c/commitlog\n\
                cluster_name: ring\ncommitlog_sync: group\njoin_ring: true\n\
                replace_in_place: true\nseed_provider:\n\
                - class_name: SimpleSeedProvider\n  parameters: [{seeds: 127.0.0.1}]\n";
    let node = load(&["--workdir", "/w"], file).unwrap();
    assert_eq!(node.storage.data_directory, Path::new("/w/data"));
    assert_eq!(node.storage.commit_log.directory, Path::new("/w/commitlog"));
    let replaced = node.replaced.unwrap();
    assert_eq!(replaced.data_directories, [Path::new("/c/data"), Path::new("/d/data")]);
    assert_eq!(replaced.commitlog_directory, Path::new("/c/commitlog"));
    for (file, reason) in [
        (file.replace("/d/data", "/w/data/x"), "/w/data/x of the Cassandra node would be"),
        (file.replace("commitlog_directory: /c/commitlog\n", ""), "needs data_file_directories"),
    ] {
        let error = load(&["--workdir", "/w"], &file).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn fewer_shards_than_processors_are_not_pinned() {
    let node = load(&["--smp", "2"], "").unwrap();
    assert_eq!((node.shards.count, node.shards.pin_to), (2, None));
    assert!(load(&["--smp", "0"], "").unwrap_err().contains("--smp 0"));
}

#[test]
fn new_and_old_names_mean_the_same() {
    let new = "commitlog_segment_size: 16MiB\ncolumn_index_size: 4KiB\nwrite_request_timeout: 3s\n\
               native_transport_max_frame_size: 2MiB\ncommitlog_sync: periodic\n\
               commitlog_sync_period: 500ms\ncompaction_throughput: 64MiB/s\n";
    let old = "commitlog_segment_size_in_mb: 16\ncolumn_index_size_in_kb: 4\n\
               write_request_timeout_in_ms: 3000\nnative_transport_max_frame_size_in_mb: 2\n\
               commitlog_sync: periodic\ncommitlog_sync_period_in_ms: 500\n\
               compaction_throughput_mb_per_sec: 64\n";
    for file in [new, old] {
        let node = load(&[], file).unwrap();
        assert_eq!(node.storage.commit_log.segment_bytes, 16 << 20);
        assert_eq!(node.storage.sstables.column_index_bytes, Some(4 << 10));
        assert_eq!(node.storage.compaction_bytes_per_second, Some(64 << 20));
        assert_eq!(node.storage.timeouts.write, Duration::from_secs(3));
        assert_eq!(node.server.max_frame_size, 2 << 20);
        let period = Duration::from_millis(500);
        assert_eq!(node.storage.commit_log.sync, CommitLogSync::Periodic { period });
    }
    assert_eq!(
        refused("column_index_size: 4KiB\ncolumn_index_size_in_kb: 4\n"),
        "node.yaml:2: column_index_size was given before, at node.yaml:1"
    );
}

#[test]
fn memory_is_split_unless_a_part_is_given() {
    let node = load(&["--memory", "2G"], "memtable_offheap_space: 100MiB\n").unwrap();
    assert_eq!(node.storage.memtables.bytes, 100 << 20);
    assert_eq!(node.storage.caches.page_cache_bytes, 768 << 20);
    assert_eq!(node.server.max_request_data_in_flight, (2 << 30) / 10);
    let node = load(&[], "memtable_heap_space: 1MiB\nmemtable_offheap_space: 2MiB\n").unwrap();
    assert_eq!(node.storage.memtables.bytes, 3 << 20);
    assert!(refused("memtable_heap_space: 0MiB\n").contains("give memtables some memory"));
    for file in ["file_cache_size: 100GiB\n", "memtable_offheap_space: 1500MiB\n"] {
        let error = load(&["--memory", "2G"], file).unwrap_err();
        assert!(error.contains("are more than --memory (2 GiB)"), "{error}");
    }
}

#[test]
fn unknown_keys_are_reported_with_the_closest_key() {
    assert_eq!(
        refused("# first\ncommit_log_sync: batch\n"),
        "node.yaml:2: there is no setting \"commit_log_sync\"; did you mean commitlog_sync?"
    );
    assert_eq!(
        refused("flavour: x\n"),
        "node.yaml:1: there is no setting \"flavour\"; docs/settings.md lists the settings"
    );
    assert_eq!(
        load(&["--set", "ap_port=1"], "").unwrap_err(),
        "--set: there is no setting \"ap_port\"; did you mean api_port?"
    );
    for (flag, setting) in [("port", "native_transport_port"), ("host", "rpc_address")] {
        assert_eq!(
            load(&["--set", &format!("{flag}=3")], "").unwrap_err(),
            format!("--set: there is no setting \"{flag}\"; did you mean {setting}?")
        );
    }
}

#[test]
fn a_line_without_a_key_is_named() {
    for (file, line) in [("# first\n\nauthenticator PasswordAuthenticator\n", 3), ("- a\n", 1)] {
        let error = refused(file);
        let expected = format!("line {line}: expected lines of the form key: value");
        assert!(error.ends_with(&expected), "{error}");
    }
    let error = refused("native_transport_port: 9042\nauthenticator PasswordAuthenticator\n");
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn each_key_of_tls_between_nodes_has_an_effect_or_is_refused() {
    for (line, reason) in [
        ("internode_encrption: all", "did you mean server_encryption_options.internode_encryption"),
        ("require_client_auht: true", "did you mean server_encryption_options.require_client_auth"),
        ("outbound_keystore: x", "one certificate"),
        ("max_certificate_validity_period: 1d", "no limit here"),
        ("legacy_ssl_storage_port_enabled: true", "only false"),
    ] {
        let error = refused(&format!("server_encryption_options:\n  {line}\n"));
        assert!(error.contains(reason), "{error}");
    }
    let error =
        refused("internode_authenticator:\n  class_name: MutualTlsInternodeAuthenticator\n");
    assert!(error.contains("only AllowAllInternodeAuthenticator"), "{error}");
    assert!(load(&[], "server_encryption_options:\n").is_ok());
    assert!(refused("server_encryption_option:\n").contains("there is no setting"));
}

#[test]
fn the_version_of_new_files_has_the_names_of_both_families() {
    let version = |text: &str| load(&[], text).unwrap().storage.sstables.format;
    assert_eq!(version("sstable_format: me\n"), "me");
    assert_eq!(version("sstable:\n  selected_format: big\n"), "big");
    assert_eq!(version("storage_compatibility_mode: CASSANDRA_4\n"), "nb");
    let old = "storage_compatibility_mode: CASSANDRA_4\nsstable:\n  selected_format: ";
    assert_eq!(version(&format!("{old}big\n")), "nb");
    let refused = load(&[], &format!("{old}bti\n")).unwrap_err().to_string();
    assert!(refused.contains("CASSANDRA_4, which knows only big"), "{refused}");
    assert!(load(&[], "sstable_format: zz\n").is_err());
}

#[test]
fn unsupported_settings_are_refused() {
    assert_eq!(
        refused("client_encryption_options:\n  priority_string: SECURE128\n"),
        "node.yaml:2: client_encryption_options.priority_string is not supported here: give \
         cipher_suites and accepted_protocols instead"
    );
    assert_eq!(
        refused("authenticator:\n  class_name: MutualTlsAuthenticator\n"),
        "MutualTlsAuthenticator needs client_encryption_options with enabled: true and \
         require_client_auth: true (or optional)"
    );
    assert!(refused("cdc_enabled: true\n").contains("only false"));
    let ring = "join_ring: true\nauto_bootstrap: false\ninitial_token: 1\nseed_provider:\n  \
                - class_name: SimpleSeedProvider\n    parameters: [{seeds: 127.0.0.1}]\n";
    assert!(load(&[], ring).unwrap().server.is_ring_member);
    assert!(!load(&[], "").unwrap().server.is_ring_member);
    let error = refused(&format!("{ring}commitlog_sync: periodic\n"));
    assert!(error.contains("join_ring needs commitlog_sync group or batch"), "{error}");
}

#[test]
fn authentication_and_authorization_fit_together() {
    use espalier_cql::auth::{Authenticator, Authorizer};
    let auth = |file: &str| load(&[], file).unwrap().auth;
    assert_eq!(auth("authorizer: AllowAllAuthorizer\n"), Default::default());
    let both = "authenticator: org.apache.cassandra.auth.PasswordAuthenticator\n\
                authorizer:\n  class_name: CassandraAuthorizer\n";
    let both = auth(both);
    assert_eq!(both.authenticator, Authenticator::Password);
    assert_eq!(both.authorizer, Authorizer::Cassandra);
    let scylla = auth("authenticator: com.scylladb.auth.TransitionalAuthenticator\n");
    assert_eq!(scylla.authenticator, Authenticator::Transitional);
    let message = refused("authorizer: CassandraAuthorizer\n");
    assert!(message.contains("AllowAllAuthenticator can't be used with CassandraAuthorizer"));
    let transitional =
        "authenticator: TransitionalAuthenticator\nauthorizer: CassandraAuthorizer\n";
    assert!(refused(transitional).contains("TransitionalAuthorizer"));
    let twice = "auth_superuser_password: a\nauth_superuser_salted_password: b\n";
    assert!(refused(twice).contains("exclude each other"));
}

#[test]
fn certificates_of_clients_need_a_truststore() {
    for (options, choice) in [
        ("client_encryption_options", "true"),
        ("client_encryption_options", "optional"),
        ("api_encryption_options", "true"),
    ] {
        let file = format!(
            "{options}:\n  enabled: true\n  keystore: a.pem\n  require_client_auth: {choice}\n"
        );
        let expected = format!("{options}.require_client_auth needs a truststore");
        assert!(refused(&file).contains(&expected), "{file}");
        assert!(load(&[], &format!("{file}  truststore: b.pem\n")).is_ok(), "{file}");
    }
}

#[test]
fn passwords_of_settings_are_not_shown() {
    let node = load(&[], "auth_superuser_password: secret\n").unwrap();
    assert!(!format!("{node:?}").contains("secret"));
    let values = super::super::shown(&node).into_iter().filter_map(|(_, value)| value);
    assert!(values.into_iter().all(|value| !value.contains("secret")));
}

#[test]
fn errors_for_bad_values_name_the_expected_form() {
    assert_eq!(
        refused("commitlog_segment_size: 32\n"),
        "node.yaml:1: commitlog_segment_size: 32: expected a size: a whole number with the unit B, \
         KiB, MiB or GiB, such as 32MiB"
    );
    assert!(refused("native_transport_port: 70000\n").contains("0 to 65535"));
    assert!(refused("commitlog_sync: sometimes\n").contains("group, batch, periodic"));
    assert!(refused("memtable_cleanup_threshold: 1.5\n").contains("up to 1"));
    assert!(refused("commitlog_sync: [batch]\n").contains("expected one value"));
    assert!(refused("native_transport_max_concurrent_connections: -2\n").contains("-1 for no"));
    assert!(refused("data_file_directories: [/a, /b]\n").contains("give exactly one"));
    assert!(refused("commitlog_total_space: 1MiB\n").contains("commitlog_segment_size"));
    assert!(refused("rpc_address: 999.1.1.1\n").contains("give an IP address"));
    assert!(refused("column_index_size_in_kb: 4KiB\n").contains("without a unit"));
}

#[test]
fn limits_of_connections() {
    let file = "native_transport_max_concurrent_connections: 10\n\
                native_transport_max_concurrent_connections_per_ip: -1\n";
    let limits = load(&[], file).unwrap().server.connection_limits;
    assert_eq!((limits.total, limits.per_address), (Some(10), None));
}

/// Settings of cassandra_latest.yaml (5.0), which also has `auto_snapshot: true`.
const CASSANDRA_LATEST: &str = "
cluster_name: 'Test Cluster'
num_tokens: 16
allocate_tokens_for_local_replication_factor: 3
hinted_handoff_enabled: true
max_hint_window: 3h
authenticator:
  class_name: AllowAllAuthenticator
authorizer:
  class_name: AllowAllAuthorizer
role_manager:
  class_name: CassandraRoleManager
  parameters:
    invalid_role_disconnect_task_period: 4h
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
cdc_enabled: false
disk_failure_policy: stop
commit_failure_policy: stop
prepared_statements_cache_size:
key_cache_size: 0MiB
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 32MiB
commitlog_disk_access_mode: auto
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: \"127.0.0.1:7000\"
concurrent_reads: 32
memtable:
  configurations:
    skiplist:
      class_name: SkipListMemtable
    trie:
      class_name: TrieMemtable
    default:
      inherits: trie
memtable_allocation_type: offheap_objects
listen_address: localhost
start_native_transport: true
native_transport_port: 9042
native_transport_allow_older_protocols: true
rpc_address: localhost
uuid_sstable_identifiers_enabled: true
sstable:
  selected_format: bti
column_index_size: 4KiB
default_secondary_index: sai
compaction_throughput: 64MiB/s
read_request_timeout: 5000ms
write_request_timeout: 2000ms
endpoint_snitch: SimpleSnitch
crypto_provider:
  - class_name: org.apache.cassandra.security.DefaultCryptoProvider
    parameters:
      - fail_on_missing_provider: \"false\"
server_encryption_options:
  internode_encryption: none
  legacy_ssl_storage_port_enabled: false
  keystore: conf/.keystore
  keystore_password: cassandra
  require_client_auth: false
internode_authenticator:
  class_name: org.apache.cassandra.auth.AllowAllInternodeAuthenticator
  parameters:
client_encryption_options:
  enabled: false
  keystore: conf/.keystore
transparent_data_encryption_options:
  enabled: false
  chunk_length_kb: 64
tombstone_warn_threshold: 1000
batch_size_warn_threshold: 5KiB
audit_logging_options:
  enabled: false
  logger:
    - class_name: BinAuditLogger
materialized_views_enabled: false
storage_compatibility_mode: NONE
";

#[test]
fn a_stock_configuration_is_understood() {
    let node = load(&[], CASSANDRA_LATEST).unwrap();
    assert_eq!(
        node.storage.commit_log.sync,
        CommitLogSync::Periodic { period: DEFAULT_SYNC_PERIOD }
    );
    assert_eq!(node.storage.sstables.column_index_bytes, Some(4 << 10));
    let ignored: Vec<&str> = node.ignored.iter().map(|(key, _)| key.as_str()).collect();
    assert!(ignored.contains(&"num_tokens") && ignored.contains(&"seed_provider"));
    assert!(refused(&format!("{CASSANDRA_LATEST}auto_snapshot: true\n")).contains("auto_snapshot"));
}

/// The shown settings are those in effect: given back, they make the same node.
#[test]
fn settings_are_shown_as_they_could_be_given() {
    use crate::configuration::settings::SETTINGS;
    use crate::configuration::shown;
    let odd = "cluster_name: Another one\nnative_transport_max_frame_size: 5000B\napi_port: 7\n\
        native_transport_max_concurrent_connections: 9\ncommitlog_sync: periodic\ncommitlog_sync_period: 1500us\n\
        commitlog_segment_size: 8MiB\ncommit_failure_policy: ignore\nmemtable_heap_space: 70MiB\n\
        memtable_offheap_space: 1001KiB\nfile_cache_size: 1GiB\nenable_cache: false\nenable_index_cache: false\n\
        compaction_throughput: 12MiB/s\nsstable_summary_ratio: 0.25\nstorage_compatibility_mode: CASSANDRA_4\n\
        column_index_size: 4KiB\nwrite_request_timeout: 3s\ntrace_type_query_ttl: 2h\nworkdir: /some/where\n\
        allow_unknown_data_centers: false\ndrop_compact_storage_enabled: true\nmaterialized_views_enabled: false\nbatch_size_fail_threshold: 700KiB\n\
        query_tombstone_page_limit: 77\nbroadcast_rpc_address: 10.0.0.7\nnative_shard_aware_transport_port: 19042\nmemtable_cleanup_threshold: 0.3\n";
    let encrypted = "client_encryption_options:\n  optional: true\n  certificate: a.pem\n  keyfile: b.pem\n  \
        truststore: c.pem\n  require_client_auth: optional\n  accepted_protocols: [TLSv1.3]\n  cipher_suites: \
        [TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384]\nnative_transport_port_ssl: 9142\n\
        native_shard_aware_transport_port_ssl: 19142\n";
    for file in ["", odd, encrypted, CASSANDRA_LATEST] {
        let node = load(&[], file).unwrap();
        let settings = shown(&node);
        let guardrails = node.storage.guardrails.settings();
        let guardrails = guardrails.into_iter().map(|(name, value)| (name.to_owned(), value));
        let all: Vec<_> = settings.iter().cloned().chain(guardrails).collect();
        let given = all.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let given: Vec<String> =
            given.flat_map(|(name, value)| ["--set".into(), format!("{name}={value}")]).collect();
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let mut again = load(&given, "").unwrap();
        again.storage.memtables.configurations = node.storage.memtables.configurations.clone();
        // Without the setting, small partitions have no row index. No value of the setting has this
        // effect, so the shown value differs.
        if node.storage.sstables.column_index_bytes.is_none() {
            again.storage.sstables.column_index_bytes = None;
        }
        assert_eq!(format!("{:?}", again.storage), format!("{:?}", node.storage));
        assert_eq!(format!("{:?}", again.encryption), format!("{:?}", node.encryption));
        assert_eq!(format!("{:?}", again.server), format!("{:?}", node.server));
        assert_eq!((&again.cluster_name, &again.directory), (&node.cluster_name, &node.directory));
        assert_eq!(shown(&again), settings);
        let is_shown = |name: &str| settings.iter().any(|(other, _)| other == name);
        for setting in SETTINGS {
            let is_left_out = setting.name == "storage_compatibility_mode";
            assert_ne!(is_shown(setting.name), is_left_out, "{}", setting.name);
        }
    }
    let value = |name: &str| {
        let settings = shown(&load(&[], odd).unwrap());
        settings.into_iter().find(|(other, _)| other == name).unwrap().1
    };
    assert_eq!(value("commitlog_sync_period").as_deref(), Some("1500000ns"));
    assert_eq!(value("commitlog_sync_group_window").as_deref(), Some("0ms"));
    assert_eq!(value("memtable_heap_space").as_deref(), Some("72681KiB"));
    assert_eq!(value("sstable_format").as_deref(), Some("nb"));
    assert_eq!(value("compaction_throughput").as_deref(), Some("12MiB/s"));
}

#[test]
fn settings_that_are_not_given_are_shown_with_their_defaults() {
    use crate::configuration::shown;
    let all = |file: &str| shown(&load(&["--host", "10.0.0.3"], file).unwrap());
    let value = |file: &str, name: &str| {
        all(file).into_iter().find(|(other, _)| other == name).unwrap().1.unwrap_or_default()
    };
    assert_eq!(value("", "broadcast_rpc_address"), "10.0.0.3");
    assert_eq!(value("", "commitlog_sync_period"), "10000ms");
    assert_eq!(value("commitlog_sync_period: 3s\n", "commitlog_sync_period"), "3000ms");
    assert_eq!(value("", "commitlog_sync_group_window"), "0ms");
    assert_eq!(value("", "column_index_size"), "1KiB");
    assert_eq!(value("sstable_format: nb\n", "column_index_size"), "64KiB");
    let without: Vec<_> = all("").into_iter().filter(|(_, value)| value.is_none()).collect();
    let is_tls = |name: &&str| name.contains("_encryption_options") || name.ends_with("_ssl");
    let names = without.iter().map(|(name, _)| name.as_str());
    let names: Vec<_> =
        names.filter(|name| !is_tls(name) && !name.starts_with("auth_superuser")).collect();
    let expected = ["native_shard_aware_transport_port", "api_token", "sstable_summary_ratio"];
    assert_eq!(names, expected);
}

#[test]
fn the_admin_api_is_guarded_where_other_machines_reach_it() {
    for address in ["0.0.0.0", "10.0.0.3", "'::'"] {
        let error = refused(&format!("api_address: {address}\n"));
        assert!(error.contains("set api_token, or api_encryption_options"), "{error}");
    }
    let guarded = "api_address: 0.0.0.0\napi_token: 0123456789abcdef\n";
    let node = load(&[], guarded).unwrap();
    assert!(node.server.admin_access.token.is_some());
    assert!(!format!("{node:?}").contains("0123456789abcdef"));
    assert!(refused("api_token: short\n").contains("at least 16 characters"));
    let tls = "api_address: 0.0.0.0\napi_encryption_options:\n  enabled: true\n  keystore: a.pem\n";
    assert!(refused(tls).contains("set api_token"));
    let asks = format!("{tls}  truststore: b.pem\n  require_client_auth: true\n");
    let node = load(&[], &asks).unwrap();
    assert!(node.api_encryption.is_some());
    assert!(load(&[], "api_address: 127.0.0.5\n").is_ok());
}

#[test]
fn options_of_the_audit_log_are_checked_where_they_stand() {
    let node = load(&[], "audit_logging_options:\n  enabled: true\n  included_users: a\n").unwrap();
    assert!(node.server.audit.enabled);
    assert!(node.server.audit.directory.ends_with("espalier-data/audit"));
    let wrong = refused("audit_logging_options:\n  included_categories: DDL,NONE\n");
    assert!(wrong.contains("included_categories") && wrong.contains("NONE not found"), "{wrong}");
    let wrong = refused("audit_logging_options:\n  archive_command: /bin/true %path\n");
    assert!(wrong.contains("runs no commands"), "{wrong}");
}

#[test]
fn settings_of_tls_must_fit_together() {
    let with =
        |lines: &str| refused(&format!("client_encryption_options:\n  enabled: true\n{lines}"));
    assert!(with("  certificate: a.pem\n").contains("both certificate and keyfile"));
    assert!(with("").contains("needs a keystore"));
    assert!(with("  keystore: a.pem\n  protocol: SSLv3\n").contains("SSLv3 is not supported here"));
    assert!(with("  keystore: a.pem\n  accepted_protocols: []\n").contains("is empty"));
    assert!(with("  keystore: a.pem\n  require_client_auth: perhaps\n").contains("optional"));
    assert!(with("  keystor: a.pem\n").contains("there is no setting"));
    assert!(refused("native_transport_port_ssl: 9142\n").contains("enabled: true"));
}
