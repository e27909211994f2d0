//! The machine's file system.
//!
//! Data moves through the completion queue. Listing and removing directories, reserving space, and
//! queries of attributes and free space by name run on helper threads.

use super::error::{FileError, Operation};
use super::io_bytes::{Filling, IoBytes, Sending, SendingVectored};
use super::page_buffer::{PageBuffer, PageBufferMut};
use super::release::{LARGE_BYTES, release, waiting_bytes};
use super::system::parent_of;
use super::{DirectoryEntry, File, Metadata, PAGE_BYTES, Result};
use crate::task::spawn_blocking;
use compio::BufResult;
use compio::buf::IoBuf as _;
use compio::io::{AsyncReadAt, AsyncWriteAt};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// From this length on, in bytes, an exact read checks the file's length before it allocates.
const LARGE_READ: usize = 1 << 20;

pub(super) struct RealFile {
    path: PathBuf,
    file: compio::fs::File,
    /// Dropped after `file`.
    release: Release,
    direct: Cell<bool>,
    end: Cell<u64>,
}

/// A second descriptor of a removed file, and the file's length, which the drop sends to the
/// releaser.
///
/// The task closes its own descriptor before the drop. Otherwise the releaser could close the
/// second descriptor first. The last close frees the file's blocks, which takes half a millisecond
/// even for a small file, and the task must not wait for that.
#[derive(Default)]
struct Release(Option<(OwnedFd, u64)>);

impl Drop for Release {
    fn drop(&mut self) {
        if let Some((descriptor, length)) = self.0.take() {
            release(descriptor, length);
        }
    }
}

fn fail(path: &Path, operation: Operation) -> impl FnOnce(io::Error) -> FileError {
    move |source| FileError::new(path, operation, source)
}

