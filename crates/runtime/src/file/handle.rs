//! The handle of an open file, on either back end.

use super::page_buffer::{PageBuffer, PageBufferMut};
use super::real::RealFile;
use super::simulated::SimulatedFile;
use super::{IoBytes, Result, disk_share};
use std::path::Path;
use std::rc::Rc;

/// An open file of the calling shard. Clones are the same open file; dropping the last one closes
/// it.
///
/// Reads and writes may run at the same time, also several appends: each append takes its place at
/// the end of the file when it is first polled. After a failed append the file may have a hole or a
/// torn end; do not append to it further.
#[derive(Clone)]
pub struct File(Backend);

#[derive(Clone)]
enum Backend {
    Real(Rc<RealFile>),
    Simulated(Rc<SimulatedFile>),
}

macro_rules! dispatch {
    ($self:ident, $file:ident => $body:expr) => {
        match &$self.0 {
            Backend::Real($file) => $body,
            Backend::Simulated($file) => $body,
        }
    };
}

impl File {
    pub(super) fn real(file: RealFile) -> Self {
        File(Backend::Real(Rc::new(file)))
    }

    pub(super) fn simulated(file: SimulatedFile) -> Self {
        File(Backend::Simulated(Rc::new(file)))
    }

    /// Returns the path under which the file was opened (it may have been renamed since).
    pub fn path(&self) -> &Path {
        dispatch!(self, file => file.path())
    }

    /// Returns whether reads, and writes of whole pages, bypass the kernel's page cache. Returns
    /// `false` also if the file system refused that.
    pub fn is_direct(&self) -> bool {
        dispatch!(self, file => file.is_direct())
    }

    /// Reads up to `length` bytes at `offset`; fewer only if the file ends before.
    ///
    /// # Errors
    /// Fails if the disk or the file system does.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        disk_share::read(async {
            dispatch!(self, file => file.read_at(offset, length, None).await)
        })
        .await
    }

    /// Reads `length` bytes at `offset`. A `length` from an untrusted source is safe here: a large
    /// one is compared with the file's length before memory is allocated.
    ///
    /// # Errors
    /// Fails if the disk or the file system does, and if the file ends before
    /// ([`super::FileError::is_unexpected_end`]).
    pub async fn read_exact_at(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        self.read_exact_reusing(offset, length, None).await
    }

    /// Reads as [`File::read_exact_at`] does, into `spare` if that is large enough. It is for
    /// readers of many consecutive pieces: new memory costs more than a tenth of the read.
    ///
    /// # Errors
    /// As [`File::read_exact_at`].
    pub async fn read_exact_reusing(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        disk_share::read(async {
            dispatch!(self, file => file.read_exact_at(offset, length, spare).await)
        })
        .await
    }

    /// Writes all of `buffer` at `offset` and returns it.
    ///
    /// # Errors
    /// Fails if the disk is full or fails, or the file was opened to read; part may have been
    /// written.
    pub async fn write_at<B: IoBytes>(&self, offset: u64, buffer: B) -> Result<B> {
        dispatch!(self, file => file.write_at(offset, buffer).await)
    }

    /// Writes all of `buffer` after the end of the file; returns the offset at which it begins, and
    /// the buffer. Only this handle and its clones know the end: a file has one appender.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn append<B: IoBytes>(&self, buffer: B) -> Result<(u64, B)> {
        let length = buffer.io_bytes().len() as u64;
        let offset = dispatch!(self, file => file.reserve(length));
        let written = self.write_at(offset, buffer).await;
        self.give_back_if_failed(offset, length, &written);
        Ok((offset, written?))
    }

    /// Appends several buffers together (not atomically), as [`File::append`] appends one.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn append_vectored<B: IoBytes>(&self, buffers: Vec<B>) -> Result<(u64, Vec<B>)> {
        let length = buffers.iter().map(|buffer| buffer.io_bytes().len() as u64).sum();
        let offset = dispatch!(self, file => file.reserve(length));
        let written = dispatch!(self, file => file.write_vectored_at(offset, buffers).await);
        self.give_back_if_failed(offset, length, &written);
        Ok((offset, written?))
    }

    fn give_back_if_failed<T>(&self, offset: u64, length: u64, written: &Result<T>) {
        if written.is_err() && self.append_position() == offset.saturating_add(length) {
            dispatch!(self, file => file.give_back(offset));
        }
    }

    /// Returns the offset of the next append, in bytes.
    pub fn append_position(&self) -> u64 {
        dispatch!(self, file => file.append_position())
    }

    /// Makes the written bytes and the length durable (`fdatasync`).
    ///
    /// # Errors
    /// Fails if the disk does. All bytes written since the last success may then be lost, even if a
    /// later sync succeeds.
    pub async fn sync_data(&self) -> Result<()> {
        dispatch!(self, file => file.sync(true).await)
    }

    /// Makes the written bytes and all attributes durable (`fsync`).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub async fn sync_all(&self) -> Result<()> {
        dispatch!(self, file => file.sync(false).await)
    }

    /// Reserves space for the first `length` bytes, so that a write there neither changes the
    /// file's length nor runs out of space; a shorter file grows with zeroes. It does not move the
    /// append position. If the file system cannot reserve space, the file only grows.
    ///
    /// # Errors
    /// Fails if the disk is full, or the file was opened to read.
    pub async fn allocate(&self, length: u64) -> Result<()> {
        dispatch!(self, file => file.allocate(length).await)
    }

    /// Sets the length, cutting or adding zeroes; the append position becomes the new end.
    ///
    /// # Errors
    /// Fails if the disk is full, or the file was opened to read.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        dispatch!(self, file => file.truncate(length).await)
    }

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Fails if the file system does not report it.
    pub async fn length(&self) -> Result<u64> {
        dispatch!(self, file => file.length().await)
    }
}
