//! The tables that the node keeps about itself, by the names and columns that drivers and tools ask for.
//!
//! `system_schema` holds the schema of everything as rows: a schema change is a write to it ([`schema_mutation`]), and start-up
//! reads it back ([`read_schema`]). `system.local` describes the node. They are ordinary tables: they are logged, flushed and
//! read like any other. Their own definitions ([`keyspaces`]) are the only ones that are compiled in; their rows in the schema
//! tables are for clients alone.
//! The tables of two keyspaces are virtual ([`is_virtual`]): they have no files, and are described in `system_virtual_schema` instead.
//! Source: the schema of Cassandra 5.0 as `DESCRIBE FULL SCHEMA` prints it.

mod counterparts;
mod decode;
mod definitions;
mod encode;
mod local;
mod row;
mod traces;
mod views;

use espalier_mutation::schema::TableMetadata;

pub use decode::{SchemaRows, read_keyspaces, read_schema};
pub use definitions::{keyspaces, table};
pub(crate) use encode::column_row;
pub use encode::schema_mutation;
pub(crate) use local::address;
pub use local::{
    DATA_CENTER, LocalNode, RACK, TOKEN, is_described_by, local_update, schema_version_update,
};
pub use row::{Fields, RowWriter};
pub use traces::{TRACES_KEYSPACE, TraceSession, TraceWriter};
pub use views::{VIEWS_KEYSPACE, VIRTUAL_SCHEMA_KEYSPACE, is_made_when_read, is_virtual};

/// The keyspace of the schema tables.
pub const SCHEMA_KEYSPACE: &str = "system_schema";
/// The keyspace of the node's own tables.
pub const SYSTEM_KEYSPACE: &str = "system";
/// What the node is.
const LOCAL_TABLE: &str = "local";

/// Whether a keyspace is one whose tables the node starts from: what they hold must fit together, and to what the disk has.
pub fn is_needed_for_start(keyspace: &str) -> bool {
    keyspace == SCHEMA_KEYSPACE || keyspace == SYSTEM_KEYSPACE
}

/// Whether CREATE, ALTER and DROP alone may change a keyspace's rows: those that say which tables there are. Any other change would be seen at the
/// next start, and leave the files of tables that are not there any more.
pub fn is_changed_by_schema_statements(keyspace: &str) -> bool {
    keyspace == SCHEMA_KEYSPACE
}

/// Whether without the rows of a table the node would not start, or start as another one. (The other tables of `system` may be empty.)
pub(crate) fn must_not_be_empty(table: &TableMetadata) -> bool {
    table.keyspace == SCHEMA_KEYSPACE
        || (table.keyspace == SYSTEM_KEYSPACE && table.name == LOCAL_TABLE)
}

/// The schema tables, in the order in which they are written and read.
pub const SCHEMA_TABLES: [&str; 5] = ["keyspaces", "types", "tables", "columns", "dropped_columns"];

/// A schema row that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("system_schema.{table}: row {row}: {reason}")]
pub struct SchemaError {
    /// The schema table.
    pub table: &'static str,
    /// Keyspace, and what else names the row.
    pub row: String,
    /// What is wrong.
    pub reason: String,
}
