//! Which SSTables a directory holds, and taking one out of it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use espalier_runtime::file::FileSystem;

use super::{Component, Descriptor};
use crate::error::Result;

/// What is in a table's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// SSTables that have TOC.txt, by file name.
    pub sealed: Vec<Descriptor>,
    /// Files of sets without TOC.txt, which a crash left behind; also temporary ones. They may be removed.
    pub unsealed: Vec<PathBuf>,
    /// Everything else that is no directory.
    pub other: Vec<PathBuf>,
}

/// Lists a table's directory, but not what is below it.
pub async fn list_directory(
    file_system: &FileSystem,
    directory: &Path,
) -> Result<DirectoryListing> {
    let mut listing = DirectoryListing::default();
    let mut sets: BTreeMap<String, (Descriptor, bool, Vec<PathBuf>)> = BTreeMap::new();
    for entry in file_system.read_dir(directory).await? {
        if entry.is_directory {
            continue;
        }
        match Descriptor::parse(&entry.path) {
            Ok((_, Component::Other(name))) if name.ends_with(".tmp") => {
                listing.unsealed.push(entry.path);
            }
            Ok((descriptor, component)) => {
                let set = sets
                    .entry(descriptor.to_string())
                    .or_insert_with(|| (descriptor, false, Vec::new()));
                set.1 |= component == Component::Toc;
                set.2.push(entry.path);
            }
            Err(_) => listing.other.push(entry.path),
        }
    }
    for (descriptor, is_sealed, files) in sets.into_values() {
        match is_sealed {
            true => listing.sealed.push(descriptor),
            false => listing.unsealed.extend(files),
        }
    }
    Ok(listing)
}

/// Removes an SSTable with all files of its name. TOC.txt goes first and durably, so that a crash leaves either the whole
/// set or garbage.
pub async fn remove_sstable(file_system: &FileSystem, descriptor: &Descriptor) -> Result<()> {
    let remove = async |path: &Path| match file_system.remove_file(path).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    };
    remove(&descriptor.path(&Component::Toc)).await?;
    file_system.sync_dir(&descriptor.directory).await?;
    for entry in file_system.read_dir(&descriptor.directory).await? {
        let of_set = Descriptor::parse(&entry.path)
            .is_ok_and(|(other, _)| other.to_string() == descriptor.to_string());
        if of_set && !entry.is_directory {
            remove(&entry.path).await?;
        }
    }
    Ok(file_system.sync_dir(&descriptor.directory).await?)
}
