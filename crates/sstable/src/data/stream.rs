//! The bytes of Data.db from a position on, across chunks.
//!
//! Mostly the window is a slice of one chunk and nothing is copied. Who reads in order has the end of one chunk and all of the next
//! in one window: a chunk is decompressed behind what is left of the one before it. Otherwise, and if that is not enough, a row that
//! lies across chunks is put together in memory of its own; the next one is read from the chunk again. Memory: two chunks and what
//! was asked for at once, which is never more than the file has.

use bytes::{Bytes, BytesMut};

use super::{file::DataFile, input::DataInput, read_ahead::ReadAhead};
use crate::error::{Result, SSTableError};

use crate::page_cache::Caching;

/// How the chunks are had.
#[derive(Debug)]
enum Access {
    /// Through the cache.
    Cached,
    /// The same for a scan that may end soon, as long as it takes no more chunks than these; then in large reads.
    Short { left: u32 },
    /// Around the cache, no more at once than a look-up may want.
    Private(ReadAhead),
    /// Around the cache, in large reads.
    Sequential(ReadAhead),
}

/// A position in the plain data, and bytes from there on.
#[derive(Debug)]
pub(crate) struct DataStream {
    file: DataFile,
    access: Access,
    window: Bytes,
    /// Position of the window's first byte.
    window_start: u64,
    /// Bytes of the window that are behind.
    consumed: usize,
    /// The chunk that was had last, and its number.
    chunk: Option<(u64, Bytes)>,
    /// Up to where more is likely to be wanted.
    wanted_end: u64,
    /// Chunks that came one behind the other so far.
    run: u32,
}

/// After so many chunks in a row more are likely to be wanted than before; a row across two does not say that.
const RUN_BEGINS: u32 = 2;
/// Doubled no further than this: more is not read at once.
const LONGEST_RUN: u32 = 6;

/// A scan that has taken so many chunks is not a short one, and leaves the cache as it is from there on. An arbitrary choice.
const SHORT_SCAN_CHUNKS: u32 = 32;

impl DataStream {
    /// For look-ups. A file of a private reader is read around the cache.
    pub(crate) fn cached(file: DataFile, position: u64) -> Self {
        let access = match file.caching() {
            Caching::Shared => Access::Cached,
            Caching::Private => Access::Private(ReadAhead::default()),
        };
        Self::new(file, position, access)
    }

    /// For reading much of the file in order, around the cache.
    pub(crate) fn sequential(file: DataFile, position: u64) -> Self {
        let file = file.with_caching(Caching::Private);
        Self::new(file, position, Access::Sequential(ReadAhead::default()))
    }

    /// For a scan that probably ends after some rows: through the cache as look-ups are, so that the next one finds it there. If it
    /// does not end, it goes on as one that reads much.
    pub(crate) fn short(file: DataFile, position: u64) -> Self {
        let access = match file.caching() {
            Caching::Shared => Access::Short { left: SHORT_SCAN_CHUNKS },
            Caching::Private => Access::Private(ReadAhead::default()),
        };
        Self::new(file, position, access)
    }

    /// Whether the chunk that holds a position is in memory.
    pub(crate) fn is_at_hand(&self, position: u64) -> bool {
        self.file.is_at_hand(position)
    }

    /// Says up to where more is likely to be wanted, so that fewer reads get it.
    pub(crate) fn expect(&mut self, end: u64) {
        self.wanted_end = end;
    }

    /// Says that all of the file will be read, if that is done in order.
    pub(crate) fn expect_all(&mut self, at_once_bytes: usize) {
        if let Access::Sequential(ahead) = &mut self.access {
            ahead.at_once = at_once_bytes;
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

    /// The window; what was read from it refers to it.
    #[inline]
    pub(crate) fn window(&self) -> &Bytes {
        &self.window
    }

    /// The current position as an offset in the window.
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

    /// Goes to a position; the window stays if it holds it.
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

    /// Makes sure that `length` bytes are in the window behind the position.
    #[inline]
    pub(crate) async fn fill(&mut self, length: usize) -> Result<()> {
        match self.available() >= length {
            true => Ok(()),
            false => self.fill_slowly(length).await,
        }
    }

    /// Whether there are fewer bytes in the window behind the position than these, and more in the file.
    #[inline]
    pub(crate) fn is_short(&self, bytes: usize) -> bool {
        self.available() < bytes
            && self.window_start + (self.window.len() as u64) < self.file.length()
    }

    /// Makes the window longer by the next chunk, or by what is missing of the one that it ends in.
    pub(crate) async fn lengthen(&mut self) -> Result<()> {
        let end = self.window_start + self.window.len() as u64;
        let chunk_length = self.file.chunk_length();
        let rest = self.file.length().saturating_sub(end);
        let more = (chunk_length - end % chunk_length).min(rest);
        self.fill_slowly(self.available() + more as usize).await
    }

    /// Makes the window longer, because what is in it was not enough. An error at the end of the file.
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

    /// Another chunk is taken: a scan that was to be short may have become a long one.
    fn count_short(&mut self) {
        let Access::Short { left } = &mut self.access else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.file = self.file.clone().with_caching(Caching::Private);
            self.access = Access::Sequential(ReadAhead::default());
        }
    }

    /// The rest of the chunk that holds `position`, at least a byte.
    async fn chunk_from(&mut self, position: u64) -> Result<Bytes> {
        let chunk_length = self.file.chunk_length();
        let index = position / chunk_length;
        let held = self.chunk.as_ref().map(|(held, _)| *held);
        if held != Some(index) {
            let follows = held.is_some_and(|held| held.checked_add(1) == Some(index));
            self.run = if follows { (self.run + 1).min(LONGEST_RUN) } else { 0 };
        }
        let chunks = 1 << self.run.saturating_sub(RUN_BEGINS);
        let run_end = index.saturating_add(chunks).saturating_mul(chunk_length);
        let wanted_end = match self.run > RUN_BEGINS {
            true => self.wanted_end.max(run_end),
            false => self.wanted_end,
        };
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
        match offset < chunk.len() {
            true => Ok(chunk.slice(offset..)),
            false => Err(self.file.corrupt(position, "a chunk is shorter than its place")),
        }
    }
}
