//! This module lists the SSTables of a directory, and removes an SSTable from it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use espalier_runtime::file::{DirectoryEntry, FileError, FileSystem, Metadata};

use super::{Component, Descriptor};
use crate::error::{Result, SSTableError};

/// The content of a table's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// SSTables with TOC.txt, in the order of their file names.
    pub sealed: Vec<Descriptor>,
    /// Sets of files with TemporaryTOC.txt and without TOC.txt, which a crash left behind. The
    /// caller may pass them to [`remove_sstable`].
    pub unsealed: Vec<Descriptor>,
    /// Sets of files with neither TOC.txt nor TemporaryTOC.txt, because the table of contents was
    /// lost. Espalier never guesses whether they are complete.
    pub incomplete: Vec<Descriptor>,
    /// All other entries, except directories.
    pub other: Vec<PathBuf>,
}

#[derive(Default)]
struct Set {
    has_toc: bool,
    has_temporary_toc: bool,
}

/// Lists a table's directory, without its subdirectories.
///
/// # Errors
/// Fails if the directory cannot be read.
pub async fn list_directory(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<DirectoryListing> {
    let mut listing = DirectoryListing::default();
    let mut sets: BTreeMap<String, (Descriptor, Set)> = BTreeMap::new();
    for entry in file_system.read_dir(directory).await? {
        if entry.is_directory {
            continue;
        }
        match Descriptor::parse(&entry.path) {
            Ok((descriptor, component)) if component.is_known() => {
                let (_, set) = sets
                    .entry(descriptor.to_string())
                    .or_insert_with(|| (descriptor, Set::default()));
                set.has_toc |= component == Component::Toc;
                set.has_temporary_toc |= component == Component::TemporaryToc;
            }
            _ => listing.other.push(entry.path),
        }
    }
    for (descriptor, set) in sets.into_values() {
        match (set.has_toc, set.has_temporary_toc) {
            (true, _) => listing.sealed.push(descriptor),
            (false, true) => listing.unsealed.push(descriptor),
            (false, false) => listing.incomplete.push(descriptor),
        }
    }
    Ok(listing)
}

/// Returns the components of an SSTable that have a file, whatever TOC.txt lists.
///
/// # Errors
/// Fails if the directory cannot be read.
pub async fn components_found(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeSet<Component>> {
    let (mut present, prefix) = (BTreeSet::new(), prefix_of(descriptor));
    for entry in file_system.read_dir(&descriptor.directory).await? {
        if let Some(component) = component_of(&prefix, &entry) {
            present.insert(component);
        }
    }
    Ok(present)
}

/// Returns the components of an SSTable that have a file, with the metadata of each file.
///
/// # Errors
/// Fails if the directory or the metadata of a file cannot be read.
pub async fn files_found(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeMap<Component, Metadata>> {
    let mut files = BTreeMap::new();
    for component in components_found(file_system, descriptor).await? {
        let found = file_system.metadata(descriptor.path(&component)).await?;
        files.insert(component, found);
    }
    Ok(files)
}

/// Returns an error if a file with the SSTable's name exists. A writer calls this first, because
/// after an error the writer removes all files with the name.
pub(crate) async fn check_name_is_free(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<()> {
    match components_found(file_system, descriptor).await?.first() {
        Some(taken) => Err(SSTableError::NameTaken {
            file: descriptor.name_in_errors(&Component::Data),
            found: taken.to_string(),
        }),
        None => Ok(()),
    }
}

/// Removes all files with an SSTable's name, also if the SSTable is unsealed. A crash during the
/// removal of a sealed SSTable leaves it whole, or leaves files that a listing reports as unsealed.
///
/// # Errors
/// Fails if a file operation fails. A missing file is no error.
pub async fn remove_sstable(file_system: &FileSystem, descriptor: &Descriptor) -> Result<()> {
    let prefix = prefix_of(descriptor);
    let (toc, temporary) =
        (descriptor.path(&Component::Toc), descriptor.path(&Component::TemporaryToc));
    ignore_missing(file_system.rename(&toc, &temporary).await)?;
    file_system.sync_dir(&descriptor.directory).await?;
    for entry in file_system.read_dir(&descriptor.directory).await? {
        let of_set = component_of(&prefix, &entry).is_some();
        if of_set && !entry.is_directory && entry.path != temporary {
            ignore_missing(file_system.remove_file(&entry.path).await)?;
        }
    }
    // TemporaryTOC.txt marks the files as garbage, so it is removed last.
    file_system.sync_dir(&descriptor.directory).await?;
    ignore_missing(file_system.remove_file(&temporary).await)?;
    Ok(file_system.sync_dir(&descriptor.directory).await?)
}

/// Returns the prefix of the names of all files of an SSTable.
fn prefix_of(descriptor: &Descriptor) -> String {
    format!("{descriptor}-")
}

/// Returns the component of a file, if its name has the prefix. Other names, of which a directory
/// has thousands, are not parsed.
fn component_of(prefix: &str, entry: &DirectoryEntry) -> Option<Component> {
    if !entry.name.starts_with(prefix) {
        return None;
    }
    Descriptor::parse(&entry.path).ok().map(|(_, component)| component)
}

fn ignore_missing(outcome: Result<(), FileError>) -> Result<()> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
