//! Definitions of the virtual tables. They store nothing; a read computes their rows.
//!
//! Names and columns are Cassandra's where Cassandra has the table; `table_statistics` is
//! Espalier's own. Cassandra's tables of latencies and caches are left out, because the node does
//! not count the same figures.

use super::SYSTEM_KEYSPACE;

/// Keyspace of the tables about the node's state.
pub const VIEWS_KEYSPACE: &str = "system_views";
/// Keyspace that describes the virtual tables, which are not in the schema tables.
pub const VIRTUAL_SCHEMA_KEYSPACE: &str = "system_virtual_schema";

/// Returns whether the tables of a keyspace are virtual.
#[inline]
pub fn is_virtual(keyspace: &str) -> bool {
    keyspace == VIEWS_KEYSPACE || keyspace == VIRTUAL_SCHEMA_KEYSPACE
}

/// Returns whether a read of the table computes its rows. This holds for the virtual keyspaces and
/// for the estimates, which Cassandra writes into `system` every few minutes.
#[inline]
pub fn is_made_when_read(keyspace: &str, name: &str) -> bool {
    is_virtual(keyspace)
        || (keyspace == SYSTEM_KEYSPACE && (name == "size_estimates" || name == "table_estimates"))
}

pub(super) const VIEWS: &[(&str, &str)] = &[
    (
        "clients",
        "address inet pk, port int ck, client_options frozen<map<text, text>>, connection_stage text, driver_name text, \
         driver_version text, hostname text, keyspace_name text, protocol_version int, request_count bigint, \
         ssl_cipher_suite text, ssl_enabled boolean, ssl_protocol text, username text",
    ),
    ("disk_usage", "keyspace_name text pk, table_name text pk, mebibytes bigint"),
    ("max_partition_size", "keyspace_name text pk, table_name text pk, mebibytes bigint"),
    ("max_sstable_size", "keyspace_name text pk, table_name text pk, mebibytes bigint"),
    ("settings", "name text pk, value text"),
    (
        "snapshots",
        "name text pk, keyspace_name text ck, table_name text ck, created_at timestamp, ephemeral boolean, \
         expires_at timestamp, size_on_disk bigint, true_size bigint",
    ),
    (
        "sstable_tasks",
        "keyspace_name text pk, table_name text ck, task_id timeuuid ck, completion_ratio double, kind text, \
         progress bigint, sstables int, target_directory text, total bigint, total_compressed bigint, unit text",
    ),
    (
        "table_statistics",
        "keyspace_name text pk, table_name text ck, max_partition_bytes bigint, max_sstable_bytes bigint, \
         memtable_bytes bigint, memtable_partitions bigint, memtable_rows bigint, partitions_estimate bigint, \
         pending_compactions int, running_compactions int, sstable_bytes bigint, sstables int",
    ),
];

pub(super) const VIRTUAL_SCHEMA: &[(&str, &str)] = &[
    ("keyspaces", "keyspace_name text pk"),
    ("tables", "keyspace_name text pk, table_name text ck, comment text"),
    (
        "columns",
        "keyspace_name text pk, table_name text ck, column_name text ck, clustering_order text, \
         column_name_bytes blob, kind text, position int, type text",
    ),
];

/// Returns the comment of a virtual table: Cassandra's, if it has the table.
pub(super) fn comment_of_view(keyspace: &str, name: &str) -> &'static str {
    match (keyspace, name) {
        (VIEWS_KEYSPACE, "clients") => "currently connected clients",
        (VIEWS_KEYSPACE, "settings") => "current settings",
        (VIEWS_KEYSPACE, "snapshots") => "available snapshots",
        (VIEWS_KEYSPACE, "sstable_tasks") => "current sstable tasks",
        (VIEWS_KEYSPACE, "table_statistics") => "statistics of each table",
        (VIRTUAL_SCHEMA_KEYSPACE, "keyspaces") => "virtual keyspace definitions",
        (VIRTUAL_SCHEMA_KEYSPACE, "tables") => "virtual table definitions",
        (VIRTUAL_SCHEMA_KEYSPACE, "columns") => "virtual column definitions",
        _ => "",
    }
}
