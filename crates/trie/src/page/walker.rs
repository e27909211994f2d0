//! Single look-ups, from the root down. They hold one page at a time, and do not record the path.
//!
//! Keys are ordered as byte strings, a prefix before its extensions; in a trie that is pre-order.
//! An answer is the position of a node with a payload; [`Walker::node`] then reads it from the page
//! that the walker still holds.

use super::chain::follow_links;
use super::error::{CorruptNode, Fault, ReadError};
use super::layout::MAX_DEPTH;
use super::node::{Node, Search};
use super::search::{Descent, FloorSearch, PrefixSearch, page_of};
use super::source::PageSource;

/// Walks tries of one file. Holds one page, and counts the pages that it requests.
pub struct Walker<S: PageSource> {
    source: S,
    page: Option<(u64, S::Page)>,
    pages_touched: u64,
}

type Result<T, S> = std::result::Result<T, ReadError<<S as PageSource>::Error>>;

impl<S: PageSource> Walker<S> {
    /// Creates a walker that holds no page yet.
    pub fn new(source: S) -> Walker<S> {
        Walker { source, page: None, pages_touched: 0 }
    }

    /// Returns the number of page requests. The walker requests a page when it enters the page,
    /// also when it returns to it.
    pub fn pages_touched(&self) -> u64 {
        self.pages_touched
    }

    /// Returns the source of the pages.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the node at `position`.
    ///
    /// # Errors
    /// Fails if the page cannot be read or the node is damaged.
    #[inline]
    pub async fn node(&mut self, position: u64) -> Result<Node<'_>, S> {
        Ok(Node::at(self.page(page_of(position)).await?, position)?)
    }

    #[inline]
    async fn page(&mut self, number: u64) -> Result<&[u8], S> {
        if self.page.as_ref().is_none_or(|(held, _)| *held != number) {
            let page = self.source.page(number).await.map_err(ReadError::Source)?;
            self.page = Some((number, page));
            self.pages_touched += 1;
        }
        Ok(self.page.as_ref().map_or(&[][..], |(_, page)| page))
    }

    /// Finds the payload of exactly `key`.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does.
    pub async fn exact(&mut self, root: u64, key: &[u8]) -> Result<Option<u64>, S> {
        let mut position = root;
        for &byte in key {
            match self.node(position).await?.child_for(byte)? {
                Some(child) => position = child,
                None => return Ok(None),
            }
        }
        Ok(self.node(position).await?.has_payload().then_some(position))
    }

    /// Finds the payload of the shortest stored prefix of `key`. In a trie of shortest unique
    /// prefixes it is the only candidate for `key`.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does.
    pub async fn prefix(&mut self, root: u64, key: &[u8]) -> Result<Option<u64>, S> {
        let mut search = PrefixSearch::new(root, key);
        loop {
            let number = search.page_number();
            match search.advance(self.page(number).await?)? {
                Descent::Page(_) => {}
                Descent::Payload(position) => return Ok(Some(position)),
                Descent::Nothing => return Ok(None),
            }
        }
    }

    /// Finds the payload of the greatest stored string that is `key` or below it.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does.
    pub async fn floor(&mut self, root: u64, key: &[u8]) -> Result<Option<u64>, S> {
        let mut search = FloorSearch::new(root, key);
        loop {
            let number = search.page_number();
            match search.advance(self.page(number).await?)? {
                Descent::Page(_) => {}
                Descent::Payload(position) => return Ok(Some(position)),
                Descent::Nothing => return Ok(None),
            }
        }
    }

    /// Finds the payload of the smallest stored string that is `key` or above it.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does.
    pub async fn ceiling(&mut self, root: u64, key: &[u8]) -> Result<Option<u64>, S> {
        self.above(root, key, true).await
    }

    /// Finds the payload of the smallest stored string above `key`.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does.
    pub async fn higher(&mut self, root: u64, key: &[u8]) -> Result<Option<u64>, S> {
        self.above(root, key, false).await
    }

    async fn above(&mut self, root: u64, key: &[u8], or_equal: bool) -> Result<Option<u64>, S> {
        let mut greater = None;
        let (mut position, mut rest) = (root, key);
        let node = loop {
            // A link has only the child to which the key leads.
            let page = self.page(page_of(position)).await?;
            (position, rest) = follow_links(page, position, rest);
            let node = Node::at(page, position)?;
            let Some((&byte, behind)) = rest.split_first() else { break node };
            rest = behind;
            let (child, after) = match node.search(byte) {
                Search::Found(slot) => (node.child(slot)?, slot + 1),
                Search::Missing(slot) => (None, slot),
            };
            if let Some((_, child)) = node.child_from(after)? {
                greater = Some(child);
            }
            match child {
                Some(child) => position = child,
                None => return self.minimum_of(greater).await,
            }
        };
        if node.has_payload() && or_equal {
            return Ok(Some(position));
        }
        if let Some((_, child)) = node.child_from(0)? {
            greater = Some(child);
        }
        self.minimum_of(greater).await
    }

    async fn minimum_of(&mut self, branch: Option<u64>) -> Result<Option<u64>, S> {
        match branch {
            Some(branch) => self.minimum(branch).await.map(Some),
            None => Ok(None),
        }
    }

    /// Finds the first payload at or below the node at `branch`, at most [`MAX_DEPTH`] bytes
    /// deeper.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does, and if the branch is deeper.
    pub async fn minimum(&mut self, branch: u64) -> Result<u64, S> {
        let mut position = branch;
        for _ in 0..=MAX_DEPTH {
            let node = self.node(position).await?;
            if node.has_payload() {
                return Ok(position);
            }
            match node.child_from(0)? {
                Some((_, child)) => position = child,
                None => return Err(node.corrupt(Fault::Empty).into()),
            }
        }
        Err(CorruptNode { position, fault: Fault::TooDeep }.into())
    }

    /// Finds the last payload at or below the node at `branch`, at most [`MAX_DEPTH`] bytes deeper.
    ///
    /// # Errors
    /// Fails as [`Walker::node`] does, and if the branch is deeper.
    pub async fn maximum(&mut self, branch: u64) -> Result<u64, S> {
        let mut position = branch;
        for _ in 0..=MAX_DEPTH {
            let node = self.node(position).await?;
            match node.child_before(node.slots())? {
                Some((_, child)) => position = child,
                None if node.has_payload() => return Ok(position),
                None => return Err(node.corrupt(Fault::Empty).into()),
            }
        }
        Err(CorruptNode { position, fault: Fault::TooDeep }.into())
    }
}
