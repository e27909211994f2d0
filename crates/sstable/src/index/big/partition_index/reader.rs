//! Reads Index.db: from an entry to the next. Promoted indexes are stepped over without being read.

use espalier_mutation::{DecoratedKey, Token};

use super::{
    super::{
        file::IndexFile,
        flat_page::FlatEntry,
        window::{Access, Window},
    },
    layout::{EntryHead, IndexEntry, MAXIMUM_ENTRY_OVERHEAD, PromotedLocation, decode_head},
};
use crate::{
    data::input::Malformed,
    error::{Result, SSTableError},
};

/// Entries between which a reader asks whether it should give way.
const ENTRIES_AT_ONCE: u32 = 64;

/// An entry that a cursor has stepped over. The key is in the cursor's memory until its next step.
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

/// Walks entries from one on. It checks that each is inside of the file, that it leads into Data.db, and behind where the
/// one before it led; not that keys increase, since look-ups are spared the tokens (see [`Entries`]).
#[derive(Clone, Debug)]
pub struct EntryCursor<F> {
    window: Window<F>,
    position: u64,
    /// Length of Data.db, uncompressed.
    data_length: u64,
    last_data_position: Option<u64>,
    steps: u32,
}

impl<F: IndexFile> EntryCursor<F> {
    /// A cursor before the entry at `position`, which must be where one begins. Reads by pages, for a few entries.
    /// `data_length` is that of Data.db, uncompressed.
    pub fn new(file: F, position: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::Pages)
    }

    /// The same for one who reads many entries: reads large pieces, around the cache.
    pub fn sequential(file: F, position: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::Pieces)
    }

    /// The same for one who reads all entries up to the one at `end`, and little of that: at once, around the cache.
    pub fn up_to(file: F, position: u64, end: u64, data_length: u64) -> Self {
        Self::with_access(file, position, data_length, Access::UpTo(end))
    }

    fn with_access(file: F, position: u64, data_length: u64, access: Access) -> Self {
        let window = Window::new(file, access);
        Self { window, position, data_length, last_data_position: None, steps: 0 }
    }

    /// Where the next entry begins, or the end of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next entry; `None` at the end of the file.
    pub async fn next(&mut self) -> Result<Option<IndexEntry>> {
        let Some(found) = self.step().await? else { return Ok(None) };
        let token = Token::of(self.key(&found));
        Ok(Some(self.entry(&found, token)))
    }

    /// Steps over the next entry, without computing or copying anything.
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
            return Err(self.corrupt("an entry leads behind the end of Data.db"));
        }
        if self.last_data_position.is_some_and(|last| last >= head.data_position) {
            return Err(self.corrupt("an entry leads before the entry in front of it"));
        }
        let start = position + (head.end - self.window.offset_of(position)) as u64;
        let next_position = start
            .checked_add(head.promoted_length)
            .filter(|end| *end <= self.window.file().length())
            .ok_or_else(|| self.corrupt("an index of rows reaches behind the end of the file"))?;
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
            // A page that is not needed is not asked for: first the key's length, then the whole.
            let length = self.window.bytes().get(offset..).and_then(|rest| rest.first_chunk::<2>());
            let wanted = match length {
                Some(length) => usize::from(u16::from_be_bytes(*length)) + MAXIMUM_ENTRY_OVERHEAD,
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

    /// The entry that was stepped over last, whose token the caller knows.
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

    /// An error at the entry that is read next.
    pub(in super::super) fn corrupt(&self, reason: impl Into<String>) -> SSTableError {
        SSTableError::corrupt(self.window.file().name(), self.position, reason)
    }
}

/// All entries in order, with the check that keys increase. Reads large pieces, around the cache. An entry that is kept
/// keeps its piece: one who gathers keys copies them.
#[derive(Clone, Debug)]
pub struct Entries<F> {
    cursor: EntryCursor<F>,
    last_key: Option<DecoratedKey>,
}

impl<F: IndexFile> Entries<F> {
    /// Before the first entry. `data_length` is that of Data.db, uncompressed.
    pub fn new(file: F, data_length: u64) -> Self {
        Self { cursor: EntryCursor::sequential(file, 0, data_length), last_key: None }
    }

    /// The next entry; `None` at the end of the file.
    pub async fn next(&mut self) -> Result<Option<IndexEntry>> {
        let Some(entry) = self.cursor.next().await? else { return Ok(None) };
        if self.last_key.as_ref().is_some_and(|last| *last >= entry.key) {
            let name = self.cursor.window.file().name();
            let reason = "a key does not come behind the one in front of it";
            return Err(SSTableError::corrupt(name, entry.position, reason));
        }
        self.last_key = Some(entry.key.clone());
        Ok(Some(entry))
    }
}
