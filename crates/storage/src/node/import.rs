//! Import: SSTables from elsewhere become part of a table. They may come from a backup, from
//! another node, from Cassandra or ScyllaDB.
//!
//! Every SSTable is verified and compared with the schema before anything is changed. Then the
//! table is flushed. All SSTables are copied into the table's directory under numbers of this node,
//! each with TOC.txt last, and opened by the shards that own a part of them. When all shards have
//! opened the copies, they are added to the table. A failure before that removes all copies. A
//! crash during the import leaves some SSTables imported, each as a whole. Importing again then
//! adds the same data once more, which changes nothing.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use espalier_compaction::{dead_sets, recover};
use espalier_mutation::schema::{TableId, TableMetadata};
use espalier_runtime::{SchedulingGroup, file::FileSystem};
use espalier_sstable::{
    Component, Descriptor, SSTableError,
    components::{
        copy_unsealed, files_of_each, link_unsealed, list_directory, remove_sstables, seal,
    },
    statistics::SerializationHeader,
    verify::{Severity, verify},
};
use futures_util::future::LocalBoxFuture;

use super::Node;
use crate::{StorageError, compaction::bytes_for_compactions, system::is_virtual, table::Table};

/// Directory below a table's directory in which ScyllaDB looks for files to load.
const UPLOAD: &str = "upload";

/// The amount of imported data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// SSTables.
    pub sstables: u64,
    /// Partitions in them.
    pub partitions: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// The way in which files from elsewhere get into the table's directory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Becoming {
    Copies,
    /// Hard links, for files of this node that never change.
    Links,
}

/// SSTables in a table's directory that are not sealed yet: they lack TOC.txt.
#[derive(Debug, Default)]
pub(super) struct Taken {
    descriptors: Vec<Descriptor>,
    bytes: u64,
}

impl Node {
    /// Imports all SSTables of a directory into a table; the files stay where they are. Without a
    /// directory, imports the files of `upload` below the table's own directory and removes them
    /// afterwards.
    ///
    /// # Errors
    ///
    /// Fails if the table is unknown or virtual, or needed for a start, if the directory has no
    /// SSTables or incomplete, damaged or foreign ones, if the disk has no room, or if a file
    /// cannot be copied.
    pub fn import<'a>(
        &'a self,
        keyspace: &'a str,
        table: &'a str,
        directory: Option<PathBuf>,
    ) -> LocalBoxFuture<'a, Result<Imported, StorageError>> {
        Box::pin(async move {
            let unknown = || StorageError::UnknownTableName {
                keyspace: keyspace.to_owned(),
                table: table.to_owned(),
            };
            let id = self.store().schema().table(keyspace, table).ok_or_else(unknown)?.id;
            if is_virtual(keyspace) {
                let reason = format!("{keyspace}.{table} is a virtual table, which stores no data");
                return Err(StorageError::NotImportable(reason));
            }
            StorageError::unless_needed_for_start("an import", keyspace)?;
            let lead = move |node: Node| async move { lead_import(&node, id, directory).await };
            self.on_shard(0, lead).await
        })
    }
}

async fn lead_import(
    node: &Node,
    id: TableId,
    directory: Option<PathBuf>,
) -> Result<Imported, StorageError> {
    let _turn = node.inner.import_lock.acquire(1).await;
    let table = node.store().tables.get(id)?;
    let (metadata, file_system) = (table.metadata(), node.store().file_system().clone());
    let is_upload = directory.is_none();
    let source = directory.unwrap_or_else(|| table.home.directory.join(UPLOAD));
    if !file_system.exists(&source).await.unwrap_or(true) {
        return Err(StorageError::NotImportable(format!(
            "there is no directory {}",
            source.display()
        )));
    }
    // This takes long for large files. Until the copies are sealed, they belong to no table, so
    // the schema may change meanwhile.
    let found = find(&file_system, &source).await?;
    let partitions = check_imports(node, &metadata, &found).await?;
    check_room_for_copies(node, &table, &found).await?;
    let truncated_at_us = node.truncated_at_us(id).await?;
    let copied = take_files(node, &table, &found, Becoming::Copies).await?;
    let imported = add_copies(node, id, copied, truncated_at_us).await?;
    let imported = Imported { partitions, ..imported };
    if is_upload {
        remove_all(&file_system, &found).await;
        // The files that `find` left out go too, with the logs that list them, because the next
        // files there may have the same names.
        if let Err(error) = recover(&file_system, &source).await {
            tracing::warn!(
                %error,
                "import: remains of a compaction could not be removed, remove them by hand"
            );
        }
    }
    tracing::info!(
        keyspace = metadata.keyspace,
        table = metadata.name,
        sstables = imported.sstables,
        from = %source.display(),
        "imported"
    );
    Ok(imported)
}

