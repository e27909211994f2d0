//! Descents that stop where a page ends: whoever has the pages hands them in, at once or after waiting for them.
//!
//! The same steps serve a look-up whose pages are all in memory, which is a plain function, and one that waits for the disk
//! ([`Walker`](super::Walker)). Memory: some words, nothing is allocated.

use super::chain::follow_links;
use super::error::{CorruptNode, Fault};
use super::layout::{MAX_DEPTH, PAGE_SIZE};
use super::node::{Node, Search};
use crate::prefetch::prefetch_range;

/// Where a descent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// It goes on in the page with this number.
    Page(u64),
    /// It ended at this node, which has a payload. It is in the page that was handed in last.
    Payload(u64),
    /// Nothing is there.
    Nothing,
}

/// Number of the page that holds a position.
#[inline]
pub(super) fn page_of(position: u64) -> u64 {
    position / PAGE_SIZE as u64
}

/// Bytes before a node where its children are likely to lie, and of the node itself: a page is entered at the top of a subtree, and a
/// writer puts children directly before their parents. What is asked for in vain costs little, as the lines come at the same time.
const LIKELY_BYTES: (usize, usize) = (320, 128);

/// What is asked for of a node that is known to come next.
const NODE_BYTES: usize = 128;

/// Asks for what of a page is likely to be looked at when it is entered at a node.
#[inline]
fn prefetch_around(page: &[u8], position: u64) {
    let offset = (position % PAGE_SIZE as u64) as usize;
    let (before, behind) = LIKELY_BYTES;
    prefetch_range(page, offset.saturating_sub(before), (offset + behind).min(page.len()));
}

/// The payload of the shortest stored prefix of a key. In a trie of shortest unique prefixes it is the only candidate for
/// the key.
#[derive(Clone, Debug)]
pub struct PrefixSearch<'key> {
    position: u64,
    rest: &'key [u8],
}

impl<'key> PrefixSearch<'key> {
    /// Begins at the root of a trie; or goes on at a node with what is left of the key there.
    #[inline]
    pub fn new(root: u64, key: &'key [u8]) -> Self {
        Self { position: root, rest: key }
    }

    /// The page that is needed next.
    #[inline]
    pub fn page_number(&self) -> u64 {
        page_of(self.position)
    }

    /// The node that comes next, and how much of the key is left for it: what it takes to go on later.
    #[inline]
    pub fn place(&self) -> (u64, usize) {
        (self.position, self.rest.len())
    }

    /// Asks the processor for the node that comes next, as far as its size is known: most are that short.
    #[inline]
    pub fn prefetch_node(&self, page: &[u8]) {
        let offset = (self.position % PAGE_SIZE as u64) as usize;
        prefetch_range(page, offset, (offset + NODE_BYTES).min(page.len()));
    }

    /// Goes down as far as `page` reaches, which is the one with [`PrefixSearch::page_number`].
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

    /// Goes down by one node, or a chain of them, of [`PrefixSearch::page_number`]'s page; the next one may lie on the same page.
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

/// The payload of the greatest stored string that is a key or below it.
#[derive(Clone, Debug)]
pub struct FloorSearch<'key> {
    position: u64,
    rest: &'key [u8],
    best: Best,
    /// Nodes on the way to the last one of a branch; none while the key is followed.
    steps: Option<usize>,
    /// The answer is at `position`, on a page that was left.
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

    /// The page that is needed next.
    #[inline]
    pub fn page_number(&self) -> u64 {
        page_of(self.position)
    }

    /// Goes on as far as `page` reaches, which is the one with [`FloorSearch::page_number`].
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

    /// The child that the key leads to; notes what is below it on the way.
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
