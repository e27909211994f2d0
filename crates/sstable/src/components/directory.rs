//! Which SSTables a directory holds, and taking one out of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use espalier_runtime::file::{DirectoryEntry, FileError, FileSystem, Metadata};

use super::{Component, Descriptor};
use crate::error::{Result, SSTableError};

/// What is in a table's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// SSTables that have TOC.txt, by file name.
    pub sealed: Vec<Descriptor>,
    /// Sets with TemporaryTOC.txt, which a crash left behind: [`remove_sstable`] may have them.
    pub unsealed: Vec<Descriptor>,
    /// Sets with neither: something took the table of contents away. Nobody may guess what it was.
    pub incomplete: Vec<Descriptor>,
    /// Everything else that is no directory.
    pub other: Vec<PathBuf>,
}

#[derive(Default)]
struct Set {
    has_toc: bool,
    has_temporary_toc: bool,
}

/// Lists a table's directory, but not what is below it.
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

/// The components of an SSTable whose files are there, whatever TOC.txt says.
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

/// The same, with what is known of each file.
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

/// An error if there is any file of an SSTable's name, for whoever is about to write one: that is not theirs, and taken back is all that has the name.
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

/// Removes an SSTable, whole or garbage, with all files of its name. A crash meanwhile leaves the whole set or garbage.
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
    // The mark of garbage goes when nothing is left that it marks.
    file_system.sync_dir(&descriptor.directory).await?;
    ignore_missing(file_system.remove_file(&temporary).await)?;
    Ok(file_system.sync_dir(&descriptor.directory).await?)
}

/// What the names of all files of an SSTable begin with.
fn prefix_of(descriptor: &Descriptor) -> String {
    format!("{descriptor}-")
}

/// Which component a file is, if it is one of those with the prefix. Only such names are looked into: there are thousands of others.
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
