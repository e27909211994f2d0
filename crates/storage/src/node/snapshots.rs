//! Snapshots: hard links to a table's files in `snapshots/<tag>` below its directory, with
//! `schema.cql` and `manifest.json`, as in Cassandra and ScyllaDB. Each shard links its files.
//! Meanwhile its own compactions exchange no files of the table.

use std::{
    collections::{BTreeSet, HashMap},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use espalier_mutation::schema::{Schema, TableId, TableMetadata};
use espalier_runtime::{
    file::{DirectoryEntry, FileError, FileSystem, Metadata},
    maybe_yield, time,
};
use espalier_sstable::{
    Component, Descriptor,
    components::{components_of_each, list_directory, remove_sstables},
};
use futures_util::future::LocalBoxFuture;
use uuid::Uuid;

use super::Node;
use crate::{
    StorageError,
    table::{SNAPSHOTS, Table, TableView, find_sstables},
};

pub(super) const MANIFEST: &str = "manifest.json";

pub(super) const SCHEMA: &str = "schema.cql";

/// The maximum number of times that a shard tries to link the files of its view. Arbitrary: each
/// split of a file may cost one attempt.
const LINK_ATTEMPTS: u32 = 16;

/// A table of which a snapshot is to be taken.
#[derive(Clone, Debug)]
pub struct SnapshotTable {
    /// Id of the table.
    pub id: TableId,
    /// Writes the CQL statements that create the table. Called under the lock under which the files
    /// are linked, so that no ALTER runs in between: the statements must fit the files.
    pub describe: fn(&Schema, &TableMetadata) -> String,
}

/// A snapshot of a table, with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDetails {
    /// Name of the snapshot.
    pub tag: String,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Bytes of all its files.
    pub total_bytes: u64,
    /// Bytes of the files that the table itself does not have any more.
    pub true_bytes: u64,
    /// Time of the snapshot, in milliseconds since 1970; `None` if it was not finished.
    pub created_ms: Option<i64>,
}

/// The snapshots of a node's tables.
#[derive(Clone, Copy)]
pub struct Snapshots<'n> {
    pub(in crate::node) node: &'n Node,
}

impl Node {
    /// Returns the snapshots of a node's tables.
    pub fn snapshots(&self) -> Snapshots<'_> {
        Snapshots { node: self }
    }
}

