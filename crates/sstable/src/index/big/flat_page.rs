//! A flat page holds the entries of one interval between two samples in the form in which they are
//! cached. A binary search finds an entry without parsing.
//!
//! ```text
//! page   entry × count, then all keys one after the other, then le32 count
//! entry  le64 position in Data.db, le32 position in Index.db from the interval's start,
//!        le32 end of its key
//! ```
//!
//! The page is one allocation for all entries and keys, so it is built, moved and evicted as one
//! piece. Memory: for each partition its key and 16 bytes. (In Index.db, an entry takes its key and
//! usually 6 to 8 bytes.) A page holds neither promoted indexes nor tokens. A search interpolates
//! by the token of the wanted key and therefore starts near it. It computes the tokens of only
//! those few keys that it compares.
//!
//! The idea of dense pages is from ScyllaDB's change "Fix bad performance for densely populated
//! partition index pages".

use bytes::Bytes;
use espalier_mutation::{DecoratedKeyRef, Token};

use super::partition_index::PromotedLocation;
use espalier_types::vint;

const ENTRY_BYTES: usize = 16;

/// Maximum length of a page in bytes. A longer page is not built, because building or freeing it
/// takes one uninterrupted step, which would stall the core. An interval of the usual 128
/// partitions takes about 3 KiB.
const MAX_BYTES: usize = 512 * 1024;

/// The content of an entry besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlatEntry {
    pub(crate) data_position: u64,
    /// Position in Index.db at which the entry begins.
    pub(crate) position: u64,
    pub(crate) promoted: Option<PromotedLocation>,
    pub(crate) next_position: u64,
}

/// Builds a page entry by entry.
#[derive(Debug, Default)]
pub(super) struct FlatPageBuilder {
    start: u64,
    entries: Vec<u8>,
    keys: Vec<u8>,
    count: u32,
}

impl FlatPageBuilder {
    pub(super) fn new(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Adds the next entry. Returns false if the page cannot hold it. Either the page would be too
    /// large, or the interval is longer than 4 GiB, or the integers of the entry are longer than
    /// necessary. In the last case, the position of the promoted index cannot be derived from the
    /// page.
    pub(super) fn add(&mut self, key: &[u8], entry: &FlatEntry) -> bool {
        let Some(relative) = entry.position.checked_sub(self.start) else { return false };
        let Ok(relative) = u32::try_from(relative) else { return false };
        if self.entries.len() + self.keys.len() + ENTRY_BYTES + key.len() > MAX_BYTES {
            return false;
        }
        self.keys.extend_from_slice(key);
        let Ok(key_end) = u32::try_from(self.keys.len()) else { return false };
        if promoted(entry.position, key.len(), entry.data_position, entry.next_position)
            != Some(entry.promoted)
        {
            return false;
        }
        let places = u128::from(relative) | u128::from(key_end) << 32;
        let bytes = u128::from(entry.data_position) | places << 64;
        self.entries.extend_from_slice(&bytes.to_le_bytes());
        self.count += 1;
        true
    }

    pub(super) fn finish(mut self) -> Bytes {
        self.entries.reserve_exact(self.keys.len() + 4);
        self.entries.extend_from_slice(&self.keys);
        self.entries.extend_from_slice(&self.count.to_le_bytes());
        Bytes::from(self.entries.into_boxed_slice())
    }
}

/// Derives the location of an entry's promoted index, if it has one, from the length of its head.
/// The entry ends at `next`. Returns `None` if no entry of this form has that length.
fn promoted(
    position: u64,
    key_length: usize,
    data_position: u64,
    next: u64,
) -> Option<Option<PromotedLocation>> {
    let head = 2 + key_length as u64 + vint::unsigned_length(data_position) as u64;
    let rest = next.checked_sub(position)?.checked_sub(head)?;
    // Most partitions are not wide.
    if rest == 1 {
        return Some(None);
    }
    (1..=9u64).find_map(|size| {
        let length = rest.checked_sub(size)?;
        (vint::unsigned_length(length) as u64 == size).then(|| {
            let start = next - length;
            (length > 0).then_some(PromotedLocation { start, length })
        })
    })
}

/// A page, borrowed from the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlatPage<'page> {
    entries: &'page [[u8; ENTRY_BYTES]],
    keys: &'page [u8],
}

impl<'page> FlatPage<'page> {
    /// Wraps the bytes of a page that [`FlatPageBuilder`] built. Returns `None` for an empty page,
    /// which means that the interval has no flat form.
    #[inline]
    pub(crate) fn new(bytes: &'page [u8]) -> Option<Self> {
        let (rest, count) = bytes.split_last_chunk::<4>()?;
        let length = ENTRY_BYTES.checked_mul(u32::from_le_bytes(*count) as usize)?;
        let (entries, keys) = rest.split_at_checked(length)?;
        Some(Self { entries: entries.as_chunks().0, keys })
    }

    fn field(&self, index: usize, at: usize) -> Option<usize> {
        let bytes = self.entries.get(index)?.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    }

