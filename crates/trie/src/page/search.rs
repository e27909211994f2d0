//! Descents that stop at the end of a page: the caller provides the pages, at once or after waiting
//! for them.
//!
//! These steps serve both a look-up whose pages are all in memory, which is a plain function, and
//! one that waits for the disk ([`Walker`](super::Walker)). Memory: some words; nothing is
//! allocated.

use super::chain::follow_links;
use super::error::{CorruptNode, Fault};
use super::layout::{MAX_DEPTH, PAGE_SIZE};
use super::node::{Node, Search};
use crate::prefetch::prefetch_range;

/// The state of a descent after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// The descent continues in the page with this number.
    Page(u64),
    /// The descent ended at this node, which has a payload and lies in the page that was provided
    /// last.
    Payload(u64),
    /// There is no answer.
    Nothing,
}

/// Returns the number of the page that holds a position.
#[inline]
pub(super) fn page_of(position: u64) -> u64 {
    position / PAGE_SIZE as u64
}

/// Bytes before a node in which its children are likely to lie, and bytes of the node itself: a
/// page is entered at the top of a subtree, and a writer puts children directly before their
/// parents. A useless prefetch costs little, because the lines arrive at the same time.
const LIKELY_BYTES: (usize, usize) = (320, 128);

/// Number of bytes that are prefetched of a node that comes next.
const NODE_BYTES: usize = 128;

/// Prefetches the part of a page that is likely to be read when it is entered at a node.
#[inline]
fn prefetch_around(page: &[u8], position: u64) {
    let offset = (position % PAGE_SIZE as u64) as usize;
    let (before, behind) = LIKELY_BYTES;
    prefetch_range(page, offset.saturating_sub(before), (offset + behind).min(page.len()));
}

/// A search for the payload of the shortest stored prefix of a key. In a trie of shortest unique
/// prefixes it is the only candidate for the key.
#[derive(Clone, Debug)]
pub struct PrefixSearch<'key> {
    position: u64,
    rest: &'key [u8],
}

impl<'key> PrefixSearch<'key> {
    /// Begins at the root of a trie, or continues at a node with the rest of the key there.
    #[inline]
    pub fn new(root: u64, key: &'key [u8]) -> Self {
        Self { position: root, rest: key }
    }

    /// Returns the number of the page that is needed next.
    #[inline]
    pub fn page_number(&self) -> u64 {
        page_of(self.position)
    }

    /// Returns the next node, and the number of bytes of the key that are left for it.
    /// [`Self::new`] continues from there.
    #[inline]
    pub fn place(&self) -> (u64, usize) {
        (self.position, self.rest.len())
    }

    /// Prefetches the next node, up to a size that most nodes do not exceed.
    #[inline]
    pub fn prefetch_node(&self, page: &[u8]) {
        let offset = (self.position % PAGE_SIZE as u64) as usize;
        prefetch_range(page, offset, (offset + NODE_BYTES).min(page.len()));
    }

    /// Descends as far as `page` reaches, which must be the page [`PrefixSearch::page_number`].
    ///
    /// # Errors
    /// Fails if a node is damaged.
    #[inline]
    pub fn advance(&mut self, page: &[u8]) -> Result<Descent, CorruptNode> {
        let number = self.page_number();
        prefetch_around(page, self.position);
        loop {
            match self.step(page)? {
                Descent::Page(next) if next == number => {}
                other => return Ok(other),
            }
        }
    }

    /// Descends by one node, or by a chain of nodes, on the page [`PrefixSearch::page_number`]. The
    /// next node may lie on the same page.
    ///
    /// # Errors
    /// Fails if a node is damaged.
    #[inline]
    pub fn step(&mut self, page: &[u8]) -> Result<Descent, CorruptNode> {
        (self.position, self.rest) = follow_links(page, self.position, self.rest);
        let node = Node::at(page, self.position)?;
        if node.has_payload() {
            return Ok(Descent::Payload(self.position));
        }
        let Some((&byte, rest)) = self.rest.split_first() else { return Ok(Descent::Nothing) };
        let Some(child) = node.child_for(byte)? else { return Ok(Descent::Nothing) };
        (self.position, self.rest) = (child, rest);
        Ok(Descent::Page(page_of(child)))
    }
}

/// A search for the payload of the greatest stored string that is the key or below it.
#[derive(Clone, Debug)]
pub struct FloorSearch<'key> {
    position: u64,
    rest: &'key [u8],
    best: Best,
    /// Nodes passed on the way to the last node of a branch; `None` while the key is followed.
    steps: Option<usize>,
    /// True if the answer is at `position`, on a page that was left.
    is_found: bool,
}

/// The best answer so far on the way down. A later one is always nearer to the key.
#[derive(Clone, Copy, Debug)]
enum Best {
    None,
    Payload(u64),
    Branch(u64),
}

impl<'key> FloorSearch<'key> {
    /// Begins at the root of a trie.
    #[inline]
    pub fn new(root: u64, key: &'key [u8]) -> Self {
        Self { position: root, rest: key, best: Best::None, steps: None, is_found: false }
    }

    /// Returns the number of the page that is needed next.
    #[inline]
    pub fn page_number(&self) -> u64 {
        page_of(self.position)
    }

    /// Continues as far as `page` reaches, which must be the page [`FloorSearch::page_number`].
    ///
    /// # Errors
    /// Fails if a node is damaged.
    #[inline]
    pub fn advance(&mut self, page: &[u8]) -> Result<Descent, CorruptNode> {
        if self.is_found {
            return Ok(Descent::Payload(self.position));
        }
        let number = self.page_number();
        prefetch_around(page, self.position);
        while self.steps.is_none() {
            (self.position, self.rest) = follow_links(page, self.position, self.rest);
            let node = Node::at(page, self.position)?;
            if let Some(next) = self.follow(&node)? {
                self.position = next;
            } else {
                match self.best {
                    Best::None => return Ok(Descent::Nothing),
                    Best::Payload(position) if page_of(position) == number => {
                        return Ok(Descent::Payload(position));
                    }
                    Best::Payload(position) => (self.position, self.is_found) = (position, true),
                    Best::Branch(branch) => (self.position, self.steps) = (branch, Some(0)),
                }
            }
            if self.page_number() != number {
                return Ok(Descent::Page(self.page_number()));
            }
        }
        loop {
            let node = Node::at(page, self.position)?;
            match node.child_before(node.slots())? {
                Some((_, child)) => self.position = child,
                None if node.has_payload() => return Ok(Descent::Payload(self.position)),
                None => return Err(node.corrupt(Fault::Empty)),
            }
            let steps = self.steps.unwrap_or_default() + 1;
            if steps > MAX_DEPTH {
                return Err(CorruptNode { position: self.position, fault: Fault::TooDeep });
            }
            self.steps = Some(steps);
            if self.page_number() != number {
                return Ok(Descent::Page(self.page_number()));
            }
        }
    }

    /// Returns the child to which the key leads; records the best answer below the key on the way.
    #[inline]
    fn follow(&mut self, node: &Node<'_>) -> Result<Option<u64>, CorruptNode> {
        if node.has_payload() {
            self.best = Best::Payload(self.position);
        }
        let Some((&byte, rest)) = self.rest.split_first() else { return Ok(None) };
        let search = node.search(byte);
        let (Search::Found(slot) | Search::Missing(slot)) = search;
        if let Some((_, lesser)) = node.child_before(slot)? {
            self.best = Best::Branch(lesser);
        }
        self.rest = rest;
        match search {
            Search::Found(slot) => node.child(slot),
            Search::Missing(_) => Ok(None),
        }
    }
}
