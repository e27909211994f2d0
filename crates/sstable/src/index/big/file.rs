//! Where the bytes of an index come from.

use std::future::{Future, ready};

use bytes::{Bytes, BytesMut};
use espalier_runtime::file::PAGE_BYTES;

use crate::{
    error::{FileName, Result, SSTableError},
    page_cache::CachedFile,
};

/// A file that is read by pages, for look-ups, or in large pieces, from front to back.
///
/// Static dispatch, as in [`PageSource`](espalier_trie::page::PageSource): where a page is at hand, a look-up costs no more
/// than with a plain function.
pub trait IndexFile {
    /// The file, for errors.
    fn name(&self) -> &FileName;

    /// Its length in bytes.
    fn length(&self) -> u64;

    /// The page of 4 KiB with this number; shorter at the end of the file, empty behind it.
    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>>;

    /// A piece that is not to be kept in a cache. It must be inside of the file.
    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>>;
}

impl<F: IndexFile> IndexFile for &F {
    fn name(&self) -> &FileName {
        F::name(self)
    }

    fn length(&self) -> u64 {
        F::length(self)
    }

    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>> {
        F::page(self, number)
    }

    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>> {
        F::piece(self, offset, length)
    }
}

impl IndexFile for CachedFile {
    fn name(&self) -> &FileName {
        CachedFile::name(self)
    }

    fn length(&self) -> u64 {
        CachedFile::length(self)
    }

    async fn page(&self, number: u64) -> Result<Bytes> {
        CachedFile::page(self, number).await
    }

    async fn piece(&self, offset: u64, length: usize) -> Result<Bytes> {
        // Pages are compared with their checksums on the way into the cache only.
        match self.has_checksums() {
            true => read_span(self, offset, length).await,
            false => Ok(self.read_exact(offset, length).await?.into_bytes()),
        }
    }
}

/// A whole file in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile {
    name: FileName,
    bytes: Bytes,
}

impl MemoryFile {
    /// A file of these bytes.
    pub fn new(name: FileName, bytes: Bytes) -> Self {
        Self { name, bytes }
    }
}

impl IndexFile for MemoryFile {
    fn name(&self) -> &FileName {
        &self.name
    }

    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn page(&self, number: u64) -> impl Future<Output = Result<Bytes>> {
        let start = usize::try_from(number).ok().and_then(|page| page.checked_mul(PAGE_BYTES));
        let start = start.unwrap_or(usize::MAX).min(self.bytes.len());
        let end = start.saturating_add(PAGE_BYTES).min(self.bytes.len());
        ready(Ok(self.bytes.slice(start..end)))
    }

    fn piece(&self, offset: u64, length: usize) -> impl Future<Output = Result<Bytes>> {
        ready(check_inside(self, offset, length).map(|()| {
            let start = offset as usize;
            self.bytes.slice(start..start + length)
        }))
    }
}

fn check_inside<F: IndexFile>(file: &F, offset: u64, length: usize) -> Result<()> {
    match offset.checked_add(length as u64) {
        Some(end) if end <= file.length() => Ok(()),
        _ => {
            let reason = format!("{length} bytes are wanted, the file has {}", file.length());
            Err(SSTableError::corrupt(file.name(), offset, reason))
        }
    }
}

/// The `length` bytes at `offset` by way of pages: a slice of one, or put together from several. Nothing is allocated
/// before it is known that the file has that much.
pub(super) async fn read_span<F: IndexFile>(file: &F, offset: u64, length: usize) -> Result<Bytes> {
    check_inside(file, offset, length)?;
    let page_bytes = PAGE_BYTES as u64;
    let (first, within) = (offset / page_bytes, (offset % page_bytes) as usize);
    let page = file.page(first).await?;
    if let Some(end) = within.checked_add(length).filter(|end| *end <= page.len()) {
        return Ok(page.slice(within..end));
    }
    let mut bytes = BytesMut::with_capacity(length);
    bytes.extend_from_slice(page.get(within..).unwrap_or_default());
    for number in first + 1.. {
        let missing = length.saturating_sub(bytes.len());
        if missing == 0 {
            break;
        }
        let page = file.page(number).await?;
        if page.is_empty() {
            return Err(SSTableError::corrupt(file.name(), offset, "the file became shorter"));
        }
        bytes.extend_from_slice(page.get(..missing).unwrap_or(&page));
        espalier_runtime::maybe_yield().await;
    }
    Ok(bytes.freeze())
}
