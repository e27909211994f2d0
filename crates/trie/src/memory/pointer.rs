//! A pointer to a node: 27 bits of index and 5 bits of type in 32 (paper, section 5.1 and table 1).
//!
//! The type in the pointer determines how to read the block, so a block has no header, and a
//! pointer can name a position inside a chain. Unlike in the paper, the low 5 bits, and not the
//! sign, mark a pointer to content, and contents are in blocks, too: a trie has at most 2^27
//! blocks, 4 GiB.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of a block's or a content's index.
pub(crate) const INDEX_BITS: u32 = 27;
const TYPE_BITS: u32 = 5;
const TYPE_MASK: u32 = (1 << TYPE_BITS) - 1;

/// Values of the low 5 bits; the values between are the offset of the transition in a chain block.
const WIDE: u32 = 0x00;
const LONG_ARRAY: u32 = 0x01;
const ARRAY: u32 = 0x1C;
const LEAF: u32 = 0x1D;
const SPARSE: u32 = 0x1E;
const PREFIX: u32 = 0x1F;

/// The first byte of a block at which a chain's transitions may begin: lesser offsets mean other
/// nodes.
pub(crate) const CHAIN_START: usize = 2;
/// The byte of a block at which a chain's transitions end.
pub(crate) const CHAIN_END: usize = 28;
/// Transitions in a full chain block.
pub(crate) const CHAIN_LENGTH: usize = CHAIN_END - CHAIN_START;

/// Points to a node or to a content (a leaf is a content without children), or is none.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Pointer(u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Chain,
    Array,
    LongArray,
    Wide,
    Leaf,
    Sparse,
    Prefix,
}

impl Pointer {
    /// No node has this value, because block 0 is never used.
    pub(crate) const NONE: Pointer = Pointer(0);

    const fn new(index: u32, kind: u32) -> Pointer {
        debug_assert!(index < 1 << INDEX_BITS);
        Pointer(index << TYPE_BITS | kind)
    }

    pub(crate) const fn leaf(content: u32) -> Pointer {
        Pointer::new(content, LEAF)
    }

    pub(crate) fn chain(block: u32, offset: usize) -> Pointer {
        debug_assert!((CHAIN_START..CHAIN_END).contains(&offset));
        Pointer::new(block, offset as u32)
    }

    pub(crate) const fn sparse(block: u32) -> Pointer {
        Pointer::new(block, SPARSE)
    }

    /// Returns the pointer to an array node from its first block.
    pub(crate) const fn array(block: u32) -> Pointer {
        Pointer::new(block, ARRAY)
    }

    /// Returns the pointer to a long array node from its first block.
    pub(crate) const fn long_array(block: u32) -> Pointer {
        Pointer::new(block, LONG_ARRAY)
    }

    /// Returns the pointer to a wide node from its first block.
    pub(crate) const fn wide(block: u32) -> Pointer {
        Pointer::new(block, WIDE)
    }

    pub(crate) const fn prefix(block: u32) -> Pointer {
        Pointer::new(block, PREFIX)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the kind; meaningless for [`Pointer::NONE`].
    pub(crate) const fn kind(self) -> Kind {
        match self.0 & TYPE_MASK {
            ARRAY => Kind::Array,
            LONG_ARRAY => Kind::LongArray,
            WIDE => Kind::Wide,
            LEAF => Kind::Leaf,
            SPARSE => Kind::Sparse,
            PREFIX => Kind::Prefix,
            _ => Kind::Chain,
        }
    }

    pub(crate) const fn is_leaf(self) -> bool {
        self.0 & TYPE_MASK == LEAF
    }

    /// Returns the index of the block or the content.
    pub(crate) const fn index(self) -> u32 {
        self.0 >> TYPE_BITS
    }

    /// Returns the type bits; for a chain, the offset of its first transition.
    pub(crate) const fn offset(self) -> usize {
        (self.0 & TYPE_MASK) as usize
    }

    /// Returns the pointer to the node whose type bits are `offset` in the same block.
    pub(crate) const fn with_offset(self, offset: usize) -> Pointer {
        Pointer(self.0 & !TYPE_MASK | offset as u32)
    }
}

impl fmt::Debug for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        match self.kind() {
            Kind::Chain => write!(f, "chain {}+{}", self.index(), self.offset()),
            Kind::Array => write!(f, "array {}", self.index()),
            Kind::LongArray => write!(f, "long array {}", self.index()),
            Kind::Wide => write!(f, "wide {}", self.index()),
            Kind::Leaf => write!(f, "leaf {}", self.index()),
            Kind::Sparse => write!(f, "sparse {}", self.index()),
            Kind::Prefix => write!(f, "prefix {}", self.index()),
        }
    }
}

/// A place in the structure that holds a pointer: the root, or a word of a block.
///
/// The writer publishes with release order and all threads follow with acquire order: a thread that
/// sees a pointer sees everything to which it points.
#[repr(transparent)]
pub(crate) struct Link(AtomicU32);

impl Link {
    pub(crate) const fn new(pointer: Pointer) -> Link {
        Link(AtomicU32::new(pointer.0))
    }

    pub(crate) const fn none() -> Link {
        Link(AtomicU32::new(0))
    }

    pub(crate) fn get(&self) -> Pointer {
        Pointer(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn publish(&self, pointer: Pointer) {
        self.0.store(pointer.0, Ordering::Release);
    }
}
