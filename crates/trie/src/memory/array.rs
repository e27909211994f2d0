//! An array node is made for seven children or more, and keeps its form down to five. It has
//! several blocks side by side: the children's bytes in ascending order, their number, and the
//! children in the same order.
//!
//! | type       | blocks | bytes |
//! | ---------- | ------ | ----- |
//! | array      | 4      | 00–17: up to 24 transitions; 18: their number; 20–7F: the children |
//! | long array | 8      | 00–2F: up to 48 transitions; 30: their number; 40–FF: the children |
//!
//! All transitions are in the node's first cache line, and a child is in the same line or in
//! another one. The paper's split nodes (lead, mid and bottom blocks) take three accesses one after
//! the other, and 17 blocks for 15 children at random bytes.
//!
//! **Invariant.** Transitions and their number change only while there are no readers. While there
//! are readers, the writer copies a node to add a transition, and a node that loses a child keeps
//! the transition, with an empty link. A later child for the same byte needs only a store to that
//! link.

#![allow(unsafe_code)]

use super::node::{BLOCK_BYTES, Blocks};
use super::pointer::{Kind, Link, Pointer};
use crate::prefetch::prefetch;
use std::marker::PhantomData;

/// The layout of an array node in its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    /// The maximum number of children.
    pub(crate) capacity: usize,
    pub(crate) blocks: u32,
    /// The offset of the children, in bytes.
    children_at: usize,
}

/// The maximum number of children of any array node.
pub(crate) const MAX_LENGTH: usize = 48;

pub(crate) const ARRAY: Layout =
    Layout { kind: Kind::Array, capacity: 24, blocks: 4, children_at: 32 };
pub(crate) const LONG_ARRAY: Layout =
    Layout { kind: Kind::LongArray, capacity: MAX_LENGTH, blocks: 8, children_at: 64 };

const _: () = {
    assert!(ARRAY.children_at + 4 * ARRAY.capacity == ARRAY.blocks as usize * BLOCK_BYTES);
    assert!(
        LONG_ARRAY.children_at + 4 * LONG_ARRAY.capacity
            == LONG_ARRAY.blocks as usize * BLOCK_BYTES
    );
};

impl Layout {
    /// Returns the smallest layout for `count` children.
    pub(crate) fn for_children(count: usize) -> Option<Layout> {
        [ARRAY, LONG_ARRAY].into_iter().find(|layout| count <= layout.capacity)
    }

    pub(crate) fn pointer(self, block: u32) -> Pointer {
        match self.kind {
            Kind::LongArray => Pointer::long_array(block),
            _ => Pointer::array(block),
        }
    }
}

/// An opened array node. It holds no references, so that the writer may change the node while the
/// writer holds this value.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    start: *mut u8,
    layout: Layout,
    lives: PhantomData<&'a Link>,
}

impl<'a> Array<'a> {
    /// Opens an array node.
    ///
    /// # Safety
    /// As for [`super::node::open`], for an array node of this layout.
    #[inline(always)]
    pub(crate) unsafe fn new(blocks: &'a Blocks, pointer: Pointer, layout: Layout) -> Array<'a> {
        // SAFETY: the caller's promise.
        let start = unsafe { blocks.unit(pointer.index()) }.cast();
        Array { start, layout, lives: PhantomData }
    }

    pub(crate) fn layout(self) -> Layout {
        self.layout
    }

    /// Returns the number of transitions, including those without a child.
    #[inline(always)]
    pub(crate) fn count(self) -> usize {
        // SAFETY: set when the node was made, and changed only without readers.
        let count = unsafe { self.start.add(self.layout.capacity).read() };
        usize::from(count).min(self.layout.capacity)
    }

    /// Returns the transition of a child.
    #[inline(always)]
    pub(crate) fn byte(self, index: usize) -> u8 {
        debug_assert!(index < self.count());
        // SAFETY: as for `count`; all transitions are initialised.
        unsafe { self.start.add(index.min(self.layout.capacity - 1)).read() }
    }

    /// Returns the link of a child, which may be empty.
    #[inline(always)]
    pub(crate) fn child(self, index: usize) -> &'a Link {
        debug_assert!(index < self.count());
        let index = index.min(self.layout.capacity - 1);
        // SAFETY: in the node's blocks, which live for 'a, and initialised as far as the count
        // goes.
        unsafe { &*self.start.add(self.layout.children_at).cast::<Link>().add(index) }
    }

