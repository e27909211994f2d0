//! A view of the structure, during which none of it is recycled.

#![allow(unsafe_code)]

use super::node::{Node, open};
use super::pointer::{Kind, Pointer};
use super::shared::Shared;
use crate::prefetch::prefetch;

/// Permission to read the structure for `'a`: a pinned epoch, or a borrow of the writer.
pub(crate) struct View<'a, C> {
    pub(crate) shared: &'a Shared<C>,
}

impl<C> Clone for View<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for View<'_, C> {}

impl<'a, C> View<'a, C> {
    /// Creates a view.
    ///
    /// # Safety
    /// For all of `'a`, no block or content that can be found in the structure from now on is
    /// recycled, and no content is mutated: because an epoch is pinned (and there is a reader), or
    /// because the writer is borrowed.
    pub(crate) unsafe fn new(shared: &'a Shared<C>) -> View<'a, C> {
        View { shared }
    }

    pub(crate) fn root(self) -> Pointer {
        self.shared.root.get()
    }

    /// Reads the node at a pointer that was found in this structure. The pointer must not be none.
    #[inline(always)]
    pub(crate) fn open(self, pointer: Pointer) -> Node<'a> {
        // SAFETY: the promise made to `new`.
        unsafe { open(&self.shared.blocks, pointer) }
    }

    #[inline(always)]
    pub(crate) fn content(self, leaf: Pointer) -> &'a C {
        debug_assert!(leaf.is_leaf());
        // SAFETY: the promise made to `new`; a content is written before its pointer is published.
        unsafe { &*self.shared.content(leaf.index()) }
    }

    /// Prefetches the block of a pointer, which will be needed soon.
    #[inline]
    pub(crate) fn prefetch(self, pointer: Pointer) {
        if !pointer.is_none() {
            // SAFETY: the pointer is one of the structure.
            prefetch(unsafe { self.shared.blocks.unit(pointer.index()) }.cast());
        }
    }

    /// Prefetches the part of a node that a look-up of the path `rest` reads: the line of the next
    /// child in a wide node, all lines of an array node, which are few, or the block of another
    /// node.
    #[inline]
    pub(crate) fn prefetch_towards(self, pointer: Pointer, rest: &[u8]) {
        if pointer.is_none() {
            return;
        }
        match (pointer.kind(), rest.first()) {
            (Kind::Array | Kind::LongArray | Kind::Wide, Some(&byte)) => match self.open(pointer) {
                // Opening these nodes reads none of their bytes.
                Node::Array(array) => array.prefetch(),
                Node::Wide(wide) => prefetch(std::ptr::from_ref(wide.find(byte)).cast()),
                _ => {}
            },
            _ => self.prefetch(pointer),
        }
    }

    /// Returns the content of a key.
    #[inline]
    pub(crate) fn get(self, key: &[u8]) -> Option<&'a C> {
        self.get_below(self.root(), key)
    }

    /// Returns the content of `key` below `pointer`, which may be none.
    #[inline]
    pub(crate) fn get_below(self, pointer: Pointer, key: &[u8]) -> Option<&'a C> {
        let (content, _) = self.unwrap_prefix(self.find_below(pointer, key));
        if content.is_none() { None } else { Some(self.content(content)) }
    }

    /// Returns the pointer to the node at the end of a path; none if there is no such node.
    #[inline]
    pub(crate) fn find(self, key: &[u8]) -> Pointer {
        self.find_below(self.root(), key)
    }

    /// Returns the pointer to the node at the end of a path that begins at `pointer`, which may be
    /// none.
    #[inline]
    pub(crate) fn find_below(self, mut pointer: Pointer, key: &[u8]) -> Pointer {
        let mut rest = key;
        while !pointer.is_none() && !rest.is_empty() {
            (pointer, rest) = self.follow(pointer, rest);
        }
        pointer
    }

    /// Takes one step of a path that is not empty, from an existing node. Returns the next node,
    /// none if the path leaves the structure, and the rest of the path.
    #[inline(always)]
    pub(crate) fn follow(self, pointer: Pointer, rest: &[u8]) -> (Pointer, &[u8]) {
        match self.open(pointer) {
            Node::Leaf => (Pointer::NONE, rest),
            Node::Chain(chain) => match rest.split_at_checked(chain.bytes.len()) {
                Some((head, tail)) if head == chain.bytes => (chain.child.get(), tail),
                None if chain.bytes.starts_with(rest) => {
                    (pointer.with_offset(pointer.offset() + rest.len()), &[])
                }
                _ => (Pointer::NONE, rest),
            },
            Node::Sparse(sparse) => match sparse.find(rest[0]) {
                Some(child) => (child.get(), &rest[1..]),
                None => (Pointer::NONE, rest),
            },
            Node::Array(array) => match array.find(rest[0]) {
                Some(child) => (child.get(), &rest[1..]),
                None => (Pointer::NONE, rest),
            },
            Node::Wide(wide) => (wide.find(rest[0]).get(), &rest[1..]),
            Node::Prefix(prefix) => (prefix.inner.pointer(), rest),
        }
    }

    /// Returns the content of a node, as a leaf pointer, and the node without it; each is none if
    /// there is none.
    #[inline]
    pub(crate) fn unwrap_prefix(self, pointer: Pointer) -> (Pointer, Pointer) {
        if pointer.is_none() {
            return (Pointer::NONE, Pointer::NONE);
        }
        match self.open(pointer) {
            Node::Leaf => (pointer, Pointer::NONE),
            Node::Prefix(prefix) => (prefix.content.get(), prefix.inner.pointer()),
            _ => (Pointer::NONE, pointer),
        }
    }
}
