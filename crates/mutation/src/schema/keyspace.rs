//! Defines keyspaces, and the schema as a whole.

use std::{collections::BTreeMap, sync::Arc};

use espalier_types::UserType;
use uuid::Uuid;

use super::{Annotated, Annotation, TableId, TableMetadata};

/// A keyspace.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceMetadata {
    /// The name in its stored case.
    pub name: String,
    /// Replication options. Outside of a ring, the node stores and shows them, but does not act on
    /// them.
    pub replication: BTreeMap<String, String>,
    /// True if writes go to the commit log.
    pub durable_writes: bool,
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<TableMetadata>>,
    /// User-defined types by name.
    pub types: BTreeMap<String, Arc<UserType>>,
    /// Comments and security labels. Objects without either are left out.
    pub annotations: BTreeMap<Annotated, Annotation>,
    /// Tables and types of this keyspace that the node cannot read.
    pub unreadable: Unreadable,
}

impl KeyspaceMetadata {
    /// Creates an empty keyspace without replication. Its writes go to the commit log.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            replication: BTreeMap::new(),
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            annotations: BTreeMap::new(),
            unreadable: Unreadable::default(),
        }
    }

    /// Returns whether the keyspace has the object.
    pub fn has(&self, object: &Annotated) -> bool {
        let fields = |name: &str| self.types.get(name).map(|definition| &definition.fields);
        match object {
            Annotated::Keyspace => true,
            Annotated::Table(table) => self.tables.contains_key(table),
            Annotated::Column(table, column) => {
                self.tables.get(table).is_some_and(|table| table.column(column).is_some())
            }
            Annotated::Type(name) => self.types.contains_key(name),
            Annotated::Field(name, field) => {
                fields(name).is_some_and(|fields| fields.iter().any(|(name, _)| name == field))
            }
        }
    }
}

/// Tables and types whose rows in the schema tables the node could not read when it started.
///
/// They keep their rows, files and names until they are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    /// Tables by name.
    pub tables: BTreeMap<String, UnreadableTable>,
    /// User-defined types by name, each with the reason.
    pub types: BTreeMap<String, String>,
}

/// A table that is left out of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableTable {
    /// The table's id, if its row has one.
    pub id: Option<TableId>,
    /// The reason why the node cannot read it.
    pub reason: String,
}

/// All keyspaces: an immutable snapshot that a schema change replaces as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Keyspaces by name.
    pub keyspaces: BTreeMap<String, Arc<KeyspaceMetadata>>,
    /// The `schema_version` of `system.local`.
    pub version: Uuid,
    by_id: BTreeMap<TableId, Arc<TableMetadata>>,
}

impl Schema {
    /// Makes a schema of keyspaces.
    pub fn new(keyspaces: BTreeMap<String, Arc<KeyspaceMetadata>>, version: Uuid) -> Self {
        let by_id = keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| (table.id, table.clone()))
            .collect();
        Self { keyspaces, version, by_id }
    }

    /// Returns the keyspace of that name.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceMetadata>> {
        self.keyspaces.get(name)
    }

    /// Returns the table of that name.
    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<TableMetadata>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// Returns the table with that id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableMetadata>> {
        self.by_id.get(&id)
    }

    /// Returns whether a table of that id is left out because the node cannot read it.
    pub fn is_unreadable(&self, id: TableId) -> bool {
        let keyspaces = self.keyspaces.values();
        let mut tables = keyspaces.flat_map(|keyspace| keyspace.unreadable.tables.values());
        tables.any(|table| table.id == Some(id))
    }

    /// Returns all tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableMetadata>> {
        self.by_id.values()
    }
}
