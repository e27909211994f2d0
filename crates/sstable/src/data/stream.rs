//! The bytes of Data.db from a position on, across chunks.
//!
//! Usually the window is a slice of one chunk, and no byte is copied. If a chunk ends inside a row,
//! a sequential reader copies the rest of the window to a new window and decompresses the next
//! chunk behind it. Other readers copy a row that lies across chunks to memory of its own, and take
//! the next row from the last chunk again; so does each reader if a row needs several more chunks.
//! Memory: two chunks, the piece of the file that was read ahead, and the bytes that the caller
//! wants at once, which are never more than the file has.

use bytes::{Bytes, BytesMut};

use super::{file::DataFile, input::DataInput, read_ahead::ReadAhead};
use crate::error::{Result, SSTableError};

use crate::page_cache::Caching;

/// The way in which the stream gets its chunks.
#[derive(Debug)]
enum Access {
    /// The stream reads through the page cache.
    Cached,
    /// The stream reads the next `left - 1` chunks through the page cache, for a scan that may end
    /// soon. Then it bypasses the cache and reads large pieces. After [`DataStream::use_cache`] the
    /// scan reads all its chunks through the cache.
    Short { left: u32 },
    /// The stream uses cached chunks but caches none, and reads no more at once than a look-up
    /// does.
    Private(ReadAhead),
    /// The stream bypasses the page cache and reads large pieces.
    Sequential(ReadAhead),
}

/// A position in the uncompressed data, and the bytes from there on.
#[derive(Debug)]
pub(crate) struct DataStream {
    file: DataFile,
    access: Access,
    window: Bytes,
    /// Position of the window's first byte.
    window_start: u64,
    /// Bytes of the window before the current position.
    consumed: usize,
    /// The last chunk and its number.
    chunk: Option<(u64, Bytes)>,
    /// The position up to which the caller probably reads on.
    wanted_end: u64,
    /// Number of chunks since the last jump, each directly after the chunk before it; at most
    /// [`MAX_RUN`].
    run: u32,
}

/// The stream reads ahead while `DataStream::run` is above this number. A row across two chunks
/// does not make it read ahead.
const RUN_BEGINS: u32 = 2;
/// The limit of `DataStream::run`. The stream expects twice as many chunks with each step of `run`,
/// so at most 16.
const MAX_RUN: u32 = 6;

/// Number of the chunk (arbitrary) from which on a scan is not short any more, and leaves the page
/// cache unchanged.
const SHORT_SCAN_CHUNKS: u32 = 32;

impl DataStream {
    /// Makes a stream for look-ups. The stream of a private reader adds no chunk to the cache.
    pub(crate) fn cached(file: DataFile, position: u64) -> Self {
        let access = match file.caching() {
            Caching::Shared => Access::Cached,
            Caching::Private => Access::Private(ReadAhead::default()),
        };
        Self::new(file, position, access)
    }

    /// Makes a stream that reads much of the file in order and bypasses the cache.
    pub(crate) fn sequential(file: DataFile, position: u64) -> Self {
        let file = file.with_caching(Caching::Private);
        Self::new(file, position, Access::Sequential(ReadAhead::default()))
    }

    /// Makes a stream for a scan that probably ends after some rows: it uses the page cache as
    /// look-ups do, so that the next scan finds the chunks there. If the scan continues, the stream
    /// becomes a sequential one.
    pub(crate) fn short(file: DataFile, position: u64) -> Self {
        let access = match file.caching() {
            Caching::Shared => Access::Short { left: SHORT_SCAN_CHUNKS },
            Caching::Private => Access::Private(ReadAhead::default()),
        };
        Self::new(file, position, access)
    }

    /// Returns whether the chunk that holds a position is cached.
    pub(crate) fn is_cached(&self, position: u64) -> bool {
        self.file.is_cached(position)
    }

    /// Announces the position up to which the caller probably reads on, to save reads.
    pub(crate) fn expect(&mut self, end: u64) {
        self.wanted_end = end;
    }

    /// Announces that the caller will read all of the file. A sequential stream then reads at least
    /// `at_once_bytes` bytes at a time.
    pub(crate) fn expect_all(&mut self, at_once_bytes: usize) {
        if let Access::Sequential(ahead) = &mut self.access {
            ahead.at_once = at_once_bytes;
        }
    }

    /// Announces that the caller scans rows in place. A sequential stream then uses cached chunks,
    /// and a short one leaves all chunks that it reads in the page cache.
    pub(crate) fn use_cache(&mut self) {
        match &mut self.access {
            Access::Short { left } => *left = u32::MAX,
            Access::Sequential(ahead) => ahead.uses_cached = true,
            Access::Cached | Access::Private(_) => {}
        }
    }

    fn new(file: DataFile, position: u64, access: Access) -> Self {
        Self {
            file,
            access,
            window: Bytes::new(),
            window_start: position,
            consumed: 0,
            chunk: None,
            wanted_end: 0,
            run: 0,
        }
    }

    pub(crate) fn position(&self) -> u64 {
        self.window_start + self.consumed as u64
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position() >= self.file.length()
    }

    /// Returns the window. Values that were read from the window share its memory.
    #[inline]
    pub(crate) fn window(&self) -> &Bytes {
        &self.window
    }