impl<'n> Snapshots<'n> {
    /// Takes a snapshot of tables under a name. With `with_memtables`, memtables are flushed first.
    ///
    /// # Errors
    ///
    /// Fails if the name is not a file name, if a table is unknown or has a snapshot of this name
    /// already, or if a flush or a link fails. A failed snapshot removes its files.
    pub fn take(
        self,
        tag: String,
        tables: Vec<SnapshotTable>,
        with_memtables: bool,
    ) -> LocalBoxFuture<'n, Result<(), StorageError>> {
        Box::pin(async move {
            if !is_file_name(&tag) {
                return Err(StorageError::Snapshot(format!(
                    "'{tag}' cannot be the name of a snapshot"
                )));
            }
            self.node
                .on_shard(0, move |node| async move {
                    node.snapshots().lead_snapshot(&tag, tables, with_memtables).await
                })
                .await
        })
    }

    async fn lead_snapshot(
        self,
        tag: &str,
        tables: Vec<SnapshotTable>,
        with_memtables: bool,
    ) -> Result<(), StorageError> {
        // No DROP, TRUNCATE or other snapshot runs meanwhile.
        let _lock = self.node.inner.schema_lock.acquire(1).await;
        for table in &tables {
            let table = self.node.store().tables.get(table.id)?;
            self.check_no_snapshot(&table, tag).await?;
        }
        let mut made = Vec::new();
        let taken = self.take_locked(tag, tables, with_memtables, &mut made).await;
        if taken.is_err() {
            // The remains of a failed snapshot would block its name for the next attempt.
            for directory in made {
                match self.node.store().file_system().remove_dir_all(&directory).await {
                    Err(error) if !error.is_not_found() => {
                        tracing::warn!(%error, "failed snapshot could not be removed: clear it");
                    }
                    _ => {}
                }
            }
        }
        taken
    }

    async fn check_no_snapshot(self, table: &Table, tag: &str) -> Result<(), StorageError> {
        if self.has_linked_snapshots(&table.home.directory).await? {
            return Err(StorageError::Snapshot(format!(
                "{} is a symbolic link: snapshots stay below the table's directory",
                table.home.directory.join(SNAPSHOTS).display()
            )));
        }
        let directory = table.home.directory.join(SNAPSHOTS).join(tag);
        if !self.node.store().file_system().exists(&directory).await? {
            return Ok(());
        }
        let TableMetadata { keyspace, name, .. } = &*table.metadata();
        let is_whole = self.node.store().file_system().exists(directory.join(MANIFEST)).await?;
        Err(StorageError::Snapshot(if is_whole {
            format!(
                "Snapshot {tag} of table {name} already exists. Choose another name, or remove it \
                 with nodetool clearsnapshot -t {tag} {keyspace}"
            )
        } else {
            format!(
                "Snapshot {tag} of table {name} exists without {MANIFEST}, perhaps after a crash: \
                 clear the snapshot first"
            )
        }))
    }

    /// Takes the snapshot while the schema cannot change. Adds each directory to `made` before it
    /// is created.
    async fn take_locked(
        self,
        tag: &str,
        tables: Vec<SnapshotTable>,
        with_memtables: bool,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), StorageError> {
        for SnapshotTable { id, describe } in tables {
            if with_memtables {
                self.node.flush_tables(vec![id]).await?;
            }
            let table = self.node.store().tables.get(id)?;
            table.home.make(&self.node.store().file_system).await?;
            let directory = table.home.directory.join(SNAPSHOTS).join(tag);
            made.push(directory.clone());
            self.node.store().file_system().create_dir_all(&directory).await?;
            let to = directory.clone();
            let linked = self.node.on_all_shards(move |node| async move {
                node.snapshots().link_files(id, &to).await
            });
            let mut files = Vec::new();
            for part in linked.await {
                files.extend(part?);
            }
            files.sort();
            files.dedup();
            self.remove_unlisted(&directory, &files).await?;
            let file_system = self.node.store().file_system();
            let statements = describe(&self.node.store().schema(), &table.metadata());
            file_system.write_atomically(directory.join(SCHEMA), statements).await?;
            file_system.write_atomically(directory.join(MANIFEST), manifest(&files)).await?;
            file_system.sync_dir(table.home.directory.join(SNAPSHOTS)).await?;
            file_system.sync_dir(&table.home.directory).await?;
        }
        Ok(())
    }

    /// Links the files that this shard has open. Returns the names of their Data.db.
    async fn link_files(self, id: TableId, to: &Path) -> Result<Vec<String>, StorageError> {
        let Ok(table) = self.node.store().tables.get(id) else { return Ok(Vec::new()) };
        let _permit = table.exchanges.lock.acquire(1).await;
        let mut attempt = 1;
        loop {
            // Another shard may split a shared file. It puts the parts into this shard's view
            // before it removes the file, so the next view has the parts.
            let view = table.view();
            match self.link_view(&view, to).await {
                Err(StorageError::VanishedSSTable(_)) if attempt < LINK_ATTEMPTS => attempt += 1,
                linked => return linked,
            }
        }
    }

    async fn link_view(self, view: &TableView, to: &Path) -> Result<Vec<String>, StorageError> {
        let file_system = self.node.store().file_system();
        let of_view = view.sstables.iter().map(|sstable| sstable.descriptor().clone());
        let descriptors: Vec<_> = of_view.collect();
        let found = components_of_each(file_system, &descriptors).await?;
        let mut files = Vec::new();
        for (descriptor, components) in descriptors.iter().zip(found) {
            let vanished = || StorageError::VanishedSSTable(descriptor.path(&Component::Data));
            if ![Component::Data, Component::Toc].iter().all(|it| components.contains(it)) {
                return Err(vanished());
            }
            match self.link_components(descriptor, components, to).await {
                Err(error) if error.is_not_found() => return Err(vanished()),
                linked => linked?,
            }
            files.push(format!("{descriptor}-Data.db"));
        }
        Ok(files)
    }

    async fn link_components(
        self,
        descriptor: &Descriptor,
        components: BTreeSet<Component>,
        to: &Path,
    ) -> Result<(), FileError> {
        for component in components {
            let from = descriptor.path(&component);
            let Some(name) = from.file_name() else { continue };
            match self.node.store().file_system().hard_link(&from, to.join(name)).await {
                // Another shard has a part of this file, too, and linked it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                linked => linked?,
            }
            maybe_yield().await;
        }
        Ok(())
    }

    /// Moves the SSTables of an orphan into a snapshot, because a new table is about to use its
    /// directory. Returns whether there were any.
    ///
    /// They may be the last copy of some data, so they are not removed. If they stayed, the next
    /// start would open them as files of the new table.
    pub(super) async fn keep_orphan(self, directory: &Path) -> Result<bool, StorageError> {
        let file_system = self.node.store().file_system();
        if !file_system.exists(directory).await? {
            return Ok(false);
        }
        // As at a start: a compaction may have been under way. Its log must not stay, because it
        // may name files that the new table will write.
        espalier_compaction::recover(file_system, directory).await?;
        let found = find_sstables(file_system, directory).await?;
        let now = time::now_millis();
        let sealed = self.move_into_snapshot(directory, format!("orphan-{now}"), &found.sealed);
        let has_sealed = sealed.await?;
        // A snapshot of their own, because a restore refuses a snapshot with incomplete SSTables.
        let name = format!("orphan-{now}-incomplete");
        let has_incomplete = self.move_into_snapshot(directory, name, &found.incomplete).await?;
        Ok(has_sealed || has_incomplete)
    }

    /// Moves SSTables of an orphan into a snapshot. Returns whether there are any.
    async fn move_into_snapshot(
        self,
        directory: &Path,
        name: String,
        sets: &[Descriptor],
    ) -> Result<bool, StorageError> {
        let file_system = self.node.store().file_system();
        if sets.is_empty() {
            return Ok(false);
        }
        let snapshots = directory.join(SNAPSHOTS);
        let to = snapshots.join(name);
        file_system.create_dir_all(&to).await?;
        let found = components_of_each(file_system, sets).await?;
        for (descriptor, components) in sets.iter().zip(found) {
            self.link_components(descriptor, components, &to).await?;
        }
        let files = sets.iter().map(|descriptor| format!("{descriptor}-Data.db"));
        let manifest = manifest(&files.collect::<Vec<_>>());
        file_system.write_atomically(to.join(MANIFEST), manifest).await?;
        file_system.sync_dir(&snapshots).await?;
        file_system.sync_dir(directory).await?;
        remove_sstables(file_system, sets).await?;
        tracing::warn!(
            snapshot = %to.display(),
            "moved the SSTables of an orphan into a snapshot, because a new table has its id; \
             restore or clear the snapshot"
        );
        Ok(true)
    }

    /// Removes the links of SSTables that vanished before a shard had linked all of their files.
    /// `files` are the names of the other SSTables' Data.db, in order.
    async fn remove_unlisted(self, to: &Path, files: &[String]) -> Result<(), StorageError> {
        let file_system = self.node.store().file_system();
        let listing = list_directory(file_system, to).await?;
        let sets = listing.sealed.into_iter().chain(listing.incomplete).chain(listing.unsealed);
        let mut unlisted = Vec::new();
        for descriptor in sets {
            maybe_yield().await;
            if files.binary_search(&descriptor.file_name(&Component::Data)).is_err() {
                unlisted.push(descriptor);
            }
        }
        Ok(remove_sstables(file_system, &unlisted).await?)
    }

    /// Returns the snapshots of all tables, including tables that were dropped.
    ///
    /// # Errors
    ///
    /// Fails if a directory cannot be read.
    pub async fn list(self) -> Result<Vec<SnapshotDetails>, StorageError> {
        let mut found = Vec::new();
        for table in self.table_directories().await? {
            let mut snapshots = Vec::new();
            let mut copies: HashMap<(u64, u64), u64> = HashMap::new();
            for snapshot in self.snapshots_of(&table.path).await? {
                let files = match self.node.store().file_system().read_dir(&snapshot.path).await {
                    // The snapshot was removed meanwhile.
                    Err(error) if error.is_not_found() => continue,
                    files => files?,
                };
                let mut found = Vec::with_capacity(files.len());
                for file in files {
                    maybe_yield().await;
                    let read = self.node.store().file_system().metadata(&file.path).await;
                    if matches!(&read, Err(error) if error.is_not_found()) {
                        continue;
                    }
                    let metadata = read?;
                    *copies.entry((metadata.device, metadata.inode)).or_default() += 1;
                    found.push((file.name, metadata));
                }
                snapshots.push((snapshot.name, found));
            }
            for (tag, files) in snapshots {
                found.push(details_of(&table, tag, files, &copies).await);
            }
        }
        Ok(found)
    }

    /// Lists the directories of a table's snapshots. Files and links in the same place are ignored.
    pub(super) async fn snapshots_of(
        self,
        table: &Path,
    ) -> Result<Vec<DirectoryEntry>, StorageError> {
        if self.has_linked_snapshots(table).await? {
            return Ok(Vec::new());
        }
        let mut entries = read_dir(self.node.store().file_system(), &table.join(SNAPSHOTS)).await?;
        entries.retain(|entry| entry.is_directory && !entry.is_link);
        Ok(entries)
    }

    /// Returns whether a table's directory of snapshots is a symbolic link, which leads out of the
    /// data directory. Such snapshots are neither listed, restored nor removed.
    async fn has_linked_snapshots(self, table: &Path) -> Result<bool, StorageError> {
        let found = self.node.store().file_system().read_dir_where(table, |it| it == SNAPSHOTS);
        match found.await {
            Err(error) if error.is_not_found() => Ok(false),
            found => Ok(found?.iter().any(|entry| entry.is_link)),
        }
    }

    /// Lists the directories of all tables, dropped ones included, in order.
    pub(super) async fn table_directories(self) -> Result<Vec<NamedDirectory>, StorageError> {
        let mut found = Vec::new();
        let keyspaces = read_dir(
            self.node.store().file_system(),
            &self.node.store().configuration().data_directory,
        )
        .await?;
        for keyspace in keyspaces.into_iter().filter(|entry| entry.is_directory) {
            for entry in read_dir(self.node.store().file_system(), &keyspace.path).await? {
                let Some((name, id)) = entry.name.rsplit_once('-') else { continue };
                let Ok(id) = Uuid::try_parse(id) else { continue };
                if entry.is_directory {
                    let (keyspace, name) = (keyspace.name.clone(), name.to_owned());
                    let (id, path) = (TableId(id), entry.path);
                    found.push(NamedDirectory { keyspace, name, id, path });
                }
            }
        }
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }
}

