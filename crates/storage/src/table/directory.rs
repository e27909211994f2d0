//! The directories of tables: `data/<keyspace>/<table>-<id>/da-<n>-bti-*.db`, as Cassandra lays them out.
//!
//! What a crash has left half-done is removed when the node starts: SSTables without TOC.txt, and temporary files.
//! Directories below (`snapshots`, `backups`) are other people's business.

use std::{collections::BTreeMap, path::PathBuf};

use espalier_mutation::schema::TableId;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{Component, Descriptor};
use uuid::Uuid;

use crate::StorageError;

/// Stands in the directory of a table that was dropped, until the directory is gone.
pub(crate) const DROPPED_FILE_NAME: &str = "dropped";

/// A table's directory.
#[derive(Clone, Debug)]
pub(crate) struct TableDirectory {
    pub(crate) id: TableId,
    pub(crate) path: PathBuf,
}

/// The directories of all tables below the data directory.
pub(crate) async fn find_tables(
    file_system: &FileSystem,
    data_directory: &std::path::Path,
) -> Result<Vec<TableDirectory>, StorageError> {
    let mut found = Vec::new();
    for keyspace in file_system.read_dir(data_directory).await? {
        if !keyspace.is_directory {
            continue;
        }
        for table in file_system.read_dir(&keyspace.path).await? {
            let id = table.name.rsplit_once('-').and_then(|(_, id)| Uuid::try_parse(id).ok());
            if let Some(id) = id.filter(|_| table.is_directory) {
                found.push(TableDirectory { id: TableId(id), path: table.path });
            }
        }
    }
    Ok(found)
}

/// The SSTables in a table's directory. What is half-done is removed.
pub(crate) async fn find_sstables(
    file_system: &FileSystem,
    directory: &std::path::Path,
) -> Result<Vec<Descriptor>, StorageError> {
    let mut files: BTreeMap<String, (Descriptor, Vec<PathBuf>, bool)> = BTreeMap::new();
    let mut garbage = Vec::new();
    for entry in file_system.read_dir(directory).await? {
        if entry.is_directory {
            continue;
        }
        if entry.name.ends_with(".tmp") {
            garbage.push(entry.path);
            continue;
        }
        let Ok((descriptor, component)) = Descriptor::parse(&entry.path) else { continue };
        let (_, paths, is_complete) =
            files.entry(descriptor.to_string()).or_insert((descriptor, Vec::new(), false));
        paths.push(entry.path);
        *is_complete |= component == Component::Toc;
    }
    let mut sstables = Vec::new();
    for (descriptor, paths, is_complete) in files.into_values() {
        match is_complete {
            true => sstables.push(descriptor),
            false => garbage.extend(paths),
        }
    }
    for path in &garbage {
        tracing::info!(path = %path.display(), "removing what a crash left half-done");
        file_system.remove_file(path).await?;
    }
    if !garbage.is_empty() {
        file_system.sync_dir(directory).await?;
    }
    Ok(sstables)
}
