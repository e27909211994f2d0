//! The types of nodes in 32-byte blocks (paper, table 1), for reading.
//!
//! | type   | bytes of the block |
//! | ------ | ------------------ |
//! | chain  | 02–1B: transitions, each leading to the next; 1C–1F: child of the last |
//! | sparse | 00–17: up to six children; 18–1F: the [`SparseWord`]: bytes and order |
//! | array, long array | 4 or 8 blocks side by side, see [`super::array`] |
//! | wide   | 32 blocks side by side: the child for each byte |
//! | prefix | 00–03: content; 04: the type bits of an embedded chain, or FF; 1C–1F: see below |
//!
//! The offset in a chain's pointer is its first byte in use. A prefix embeds a chain in the rest of
//! its block (from offset 5 on); if byte 04 is FF, the word at 1C–1F points to its node instead.
//!
//! While there are readers, only [`Link`]s and atomic words of a published block change. All other
//! bytes are written before the block is published, and then stay until it is recycled.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::array::{ARRAY, Array, LONG_ARRAY};
use super::pointer::{CHAIN_END, Kind, Link, Pointer};
use super::sparse_word::SparseWord;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unit of structure. Only its size and alignment matter; access is by word, see above.
#[repr(C, align(32))]
pub(crate) struct Block([u8; 32]);

pub(crate) type Blocks = Arena<Block>;

pub(crate) const BLOCK_BYTES: usize = size_of::<Block>();
/// The first byte at which a chain that shares its block with a content may begin.
pub(crate) const EMBEDDED_CHAIN_START: usize = 5;
/// The byte of a prefix block that locates the augmented node.
pub(crate) const PREFIX_OFFSET_BYTE: usize = 4;
/// The value of that byte if the node is outside of the block.
pub(crate) const STANDALONE: u8 = 0xFF;
/// The last word: the child of a chain, or the node that a standalone prefix augments.
pub(crate) const LAST_WORD: usize = 7;
pub(crate) const SPARSE_WIDTH: usize = 6;
pub(crate) const SPARSE_WORD_OFFSET: usize = 0x18;
/// Blocks of a wide node.
pub(crate) const WIDE_BLOCKS: u32 = 256 * 4 / BLOCK_BYTES as u32;

/// A node, read as its pointer's type prescribes.
pub(crate) enum Node<'a> {
    Leaf,
    Chain(Chain<'a>),
    Sparse(Sparse<'a>),
    Array(Array<'a>),
    Wide(Wide<'a>),
    Prefix(Prefix<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    /// One to 26 transitions.
    pub(crate) bytes: &'a [u8],
    /// The child of the last of them.
    pub(crate) child: &'a Link,
}

#[derive(Clone, Copy)]
pub(crate) struct Sparse<'a> {
    pub(crate) children: &'a [Link; SPARSE_WIDTH],
    pub(crate) word: &'a AtomicU64,
}

/// A node with a place for each byte.
#[derive(Clone, Copy)]
pub(crate) struct Wide<'a> {
    pub(crate) children: &'a [Link; 256],
}

#[derive(Clone, Copy)]
pub(crate) struct Prefix<'a> {
    pub(crate) content: &'a Link,
    pub(crate) inner: Inner<'a>,
}

/// The node that a prefix augments.
#[derive(Clone, Copy)]
pub(crate) enum Inner<'a> {
    /// A chain in the same block.
    Embedded(Pointer),
    Standalone(&'a Link),
}

impl Kind {
    /// Returns the number of blocks of a node of this type.
    pub(crate) fn blocks(self) -> u32 {
        match self {
            Kind::Wide => WIDE_BLOCKS,
            Kind::Array => ARRAY.blocks,
            Kind::LongArray => LONG_ARRAY.blocks,
            Kind::Chain | Kind::Leaf | Kind::Sparse | Kind::Prefix => 1,
        }
    }
}

impl Inner<'_> {
    pub(crate) fn pointer(self) -> Pointer {
        match self {
            Inner::Embedded(pointer) => pointer,
            Inner::Standalone(link) => link.get(),
        }
    }
}

impl<'a> Sparse<'a> {
    pub(crate) fn load_word(self) -> SparseWord {
        // Acquire: the children that the word lists are stored before it.
        SparseWord::from_raw(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn find(self, byte: u8) -> Option<&'a Link> {
        self.load_word().find(byte).map(|index| &self.children[index])
    }
}

impl<'a> Wide<'a> {
    /// Returns the link of the child for `byte`. It may be empty.
    #[inline(always)]
    pub(crate) fn find(self, byte: u8) -> &'a Link {
        &self.children[byte as usize]
    }

