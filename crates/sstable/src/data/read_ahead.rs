//! Reading Data.db from front to back: a piece of it at a time, in which several chunks are found, and around the page cache.

use bytes::Bytes;
use espalier_runtime::file::PageBuffer;

use super::file::{DataFile, Extent};
use crate::error::Result;

/// Bytes that a sequential read takes at first, four times as many each time, and at once in the end; at least one chunk.
const FIRST_READ_AHEAD_BYTES: usize = 32 * 1024;
pub(crate) const READ_AHEAD_BYTES: usize = 256 * 1024;
/// The same for those who will read all of it: fewer reads, and fewer chunks that lie across two.
pub const WHOLE_READ_AHEAD_BYTES: usize = 1024 * 1024;

/// A piece of the file that sequential reads found their chunks in.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    offset: u64,
    buffer: Option<PageBuffer>,
    /// Bytes to be read at once, if that is more than usual.
    pub(crate) at_once: usize,
    /// What was read at once last: who reads on gets more.
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
    /// Chunk `index` for a reader that goes through the file: large reads, and the cache is left to others.
    pub(crate) async fn chunk_ahead(&self, index: u64, ahead: &mut ReadAhead) -> Result<Bytes> {
        self.chunk_behind(&[], index, ahead).await
    }

    /// The same behind some bytes, which are those before it.
    pub(crate) async fn chunk_behind(
        &self,
        first: &[u8],
        index: u64,
        ahead: &mut ReadAhead,
    ) -> Result<Bytes> {
        let extent = self.extent(index).await?;
        if ahead.at_once == 0 && ahead.range(&extent).is_none() {
            ahead.last = (4 * ahead.last).clamp(FIRST_READ_AHEAD_BYTES, READ_AHEAD_BYTES);
        }
        let at_once = ahead.at_once.max(ahead.last);
        let stored = self.stored_by(index, extent, ahead, at_once).await?;
        self.open_chunk_behind(first, index, extent, stored)
    }

    /// A chunk as stored, out of a piece that is read if it does not hold it.
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
        // Its memory is for the next one, if nobody has kept a chunk as it lies there.
        let spare = ahead.buffer.take().and_then(PageBuffer::into_empty);
        let buffer = self.read_stored(extent.offset, length, spare, "Reading ahead").await?;
        (ahead.offset, ahead.buffer) = (extent.offset, Some(buffer));
        ahead.find(&extent).ok_or_else(|| self.without_end(index, extent.offset))
    }
}