    /// Returns the link of the child for `byte`, which may be empty.
    #[inline(always)]
    pub(crate) fn find(self, byte: u8) -> Option<&'a Link> {
        self.prefetch_children();
        // SAFETY: the transitions are initialised, and do not change while there are readers.
        let matches = unsafe {
            match self.layout.kind {
                Kind::LongArray => matches::<MAX_LENGTH>(self.start, byte),
                _ => matches::<{ ARRAY.capacity }>(self.start, byte),
            }
        };
        let matches = matches & ((1 << self.count()) - 1);
        (matches != 0).then(|| self.child(matches.trailing_zeros() as usize))
    }

    /// Prefetches the lines after the first one while the first one is loaded. This saves 5 % of a
    /// look-up among millions of keys.
    #[inline(always)]
    fn prefetch_children(self) {
        for line in (64..self.layout.blocks as usize * BLOCK_BYTES).step_by(64) {
            prefetch(self.start.wrapping_add(line));
        }
    }

    /// Prefetches all lines.
    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch(self.start);
        self.prefetch_children();
    }

    /// Returns the number of transitions that are less than `byte`.
    pub(crate) fn rank(self, byte: u8) -> usize {
        (0..self.count()).take_while(|&index| self.byte(index) < byte).count()
    }

    /// Returns the transitions that have a child, with their children, in ascending order.
    pub(crate) fn children(self) -> impl DoubleEndedIterator<Item = (u8, Pointer)> + use<'a> {
        let all = (0..self.count()).map(move |index| (self.byte(index), self.child(index).get()));
        all.filter(|(_, child)| !child.is_none())
    }

    /// Writes a new node into its blocks.
    ///
    /// # Safety
    /// Only the caller reaches the blocks; `children` has at most as many items as the node has
    /// room for.
    pub(crate) unsafe fn write(self, children: impl Iterator<Item = (u8, Pointer)>) {
        // SAFETY: the caller's promise; all writes are within the blocks.
        unsafe {
            self.start.write_bytes(0, self.layout.children_at);
            let mut count = 0;
            for (byte, child) in children.take(self.layout.capacity) {
                self.start.add(count).write(byte);
                self.link(count).write(Link::new(child));
                count += 1;
            }
            self.start.add(self.layout.capacity).write(count as u8);
        }
    }

    fn link(self, index: usize) -> *mut Link {
        // SAFETY: callers pass indices within the node.
        unsafe { self.start.add(self.layout.children_at).cast::<Link>().add(index) }
    }

    /// Adds a child in place.
    ///
    /// # Safety
    /// There are no readers; the caller is the writer. The node has room, and no such transition.
    pub(crate) unsafe fn insert(self, byte: u8, child: Pointer) {
        let (count, at) = (self.count(), self.rank(byte));
        // SAFETY: the caller's promise; there is room for one more.
        unsafe {
            self.start.add(at).copy_to(self.start.add(at + 1), count - at);
            self.link(at).copy_to(self.link(at + 1), count - at);
            self.start.add(at).write(byte);
            self.link(at).write(Link::new(child));
            self.start.add(self.layout.capacity).write(count as u8 + 1);
        }
    }

    /// Removes a transition in place.
    ///
    /// # Safety
    /// There are no readers; the caller is the writer.
    pub(crate) unsafe fn remove(self, byte: u8) {
        let (count, at) = (self.count(), self.rank(byte));
        if at >= count || self.byte(at) != byte {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.start.add(at + 1).copy_to(self.start.add(at), count - at - 1);
            self.link(at + 1).copy_to(self.link(at), count - at - 1);
            self.start.add(self.layout.capacity).write(count as u8 - 1);
        }
    }
}

/// Returns a bit for each of `N` bytes, at most 64, that equals `byte`.
///
/// # Safety
/// There are `N` initialised bytes, which do not change during the call.
#[inline(always)]
unsafe fn matches<const N: usize>(bytes: *const u8, byte: u8) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_loadl_epi64, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        let mut matches = 0;
        let mut at = 0;
        // SAFETY: within the N bytes; SSE2 is part of x86-64.
        unsafe {
            let wanted = _mm_set1_epi8(byte as i8);
            while at + 16 <= N {
                let some = _mm_loadu_si128(bytes.add(at).cast());
                let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(some, wanted)) as u32;
                matches |= u64::from(equal) << at;
                at += 16;
            }
            if at + 8 <= N {
                let some = _mm_loadl_epi64(bytes.add(at).cast());
                let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(some, wanted)) as u32 & 0xFF;
                matches |= u64::from(equal) << at;
            }
        }
        matches
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, N) };
        let equal = |(at, other): (usize, &u8)| u64::from(*other == byte) << at;
        bytes.iter().enumerate().map(equal).fold(0, |all, bit| all | bit)
    }
}
