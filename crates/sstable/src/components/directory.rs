//! This module lists the SSTables of a directory, and removes SSTables from it.
//!
//! A table may have tens of thousands of files. So a function that takes many SSTables lists each
//! directory once for all of them, and a helper thread leaves out the files of other SSTables.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::ErrorKind,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
};

use espalier_runtime::{
    file::{DirectoryEntry, FileError, FileSystem, Metadata},
    maybe_yield,
};

use super::{Component, Descriptor, component::KNOWN};
use crate::error::{Result, SSTableError};

/// The content of a table's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryListing {
    /// SSTables with TOC.txt, in the order of their file names.
    pub sealed: Vec<Descriptor>,
    /// Sets of files with TemporaryTOC.txt and without TOC.txt, which a crash left behind. The
    /// caller may pass them to [`remove_sstables`].
    pub unsealed: Vec<Descriptor>,
    /// Sets of files with neither TOC.txt nor TemporaryTOC.txt, because the table of contents was
    /// lost. Espalier never guesses whether they are complete.
    pub incomplete: Vec<Descriptor>,
    /// All other entries, except directories.
    pub other: Vec<PathBuf>,
    /// Names of the directories.
    pub subdirectories: Vec<String>,
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
        maybe_yield().await;
        if entry.is_directory {
            listing.subdirectories.push(entry.name);
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
        maybe_yield().await;
        match (set.has_toc, set.has_temporary_toc) {
            (true, _) => listing.sealed.push(descriptor),
            (false, true) => listing.unsealed.push(descriptor),
            (false, false) => listing.incomplete.push(descriptor),
        }
    }
    Ok(listing)
}