/// Adds copies of SSTables to a table. `truncated_at_us` is the time of its last truncation
/// before the files were copied.
async fn add_copies(
    node: &Node,
    id: TableId,
    copied: Taken,
    truncated_at_us: Option<i64>,
) -> Result<Imported, StorageError> {
    // From here on, the table is not dropped, altered or truncated.
    let _lock = node.inner.schema_lock.acquire(1).await;
    let prepared = async {
        let metadata = node.store().tables.get(id)?.metadata();
        // A truncation removes all files up to a number, also at the next start if it cannot
        // remove them at once. The copies have such numbers.
        if node.truncated_at_us(id).await? != truncated_at_us {
            return Err(StorageError::NotImportable(
                "the table was truncated meanwhile; import the files again".into(),
            ));
        }
        // SSTables of this node record which intervals of its commit log they hold, and a start
        // does not replay these intervals. The intervals lie in the past, so all of the table's
        // writes in the intervals must be flushed before the first copy is sealed.
        node.flush_tables(vec![id]).await?;
        let views = node.view_builds().dependent_views(&metadata);
        node.view_builds().mark_views_stale(&views).await?;
        Ok(views)
    };
    let views = match prepared.await {
        Ok(views) => views,
        Err(error) => {
            remove_all(node.store().file_system(), &copied.descriptors).await;
            return Err(error);
        }
    };
    let added = add_files(node, id, copied).await;
    // A build that began before the files were there does not count.
    node.view_builds().mark_views_stale(&views).await?;
    node.view_builds().build_views();
    added
}

/// Checks that the disk has room for copies of SSTables, besides the needs of flushes and
/// compactions.
async fn check_room_for_copies(
    node: &Node,
    table: &Table,
    found: &[Descriptor],
) -> Result<(), StorageError> {
    let mut bytes = 0;
    for files in files_of_each(node.store().file_system(), found).await? {
        bytes += files.values().map(|file| file.length).sum::<u64>();
    }
    let available = bytes_for_compactions(node.store(), table, None).await;
    if bytes > available {
        Err(StorageError::NotImportable(format!(
            "the files have {bytes} bytes, and the disk has room for {available} bytes more"
        )))
    } else {
        Ok(())
    }
}

/// Checks that SSTables can become part of the table. Returns the number of their partitions.
pub(super) async fn check_imports(
    node: &Node,
    table: &Arc<TableMetadata>,
    found: &[Descriptor],
) -> Result<u64, StorageError> {
    let mut partitions = 0;
    for descriptor in found {
        partitions += check_import(node, table, descriptor).await?;
    }
    Ok(partitions)
}

