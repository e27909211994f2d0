//! Walks the in-memory trie (paper, section 5.2). A cursor keeps the present node, and a stack of
//! the nodes above it that have more children to list. Memory bound: two entries of 12 bytes on the
//! stack for each node of the path.

use super::node::{Node, Wide};
use super::place::common_length;
use super::pointer::{CHAIN_END, Kind, Link, Pointer};
use super::view::View;
use crate::cursor::{Cursor, Direction, PathReceiver, Position};

/// An entry of the stack: a node to return to.
#[derive(Clone, Copy)]
struct Frame {
    /// A node of several children, or the content (a leaf) of a node to which a reverse walk
    /// returns.
    node: Pointer,
    /// The depth of the nodes that this frame lists: the children, or the node of the content.
    depth: u32,
    /// The nodes that are still to be listed. Sparse: the indices of the children still to list,
    /// three bits each, the next one lowest. Array: the index of the next child to check, plus one.
    /// Wide: the next byte to check. Content: the byte that leads to its node.
    state: u32,
}

/// [`Frame::state`] of a sparse node whose children are all listed.
const NO_MORE: u32 = 0o777_777;

/// A walk over an in-memory trie or a branch of one.
pub struct MemoryCursor<'a, C> {
    view: View<'a, C>,
    position: Position,
    /// The present node without its content; none if it has no children left to list.
    node: Pointer,
    /// The content at the present position, or none.
    content: Pointer,
    stack: Vec<Frame>,
}

impl<C> Clone for MemoryCursor<'_, C> {
    fn clone(&self) -> Self {
        MemoryCursor { stack: self.stack.clone(), ..*self }
    }
}

