//! How much rows and pages have of the memory that they share (rule 13): it goes to those who ask for what they had to give away.
//!
//! Rows and pages are not alike: a row is found by its place, a page is shared by many rows, and each side knows best which of its own is
//! used least. So each keeps its order, and what they compare is what went too early. Both remember what made room lately, as far back as about what
//! they hold; what is read again from files before it is forgotten there counts for its side. Every second the border
//! moves by a page for each such row or page that one side has more than the other, at most by a part of all. So in the end both miss
//! the same, as they would in one order. (The idea is that of ARC, N. Megiddo and D. Modha, FAST 2003, for its two lists.)
//!
//! Memory: 2 bytes for each [`BYTES_OF_A_PLACE`] that rows may take, once so many have gone.

use espalier_runtime::{file::PAGE_BYTES, maybe_yield};

use super::{Inner, RowCache};

/// Rows that went are remembered by so many bytes of the cache: the memory of a small one.
const BYTES_OF_A_PLACE: usize = 96;
/// Places come in parts of 4 KiB when they are needed. In one piece, the first rows that go would each touch a huge page of it, of which
/// each takes milliseconds where the host of a virtual machine has to bring it.
const PLACES_OF_A_PART: usize = 2048;
/// Rows keep this part of what they may have.
const LEAST_PART: usize = 8;
/// At most this part of it changes sides at a time.
const STEP_PART: usize = 32;
/// Turns of the hand for one step: if readers keep so much that it does not get there, the next step goes on.
const MOST_TURNS: usize = 1 << 14;

/// The rows that made room lately, by a hash of their keys.
#[derive(Default)]
pub(super) struct Gone {
    /// 16 bits of the hash; 0: nothing. In parts of [`PLACES_OF_A_PART`].
    parts: Vec<Option<Box<[u16]>>>,
    /// Those that were added again.
    pub(super) returned: u64,
}

impl Gone {
    pub(super) fn new(limit_bytes: usize) -> Self {
        let places = (limit_bytes / BYTES_OF_A_PLACE).next_power_of_two();
        Self { parts: vec![None; places.div_ceil(PLACES_OF_A_PART)], returned: 0 }
    }

    /// Part, place in it, and what stands there.
    fn place(&self, key: u64) -> (usize, usize, u16) {
        let place = (key >> 16) as usize;
        // A power of two.
        let part = (place / PLACES_OF_A_PART) & (self.parts.len() - 1);
        (part, place % PLACES_OF_A_PART, key as u16 | 1)
    }

    /// A row makes room.
    pub(super) fn note(&mut self, key: u64) {
        let (part, place, tag) = self.place(key);
        let part = &mut self.parts[part];
        part.get_or_insert_with(|| vec![0; PLACES_OF_A_PART].into_boxed_slice())[place] = tag;
    }

    /// A row is added.
    pub(super) fn recall(&mut self, key: u64) {
        let (part, place, tag) = self.place(key);
        if let Some(part) = &mut self.parts[part]
            && part[place] == tag
        {
            part[place] = 0;
            self.returned += 1;
        }
    }
}

/// Of the parts of a key. Only this process sees it.
pub(super) fn hash(prefix: &[u8], place: &[u8]) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(7).build_hasher();
    // The same for the same key, however it is parted.
    for chunk in [prefix, place].concat().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hasher.write_u64(u64::from_le_bytes(word));
    }
    hasher.finish()
}

impl RowCache {
    /// Moves the border between rows and pages to where what went is asked for again. Every second.
    pub(crate) async fn balance(&self) {
        if !self.0.borrow_mut().move_border() {
            return;
        }
        for _ in 0..MOST_TURNS {
            {
                let mut inner = self.0.borrow_mut();
                if !inner.is_over(0) || inner.trie.is_empty() {
                    break;
                }
                inner.make_room();
            }
            maybe_yield().await;
        }
    }
}

impl Inner {
    /// `true`: rows have less than before.
    fn move_border(&mut self) -> bool {
        let pages = self.pages.returned();
        let (of_rows, of_pages) = (
            std::mem::take(&mut self.gone.returned),
            pages - std::mem::replace(&mut self.pages_returned, pages),
        );
        // Filters are taken from both sides alike, and small ones from pages alone.
        let of_filters = self.pages.pinned_bytes() as f64 / self.budget_bytes.max(1) as f64;
        let most = match of_filters < 1.0 / STEP_PART as f64 {
            true => self.most_bytes,
            false => (self.most_bytes as f64 * (1.0 - of_filters).max(0.0)) as usize,
        };
        let step = |more: u64| (more as usize).saturating_mul(PAGE_BYTES).min(most / STEP_PART);
        let before = self.limit_bytes;
        self.limit_bytes = match of_rows >= of_pages {
            true => (before + step(of_rows - of_pages)).min(most),
            false => before.saturating_sub(step(of_pages - of_rows)).clamp(most / LEAST_PART, most),
        };
        self.limit_bytes < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_come_back_soon_are_known() {
        let mut gone = Gone::new(96 << 10);
        let key = |number: u64| hash(&number.to_be_bytes(), b"place");
        (0..200).for_each(|number| gone.note(key(number)));
        (1000..1200).for_each(|number| gone.recall(key(number)));
        assert!(gone.returned <= 2, "{}", gone.returned);
        (0..200).for_each(|number| gone.recall(key(number)));
        assert!((150..=202).contains(&gone.returned), "{}", gone.returned);
        // Each counts once.
        let before = gone.returned;
        (0..200).for_each(|number| gone.recall(key(number)));
        assert_eq!(gone.returned, before);
        // Those that went long ago do not count.
        (0..50_000).for_each(|number| gone.note(key(10_000 + number)));
        (10_000..11_000).for_each(|number| gone.recall(key(number)));
        assert!(gone.returned < before + 50, "{}", gone.returned);
    }

    #[test]
    fn a_key_has_one_hash() {
        assert_eq!(hash(b"0123456789", b"abc"), hash(b"0123456789abc", b""));
        assert_ne!(hash(b"0123456789", b"abc"), hash(b"0123456789", b"abd"));
    }
}
