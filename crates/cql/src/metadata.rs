//! Metadata of bind markers and result columns, as clients receive it.

use std::sync::Arc;

use espalier_mutation::schema::TableMetadata;
use espalier_types::CqlType;
use md5::{Digest, Md5};

/// A result column or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of the table.
    pub keyspace: Arc<str>,
    /// Table.
    pub table: Arc<str>,
    /// Column, alias, or the marker's purpose (`[limit]`, `in(k)`, ...).
    pub name: String,
    /// Type of the value.
    pub column_type: CqlType,
}

impl ColumnSpec {
    /// Returns the metadata of a column of a result of `table`.
    pub fn of(table: &TableMetadata, name: impl Into<String>, column_type: CqlType) -> Self {
        Self {
            keyspace: table.keyspace.as_str().into(),
            table: table.name.as_str().into(),
            name: name.into(),
            column_type,
        }
    }
}

/// The bind markers of a prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindMetadata {
    /// One entry for each marker.
    pub columns: Vec<ColumnSpec>,
    /// For each partition key column, the index of the last marker that is bound to the column. The
    /// list is empty if one of the columns has no marker. Drivers compute the routing token from
    /// the values of these markers.
    pub partition_key_indices: Vec<u16>,
}

/// The columns of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultMetadata {
    /// One entry for each column.
    pub columns: Vec<ColumnSpec>,
    /// Changes when the names or types of the columns change (protocol v5).
    pub id: [u8; 16],
}

impl ResultMetadata {
    /// Creates the metadata and computes its id.
    pub fn new(columns: Vec<ColumnSpec>) -> Self {
        let mut digest = Md5::new();
        for column in &columns {
            digest.update(column.name.as_bytes());
            digest.update([0]);
            // Marshal names include the fields of user types; CQL names do not.
            digest.update(column.column_type.marshal_name().as_bytes());
            digest.update([0]);
        }
        Self { columns, id: digest.finalize().into() }
    }

    /// Creates metadata without an id, for an answer that describes its own columns.
    pub fn of_one_answer(columns: Vec<ColumnSpec>) -> Self {
        Self { columns, id: [0; 16] }
    }
}

/// Computes the id of a prepared statement: MD5 of keyspace and text, as in Cassandra. The keyspace
/// is the session's, or none if the statement does not depend on it.
pub fn statement_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    let mut digest = Md5::new();
    digest.update(keyspace.unwrap_or_default().as_bytes());
    digest.update(text.as_bytes());
    digest.finalize().into()
}
