//! Definitions of the system tables.
//!
//! A definition has the name of a table and its columns. A column is `name type`, and then `pk`,
//! `ck` or nothing.

use std::sync::{Arc, LazyLock};

use espalier_mutation::schema::{
    KeyspaceMetadata, TableBuilder, TableId, TableMetadata, TableOptions,
};
use espalier_types::CqlType;
use md5::{Digest, Md5};

use super::{
    counterparts::{
        AUTH, AUTH_KEYSPACE, DISTRIBUTED, DISTRIBUTED_KEYSPACE, SYSTEM_COUNTERPARTS,
        comment_of_counterpart,
    },
    traces::TRACES_KEYSPACE,
    views::{VIEWS, VIEWS_KEYSPACE, VIRTUAL_SCHEMA, VIRTUAL_SCHEMA_KEYSPACE, comment_of_view},
};

const OPTIONS: &str = "additional_write_policy text, allow_auto_snapshot boolean, bloom_filter_fp_chance double, \
    caching frozen<map<text, text>>, cdc boolean, comment text, compaction frozen<map<text, text>>, \
    compression frozen<map<text, text>>, crc_check_chance double, dclocal_read_repair_chance double, \
    default_time_to_live int, extensions frozen<map<text, blob>>, gc_grace_seconds int, id uuid, \
    incremental_backups boolean, max_index_interval int, memtable text, memtable_flush_period_in_ms int, \
    min_index_interval int, read_repair text, read_repair_chance double, speculative_retry text";

const SCHEMA: &[(&str, &str)] = &[
    (
        "keyspaces",
        "keyspace_name text pk, durable_writes boolean, replication frozen<map<text, text>>",
    ),
    ("tables", "keyspace_name text pk, table_name text ck, flags frozen<set<text>>, $OPTIONS"),
    (
        "columns",
        "keyspace_name text pk, table_name text ck, column_name text ck, clustering_order text, \
         column_name_bytes blob, kind text, position int, type text",
    ),
    (
        "column_masks",
        "keyspace_name text pk, table_name text ck, column_name text ck, \
         function_argument_nulls frozen<list<boolean>>, function_argument_types frozen<list<text>>, \
         function_argument_values frozen<list<text>>, function_keyspace text, function_name text",
    ),
    // Cassandra 5.0 does not have the next three tables.
    (
        "view_conditions",
        "keyspace_name text pk, view_name text ck, place text ck, columns frozen<list<text>>, operator text, \
         operands frozen<list<text>>",
    ),
    (
        "annotations",
        "keyspace_name text pk, object_kind text ck, object_name text ck, part_name text ck, comment text, \
         security_label text",
    ),
    (
        "column_constraints",
        "keyspace_name text pk, table_name text ck, column_name text ck, functions frozen<list<text>>, \
         operators frozen<list<text>>, terms frozen<list<text>>",
    ),
    (
        "dropped_columns",
        "keyspace_name text pk, table_name text ck, column_name text ck, dropped_time timestamp, kind text, type text",
    ),
    (
        "triggers",
        "keyspace_name text pk, table_name text ck, trigger_name text ck, options frozen<map<text, text>>",
    ),
    (
        "views",
        "keyspace_name text pk, view_name text ck, base_table_id uuid, base_table_name text, \
         include_all_columns boolean, where_clause text, $OPTIONS",
    ),
    (
        "types",
        "keyspace_name text pk, type_name text ck, field_names frozen<list<text>>, field_types frozen<list<text>>",
    ),
    (
        "functions",
        "keyspace_name text pk, function_name text ck, argument_types frozen<list<text>> ck, \
         argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, return_type text",
    ),
    (
        "aggregates",
        "keyspace_name text pk, aggregate_name text ck, argument_types frozen<list<text>> ck, final_func text, \
         initcond text, return_type text, state_func text, state_type text",
    ),
    (
        "indexes",
        "keyspace_name text pk, table_name text ck, index_name text ck, kind text, options frozen<map<text, text>>",
    ),
];