impl<'a, C> MemoryCursor<'a, C> {
    /// Creates a walk over the structure below `root`, which may be none.
    pub(super) fn new(
        view: View<'a, C>,
        root: Pointer,
        direction: Direction,
    ) -> MemoryCursor<'a, C> {
        let position = Position::root(direction);
        let (node, content) = (Pointer::NONE, Pointer::NONE);
        let mut cursor =
            MemoryCursor { view, position, node, content, stack: Vec::with_capacity(16) };
        cursor.arrive(root, position);
        cursor
    }

    /// Records the node at `pointer`, which may be none, and its position.
    fn arrive(&mut self, pointer: Pointer, position: Position) -> Position {
        let (content, node) = self.view.unwrap_prefix(pointer);
        (self.node, self.content, self.position) = (node, content, position);
        if position.direction().is_reverse() && !content.is_none() {
            if node.is_none() {
                self.position = position.returning();
            } else {
                let (depth, state) = (position.depth(), u32::from(position.byte()));
                self.stack.push(Frame { node: content, depth, state });
                self.content = Pointer::NONE;
            }
        }
        self.position
    }

    fn at(&self, depth: u32, byte: u8) -> Position {
        Position::new(self.position.direction(), depth, byte)
    }

    fn is_reverse(&self) -> bool {
        self.position.direction().is_reverse()
    }

    /// Moves to the first child that is not before `from` in the order of the walk, if there is
    /// one.
    fn descend(&mut self, from: Option<u8>) -> Option<Position> {
        if self.node.is_none() {
            return None;
        }
        let depth = self.position.depth() + 1;
        match self.view.open(self.node) {
            Node::Chain(chain) => {
                let position = self.at(depth, chain.bytes[0]);
                if from.is_some_and(|from| position < self.at(depth, from)) {
                    return None;
                }
                let next = self.node.offset() + 1;
                let child =
                    if next == CHAIN_END { chain.child.get() } else { self.node.with_offset(next) };
                Some(self.arrive(child, position))
            }
            Node::Sparse(sparse) => {
                let word = sparse.load_word();
                let state = if self.is_reverse() { word.reverse_order() } else { word.order() };
                self.descend_by_frame(Frame { node: self.node, depth, state }, from)
            }
            Node::Array(array) => {
                let state = if self.is_reverse() { array.count() as u32 } else { 1 };
                self.descend_by_frame(Frame { node: self.node, depth, state }, from)
            }
            Node::Wide(_) => {
                let state = if self.is_reverse() { 0xFF } else { 0 };
                self.descend_by_frame(Frame { node: self.node, depth, state }, from)
            }
            Node::Leaf | Node::Prefix(_) => None,
        }
    }

    fn descend_by_frame(&mut self, frame: Frame, from: Option<u8>) -> Option<Position> {
        self.stack.push(frame);
        self.next_of_frame(from)
    }

    /// Moves to the next node of the top frame that is not before `from`, and removes the frame
    /// when it has no more.
    fn next_of_frame(&mut self, from: Option<u8>) -> Option<Position> {
        let mut frame = self.stack.pop()?;
        let found = match frame.node.kind() {
            Kind::Leaf => {
                (self.node, self.content) = (Pointer::NONE, frame.node);
                self.position = self.at(frame.depth, frame.state as u8).returning();
                return Some(self.position);
            }
            Kind::Sparse => self.next_of_sparse(&mut frame, from),
            Kind::Wide => self.next_of_wide(&mut frame, from),
            _ => self.next_of_array(&mut frame, from),
        };
        let (byte, child, more) = found?;
        if more {
            self.stack.push(frame);
        }
        Some(self.arrive(child, self.at(frame.depth, byte)))
    }

    fn next_of_sparse(&self, frame: &mut Frame, from: Option<u8>) -> Option<(u8, Pointer, bool)> {
        let Node::Sparse(sparse) = self.view.open(frame.node) else {
            return None;
        };
        // Children may have been added since, but those that the frame knows have not moved.
        let word = sparse.load_word();
        while frame.state & 7 != 7 {
            let index = (frame.state & 7) as usize;
            frame.state = frame.state >> 3 | 7 << 15;
            let byte = word.byte(index);
            let passed =
                from.is_some_and(|from| if self.is_reverse() { byte > from } else { byte < from });
            if !passed {
                if frame.state & 7 != 7 {
                    self.view.prefetch(sparse.children[(frame.state & 7) as usize].get());
                }
                return Some((byte, sparse.children[index].get(), frame.state != NO_MORE));
            }
        }
        None
    }

    fn next_of_array(&self, frame: &mut Frame, from: Option<u8>) -> Option<(u8, Pointer, bool)> {
        let Node::Array(array) = self.view.open(frame.node) else {
            return None;
        };
        let (count, is_reverse) = (array.count(), self.is_reverse());
        if let Some(from) = from {
            let rank = array.rank(from) as u32;
            frame.state = if is_reverse {
                let is_there = array.find(from).is_some();
                frame.state.min(rank + u32::from(is_there))
            } else {
                frame.state.max(rank + 1)
            };
        }
        // Links without a child are passed over. At the end the state is 0 in a reverse walk, and
        // the count + 1 in a forward one.
        while let Some(index) = (frame.state as usize).checked_sub(1).filter(|at| *at < count) {
            frame.state = if is_reverse { frame.state - 1 } else { frame.state + 1 };
            let child = array.child(index).get();
            if child.is_none() {
                continue;
            }
            let next = (frame.state as usize).checked_sub(1).filter(|at| *at < count);
            if let Some(next) = next {
                self.view.prefetch(array.child(next).get());
            }
            return Some((array.byte(index), child, next.is_some()));
        }
        None
    }

    fn next_of_wide(&self, frame: &mut Frame, from: Option<u8>) -> Option<(u8, Pointer, bool)> {
        let Node::Wide(wide) = self.view.open(frame.node) else {
            return None;
        };
        let next = frame.state as u8;
        let found = if self.is_reverse() {
            let (byte, child) = last_of(wide, from.map_or(next, |from| next.min(from)))?;
            frame.state = u32::from(byte).wrapping_sub(1);
            (byte, child, byte != 0)
        } else {
            let (byte, child) = first_of(wide, from.map_or(next, |from| next.max(from)))?;
            frame.state = u32::from(byte) + 1;
            (byte, child, byte != 0xFF)
        };
        if found.2 {
            // In a node with dense bytes, the neighbour is the next child.
            self.view.prefetch(wide.find(frame.state as u8).get());
        }
        Some(found)
    }

    fn ascend(&mut self) -> Position {
        while !self.stack.is_empty() {
            if let Some(position) = self.next_of_frame(None) {
                return position;
            }
        }
        self.exhaust()
    }

    fn exhaust(&mut self) -> Position {
        (self.node, self.content) = (Pointer::NONE, Pointer::NONE);
        self.position = Position::exhausted(self.position.direction());
        self.position
    }

    /// Leaves the nodes deeper than `target`, and moves to the first position that is not before
    /// it.
    fn ascend_to(&mut self, target: Position) -> Position {
        let depth = target.depth();
        while let Some(&frame) = self.stack.last() {
            if frame.depth < depth {
                return self.ascend();
            }
            let found = if frame.depth > depth {
                self.stack.pop();
                None
            } else if frame.node.is_leaf() {
                let position = self.next_of_frame(None);
                position.filter(|&position| position >= target)
            } else {
                self.next_of_frame(Some(target.byte()))
            };
            if let Some(position) = found {
                return position;
            }
        }
        self.exhaust()
    }
}

