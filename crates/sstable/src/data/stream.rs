//! The bytes of Data.db from a position on, across chunks.
//!
//! Mostly the window is a slice of one chunk and nothing is copied. A row that lies across chunks is put together in
//! memory of its own; the next one is read from the chunk again. Memory: two chunks and what was asked for at once, which
//! is never more than the file has.

use bytes::{Bytes, BytesMut};

use super::{
    file::{DataFile, ReadAhead},
    input::DataInput,
};
use crate::error::{Result, SSTableError};

/// How the chunks are had.
#[derive(Debug)]
enum Access {
    /// Through the cache.
    Cached,
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
}

impl DataStream {
    /// For look-ups.
    pub(crate) fn cached(file: DataFile, position: u64) -> Self {
        Self::new(file, position, Access::Cached)
    }

    /// For reading much of the file in order.
    pub(crate) fn sequential(file: DataFile, position: u64) -> Self {
        Self::new(file, position, Access::Sequential(ReadAhead::default()))
    }

    fn new(file: DataFile, position: u64, access: Access) -> Self {
        Self {
            file,
            access,
            window: Bytes::new(),
            window_start: position,
            consumed: 0,
            chunk: None,
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

    /// The rest of the chunk that holds `position`, at least a byte.
    async fn chunk_from(&mut self, position: u64) -> Result<Bytes> {
        let chunk_length = self.file.chunk_length();
        let index = position / chunk_length;
        let chunk = match (&self.chunk, &mut self.access) {
            (Some((held, chunk)), _) if *held == index => chunk.clone(),
            (_, Access::Cached) => self.file.chunk(index).await?,
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
