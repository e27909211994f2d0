//! A node in its page: it is navigated in place, not parsed into objects.
//!
//! Nothing in the bytes is trusted. [`Node::at`] checks that head and child table lie within the
//! page, and everything after that reads only checked bytes; a child must lie strictly before its
//! parent, so that no path is a cycle. One thing cannot be checked here: several parents may share
//! a child, so that a hostile file can spell exponentially many keys. A caller that iterates must
//! bound their number.

use super::error::{CorruptNode, Fault};
use super::layout::{NodeKind, PAGE_SIZE, Shape};

/// The place of a byte among a node's transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// This slot has a child for the byte.
    Found(usize),
    /// There is no child for the byte. The transitions of the slots before this one are less than
    /// the byte; those of this slot and of later ones are greater.
    Missing(usize),
}

/// A node within its page. Slots number the children in transition order; in a dense node some are
/// empty.
#[derive(Clone, Copy, Debug)]
pub struct Node<'page> {
    /// From the node's first byte to the end of its page.
    bytes: &'page [u8],
    position: u64,
    kind: NodeKind,
    slots: usize,
    body_size: usize,
}

impl<'page> Node<'page> {
    /// Opens the node at `position` of the file. `page` is the page that holds the position
    /// (shorter than [`PAGE_SIZE`] if it is the last of the file).
    ///
    /// # Errors
    /// Fails if the bytes are not a valid node.
    #[inline]
    pub fn at(page: &'page [u8], position: u64) -> Result<Node<'page>, CorruptNode> {
        let fault = CorruptNode { position, fault: Fault::PastPage };
        let page = page.get(..PAGE_SIZE).unwrap_or(page);
        let bytes = page.get((position % PAGE_SIZE as u64) as usize..).ok_or(fault)?;
        let kind = NodeKind::of_header(*bytes.first().ok_or(fault)?);
        let slots = match kind.shape() {
            Shape::Leaf => 0,
            Shape::Single => 1,
            Shape::Sparse => usize::from(*bytes.get(1).ok_or(fault)?),
            Shape::Dense => {
                let [_, first, length_less_one, ..] = *bytes else { return Err(fault) };
                if first.checked_add(length_less_one).is_none() {
                    return Err(CorruptNode { position, fault: Fault::Transitions });
                }
                usize::from(length_less_one) + 1
            }
        };
        let body_size = kind.body_size(slots);
        if body_size > bytes.len() {
            return Err(fault);
        }
        let node = Node { bytes, position, kind, slots, body_size };
        if slots == 0 && node.payload_bits() == 0 {
            return Err(CorruptNode { position, fault: Fault::Empty });
        }
        Ok(node)
    }

    /// Returns the position of the first byte in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the kind.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Returns the payload bits, 1..=15, which the trie's owner defines, or 0 if there is no
    /// payload.
    #[inline]
    pub fn payload_bits(&self) -> u8 {
        if self.kind.can_have_payload() { self.byte(0) & 0x0F } else { 0 }
    }

    /// Returns whether a key ends here.
    #[inline]
    pub fn has_payload(&self) -> bool {
        self.payload_bits() != 0
    }

    /// Returns the bytes from the start of the payload to the end of the page. The format does not
    /// store where a payload ends; the trie's owner must compute it.
    pub fn payload(&self) -> &'page [u8] {
        self.bytes.get(self.body_size..).unwrap_or_default()
    }

    /// Returns the length of the node in bytes, without the payload.
    pub fn body_size(&self) -> usize {
        self.body_size
    }

    /// Returns the number of slots for children, 0..=256. Slots of a dense node may be empty.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the byte that leads to the child in `slot`, which is less than [`Node::slots`].
    #[inline]
    pub fn transition(&self, slot: usize) -> u8 {
        match self.kind {
            NodeKind::SingleNoPayload12 => self.byte(2),
            _ => match self.kind.shape() {
                Shape::Single => self.byte(1),
                Shape::Sparse => self.byte(2 + slot),
                // `Node::at` has checked that the sum does not overflow.
                _ => self.byte(1).wrapping_add(slot as u8),
            },
        }
    }

