//! A window of Data.db over cached chunks. It shows the bytes of one chunk in place, or a copy of
//! several chunks that it has joined.

use espalier_trie::prefetch::prefetch_range;

use crate::{data::file::DataFile, page_cache::CachedPages};

/// The maximum number of bytes that a window joins.
/// [`SSTableReader::read_partition`](crate::SSTableReader::read_partition) handles longer rows.
pub(super) const MAX_JOINED_BYTES: usize = 256 * 1024;

/// Bytes after the entry into a chunk that are probably read.
const LIKELY_BYTES: usize = 192;

pub(super) struct Window<'a> {
    pages: &'a CachedPages<'a>,
    data: &'a DataFile,
    chunk: &'a [u8],
    joined: &'a mut Vec<u8>,
    is_joined: bool,
    /// Position of the window's first byte in Data.db before compression.
    start: u64,
    /// The offset in the window where the walk stands.
    pub(super) at: usize,
}

impl<'a> Window<'a> {
    /// Opens a window at a position of Data.db before compression; `None` if its chunk is not
    /// cached.
    #[inline]
    pub(super) fn new(
        pages: &'a CachedPages<'a>,
        data: &'a DataFile,
        position: u64,
        joined: &'a mut Vec<u8>,
    ) -> Option<Self> {
        let mut window =
            Self { pages, data, chunk: &[], joined, is_joined: false, start: 0, at: 0 };
        window.seek(position)?;
        Some(window)
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        if self.is_joined { self.joined } else { self.chunk }
    }

    /// Moves to an offset that counts from the window's start and may lie after its end; `None` if
    /// the chunk there is not cached.
    #[inline]
    pub(super) fn go_to(&mut self, at: usize) -> Option<()> {
        if at < self.bytes().len() {
            self.at = at;
            return Some(());
        }
        self.seek(self.start.checked_add(at as u64)?)
    }

    #[inline]
    fn seek(&mut self, position: u64) -> Option<()> {
        let length = self.data.chunk_length();
        let index = position / length;
        self.chunk = self.data.cached_chunk(self.pages, index)?;
        self.is_joined = false;
        self.start = index * length;
        self.at = (position - self.start) as usize;
        // Usually the row is in this chunk, and is longer than a cache line.
        prefetch_range(self.chunk, self.at, (self.at + LIKELY_BYTES).min(self.chunk.len()));
        (self.at < self.chunk.len()).then_some(())
    }

    /// Appends the next chunk to the rest of the window; `None` if it is not cached or the window
    /// would be too long.
    #[cold]
    pub(super) fn grow(&mut self) -> Option<()> {
        let end = self.start.checked_add(self.bytes().len() as u64)?;
        let next = self.data.cached_chunk(self.pages, end / self.data.chunk_length())?;
        if !end.is_multiple_of(self.data.chunk_length()) {
            return None;
        }
        if self.is_joined {
            drop(self.joined.drain(..self.at))
        } else {
            self.joined.clear();
            self.joined.extend_from_slice(self.chunk.get(self.at..)?);
        }
        if self.joined.len() + next.len() > MAX_JOINED_BYTES {
            return None;
        }
        self.joined.extend_from_slice(next);
        self.start += self.at as u64;
        (self.at, self.is_joined) = (0, true);
        Some(())
    }
}