/// Returns the details of a snapshot. `copies` counts the names of each file in the table's
/// snapshots, by disk and inode.
async fn details_of(
    table: &NamedDirectory,
    tag: String,
    files: Vec<(String, Metadata)>,
    copies: &HashMap<(u64, u64), u64>,
) -> SnapshotDetails {
    let mut details = SnapshotDetails {
        tag,
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        total_bytes: 0,
        true_bytes: 0,
        created_ms: None,
    };
    for (name, metadata) in files {
        maybe_yield().await;
        details.total_bytes += metadata.length;
        let of_snapshots = copies.get(&(metadata.device, metadata.inode)).copied().unwrap_or(1);
        details.true_bytes += if metadata.links > of_snapshots { 0 } else { metadata.length };
        if name == MANIFEST {
            details.created_ms = Some(metadata.modified_ms);
        }
    }
    details
}

/// Returns whether a snapshot may have this name, so that its directory is where it should be.
pub(super) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// The directory of a table, with the table's name and id.
pub(super) struct NamedDirectory {
    pub(super) keyspace: String,
    pub(super) name: String,
    pub(super) id: TableId,
    pub(super) path: PathBuf,
}

pub(super) async fn read_dir(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<Vec<DirectoryEntry>, StorageError> {
    match file_system.read_dir(directory).await {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => Ok(listed?),
    }
}

/// Returns the content of `manifest.json` as Cassandra 5 writes it.
fn manifest(files: &[String]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("\"{file}\"")).collect();
    let created = utc(time::now_millis());
    format!(
        "{{\"files\":[{}],\"created_at\":\"{created}\",\"expires_at\":null,\"ephemeral\":false}}\n",
        files.join(",")
    )
}

/// Formats a time in milliseconds since 1970 like `2026-01-02T03:04:05.678Z`.
fn utc(milliseconds: i64) -> String {
    let (days, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    // Days of the proleptic Gregorian calendar, from 1 March of the year 0, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millisecond) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_cassandra_writes_them() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(utc(1_709_210_096_789), "2024-02-29T12:34:56.789Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59.999Z");
    }
}
