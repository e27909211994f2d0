//! Reads one block of sorted entries.
//!
//! ```text
//! be32                  bytes of the entries
//! be16                  number of restarts
//! be16 each             offsets of the restarts among the entries
//! entries               each: tag, [vint: shared bytes above 31], [vint: length of the form],
//!                       [vint: length of the key], [vint: 0, or length of the clustering + 1],
//!                       bytes of the parts that are not shared
//! zeros                 up to a whole page
//! ```
//!
//! An entry shares its first bytes with its base, which is the entry before it or, for a restart,
//! the first entry of the block. The lower five bits of a tag are the number of shared bytes, or 31
//! if a number follows. The upper bits say which lengths follow; the other lengths are equal to
//! those of the base.
//!
//! The reader trusts nothing in the bytes. A step costs no allocation once the buffers have grown.

use std::mem::swap;

use bytes::Bytes;
use espalier_trie::page::PAGE_SIZE;
use espalier_types::vint;

use super::entry::Parts;

/// Bytes before the restarts.
pub(super) const HEADER_BYTES: usize = 6;
/// Bytes of the offset of a restart.
pub(super) const RESTART_BYTES: usize = 2;
/// Maximum length of a block in bytes (arbitrary). An entry lies in one block, and by default no
/// write of a row has this many bytes. Without a limit, a hostile file could make a reader allocate
/// as many bytes as the file has.
pub(super) const MAX_BLOCK_BYTES: usize = 64 << 20;

/// Bits of a tag, one for each part. If a bit is set, the length of its part follows.
pub(super) const FORM_FOLLOWS: u8 = 0x20;
pub(super) const KEY_FOLLOWS: u8 = 0x40;
pub(super) const CLUSTERING_FOLLOWS: u8 = 0x80;
/// The mask of the bits of a tag that hold the number of shared bytes. If all these bits are set,
/// another number follows, which the reader adds to this one.
pub(super) const MAX_SHARED: u8 = 0x1F;

/// Number of entries that a seek steps over before it searches the block (arbitrary). In an
/// intersection of two indexes with about equally many entries, the wanted entry is usually near.
const NEAR_ENTRIES: usize = 8;

/// The reason why a block is damaged.
pub(super) type Fault = &'static str;

/// Returns the length of a block in bytes, without the zeros behind it. `page` is its first page.
pub(super) fn block_bytes(page: &[u8]) -> Result<usize, Fault> {
    let (bytes, restarts) = header(page)?;
    let bytes = HEADER_BYTES + RESTART_BYTES * restarts + bytes;
    if bytes <= MAX_BLOCK_BYTES { Ok(bytes) } else { Err("a block is too long") }
}

/// Returns the number of bytes of the entries, and the number of restarts.
fn header(block: &[u8]) -> Result<(usize, usize), Fault> {
    let fault = "the header of a block is cut";
    let (bytes, rest) = block.split_first_chunk::<4>().ok_or(fault)?;
    let (restarts, _) = rest.split_first_chunk::<2>().ok_or(fault)?;
    Ok((u32::from_be_bytes(*bytes) as usize, usize::from(u16::from_be_bytes(*restarts))))
}

/// A cursor over the entries of one block. It stands at an entry once it has entered a block.
#[derive(Default)]
pub(super) struct BlockCursor {
    block: Bytes,
    restarts: usize,
    /// The offset of the first entry, and the offset behind the last one.
    start: usize,
    end: usize,
    /// The offset behind the first entry, and the offset behind the present one.
    behind_first: usize,
    behind: usize,
    /// The next restart behind the present entry, and its offset.
    restart: usize,
    restart_at: usize,
    first: Parts,
    parts: Parts,
    /// The present entry, the length of its value, and the entry before it.
    entry: Vec<u8>,
    value: usize,
    before: Vec<u8>,
}

impl BlockCursor {
    /// Enters a block, and moves to its first entry.
    pub(super) fn enter(&mut self, block: Bytes) -> Result<(), Fault> {
        let (bytes, restarts) = header(&block)?;
        self.restarts = restarts;
        self.start = HEADER_BYTES + RESTART_BYTES * restarts;
        self.end = self.start.saturating_add(bytes);
        if self.end > block.len() {
            return Err("the entries of a block are cut");
        }
        self.block = block;
        swap(&mut self.entry, &mut self.before);
        self.parts.copy_from(&Parts::default());
        self.behind = self.start;
        self.expect_restart(0);
        self.decode()?;
        self.behind_first = self.behind;
        self.first.copy_from(&self.parts);
        self.rebuild(false);
        Ok(())
    }

    /// Returns the present entry.
    #[inline]
    pub(super) fn entry(&self) -> &[u8] {
        &self.entry
    }

    /// Checks that the present entry is above the one before.
    #[inline]
    pub(super) fn check_order(&self) -> Result<(), Fault> {
        if self.entry > self.before { Ok(()) } else { Err("entries are out of order") }
    }

