//! The ghost list remembers rows that were evicted lately, by hashes of their keys.
//!
//! Memory: 2 to 4 bytes for each [`BYTES_OF_A_PLACE`] bytes that rows may take, allocated as
//! evictions fill the list.

/// The ghost list has at least one slot for each 96 bytes of the cache, which is the memory of a
/// small row. The number of slots is a power of two.
const BYTES_OF_A_PLACE: usize = 96;
/// Slots are allocated in parts of 4 KiB when they are needed. If they were one allocation, each of
/// the first evicted rows would touch another huge page. A huge page takes milliseconds if the host
/// of a virtual machine has to provide it.
const PLACES_OF_A_PART: usize = 2048;
/// The ghost list: rows that were evicted lately, by a hash of their keys.
#[derive(Default)]
pub(super) struct GhostList {
    /// 16 bits of each hash, 0 for an empty slot, in parts of [`PLACES_OF_A_PART`].
    parts: Vec<Option<Box<[u16]>>>,
    /// Rows that were inserted again while they were in the list.
    pub(super) returned: u64,
}

impl GhostList {
    pub(super) fn new(limit_bytes: usize) -> Self {
        let places = (limit_bytes / BYTES_OF_A_PLACE).next_power_of_two();
        Self { parts: vec![None; places.div_ceil(PLACES_OF_A_PART)], returned: 0 }
    }

    /// Returns the part, the slot in it, and the tag that the slot holds for this key.
    fn place(&self, key: u64) -> (usize, usize, u16) {
        let place = (key >> 16) as usize;
        // The number of parts is a power of two.
        let part = (place / PLACES_OF_A_PART) & (self.parts.len() - 1);
        (part, place % PLACES_OF_A_PART, key as u16 | 1)
    }

    /// Records the eviction of a row.
    pub(super) fn note(&mut self, key: u64) {
        let (part, place, tag) = self.place(key);
        let part = &mut self.parts[part];
        part.get_or_insert_with(|| vec![0; PLACES_OF_A_PART].into_boxed_slice())[place] = tag;
    }

    /// Counts an inserted row if it was evicted lately, and removes it from the list.
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

/// Hashes the two parts of a key. The hash is used only inside the process.
pub(super) fn hash(prefix: &[u8], place: &[u8]) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(7).build_hasher();
    // The hash does not depend on where the key is split.
    for chunk in [prefix, place].concat().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hasher.write_u64(u64::from_le_bytes(word));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_count_rows_that_return_soon_after_eviction() {
        let mut ghosts = GhostList::new(96 << 10);
        let key = |number: u64| hash(&number.to_be_bytes(), b"place");
        (0..200).for_each(|number| ghosts.note(key(number)));
        (1000..1200).for_each(|number| ghosts.recall(key(number)));
        assert!(ghosts.returned <= 2, "{}", ghosts.returned);
        (0..200).for_each(|number| ghosts.recall(key(number)));
        assert!((150..=202).contains(&ghosts.returned), "{}", ghosts.returned);
        // A row counts once.
        let before = ghosts.returned;
        (0..200).for_each(|number| ghosts.recall(key(number)));
        assert_eq!(ghosts.returned, before);
        // Rows that were evicted long ago do not count.
        (0..50_000).for_each(|number| ghosts.note(key(10_000 + number)));
        (10_000..11_000).for_each(|number| ghosts.recall(key(number)));
        assert!(ghosts.returned < before + 50, "{}", ghosts.returned);
    }

    #[test]
    fn a_key_has_one_hash() {
        assert_eq!(hash(b"0123456789", b"abc"), hash(b"0123456789abc", b""));
        assert_ne!(hash(b"0123456789", b"abc"), hash(b"0123456789", b"abd"));
    }
}
