//! Lists the SSTables of a Cassandra node, and links or copies them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use espalier_compaction::dead_sets;
use espalier_runtime::file::FileSystem;
use espalier_sstable::{
    Component, Descriptor,
    components::{copy_unsealed, link_unsealed, list_directory, seal},
};
use uuid::Uuid;

use crate::{
    StorageError,
    system::{SCHEMA_KEYSPACE, SYSTEM_KEYSPACE, is_system_keyspace},
    table::TruncationRecord,
};

/// A table in a data directory.
#[derive(Clone, Debug)]
pub(super) struct SourceTable {
    pub keyspace: String,
    /// The name without the id.
    pub name: String,
    id: Uuid,
    /// The name of the directory, with the id.
    directory: String,
    path: PathBuf,
    pub sstables: Vec<Descriptor>,
}

/// The numbers of tables, SSTables and bytes that were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub tables: usize,
    pub sstables: usize,
    pub bytes: u64,
    /// The number of SSTables that were copied, because they are on another disk.
    pub copied: usize,
}

/// Lists the tables below the data directories that have SSTables. Leaves out files that an
/// interrupted compaction had replaced or was writing.
pub(super) async fn tables(
    file_system: &FileSystem,
    directories: &[PathBuf],
) -> Result<Vec<SourceTable>, StorageError> {
    let mut found = Vec::new();
    for mut table in all_tables(file_system, directories).await? {
        table.sstables = sstables(file_system, &table.path).await?;
        if !table.sstables.is_empty() {
            found.push(table);
        }
    }
    Ok(found)
}

/// Lists the tables below the data directories, without their SSTables.
async fn all_tables(
    file_system: &FileSystem,
    directories: &[PathBuf],
) -> Result<Vec<SourceTable>, StorageError> {
    let mut found = Vec::new();
    for directory in directories {
        if !file_system.exists(directory).await? {
            continue;
        }
        for keyspace in file_system.read_dir(directory).await? {
            if !keyspace.is_directory {
                continue;
            }
            for table in file_system.read_dir(&keyspace.path).await? {
                let name = table.name.rsplit_once('-');
                let Some((name, id)) = name.filter(|_| table.is_directory) else { continue };
                let Ok(id) = Uuid::try_parse(id) else { continue };
                found.push(SourceTable {
                    keyspace: keyspace.name.clone(),
                    name: name.to_owned(),
                    id,
                    directory: table.name.clone(),
                    path: table.path.clone(),
                    sstables: Vec::new(),
                });
            }
        }
    }
    Ok(found)
}

async fn sstables(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<Vec<Descriptor>, StorageError> {
    let listing = list_directory(file_system, directory).await?;
    let dead = dead_sets(file_system, directory).await?;
    if let Some(incomplete) = listing.incomplete.iter().find(|it| !dead.contains(it)) {
        return Err(StorageError::IncompleteSSTable(incomplete.path(&Component::Toc)));
    }
    Ok(listing.sealed.into_iter().filter(|sealed| !dead.contains(sealed)).collect())
}

/// Links the SSTables of all tables that this node takes into directories below `into`. Copies
/// SSTables that are on another disk.
pub(super) async fn take(
    file_system: &FileSystem,
    directories: &[PathBuf],
    into: &Path,
) -> Result<Taken, StorageError> {
    let device = file_system.metadata(into).await?.device;
    let mut taken = Taken::default();
    for table in tables(file_system, directories).await?.into_iter().filter(is_taken) {
        let directory = into.join(&table.keyspace).join(&table.directory);
        file_system.create_dir_all(&directory).await?;
        taken.tables += 1;
        for from in table.sstables {
            let to = Descriptor { directory: directory.clone(), ..from.clone() };
            let is_here = file_system.metadata(&from.directory).await?.device == device;
            taken.bytes += if is_here {
                link_unsealed(file_system, &from, &to).await?
            } else {
                taken.copied += 1;
                copy_unsealed(file_system, &from, &to).await?
            };
            seal(file_system, &to).await?;
            taken.sstables += 1;
        }
    }
    Ok(taken)
}

/// Saves the times of truncations, in µs since 1970, by the table's id, also for tables that have
/// had no SSTables since. Cassandra drops hints from before the truncation, and so must this node.
pub(super) async fn take_truncations(
    file_system: &FileSystem,
    directories: &[PathBuf],
    into: &Path,
    truncations: &BTreeMap<Uuid, i64>,
) -> Result<(), StorageError> {
    for table in all_tables(file_system, directories).await?.into_iter().filter(is_taken) {
        let Some(&at_us) = truncations.get(&table.id) else { continue };
        let record = TruncationRecord { at_us, ..TruncationRecord::default() };
        record.save(file_system, &into.join(&table.keyspace).join(&table.directory)).await?;
    }
    Ok(())
}

/// Returns whether the node takes a table: the tables of users, the schema tables, `system.local`
/// (the node's identity) and `system.paxos` (the node's promises).
fn is_taken(table: &SourceTable) -> bool {
    match table.keyspace.as_str() {
        SCHEMA_KEYSPACE => true,
        SYSTEM_KEYSPACE => ["local", "paxos"].contains(&table.name.as_str()),
        keyspace => !is_system_keyspace(keyspace),
    }
}
