//! Finds the SSTables that the paths of a command line name. A file names its SSTable; a directory
//! names all SSTables in it and below it.
//!
//! Snapshots and backups below a table's directory are left out unless a path names them, because
//! they mostly hold the same files again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;
use espalier_sstable::components::{Component, DirectoryListing, list_directory};
use espalier_sstable::{Descriptor, PageCache, SSTableError, SSTableReader};

use super::ToolError;
use super::output::report;

/// The SSTables that paths name.
#[derive(Default)]
pub struct Found {
    /// The SSTables, in order, each once.
    pub descriptors: Vec<Descriptor>,
    /// The directory of each SSTable relative to the path that names the SSTable. It is empty if
    /// the path is that directory or a file of the SSTable.
    pub places: Vec<PathBuf>,
    /// Number of directories below the paths that could not be listed. Each was reported.
    pub unread_directories: usize,
    /// Number of SSTables that were skipped because they have lost their TOC.txt. SSTables that
    /// another process seems to be writing do not count.
    pub lost: usize,
}

/// Finds the SSTables that `paths` name. Reports and counts each directory below `paths` that
/// cannot be read.
///
/// # Errors
/// Fails if a path cannot be read, or names no SSTable.
pub async fn find(file_system: &FileSystem, paths: &[PathBuf]) -> Result<Found, ToolError> {
    let mut found = Found::default();
    // A path such as `DIRECTORY/*` names an SSTable by each of its files.
    let mut seen = HashSet::new();
    for path in paths {
        let mut named = Vec::new();
        let metadata = file_system.metadata(path).await;
        let is_directory =
            metadata.map_err(|error| unusable(path, error.source.to_string()))?.is_directory;
        if is_directory {
            named = find_below(file_system, path, &mut found).await?;
        } else {
            // A bare file name is in the working directory.
            let is_name = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
            let path = &if is_name { Path::new(".").join(path) } else { path.clone() };
            let (descriptor, _) = Descriptor::parse(path)?;
            named.push(descriptor);
        }
        named.retain(|descriptor| seen.insert(descriptor.path(&Component::Data)));
        let place = |descriptor: &Descriptor| {
            descriptor.directory.strip_prefix(path).map(Path::to_path_buf).unwrap_or_default()
        };
        found.places.extend(named.iter().map(place));
        found.descriptors.append(&mut named);
    }
    Ok(found)
}

/// Finds the SSTables in and below a directory. Fails if there are none.
async fn find_below(
    file_system: &FileSystem,
    root: &Path,
    all: &mut Found,
) -> Result<Vec<Descriptor>, ToolError> {
    let mut found = Vec::new();
    let mut copies = 0;
    let mut remaining = vec![root.to_owned()];
    while let Some(directory) = remaining.pop() {
        let listed = match list(file_system, &directory).await {
            Ok(listed) => listed,
            Err(error) if directory == root => return Err(error),
            Err(error) => {
                report(format_args!("{error}; skipped, with all directories below it"));
                all.unread_directories += 1;
                continue;
            }
        };
        let (listing, mut below) = listed;
        let mut sets = listing.sealed.iter().chain(&listing.unsealed).chain(&listing.incomplete);
        let is_of_table = table_name(&directory).is_some() || sets.next().is_some();
        if is_of_table {
            let before = below.len();
            below.retain(|path| !is_named_for_copies(path));
            copies += before - below.len();
        }
        found.extend(listing.sealed);
        // Cassandra first writes a log of the SSTables that it is going to write. It writes the
        // TOC.txt of an SSTable last.
        let is_log = |path: &PathBuf| path.to_string_lossy().contains("_txn_");
        if !listing.other.iter().any(is_log) {
            all.lost += listing.incomplete.len();
        }
        for descriptor in listing.unsealed.iter().chain(&listing.incomplete) {
            let name = descriptor.directory.join(descriptor.to_string());
            report(format_args!(
                "{}: skipped: it has no TOC.txt, so it is being written or is damaged; name its Data.db to read it",
                name.display()
            ));
        }
        // `pop` takes the last directory first.
        remaining.extend(below.into_iter().rev());
    }
    if found.is_empty() {
        let mut reason = "there is no SSTable in it or below".to_owned();
        if copies > 0 {
            reason += ", but snapshots or backups, which are left out unless you name them";
        }
        return Err(unusable(root, reason));
    }
    Ok(found)
}

/// Returns whether the name of a directory below a table's directory says that it has links to
/// SSTables of the table.
fn is_named_for_copies(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "snapshots" || name == "backups")
}

/// Returns the table of a directory that is named `<table>-<id>`, as all nodes name it.
pub fn table_name(directory: &Path) -> Option<&str> {
    let (table, id) = directory.file_name()?.to_str()?.rsplit_once('-')?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(table)
}

/// Lists the SSTables of a directory, and the directories below it.
async fn list(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<(DirectoryListing, Vec<PathBuf>), ToolError> {
    let listing = list_directory(file_system, directory).await?;
    let entries = file_system.read_dir(directory).await;
    let entries = entries.map_err(|error| unusable(directory, error.source.to_string()))?;
    let below = entries.into_iter().filter(|entry| entry.is_directory && !entry.is_link);
    Ok((listing, below.map(|entry| entry.path).collect()))
}

/// Opens an SSTable with the table that its header describes. If TOC.txt is missing, the function
/// reports this and opens the files that exist: the user has named this SSTable by a file, because
/// [`find`] skips such an SSTable in a directory. The function also reports a missing or damaged
/// filter and continues without it, because a filter only speeds up look-ups.
///
/// # Errors
/// Fails if a needed component is missing or damaged.
pub async fn open(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    cache: &PageCache,
) -> Result<SSTableReader, SSTableError> {
    let mut opened = SSTableReader::open(file_system, descriptor.clone(), None, cache).await;
    let mut reported = Vec::new();
    let toc = descriptor.path(&Component::Toc);
    if let Err(SSTableError::Io(error)) = &opened
        && error.is_not_found()
        && error.path == toc
    {
        let name = descriptor.directory.join(descriptor.to_string());
        let what = "it has no TOC.txt; reading the files that exist";
        reported.push(format!("{}: {what}", name.display()));
        opened = SSTableReader::open_unlisted(file_system, descriptor.clone(), None, cache).await;
    }
    if let Err(error) = &opened
        && error.is_about(&descriptor.path(&Component::Filter))
    {
        reported.push(format!("{error}; continuing without the filter, which no row depends on"));
        opened =
            SSTableReader::open_without_filter(file_system, descriptor.clone(), None, cache).await;
    }
    if opened.is_ok() {
        reported.iter().for_each(|what| report(format_args!("{what}")));
    }
    opened
}

/// Returns an error about a path.
pub fn unusable(path: &Path, reason: String) -> ToolError {
    ToolError::Path { path: path.to_owned(), reason }
}
