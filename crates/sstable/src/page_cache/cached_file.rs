//! A file that is read by pages of 4 KiB through the cache.

use std::{path::Path, rc::Rc};

use bytes::Bytes;
use espalier_runtime::file::{File, FileSystem, PAGE_BYTES, PageBuffer};
use espalier_trie::page::PageSource;

use super::{CachedPage, PageCache, PageKey};
use crate::{
    checksums::{FileChecksums, check_page},
    error::{FileName, Result, SSTableError},
};

/// Pages that are checked with one read.
const PAGES_AT_ONCE: usize = 64;

/// An open file, its name for errors, and the cache. Clones share all of it.
#[derive(Clone)]
pub(crate) struct CachedFile(Rc<Inner>);

struct Inner {
    file: File,
    name: FileName,
    length: u64,
    number: u64,
    cache: PageCache,
    checksums: Option<FileChecksums>,
}

impl CachedFile {
    /// Opens a file for direct reads; its pages are compared with the checksums, if there are any.
    pub(crate) async fn open(
        file_system: &FileSystem,
        path: &Path,
        cache: &PageCache,
        checksums: Option<FileChecksums>,
    ) -> Result<Self> {
        let file = file_system.open_read_direct(path).await?;
        let length = file.length().await?;
        let name = FileName::new(path);
        if let Some(checksums) = &checksums {
            checksums.check_length(&name, length)?;
        }
        Ok(Self(Rc::new(Inner {
            file,
            name,
            length,
            number: cache.new_file_number(),
            cache: cache.clone(),
            checksums,
        })))
    }

    pub(crate) fn name(&self) -> &FileName {
        &self.0.name
    }

    pub(crate) fn length(&self) -> u64 {
        self.0.length
    }

    /// Whether its pages are compared with checksums.
    pub(crate) fn has_checksums(&self) -> bool {
        self.0.checksums.is_some()
    }

    pub(crate) fn cache(&self) -> &PageCache {
        &self.0.cache
    }

    /// Names page or chunk `page` of this file.
    pub(crate) fn key(&self, page: u64) -> PageKey {
        PageKey { file: self.0.number, page }
    }

    /// Reads around the cache. The range must be inside the file.
    pub(crate) async fn read_exact(&self, offset: u64, length: usize) -> Result<PageBuffer> {
        let inside = offset.checked_add(length as u64).is_some_and(|end| end <= self.0.length);
        if !inside {
            let reason = format!("{length} bytes are wanted, the file has {}", self.0.length);
            return Err(SSTableError::corrupt(&self.0.name, offset, reason));
        }
        Ok(self.0.file.read_exact_at(offset, length).await?)
    }

    /// Compares all pages with their checksums, around the cache: for a file that is checked whole when it is opened.
    pub(crate) async fn check_all_pages(&self) -> Result<()> {
        let Some(checksums) = &self.0.checksums else { return Ok(()) };
        for (index, expected) in checksums.pages.chunks(PAGES_AT_ONCE).enumerate() {
            let first = (index * PAGES_AT_ONCE) as u64;
            let offset = first * PAGE_BYTES as u64;
            let length = (self.0.length - offset).min((PAGES_AT_ONCE * PAGE_BYTES) as u64);
            let bytes = self.read_exact(offset, length as usize).await?;
            for (number, (page, expected)) in bytes.chunks(PAGE_BYTES).zip(expected).enumerate() {
                check_page(&self.0.name, first + number as u64, page, *expected)?;
            }
        }
        Ok(())
    }

    /// Page `number`, cached; shorter at the end of the file, empty behind it.
    pub(crate) async fn page(&self, number: u64) -> Result<Bytes> {
        let key = self.key(number);
        if let Some(bytes) = self.0.cache.get(key) {
            return Ok(bytes);
        }
        let offset = number.saturating_mul(PAGE_BYTES as u64);
        if offset >= self.0.length {
            return Ok(Bytes::new());
        }
        let length = (self.0.length - offset).min(PAGE_BYTES as u64) as usize;
        let buffer = self.read_exact(offset, length).await?;
        let checksums = self.0.checksums.as_ref();
        if let Some(expected) = checksums.and_then(|file| file.pages.get(number as usize)) {
            check_page(&self.0.name, number, &buffer, *expected)?;
        }
        let charge = buffer.memory_bytes();
        let bytes = buffer.into_bytes();
        self.0.cache.insert(key, CachedPage { bytes: bytes.clone(), charge });
        Ok(bytes)
    }

    /// `N` bytes at `offset` by way of cached pages.
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
                let reason = format!("{N} bytes are wanted, the file has {}", self.0.length);
                return Err(SSTableError::corrupt(&self.0.name, offset, reason));
            }
            array[filled..filled + count].copy_from_slice(&part[..count]);
            filled += count;
        }
        Ok(array)
    }
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
        write!(f, "{} ({} bytes)", self.0.name, self.0.length)
    }
}
