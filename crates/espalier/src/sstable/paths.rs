//! Which SSTables the paths of a command line name: a file of one names that one, a directory all of them in it and below.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use espalier_runtime::file::FileSystem;
use espalier_sstable::Descriptor;
use espalier_sstable::components::{Component, list_directory};

use super::ToolError;

/// The SSTables that `paths` name, in order. A path that names none is an error.
pub async fn find(
    file_system: &FileSystem,
    paths: &[PathBuf],
) -> Result<Vec<Descriptor>, ToolError> {
    let mut found = Vec::new();
    for path in paths {
        let before = found.len();
        let metadata = file_system.metadata(path).await;
        let is_directory =
            metadata.map_err(|error| unusable(path, error.source.to_string()))?.is_directory;
        if is_directory {
            find_below(file_system, path, &mut found).await?;
            if found.len() == before {
                return Err(unusable(path, "there is no SSTable in it or below".to_owned()));
            }
        } else {
            let (descriptor, _) =
                Descriptor::parse(path).map_err(|error| unusable(path, error.to_string()))?;
            found.push(descriptor);
        }
    }
    // `DIRECTORY/*` names each of them by all of its files.
    let mut seen = HashSet::new();
    found.retain(|descriptor| seen.insert(descriptor.path(&Component::Data)));
    Ok(found)
}

async fn find_below(
    file_system: &FileSystem,
    directory: &Path,
    found: &mut Vec<Descriptor>,
) -> Result<(), ToolError> {
    let mut remaining = vec![directory.to_owned()];
    while let Some(directory) = remaining.pop() {
        let listing = list_directory(file_system, &directory).await?;
        found.extend(listing.sealed);
        for descriptor in listing.unsealed.iter().chain(&listing.incomplete) {
            let name = descriptor.directory.join(descriptor.to_string());
            eprintln!(
                "espalier: {}: passed over, as it has no TOC.txt: it is being written, or damaged; name its Data.db to look at it",
                name.display()
            );
        }
        let entries = file_system.read_dir(&directory).await;
        let entries = entries.map_err(|error| unusable(&directory, error.source.to_string()))?;
        let below = entries.into_iter().filter(|entry| entry.is_directory);
        // The last is taken first.
        remaining.extend(below.rev().map(|entry| entry.path));
    }
    Ok(())
}

/// An error about a path.
pub fn unusable(path: &Path, reason: String) -> ToolError {
    ToolError::Path { path: path.to_owned(), reason }
}
