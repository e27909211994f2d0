//! The tables that the node keeps about itself, with the names and columns that drivers and tools
//! query.
//!
//! `system_schema` holds the whole schema as rows. A schema change is a write to it
//! ([`schema_mutation`]), and a start reads it back ([`read_schema`]). `system.local` describes the
//! node. These are ordinary tables, logged, flushed and read like any other. Only their own
//! definitions ([`keyspaces`]) are compiled in; the rows for them in the schema tables are only for
//! clients.
//!
//! The tables of two keyspaces are virtual ([`is_virtual`]): they have no files, and
//! `system_virtual_schema` describes them. The rows of `system.size_estimates` and
//! `system.table_estimates` are also computed when they are read ([`is_made_when_read`]).
//!
//! Source: the schema of Cassandra 5.0 as `DESCRIBE FULL SCHEMA` prints it; `column_constraints`
//! and `annotations` follow Cassandra 6.

mod column_rows;
mod counterparts;
mod decode;
mod definitions;
mod encode;
mod index_info;
mod local;
mod mask_value;
mod row;
mod system_keyspaces;
mod traces;
mod view_rows;
mod views;

use espalier_mutation::schema::TableMetadata;

pub use decode::{SchemaRows, read_keyspaces, read_schema};
pub use definitions::{keyspaces, table};
pub use encode::schema_mutation;
pub(crate) use encode::with_column;
pub(crate) use index_info::index_info_update;
pub use local::{
    DATA_CENTER, LocalNode, RACK, RELEASE_VERSION, TOKEN, generation_of, is_described_by,
    local_key, local_update, schema_version_update, tokens_of, tokens_update,
};
pub(crate) use local::{address, truncations_of};
pub use row::{Fields, RowWriter};
pub(crate) use row::{deletion_below, text_key};
pub use system_keyspaces::is_system_keyspace;
pub use traces::{TRACES_KEYSPACE, TraceSession, TraceWriter};
pub use views::{VIEWS_KEYSPACE, VIRTUAL_SCHEMA_KEYSPACE, is_made_when_read, is_virtual};

/// Keyspace of the schema tables.
pub const SCHEMA_KEYSPACE: &str = "system_schema";
/// Keyspace of the node's own tables.
pub const SYSTEM_KEYSPACE: &str = "system";
/// Table that describes the node.
const LOCAL_TABLE: &str = "local";

/// Returns whether the node reads the keyspace's tables when it starts. Their contents must agree
/// with each other and with the files on disk.
pub fn is_needed_for_start(keyspace: &str) -> bool {
    keyspace == SCHEMA_KEYSPACE || keyspace == SYSTEM_KEYSPACE
}

/// Returns whether only schema statements may change the keyspace's rows. A direct write would
/// change the schema at the next start, without the steps of a schema change, and could leave files
/// of undefined tables.
pub fn is_changed_by_schema_statements(keyspace: &str) -> bool {
    keyspace == SCHEMA_KEYSPACE
}

/// Returns whether TRUNCATE must refuse the table: without its rows, the node would lose its schema
/// or its identity. The other tables of `system` may be empty.
pub(crate) fn must_not_be_empty(table: &TableMetadata) -> bool {
    table.keyspace == SCHEMA_KEYSPACE
        || (table.keyspace == SYSTEM_KEYSPACE && table.name == LOCAL_TABLE)
}

/// The schema tables that the node writes and reads, in this order.
pub const SCHEMA_TABLES: [&str; 11] = [
    "keyspaces",
    "types",
    "tables",
    "columns",
    "dropped_columns",
    "column_constraints",
    "column_masks",
    "indexes",
    "views",
    "view_conditions",
    "annotations",
];

/// A schema row that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("system_schema.{table}: row {row}: {reason}")]
pub struct SchemaError {
    /// The schema table.
    pub table: &'static str,
    /// Keyspace and further names of the row.
    pub row: String,
    /// The fault.
    pub reason: String,
}
