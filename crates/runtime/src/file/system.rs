//! A file system: opening, creating, renaming, removing and listing names.

use super::real;
use super::simulated::SimulatedDisk;
use super::{File, Result};
use std::path::{Path, PathBuf};

/// A file system: the machine's, or a simulated one. A clone is cheap and may go to another shard.
/// An open file stays on the shard that opened it.
#[derive(Clone, Debug)]
pub struct FileSystem(Backend);

#[derive(Clone, Debug)]
enum Backend {
    Real,
    Simulated(SimulatedDisk),
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The name; bytes that are not UTF-8 show as U+FFFD.
    pub name: String,
    /// The directory's path with the exact name.
    pub path: PathBuf,
    /// True if the entry is a directory, or a symbolic link to one.
    pub is_directory: bool,
    /// True if the entry is a symbolic link.
    pub is_link: bool,
}

/// The attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes.
    pub length: u64,
    /// True if it is a directory.
    pub is_directory: bool,
    /// The time of the last change of the content, in milliseconds since 1970.
    pub modified_ms: i64,
    /// The number of names of the file.
    pub links: u64,
    /// The id of the disk that holds the file. A hard link cannot cross disks.
    pub device: u64,
    /// The number of the file on its disk: all names of a file have the same one.
    pub inode: u64,
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
    /// Returns the machine's file system.
    pub fn real() -> Self {
        FileSystem(Backend::Real)
    }

    /// Returns an empty simulated disk; every random choice follows from `seed`.
    pub fn simulated(seed: u64) -> Self {
        FileSystem(Backend::Simulated(SimulatedDisk::new(seed)))
    }

    /// Returns the file system on a simulated disk.
    pub fn on(disk: SimulatedDisk) -> Self {
        FileSystem(Backend::Simulated(disk))
    }

    /// Returns the simulated disk, for crashes and faults; `None` for the machine's file system.
    pub fn simulated_disk(&self) -> Option<&SimulatedDisk> {
        dispatch!(self, None, disk => Some(disk))
    }

    /// Opens a file to read through the kernel's page cache.
    ///
    /// # Errors
    /// Fails if there is no such file or it cannot be opened.
    pub async fn open_read(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_read(path, false).await, disk => disk.open_read(path, false).await)
    }

    /// Opens a file to read around the kernel's page cache (O_DIRECT). If the file system refuses
    /// O_DIRECT, reads go through the cache.
    ///
    /// # Errors
    /// As [`FileSystem::open_read`].
    pub async fn open_read_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_read(path, true).await, disk => disk.open_read(path, true).await)
    }

    /// Opens an existing file to read and write; appends go to its end.
    ///
    /// # Errors
    /// As [`FileSystem::open_read`].
    pub async fn open_write(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::open_write(path).await, disk => disk.open_write(path).await)
    }

    /// Creates a file to read and write; an existing one is emptied.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub async fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create(path, false).await, disk => disk.create(path, false).await)
    }

    /// Creates a file to read and write.
    ///
    /// # Errors
    /// Fails if the file exists (`AlreadyExists`) or cannot be created.
    pub async fn create_new(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create(path, true).await, disk => disk.create(path, true).await)
    }

    /// Creates a file as [`FileSystem::create_new`] does. Writes bypass the kernel's page cache
    /// (O_DIRECT) as long as each write has one buffer of whole pages, in page-aligned memory
    /// ([`super::PageBufferMut`]) and at a page-aligned offset. From the first other write on, or
    /// if the file system refuses O_DIRECT, writes go through the cache.
    ///
    /// # Errors
    /// As [`FileSystem::create_new`].
    pub async fn create_new_direct(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create_new_direct(path).await, disk => disk.create(path, true).await)
    }

    /// Opens a file to append to, and creates it if there is none.
    ///
    /// # Errors
    /// Fails if the file can be neither opened nor created.
    pub async fn create_append(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        dispatch!(self, real::create_append(path).await, disk => disk.create_append(path).await)
    }

    /// Renames a file or directory, replacing a file at `to`. The rename is atomic, and durable
    /// after [`Self::sync_dir`] of both directories.
    ///
    /// # Errors
    /// Fails if `from` does not exist, or the file system refuses the rename.
    pub async fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        dispatch!(self, real::rename(from, to).await, disk => disk.rename(from, to).await)
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// Fails if `to` exists, if `from` does not exist or is a directory, or if they are on
    /// different disks.
    pub async fn hard_link(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        dispatch!(self, real::hard_link(from, to).await, disk => disk.hard_link(from, to).await)
    }

    /// Removes a file's name; the file system frees the content once no name and no open file is
    /// left.
    ///
    /// # Errors
    /// Fails if there is no such file or it cannot be removed.
    pub async fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_file(path).await, disk => disk.remove_file(path).await)
    }

    /// Creates a directory and its missing parents, and makes their names durable.
    ///
    /// # Errors
    /// Fails if `path` or a parent is no directory, or a directory cannot be queried, created or
    /// synced.
    pub async fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::create_dir_all(path).await, disk => disk.create_dir_all(path).await)
    }

    /// Removes a directory with its content. Not atomic.
    ///
    /// # Errors
    /// Fails if anything of it cannot be removed.
    pub async fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_dir_all(path).await, disk => disk.remove_dir_all(path).await)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Fails if the directory is not empty or cannot be removed.
    pub async fn remove_empty_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::remove_empty_dir(path).await, disk => disk.remove_empty_dir(path).await)
    }

    /// Lists a directory, sorted by name.
    ///
    /// # Errors
    /// Fails if there is no such directory or it cannot be read.
    pub async fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirectoryEntry>> {
        self.read_dir_where(path, |_| true).await
    }

    /// Lists the entries of a directory whose names `keep` accepts, sorted by name. `keep` runs on
    /// a helper thread, so that the other entries cost the shard nothing.
    ///
    /// # Errors
    /// As [`Self::read_dir`].
    pub async fn read_dir_where(
        &self,
        path: impl AsRef<Path>,
        keep: impl FnMut(&str) -> bool + Send + 'static,
    ) -> Result<Vec<DirectoryEntry>> {
        let path = path.as_ref();
        dispatch!(self, real::read_dir(path, keep).await, disk => disk.read_dir(path, keep).await)
    }

    /// Returns the first of some names that a directory has; `None` if it has none of them, or if
    /// there is no such directory. One call of a helper thread looks for all names, and does not
    /// list the directory.
    ///
    /// # Errors
    /// Fails if a name cannot be queried.
    pub async fn first_existing(
        &self,
        directory: impl AsRef<Path>,
        names: Vec<String>,
    ) -> Result<Option<String>> {
        let path = directory.as_ref();
        dispatch!(
            self,
            real::first_existing(path, names).await,
            disk => disk.first_existing(path, names).await
        )
    }

    /// Makes the names in a directory durable: creations, renames, links and removals so far.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened, or the disk fails.
    pub async fn sync_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        dispatch!(self, real::sync_dir(path).await, disk => disk.sync_dir(path).await)
    }

    /// Returns the attributes of a file or directory.
    ///
    /// # Errors
    /// Fails if there is no file or directory of this name, or it cannot be queried.
    pub async fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        dispatch!(self, real::metadata(path).await, disk => disk.metadata(path).await)
    }

    /// Returns the number of bytes by which the files below a directory can still grow.
    ///
    /// # Errors
    /// Fails if the directory does not exist.
    pub async fn available_bytes(&self, directory: impl AsRef<Path>) -> Result<u64> {
        let path = directory.as_ref();
        dispatch!(self, real::available_bytes(path).await, disk => Ok(disk.available_bytes()))
    }

    /// Returns the used percentage of the disk that holds a directory, rounded up.
    ///
    /// # Errors
    /// Fails if the directory does not exist.
    pub async fn used_percentage(&self, directory: impl AsRef<Path>) -> Result<u8> {
        let path = directory.as_ref();
        dispatch!(self, real::used_percentage(path).await, disk => Ok(disk.used_percentage()))
    }

    /// Returns whether there is a file or directory of this name.
    ///
    /// # Errors
    /// Fails if the name cannot be queried.
    pub async fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the whole content of a file. For small files (configuration, tables of contents):
    /// all of it is held in memory.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or read.
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

    /// Writes a small file so that a crash leaves either the old content or the new one under
    /// `path`: writes to `path` with the suffix `.tmp`, syncs, renames, syncs the directory.
    ///
    /// # Errors
    /// Fails if any of these steps does; `path` then has the old content, or the new one if only
    /// the last sync failed.
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

/// Returns the directory that holds `path`.
pub(super) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
