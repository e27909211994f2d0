//! A file that is read by pages of 4 KiB, through the page cache or bypassing it.

use std::{cell::RefCell, collections::VecDeque, path::Path, rc::Rc};

use bytes::Bytes;
use espalier_runtime::{
    file::{File, FileSystem, PAGE_BYTES, PageBuffer, PageBufferMut},
    time::Instant,
    trace, trace_event,
};
use espalier_trie::page::PageSource;

use super::{CachedPage, PageCache, PageKey, Part};
use crate::{
    checksums::FileChecksums,
    error::{FileName, Result, SSTableError},
};

/// Number of pages that are read and checked at once.
const PAGES_AT_ONCE: usize = 64;

/// Number of pages that a private reader holds for itself: the path from a root to a leaf, and a
/// few more.
const PRIVATE_PAGES: usize = 8;

/// The use of the page cache by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// The reader caches the pages that it reads, for all readers.
    Shared,
    /// The reader leaves the cache as it is, and holds the last few pages itself.
    Private,
}

/// An open file, its name for errors, and the cache. Clones share all of it, including the pages
/// that a private reader holds.
#[derive(Clone)]
pub(crate) struct CachedFile {
    inner: Rc<Inner>,
    own_pages: Option<Rc<RefCell<VecDeque<(u64, Bytes)>>>>,
}

struct Inner {
    file: File,
    name: FileName,
    length: u64,
    number: u64,
    /// The file number for objects that are made of parts of the file.
    made_number: u64,
    cache: PageCache,
    checksums: Option<FileChecksums>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cache.close_file(self.number);
        self.cache.close_file(self.made_number);
    }
}

impl CachedFile {
    /// Opens a file for direct reads. Its pages are compared with the checksums, if there are any.
    pub(crate) async fn open(
        file_system: &FileSystem,
        path: &Path,
        part: Part,
        cache: &PageCache,
        checksums: Option<FileChecksums>,
    ) -> Result<Self> {
        let file = file_system.open_read_direct(path).await?;
        let length = file.length().await?;
        let name = FileName::new(path);
        if let Some(checksums) = &checksums {
            checksums.check_length(&name, length)?;
        }
        let (number, made_number) = (cache.new_file_number(part), cache.new_file_number(part));
        let cache = cache.clone();
        let inner = Rc::new(Inner { file, name, length, number, made_number, cache, checksums });
        Ok(Self { inner, own_pages: None })
    }

    /// Returns this file for a reader that uses the page cache in the given way. A private reader
    /// has pages of its own.
    pub(crate) fn with_caching(&self, caching: Caching) -> Self {
        let own_pages = match caching {
            Caching::Shared => None,
            Caching::Private => Some(Rc::default()),
        };
        Self { inner: self.inner.clone(), own_pages }
    }

    /// Returns this file for one read. The read is private if `caching` or this file's own caching
    /// is [`Caching::Private`].
    pub(crate) fn for_one_read(&self, caching: Caching) -> Self {
        match (caching, self.caching()) {
            (Caching::Shared, Caching::Shared) => self.clone(),
            _ => self.with_caching(Caching::Private),
        }
    }

    pub(crate) fn caching(&self) -> Caching {
        match self.own_pages {
            None => Caching::Shared,
            Some(_) => Caching::Private,
        }
    }

    pub(crate) fn name(&self) -> &FileName {
        &self.inner.name
    }

    pub(crate) fn length(&self) -> u64 {
        self.inner.length
    }

