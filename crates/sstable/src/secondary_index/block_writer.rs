//! Collects sorted entries into blocks.
//!
//! The first entry of a block is written whole, and each later entry without the bytes that it
//! shares with the one before. Every sixteenth entry is a *restart*: it shares bytes with the first
//! entry of the block instead, so that a search can begin there.
//!
//! Memory: one block and five entries.

use espalier_trie::page::{PAGE_SIZE, Sink, common_prefix_length};
use espalier_types::vint;

use super::{
    block::{
        CLUSTERING_FOLLOWS, FORM_FOLLOWS, HEADER_BYTES, KEY_FOLLOWS, MAX_BLOCK_BYTES, MAX_SHARED,
        RESTART_BYTES,
    },
    entry::Parts,
};

/// Entries from one restart to the next (arbitrary): a search decodes half of them on average.
const ENTRIES_OF_RESTART: usize = 16;

/// Writes blocks one after another.
#[derive(Default)]
pub(super) struct BlockWriter {
    /// The entries of the block.
    entries: Vec<u8>,
    /// Offsets of the restarts among the entries.
    restarts: Vec<u16>,
    since_restart: usize,
    /// Maximum number of bytes of the block.
    room: usize,
    first: Parts,
    last: Parts,
    present: Parts,
    /// The last entry as a whole; empty before the first one.
    last_entry: Vec<u8>,
    rebuilt: Vec<u8>,
    /// Pages of the blocks before this one.
    pages: u64,
}

/// The beginning of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// The number of its first page.
    pub(super) page: u64,
    /// Bytes that its first entry shares with the one before.
    pub(super) shared: usize,
}

impl BlockWriter {
    /// Adds an entry, which must be above the last one. Returns whether a block begins with it.
    ///
    /// # Errors
    /// Fails if the entry is malformed, out of order or too long. The writer then stays unchanged.
    pub(super) fn add(
        &mut self,
        sink: &mut impl Sink,
        entry: &[u8],
    ) -> Result<Option<Begun>, &'static str> {
        if !self.last_entry.is_empty() && entry <= &*self.last_entry {
            return Err("an entry is not above the one before");
        }
        self.present.take_apart(entry).ok_or("an entry is malformed")?;
        self.rebuilt.clear();
        self.present.put_value(&mut self.rebuilt);
        self.present.put_place(&mut self.rebuilt);
        if self.rebuilt != entry {
            return Err("an entry has a token or an escape that does not follow from its parts");
        }
        // The lengths and the header take some bytes.
        if self.present.bytes.len() > MAX_BLOCK_BYTES - PAGE_SIZE {
            return Err("an entry is too long");
        }
        let mut begun = None;
        if self.entries.is_empty() || !self.put() {
            self.finish_block(sink);
            let shared = common_prefix_length(&self.last_entry, entry);
            begun = Some(Begun { page: self.pages, shared });
            self.put();
        }
        std::mem::swap(&mut self.last_entry, &mut self.rebuilt);
        Ok(begun)
    }

    /// Ends the present block. The next entry may be below the last one.
    pub(super) fn end_run(&mut self, sink: &mut impl Sink) {
        self.finish_block(sink);
        self.last_entry.clear();
    }

    /// Returns the number of pages of the finished blocks.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Adds the present entry to the block if the block has room for it. Returns whether it was
    /// added.
    fn put(&mut self) -> bool {
        let is_first = self.entries.is_empty();
        let is_restart = self.since_restart == ENTRIES_OF_RESTART;
        let nothing = Parts::default();
        let base = match (is_first, is_restart) {
            (true, _) => &nothing,
            (false, true) => &self.first,
            (false, false) => &self.last,
        };
        let start = self.entries.len();
        put_entry(base, &self.present, &mut self.entries);
        let restarts = self.restarts.len() + usize::from(is_restart);
        let bytes = HEADER_BYTES + RESTART_BYTES * restarts + self.entries.len();
        if is_first {
            self.room = bytes.next_multiple_of(PAGE_SIZE);
            self.first.copy_from(&self.present);
        } else if bytes > self.room || start > usize::from(u16::MAX) {
            self.entries.truncate(start);
            return false;
        }
        if is_restart {
            self.restarts.push(start as u16);
            self.since_restart = 0;
        }
        self.since_restart += 1;
        std::mem::swap(&mut self.last, &mut self.present);
        true
    }

    fn finish_block(&mut self, sink: &mut impl Sink) {
        if self.entries.is_empty() {
            return;
        }
        sink.append(&(self.entries.len() as u32).to_be_bytes());
        sink.append(&(self.restarts.len() as u16).to_be_bytes());
        self.restarts.iter().for_each(|restart| sink.append(&restart.to_be_bytes()));
        sink.append(&self.entries);
        let bytes = HEADER_BYTES + RESTART_BYTES * self.restarts.len() + self.entries.len();
        let pages = bytes.div_ceil(PAGE_SIZE);
        sink.pad(pages * PAGE_SIZE - bytes);
        self.pages += pages as u64;
        self.entries.clear();
        self.restarts.clear();
        self.since_restart = 0;
    }
}

/// Appends an entry that shares bytes with `base`.
fn put_entry(base: &Parts, parts: &Parts, out: &mut Vec<u8>) {
    let shared = common_prefix_length(&base.bytes, &parts.bytes);
    let (before, now) = (base.lengths, parts.lengths);
    let follows = |bit: u8, differs: bool| if differs { bit } else { 0 };
    let tag = follows(FORM_FOLLOWS, now.form != before.form)
        | follows(KEY_FOLLOWS, now.key != before.key)
        | follows(CLUSTERING_FOLLOWS, now.clustering != before.clustering);
    let short = shared.min(usize::from(MAX_SHARED));
    out.push(tag | short as u8);
    if short == usize::from(MAX_SHARED) {
        vint::write_unsigned((shared - short) as u64, out);
    }
    if now.form != before.form {
        vint::write_unsigned(now.form as u64, out);
    }
    if now.key != before.key {
        vint::write_unsigned(now.key as u64, out);
    }
    if now.clustering != before.clustering {
        vint::write_unsigned(now.clustering.map_or(0, |length| length as u64 + 1), out);
    }
    out.extend_from_slice(&parts.bytes[shared..]);
}