/// Returns the child of a wide node with the least byte that is at least `from`.
fn first_of(wide: Wide<'_>, from: u8) -> Option<(u8, Pointer)> {
    let links = wide.children[from as usize..].iter().map(Link::get);
    (from..=0xFF).zip(links).find(|(_, child)| !child.is_none())
}

/// Returns the child of a wide node with the greatest byte that is at most `from`.
fn last_of(wide: Wide<'_>, from: u8) -> Option<(u8, Pointer)> {
    let links = &wide.children[..=from as usize];
    let last = links.iter().rposition(|link| !link.get().is_none())?;
    Some((last as u8, links[last].get()))
}

impl<'a, C> Cursor for MemoryCursor<'a, C> {
    type Content = &'a C;

    fn position(&self) -> Position {
        self.position
    }

    fn content(&self) -> Option<&'a C> {
        if self.content.is_none() { None } else { Some(self.view.content(self.content)) }
    }

    fn advance(&mut self) -> Position {
        match self.descend(None) {
            Some(position) => position,
            None => self.ascend(),
        }
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        if !self.node.is_none()
            && self.node.kind() == Kind::Chain
            && let Node::Chain(chain) = self.view.open(self.node)
            && let [passed @ .., last] = chain.bytes
        {
            path.add_bytes(passed);
            let position = self.at(self.position.depth() + chain.bytes.len() as u32, *last);
            return self.arrive(chain.child.get(), position);
        }
        self.advance()
    }

    fn skip_children(&mut self) -> Position {
        self.node = Pointer::NONE;
        self.ascend()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        if self.position.is_at_or_after(target) {
            return self.position;
        }
        let position = if target.depth() > self.position.depth() {
            match self.descend(Some(target.byte())) {
                Some(position) => position,
                None => self.ascend(),
            }
        } else {
            self.ascend_to(target)
        };
        // The target may be the returning position of the node that was found.
        if position < target { self.skip_children() } else { position }
    }

    fn skip_along(&mut self, path: &[u8]) -> usize {
        let mut followed = 0;
        while let Some(&byte) = path.get(followed) {
            if self.position.is_exhausted() || self.position.is_returning() {
                return followed;
            }
            if !self.node.is_none()
                && let Node::Chain(chain) = self.view.open(self.node)
            {
                let matched = common_length(chain.bytes, &path[followed..]);
                if let Some(last) = matched.checked_sub(1) {
                    let depth = self.position.depth() + matched as u32;
                    let next = if matched == chain.bytes.len() {
                        chain.child.get()
                    } else {
                        self.node.with_offset(self.node.offset() + matched)
                    };
                    let position = self.at(depth, chain.bytes[last]);
                    // A leaf in a reverse walk is at its returning position.
                    let hit = self.arrive(next, position) == position;
                    followed += if hit { matched } else { last };
                    if hit {
                        continue;
                    }
                    return followed;
                }
            }
            let target = self.position.child(byte);
            if self.skip_to(target) != target {
                return followed;
            }
            followed += 1;
        }
        followed
    }
}
