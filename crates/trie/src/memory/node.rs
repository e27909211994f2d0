//! How the types of nodes lie in 32-byte blocks (paper, table 1), for reading.
//!
//! | type   | bytes of the block |
//! | ------ | ------------------ |
//! | chain  | 01–1B: transitions, each leading to the next; 1C–1F: child of the last. The pointer's offset is the first one in use |
//! | sparse | 00–17: up to six children; 18–1F: the [`SparseWord`], with their bytes and their order |
//! | split  | lead 10–1F: four mid blocks; lead 08–0B: number of children; mid and bottom 00–1F: eight pointers each |
//! | wide   | 32 blocks side by side: the child for each byte |
//! | prefix | 00–03: content; 04: type bits of the node in the rest of this block (chain from offset 5 on, or split), or FF: then 1C–1F points to the node |
//!
//! Everything that changes once published is a [`Link`] or an atomic word; all other bytes are
//! written before the block is published and never again until it is recycled.

#![allow(unsafe_code)]

use super::arena::Arena;
use super::pointer::{CHAIN_END, Kind, Link, Pointer};
use super::sparse_word::SparseWord;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unit of structure. Only its size and alignment matter; access is by word, see above.
#[repr(C, align(32))]
pub(crate) struct Block([u8; 32]);

pub(crate) type Blocks = Arena<Block>;

pub(crate) const BLOCK_BYTES: usize = size_of::<Block>();
/// A chain that shares its block with a content begins here at the earliest.
pub(crate) const EMBEDDED_CHAIN_START: usize = 5;
/// Where a prefix block says which node it augments, and the value for one outside of the block.
pub(crate) const PREFIX_OFFSET_BYTE: usize = 4;
pub(crate) const STANDALONE: u8 = 0xFF;
/// The last word: the child of a chain, or the node that a standalone prefix augments.
pub(crate) const LAST_WORD: usize = 7;
pub(crate) const SPARSE_WIDTH: usize = 6;
pub(crate) const SPARSE_WORD_OFFSET: usize = 0x18;
/// Blocks of a wide node.
pub(crate) const WIDE_BLOCKS: u32 = 256 * 4 / BLOCK_BYTES as u32;
/// The first of the four words that lead to the mid blocks, and the word with the child count.
pub(crate) const SPLIT_MIDS_WORD: usize = 4;
pub(crate) const SPLIT_COUNT_WORD: usize = 2;

/// A node as its pointer's type says to read it.
pub(crate) enum Node<'a> {
    Leaf,
    Chain(Chain<'a>),
    Sparse(Sparse<'a>),
    Split(Split<'a>),
    Wide(Wide<'a>),
    Prefix(Prefix<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    /// One to 27 transitions.
    pub(crate) bytes: &'a [u8],
    /// Where the last of them leads.
    pub(crate) child: &'a Link,
}

#[derive(Clone, Copy)]
pub(crate) struct Sparse<'a> {
    pub(crate) children: &'a [Link; SPARSE_WIDTH],
    pub(crate) word: &'a AtomicU64,
}

#[derive(Clone, Copy)]
pub(crate) struct Split<'a> {
    pub(crate) blocks: &'a Blocks,
    pub(crate) mids: &'a [Link; 4],
    /// Number of children; only the writer uses it.
    pub(crate) count: &'a Link,
}

/// A node with a place for each byte: one access to memory, where a split node takes two or three.
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
    /// A chain or split in the same block.
    Embedded(Pointer),
    Standalone(&'a Link),
}

impl Kind {
    /// How many blocks a pointer of this type stands for. Those of a split node have a pointer each.
    pub(crate) fn blocks(self) -> u32 {
        if self == Kind::Wide { WIDE_BLOCKS } else { 1 }
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
        // Acquire: the children that the word speaks of are stored before it.
        SparseWord::from_raw(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn find(self, byte: u8) -> Option<&'a Link> {
        self.load_word().find(byte).map(|index| &self.children[index])
    }
}

/// The places of a byte in a split node: two bits for the lead, three for mid and bottom blocks.
pub(crate) fn split_path(byte: u8) -> [usize; 3] {
    [(byte >> 6) as usize, (byte >> 3 & 7) as usize, (byte & 7) as usize]
}

impl<'a> Split<'a> {
    /// The eight pointers in a mid or bottom block, which must belong to this node.
    pub(crate) fn part(self, part: Pointer) -> &'a [Link; 8] {
        // SAFETY: the parts of a node live as long as the node, and hold eight pointers from before
        // they were published.
        unsafe { words(self.blocks, part) }
    }

    /// Calls `visit` with every mid and bottom block.
    pub(crate) fn for_each_part(self, mut visit: impl FnMut(Pointer)) {
        for (_, mids) in present(self.mids) {
            visit(mids);
            for (_, bottoms) in present(self.part(mids)) {
                visit(bottoms);
            }
        }
    }

    /// Calls `visit` with every child and its byte, in ascending order of bytes.
    pub(crate) fn for_each_child(self, mut visit: impl FnMut(u8, Pointer)) {
        for (lead, mids) in present(self.mids) {
            for (mid, bottoms) in present(self.part(mids)) {
                for (bottom, child) in present(self.part(bottoms)) {
                    visit(lead << 6 | mid << 3 | bottom, child);
                }
            }
        }
    }

    /// The place of the child for `byte`, if the blocks that lead to it exist. It may hold nothing.
    #[inline(always)]
    pub(crate) fn find(self, byte: u8) -> Option<&'a Link> {
        let [lead, mid, bottom] = split_path(byte);
        let mids = self.mids[lead].get();
        if mids.is_none() {
            return None;
        }
        let bottoms = self.part(mids)[mid].get();
        if bottoms.is_none() {
            return None;
        }
        Some(&self.part(bottoms)[bottom])
    }
}

impl<'a> Wide<'a> {
    /// The place of the child for `byte`. It may hold nothing.
    #[inline(always)]
    pub(crate) fn find(self, byte: u8) -> &'a Link {
        &self.children[byte as usize]
    }

    /// The children and their bytes, in ascending order of bytes.
    pub(crate) fn children(self) -> impl Iterator<Item = (u8, Pointer)> {
        present(self.children)
    }
}