    /// Returns the position of the child in `slot`, or none if the slot is empty.
    ///
    /// # Errors
    /// Fails if the distance reaches before the file, or is 0 in a node that is not dense.
    #[inline]
    pub fn child(&self, slot: usize) -> Result<Option<u64>, CorruptNode> {
        let distance = self.distance(slot);
        if distance == 0 && self.kind.shape() == Shape::Dense {
            return Ok(None);
        }
        match self.position.checked_sub(distance) {
            Some(child) if distance != 0 => Ok(Some(child)),
            _ => Err(self.corrupt(Fault::Distance { distance })),
        }
    }

    /// Finds the place of `transition` among the children.
    #[inline]
    pub fn search(&self, transition: u8) -> Search {
        match self.kind.shape() {
            Shape::Leaf => Search::Missing(0),
            Shape::Sparse => {
                let transitions = self.bytes.get(2..2 + self.slots).unwrap_or_default();
                let slot = transitions.partition_point(|&other| other < transition);
                match transitions.get(slot) {
                    Some(&other) if other == transition => Search::Found(slot),
                    _ => Search::Missing(slot),
                }
            }
            Shape::Single => match transition.cmp(&self.transition(0)) {
                std::cmp::Ordering::Less => Search::Missing(0),
                std::cmp::Ordering::Equal => Search::Found(0),
                std::cmp::Ordering::Greater => Search::Missing(1),
            },
            Shape::Dense => match transition.checked_sub(self.byte(1)).map(usize::from) {
                None => Search::Missing(0),
                Some(slot) if slot >= self.slots => Search::Missing(self.slots),
                Some(slot) if self.distance(slot) == 0 => Search::Missing(slot),
                Some(slot) => Search::Found(slot),
            },
        }
    }

    /// Returns the position of the child for `transition`.
    ///
    /// # Errors
    /// Fails as [`Node::child`] does.
    #[inline]
    pub fn child_for(&self, transition: u8) -> Result<Option<u64>, CorruptNode> {
        match self.search(transition) {
            Search::Found(slot) => self.child(slot),
            Search::Missing(_) => Ok(None),
        }
    }

    /// Returns slot and position of the last child in a slot before `slot`.
    ///
    /// # Errors
    /// Fails as [`Node::child`] does.
    pub fn child_before(&self, slot: usize) -> Result<Option<(usize, u64)>, CorruptNode> {
        for slot in (0..slot.min(self.slots)).rev() {
            if let Some(child) = self.child(slot)? {
                return Ok(Some((slot, child)));
            }
        }
        Ok(None)
    }

    /// Returns slot and position of the first child in `slot` or a later slot.
    ///
    /// # Errors
    /// Fails as [`Node::child`] does.
    pub fn child_from(&self, slot: usize) -> Result<Option<(usize, u64)>, CorruptNode> {
        for slot in slot..self.slots {
            if let Some(child) = self.child(slot)? {
                return Ok(Some((slot, child)));
            }
        }
        Ok(None)
    }

    /// Makes an error that names this node.
    pub fn corrupt(&self, fault: Fault) -> CorruptNode {
        CorruptNode { position: self.position, fault }
    }

    #[inline]
    fn distance(&self, slot: usize) -> u64 {
        let start = match self.kind.shape() {
            Shape::Leaf => return 0,
            Shape::Single => match self.kind {
                NodeKind::SingleNoPayload4 => return u64::from(self.byte(0) & 0x0F),
                NodeKind::SingleNoPayload12 => {
                    return u64::from(self.byte(0) & 0x0F) << 8 | u64::from(self.byte(1));
                }
                _ => 2,
            },
            Shape::Sparse => 2 + self.slots,
            Shape::Dense => 3,
        };
        match self.kind.distance_bits() {
            12 => {
                let pair = start + slot / 2 * 3;
                if slot.is_multiple_of(2) {
                    u64::from(self.byte(pair)) << 4 | u64::from(self.byte(pair + 1) >> 4)
                } else {
                    u64::from(self.byte(pair + 1) & 0x0F) << 8 | u64::from(self.byte(pair + 2))
                }
            }
            bits => {
                let width = bits / 8;
                let start = start + slot * width;
                let bytes = self.bytes.get(start..start + width).unwrap_or_default();
                bytes.iter().fold(0, |distance, &byte| distance << 8 | u64::from(byte))
            }
        }
    }

    /// Returns a byte that [`Node::at`] found to exist.
    #[inline]
    fn byte(&self, index: usize) -> u8 {
        self.bytes.get(index).copied().unwrap_or_default()
    }
}
