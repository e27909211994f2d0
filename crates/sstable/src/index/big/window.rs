//! A window holds a contiguous part of an index file in memory.
//!
//! Usually the window is one page, and nothing is copied. If a request crosses pages, the window
//! joins them. Memory: a page, a piece, the read of [`Access::UpTo`], or one request and up to a
//! page more; never more than the file.

use bytes::{Bytes, BytesMut};
use espalier_runtime::file::PAGE_BYTES;

use super::file::IndexFile;
use crate::error::Result;

/// Number of bytes that a sequential reader reads at once.
pub(super) const PIECE_BYTES: u64 = 128 * 1024;

/// The way in which a window reads its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// By pages, through the cache.
    Pages,
    /// In large pieces, bypassing the cache.
    Pieces,
    /// Up to this position in one read, and behind this position each request in a read of its own,
    /// bypassing the cache.
    UpTo(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Window<F> {
    file: F,
    access: Access,
    bytes: Bytes,
    /// Position of the first byte.
    start: u64,
}

impl<F: IndexFile> Window<F> {
    pub(super) fn new(file: F, access: Access) -> Self {
        Self { file, access, bytes: Bytes::new(), start: 0 }
    }

    pub(super) fn file(&self) -> &F {
        &self.file
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the offset of a position in [`Self::bytes`], or the end of the bytes if the window
    /// does not contain the position.
    pub(super) fn offset_of(&self, position: u64) -> usize {
        position
            .checked_sub(self.start)
            .and_then(|offset| usize::try_from(offset).ok())
            .filter(|offset| *offset <= self.bytes.len())
            .unwrap_or(self.bytes.len())
    }

    /// Returns the position after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Moves the window so that it contains `wanted` bytes at `position`, or all bytes to the end
    /// of the file.
    pub(super) async fn fill(&mut self, position: u64, wanted: usize) -> Result<()> {
        let left = self.file.length().saturating_sub(position);
        let wanted = left.min(wanted as u64);
        if self.start <= position && position + wanted <= self.end() {
            return Ok(());
        }
        let page_bytes = PAGE_BYTES as u64;
        let page = position / page_bytes;
        let page_start = page * page_bytes;
        let within = position - page_start;
        match self.access {
            Access::Pieces => {
                let behind = page_start.saturating_add(PIECE_BYTES).max(position + wanted);
                let length = behind.min(self.file.length()) - page_start;
                self.bytes = self.file.piece(page_start, length as usize).await?;
                self.start = page_start;
            }
            Access::UpTo(end) => {
                let behind = end.max(position + wanted).min(self.file.length());
                self.bytes = self.file.piece(position, (behind - position) as usize).await?;
                self.start = position;
            }
            Access::Pages if within + wanted <= page_bytes => {
                self.bytes = self.file.page(page).await?;
                self.start = page_start;
            }
            Access::Pages => self.join_pages(position, wanted as usize, left).await?,
        }
        Ok(())
    }

    /// Joins pages, from `position` to the end of the last page that the request touches, so that
    /// the window requests no page twice.
    async fn join_pages(&mut self, position: u64, wanted: usize, left: u64) -> Result<()> {
        let most = (wanted + PAGE_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut bytes = BytesMut::with_capacity(most);
        let known = self.bytes.get(self.offset_of(position)..).unwrap_or_default();
        bytes.extend_from_slice(known);
        while bytes.len() < wanted {
            let next = position + bytes.len() as u64;
            let page = self.file.page(next / PAGE_BYTES as u64).await?;
            let part = page.get((next % PAGE_BYTES as u64) as usize..).unwrap_or_default();
            if part.is_empty() {
                break;
            }
            bytes.extend_from_slice(part);
        }
        self.bytes = bytes.freeze();
        self.start = position;
        Ok(())
    }
}