const SYSTEM: &[(&str, &str)] = &[
    (
        "local",
        "key text pk, bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, \
         cql_version text, data_center text, gossip_generation int, host_id uuid, listen_address inet, \
         listen_port int, native_protocol_version text, partitioner text, rack text, release_version text, \
         rpc_address inet, rpc_port int, schema_version uuid, tokens set<text>, truncated_at map<uuid, blob>",
    ),
    (
        "peers",
        "peer inet pk, data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, \
         rpc_address inet, schema_version uuid, tokens set<text>",
    ),
    (
        "peers_v2",
        "peer inet pk, peer_port int ck, data_center text, host_id uuid, native_address inet, native_port int, \
         preferred_ip inet, preferred_port int, rack text, release_version text, schema_version uuid, tokens set<text>",
    ),
    ("batches", "id timeuuid pk, mutations list<blob>, version int"),
    ("built_views", "keyspace_name text pk, view_name text ck, status_replicated boolean"),
    ("IndexInfo", "table_name text pk, index_name text ck, value blob"),
    (
        "compaction_history",
        "id timeuuid pk, bytes_in bigint, bytes_out bigint, columnfamily_name text, compacted_at timestamp, \
         compaction_properties frozen<map<text, text>>, keyspace_name text, rows_merged map<int, bigint>",
    ),
    (
        "size_estimates",
        "keyspace_name text pk, table_name text ck, range_start text ck, range_end text ck, \
         mean_partition_size bigint, partitions_count bigint",
    ),
    (
        "table_estimates",
        "keyspace_name text pk, table_name text ck, range_type text ck, range_start text ck, range_end text ck, \
         mean_partition_size bigint, partitions_count bigint",
    ),
    ("prepared_statements", "prepared_id blob pk, logged_keyspace text, query_string text"),
];

const TRACES: &[(&str, &str)] = &[
    (
        "sessions",
        "session_id uuid pk, client inet, command text, coordinator inet, coordinator_port int, duration int, \
         parameters map<text, text>, request text, started_at timestamp",
    ),
    (
        "events",
        "session_id uuid pk, event_id timeuuid ck, activity text, source inet, source_elapsed int, \
         source_port int, thread text",
    ),
];

/// Returns all system keyspaces with their tables, including the virtual ones.
pub fn keyspaces() -> Vec<KeyspaceMetadata> {
    defined().clone()
}

/// Returns the definitions, which are parsed once.
fn defined() -> &'static Vec<KeyspaceMetadata> {
    static DEFINED: LazyLock<Vec<KeyspaceMetadata>> = LazyLock::new(define_all);
    &DEFINED
}

fn define_all() -> Vec<KeyspaceMetadata> {
    let local = [("class", "org.apache.cassandra.locator.LocalStrategy")];
    let simple = |factor| {
        [("class", "org.apache.cassandra.locator.SimpleStrategy"), ("replication_factor", factor)]
    };
    vec![
        keyspace("system", &local, &[SYSTEM, SYSTEM_COUNTERPARTS].concat()),
        keyspace(AUTH_KEYSPACE, &simple("1"), AUTH),
        keyspace(DISTRIBUTED_KEYSPACE, &simple("3"), DISTRIBUTED),
        keyspace("system_schema", &local, SCHEMA),
        keyspace(TRACES_KEYSPACE, &simple("2"), TRACES),
        keyspace(VIEWS_KEYSPACE, &local, VIEWS),
        keyspace(VIRTUAL_SCHEMA_KEYSPACE, &local, VIRTUAL_SCHEMA),
    ]
}

/// Returns a system table. Panics if the name is not compiled in; callers use constants.
pub fn table(keyspace: &str, name: &str) -> Arc<TableMetadata> {
    defined()
        .iter()
        .find(|metadata| metadata.name == keyspace)
        .and_then(|metadata| metadata.tables.get(name).cloned())
        .unwrap_or_else(|| panic!("{keyspace}.{name} is not a system table"))
}

