//! This module builds the schema from the rows of the schema tables.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{
    PartitionUpdate, Row,
    schema::{KeyspaceMetadata, Schema},
};
use md5::{Digest, Md5};
use uuid::Uuid;

use crate::{
    PartitionRows, StorageError,
    system::{SchemaRows, keyspaces, read_keyspaces, read_schema},
};

/// Partitions of the schema tables, by table name.
pub(crate) type SchemaContents<'a> = Vec<(&'a str, Vec<PartitionRows>)>;

/// Builds the schema from the partitions of each schema table. Descriptions of system keyspaces are
/// ignored: they are for clients.
pub(crate) fn schema_of(tables: SchemaContents<'_>) -> Result<Schema, StorageError> {
    let mut digest = Md5::new();
    let rows = rows_of(tables, false, |table, keyspace, row| {
        // Any text that distinguishes rows suffices.
        digest.update(format!("{table} {keyspace} {row:?}\n"));
    });
    let version = uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid();
    read_schema(&rows, version).map_err(|error| StorageError::Schema(error.to_string()))
}

/// Returns the system keyspaces as the schema tables describe them; an empty schema if the
/// description is invalid.
pub(crate) fn described_system_keyspaces(tables: SchemaContents<'_>) -> Schema {
    let rows = rows_of(tables, true, |_, _, _| ());
    let found = read_keyspaces(&rows).unwrap_or_default();
    let found: BTreeMap<_, _> =
        found.into_iter().map(|(name, keyspace)| (name, Arc::new(keyspace))).collect();
    Schema::new(found, Uuid::nil())
}

/// Returns the keyspaces that these updates of the schema tables define, without the rows that the
/// node has. Each update comes with the name of its schema table.
pub(crate) fn keyspaces_of<'a>(
    updates: impl Iterator<Item = (&'a str, &'a PartitionUpdate)>,
    now_s: u32,
) -> Result<BTreeMap<String, KeyspaceMetadata>, StorageError> {
    let mut rows = SchemaRows::default();
    for (table, update) in updates {
        let Some(list) = rows.list_mut(table) else { continue };
        let keyspace = String::from_utf8_lossy(&update.key.key).into_owned();
        let live = update.rows.iter().filter(|row| row.is_live(now_s));
        list.extend(live.map(|row| (keyspace.clone(), row.clone())));
    }
    read_keyspaces(&rows).map_err(|error| StorageError::Schema(error.to_string()))
}

/// Returns the rows of system keyspaces (`of_system`) or of the others, and calls `look` for each.
fn rows_of(
    tables: SchemaContents<'_>,
    of_system: bool,
    mut look: impl FnMut(&str, &str, &Row),
) -> SchemaRows {
    let system: Vec<String> = keyspaces().into_iter().map(|keyspace| keyspace.name).collect();
    let mut rows = SchemaRows::default();
    for (table, partitions) in tables {
        let Some(list) = rows.list_mut(table) else { continue };
        for partition in partitions {
            let keyspace = String::from_utf8_lossy(&partition.key.key).into_owned();
            if system.contains(&keyspace) != of_system {
                continue;
            }
            for row in partition.rows {
                look(table, &keyspace, &row);
                list.push((keyspace.clone(), row));
            }
        }
    }
    rows
}
