//! What a statement returns.

use std::sync::Arc;

use bytes::Bytes;

use crate::metadata::ResultMetadata;

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryResult {
    /// Nothing.
    Void,
    /// Rows.
    Rows(Rows),
    /// `USE`: the connection's new keyspace.
    SetKeyspace(String),
    /// The schema has changed.
    SchemaChange(SchemaChange),
}

/// A page of rows, already in the form of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The columns.
    pub metadata: Arc<ResultMetadata>,
    /// Rows in `content`.
    pub row_count: i32,
    /// Row by row, for each column be32 length (−1: null) and the bytes.
    pub content: Vec<u8>,
    /// Where the next page begins, if there may be more.
    pub paging_state: Option<Bytes>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// What a schema statement changed. Source: native_protocol_v5.spec section 4.2.5.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// How.
    pub change: ChangeKind,
    /// What.
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
    /// All changes in the order of their events, which is Cassandra's: the content of a keyspace is
    /// dropped before the keyspace, and the users of a type change after the type.
    pub fn into_events(mut self) -> Vec<SchemaChange> {
        let mut events = std::mem::take(&mut self.further);
        let index = if self.change == ChangeKind::Dropped { events.len() } else { 0 };
        events.insert(index, self);
        events
    }
}

/// How something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// What kind of thing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeTarget {
    Keyspace,
    Table,
    Type,
}
