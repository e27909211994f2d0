//! The results of statements.

use std::sync::Arc;

use bytes::Bytes;

use crate::metadata::ResultMetadata;

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// No result.
    Void,
    /// Rows.
    Rows(Rows),
    /// The connection's new keyspace, set by `USE`.
    SetKeyspace(String),
    /// A change of the schema.
    SchemaChange(SchemaChange),
}

/// A page of rows, encoded for the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The columns.
    pub metadata: Arc<ResultMetadata>,
    /// The number of rows in `content`.
    pub row_count: i32,
    /// The rows in order; for each column its length as a big-endian `i32` (−1: null), then its
    /// bytes.
    pub content: Vec<u8>,
    /// The start of the next page, if there may be more rows.
    pub paging_state: Option<Bytes>,
}

/// The change that a schema statement made. Source: native_protocol_v5.spec section 4.2.5.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// The kind of the change: the statement created, updated or dropped the target.
    pub change: ChangeKind,
    /// The kind of the target.
    pub target: ChangeTarget,
    /// The keyspace.
    pub keyspace: String,
    /// The table or type; empty for a keyspace.
    pub name: String,
    /// Changes that follow from this one, such as those of tables with columns of a changed type.
    /// Drivers get an event for each.
    pub further: Vec<SchemaChange>,
}

impl SchemaChange {
    /// Returns all changes in the order of their events, which is Cassandra's: the content of a
    /// keyspace is dropped before the keyspace, and the tables that use a type change after the
    /// type.
    pub fn into_events(mut self) -> Vec<SchemaChange> {
        let mut events = std::mem::take(&mut self.further);
        let index = if self.change == ChangeKind::Dropped { events.len() } else { 0 };
        events.insert(index, self);
        events
    }
}

/// The kinds of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// The kinds of objects that can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeTarget {
    Keyspace,
    Table,
    Type,
}