/// Puts SSTables into the table's directory under numbers of this node. They are not yet
/// sealed.
pub(super) async fn take_files(
    node: &Node,
    table: &Table,
    found: &[Descriptor],
    becoming: Becoming,
) -> Result<Taken, StorageError> {
    let (id, file_system) = (table.metadata().id, node.store().file_system());
    table.home.make(&node.store().file_system).await?;
    let mut taken = Taken::default();
    for descriptor in found {
        let named =
            |id| Descriptor { id, directory: table.home.directory.clone(), ..descriptor.clone() };
        let copied = async {
            let copy = node.store().next_descriptor(id, named).await?;
            let bytes = match becoming {
                Becoming::Copies => {
                    let (from, to) = (descriptor.clone(), copy.clone());
                    let file_system = file_system.clone();
                    let copying = async move { copy_unsealed(&file_system, &from, &to).await };
                    SchedulingGroup::Streaming.run(copying).await?
                }
                Becoming::Links => link_unsealed(file_system, descriptor, &copy).await?,
            };
            Ok((copy, bytes))
        };
        match copied.await {
            Ok((copy, bytes)) => {
                taken.bytes += bytes;
                taken.descriptors.push(copy);
            }
            Err(error) => {
                remove_all(file_system, &taken.descriptors).await;
                return Err(error);
            }
        }
    }
    Ok(taken)
}

/// Seals files and adds them to their table. The caller holds `schema_lock`. The result counts
/// no partitions.
pub(super) async fn add_files(
    node: &Node,
    id: TableId,
    taken: Taken,
) -> Result<Imported, StorageError> {
    let (file_system, copies) = (node.store().file_system(), taken.descriptors);
    let imported =
        Imported { sstables: copies.len() as u64, bytes: taken.bytes, ..Imported::default() };
    for copy in &copies {
        if let Err(error) = seal(file_system, copy).await {
            remove_all(file_system, &copies).await;
            return Err(error.into());
        }
    }
    let opened = open_imported_everywhere(node, id, copies.clone()).await;
    let is_opened = opened.is_ok();
    let added = match opened {
        Ok(()) => {
            node.for_tables(vec![id], |_, table| async move { table.add_pending_import() }).await
        }
        Err(error) => Err(error),
    };
    // Allow compactions only when all shards have the files, because the first compaction of a
    // file removes it for all shards.
    let ended = node.for_tables(vec![id], |node, table| async move {
        table.end_pending_import();
        let wakers = &node.store().wakers;
        wakers.compaction.notify_one();
        wakers.indexes.notify_one();
        Ok(())
    });
    ended.await?;
    if !is_opened {
        remove_all(file_system, &copies).await;
    }
    added.map(|()| imported)
}

/// Opens SSTables in the table's directory on each shard that owns a part of them, and blocks
/// compactions.
async fn open_imported_everywhere(
    node: &Node,
    id: TableId,
    added: Vec<Descriptor>,
) -> Result<(), StorageError> {
    let added = Arc::new(added);
    node.for_tables(vec![id], move |node, table| {
        let added = added.clone();
        async move { open_imported(&node, &table, &added).await }
    })
    .await
}

async fn open_imported(
    node: &Node,
    table: &Table,
    added: &[Descriptor],
) -> Result<(), StorageError> {
    // Compactions under way may purge a tombstone because it covers nothing; the tombstone may
    // cover something in these files.
    let pause = table.compactions.pause().await;
    let metadata = table.metadata();
    let mut sstables = Vec::new();
    for descriptor in added {
        let sstable = node.store().open_sstable(&metadata, descriptor.clone()).await?;
        if node.store().routing.may_own_part(&metadata, &sstable) {
            sstables.push(sstable);
        }
    }
    table.hold_pending_import(sstables, pause);
    Ok(())
}

/// Checks that an SSTable can become part of the table. Returns the number of its partitions.
async fn check_import(
    node: &Node,
    table: &Arc<TableMetadata>,
    descriptor: &Descriptor,
) -> Result<u64, StorageError> {
    let partitions = check_files(node, descriptor).await?;
    let sstable = node.store().open_sstable(table, descriptor.clone()).await.map_err(refused)?;
    let statistics = descriptor.path(&Component::Statistics);
    compare_keys(table, &sstable.reader().statistics().header).map_err(|reason| {
        let file = statistics.display();
        StorageError::NotImportable(format!("{file} is of another table: {reason}"))
    })?;
    Ok(partitions)
}

