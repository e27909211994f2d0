//! This module finds the directories of tables: `data/<keyspace>/<table>-<id>/da-<n>-bti-*.db`,
//! laid out as Cassandra does.
//!
//! At start it removes SSTables with TemporaryTOC.txt, which a crash has left unfinished. It
//! reads only the names of files in the directories below (`snapshots`, `backups`).

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use espalier_mutation::schema::TableId;
use espalier_runtime::file::{DirectoryEntry, FileError, FileSystem};
use espalier_sstable::{
    Descriptor, SSTableId,
    components::{list_directory, remove_sstables},
};
use uuid::Uuid;

use crate::StorageError;

/// Marker file in the directory of a dropped table, until the directory is gone.
pub(crate) const DROPPED_FILE_NAME: &str = "dropped";

/// Name of the directory of snapshots below a table's.
pub(crate) const SNAPSHOTS: &str = "snapshots";

/// Name of the directory of Cassandra's incremental backups below a table's.
pub(crate) const BACKUPS: &str = "backups";

#[derive(Clone, Debug)]
pub(crate) struct TableDirectory {
    pub(crate) id: TableId,
    pub(crate) path: PathBuf,
}

/// Finds the directories of all tables below the data directory. Removes the directories of dropped
/// tables.
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
                    if let Err(error) = remove_dropped_directory(file_system, &table.path).await {
                        let path = table.path.display();
                        tracing::error!(
                            %error,
                            %path,
                            "files of a dropped table could not be removed: the next start \
                             retries, check the permissions and the disk, or remove the directory"
                        );
                    }
                    continue;
                }
                found.push(TableDirectory { id: TableId(id), path: table.path });
            }
        }
    }
    Ok(found)
}

/// Rejects a symbolic link that leads to no directory. Operators move tables to other disks and
/// leave a link; a dangling link means a missing disk, not an empty table.
fn check_link(entry: &DirectoryEntry) -> Result<(), StorageError> {
    if entry.is_link && !entry.is_directory {
        Err(StorageError::Corrupt {
            what: entry.path.display().to_string(),
            reason:
                "a symbolic link that leads to no directory; mount its target, or remove the link"
                    .into(),
        })
    } else {
        Ok(())
    }
}

/// The SSTables found in a table's directory.
#[derive(Clone, Debug)]
pub(crate) struct FoundSSTables {
    pub(crate) sealed: Vec<Descriptor>,
    /// SSTables without TOC.txt: an error if the table is used, because rows would be missing
    /// silently.
    pub(crate) incomplete: Vec<Descriptor>,
    /// True if the table may have snapshots or backups.
    pub(crate) has_copies: bool,
}

/// Finds the SSTables in a table's directory. Removes SSTables with TemporaryTOC.txt, which a crash
/// has left unfinished, and ignores files with other names.
pub(crate) async fn find_sstables(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<FoundSSTables, StorageError> {
    let listing = list_directory(file_system, directory).await?;
    for descriptor in &listing.unsealed {
        let directory = directory.display();
        tracing::info!(%directory, sstable = %descriptor, "removing an unfinished SSTable");
    }
    remove_sstables(file_system, &listing.unsealed).await?;
    let has_copies = listing.subdirectories.iter().any(|name| name == SNAPSHOTS || name == BACKUPS);
    Ok(FoundSSTables { sealed: listing.sealed, incomplete: listing.incomplete, has_copies })
}

/// Returns the greatest number of an SSTable in a table's snapshots and backups; 0 if there is
/// none. Tools that keep copies tell files apart by name, so the table's next SSTables get greater
/// numbers. A snapshot that cannot be read is left out with a warning, because the table does not
/// need it.
pub(crate) async fn greatest_copied_number(file_system: &FileSystem, table: &Path) -> u64 {
    let mut greatest = 0;
    let mut directories = vec![table.join(SNAPSHOTS), table.join(BACKUPS)];
    while let Some(directory) = directories.pop() {
        match greatest_number_in(file_system, &directory).await {
            Ok((of_directory, others)) => {
                greatest = greatest.max(of_directory);
                if directory.ends_with(SNAPSHOTS) {
                    let snapshots = others.into_iter().filter(|entry| entry.is_directory);
                    directories.extend(snapshots.map(|snapshot| snapshot.path));
                }
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => tracing::warn!(
                %error,
                "cannot read a snapshot or backup: its SSTables may have numbers that new \
                 SSTables get, too"
            ),
        }
    }
    greatest
}

/// Returns the greatest number of an SSTable in a directory, or 0, and the entries that are no
/// files of SSTables.
async fn greatest_number_in(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<(u64, Vec<DirectoryEntry>), FileError> {
    let greatest = Arc::new(AtomicU64::new(0));
    let seen = greatest.clone();
    let others = file_system.read_dir_where(directory, move |name| {
        let Ok((descriptor, _)) = Descriptor::parse(Path::new(name)) else { return true };
        if let SSTableId::Generation(number) = descriptor.id {
            seen.fetch_max(number.get(), Ordering::Relaxed);
        }
        false
    });
    let others = others.await?;
    Ok((greatest.load(Ordering::Relaxed), others))
}

/// Removes the directory of a dropped table. Snapshots and backups stay, because an operator has
/// requested them; then the table's directory and its marker stay, too. The marker is removed last,
/// so that a crash leaves a directory that is still marked.
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
