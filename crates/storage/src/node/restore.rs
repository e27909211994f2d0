//! Restore: a table gets the content of a snapshot, by links to the snapshot's files.
//!
//! The files are verified and compared with the schema before anything is changed. Then the table
//! is truncated, and the files are linked into its directory. A crash in between leaves a table
//! that is empty or has some of the files, and an intact snapshot: the restore can be repeated.

use std::path::{Path, PathBuf};

use espalier_sstable::{Component, Descriptor};
use futures_util::future::LocalBoxFuture;

use super::{
    Imported, Snapshots,
    import::{Becoming, add_files, check_files, check_imports, find, take_files},
    snapshots::{MANIFEST, SCHEMA, is_file_name},
    truncate::truncate_locked,
    views::truncate_with_views,
};
use crate::{StorageError, compaction::device_of};

impl<'n> Snapshots<'n> {
    /// Restores a table from a snapshot. Writes after the snapshot are lost.
    ///
    /// # Errors
    ///
    /// Fails if the table or the snapshot is unknown, if the node needs the table to start, if the
    /// snapshot is incomplete, damaged, of another schema or on another disk, or with an I/O error.
    pub fn restore(
        self,
        keyspace: &'n str,
        table: &'n str,
        tag: &'n str,
    ) -> LocalBoxFuture<'n, Result<Imported, StorageError>> {
        Box::pin(async move {
            StorageError::unless_needed_for_start("a restore", keyspace)?;
            let (keyspace, table, tag) = (keyspace.to_owned(), table.to_owned(), tag.to_owned());
            self.node
                .on_shard(0, move |node| async move {
                    node.snapshots().lead_restore(keyspace, table, &tag).await
                })
                .await
        })
    }

    async fn lead_restore(
        self,
        keyspace: String,
        name: String,
        tag: &str,
    ) -> Result<Imported, StorageError> {
        // Under this lock, no DROP, ALTER, TRUNCATE or removal of a snapshot runs.
        let _lock = self.node.inner.schema_lock.acquire(1).await;
        let Some(metadata) = self.node.store().schema().table(&keyspace, &name).cloned() else {
            return Err(StorageError::UnknownTableName { keyspace, table: name });
        };
        let source = self.snapshot_directory(&keyspace, &name, tag).await?;
        let found = self.files_of_snapshot(&source).await?;
        let partitions = check_imports(self.node, &metadata, &found).await?;
        let table = self.node.store().tables.get(metadata.id)?;
        table.home.make(&self.node.store().file_system).await?;
        if self.node.store().file_system().metadata(&source).await?.device
            != device_of(self.node.store(), &table).await
        {
            return Err(StorageError::Snapshot(format!(
                "Snapshot {} is on another disk than its table, so its files cannot be linked: \
                 import it",
                source.display()
            )));
        }
        // No flush is needed. The next start skips the commit log intervals that the snapshot's
        // files name, and these intervals are older than all writes after the truncation.
        let views = self.node.view_builds().dependent_views(&metadata);
        self.node.view_builds().mark_views_stale(&views).await?;
        // The views are emptied, too: a deletion in a view may be newer than the rows of the
        // snapshot and would hide them.
        if metadata.has_views() {
            truncate_with_views(self.node, &metadata, None).await?;
        } else {
            truncate_locked(self.node, metadata.id, None).await?;
        }
        let added = async {
            let linked = take_files(self.node, &table, &found, Becoming::Links).await?;
            add_files(self.node, metadata.id, linked).await
        };
        let added = added.await;
        // A build that began before the files were there does not count.
        self.node.view_builds().mark_views_stale(&views).await?;
        self.node.view_builds().build_views();
        let added = added?;
        let from = source.display();
        tracing::info!(keyspace, table = name, sstables = added.sstables, %from, "restored");
        Ok(Imported { partitions, ..added })
    }

    /// Verifies the files of a snapshot, and returns the CQL statements that create its table.
    ///
    /// # Errors
    ///
    /// Fails if there is no such snapshot, if it is incomplete or damaged, or if its `schema.cql`
    /// cannot be read.
    pub async fn schema_of_verified(
        self,
        keyspace: &str,
        table: &str,
        tag: &str,
    ) -> Result<String, StorageError> {
        let source = self.snapshot_directory(keyspace, table, tag).await?;
        for descriptor in self.files_of_snapshot(&source).await? {
            check_files(self.node, &descriptor).await?;
        }
        self.text_of(&source.join(SCHEMA)).await
    }

    /// Finds the directory of a snapshot: of the table in the schema, or else of a dropped table of
    /// that name.
    async fn snapshot_directory(
        self,
        keyspace: &str,
        name: &str,
        tag: &str,
    ) -> Result<PathBuf, StorageError> {
        let not_one = |what: &str| {
            Err(StorageError::Snapshot(format!("There is {what} {tag} of table {keyspace}.{name}")))
        };
        if !is_file_name(tag) {
            return not_one("no snapshot");
        }
        let schema = self.node.store().schema();
        let own = schema
            .table(keyspace, name)
            .map(|table| self.node.store().configuration.directory_of(table));
        let mut found = Vec::new();
        for directory in self.table_directories().await? {
            if directory.keyspace != keyspace || directory.name != name {
                continue;
            }
            let snapshots = self.snapshots_of(&directory.path).await?;
            let Some(snapshot) = snapshots.into_iter().find(|snapshot| snapshot.name == tag) else {
                continue;
            };
            let path = snapshot.path;
            if self.node.store().file_system().exists(path.join(MANIFEST)).await? {
                if own.as_ref() == Some(&directory.path) {
                    return Ok(path);
                }
                found.push(path);
            }
        }
        match (found.pop(), found.is_empty()) {
            (Some(path), true) => Ok(path),
            (None, _) => not_one("no snapshot"),
            (Some(_), false) => not_one("more than one snapshot, of several dropped tables,"),
        }
    }

    /// Returns the SSTables of a snapshot. They must be exactly those of its manifest.
    async fn files_of_snapshot(self, source: &Path) -> Result<Vec<Descriptor>, StorageError> {
        let manifest = self.text_of(&source.join(MANIFEST)).await?;
        let found = match find(self.node.store().file_system(), source).await {
            Err(StorageError::NothingToImport(_)) => Vec::new(),
            found => found?,
        };
        let is_listed = |descriptor: &&Descriptor| {
            let path = descriptor.path(&Component::Data);
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| manifest.contains(&format!("\"{name}\"")))
        };
        let (listed, all) =
            (found.iter().filter(is_listed).count(), manifest.matches("-Data.db\"").count());
        if (listed, found.len()) == (all, all) {
            Ok(found)
        } else {
            Err(StorageError::Snapshot(format!(
                "Snapshot {} is incomplete or has foreign files: its {MANIFEST} lists {all} \
             SSTables, the directory has {}, and {listed} are in both",
                source.display(),
                found.len()
            )))
        }
    }

    async fn text_of(self, path: &Path) -> Result<String, StorageError> {
        let bytes = self.node.store().file_system().read(path).await?;
        String::from_utf8(bytes)
            .map_err(|_| StorageError::Snapshot(format!("{} is not UTF-8", path.display())))
    }
}