impl RealFile {
    fn new(path: &Path, file: compio::fs::File, direct: bool) -> Self {
        let (path, release) = (path.to_owned(), Release::default());
        RealFile { path, file, release, direct: Cell::new(direct), end: Cell::new(0) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct.get()
    }

    pub(super) fn append_position(&self) -> u64 {
        self.end.get()
    }

    pub(super) fn reserve(&self, length: u64) -> u64 {
        let offset = self.end.get();
        self.end.set(offset.saturating_add(length));
        offset
    }

    pub(super) fn give_back(&self, offset: u64) {
        self.end.set(offset);
    }

    /// Reads into the memory of `spare` if that is large enough.
    pub(super) async fn read_at(
        &self,
        offset: u64,
        length: usize,
        mut spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        let failed = |source| FileError::at(&self.path, Operation::Read, offset, length, source);
        if self.direct.get() {
            match self.read_direct(offset, length, spare.take()).await {
                // The file system accepted O_DIRECT when the file was opened, and refuses it at
                // this read.
                Err(error) if is_refused(&error) => {
                    self.stop_direct().map_err(failed)?;
                }
                result => return result.map_err(failed),
            }
        }
        let buffer = PageBufferMut::reusing(spare, length);
        let buffer = self.fill(buffer, offset, length, 1).await.map_err(failed)?;
        Ok(buffer.freeze())
    }

    async fn read_direct(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> io::Result<PageBuffer> {
        let page = PAGE_BYTES as u64;
        let before = (offset % page) as usize;
        let too_far = || io::Error::from(Errno::OVERFLOW);
        let wanted = before.checked_add(length).ok_or_else(too_far)?;
        let whole = wanted.checked_next_multiple_of(PAGE_BYTES).ok_or_else(too_far)?;
        let buffer = PageBufferMut::reusing(spare, whole);
        let buffer = self.fill(buffer, offset - before as u64, whole, PAGE_BYTES).await?.freeze();
        let end = wanted.min(buffer.len());
        Ok(buffer.slice(before.min(end)..end))
    }

    /// Reads until `length` bytes or the end of the file; a read that returns no multiple of `unit`
    /// has reached the end.
    async fn fill(
        &self,
        mut buffer: PageBufferMut,
        offset: u64,
        length: usize,
        unit: usize,
    ) -> io::Result<PageBufferMut> {
        while buffer.len() < length {
            let base = buffer.len();
            let filling = Filling { buffer, base, limit: length - base };
            let BufResult(result, filling) =
                self.file.read_at(filling, offset.saturating_add(base as u64)).await;
            buffer = filling.buffer;
            match result {
                Ok(0) => break,
                Ok(count) if count % unit != 0 => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer)
    }

    fn stop_direct(&self) -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
        self.direct.set(false);
        Ok(())
    }

    /// Sets O_DIRECT. If the file system refuses, the file stays as it is.
    fn start_direct(&self) -> io::Result<()> {
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        match rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT) {
            Ok(()) => self.direct.set(true),
            Err(Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) async fn read_exact_at(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        let too_short = || {
            let source = io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file ends before the last byte requested",
            );
            FileError::at(&self.path, Operation::Read, offset, length, source)
        };
        if length >= LARGE_READ {
            let end = offset.checked_add(length as u64).ok_or_else(too_short)?;
            if self.length().await? < end {
                return Err(too_short());
            }
        }
        let buffer = self.read_at(offset, length, spare).await?;
        if buffer.len() == length { Ok(buffer) } else { Err(too_short()) }
    }

    pub(super) async fn write_at<B: IoBytes>(&self, offset: u64, buffer: B) -> Result<B> {
        let length = buffer.io_bytes().len();
        let failed = |source| FileError::at(&self.path, Operation::Write, offset, length, source);
        let mut sending = Sending { buffer, from: 0 };
        while sending.from < length {
            let at = offset.saturating_add(sending.from as u64);
            if self.direct.get() && !is_whole_pages(at, sending.as_init()) {
                self.stop_direct().map_err(failed)?;
            }
            let BufResult(result, back) = (&self.file).write_at(sending, at).await;
            sending = back;
            match result {
                // The file system refuses O_DIRECT at this write.
                Err(error) if self.direct.get() && is_refused(&error) => {
                    self.stop_direct().map_err(failed)?;
                }
                result => sending.from += written(result).map_err(failed)?,
            }
        }
        Ok(sending.buffer)
    }

    pub(super) async fn write_vectored_at<B: IoBytes>(
        &self,
        offset: u64,
        buffers: Vec<B>,
    ) -> Result<Vec<B>> {
        let length = buffers.iter().map(|buffer| buffer.io_bytes().len()).sum();
        let failed = |source| FileError::at(&self.path, Operation::Write, offset, length, source);
        if self.direct.get() {
            self.stop_direct().map_err(failed)?;
        }
        let mut sending = SendingVectored::new(buffers);
        let mut at = offset;
        let mut done = sending.advance(0);
        while !done {
            let BufResult(result, back) = (&self.file).write_vectored_at(sending, at).await;
            sending = back;
            let count = written(result).map_err(failed)?;
            at = at.saturating_add(count as u64);
            done = sending.advance(count);
        }
        Ok(sending.buffers)
    }

    pub(super) async fn sync(&self, data_only: bool) -> Result<()> {
        let synced =
            if data_only { self.file.sync_data().await } else { self.file.sync_all().await };
        synced.map_err(fail(&self.path, Operation::Sync))
    }

    pub(super) async fn allocate(&self, length: u64) -> Result<()> {
        let failed = |why| FileError::at(&self.path, Operation::Allocate, 0, length as usize, why);
        // Duplicates the descriptor, because the work goes on if this future is dropped.
        let descriptor = self.file.as_fd().try_clone_to_owned().map_err(failed)?;
        let reserved = spawn_blocking(move || {
            rustix::fs::fallocate(&descriptor, FallocateFlags::empty(), 0, length)
        })
        .await;
        match reserved {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                if self.length().await? < length {
                    self.file.set_len(length).await.map_err(failed)?;
                }
                Ok(())
            }
            other => other.map_err(|errno| failed(errno.into())),
        }
    }

    pub(super) async fn truncate(&self, length: u64) -> Result<()> {
        let set = self.file.set_len(length).await;
        set.map_err(fail(&self.path, Operation::Truncate))?;
        self.end.set(length);
        Ok(())
    }

    pub(super) async fn length(&self) -> Result<u64> {
        let metadata = self.file.metadata().await;
        Ok(metadata.map_err(fail(&self.path, Operation::Metadata))?.len())
    }

    async fn appending_at_end(self) -> Result<Self> {
        self.end.set(self.length().await?);
        Ok(self)
    }
}

impl Drop for RealFile {
    /// Leaves a removed file to the releaser, so that the task that closes it last need not wait
    /// until its blocks are free.
    fn drop(&mut self) {
        let Ok(status) = rustix::fs::fstat(&self.file) else { return };
        let length = u64::try_from(status.st_size).unwrap_or(0);
        if status.st_nlink > 0 {
            return;
        }
        let descriptor = self.file.as_fd().try_clone_to_owned();
        self.release.0 = descriptor.ok().map(|descriptor| (descriptor, length));
    }
}

/// Returns whether memory, offset and length are aligned as direct I/O demands.
fn is_whole_pages(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(PAGE_BYTES as u64)
        && bytes.len().is_multiple_of(PAGE_BYTES)
        && bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES)
}

fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(0) => Err(io::Error::new(io::ErrorKind::WriteZero, "the kernel wrote no bytes")),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

pub(super) async fn open_read(path: &Path, direct: bool) -> Result<File> {
    // Opening a pipe waits for a writer, and devices have no end.
    let found = compio::fs::metadata(path).await.map_err(fail(path, Operation::Open))?;
    if !found.is_file() && !found.is_dir() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(FileError::new(path, Operation::Open, source));
    }
    let mut options = compio::fs::OpenOptions::new();
    options.read(true);
    if direct {
        let mut direct_options = options.clone();
        direct_options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        match direct_options.open(path).await {
            Ok(file) => return Ok(File::real(RealFile::new(path, file, true))),
            Err(error) if is_refused(&error) => {}
            Err(error) => return Err(FileError::new(path, Operation::Open, error)),
        }
    }
    let file = options.open(path).await.map_err(fail(path, Operation::Open))?;
    Ok(File::real(RealFile::new(path, file, false)))
}

pub(super) async fn open_write(path: &Path) -> Result<File> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true).write(true);
    let file = options.open(path).await.map_err(fail(path, Operation::Open))?;
    Ok(File::real(RealFile::new(path, file, false).appending_at_end().await?))
}

pub(super) async fn create(path: &Path, new: bool) -> Result<File> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true).write(true);
    if new {
        options.create_new(true)
    } else {
        options.create(true).truncate(true)
    };
    let file = options.open(path).await.map_err(fail(path, Operation::Create))?;
    Ok(File::real(RealFile::new(path, file, false)))
}

/// Sets O_DIRECT after the file exists, because an open with O_DIRECT may create the file and then
/// fail.
pub(super) async fn create_new_direct(path: &Path) -> Result<File> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let failed = |why| FileError::new(path, Operation::Create, why);
    let file = RealFile::new(path, options.open(path).await.map_err(failed)?, false);
    file.start_direct().map_err(failed)?;
    Ok(File::real(file))
}

pub(super) async fn create_append(path: &Path) -> Result<File> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true).write(true).create(true);
    let file = options.open(path).await.map_err(fail(path, Operation::Create))?;
    Ok(File::real(RealFile::new(path, file, false).appending_at_end().await?))
}

pub(super) async fn rename(from: &Path, to: &Path) -> Result<()> {
    let renamed = compio::fs::rename(from, to).await;
    renamed.map_err(|why| FileError::new(from, Operation::Rename, why).towards(to))
}

pub(super) async fn hard_link(from: &Path, to: &Path) -> Result<()> {
    let linked = compio::fs::hard_link(from, to).await;
    linked.map_err(|why| FileError::new(from, Operation::HardLink, why).towards(to))
}

pub(super) async fn remove_file(path: &Path) -> Result<()> {
    // If a large file is open nowhere else, this handle is the last one, and its drop leaves the
    // file to the releaser.
    let held = match metadata(path).await {
        Ok(found) if !found.is_directory && found.length >= LARGE_BYTES => {
            open_read(path, false).await.ok()
        }
        _ => None,
    };
    let removed = compio::fs::remove_file(path).await.map_err(fail(path, Operation::Remove));
    drop(held);
    removed
}

pub(super) async fn create_dir_all(path: &Path) -> Result<()> {
    // From the top down, so that each directory's name is durable before anything is put into it.
    let mut missing = Vec::new();
    for ancestor in path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
        match metadata(ancestor).await {
            Ok(found) if found.is_directory => break,
            Ok(_) => {
                let source = Errno::NOTDIR.into();
                return Err(FileError::new(ancestor, Operation::CreateDirectory, source));
            }
            Err(error) if error.is_not_found() => missing.push(ancestor),
            Err(error) => return Err(error),
        }
    }
    for directory in missing.into_iter().rev() {
        match compio::fs::create_dir(directory).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(FileError::new(directory, Operation::CreateDirectory, error)),
        }
        sync_dir(parent_of(directory)).await?;
    }
    Ok(())
}