/// The pointers that are not none, with their places.
fn present(links: &[Link]) -> impl Iterator<Item = (u8, Pointer)> {
    (0..=0xFF).zip(links.iter().map(Link::get)).filter(|(_, pointer)| !pointer.is_none())
}

/// Words of a block that are all pointers.
///
/// # Safety
/// As for [`open`]; and the block consists of eight initialised pointers.
pub(crate) unsafe fn words(blocks: &Blocks, pointer: Pointer) -> &[Link; 8] {
    // SAFETY: the caller's promise; blocks are aligned for words.
    unsafe { &*blocks.unit(pointer.index()).cast() }
}

/// A word of a block.
///
/// # Safety
/// As for [`open`]; and the word is one that the node's type has, initialised.
pub(crate) unsafe fn word(blocks: &Blocks, pointer: Pointer, word: usize) -> &Link {
    debug_assert!(word < 8);
    // SAFETY: the caller's promise.
    unsafe { &*blocks.unit(pointer.index()).cast::<Link>().add(word) }
}

/// Reads what a pointer leads to. The pointer must not be [`Pointer::NONE`].
///
/// # Safety
/// The pointer was loaded from the structure, or made by the writer, and for all of `'a` its block
/// will not be recycled: because an epoch is pinned that is older than its retirement, or because
/// the caller keeps the writer from retiring it.
#[inline(always)]
pub(crate) unsafe fn open<'a>(blocks: &'a Blocks, pointer: Pointer) -> Node<'a> {
    debug_assert!(!pointer.is_none());
    // SAFETY (all blocks below): the type in the pointer says how the block was written.
    match pointer.kind() {
        Kind::Leaf => Node::Leaf,
        // SAFETY: see above.
        Kind::Chain => Node::Chain(unsafe { chain(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Sparse => Node::Sparse(unsafe { sparse(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Split => Node::Split(unsafe { split(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Wide => Node::Wide(unsafe { wide(blocks, pointer) }),
        // SAFETY: see above.
        Kind::Prefix => Node::Prefix(unsafe { prefix(blocks, pointer) }),
    }
}

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

/// # Safety
/// As for [`open`], for a split node.
#[inline(always)]
pub(crate) unsafe fn split<'a>(blocks: &'a Blocks, pointer: Pointer) -> Split<'a> {
    // SAFETY: these words are initialised when a split node is made.
    unsafe {
        let block = blocks.unit(pointer.index()).cast::<Link>();
        Split {
            blocks,
            mids: &*block.add(SPLIT_MIDS_WORD).cast(),
            count: &*block.add(SPLIT_COUNT_WORD),
        }
    }
}

/// # Safety
/// As for [`open`], for a wide node.
#[inline(always)]
pub(crate) unsafe fn wide<'a>(blocks: &'a Blocks, pointer: Pointer) -> Wide<'a> {
    // SAFETY: the node's 32 blocks lie side by side in one chunk, and all their words are links
    // from before the node was published.
    Wide { children: unsafe { &*blocks.unit(pointer.index()).cast() } }
}

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
