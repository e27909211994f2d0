//! The list of retired blocks and contents, which may still have readers, in order of epochs.
//!
//! Memory bound: 1 KiB for each bag. A bag holds up to [`BAG`] blocks or contents of one epoch, so
//! each epoch may have a bag that is mostly empty. The queue of bags is small enough to grow
//! without a pause.

use super::pointer::{Kind, Pointer};
use std::collections::VecDeque;

/// The maximum number of pointers in one bag.
const BAG: usize = 256;
/// Empty bags that are kept, so that steady traffic allocates none.
const SPARE_BAGS: usize = 2;

struct Bag {
    /// The epoch in which all its pointers were retired.
    epoch: u64,
    pointers: Vec<Pointer>,
}

#[derive(Default)]
pub(crate) struct RetiredBlocks {
    /// Earlier epochs first. Only the last bag may be empty.
    bags: VecDeque<Bag>,
    spare: Vec<Vec<Pointer>>,
    blocks: u32,
    contents: u32,
}

impl RetiredBlocks {
    /// Adds a unit that is retired in `epoch`, the latest so far.
    #[inline]
    pub(crate) fn push(&mut self, epoch: u64, pointer: Pointer) {
        match pointer.kind() {
            Kind::Leaf => self.contents += 1,
            kind => self.blocks += kind.blocks(),
        }
        match self.bags.back_mut() {
            Some(bag) if bag.epoch == epoch && bag.pointers.len() < BAG => {
                bag.pointers.push(pointer);
            }
            Some(bag) if bag.pointers.is_empty() => {
                bag.epoch = epoch;
                bag.pointers.push(pointer);
            }
            _ => {
                let mut pointers = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BAG));
                pointers.push(pointer);
                self.bags.push_back(Bag { epoch, pointers });
            }
        }
    }

    /// Removes a unit that was retired in an epoch before `bound`.
    #[inline]
    pub(crate) fn pop(&mut self, bound: u64) -> Option<Pointer> {
        let bag = self.bags.front_mut().filter(|bag| bag.epoch < bound)?;
        let pointer = bag.pointers.pop()?;
        if bag.pointers.is_empty()
            && self.bags.len() > 1
            && let Some(bag) = self.bags.pop_front()
            && self.spare.len() < SPARE_BAGS
        {
            self.spare.push(bag.pointers);
        }
        match pointer.kind() {
            Kind::Leaf => self.contents -= 1,
            kind => self.blocks -= kind.blocks(),
        }
        Some(pointer)
    }

    /// Removes the unit that was added last.
    pub(crate) fn pop_last(&mut self) -> Option<Pointer> {
        // An earlier call may have emptied the last bag.
        while self.bags.len() > 1 && self.bags.back().is_some_and(|bag| bag.pointers.is_empty()) {
            self.bags.pop_back();
        }
        let pointer = self.bags.back_mut()?.pointers.pop()?;
        match pointer.kind() {
            Kind::Leaf => self.contents -= 1,
            kind => self.blocks -= kind.blocks(),
        }
        Some(pointer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks == 0 && self.contents == 0
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns the number of contents.
    pub(crate) fn contents(&self) -> u32 {
        self.contents
    }

    /// Returns all units.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pointer> {
        self.bags.iter().flat_map(|bag| bag.pointers.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retired_blocks_are_popped_by_epoch() {
        let mut retired = RetiredBlocks::default();
        for number in 0..1000 {
            retired.push(u64::from(number / 300), Pointer::leaf(number));
        }
        retired.push(3, Pointer::sparse(1000));
        assert_eq!((retired.blocks(), retired.contents(), retired.iter().count()), (1, 1000, 1001));
        for bound in 0..=4 {
            let mut out = Vec::new();
            while let Some(pointer) = retired.pop(bound) {
                out.push(pointer.index());
            }
            out.sort_unstable();
            let expected = match bound {
                0 => 0..0,
                4 => 900..1001,
                _ => 300 * (bound as u32 - 1)..300 * bound as u32,
            };
            assert_eq!(out, expected.collect::<Vec<_>>());
        }
        assert!(retired.is_empty() && retired.bags.len() == 1);
        retired.push(9, Pointer::leaf(1));
        assert_eq!(retired.pop(9), None);
        assert_eq!(retired.pop(10), Some(Pointer::leaf(1)));
    }
}
