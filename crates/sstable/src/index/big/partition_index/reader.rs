//! This module reads Index.db from entry to entry. It skips promoted indexes without decoding them.

use espalier_mutation::{DecoratedKey, Token};

use super::{
    super::{
        file::IndexFile,
        flat_page::FlatEntry,
        window::{Access, Window},
    },
    layout::{EntryHead, IndexEntry, MAX_ENTRY_OVERHEAD, PromotedLocation, decode_head},
};
use crate::{
    data::input::Malformed,
    error::{Result, SSTableError},
};

/// Number of entries after which a reader may yield.
const ENTRIES_AT_ONCE: u32 = 64;

/// An entry that a cursor has stepped over. Its key lies in the cursor's memory until the next
/// step.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SteppedOver {
    head: EntryHead,
    position: u64,
    promoted: Option<PromotedLocation>,
    next_position: u64,
}

impl SteppedOver {
    pub(in super::super) fn to_flat(self) -> FlatEntry {
        let Self { head, position, promoted, next_position } = self;
        FlatEntry { data_position: head.data_position, position, promoted, next_position }
    }
}

/// A cursor over entries, from a given entry on. It checks that each entry lies inside the file,
/// and that the partition's position lies inside Data.db and after the position of the partition
/// before it. It does not check that keys increase, because that would need the token of each key,
/// which costs a hash. [`Entries`] checks the order of keys.
#[derive(Clone, Debug)]
pub struct EntryCursor<F> {
    window: Window<F>,
    position: u64,
    /// Uncompressed length of Data.db in bytes.
    data_length: u64,
    last_data_position: Option<u64>,
    steps: u32,
}

impl<F: IndexFile> EntryCursor<F> {
    /// Creates a cursor before the entry at `position`, which must be the start of an entry. The
    /// cursor reads by pages, which suits a few entries. `data_length` is the uncompressed length
    /// of Data.db in bytes.
    pub fn new(file: F, position: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::Pages)
    }

    /// Creates a cursor that reads large pieces and bypasses the cache, which suits many entries.
    pub fn sequential(file: F, position: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::Pieces)
    }

    /// Creates a cursor for all entries up to the one at `end`. It reads them in one piece and
    /// bypasses the cache, which suits a short range.
    pub fn up_to(file: F, position: u64, end: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::UpTo(end))
    }

    fn with_access(file: F, position: u64, data_length: u64, access: Access) -> Self {
        let window = Window::new(file, access);
        Self { window, position, data_length, last_data_position: None, steps: 0 }
    }

    /// Returns the position of the next entry, or the end of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next entry, or `None` at the end of the file.
    ///
    /// # Errors
    /// Fails if the entry is corrupt, or if the file cannot be read.
    pub async fn next(&mut self) -> Result<Option<IndexEntry>> {
        let Some(found) = self.step().await? else { return Ok(None) };
        let token = Token::of(self.key(&found));
        Ok(Some(self.entry(&found, token)))
    }

    /// Steps over the next entry. Computes no token and copies nothing.
    pub(in super::super) async fn step(&mut self) -> Result<Option<SteppedOver>> {
        let position = self.position;
        if position >= self.window.file().length() {
            return Ok(None);
        }
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(ENTRIES_AT_ONCE) {
            espalier_runtime::maybe_yield().await;
        }
        let head = self.read_head().await?;
        if head.data_position >= self.data_length {
            return Err(self.corrupt("an entry leads past the end of Data.db"));
        }
        if self.last_data_position.is_some_and(|last| last >= head.data_position) {
            return Err(self.corrupt("an entry leads before the previous entry"));
        }
        let start = position + (head.end - self.window.offset_of(position)) as u64;
        let next_position = start
            .checked_add(head.promoted_length)
            .filter(|end| *end <= self.window.file().length())
            .ok_or_else(|| self.corrupt("an index of rows extends past the end of the file"))?;
        let length = head.promoted_length;
        let promoted = (length > 0).then_some(PromotedLocation { start, length });
        self.position = next_position;
        self.last_data_position = Some(head.data_position);
        Ok(Some(SteppedOver { head, position, promoted, next_position }))
    }

    async fn read_head(&mut self) -> Result<EntryHead> {
        loop {
            let offset = self.window.offset_of(self.position);
            match decode_head(self.window.bytes(), offset) {
                Ok(head) => return Ok(head),
                Err(Malformed::Wrong(reason)) => return Err(self.corrupt(reason)),
                Err(Malformed::Ended) => {}
            }
            // The cursor reads no page that it does not need: first the length of the key, then the
            // whole entry.
            let length = self.window.bytes().get(offset..).and_then(|rest| rest.first_chunk::<2>());
            let wanted = match length {
                Some(length) => usize::from(u16::from_be_bytes(*length)) + MAX_ENTRY_OVERHEAD,
                None => 2,
            };
            let before = (self.window.end(), offset);
            self.window.fill(self.position, wanted).await?;
            let offset = self.window.offset_of(self.position);
            if (self.window.end(), offset) == before {
                return Err(self.corrupt("an entry is cut short"));
            }
        }
    }

    pub(in super::super) fn key(&self, entry: &SteppedOver) -> &[u8] {
        let (start, end) = entry.head.key;
        self.window.bytes().get(start..end).unwrap_or_default()
    }

    /// Returns the entry that the cursor stepped over last. `token` is the token of its key.
    pub(in super::super) fn entry(&self, entry: &SteppedOver, token: Token) -> IndexEntry {
        let (start, end) = entry.head.key;
        IndexEntry {
            key: DecoratedKey { token, key: self.window.bytes().slice(start..end) },
            data_position: entry.head.data_position,
            position: entry.position,
            promoted: entry.promoted,
            next_position: entry.next_position,
        }
    }

    /// Creates an error at the position of the next entry.
    pub(in super::super) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.window.file().name(), self.position, reason)
    }
}

/// An iterator over all entries in order, with a check that keys increase. It reads large pieces
/// and bypasses the cache. An entry pins the piece that it was read from, so a caller that collects
/// keys must copy them.
#[derive(Clone, Debug)]
pub struct Entries<F> {
    cursor: EntryCursor<F>,
    last_key: Option<DecoratedKey>,
}

impl<F: IndexFile> Entries<F> {
    /// Creates an iterator before the first entry. `data_length` is the uncompressed length of
    /// Data.db in bytes.
    pub fn new(file: F, data_length: u64) -> Self {
        Self { cursor: EntryCursor::sequential(file, 0, data_length), last_key: None }
    }

    /// Returns the next entry, or `None` at the end of the file.
    ///
    /// # Errors
    /// Fails if an entry is corrupt, if keys do not increase, or if the file cannot be read.
    pub async fn next(&mut self) -> Result<Option<IndexEntry>> {
        let Some(entry) = self.cursor.next().await? else { return Ok(None) };
        if self.last_key.as_ref().is_some_and(|last| *last >= entry.key) {
            let name = self.cursor.window.file().name();
            let reason = "a key does not come after the previous one";
            return Err(SSTableError::corrupt(name, entry.position, reason));
        }
        self.last_key = Some(entry.key.clone());
        Ok(Some(entry))
    }
}
