//! The names: opening, creating, renaming, removing, listing.

use super::real;
use super::simulated::SimulatedDisk;
use super::{File, Result};
use std::path::{Path, PathBuf};

/// A file system: the machine's, or a simulated one. Cheap to clone and to send to other shards; the files
/// it opens stay on the shard that opened them.
#[derive(Clone, Debug)]
pub struct FileSystem(Backend);

#[derive(Clone, Debug)]
enum Backend {
    Real,
    Simulated(SimulatedDisk),
}

/// What a directory holds under one name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name; bytes that are not UTF-8 show as U+FFFD.
    pub name: String,
    /// The directory's path with the exact name.
    pub path: PathBuf,
    /// Whether it is a directory, or a symbolic link that leads to one.
    pub is_directory: bool,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

/// What is known of a file or directory without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes.
    pub length: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// When the content changed last, in milliseconds since 1970.
    pub modified_ms: i64,
    /// How many names the file has.
    pub links: u64,
    /// The disk that it is on: from one to another nothing can be linked.
    pub device: u64,
}

macro_rules! dispatch {
    ($self:ident, $real:expr, $disk:ident => $simulated:expr) => {
        match &$self.0 {
            Backend::Real => $real,
            Backend::Simulated($disk) => $simulated,
        }
    };
}

impl FileSystem {
    /// The machine's file system.
    pub fn real() -> Self {
        FileSystem(Backend::Real)
    }

    /// An empty simulated disk whose every choice follows from `seed`.
    pub fn simulated(seed: u64) -> Self {
        FileSystem(Backend::Simulated(SimulatedDisk::new(seed)))
    }

    /// The file system on a simulated disk.
    pub fn on(disk: SimulatedDisk) -> Self {
        FileSystem(Backend::Simulated(disk))
    }

    /// The simulated disk, for crashes and faults; `None` for the machine's.
    pub fn simulated_disk(&self) -> Option<&SimulatedDisk> {
        dispatch!(self, None, disk => Some(disk))
    }

    /// Opens a file to read through the kernel's page cache.
    pub async fn open_read(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_read(path, false).await, disk => disk.open_read(path, false).await)
    }

    /// Opens a file to read around the kernel's page cache (O_DIRECT); where that is refused, through it.
    pub async fn open_read_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_read(path, true).await, disk => disk.open_read(path, true).await)
    }

    /// Opens an existing file to read and write; appends go to its end.
    pub async fn open_write(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_write(path).await, disk => disk.open_write(path).await)
    }

    /// Creates a file to read and write; an existing one is emptied.
    pub async fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create(path, false).await, disk => disk.create(path, false).await)
    }

    /// Creates a file to read and write; an existing one is an error (`AlreadyExists`).
    pub async fn create_new(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create(path, true).await, disk => disk.create(path, true).await)
    }

    /// The same to write around the kernel's page cache (O_DIRECT) as long as whole pages are written from page-aligned
    /// memory ([`super::PageBufferMut`]): from the first other write on, and where it is refused, through it.
    pub async fn create_new_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create_new_direct(path).await, disk => disk.create(path, true).await)
    }

    /// Opens a file to append to, creating it if there is none.
    pub async fn create_append(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create_append(path).await, disk => disk.create_append(path).await)
    }

    /// Renames a file or directory, replacing a file at `to`. Atomic; durable after [`Self::sync_dir`] of
    /// both directories.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        dispatch!(self, real::rename(from, to).await, disk => disk.rename(from, to).await)
    }

    /// Gives a file a second name. An existing name is an error.
    pub async fn hard_link(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        dispatch!(self, real::hard_link(from, to).await, disk => disk.hard_link(from, to).await)
    }

    /// Removes a file's name; the content goes with the last name and the last open file.
    pub async fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_file(path).await, disk => disk.remove_file(path).await)
    }

    /// Creates a directory and those above it that are missing, and makes their names durable.
    pub async fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::create_dir_all(path).await, disk => disk.create_dir_all(path).await)
    }

    /// Removes a directory with all that is in it. Not atomic.
    pub async fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_dir_all(path).await, disk => disk.remove_dir_all(path).await)
    }

    /// Removes a directory in which nothing is; an error if something is.
    pub async fn remove_empty_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_empty_dir(path).await, disk => disk.remove_empty_dir(path).await)
    }

    /// Lists a directory, sorted by name.
    pub async fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirectoryEntry>> {
        let path = path.as_ref();
        dispatch!(self, real::read_dir(path).await, disk => disk.read_dir(path).await)
    }

    /// Makes the names in a directory durable: creations, renames, links and removals so far.
    pub async fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::sync_dir(path).await, disk => disk.sync_dir(path).await)
    }

    /// Length, kind and age.
    pub async fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        dispatch!(self, real::metadata(path).await, disk => disk.metadata(path).await)
    }

    /// Bytes that files below a directory may still grow by.
    pub async fn available_bytes(&self, directory: impl AsRef<Path>) -> Result<u64> {
        let path = directory.as_ref();
        dispatch!(self, real::available_bytes(path).await, disk => Ok(disk.available_bytes()))
    }

    /// Whether there is a file or directory of this name.
    pub async fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The whole content of a file. For small files (configuration, tables of contents): it is all in memory.
    pub async fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let file = self.open_read(path).await?;
        let mut content = Vec::new();
        loop {
            let part = file.read_at(content.len() as u64, 1 << 16).await?;
            if part.is_empty() {
                return Ok(content);
            }
            content.extend_from_slice(&part);
        }
    }

    /// Writes a small file so that a crash leaves either the old content or the new one under `path`:
    /// writes `path` with `.tmp` behind it, syncs, renames, syncs the directory.
    pub async fn write_atomically(
        &self,
        path: impl AsRef<Path>,
        content: impl Into<Vec<u8>>,
    ) -> Result<()> {
        let path = path.as_ref();
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let file = self.create(&temporary).await?;
        file.append(content.into()).await?;
        file.sync_all().await?;
        drop(file);
        self.rename(&temporary, path).await?;
        self.sync_dir(parent_of(path)).await
    }
}

/// The directory that holds `path`.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