    #[inline]
    fn key(&self, index: usize) -> Option<&'page [u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => self.field(before, 12)?,
            None => 0,
        };
        self.keys.get(start..self.field(index, 12)?)
    }

    /// Returns the entry with exactly this key. `tokens` are the tokens at both ends of the
    /// interval; `start` and `end` are the positions of both ends in Index.db.
    #[inline]
    pub(crate) fn find(
        &self,
        key: DecoratedKeyRef<'_>,
        tokens: (Token, Token),
        start: u64,
        end: u64,
    ) -> Option<FlatEntry> {
        let index = self.search(key, tokens)?;
        let data_position = u64::from_le_bytes(*self.entries.get(index)?.first_chunk()?);
        let position = start + self.field(index, 8)? as u64;
        let next_position = match self.field(index + 1, 8) {
            Some(next) => start + next as u64,
            None => end,
        };
        let promoted = promoted(position, key.key.len(), data_position, next_position)?;
        Some(FlatEntry { data_position, position, promoted, next_position })
    }

    /// Finds the number of the entry with this key. Tokens are hashes and therefore spread evenly,
    /// so the search first interpolates the number. Then it continues from that entry with steps
    /// that double, and ends with a binary search.
    #[inline]
    fn search(&self, key: DecoratedKeyRef<'_>, tokens: (Token, Token)) -> Option<usize> {
        let count = self.entries.len();
        let compare =
            |index: usize| self.key(index).map(|found| key.compare(DecoratedKeyRef::new(found)));
        let distance = |token: Token| token.0.wrapping_sub(tokens.0.0) as u64;
        let width = u128::from(distance(tokens.1).max(1));
        let guess = (u128::from(distance(key.token)) * count as u128 / width) as usize;
        let guess = guess.min(count.checked_sub(1)?);
        let (mut low, mut high) = match compare(guess)? {
            std::cmp::Ordering::Equal => return Some(guess),
            std::cmp::Ordering::Less => {
                let (mut step, mut high) = (1, guess);
                loop {
                    let low = high.saturating_sub(step);
                    if low == high {
                        break (low, high);
                    }
                    match compare(low)? {
                        std::cmp::Ordering::Equal => return Some(low),
                        std::cmp::Ordering::Less => (high, step) = (low, step * 2),
                        std::cmp::Ordering::Greater => break (low + 1, high),
                    }
                }
            }
            std::cmp::Ordering::Greater => {
                let (mut step, mut low) = (1, guess + 1);
                loop {
                    let high = (low + step - 1).min(count);
                    if high >= count {
                        break (low, count);
                    }
                    match compare(high)? {
                        std::cmp::Ordering::Equal => return Some(high),
                        std::cmp::Ordering::Greater => (low, step) = (high + 1, step * 2),
                        std::cmp::Ordering::Less => break (low, high),
                    }
                }
            }
        };
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(middle)? {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => high = middle,
                std::cmp::Ordering::Greater => low = middle + 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use espalier_mutation::DecoratedKey;
    use proptest::prelude::*;

    use super::*;

    /// Builds a page of these keys, each with a promoted index of the given length in bytes.
    /// Returns the page, the end of its interval, and its entries.
    fn page(keys: &[(DecoratedKey, u64)], start: u64) -> (Bytes, u64, Vec<FlatEntry>) {
        let mut builder = FlatPageBuilder::new(start);
        let (mut position, mut entries) = (start, Vec::new());
        for (number, (key, length)) in keys.iter().enumerate() {
            let data_position = number as u64 * 100;
            let head = 2 + key.key.len() as u64 + vint::unsigned_length(data_position) as u64;
            let promoted_start = position + head + vint::unsigned_length(*length) as u64;
            let next_position = promoted_start + length;
            let promoted = (*length > 0)
                .then_some(PromotedLocation { start: promoted_start, length: *length });
            let entry = FlatEntry { data_position, position, promoted, next_position };
            assert!(builder.add(&key.key, &entry));
            entries.push(entry);
            position = next_position;
        }
        (builder.finish(), position, entries)
    }

    proptest! {
        #[test]
        fn every_key_is_found_and_no_other(
            keys in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 1..20), prop_oneof![Just(0u64), 1u64..70_000], 1..200),
            others in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 20),
            start in 0u64..1 << 40,
        ) {
            let mut sorted: Vec<_> = keys
                .iter()
                .map(|(key, length)| (DecoratedKey::new(Bytes::from(key.clone())), *length))
                .collect();
            sorted.sort();
            let (bytes, end, entries) = page(&sorted, start);
            let flat = FlatPage::new(&bytes).unwrap();
            let tokens = (sorted[0].0.token, sorted[sorted.len() - 1].0.token);
            for tokens in [tokens, (Token(i64::MIN), Token(i64::MAX)), (tokens.0, tokens.0)] {
                for ((key, _), entry) in sorted.iter().zip(&entries) {
                    prop_assert_eq!(flat.find(key.borrowed(), tokens, start, end), Some(*entry));
                }
                for other in others.iter().filter(|other| !keys.contains_key(*other)) {
                    let other = DecoratedKeyRef::new(other);
                    prop_assert_eq!(flat.find(other, tokens, start, end), None);
                }
            }
        }
    }

    #[test]
    fn an_invalid_or_empty_flat_page_has_no_entries() {
        assert!(FlatPage::new(&[]).is_none());
        assert!(FlatPage::new(&[1, 0, 0, 0]).is_none());
        let none = FlatPageBuilder::new(0).finish();
        let key = DecoratedKeyRef::new(b"k");
        let tokens = (Token(0), Token(1));
        assert_eq!(FlatPage::new(&none).unwrap().find(key, tokens, 0, 0), None);
    }

    #[test]
    fn an_entry_that_is_not_as_it_should_be_has_no_room() {
        let mut builder = FlatPageBuilder::new(1000);
        let entry =
            FlatEntry { data_position: 5, position: 1000, promoted: None, next_position: 1006 };
        // The entry has six bytes. An entry of this key without a promoted index has only five: two
        // for the length of the key, one for the key, one for the position, and one for the length
        // of the promoted index.
        assert!(!builder.add(b"k", &entry));
        assert!(!builder.add(b"k", &FlatEntry { position: 999, ..entry }));
        assert!(!builder.add(b"k", &FlatEntry { position: 1 << 33, ..entry }));
    }
}
