//! A file that is read by pages of 4 KiB through the cache.

use std::{path::Path, rc::Rc};

use bytes::Bytes;
use espalier_runtime::file::{File, FileSystem, PAGE_BYTES, PageBuffer};
use espalier_trie::page::PageSource;

use super::{CachedPage, PageCache, PageKey};
use crate::error::{FileName, Result, SSTableError};

/// An open file, its name for errors, and the cache. Clones share all of it.
#[derive(Clone)]
pub(crate) struct CachedFile(Rc<Inner>);

struct Inner {
    file: File,
    name: FileName,
    length: u64,
    number: u64,
    cache: PageCache,
}

impl CachedFile {
    /// Opens a file for direct reads.
    pub(crate) async fn open(
        file_system: &FileSystem,
        path: &Path,
        cache: &PageCache,
    ) -> Result<Self> {
        let file = file_system.open_read_direct(path).await?;
        let length = file.length().await?;
        Ok(Self(Rc::new(Inner {
            file,
            name: FileName::new(path),
            length,
            number: cache.new_file_number(),
            cache: cache.clone(),
        })))
    }

    pub(crate) fn name(&self) -> &FileName {
        &self.0.name
    }

    pub(crate) fn length(&self) -> u64 {
        self.0.length
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