    /// Returns the children and their bytes, in ascending order of bytes.
    pub(crate) fn children(self) -> impl Iterator<Item = (u8, Pointer)> {
        present(self.children)
    }
}

/// Returns the pointers that are not none, with their places.
fn present(links: &[Link]) -> impl Iterator<Item = (u8, Pointer)> {
    (0..=0xFF).zip(links.iter().map(Link::get)).filter(|(_, pointer)| !pointer.is_none())
}

/// Returns a word of a block.
///
/// # Safety
/// As for [`open`]; and the word is one that the node's type has, initialised.
pub(crate) unsafe fn word(blocks: &Blocks, pointer: Pointer, word: usize) -> &Link {
    debug_assert!(word < 8);
    // SAFETY: the caller's promise.
    unsafe { &*blocks.unit(pointer.index()).cast::<Link>().add(word) }
}

/// Reads the node at a pointer. The pointer must not be [`Pointer::NONE`].
///
/// # Safety
/// The pointer was loaded from the structure, or made by the writer, and for all of `'a` its block
/// will not be recycled: because an epoch is pinned that is not later than the block's retirement,
/// or because the caller keeps the writer from retiring the block.
#[inline(always)]
pub(crate) unsafe fn open<'a>(blocks: &'a Blocks, pointer: Pointer) -> Node<'a> {
    debug_assert!(!pointer.is_none());
    // SAFETY (all blocks below): the type in the pointer determines how the block was written.
    match pointer.kind() {
        Kind::Leaf => Node::Leaf,
        // SAFETY: see above.
        Kind::Chain => Node::Chain(unsafe { chain(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Sparse => Node::Sparse(unsafe { sparse(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Array => Node::Array(unsafe { Array::new(blocks, pointer, ARRAY) }),
        // SAFETY: see above.
        Kind::LongArray => Node::Array(unsafe { Array::new(blocks, pointer, LONG_ARRAY) }),
        // SAFETY: see above.
        Kind::Wide => Node::Wide(unsafe { wide(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Prefix => Node::Prefix(unsafe { prefix(blocks, pointer) }),
    }
}

/// Reads a chain.
///
/// # Safety
/// As for [`open`], for a chain.
#[inline(always)]
pub(crate) unsafe fn chain<'a>(blocks: &'a Blocks, pointer: Pointer) -> Chain<'a> {
    let offset = pointer.offset();
    // SAFETY: bytes from the pointer's offset on are initialised and do not change; the child's
    // word is not among them.
    unsafe {
        let block = blocks.unit(pointer.index()).cast::<u8>();
        let bytes = std::slice::from_raw_parts(block.add(offset), CHAIN_END - offset);
        Chain { bytes, child: word(blocks, pointer, LAST_WORD) }
    }
}

/// Reads a sparse node.
///
/// # Safety
/// As for [`open`], for a sparse node.
#[inline(always)]
pub(crate) unsafe fn sparse<'a>(blocks: &'a Blocks, pointer: Pointer) -> Sparse<'a> {
    // SAFETY: all bytes of a sparse node are initialised, and changed only atomically.
    unsafe {
        let block = blocks.unit(pointer.index());
        Sparse {
            children: &*block.cast(),
            word: &*block.cast::<u8>().add(SPARSE_WORD_OFFSET).cast(),
        }
    }
}

/// Reads a wide node.
///
/// # Safety
/// As for [`open`], for a wide node.
#[inline(always)]
pub(crate) unsafe fn wide<'a>(blocks: &'a Blocks, pointer: Pointer) -> Wide<'a> {
    // SAFETY: the node's 32 blocks lie side by side in one chunk, and all their words are links
    // from before the node was published.
    Wide { children: unsafe { &*blocks.unit(pointer.index()).cast() } }
}

/// Reads a prefix.
///
/// # Safety
/// As for [`open`], for a prefix.
#[inline(always)]
pub(crate) unsafe fn prefix<'a>(blocks: &'a Blocks, pointer: Pointer) -> Prefix<'a> {
    // SAFETY: content and offset are written before a prefix is published, and the last word too
    // when the prefix stands alone.
    unsafe {
        let content = word(blocks, pointer, 0);
        let offset = *blocks.unit(pointer.index()).cast::<u8>().add(PREFIX_OFFSET_BYTE);
        let inner = if offset == STANDALONE {
            Inner::Standalone(word(blocks, pointer, LAST_WORD))
        } else {
            Inner::Embedded(pointer.with_offset(offset as usize))
        };
        Prefix { content, inner }
    }
}
