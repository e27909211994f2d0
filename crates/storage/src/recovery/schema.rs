//! The schema out of the rows of the schema tables.

use std::{collections::BTreeMap, sync::Arc};

use espalier_mutation::{Row, schema::Schema};
use md5::{Digest, Md5};
use uuid::Uuid;

use crate::{
    PartitionRows, StorageError,
    system::{SchemaRows, keyspaces, read_keyspaces, read_schema},
};

/// Rows of schema tables, with the names of these.
pub(crate) type SchemaContents<'a> = Vec<(&'a str, Vec<PartitionRows>)>;

/// Makes a schema of the partitions of each schema table. What they say of system keyspaces is for clients, and does not
/// matter here.
pub(crate) fn schema_of(tables: SchemaContents<'_>) -> Result<Schema, StorageError> {
    let mut digest = Md5::new();
    let rows = rows_of(tables, false, |table, keyspace, row| {
        // Any text that tells rows apart will do.
        digest.update(format!("{table} {keyspace} {row:?}\n"));
    });
    let version = uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid();
    read_schema(&rows, version).map_err(|error| StorageError::Schema(error.to_string()))
}

/// What the schema tables say of system keyspaces; nothing if that makes no sense.
pub(crate) fn described_system_keyspaces(tables: SchemaContents<'_>) -> Schema {
    let rows = rows_of(tables, true, |_, _, _| ());
    let found = read_keyspaces(&rows).unwrap_or_default();
    let found: BTreeMap<_, _> =
        found.into_iter().map(|(name, keyspace)| (name, Arc::new(keyspace))).collect();
    Schema::new(found, Uuid::nil())
}

/// The rows of system keyspaces, or of the others.
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