/// Verifies the files of an SSTable. Returns the number of its partitions.
pub(super) async fn check_files(node: &Node, descriptor: &Descriptor) -> Result<u64, StorageError> {
    let report = verify(node.store().file_system(), descriptor).await;
    let report = report.map_err(|error| refused(error.into()))?;
    match report.problems.iter().find(|problem| problem.severity == Severity::Failure) {
        None => Ok(report.partitions),
        Some(problem) => Err(StorageError::NotImportable(format!(
            "{} is damaged: {}",
            descriptor.path(&Component::Data).display(),
            problem.what
        ))),
    }
}

/// Compares the key types of a file with those of the table. With other types no key would be
/// found.
fn compare_keys(table: &TableMetadata, header: &SerializationHeader) -> Result<(), String> {
    let key_type = SerializationHeader::key_type_of(table);
    let name = format!("{}.{}", table.keyspace, table.name);
    if header.key_type != key_type {
        return Err(format!(
            "its partition key is of type {}, that of table {name} of {}",
            header.key_type.marshal_name(),
            key_type.marshal_name()
        ));
    }
    for (column, (found, _)) in table.clustering_columns().iter().zip(&header.clustering_types) {
        if *found != column.column_type {
            return Err(format!(
                "clustering column {} has type {} there, and {} in table {name}",
                column.name,
                found.marshal_name(),
                column.column_type.marshal_name()
            ));
        }
    }
    Ok(())
}

/// Turns errors of the files' contents into [`StorageError::NotImportable`]; an I/O error stays as
/// it is.
fn refused(error: StorageError) -> StorageError {
    match error {
        StorageError::SSTable(SSTableError::Io(_)) => error,
        StorageError::SSTable(error) => StorageError::NotImportable(error.to_string()),
        error => error,
    }
}

/// Lists the SSTables of a directory. Leaves out files that an interrupted compaction there had
/// replaced or was writing: together with the compaction's other files, they would bring back
/// purged data.
pub(super) async fn find(
    file_system: &FileSystem,
    source: &Path,
) -> Result<Vec<Descriptor>, StorageError> {
    let mut listing = match list_directory(file_system, source).await {
        Err(SSTableError::Io(error)) => {
            return Err(StorageError::NotImportable(error.to_string()));
        }
        listing => listing?,
    };
    refuse_links(file_system, source).await?;
    let dead = dead_sets(file_system, source).await?;
    listing.sealed.retain(|sealed| !dead.contains(sealed));
    listing.incomplete.retain(|incomplete| !dead.contains(incomplete));
    if let Some(incomplete) = listing.incomplete.first() {
        return Err(StorageError::IncompleteSSTable(incomplete.path(&Component::Toc)));
    }
    if listing.sealed.is_empty() {
        Err(StorageError::NothingToImport(source.to_owned()))
    } else {
        Ok(listing.sealed)
    }
}

/// Refuses a source that is a symbolic link, and symbolic links among its files: they would make
/// files of other directories part of a table. Best effort: a file that is exchanged for a link
/// after this check is not noticed.
async fn refuse_links(file_system: &FileSystem, source: &Path) -> Result<(), StorageError> {
    if is_link(file_system, source).await? {
        return Err(StorageError::NotImportable(format!(
            "{} is a symbolic link; name the directory that it leads to",
            source.display()
        )));
    }
    let entries = file_system.read_dir(source).await?;
    match entries.into_iter().find(|entry| entry.is_link) {
        None => Ok(()),
        Some(link) => Err(StorageError::NotImportable(format!(
            "{} is a symbolic link; copy the file that it leads to",
            link.path.display()
        ))),
    }
}

/// Returns whether a directory is a symbolic link, by the list of its parent.
async fn is_link(file_system: &FileSystem, directory: &Path) -> Result<bool, StorageError> {
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(false);
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match file_system.read_dir(parent).await {
        Ok(entries) => {
            Ok(entries.iter().any(|one| one.is_link && one.path.file_name() == Some(name)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn remove_all(file_system: &FileSystem, descriptors: &[Descriptor]) {
    if let Err(error) = remove_sstables(file_system, descriptors).await {
        tracing::warn!(%error, "files of an import could not be removed: remove them by hand");
    }
}
