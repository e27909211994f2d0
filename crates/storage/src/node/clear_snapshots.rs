//! Removal of snapshots.

use super::{Snapshots, snapshots::NamedDirectory};
use crate::{
    StorageError,
    table::{DROPPED_FILE_NAME, remove_dropped_directory},
};

/// The snapshots to remove. An empty list means all keyspaces or tables.
struct Wanted {
    tag: Option<String>,
    keyspaces: Vec<String>,
    tables: Vec<String>,
}

impl Wanted {
    fn is_of_all(&self) -> bool {
        self.keyspaces.is_empty() && self.tables.is_empty()
    }

    fn has_table(&self, keyspace: &str, name: &str) -> bool {
        (self.keyspaces.is_empty() || self.keyspaces.iter().any(|wanted| wanted == keyspace))
            && (self.tables.is_empty() || self.tables.iter().any(|wanted| wanted == name))
    }
}

impl Snapshots<'_> {
    /// Removes snapshots: of one name or all, in some keyspaces or all, of some tables or all. The
    /// remains of a dropped table are removed with its last snapshot.
    ///
    /// # Errors
    ///
    /// Fails if a directory cannot be read or removed. An unknown name is an error, and then
    /// nothing is removed: after a typing error a user would believe that the snapshots are gone.
    pub async fn clear(
        self,
        tag: Option<&str>,
        keyspaces: &[&str],
        tables: &[&str],
    ) -> Result<(), StorageError> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (tag, keyspaces, tables) = (tag.map(str::to_owned), owned(keyspaces), owned(tables));
        self.node
            .on_shard(0, move |node| async move {
                // Under this lock, no snapshot is taken, restored or imported, and no table's
                // directory is created.
                let _lock = node.inner.schema_lock.acquire(1).await;
                node.snapshots().clear_in_turn(&Wanted { tag, keyspaces, tables }).await
            })
            .await
    }

    async fn clear_in_turn(self, wanted: &Wanted) -> Result<(), StorageError> {
        let file_system = self.node.store().file_system();
        let mut directories = self.table_directories().await?;
        self.check_names(wanted, &directories)?;
        directories.retain(|found| wanted.has_table(&found.keyspace, &found.name));
        let mut doomed = Vec::new();
        for NamedDirectory { path, .. } in &directories {
            for entry in self.snapshots_of(path).await? {
                if wanted.tag.as_ref().is_none_or(|tag| entry.name == *tag) {
                    doomed.push(entry.path);
                }
            }
        }
        if let Some(tag) = wanted.tag.as_ref().filter(|_| doomed.is_empty()) {
            let place = if wanted.is_of_all() { "" } else { " of these keyspaces and tables" };
            return Err(StorageError::Snapshot(format!("There is no snapshot {tag}{place}")));
        }
        for snapshot in doomed {
            file_system.remove_dir_all(&snapshot).await?;
        }
        for NamedDirectory { path, .. } in directories {
            if file_system.exists(path.join(DROPPED_FILE_NAME)).await? {
                remove_dropped_directory(file_system, &path).await?;
            }
        }
        Ok(())
    }

    /// Checks that the keyspaces and tables exist, or existed and have left directories.
    fn check_names(
        self,
        wanted: &Wanted,
        directories: &[NamedDirectory],
    ) -> Result<(), StorageError> {
        let schema = self.node.store().schema();
        for name in &wanted.keyspaces {
            let is_left = directories.iter().any(|found| found.keyspace == *name);
            if !is_left && schema.keyspace(name).is_none() {
                return Err(StorageError::UnknownKeyspace(name.clone()));
            }
        }
        for name in &wanted.tables {
            let is_it =
                |keyspace: &str, table: &str| table == name && wanted.has_table(keyspace, table);
            let is_left = directories.iter().any(|found| is_it(&found.keyspace, &found.name));
            if !is_left && !schema.tables().any(|table| is_it(&table.keyspace, &table.name)) {
                return Err(StorageError::Snapshot(match wanted.keyspaces.as_slice() {
                    [] => format!("There is no table {name} in any keyspace"),
                    keyspaces => format!("There is no table {name} in {}", keyspaces.join(", ")),
                }));
            }
        }
        Ok(())
    }
}