    /// Returns whether its pages have checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.inner.checksums.is_some()
    }

    pub(crate) fn cache(&self) -> &PageCache {
        &self.inner.cache
    }

    /// Returns the key of page or chunk `page` of this file.
    #[inline]
    pub(crate) fn key(&self, page: u64) -> PageKey {
        PageKey { file: self.inner.number, page }
    }

    /// Returns the key of an object that is made of a part of this file.
    #[inline]
    pub(crate) fn made_key(&self, number: u64) -> PageKey {
        PageKey { file: self.inner.made_number, page: number }
    }

    /// Reads bytes and bypasses the cache. The range must be inside the file.
    pub(crate) async fn read_exact(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        self.read_exact_reusing(offset, length, None).await
    }

    /// Reads bytes as [`Self::read_exact`] does, into `spare` if that is large enough.
    pub(crate) async fn read_exact_reusing(
        &self,
        offset: u64,
        length: usize,
        spare: Option<PageBufferMut>,
    ) -> Result<PageBuffer> {
        let inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.inner.length);
        if !inside {
            let reason = format!("{length} bytes are wanted, the file has {}", self.inner.length);
            return Err(SSTableError::corrupt(&self.inner.name, offset, reason));
        }
        let buffer = self.inner.file.read_exact_reusing(offset, length, spare).await?;
        self.inner.cache.count_read(self.key(0).part(), buffer.memory_bytes());
        Ok(buffer)
    }

    /// Reads bytes, bypasses the cache, and compares the pages of these bytes with the checksums,
    /// if there are any.
    pub(crate) async fn read_checked(&self, offset: u64, length: usize) -> Result<Bytes> {
        let Some(checksums) = &self.inner.checksums else {
            return Ok(self.read_exact(offset, length).await?.into_bytes());
        };
        let page_bytes = PAGE_BYTES as u64;
        let (first, within) = (offset / page_bytes, (offset % page_bytes) as usize);
        let end = offset.saturating_add(length as u64);
        let page_end = match end.checked_next_multiple_of(page_bytes) {
            // The range lies inside the file; only the file's last page may be short.
            Some(page_end) if end <= self.inner.length => page_end.min(self.inner.length),
            _ => end,
        };
        let start = first * page_bytes;
        let buffer = self.read_exact(start, (page_end - start) as usize).await?;
        checksums.check_pages(&self.inner.name, first, &buffer)?;
        Ok(buffer.slice(within..within + length).into_bytes())
    }

    /// Compares all pages with their checksums and bypasses the cache, for a file that is checked
    /// whole when it is opened.
    pub(crate) async fn check_all_pages(&self) -> Result<()> {
        let Some(checksums) = &self.inner.checksums else { return Ok(()) };
        for first in (0..checksums.pages.len()).step_by(PAGES_AT_ONCE) {
            let offset = (first * PAGE_BYTES) as u64;
            let length = (self.inner.length - offset).min((PAGES_AT_ONCE * PAGE_BYTES) as u64);
            let bytes = self.read_exact(offset, length as usize).await?;
            checksums.check_pages(&self.inner.name, first as u64, &bytes)?;
        }
        Ok(())
    }

    /// Returns page `number`. The file's last page may be shorter, and a page after the end is
    /// empty.
    pub(crate) async fn page(&self, number: u64) -> Result<Bytes> {
        if trace::is_on() {
            return Box::pin(self.page_and_report(number)).await;
        }
        self.page_unreported(number).await
    }

    /// Returns a page and traces the read.
    async fn page_and_report(&self, number: u64) -> Result<Bytes> {
        let (name, began) = (self.inner.name.short(), Instant::now());
        let cache = &self.inner.cache;
        let is_own =
            self.own_pages.as_ref().is_some_and(|own| held(&own.borrow(), number).is_some());
        let is_hit = cache.holds(self.key(number));
        let is_shared = self.own_pages.is_none() && cache.is_being_read(self.key(number));
        let bytes = self.page_unreported(number).await?;
        let (length, time_us) = (bytes.len(), began.elapsed().as_micros());
        match bytes.is_empty() {
            true => {}
            false if is_own => trace_event!("Page held by this read: page {number} of {name}"),
            false if is_hit => trace_event!("Page cache hit: page {number} of {name}"),
            false if is_shared => trace_event!(
                "Page cache miss: page {number} of {name}, waited {time_us} µs for another's read"
            ),
            false => trace_event!(
                "Page cache miss: page {number} of {name}, read {length} bytes in {time_us} µs"
            ),
        }
        Ok(bytes)
    }

    /// Returns a page for one look-up. If this file is private, the cache does not keep the page,
    /// so the look-up must keep it.
    pub(crate) async fn page_for_look_up(&self, number: u64) -> Result<Bytes> {
        match self.caching() {
            Caching::Shared => self.page(number).await,
            Caching::Private => match self.inner.cache.peek(self.key(number)) {
                Some(bytes) => Ok(bytes),
                None => Ok(self.read_page(number).await?.bytes),
            },
        }
    }

    async fn page_unreported(&self, number: u64) -> Result<Bytes> {
        match &self.own_pages {
            None if number.saturating_mul(PAGE_BYTES as u64) >= self.inner.length => {
                Ok(Bytes::new())
            }
            None => self.inner.cache.get_or_read(self.key(number), || self.read_page(number)).await,
            Some(own) => self.private_page(own, number).await,
        }
    }

    async fn private_page(
        &self,
        own: &RefCell<VecDeque<(u64, Bytes)>>,
        number: u64,
    ) -> Result<Bytes> {
        if let Some(bytes) = held(&own.borrow(), number) {
            return Ok(bytes);
        }
        let bytes = match self.inner.cache.peek(self.key(number)) {
            Some(bytes) => bytes,
            None => self.read_page(number).await?.bytes,
        };
        let mut own = own.borrow_mut();
        own.truncate(PRIVATE_PAGES - 1);
        own.push_front((number, bytes.clone()));
        Ok(bytes)
    }

    async fn read_page(&self, number: u64) -> Result<CachedPage> {
        let offset = number.saturating_mul(PAGE_BYTES as u64);
        if offset >= self.inner.length {
            return Ok(CachedPage { bytes: Bytes::new(), charge: 0 });
        }
        let length = (self.inner.length - offset).min(PAGE_BYTES as u64) as usize;
        let buffer = self.read_exact(offset, length).await?;
        if let Some(checksums) = &self.inner.checksums {
            checksums.check_pages(&self.inner.name, number, &buffer)?;
        }
        let charge = buffer.memory_bytes();
        Ok(CachedPage { bytes: buffer.into_bytes(), charge })
    }

    /// Reads `N` bytes at `offset` by way of pages.
    pub(crate) async fn read_array<const N: usize>(&self, offset: u64) -> Result<[u8; N]> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            let position = offset.saturating_add(filled as u64);
            let page = self.page(position / PAGE_BYTES as u64).await?;
            let at = (position % PAGE_BYTES as u64) as usize;
            let part = page.get(at..).unwrap_or_default();
            let count = part.len().min(N - filled);
            if count == 0 {
                let reason = format!("{N} bytes are wanted, the file has {}", self.inner.length);
                return Err(SSTableError::corrupt(&self.inner.name, offset, reason));
            }
            array[filled..filled + count].copy_from_slice(&part[..count]);
            filled += count;
        }
        Ok(array)
    }
}

/// Returns a page that a private reader holds.
fn held(own: &VecDeque<(u64, Bytes)>, number: u64) -> Option<Bytes> {
    own.iter().find(|(held, _)| *held == number).map(|(_, bytes)| bytes.clone())
}

impl PageSource for CachedFile {
    type Page = Bytes;
    type Error = SSTableError;

    async fn page(&self, page_number: u64) -> Result<Bytes> {
        CachedFile::page(self, page_number).await
    }
}

impl std::fmt::Debug for CachedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.inner.name, self.inner.length)
    }
}
