//! Iterates over the payloads of a trie, in both directions, from any key.
//!
//! A cursor records the path: the key's bytes and, for each node of the path that may be needed
//! again (more than one child, or a payload), its position and the slot that was followed.
//!
//! Memory bound: proportional to the key's length, which is at most [`MAX_DEPTH`] bytes. A step
//! costs at most one way up and one way down.

use super::error::{Fault, ReadError};
use super::layout::MAX_DEPTH;
use super::node::{Node, Search};
use super::source::PageSource;
use super::walker::Walker;

/// A cursor over the keys of one trie of a file. It stands at a key (a node with a payload), or
/// nowhere.
///
/// **Moves.** A new cursor stands nowhere and has read nothing. [`first`](Cursor::first),
/// [`last`](Cursor::last) and the `seek_…` functions are legal at any time and begin at the root;
/// [`next`](Cursor::next) and [`previous`](Cursor::previous) continue from the present key, may
/// alternate, and return `false` if the cursor stands nowhere. Keys come in the order of their
/// bytes, a prefix before its extensions.
///
/// **Results.** A move returns `true` if it reached a key. If it returns `false` there is no such
/// key, and the cursor stands nowhere: the iteration is over until the next `first`, `last` or
/// seek.
///
/// **Errors.** A move fails with [`ReadError::Source`] if a page cannot be read, and with
/// [`ReadError::Corrupt`] if a node is damaged or deeper than [`MAX_DEPTH`]. The cursor then stands
/// nowhere, and only `first`, `last` and the seeks may follow. The cursor also stands nowhere if
/// the caller drops the future of a move before it is done: a later `next` returns `false`,
/// although the trie has not ended.
///
/// **Borrows.** [`key`](Cursor::key) and [`node`](Cursor::node) borrow the cursor until the next
/// move. `node` may read the page again, and fails as a move does, but leaves the cursor at its
/// key.
///
/// A hostile file can have exponentially many keys, since parents may share children; the caller
/// must bound their number.
pub struct Cursor<S: PageSource> {
    walker: Walker<S>,
    root: u64,
    way: Vec<Turn>,
    key: Vec<u8>,
    current: Option<u64>,
}

/// A node above the current one, and the slot through which the path leads.
#[derive(Clone, Copy, Debug)]
struct Turn {
    position: u64,
    depth: u32,
    slot: u16,
}

type Result<T, S> = std::result::Result<T, ReadError<<S as PageSource>::Error>>;

impl<S: PageSource> Cursor<S> {
    /// Creates a cursor over the trie with this root, standing nowhere.
    pub fn new(source: S, root: u64) -> Cursor<S> {
        let walker = Walker::new(source);
        Cursor { walker, root, way: Vec::new(), key: Vec::new(), current: None }
    }

    /// Returns the position of the current node in the file; `None` if the cursor stands nowhere.
    pub fn position(&self) -> Option<u64> {
        self.current
    }

    /// Returns the current node's key; meaningless if the cursor stands nowhere.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the source of the pages.
    pub fn source(&self) -> &S {
        self.walker.source()
    }

    /// Returns the number of pages requested so far.
    pub fn pages_touched(&self) -> u64 {
        self.walker.pages_touched()
    }