/// Returns a keyspace with these tables.
fn keyspace(name: &str, replication: &[(&str, &str)], tables: &[(&str, &str)]) -> KeyspaceMetadata {
    KeyspaceMetadata {
        replication: replication.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        tables: tables
            .iter()
            .map(|(table, columns)| (table.to_string(), Arc::new(define(name, table, columns))))
            .collect(),
        ..KeyspaceMetadata::new(name)
    }
}

fn define(keyspace: &str, name: &str, columns: &str) -> TableMetadata {
    let columns = columns.replace("$OPTIONS", OPTIONS);
    let gc_grace_days = match keyspace {
        // Rows of traces expire, and the node never deletes them.
        TRACES_KEYSPACE => 0,
        AUTH_KEYSPACE => 90,
        DISTRIBUTED_KEYSPACE => 10,
        _ => 7,
    };
    let comment = match (keyspace, name) {
        (TRACES_KEYSPACE, "sessions") => "tracing sessions",
        (TRACES_KEYSPACE, "events") => "tracing events",
        (VIEWS_KEYSPACE | VIRTUAL_SCHEMA_KEYSPACE, _) => comment_of_view(keyspace, name),
        _ => comment_of_counterpart(keyspace, name),
    };
    let options = TableOptions {
        gc_grace_seconds: gc_grace_days * 24 * 3600,
        comment: comment.to_owned(),
        ..TableOptions::default()
    };
    let mut builder =
        TableBuilder::new(keyspace, name, system_table_id(keyspace, name)).options(options);
    for column in split_columns(&columns) {
        let (column_name, rest) = column.split_once(' ').unwrap_or((column, ""));
        let (type_name, part) = match rest.rsplit_once(' ') {
            Some((type_name, part @ ("pk" | "ck"))) => (type_name, part),
            _ => (rest, ""),
        };
        let column_type = match CqlType::parse_cql(type_name, keyspace, &|_| None) {
            Ok(column_type) => column_type,
            Err(error) => panic!("{keyspace}.{name}.{column_name}: {error}"),
        };
        builder = match part {
            "pk" => builder.partition_key(column_name, column_type),
            "ck" => builder.clustering(column_name, column_type, false),
            _ => builder.regular(column_name, column_type),
        };
    }
    builder.build()
}

/// Splits at commas outside of `<...>`.
fn split_columns(columns: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (index, byte) in columns.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(columns[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(columns[start..].trim());
    parts
}

/// Returns the id that Cassandra gives a system table: a version 3 UUID of keyspace and table name.
pub fn system_table_id(keyspace: &str, name: &str) -> TableId {
    let digest: [u8; 16] = Md5::new().chain_update(keyspace).chain_update(name).finalize().into();
    TableId(uuid::Builder::from_md5_bytes(digest).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_sound() {
        for keyspace in keyspaces() {
            for table in keyspace.tables.values() {
                assert!(
                    !table.partition_key_columns().is_empty(),
                    "{}.{}",
                    keyspace.name,
                    table.name
                );
            }
        }
    }

    /// Ids from `SELECT id FROM system_schema.tables` on a stock Cassandra.
    #[test]
    fn ids_are_those_of_cassandra() {
        let id = |keyspace, name| table(keyspace, name).id.to_string();
        assert_eq!(id("system", "local"), "7ad54392-bcdd-35a6-8417-4e047860b377");
        assert_eq!(id("system_schema", "tables"), "afddfb9d-bc1e-3068-8056-eed6c302ba09");
        assert_eq!(id("system_auth", "roles"), "5bc52802-de25-35ed-aeab-188eecebb090");
        assert_eq!(
            id("system_distributed", "repair_history"),
            "759fffad-624b-3181-80ee-fa9a52d1f627"
        );
    }
}