    /// Moves to the next entry of the block. Returns whether there is one.
    #[inline]
    pub(super) fn step(&mut self) -> Result<bool, Fault> {
        if self.behind >= self.end {
            return Ok(false);
        }
        let has_same_value = self.decode()?;
        swap(&mut self.entry, &mut self.before);
        self.rebuild(has_same_value);
        self.check_order()?;
        Ok(true)
    }

    /// Moves to the least entry of the block that is not below `target`. Returns whether there is
    /// one; if not, the cursor may stand at any entry.
    pub(super) fn seek(&mut self, target: &[u8]) -> Result<bool, Fault> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high) / 2;
            self.go_to_restart(middle)?;
            if &*self.entry < target {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match low.checked_sub(1) {
            Some(restart) => self.go_to_restart(restart)?,
            None => self.go_to_first(),
        }
        while &*self.entry < target {
            if !self.step()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Works like [`seek`](Self::seek), from the current entry on. This is fast if the wanted entry
    /// is near.
    pub(super) fn seek_ahead(&mut self, target: &[u8]) -> Result<bool, Fault> {
        for _ in 0..NEAR_ENTRIES {
            if &*self.entry >= target {
                return Ok(true);
            }
            if !self.step()? {
                return Ok(false);
            }
        }
        self.seek(target)
    }

    fn go_to_first(&mut self) {
        self.parts.copy_from(&self.first);
        self.behind = self.behind_first;
        self.expect_restart(0);
        self.rebuild(false);
    }

    fn go_to_restart(&mut self, restart: usize) -> Result<(), Fault> {
        self.expect_restart(restart);
        self.behind = self.restart_at;
        self.decode()?;
        self.rebuild(false);
        Ok(())
    }

    /// Sets the number of the next restart, and finds its offset.
    #[inline]
    fn expect_restart(&mut self, restart: usize) {
        let at = HEADER_BYTES + RESTART_BYTES * restart;
        let offset = self.block.get(at..self.start).and_then(<[u8]>::first_chunk::<2>);
        // No entry lies at the offset `usize::MAX`, which is behind the block.
        let offset = offset
            .map_or(usize::MAX, |offset| self.start + usize::from(u16::from_be_bytes(*offset)));
        (self.restart, self.restart_at) = (restart, offset);
    }

    /// Decodes the entry at `behind` into the parts, which hold its base. Returns whether the entry
    /// has the same value as the entry before it.
    #[inline]
    fn decode(&mut self) -> Result<bool, Fault> {
        let is_restart = self.behind == self.restart_at;
        if is_restart {
            self.parts.copy_from(&self.first);
            self.expect_restart(self.restart + 1);
        }
        let rest = self.block.get(self.behind..self.end).unwrap_or_default();
        let (length, has_same_value) = apply(&mut self.parts, rest).ok_or("an entry is cut")?;
        self.behind += length;
        Ok(has_same_value && !is_restart)
    }

    /// Joins the entry from its parts. If it has the value of the entry before it, the function
    /// copies the value from that entry.
    #[inline]
    fn rebuild(&mut self, has_same_value: bool) {
        self.entry.clear();
        match self.before.get(..self.value).filter(|_| has_same_value) {
            Some(value) => self.entry.extend_from_slice(value),
            None => {
                self.parts.put_value(&mut self.entry);
                self.value = self.entry.len();
            }
        }
        self.parts.put_place(&mut self.entry);
    }
}

/// Decodes the entry at the front of `bytes` into `parts`, with which it shares bytes. Returns its
/// length, and whether it has the same value. Returns `None` if it is malformed.
#[inline]
fn apply(parts: &mut Parts, bytes: &[u8]) -> Option<(usize, bool)> {
    let (&tag, mut rest) = bytes.split_first()?;
    let mut number = || usize::try_from(vint::read_unsigned(&mut rest).ok()?).ok();
    let mut shared = usize::from(tag & MAX_SHARED);
    if tag & MAX_SHARED == MAX_SHARED {
        shared = shared.checked_add(number()?)?;
    }
    let old_form = parts.lengths.form;
    let lengths = &mut parts.lengths;
    if tag & FORM_FOLLOWS != 0 {
        lengths.form = number()?;
    }
    if tag & KEY_FOLLOWS != 0 {
        lengths.key = number()?;
    }
    if tag & CLUSTERING_FOLLOWS != 0 {
        lengths.clustering = number()?.checked_sub(1);
    }
    let has_same_value = lengths.form == old_form && shared >= old_form;
    let own = lengths.total().checked_sub(shared)?;
    let (own, behind) = rest.split_at_checked(own)?;
    if shared > parts.bytes.len() {
        return None;
    }
    parts.bytes.truncate(shared);
    parts.bytes.extend_from_slice(own);
    Some((bytes.len() - behind.len(), has_same_value))
}

/// Returns the number of pages of a block of `bytes` bytes.
pub(super) fn pages_of(bytes: usize) -> u64 {
    bytes.div_ceil(PAGE_SIZE) as u64
}
