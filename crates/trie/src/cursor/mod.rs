//! Walking a trie: a cursor lists its nodes in order, and says of each how deep it is and which
//! byte leads to it. These two facts are enough to rebuild every key, and to merge tries by
//! comparing two numbers (paper, section 5.2).
//!
//! **Order.** A forward walk lists a node before its children, and children by ascending byte, so
//! that contents come in ascending order of keys. A reverse walk lists children by descending byte;
//! because a key sorts before its extensions, the content of a node is then listed *after* its
//! children: the walk comes back to the node, at a [`Position`] of the same depth and byte marked
//! as returning. In a reverse walk every content, that of a leaf included, is at a returning
//! position, and a node without children is listed at that position only. Contents thus come in
//! exactly the opposite order, from one trie and from a union of several.
//!
//! **Path.** On every position other than the root, `path.truncate(depth - 1); path.push(byte)`
//! keeps the path to the node; this holds for returning positions too.
//!
//! Memory bound: a cursor keeps at most two small entries for each byte of the current path.

mod entries;
mod position;
mod singleton;
mod slice;
mod union;
mod union_many;

pub use entries::Entries;
pub use position::{Direction, Position};
pub use singleton::Singleton;
pub use slice::Slice;
pub use union::Union;
pub use union_many::UnionMany;

/// Receives the bytes that [`Cursor::advance_multiple`] passes over.
pub trait PathReceiver {
    /// Adds bytes to the end of the path.
    fn add_bytes(&mut self, bytes: &[u8]);
}

impl PathReceiver for Vec<u8> {
    fn add_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// For walks that do not need the path.
impl PathReceiver for () {
    fn add_bytes(&mut self, _bytes: &[u8]) {}
}

/// An ordered walk over the nodes of a trie. It begins at the root (depth 0).
///
/// The moving functions return the position reached, the same that [`Cursor::position`] tells
/// afterwards. Once exhausted, a cursor stays so.
pub trait Cursor {
    /// What keys map to.
    type Content;

    /// Where the walk is.
    fn position(&self) -> Position;

    /// The content at this position. In a reverse walk, only returning positions have any.
    fn content(&self) -> Option<Self::Content>;

    /// Moves to the next node: the first child, or else the next node of a shorter path.
    fn advance(&mut self) -> Position;

    /// Like [`Cursor::advance`], but may pass over nodes that have exactly one child and no
    /// content. Their bytes are given to `path`; the byte of the node reached is not.
    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        let _ = path;
        self.advance()
    }

    /// Moves to the next position that is not below the present node. In a reverse walk that may
    /// be the returning position of the same node, if it has content.
    fn skip_children(&mut self) -> Position;

    /// Moves to the first position that is not before `target`: so a walk seeks among the children of
    /// a node, or leaves a branch.
    ///
    /// `target` is where one of these would be, whether or not it is there: a child of the present
    /// node (the cursor stays if the children are behind); a later sibling of the present node or of
    /// one that leads to it; or the returning position, in a reverse walk, of the present node, one
    /// that leads to it, or any of the others. Of other targets only this much is promised: that
    /// the walk does not go back.
    fn skip_to(&mut self, target: Position) -> Position;

    /// Follows `path` down from the present node, for as long as its nodes are there, and returns how
    /// many of its bytes were followed. If not all, the cursor is at the first position that is not
    /// before the node that was missed. The same as [`Cursor::skip_to`] for one child after the other.
    fn skip_along(&mut self, path: &[u8]) -> usize {
        for (followed, &byte) in path.iter().enumerate() {
            let position = self.position();
            if position.is_exhausted() || position.is_returning() {
                return followed;
            }
            let target = position.child(byte);
            if self.skip_to(target) != target {
                return followed;
            }
        }
        path.len()
    }

    /// The direction of the walk.
    fn direction(&self) -> Direction {
        self.position().direction()
    }

    /// Number of bytes between the root and the present node; 0 when exhausted.
    fn depth(&self) -> usize {
        self.position().depth() as usize
    }

    /// The byte that leads to the present node; 0 at the root.
    fn incoming_byte(&self) -> u8 {
        self.position().byte()
    }

    /// Whether the walk is over.
    fn is_exhausted(&self) -> bool {
        self.position().is_exhausted()
    }

    /// The walk as a list of keys and contents.
    fn into_entries(self) -> Entries<Self>
    where
        Self: Sized,
    {
        Entries::new(self)
    }
}

impl<T: Cursor + ?Sized> Cursor for Box<T> {
    type Content = T::Content;

    fn position(&self) -> Position {
        (**self).position()
    }

    fn content(&self) -> Option<Self::Content> {
        (**self).content()
    }

    fn advance(&mut self) -> Position {
        (**self).advance()
    }

    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        (**self).advance_multiple(path)
    }

    fn skip_children(&mut self) -> Position {
        (**self).skip_children()
    }

    fn skip_to(&mut self, target: Position) -> Position {
        (**self).skip_to(target)
    }

    fn skip_along(&mut self, path: &[u8]) -> usize {
        (**self).skip_along(path)
    }
}