    /// Returns the current node; `None` if the cursor stands nowhere.
    ///
    /// # Errors
    /// Fails if its page cannot be read or the node is damaged.
    pub async fn node(&mut self) -> Result<Option<Node<'_>>, S> {
        match self.current {
            Some(position) => self.walker.node(position).await.map(Some),
            None => Ok(None),
        }
    }

    /// Moves to the first key.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn first(&mut self) -> Result<bool, S> {
        self.reset();
        self.descend_to_minimum(self.root).await
    }

    /// Moves to the last key.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn last(&mut self) -> Result<bool, S> {
        self.reset();
        self.descend_to_maximum(self.root).await
    }

    /// Moves to the smallest key that is `key` or above it.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn seek_ceiling(&mut self, key: &[u8]) -> Result<bool, S> {
        self.seek_above(key, true, false).await
    }

    /// Moves to the smallest key above `key`.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn seek_higher(&mut self, key: &[u8]) -> Result<bool, S> {
        self.seek_above(key, false, false).await
    }

    /// Moves to the shortest stored prefix of `key`, or, if there is none, to the smallest key
    /// above. In a trie of shortest unique prefixes the full key of that prefix may be below, equal
    /// to or above `key`; all later keys are above `key`.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn seek_prefix_or_ceiling(&mut self, key: &[u8]) -> Result<bool, S> {
        self.seek_above(key, true, true).await
    }

    async fn seek_above(&mut self, key: &[u8], or_equal: bool, prefix: bool) -> Result<bool, S> {
        self.reset();
        let mut position = self.root;
        for &byte in key {
            let node = self.walker.node(position).await?;
            if prefix && node.has_payload() {
                self.current = Some(position);
                return Ok(true);
            }
            match node.search(byte) {
                Search::Found(slot) => match node.child(slot)? {
                    Some(child) => {
                        descend(&mut self.way, &mut self.key, &node, slot)?;
                        position = child;
                    }
                    None => return Err(node.corrupt(Fault::Empty).into()),
                },
                Search::Missing(slot) => {
                    return match node.child_from(slot)? {
                        Some((slot, child)) => {
                            descend(&mut self.way, &mut self.key, &node, slot)?;
                            self.descend_to_minimum(child).await
                        }
                        None => self.ascend_to_greater().await,
                    };
                }
            }
        }
        if or_equal {
            return self.descend_to_minimum(position).await;
        }
        self.step_from(position).await
    }

    /// Moves to the greatest key that is `key` or below it.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn seek_floor(&mut self, key: &[u8]) -> Result<bool, S> {
        self.reset();
        let mut position = self.root;
        for &byte in key {
            let node = self.walker.node(position).await?;
            match node.search(byte) {
                Search::Found(slot) => match node.child(slot)? {
                    Some(child) => {
                        descend(&mut self.way, &mut self.key, &node, slot)?;
                        position = child;
                    }
                    None => return Err(node.corrupt(Fault::Empty).into()),
                },
                Search::Missing(slot) => {
                    if let Some((slot, child)) = node.child_before(slot)? {
                        descend(&mut self.way, &mut self.key, &node, slot)?;
                        return self.descend_to_maximum(child).await;
                    }
                    break;
                }
            }
        }
        if self.walker.node(position).await?.has_payload() {
            self.current = Some(position);
            return Ok(true);
        }
        self.ascend_to_lesser().await
    }

    /// Moves to the next key.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn next(&mut self) -> Result<bool, S> {
        match self.current.take() {
            Some(position) => self.step_from(position).await,
            None => Ok(false),
        }
    }

    /// Moves to the previous key.
    ///
    /// # Errors
    /// Fails if a page cannot be read or a node is damaged; see [`Cursor`].
    pub async fn previous(&mut self) -> Result<bool, S> {
        match self.current.take() {
            Some(_) => self.ascend_to_lesser().await,
            None => Ok(false),
        }
    }

    fn reset(&mut self) {
        self.way.clear();
        self.key.clear();
        self.current = None;
    }

    /// Moves to the first key that extends the path to the node at `position`, or to the next one
    /// above.
    async fn step_from(&mut self, position: u64) -> Result<bool, S> {
        let node = self.walker.node(position).await?;
        match node.child_from(0)? {
            Some((slot, child)) => {
                descend(&mut self.way, &mut self.key, &node, slot)?;
                self.descend_to_minimum(child).await
            }
            None => self.ascend_to_greater().await,
        }
    }

    async fn descend_to_minimum(&mut self, mut position: u64) -> Result<bool, S> {
        loop {
            let node = self.walker.node(position).await?;
            if node.has_payload() {
                self.current = Some(position);
                return Ok(true);
            }
            match node.child_from(0)? {
                Some((slot, child)) => {
                    descend(&mut self.way, &mut self.key, &node, slot)?;
                    position = child;
                }
                None => return Err(node.corrupt(Fault::Empty).into()),
            }
        }
    }

    async fn descend_to_maximum(&mut self, mut position: u64) -> Result<bool, S> {
        loop {
            let node = self.walker.node(position).await?;
            match node.child_before(node.slots())? {
                Some((slot, child)) => {
                    descend(&mut self.way, &mut self.key, &node, slot)?;
                    position = child;
                }
                None if node.has_payload() => {
                    self.current = Some(position);
                    return Ok(true);
                }
                None => return Err(node.corrupt(Fault::Empty).into()),
            }
        }
    }

    async fn ascend_to_greater(&mut self) -> Result<bool, S> {
        while let Some(turn) = self.way.pop() {
            let node = self.walker.node(turn.position).await?;
            if let Some((slot, child)) = node.child_from(usize::from(turn.slot) + 1)? {
                self.key.truncate(turn.depth as usize);
                descend(&mut self.way, &mut self.key, &node, slot)?;
                return self.descend_to_minimum(child).await;
            }
        }
        Ok(false)
    }

    async fn ascend_to_lesser(&mut self) -> Result<bool, S> {
        while let Some(turn) = self.way.pop() {
            let node = self.walker.node(turn.position).await?;
            self.key.truncate(turn.depth as usize);
            if let Some((slot, child)) = node.child_before(usize::from(turn.slot))? {
                descend(&mut self.way, &mut self.key, &node, slot)?;
                return self.descend_to_maximum(child).await;
            }
            if node.has_payload() {
                self.current = Some(turn.position);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Records the step from `node` through `slot`.
fn descend(
    way: &mut Vec<Turn>,
    key: &mut Vec<u8>,
    node: &Node<'_>,
    slot: usize,
) -> std::result::Result<(), super::error::CorruptNode> {
    if key.len() >= MAX_DEPTH {
        return Err(node.corrupt(Fault::TooDeep));
    }
    if node.slots() > 1 || node.has_payload() {
        // Both casts are bounded: by MAX_DEPTH and by 255.
        way.push(Turn { position: node.position(), depth: key.len() as u32, slot: slot as u16 });
    }
    key.push(node.transition(slot));
    Ok(())
}
