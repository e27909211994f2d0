//! Cursors walk a trie: they list its nodes in order, and report for each node its depth and the
//! byte that leads to it. These two facts are enough to rebuild every key, and to merge tries by
//! comparing two numbers (paper, section 5.2).
//!
//! [`Cursor`] states the contract. [`Union`] and [`UnionMany`] merge walks, [`Slice`] restricts one
//! to a range of keys, [`Entries`] turns one into a list of keys and contents.
//!
//! Memory bound: a cursor over one trie keeps at most two small entries for each byte of the
//! current path.

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

/// A receiver of the bytes that [`Cursor::advance_multiple`] passes over.
pub trait PathReceiver {
    /// Adds bytes to the end of the path.
    fn add_bytes(&mut self, bytes: &[u8]);
}

impl PathReceiver for Vec<u8> {
    fn add_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A receiver for walks that do not need the path.
impl PathReceiver for () {
    fn add_bytes(&mut self, _bytes: &[u8]) {}
}

/// An ordered walk over the nodes of a trie.
///
/// **Positions.** A cursor is always at one [`Position`]: a node, given by its depth and the byte
/// that leads to it, or the end ([`Cursor::is_exhausted`]). A new cursor is at the root (depth 0),
/// or at the end if its walk has no node. The moving functions ([`advance`](Cursor::advance),
/// [`advance_multiple`](Cursor::advance_multiple), [`skip_children`](Cursor::skip_children),
/// [`skip_to`](Cursor::skip_to)) return the position that they reach;
/// [`position`](Cursor::position) returns the same until the next move. No function goes back.
///
/// **Order.** A forward walk lists a node before its children, and children by ascending byte, so
/// that contents come in ascending order of keys. A reverse walk lists children by descending byte.
/// Because a key sorts before its extensions, a reverse walk lists the content of a node *after*
/// its children: the walk returns to the node, at a position of the same depth and byte that is
/// marked as returning. In a reverse walk each content, that of a leaf included, is at a returning
/// position, and a leaf is listed at that position only. So contents come in exactly the opposite
/// order, from one trie and from a union of several.
///
/// **Path.** A cursor does not keep the key. After each move to a position other than the root and
/// the end, `path.truncate(depth - 1); path.push(byte)` makes `path` the path to the node, also at
/// returning positions. `advance_multiple` first appends the bytes that it passes over, so its
/// receiver must hold the path to the node that the cursor leaves.
///
/// **Legal calls.** Each function may be called at any position. [`content`](Cursor::content) does
/// not move, and may be called any number of times; a union merges again in each call. At the end,
/// moves do nothing and `content` returns `None`. Only `skip_to` restricts its argument; see there.
///
/// **The end.** A walk is over when a move returns an exhausted position; the cursor stays there.
/// There are no errors: a walk in memory does no I/O. A cursor may be dropped at any position.
///
/// **Borrows.** A cursor borrows its trie. A [`Content`](Cursor::Content) is independent of the
/// cursor's later moves, and of the cursor's life. [`crate::memory::MemoryCursor`] borrows the
/// writer, a guard, a snapshot or a transaction, and its contents live as long as that borrow.
/// While a cursor over a guard walks, the writer may change the trie, so the cursor does not show
/// one moment: it lists each node in its state when the walk reaches the node, or in an earlier
/// state since the beginning of the walk. A cursor over a snapshot shows one moment.
///
/// **Wrapping.** A cursor given to [`Union`], [`UnionMany`], [`Slice`] or [`Entries`] must be at
/// its root, and the cursors of a union must have the same direction. While a cursor is wrapped,
/// only the wrapper moves it.
pub trait Cursor {
    /// The value of a key.
    type Content;

    /// Returns the present position.
    fn position(&self) -> Position;

    /// Returns the content at this position. In a reverse walk, only returning positions have one.
    fn content(&self) -> Option<Self::Content>;

    /// Moves to the next position: the first child, or else the first position that is not below
    /// the present node.
    fn advance(&mut self) -> Position;

    /// Moves as [`Cursor::advance`] does, but may pass over nodes that have exactly one child and
    /// no content. It adds their bytes to `path`, but not the byte of the node that it reaches.
    fn advance_multiple(&mut self, path: &mut dyn PathReceiver) -> Position {
        let _ = path;
        self.advance()
    }

    /// Moves to the next position that is not below the present node. In a reverse walk that may be
    /// the returning position of the same node, if it has content.
    fn skip_children(&mut self) -> Position;

    /// Moves to the first position that is not before `target`. A caller uses this move to seek
    /// among the children of a node, or to leave a branch. A cursor that is not before `target`
    /// stays.
    ///
    /// `target` need not exist in the trie, but it must be one of these places: a child of the
    /// present node (if its children are passed, the cursor stays); a later sibling of the present
    /// node or of a node on its path; or, in a reverse walk, the returning position of the present
    /// node, of a node on its path, or of one of these siblings and children. For other targets,
    /// the cursor only guarantees that the walk does not go back.
    fn skip_to(&mut self, target: Position) -> Position;

    /// Follows `path` down from the present node as far as its nodes exist, and returns the number
    /// of bytes that it followed. If it followed fewer than all, the cursor is at the first
    /// position that is not before the missing node. The cursor moves as [`Cursor::skip_to`] does
    /// for one child after the other.
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

    /// Returns the direction of the walk.
    fn direction(&self) -> Direction {
        self.position().direction()
    }

    /// Returns the number of bytes between the root and the present node; 0 when exhausted.
    fn depth(&self) -> usize {
        self.position().depth() as usize
    }

    /// Returns the byte that leads to the present node; 0 at the root.
    fn incoming_byte(&self) -> u8 {
        self.position().byte()
    }

    /// Returns whether the walk is over.
    fn is_exhausted(&self) -> bool {
        self.position().is_exhausted()
    }

    /// Turns the walk, which must be at its root, into a list of keys and contents.
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
