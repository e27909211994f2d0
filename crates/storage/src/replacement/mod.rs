//! Replacement in place: the node takes the files of a stopped Cassandra node and its identity.
//!
//! 1. The identity is read from `system.local`: host id, cluster, tokens, generation.
//! 2. The commit log is checked: a node that was not drained has writes there that no file has, and
//!    this node does not read Cassandra's log.
//! 3. The SSTables are linked into a new directory, `data.taken` (copied, if they are on another
//!    disk): all tables of users, the schema, `system.local` and `system.paxos`.
//! 4. The times of the Cassandra node's truncations are saved, so that this node drops hints from
//!    before a truncation, as the Cassandra node would.
//! 5. A marker and the host id are written there, and the directory gets the name `data`.
//!
//! The start then finds schema, tokens and rows as it finds its own. A crash before the last step
//! leaves `data.taken`, which the next start removes. The Cassandra node's directories are only
//! read.

mod commit_log;
mod files;
mod identity;

use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;
use futures_util::future::LocalBoxFuture;

use crate::{DIRECTORY_LOCK, StorageError, recovery::save_host_id};
use identity::Identity;

/// Marks a data directory that was taken from a Cassandra node. The file has the generation in
/// which that node ran last.
const MARKER: &str = "replaced";
/// The suffix of the directory while it is made.
const UNFINISHED: &str = "taken";

/// The Cassandra node whose place this node takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedNode {
    /// `data_file_directories`
    pub data_directories: Vec<PathBuf>,
    /// `commitlog_directory`
    pub commitlog_directory: PathBuf,
    /// `cluster_name`, which must be that of the files.
    pub cluster_name: String,
}

/// Makes the data directory `into` from the files of a Cassandra node, unless an earlier start has
/// done so.
///
/// # Errors
/// Fails if the node was not drained, if its files are incomplete, of another cluster or of a node
/// that has not joined a ring, if `into` has other data, if the Cassandra node has run since its
/// files were taken, or if a file operation fails.
pub fn take_files<'a>(
    file_system: &'a FileSystem,
    node: &'a ReplacedNode,
    into: &'a Path,
) -> LocalBoxFuture<'a, Result<(), StorageError>> {
    Box::pin(async move {
        let refused = |reason: String| Err(StorageError::NotReplaceable(reason));
        let identity = Identity::read(file_system, &node.data_directories).await?;
        let is_there = file_system.exists(into).await?;
        if is_there && !is_empty(file_system, into).await? {
            return check_taken(file_system, into, identity.as_ref()).await;
        }
        let Some(identity) = identity else {
            return refused(format!(
                "there is no table system.local in {}",
                listed(&node.data_directories)
            ));
        };
        identity.check(&node.cluster_name)?;
        commit_log::check_drained(file_system, &node.commitlog_directory).await?;
        let unfinished = into.with_extension(UNFINISHED);
        if file_system.exists(&unfinished).await? {
            tracing::info!(directory = %unfinished.display(), "removing files of an earlier attempt");
            file_system.remove_dir_all(&unfinished).await?;
        }
        file_system.create_dir_all(&unfinished).await?;
        let directories = &node.data_directories;
        let taken = files::take(file_system, directories, &unfinished).await?;
        let truncations = &identity.truncations;
        files::take_truncations(file_system, directories, &unfinished, truncations).await?;
        save_host_id(file_system, &unfinished, identity.host_id).await?;
        let marker = format!("{}\n", identity.generation);
        file_system.write_atomically(unfinished.join(MARKER), marker).await?;
        if is_there {
            file_system.remove_dir_all(into).await?;
        }
        file_system.rename(&unfinished, into).await?;
        if let Some(parent) = into.parent() {
            file_system.sync_dir(parent).await?;
        }
        tracing::info!(
            host_id = %identity.host_id,
            tokens = identity.tokens,
            tables = taken.tables,
            sstables = taken.sstables,
            bytes = taken.bytes,
            copied = taken.copied,
            truncations = identity.truncations.len(),
            from = listed(&node.data_directories),
            into = %into.display(),
            "took the files of the Cassandra node"
        );
        Ok(())
    })
}

/// Returns whether a data directory has no data: a start that failed early leaves only its lock
/// file.
async fn is_empty(file_system: &FileSystem, directory: &Path) -> Result<bool, StorageError> {
    let entries = file_system.read_dir(directory).await?;
    Ok(entries.iter().all(|entry| entry.name == DIRECTORY_LOCK))
}

/// Checks that an existing data directory was taken from the Cassandra node, and that the node has
/// not run since. The Cassandra node's own files may be gone.
async fn check_taken(
    file_system: &FileSystem,
    into: &Path,
    identity: Option<&Identity>,
) -> Result<(), StorageError> {
    let marker = match file_system.read(into.join(MARKER)).await {
        Err(error) if error.is_not_found() => {
            return Err(StorageError::NotReplaceable(format!(
                "{} has data that are not of a Cassandra node: give an empty --workdir",
                into.display()
            )));
        }
        marker => marker?,
    };
    let taken_at: i32 = String::from_utf8_lossy(&marker).trim().parse().unwrap_or(0);
    match identity {
        Some(identity) if identity.generation != taken_at => {
            Err(StorageError::NotReplaceable(format!(
                "the Cassandra node has run since its files were taken into {}: give an empty \
                 --workdir, and drain the node first",
                into.display()
            )))
        }
        _ => Ok(()),
    }
}

fn listed(directories: &[PathBuf]) -> String {
    let names: Vec<_> = directories.iter().map(|it| it.display().to_string()).collect();
    names.join(", ")
}
