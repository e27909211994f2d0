//! Reads below a prefix without following the prefix each time.

use super::cursor::MemoryCursor;
use super::pointer::Pointer;
use super::view::View;
use crate::cursor::{Direction, Entries};

/// The keys of a trie that begin with some prefix. A read may see writes that are newer than the
/// subtrie, unless the subtrie comes from a [`super::Snapshot`].
pub struct Subtrie<'a, C> {
    view: View<'a, C>,
    root: Pointer,
}

impl<C> Clone for Subtrie<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Subtrie<'_, C> {}

impl<'a, C> Subtrie<'a, C> {
    pub(super) fn new(view: View<'a, C>, prefix: &[u8]) -> Subtrie<'a, C> {
        Subtrie { view, root: view.find(prefix) }
    }

    pub(super) fn below(view: View<'a, C>, root: Pointer) -> Subtrie<'a, C> {
        Subtrie { view, root }
    }

    /// Returns whether there is no key with the prefix.
    pub fn is_empty(self) -> bool {
        self.root.is_none()
    }

    /// Returns the content of prefix + `suffix`.
    #[inline]
    pub fn get(self, suffix: &[u8]) -> Option<&'a C> {
        self.view.get_below(self.root, suffix)
    }

    /// Returns the keys that begin with the prefix and `suffix`.
    pub fn subtrie(self, suffix: &[u8]) -> Subtrie<'a, C> {
        Subtrie { view: self.view, root: self.view.find_below(self.root, suffix) }
    }

    /// Returns a cursor over this part; its paths begin after the prefix.
    pub fn cursor(self, direction: Direction) -> MemoryCursor<'a, C> {
        MemoryCursor::new(self.view, self.root, direction)
    }

    /// Returns all keys below the prefix and their contents, in order. The keys lack the prefix.
    pub fn entries(self, direction: Direction) -> Entries<MemoryCursor<'a, C>> {
        Entries::new(self.cursor(direction))
    }
}