    /// Returns the current position as an offset in the window.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.consumed
    }

    #[inline]
    pub(crate) fn input(&self) -> DataInput<'_> {
        DataInput::new(&self.window, self.consumed)
    }

    #[inline]
    pub(crate) fn available(&self) -> usize {
        self.window.len() - self.consumed
    }

    /// Steps over bytes, also beyond the window.
    #[inline]
    pub(crate) fn skip(&mut self, length: u64) {
        match usize::try_from(length) {
            Ok(length) if length <= self.available() => self.consumed += length,
            _ => self.seek(self.position().saturating_add(length)),
        }
    }

    /// Goes to a position. Keeps the window if it holds the position.
    pub(crate) fn seek(&mut self, position: u64) {
        match position.checked_sub(self.window_start) {
            Some(offset) if offset <= self.window.len() as u64 => self.consumed = offset as usize,
            _ => {
                self.window = Bytes::new();
                self.window_start = position;
                self.consumed = 0;
            }
        }
    }

    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        self.file.corrupt(self.position(), reason)
    }

    /// Loads data until the window has at least `length` bytes after the position.
    #[inline]
    pub(crate) async fn fill(&mut self, length: usize) -> Result<()> {
        if self.available() >= length { Ok(()) } else { self.fill_slowly(length).await }
    }

    /// Returns whether the window has fewer than `bytes` bytes after the position, and the file
    /// has more.
    #[inline]
    pub(crate) fn is_short(&self, bytes: usize) -> bool {
        self.available() < bytes
            && self.window_start + (self.window.len() as u64) < self.file.length()
    }

    /// Extends the window by the next chunk, or by the rest of the chunk in which it ends.
    pub(crate) async fn lengthen(&mut self) -> Result<()> {
        let end = self.window_start + self.window.len() as u64;
        let chunk_length = self.file.chunk_length();
        let rest = self.file.length().saturating_sub(end);
        let more = (chunk_length - end % chunk_length).min(rest);
        self.fill_slowly(self.available() + more as usize).await
    }

    /// Extends the window, because its bytes did not suffice. Fails at the end of the file.
    pub(crate) async fn fill_more(&mut self) -> Result<()> {
        let available = self.available();
        let rest = self.file.length().saturating_sub(self.position());
        if rest <= available as u64 {
            return Err(self.corrupt("the data ends too early"));
        }
        let wanted = available.saturating_mul(2).max(available + 256);
        self.fill_slowly(wanted.min(usize::try_from(rest).unwrap_or(wanted))).await
    }

    async fn fill_slowly(&mut self, length: usize) -> Result<()> {
        let position = self.position();
        let rest = self.file.length().saturating_sub(position);
        if length as u64 > rest {
            let reason = format!("{length} bytes are wanted, {rest} are left");
            return Err(self.corrupt(reason));
        }
        let first = self.window.slice(self.consumed..);
        let next = position + first.len() as u64;
        if let Access::Sequential(ahead) = &mut self.access
            && let Some(index) = self.file.chunk_that_begins_at(next)
            && length - first.len() <= self.file.plain_length(index)
        {
            self.window = self.file.chunk_behind(&first, index, ahead).await?;
            self.window_start = position;
            self.consumed = 0;
            return Ok(());
        }
        let chunk = self.chunk_from(next).await?;
        if first.is_empty() && chunk.len() >= length {
            self.window = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(length.min(first.len() + chunk.len()));
            joined.extend_from_slice(&first);
            let mut part = chunk;
            loop {
                let missing = length - joined.len();
                joined.extend_from_slice(part.get(..missing).unwrap_or(&part));
                if joined.len() == length {
                    break;
                }
                part = self.chunk_from(position + joined.len() as u64).await?;
            }
            self.window = joined.freeze();
        }
        self.window_start = position;
        self.consumed = 0;
        Ok(())
    }

    /// Counts a chunk that a short scan takes. Makes the stream sequential when the scan is not
    /// short any more.
    fn count_short(&mut self) {
        let Access::Short { left } = &mut self.access else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.file = self.file.clone().with_caching(Caching::Private);
            self.access = Access::Sequential(ReadAhead::default());
        }
    }

    /// Returns the rest of the chunk that holds `position`, at least one byte.
    async fn chunk_from(&mut self, position: u64) -> Result<Bytes> {
        let chunk_length = self.file.chunk_length();
        let index = position / chunk_length;
        let held = self.chunk.as_ref().map(|(held, _)| *held);
        if held != Some(index) {
            let follows = held.is_some_and(|held| held.checked_add(1) == Some(index));
            self.run = if follows { (self.run + 1).min(MAX_RUN) } else { 0 };
        }
        let chunks = 1 << self.run.saturating_sub(RUN_BEGINS);
        let run_end = index.saturating_add(chunks).saturating_mul(chunk_length);
        let wanted_end =
            if self.run > RUN_BEGINS { self.wanted_end.max(run_end) } else { self.wanted_end };
        if held != Some(index) {
            self.count_short();
        }
        let chunk = match (&self.chunk, &mut self.access) {
            (Some((held, chunk)), _) if *held == index => chunk.clone(),
            (_, Access::Cached | Access::Short { .. }) => {
                self.file.chunk(index, wanted_end).await?
            }
            (_, Access::Private(ahead)) => {
                self.file.chunk_privately(index, ahead, wanted_end).await?
            }
            (_, Access::Sequential(ahead)) => self.file.chunk_ahead(index, ahead).await?,
        };
        self.chunk = Some((index, chunk.clone()));
        let offset = (position % chunk_length) as usize;
        if offset < chunk.len() {
            Ok(chunk.slice(offset..))
        } else {
            Err(self.file.corrupt(position, "a chunk is shorter than expected"))
        }
    }
}
