//! Adding a content where there is none (paper, section 5.3).
//!
//! The new branch is made whole before one store makes it visible: in a free place of a sparse or
//! split node, or else in the link that led to a node that had to be replaced by a wider one.

use super::build::Writer;
use super::node::{Chain, SPARSE_WIDTH, Sparse, Split, split_path};
use super::place::Place;
use super::pointer::{CHAIN_END, Link, Pointer};
use std::sync::atomic::Ordering;

/// Children up to which a node stays a split node. From about here on a wide node takes as many
/// bytes for each child, when bytes are random, and fewer when they are not.
const SPLIT_WIDTH: u32 = 32;

impl<'a, C> Writer<'a, C> {
    /// Adds `leaf` as the content of `key`, at the place that [`Writer::locate`] found, which is not
    /// [`Place::Existing`].
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
            Place::InSplit { link, node, split, vacant, content, depth } => {
                let branch = self.chain(&key[depth + 1..], leaf, Pointer::NONE);
                if split.count.number() >= SPLIT_WIDTH
                    && let Some(wide) = self.widen(split, key[depth], branch)
                {
                    // The content shared the lead block, which goes.
                    let wide =
                        if content.is_none() { wide } else { self.add_content(content, wide) };
                    link.publish(wide);
                    return self.retire_split_blocks(node, split);
                }
                match vacant {
                    Some(link) => self.add_at(split, link, branch),
                    None => self.add_to_split(split, key[depth], branch),
                }
            }
            Place::InWide { vacant, depth } => {
                let branch = self.chain(&key[depth + 1..], leaf, Pointer::NONE);
                vacant.publish(branch);
            }
        }
    }

    /// The node where `rest` leaves a chain, after `matched` bytes of it. What follows in the chain
    /// keeps its block.
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

    /// A wide node with the children of a split node and one more, if there is room for it.
    fn widen(&mut self, split: Split<'a>, byte: u8, branch: Pointer) -> Option<Pointer> {
        let (wide, children) = self.empty_wide()?;
        split.for_each_child(|other, child| children[other as usize].publish(child));
        children[byte as usize].publish(branch);
        Some(wide)
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
            // Release: the child is there when the word says so.
            sparse.word.store(word.with(count, byte).raw(), Ordering::Release);
            return;
        }
        // Where the new child goes is as good a guess as any of where most will go.
        let (wider, split) = self.empty_split(split_path(byte)[0]);
        for index in 0..count {
            self.add_to_split(split, word.byte(index), sparse.children[index].get());
        }
        self.add_to_split(split, byte, branch);
        link.publish(wider);
        self.retire(node);
    }
}
