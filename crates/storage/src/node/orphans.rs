//! Orphans: directories of tables that the schema does not have. The removal of such a directory
//! failed or never began because of a crash, or an operator put it there. A start reports orphans,
//! but removes none: they may be the last copy of some data.

use std::path::PathBuf;

use espalier_runtime::maybe_yield;
use futures_util::future::LocalBoxFuture;

use super::{
    Node,
    snapshots::{NamedDirectory, read_dir},
};
use crate::{
    StorageError,
    table::{BACKUPS, DROPPED_FILE_NAME, SNAPSHOTS, remove_dropped_directory},
};

/// A directory that belongs to no table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Path of the directory.
    pub path: PathBuf,
    /// Keyspace, from the path.
    pub keyspace: String,
    /// Table, from the directory's name.
    pub table: String,
    /// Number of files, without those of snapshots and backups.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// True if it also has snapshots or backups, which are never removed.
    pub has_copies: bool,
}

/// The directories of a node that belong to no table.
#[derive(Clone, Copy)]
pub struct Orphans<'n> {
    pub(in crate::node) node: &'n Node,
}

impl Node {
    /// Returns the directories of a node that belong to no table.
    pub fn orphans(&self) -> Orphans<'_> {
        Orphans { node: self }
    }
}

impl<'n> Orphans<'n> {
    /// Returns the orphans. A dropped table's directory that holds only snapshots or backups is no
    /// orphan; it is listed with the snapshots.
    ///
    /// # Errors
    ///
    /// Fails if a directory cannot be read.
    pub async fn list(self) -> Result<Vec<Orphan>, StorageError> {
        self.node
            .on_shard(0, |node| async move {
                // Under this lock, no table is created or dropped.
                let _lock = node.inner.schema_lock.acquire(1).await;
                node.orphans().find_orphans().await
            })
            .await
    }

    /// Removes an orphan, given by its listed path, but not its snapshots and backups.
    ///
    /// # Errors
    ///
    /// Fails if the path is not that of an orphan, or if a file cannot be removed.
    pub fn remove(self, path: PathBuf) -> LocalBoxFuture<'n, Result<Orphan, StorageError>> {
        Box::pin(async move {
            self.node
                .on_shard(0, |node| async move {
                    let _lock = node.inner.schema_lock.acquire(1).await;
                    let mut found = node.orphans().find_orphans().await?.into_iter();
                    let Some(orphan) = found.find(|orphan| orphan.path == path) else {
                        return Err(StorageError::UnknownOrphan(path));
                    };
                    let file_system = node.store().file_system();
                    // The mark makes the next start remove the directory if a crash interrupts
                    // this.
                    let mark = orphan.path.join(DROPPED_FILE_NAME);
                    file_system.write_atomically(mark, Vec::new()).await?;
                    remove_dropped_directory(file_system, &orphan.path).await?;
                    tracing::info!(
                        path = %orphan.path.display(),
                        bytes = orphan.bytes,
                        "orphan directory removed"
                    );
                    Ok(orphan)
                })
                .await
        })
    }

    async fn find_orphans(self) -> Result<Vec<Orphan>, StorageError> {
        let schema = self.node.store().schema();
        let mut orphans = Vec::new();
        for NamedDirectory { keyspace, name, id, path } in
            self.node.snapshots().table_directories().await?
        {
            if schema
                .table_by_id(id)
                .is_some_and(|table| self.node.store().configuration.directory_of(table) == path)
            {
                continue;
            }
            // The table exists, though this node cannot read it.
            if schema.is_unreadable(id) {
                continue;
            }
            let mut orphan =
                Orphan { path, keyspace, table: name, files: 0, bytes: 0, has_copies: false };
            self.count_files(&mut orphan).await?;
            if orphan.files > 0 || !orphan.has_copies {
                orphans.push(orphan);
            }
        }
        Ok(orphans)
    }

    async fn count_files(self, orphan: &mut Orphan) -> Result<(), StorageError> {
        let file_system = self.node.store().file_system();
        let copies = [orphan.path.join(SNAPSHOTS), orphan.path.join(BACKUPS)];
        let mut directories = vec![orphan.path.clone()];
        while let Some(directory) = directories.pop() {
            for entry in read_dir(file_system, &directory).await? {
                if copies.contains(&entry.path) {
                    orphan.has_copies |= !read_dir(file_system, &entry.path).await?.is_empty();
                } else if entry.is_directory && !entry.is_link {
                    directories.push(entry.path);
                } else if entry.name != DROPPED_FILE_NAME {
                    orphan.files += 1;
                    orphan.bytes += file_system.metadata(&entry.path).await?.length;
                }
                maybe_yield().await;
            }
        }
        Ok(())
    }
}
