//! An open file.

use super::page_buffer::{PageBuffer, PageBufferMut};
use super::real::RealFile;
use super::simulated::SimulatedFile;
use super::{IoBytes, Result, waits};
use std::path::Path;
use std::rc::Rc;

/// An open file of the calling shard. Clones are the same open file; the last one closes it.
///
/// Reads and writes may be under way at the same time, also several appends: each takes its place at the end
/// of the file when it is first polled. After a failed append the file may have a hole
/// or a torn end; do not append to it further.
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

    /// The path it was opened under (it may have been renamed since).
    pub fn path(&self) -> &Path {
        dispatch!(self, file => file.path())
    }

    /// Whether reads, or writes of whole pages, bypass the kernel's page cache. `false` also where the file system refused that.
    pub fn is_direct(&self) -> bool {
        dispatch!(self, file => file.is_direct())
    }

    /// Reads up to `length` bytes at `offset`; fewer only where the file ends.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        waits::read(async { dispatch!(self, file => file.read_at(offset, length, None).await) })
            .await
    }

    /// Reads `length` bytes at `offset`; a file that ends before is an error
    /// ([`super::FileError::is_unexpected_end`]). A `length` from an untrusted source is safe here: it is
    /// compared with the file's length before memory is allocated.
    pub async fn read_exact_at(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        self.read_exact_reusing(offset, length, None).await
    }

    /// The same, into `spare` if that is large enough: for those who read much, a piece after the other. New memory costs more than a
    /// tenth of the read.
    pub async fn read_exact_reusing(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        waits::read(async {
            dispatch!(self, file => file.read_exact_at(offset, length, spare).await)
        })
        .await
    }

    /// Writes all of `buffer` at `offset` and gives it back.
    pub async fn write_at<B: IoBytes>(&self, offset: u64, buffer: B) -> Result<B> {
        dispatch!(self, file => file.write_at(offset, buffer).await)
    }

    /// Writes all of `buffer` behind the end of the file; gives the offset where it went, and the buffer.
    /// The end is known to this handle and its clones only: a file has one appender.
    pub async fn append<B: IoBytes>(&self, buffer: B) -> Result<(u64, B)> {
        let length = buffer.io_bytes().len() as u64;
        let offset = dispatch!(self, file => file.reserve(length));
        let written = self.write_at(offset, buffer).await;
        self.give_back_if_failed(offset, length, &written);
        Ok((offset, written?))
    }

    /// Like [`File::append`] for several buffers, written together (not atomically).
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

    /// Where the next append goes.
    pub fn append_position(&self) -> u64 {
        dispatch!(self, file => file.append_position())
    }

    /// Makes the written bytes and the length durable (`fdatasync`). If it fails, whatever was written since
    /// the last success may be lost, even if a later sync succeeds.
    pub async fn sync_data(&self) -> Result<()> {
        dispatch!(self, file => file.sync(true).await)
    }

    /// Makes the written bytes and all attributes durable (`fsync`).
    pub async fn sync_all(&self) -> Result<()> {
        dispatch!(self, file => file.sync(false).await)
    }

    /// Reserves space for the first `length` bytes, so that writing there does not change the file's length
    /// nor run out of space; a shorter file grows with zeroes. Does not move the append position. Where the
    /// file system cannot reserve, the file only grows.
    pub async fn allocate(&self, length: u64) -> Result<()> {
        dispatch!(self, file => file.allocate(length).await)
    }

    /// Sets the length, cutting or adding zeroes; the append position becomes the new end.
    pub async fn truncate(&self, length: u64) -> Result<()> {
        dispatch!(self, file => file.truncate(length).await)
    }

    /// The length in bytes.
    pub async fn length(&self) -> Result<u64> {
        dispatch!(self, file => file.length().await)
    }
}
