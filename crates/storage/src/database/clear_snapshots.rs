//! Removing snapshots.

use super::{Database, snapshots::NamedDirectory};
use crate::{
    StorageError,
    table::{DROPPED_FILE_NAME, remove_dropped_directory},
};

/// Which snapshots; an empty list is all.
struct Wanted {
    tag: Option<String>,
    keyspaces: Vec<String>,
    tables: Vec<String>,
}

impl Wanted {
    fn has_table(&self, keyspace: &str, name: &str) -> bool {
        (self.keyspaces.is_empty() || self.keyspaces.iter().any(|wanted| wanted == keyspace))
            && (self.tables.is_empty() || self.tables.iter().any(|wanted| wanted == name))
    }
}

impl Database {
    /// Removes snapshots: of one name or all, in some keyspaces or all, of some tables or all. What is left of a table that was
    /// dropped goes with its last one.
    pub async fn clear_snapshots(
        &self,
        tag: Option<&str>,
        keyspaces: &[&str],
        tables: &[&str],
    ) -> Result<(), StorageError> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (tag, keyspaces, tables) = (tag.map(str::to_owned), owned(keyspaces), owned(tables));
        self.on_shard(0, move |database| async move {
            // None that is just being taken, restored or imported, and no directory in which a table is being made.
            let _turn = database.inner.schema_turn.acquire(1).await;
            database.clear_in_turn(&Wanted { tag, keyspaces, tables }).await
        })
        .await
    }

    async fn clear_in_turn(&self, wanted: &Wanted) -> Result<(), StorageError> {
        let file_system = self.file_system();
        let mut directories = self.table_directories().await?;
        directories.retain(|found| wanted.has_table(&found.keyspace, &found.name));
        for NamedDirectory { path, .. } in directories {
            for entry in self.snapshots_of(&path).await? {
                if wanted.tag.as_ref().is_none_or(|tag| entry.name == *tag) {
                    file_system.remove_dir_all(&entry.path).await?;
                }
            }
            if file_system.exists(path.join(DROPPED_FILE_NAME)).await? {
                remove_dropped_directory(file_system, &path).await?;
            }
        }
        Ok(())
    }
}
