//! The directories of tables: `data/<keyspace>/<table>-<id>/da-<n>-bti-*.db`, as Cassandra lays them out.
//!
//! What a crash has left half-done is removed when the node starts: SSTables with TemporaryTOC.txt.
//! Directories below (`snapshots`, `backups`) are other people's business.

use std::path::{Path, PathBuf};

use espalier_mutation::schema::TableId;
use espalier_runtime::file::{DirectoryEntry, FileSystem};
use espalier_sstable::{
    Descriptor,
    components::{list_directory, remove_sstable},
};
use uuid::Uuid;

use crate::StorageError;

/// Stands in the directory of a table that was dropped, until the directory is gone.
pub(crate) const DROPPED_FILE_NAME: &str = "dropped";

/// The directory of snapshots below a table's.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// Where Cassandra's incremental backups lie, below a table's directory.
pub(crate) const BACKUPS: &str = "backups";

/// A table's directory.
#[derive(Clone, Debug)]
pub(crate) struct TableDirectory {
    pub(crate) id: TableId,
    pub(crate) path: PathBuf,
}

/// The directories of all tables below the data directory. Those of dropped tables are removed.
pub(crate) async fn find_tables(
    file_system: &FileSystem,
    data_directory: &Path,
) -> Result<Vec<TableDirectory>, StorageError> {
    let mut found = Vec::new();
    for keyspace in file_system.read_dir(data_directory).await? {
        check_link(&keyspace)?;
        if !keyspace.is_directory {
            continue;
        }
        for table in file_system.read_dir(&keyspace.path).await? {
            let id = table.name.rsplit_once('-').and_then(|(_, id)| Uuid::try_parse(id).ok());
            if id.is_some() {
                check_link(&table)?;
            }
            if let Some(id) = id.filter(|_| table.is_directory) {
                if file_system.exists(table.path.join(DROPPED_FILE_NAME)).await? {
                    remove_dropped_directory(file_system, &table.path).await?;
                    continue;
                }
                found.push(TableDirectory { id: TableId(id), path: table.path });
            }
        }
    }
    Ok(found)
}

/// Operators move tables to other disks, and leave a link. One that leads nowhere is a disk that is not there: not an empty table.
fn check_link(entry: &DirectoryEntry) -> Result<(), StorageError> {
    match entry.is_link && !entry.is_directory {
        true => Err(StorageError::Corrupt {
            what: entry.path.display().to_string(),
            reason:
                "a symbolic link that leads to no directory; mount what it leads to, or remove it"
                    .into(),
        }),
        false => Ok(()),
    }
}

/// What lies in a table's directory.
#[derive(Clone, Debug)]
pub(crate) struct FoundSSTables {
    pub(crate) sealed: Vec<Descriptor>,
    /// Sets that have lost their TOC.txt: an error if the table is wanted, because rows would be missing without a word.
    pub(crate) incomplete: Vec<Descriptor>,
}

/// The SSTables in a table's directory. What a crash has left half-done is removed. Files of other names are nobody's
/// business.
pub(crate) async fn find_sstables(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<FoundSSTables, StorageError> {
    let listing = list_directory(file_system, directory).await?;
    for descriptor in &listing.unsealed {
        let directory = directory.display();
        tracing::info!(%directory, sstable = %descriptor, "removing what a crash left half-done");
        remove_sstable(file_system, descriptor).await?;
    }
    Ok(FoundSSTables { sealed: listing.sealed, incomplete: listing.incomplete })
}

/// Removes what a dropped table has left, but not snapshots and backups, for which somebody has asked: a directory that has some
/// stays, with the mark. The mark goes last, so that a crash leaves a directory that says what it is.
pub(crate) async fn remove_dropped_directory(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<(), StorageError> {
    let mut is_kept = false;
    for entry in file_system.read_dir(directory).await? {
        let holds_copies = entry.name == SNAPSHOTS || entry.name == BACKUPS;
        match entry.is_directory {
            true if holds_copies && !file_system.read_dir(&entry.path).await?.is_empty() => {
                is_kept = true;
            }
            true if !entry.is_link => file_system.remove_dir_all(&entry.path).await?,
            _ if entry.name == DROPPED_FILE_NAME => {}
            _ => file_system.remove_file(&entry.path).await?,
        }
    }
    file_system.sync_dir(directory).await?;
    if is_kept {
        return Ok(());
    }
    file_system.remove_dir_all(directory).await?;
    match directory.parent() {
        Some(parent) => Ok(file_system.sync_dir(parent).await?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use espalier_runtime::block_on;

    use super::*;

    #[test]
    fn a_table_may_be_a_link_that_leads_somewhere() {
        let place = tempfile::tempdir().unwrap();
        let (data, other_disk) = (place.path().join("data"), place.path().join("disk"));
        let name = format!("t-{}", Uuid::from_u128(7).simple());
        let file_system = FileSystem::real();
        block_on(async {
            file_system.create_dir_all(data.join("ks")).await.unwrap();
            file_system.create_dir_all(other_disk.join(&name)).await.unwrap();
            let link = data.join("ks").join(&name);
            std::os::unix::fs::symlink(other_disk.join(&name), &link).unwrap();
            let found = find_tables(&file_system, &data).await.unwrap();
            let found: Vec<_> = found.into_iter().map(|table| (table.id, table.path)).collect();
            assert_eq!(found, [(TableId(Uuid::from_u128(7)), link)]);
            file_system.rename(other_disk, place.path().join("unmounted")).await.unwrap();
            let error = find_tables(&file_system, &data).await.unwrap_err().to_string();
            assert!(error.contains(&name) && error.contains("leads to no directory"), "{error}");
        });
    }
}
