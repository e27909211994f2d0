//! The schema out of the rows of the schema tables.

use espalier_mutation::schema::Schema;
use md5::{Digest, Md5};

use crate::{
    PartitionRows, StorageError,
    system::{SchemaRows, read_schema},
};

/// Makes a schema of the partitions of each schema table, given with its name.
pub(crate) fn schema_of(tables: Vec<(&str, Vec<PartitionRows>)>) -> Result<Schema, StorageError> {
    let mut rows = SchemaRows::default();
    let mut digest = Md5::new();
    for (table, partitions) in tables {
        let Some(list) = rows.list_mut(table) else { continue };
        for partition in partitions {
            let keyspace = String::from_utf8_lossy(&partition.key.key).into_owned();
            for row in partition.rows {
                // Any text that tells rows apart will do.
                digest.update(format!("{table} {keyspace} {row:?}\n"));
                list.push((keyspace.clone(), row));
            }
        }
    }
    let version = uuid::Builder::from_md5_bytes(digest.finalize().into()).into_uuid();
    read_schema(&rows, version).map_err(|error| StorageError::Schema(error.to_string()))
}
