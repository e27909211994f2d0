//! Bytes of Data.db from chunks in memory: those of one chunk where they lie, or of several put together.

use espalier_trie::prefetch::prefetch_range;

use crate::{data::file::DataFile, page_cache::PagesAtHand};

/// No more is put together: what is longer is for those who can wait.
pub(super) const MAXIMUM_JOINED_BYTES: usize = 256 * 1024;

/// What is likely to be looked at from where one enters a chunk.
const LIKELY_BYTES: usize = 192;

pub(super) struct Window<'a> {
    pages: &'a PagesAtHand<'a>,
    data: &'a DataFile,
    chunk: &'a [u8],
    joined: &'a mut Vec<u8>,
    is_joined: bool,
    /// Position of the first byte in the plain data.
    start: u64,
    /// Where in the bytes one stands.
    pub(super) at: usize,
}

impl<'a> Window<'a> {
    /// At a position of the plain data; `None` if its chunk is not in memory.
    #[inline]
    pub(super) fn new(
        pages: &'a PagesAtHand<'a>,
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
        match self.is_joined {
            true => self.joined,
            false => self.chunk,
        }
    }

    /// Goes on at an offset of the bytes, which may lie behind them.
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
        self.chunk = self.data.chunk_at_hand(self.pages, index)?;
        self.is_joined = false;
        self.start = index * length;
        self.at = (position - self.start) as usize;
        // Mostly the row is there, and is longer than a line.
        prefetch_range(self.chunk, self.at, (self.at + LIKELY_BYTES).min(self.chunk.len()));
        (self.at < self.chunk.len()).then_some(())
    }

    /// Puts the next chunk behind what is left from here on; `None` if it is not in memory or that would be too much.
    #[cold]
    pub(super) fn grow(&mut self) -> Option<()> {
        let end = self.start.checked_add(self.bytes().len() as u64)?;
        let next = self.data.chunk_at_hand(self.pages, end / self.data.chunk_length())?;
        if !end.is_multiple_of(self.data.chunk_length()) {
            return None;
        }
        match self.is_joined {
            true => drop(self.joined.drain(..self.at)),
            false => {
                self.joined.clear();
                self.joined.extend_from_slice(self.chunk.get(self.at..)?);
            }
        }
        if self.joined.len() + next.len() > MAXIMUM_JOINED_BYTES {
            return None;
        }
        self.joined.extend_from_slice(next);
        self.start += self.at as u64;
        (self.at, self.is_joined) = (0, true);
        Some(())
    }
}