/// Returns the components of an SSTable that have a file, whatever TOC.txt lists. Lists the whole
/// directory, so a caller with many SSTables calls [`components_of_each`].
///
/// # Errors
/// Fails if the directory cannot be read.
pub async fn components_found(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeSet<Component>> {
    let found = components_of_each(file_system, slice::from_ref(descriptor)).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Returns the components of different SSTables that have a file, whatever TOC.txt lists, in the
/// order of the SSTables. Lists each directory once.
///
/// # Errors
/// Fails if a directory cannot be read.
pub async fn components_of_each(
    file_system: &FileSystem,
    descriptors: &[Descriptor],
) -> Result<Vec<BTreeSet<Component>>> {
    let mut found = Vec::with_capacity(descriptors.len());
    for files in entries_of_each(file_system, descriptors).await? {
        maybe_yield().await;
        found.push(files.into_iter().map(|(component, _)| component).collect());
    }
    Ok(found)
}

/// Returns the components of an SSTable that have a file, with the metadata of each file. Lists the
/// whole directory, so a caller with many SSTables calls [`files_of_each`].
///
/// # Errors
/// Fails if the directory or the metadata of a file cannot be read.
pub async fn files_found(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<BTreeMap<Component, Metadata>> {
    let found = files_of_each(file_system, slice::from_ref(descriptor)).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Returns the components of different SSTables that have a file, with the metadata of each file,
/// in the order of the SSTables. Lists each directory once.
///
/// # Errors
/// Fails if a directory or the metadata of a file cannot be read.
pub async fn files_of_each(
    file_system: &FileSystem,
    descriptors: &[Descriptor],
) -> Result<Vec<BTreeMap<Component, Metadata>>> {
    let mut found = Vec::with_capacity(descriptors.len());
    for entries in entries_of_each(file_system, descriptors).await? {
        let mut files = BTreeMap::new();
        for (component, entry) in entries {
            files.insert(component, file_system.metadata(&entry.path).await?);
        }
        found.push(files);
    }
    Ok(found)
}

/// Returns a component whose file exists under the SSTable's name, or `None` if the name is free
/// for a new SSTable. Looks only for the components that do not depend on the table, and does not
/// list the directory. So files of secondary indexes and of other programs do not take a name.
///
/// # Errors
/// Fails if a name cannot be queried.
pub async fn component_taken(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<Option<Component>> {
    let names = KNOWN.iter().map(|component| descriptor.file_name(component)).collect();
    let taken = file_system.first_existing(&descriptor.directory, names).await?;
    Ok(taken.and_then(|name| Some(Descriptor::parse(Path::new(&name)).ok()?.1)))
}

/// Returns an error if [`component_taken`] finds a file with the SSTable's name. A writer calls
/// this first, because after an error the writer removes all files with the name.
pub(crate) async fn check_name_is_free(
    file_system: &FileSystem,
    descriptor: &Descriptor,
) -> Result<()> {
    match component_taken(file_system, descriptor).await? {
        Some(taken) => Err(name_taken(descriptor, &taken)),
        None => Ok(()),
    }
}

fn name_taken(descriptor: &Descriptor, taken: &Component) -> SSTableError {
    let file = descriptor.name_in_errors(&Component::Data);
    SSTableError::NameTaken { file, found: taken.to_string() }
}

/// Reserves a name for a new SSTable by creating its TemporaryTOC.txt. Until the SSTable is sealed,
/// a listing reports its files as garbage.
///
/// # Errors
/// Returns [`SSTableError::NameTaken`] if [`component_taken`] finds a file with the name, or
/// TemporaryTOC.txt exists. Fails also if a name cannot be queried or the file cannot be created.
/// After any error, the caller must not remove files with the name: they are not its own.
pub async fn reserve_name(file_system: &FileSystem, descriptor: &Descriptor) -> Result<()> {
    check_name_is_free(file_system, descriptor).await?;
    let reservation = Component::TemporaryToc;
    match file_system.create_new(descriptor.path(&reservation)).await {
        Ok(_) => Ok(()),
        // The name was taken after the check.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(name_taken(descriptor, &reservation))
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes an SSTable, as [`remove_sstables`] does. Lists the whole directory.
///
/// # Errors
/// Fails if a file operation fails. A missing file is no error.
pub async fn remove_sstable(file_system: &FileSystem, descriptor: &Descriptor) -> Result<()> {
    remove_sstables(file_system, slice::from_ref(descriptor)).await
}

/// Removes all files of the SSTable if `outcome` is an error. An error of the removal is ignored,
/// because the first error explains more.
pub(crate) async fn take_back_if_failed<T, E>(
    file_system: &FileSystem,
    descriptor: &Descriptor,
    outcome: Result<T, E>,
) -> Result<T, E> {
    if outcome.is_err() {
        let _ = remove_sstable(file_system, descriptor).await;
    }
    outcome
}

/// Removes all files of the given SSTables, sealed or not. The SSTables must differ. A crash during
/// the removal leaves each sealed SSTable whole, leaves files that a listing reports as unsealed,
/// or leaves nothing. Lists and syncs each directory a constant number of times.
///
/// # Errors
/// Fails at once if a directory cannot be listed or synced. Any other failure stops only the
/// removal of the SSTable that it concerns; the first such failure is returned at the end. A
/// missing file is no error.
pub async fn remove_sstables(file_system: &FileSystem, descriptors: &[Descriptor]) -> Result<()> {
    let mut first_failure = Ok(());
    let mut unsealed = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        let (toc, temporary) =
            (descriptor.path(&Component::Toc), descriptor.path(&Component::TemporaryToc));
        match ignore_missing(file_system.rename(&toc, &temporary).await) {
            Ok(()) => unsealed.push(descriptor.clone()),
            Err(error) => first_failure = first_failure.and(Err(error)),
        }
    }
    sync_directories(file_system, descriptors).await?;
    let found = entries_of_each(file_system, &unsealed).await?;
    let mut emptied = Vec::with_capacity(unsealed.len());
    for (descriptor, files) in unsealed.into_iter().zip(found) {
        match remove_all_but_temporary_toc(file_system, files).await {
            Ok(()) => emptied.push(descriptor),
            Err(error) => first_failure = first_failure.and(Err(error)),
        }
    }
    // TemporaryTOC.txt marks the files as garbage, so it is removed last.
    sync_directories(file_system, &emptied).await?;
    for descriptor in &emptied {
        let temporary = descriptor.path(&Component::TemporaryToc);
        let removed = ignore_missing(file_system.remove_file(&temporary).await);
        first_failure = first_failure.and(removed);
    }
    sync_directories(file_system, &emptied).await?;
    first_failure
}

async fn remove_all_but_temporary_toc(
    file_system: &FileSystem,
    files: Vec<(Component, DirectoryEntry)>,
) -> Result<()> {
    for (component, entry) in files {
        if component != Component::TemporaryToc && !entry.is_directory {
            ignore_missing(file_system.remove_file(&entry.path).await)?;
        }
    }
    Ok(())
}

async fn sync_directories(file_system: &FileSystem, descriptors: &[Descriptor]) -> Result<()> {
    let directories: BTreeSet<&Path> =
        descriptors.iter().map(|descriptor| &*descriptor.directory).collect();
    for directory in directories {
        file_system.sync_dir(directory).await?;
    }
    Ok(())
}

/// Returns the files of different SSTables, in the order of the SSTables. Lists each directory
/// once. A helper thread leaves out the files of other SSTables.
async fn entries_of_each(
    file_system: &FileSystem,
    descriptors: &[Descriptor],
) -> Result<Vec<Vec<(Component, DirectoryEntry)>>> {
    let mut found = Vec::with_capacity(descriptors.len());
    let mut directories: BTreeMap<&Path, HashMap<String, usize>> = BTreeMap::new();
    for (place, descriptor) in descriptors.iter().enumerate() {
        maybe_yield().await;
        found.push(Vec::new());
        let places = directories.entry(&descriptor.directory).or_default();
        places.insert(descriptor.to_string(), place);
    }
    for (directory, places) in directories {
        let places = Arc::new(places);
        let wanted = places.clone();
        let is_wanted = move |name: &str| wanted.contains_key(set_name(name));
        for entry in file_system.read_dir_where(directory, is_wanted).await? {
            maybe_yield().await;
            let files = places.get(set_name(&entry.name)).and_then(|place| found.get_mut(*place));
            if let (Some(files), Ok((_, component))) = (files, Descriptor::parse(&entry.path)) {
                files.push((component, entry));
            }
        }
    }
    Ok(found)
}

/// Returns the part of a file name that all files of an SSTable have: all before the third `-`.
/// Returns an empty string if the name has fewer than three `-`.
fn set_name(name: &str) -> &str {
    let mut ends = name.match_indices('-').map(|(at, _)| at);
    ends.nth(2).and_then(|end| name.get(..end)).unwrap_or_default()
}

fn ignore_missing(outcome: Result<(), FileError>) -> Result<()> {
    match outcome {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
