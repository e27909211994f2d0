//! Reads Data.db from front to back in large pieces of several chunks, and adds nothing to the page
//! cache.

use bytes::Bytes;
use espalier_runtime::{file::PageBuffer, trace};

use super::file::{DataFile, Extent};
use crate::error::Result;

/// Bytes of the first piece of a sequential read, at least one chunk. Each further piece is four
/// times as large, up to [`READ_AHEAD_BYTES`].
const FIRST_READ_AHEAD_BYTES: usize = 32 * 1024;
pub(crate) const READ_AHEAD_BYTES: usize = 256 * 1024;
/// Bytes of a piece for a reader of the whole file. Larger pieces mean fewer reads, and fewer
/// chunks that lie across two pieces.
pub const WHOLE_READ_AHEAD_BYTES: usize = 1024 * 1024;

/// The last piece of the file that a sequential read has read.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    offset: u64,
    buffer: Option<PageBuffer>,
    /// Minimum number of bytes of each read. If it is 0, each read is larger than the one before,
    /// up to a limit.
    pub(crate) at_once: usize,
    /// True if the reader uses cached chunks instead of reading them.
    pub(crate) uses_cached: bool,
    /// Bytes of the last read while reads grow; 0 before the first one.
    last: usize,
}

impl ReadAhead {
    fn range(&self, extent: &Extent) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(extent.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(extent.length)?;
        (end <= self.buffer.as_ref()?.len()).then_some(start..end)
    }

    pub(super) fn holds(&self, extent: &Extent) -> bool {
        self.range(extent).is_some()
    }

    fn find(&self, extent: &Extent) -> Option<PageBuffer> {
        let range = self.range(extent)?;
        self.buffer.as_ref().map(|buffer| buffer.slice(range))
    }
}

impl DataFile {
    /// Returns chunk `index` for a sequential reader, by large reads that bypass the page cache.
    pub(crate) async fn chunk_ahead(&self, index: u64, ahead: &mut ReadAhead) -> Result<Bytes> {
        self.chunk_behind(&[], index, ahead).await
    }

    /// Returns chunk `index` if it is cached, without changing its frequency in the page cache.
    fn peek_chunk(&self, index: u64) -> Option<Bytes> {
        let (cache, key) = (self.file.cache(), self.file.key(index));
        let chunk = if cache.holds(key) { cache.peek(key) } else { None };
        if trace::is_on() && chunk.is_some() {
            self.trace_hit(index);
        }
        chunk
    }

    /// Returns the bytes `first` and then chunk `index` in one piece. In the uncompressed data,
    /// `first` lies directly before the chunk.
    pub(crate) async fn chunk_behind(
        &self,
        first: &[u8],
        index: u64,
        ahead: &mut ReadAhead,
    ) -> Result<Bytes> {
        let cached = if ahead.uses_cached { self.peek_chunk(index) } else { None };
        if let Some(chunk) = cached {
            return Ok(if first.is_empty() { chunk } else { [first, &chunk].concat().into() });
        }
        let extent = self.extent(index).await?;
        if ahead.at_once == 0 && ahead.range(&extent).is_none() {
            ahead.last = (4 * ahead.last).clamp(FIRST_READ_AHEAD_BYTES, READ_AHEAD_BYTES);
        }
        let at_once = ahead.at_once.max(ahead.last);
        let stored = self.stored_by(index, extent, ahead, at_once).await?;
        self.open_chunk_behind(first, index, extent, stored)
    }

    /// Returns a stored chunk from the current piece, or reads the piece that begins with the
    /// chunk.
    pub(super) async fn stored_by(
        &self,
        index: u64,
        extent: Extent,
        ahead: &mut ReadAhead,
        at_once: usize,
    ) -> Result<PageBuffer> {
        if let Some(stored) = ahead.find(&extent) {
            return Ok(stored);
        }
        let rest = self.file.length().saturating_sub(extent.offset);
        let length = (at_once.max(extent.length) as u64).min(rest) as usize;
        // The next piece reuses the memory, unless a reader still holds a chunk in it.
        let spare = ahead.buffer.take().and_then(PageBuffer::into_empty);
        let buffer = self.read_stored(extent.offset, length, spare, "Reading ahead").await?;
        (ahead.offset, ahead.buffer) = (extent.offset, Some(buffer));
        ahead.find(&extent).ok_or_else(|| self.without_end(index, extent.offset))
    }
}
