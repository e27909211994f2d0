//! The last eight bytes of a sparse node: six transition bytes and the word that orders them.
//!
//! Children are appended, never moved, so that a reader's view of the earlier ones stays valid; the
//! order word gives the order in which to list them (paper, section 5.1). Bytes and order are in
//! one 64-bit word that the writer replaces at once, so that a reader needs a single load to know
//! the children. The order is five digits of three bits, least byte first: the index of a child, or
//! 7 for none; with six children the top bit is set and the sixth index is the one left.
//!
//! Unused transition bytes repeat the first one. The search returns the lowest index that matches,
//! so it does not need the number of children.

use super::node::SPARSE_WIDTH;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SparseWord(u64);

const ORDER_SHIFT: u32 = 48;
const SIXTH: u64 = 1 << 63;
const EACH_BYTE: u64 = 0x0101_0101_0101;
/// The sum of all indices 0..=5.
const INDEX_SUM: u32 = 15;

impl SparseWord {
    pub(crate) const fn from_raw(raw: u64) -> SparseWord {
        SparseWord(raw)
    }

    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Makes the word for two to six children with these bytes, all different, at the same indices.
    pub(crate) fn new(bytes: &[u8]) -> SparseWord {
        let mut word = SparseWord((u64::from(bytes[0]) * EACH_BYTE) | (0x7fff << ORDER_SHIFT));
        for (count, &byte) in bytes.iter().enumerate() {
            word = word.with(count, byte);
        }
        word
    }

    /// Adds a child with a new byte at index `count`, the present number of children.
    pub(crate) fn with(self, count: usize, byte: u8) -> SparseWord {
        debug_assert!(count < SPARSE_WIDTH && count == self.count());
        let mut order = self.order();
        let rank = (0..count).filter(|&index| self.byte(index) < byte).count();
        let below = (1 << (3 * rank)) - 1;
        order = order & below | (count as u32) << (3 * rank) | (order & !below) << 3;
        let shift = 8 * count as u32;
        let bytes = self.0 & (EACH_BYTE * 0xFF) & !(0xFF << shift) | u64::from(byte) << shift;
        let sixth = if count == SPARSE_WIDTH - 1 { SIXTH } else { 0 };
        SparseWord(bytes | u64::from(order & 0x7fff) << ORDER_SHIFT | sixth)
    }

    /// Returns the index of the child for `byte`.
    #[inline(always)]
    pub(crate) fn find(self, byte: u8) -> Option<usize> {
        let difference = self.0 ^ (u64::from(byte) * EACH_BYTE);
        // The lowest zero byte is found exactly; a borrow can spoil only those above it.
        let zeros = difference.wrapping_sub(EACH_BYTE) & !difference & (EACH_BYTE << 7);
        if zeros == 0 { None } else { Some(zeros.trailing_zeros() as usize / 8) }
    }

    /// Returns the transition byte of a child.
    pub(crate) const fn byte(self, index: usize) -> u8 {
        (self.0 >> (8 * index)) as u8
    }

    pub(crate) const fn count(self) -> usize {
        if self.0 & SIXTH != 0 {
            return SPARSE_WIDTH;
        }
        // Absent digits are 111 and at the top; the digits of indices never begin with 11.
        let digits = (self.0 >> (ORDER_SHIFT - 1)) as u16;
        5 - digits.leading_ones() as usize / 3
    }

    /// Returns the indices in ascending order of their bytes: six digits of three bits, the least
    /// byte's lowest, 7 for none.
    pub(crate) const fn order(self) -> u32 {
        let digits = (self.0 >> ORDER_SHIFT) as u32 & 0x7fff;
        let sixth = if self.0 & SIXTH != 0 {
            INDEX_SUM
                - (digits & 7)
                - (digits >> 3 & 7)
                - (digits >> 6 & 7)
                - (digits >> 9 & 7)
                - (digits >> 12)
        } else {
            7
        };
        digits | sixth << 15
    }

    /// Returns the indices as [`SparseWord::order`] does, but the greatest byte's index first.
    pub(crate) const fn reverse_order(self) -> u32 {
        let (mut digits, mut reversed) = (self.order(), 0o777_777);
        while digits & 7 != 7 {
            reversed = reversed << 3 & 0o777_777 | digits & 7;
            digits = digits >> 3 | 7 << 15;
        }
        reversed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(word: SparseWord, mut digits: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..6 {
            if digits & 7 != 7 {
                bytes.push(word.byte((digits & 7) as usize));
            }
            digits >>= 3;
        }
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 3 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn a_sparse_word_finds_and_orders_its_bytes(set in prop::collection::hash_set(any::<u8>(), 2..=6)) {
            let bytes: Vec<u8> = set.into_iter().collect();
            let word = SparseWord::new(&bytes);
            let mut sorted = bytes.clone();
            sorted.sort();
            prop_assert_eq!(word.count(), bytes.len());
            prop_assert_eq!(&listed(word, word.order()), &sorted);
            sorted.reverse();
            prop_assert_eq!(&listed(word, word.reverse_order()), &sorted);
            for byte in 0..=255 {
                prop_assert_eq!(word.find(byte), bytes.iter().position(|&b| b == byte));
            }
        }
    }
}