pub(super) async fn remove_dir_all(path: &Path) -> Result<()> {
    let owned = path.to_owned();
    let removed = spawn_blocking(move || {
        // If this fails, the removal below fails too, or the error does not matter. If `path` is a
        // link, the directory to which it leads keeps its files.
        if std::fs::symlink_metadata(&owned).is_ok_and(|found| found.is_dir()) {
            let _ = remove_large_files(&owned);
        }
        std::fs::remove_dir_all(owned)
    });
    removed.await.map_err(fail(path, Operation::RemoveDirectory))
}

/// Removes those files of a directory whose blocks must not be freed all at once.
fn remove_large_files(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            remove_large_files(&entry.path())?;
        } else if found.is_file() && found.nlink() == 1 && found.len() >= LARGE_BYTES {
            let file = std::fs::File::open(entry.path())?;
            std::fs::remove_file(entry.path())?;
            release(file.into(), found.len());
        }
    }
    Ok(())
}

pub(super) async fn remove_empty_dir(path: &Path) -> Result<()> {
    let owned = path.to_owned();
    let removed = spawn_blocking(move || std::fs::remove_dir(owned)).await;
    removed.map_err(fail(path, Operation::RemoveDirectory))
}

pub(super) async fn read_dir(
    path: &Path,
    mut keep: impl FnMut(&str) -> bool + Send + 'static,
) -> Result<Vec<DirectoryEntry>> {
    let owned = path.to_owned();
    let listed = spawn_blocking(move || {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&owned)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !keep(&name) {
                continue;
            }
            let (kind, path) = (entry.file_type()?, entry.path());
            let is_link = kind.is_symlink();
            // A link without a target is no directory.
            let leads_to_one = || std::fs::metadata(&path).is_ok_and(|found| found.is_dir());
            entries.push(DirectoryEntry {
                name,
                is_directory: kind.is_dir() || is_link && leads_to_one(),
                is_link,
                path,
            });
        }
        entries.sort();
        Ok(entries)
    })
    .await;
    listed.map_err(fail(path, Operation::ReadDirectory))
}

pub(super) async fn first_existing(directory: &Path, names: Vec<String>) -> Result<Option<String>> {
    let owned = directory.to_owned();
    let looked = spawn_blocking(move || {
        for name in names {
            match std::fs::symlink_metadata(owned.join(&name)) {
                Ok(_) => return Ok(Some(name)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    });
    looked.await.map_err(fail(directory, Operation::Metadata))
}

pub(super) async fn sync_dir(path: &Path) -> Result<()> {
    let mut options = compio::fs::OpenOptions::new();
    options.read(true);
    let failed = |why| FileError::new(path, Operation::SyncDirectory, why);
    let directory = options.open(path).await.map_err(failed)?;
    directory.sync_all().await.map_err(|why| FileError::new(path, Operation::SyncDirectory, why))
}

pub(super) async fn metadata(path: &Path) -> Result<Metadata> {
    use std::os::unix::fs::MetadataExt as _;
    let owned = path.to_owned();
    let found = spawn_blocking(move || std::fs::metadata(owned)).await;
    let found = found.map_err(fail(path, Operation::Metadata))?;
    Ok(Metadata {
        length: found.len(),
        is_directory: found.is_dir(),
        modified_ms: found.mtime().saturating_mul(1000) + found.mtime_nsec() / 1_000_000,
        links: found.nlink(),
        device: found.dev(),
        inode: found.ino(),
    })
}

pub(super) async fn available_bytes(path: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let owned = path.to_owned();
    let look = move || {
        let device = std::fs::metadata(&owned)?.dev();
        Ok((rustix::fs::statvfs(&owned).map_err(io::Error::from)?, device))
    };
    let found = spawn_blocking(look).await;
    let (found, device) = found.map_err(fail(path, Operation::Metadata))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize).saturating_add(waiting_bytes(device)))
}

pub(super) async fn used_percentage(path: &Path) -> Result<u8> {
    let owned = path.to_owned();
    let look = move || rustix::fs::statvfs(&owned).map_err(io::Error::from);
    let found = spawn_blocking(look).await.map_err(fail(path, Operation::Metadata))?;
    let used = found.f_blocks.saturating_sub(found.f_bfree);
    Ok(percentage(used, used.saturating_add(found.f_bavail)))
}

/// Returns a part of a whole in percent, rounded up.
pub(super) fn percentage(part: u64, whole: u64) -> u8 {
    let percent = (u128::from(part) * 100).div_ceil(u128::from(whole.max(1)));
    u8::try_from(percent.min(100)).unwrap_or(100)
}
