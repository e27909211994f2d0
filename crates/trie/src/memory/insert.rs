//! Adds a content for a key that has none (paper, section 5.3).
//!
//! The new branch is complete before one store makes it visible: to the word of a sparse node, to
//! an empty link of an array or wide node, or to the link of a node that had to be replaced. An
//! array node without readers gets its child in place.

#![allow(unsafe_code)]

use super::array::{ARRAY, Array, LONG_ARRAY, Layout};
use super::build::Writer;
use super::node::{Chain, SPARSE_WIDTH, Sparse, WIDE_BLOCKS};
use super::place::Place;
use super::pointer::{CHAIN_END, Link, Pointer};
use super::space::{Room, TrieFull};
use std::sync::atomic::Ordering;

impl<'a, C> Writer<'a, C> {
    /// Adds `leaf` as the content of `key`, at the place that [`Writer::locate`] found, which is
    /// not [`Place::Existing`].
    pub(crate) fn insert(&mut self, place: Place<'a>, key: &[u8], leaf: Pointer) {
        match place {
            Place::Existing(link) => link.publish(leaf),
            Place::Vacant { link, depth } => {
                let branch = self.chain(&key[depth..], leaf, Pointer::NONE);
                link.publish(branch);
            }
            Place::BelowLeaf { link, leaf: above, depth } => {
                let branch = self.chain(&key[depth..], leaf, above);
                link.publish(branch);
            }
            Place::AtNode { link, node } => {
                let node = self.add_content(leaf, node);
                link.publish(node);
            }
            Place::InChain { link, node, chain, matched, content, depth } => {
                let rest = &key[depth + matched..];
                let node = if rest.is_empty() {
                    let tail = node.with_offset(node.offset() + matched);
                    self.add_content(leaf, tail)
                } else {
                    self.fork(node, chain, matched, rest, leaf)
                };
                let head = self.chain(&chain.bytes[..matched], node, content);
                link.publish(head);
            }
            Place::InSparse { link, node, sparse, depth } => {
                let branch = self.chain(&key[depth + 1..], leaf, Pointer::NONE);
                self.add_to_sparse(link, node, sparse, key[depth], branch);
            }
            Place::InArray { link, node, array, depth } => {
                let branch = self.chain(&key[depth + 1..], leaf, Pointer::NONE);
                self.add_to_array(link, node, array, key[depth], branch);
            }
            Place::AtVacant { vacant, depth } => {
                let branch = self.chain(&key[depth + 1..], leaf, Pointer::NONE);
                vacant.publish(branch);
            }
        }
    }

    /// Takes the blocks side by side that an insertion at `place` needs, so that the insertion
    /// cannot fail, and makes sure that `singles` more can be taken.
    #[inline]
    pub(crate) fn make_room(&mut self, place: &Place<'a>, singles: usize) -> Result<(), TrieFull> {
        let blocks = match place {
            Place::InSparse { sparse, .. } if sparse.load_word().count() == SPARSE_WIDTH => {
                ARRAY.blocks
            }
            Place::InArray { array, .. } => {
                let is_full = array.count() == array.layout().capacity;
                if !is_full && !self.shared.epochs.has_readers() {
                    // [`Writer::add_to_array`] copies the node if it finds room. A change that
                    // panicked may have left room.
                    self.space.release_room(self.shared);
                    return Ok(());
                }
                // Transitions without a child are not copied.
                let children = array.children().count() + 1;
                Layout::for_children(children).map_or(WIDE_BLOCKS, |layout| layout.blocks)
            }
            _ => return Ok(()),
        };
        self.space.take_room(self.shared, blocks, singles)
    }

    /// Builds the node at which `rest` leaves a chain, after `matched` bytes of it. The rest of the
    /// chain keeps its block.
    fn fork(
        &mut self,
        node: Pointer,
        chain: Chain<'_>,
        matched: usize,
        rest: &[u8],
        leaf: Pointer,
    ) -> Pointer {
        let offset_after = node.offset() + matched + 1;
        let after = if offset_after == CHAIN_END {
            self.retire(node);
            chain.child.get()
        } else {
            node.with_offset(offset_after)
        };
        let branch = self.chain(&rest[1..], leaf, Pointer::NONE);
        self.sparse(&[chain.bytes[matched], rest[0]], &[after, branch])
    }

    /// Adds a child to an array node: in place, or in the room that [`Writer::make_room`] took.
    fn add_to_array(
        &mut self,
        link: &Link,
        node: Pointer,
        array: Array<'a>,
        byte: u8,
        branch: Pointer,
    ) {
        let Some(room) = self.space.room() else {
            debug_assert!(!self.shared.epochs.has_readers());
            // SAFETY: there are no readers, or there would be room for a copy; the node has a free
            // place.
            return unsafe { array.insert(byte, branch) };
        };
        let before = array.children().take_while(|(other, _)| *other < byte);
        let behind = array.children().skip_while(|(other, _)| *other < byte);
        let all = before.chain([(byte, branch)]).chain(behind);
        let wider = self.fill_room(room, all);
        link.publish(wider);
        self.retire(node);
    }

    /// Builds a node with more children than a sparse one has; they come in ascending order.
    fn fill_room(&mut self, room: Room, children: impl Iterator<Item = (u8, Pointer)>) -> Pointer {
        match [ARRAY, LONG_ARRAY].into_iter().find(|layout| layout.blocks == room.blocks) {
            Some(layout) => self.array(room.first, layout, children),
            None => self.wide(room.first, children),
        }
    }

    fn add_to_sparse(
        &mut self,
        link: &Link,
        node: Pointer,
        sparse: Sparse<'_>,
        byte: u8,
        branch: Pointer,
    ) {
        let word = sparse.load_word();
        let count = word.count();
        if count < SPARSE_WIDTH {
            sparse.children[count].publish(branch);
            // Release: the child is stored before the word lists it.
            sparse.word.store(word.with(count, byte).raw(), Ordering::Release);
            return;
        }
        let mut all = [(byte, branch); SPARSE_WIDTH + 1];
        for (index, place) in all[..count].iter_mut().enumerate() {
            *place = (word.byte(index), sparse.children[index].get());
        }
        all.sort_unstable_by_key(|(byte, _)| *byte);
        if let Some(room) = self.space.room() {
            let wider = self.fill_room(room, all.into_iter());
            link.publish(wider);
            self.retire(node);
        }
    }
}
