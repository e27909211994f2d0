//! The nodes that a transaction has already copied. No reader sees them, so the transaction changes
//! them in place. A write of many rows while there is a reader copies each node once, and not once
//! for each row.
//!
//! The record is a set of the nodes' first blocks, with open addressing. Nothing is recycled during
//! a transaction, so a listed block cannot become another node.
//!
//! Memory bound: 24 bytes for each node copied, while the transaction lasts. Afterwards at most the
//! bytes for [`KEPT`] nodes, and 8 bytes for each node that a transaction of a single change
//! copied.

/// Nodes whose room is kept, so that a small transaction allocates nothing (arbitrary).
const KEPT: usize = 32;

#[derive(Default)]
pub(crate) struct OwnBlocks {
    /// The nodes copied for the present change, which passes each node once. Most transactions have
    /// one change and do not need the set.
    fresh: Vec<u32>,
    /// The table: a power of two of places, or none. 0 is a free place, because block 0 is never
    /// used.
    places: Vec<u32>,
    /// The number of taken places.
    count: usize,
}

impl OwnBlocks {
    /// Removes all nodes.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.fresh.clear();
        if self.count != 0 {
            self.clear_places();
        }
    }

    #[cold]
    fn clear_places(&mut self) {
        self.count = 0;
        self.places.clear();
        self.places.shrink_to(2 * KEPT);
        self.fresh.shrink_to(KEPT);
    }

    /// Begins another change.
    #[inline]
    pub(crate) fn next_change(&mut self) {
        while let Some(block) = self.fresh.pop() {
            self.insert(block);
        }
    }

    /// Adds a copied node.
    #[inline]
    pub(crate) fn add(&mut self, block: u32) {
        self.fresh.push(block);
    }

    /// Returns whether the node was copied by an earlier change.
    #[inline]
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.count != 0 && self.places[self.place(block)] == block
    }

    fn insert(&mut self, block: u32) {
        if 2 * (self.count + 1) > self.places.len() {
            let longer = vec![0; (2 * self.places.len()).max(2 * KEPT)];
            for block in std::mem::replace(&mut self.places, longer) {
                if block != 0 {
                    let place = self.place(block);
                    self.places[place] = block;
                }
            }
        }
        let place = self.place(block);
        self.count += usize::from(self.places[place] == 0);
        self.places[place] = block;
    }

    /// Returns the place at which the block is, or belongs. There is always a free place.
    fn place(&self, block: u32) -> usize {
        let mask = self.places.len() - 1;
        // The upper bits of a product are well mixed.
        let mixed = u64::from(block).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mut place = mixed as usize & mask;
        while self.places[place] != 0 && self.places[place] != block {
            place = (place + 1) & mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_blocks_of_earlier_changes_until_it_is_cleared() {
        let mut own = OwnBlocks::default();
        for count in [0, 1, 31, 32, 33, 5000] {
            for block in 1..=count {
                assert!(!own.contains(block * 7));
                own.add(block * 7);
                assert!(!own.contains(block * 7));
                if block % 3 == 0 || block == count {
                    own.next_change();
                    assert!(own.contains(block * 7));
                }
            }
            assert!((1..=count * 7).all(|block| own.contains(block) == block.is_multiple_of(7)));
            own.clear();
            assert!(own.places.capacity() <= 2 * KEPT && own.fresh.capacity() <= KEPT);
            assert!(!own.contains(7));
        }
    }
}
