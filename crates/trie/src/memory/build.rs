//! Builds new nodes. No reader sees them until the writer publishes a pointer to them.

#![allow(unsafe_code)]

use super::array::{Array, Layout};
use super::node::{
    EMBEDDED_CHAIN_START, LAST_WORD, PREFIX_OFFSET_BYTE, SPARSE_WIDTH, SPARSE_WORD_OFFSET,
    STANDALONE, WIDE_BLOCKS, chain, wide,
};
use super::pointer::{CHAIN_END, CHAIN_LENGTH, Kind, Link, Pointer};
use super::shared::Shared;
use super::space::Space;
use super::sparse_word::SparseWord;
use super::view::View;

/// Number of transitions that fit in a block together with a content.
pub(crate) const EMBEDDED_CHAIN_LENGTH: usize = CHAIN_END - EMBEDDED_CHAIN_START;

/// Maximum number of single blocks that an insertion takes besides the blocks of the key's bytes: a
/// chain broken in two, a sparse node, a prefix.
pub(crate) const BLOCKS_PER_INSERTION: usize = 8;

/// The writer, which changes the structure. While it lives nothing is recycled, so everything that
/// it finds may be read for `'a`.
pub(crate) struct Writer<'a, C> {
    pub(crate) shared: &'a Shared<C>,
    pub(crate) space: &'a mut Space,
}

impl<'a, C> Writer<'a, C> {
    /// Returns a view of the structure.
    pub(crate) fn view(&self) -> View<'a, C> {
        // SAFETY: the writer is borrowed for 'a; blocks and contents are recycled only by
        // `Space::settle` and similar functions, when an operation is over, and contents are
        // mutated only by the last step of an operation.
        unsafe { View::new(self.shared) }
    }

    /// Takes a block and sets the links at `words` in it to none.
    fn new_block(&mut self, words: std::ops::Range<usize>) -> (u32, *mut u8) {
        let index = self.space.blocks.take(&self.shared.blocks);
        (index, self.clear_words(index, words))
    }

    /// Sets the links at `words` of a block that has just been taken to none.
    fn clear_words(&mut self, index: u32, words: std::ops::Range<usize>) -> *mut u8 {
        // SAFETY: the block has just been taken, so it exists, and only the writer knows it.
        unsafe {
            let block = self.shared.blocks.unit(index).cast::<u8>();
            for word in words {
                block.cast::<Link>().add(word).write(Link::none());
            }
            block
        }
    }

    /// Takes the next block for a chain. The writer makes the blocks of a chain from its end to its
    /// beginning, and the last block next to the content to which it leads, if that place is free.
    /// If `more` blocks are to come before this one, the writer takes two blocks in one cache line,
    /// and keeps the first of them in `spare`.
    fn new_chain_block(&mut self, spare: &mut Option<u32>, more: bool) -> u32 {
        if let Some(index) = spare.take().or_else(|| self.space.take_beside_content()) {
            return index;
        }
        match more.then(|| self.space.blocks.take_pair(&self.shared.blocks)).flatten() {
            Some((first, second)) => {
                *spare = Some(first);
                second
            }
            None => self.space.blocks.take(&self.shared.blocks),
        }
    }

    pub(crate) fn retire(&mut self, pointer: Pointer) {
        self.space.retire(self.shared, pointer);
    }

    /// Builds a path of `bytes` that leads to `child`. If `content` is not none, it is at the
    /// beginning of the path. Only the first block may have free bytes.
    pub(crate) fn chain(&mut self, bytes: &[u8], child: Pointer, content: Pointer) -> Pointer {
        if bytes.len() <= CHAIN_LENGTH && content.is_none() {
            return if bytes.is_empty() { child } else { self.chain_block(bytes, child) };
        }
        let (mut node, mut end) = (child, bytes.len());
        let mut spare = None;
        while end > 0 {
            let start = end.saturating_sub(CHAIN_LENGTH);
            let offset = CHAIN_END - (end - start);
            let index = self.new_chain_block(&mut spare, start > 0);
            // SAFETY: only the writer knows the block; offset + length is CHAIN_END, before the
            // last word; the content, if embedded, is before the chain.
            unsafe {
                let block = self.shared.blocks.unit(index).cast::<u8>();
                let transitions = block.add(offset);
                transitions.copy_from_nonoverlapping(bytes.as_ptr().add(start), end - start);
                block.cast::<Link>().add(LAST_WORD).write(Link::new(node));
                if start == 0 && !content.is_none() && offset >= EMBEDDED_CHAIN_START {
                    block.cast::<Link>().write(Link::new(content));
                    block.add(PREFIX_OFFSET_BYTE).write(offset as u8);
                    return Pointer::prefix(index);
                }
            }
            node = Pointer::chain(index, offset);
            end = start;
        }
        if content.is_none() { node } else { self.add_content(content, node) }
    }

    /// Builds a path of at most as many bytes as a block holds.
    #[inline]
    fn chain_block(&mut self, bytes: &[u8], child: Pointer) -> Pointer {
        let offset = CHAIN_END - bytes.len();
        let index = self.new_chain_block(&mut None, false);
        // SAFETY: only the writer knows the block, and the transitions are before the last word.
        unsafe {
            let block = self.shared.blocks.unit(index).cast::<u8>();
            block.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            block.cast::<Link>().add(LAST_WORD).write(Link::new(child));
        }
        Pointer::chain(index, offset)
    }

    /// Adds a content to `node` and returns the pointer that must take the place of `node` in the
    /// structure. `node` has no content yet.
    pub(crate) fn add_content(&mut self, content: Pointer, node: Pointer) -> Pointer {
        debug_assert!(content.is_leaf());
        if node.is_none() {
            return content;
        }
        match node.kind() {
            Kind::Chain if CHAIN_END - node.offset() <= EMBEDDED_CHAIN_LENGTH => {
                // Readers may be on earlier bytes of this block, where the content would lie. So
                // the chain is copied.
                // SAFETY: as for `view`.
                let old = unsafe { chain(&self.shared.blocks, node) };
                self.retire(node);
                self.chain(old.bytes, old.child.get(), content)
            }
            _ => {
                let (index, block) = self.new_block(0..0);
                // SAFETY: only the writer knows the block.
                unsafe {
                    block.cast::<Link>().write(Link::new(content));
                    block.add(PREFIX_OFFSET_BYTE).write(STANDALONE);
                    block.cast::<Link>().add(LAST_WORD).write(Link::new(node));
                }
                Pointer::prefix(index)
            }
        }
    }

    /// Builds a node with two to six children, in any order.
    pub(crate) fn sparse(&mut self, bytes: &[u8], children: &[Pointer]) -> Pointer {
        debug_assert!(bytes.len() == children.len() && (2..=SPARSE_WIDTH).contains(&bytes.len()));
        let (index, block) = self.new_block(children.len()..SPARSE_WIDTH);
        for (position, &child) in children.iter().enumerate() {
            // SAFETY: only the writer knows the block, which has room for six children.
            unsafe { block.cast::<Link>().add(position).write(Link::new(child)) };
        }
        // SAFETY: only the writer knows the block, which is aligned for this word.
        unsafe { block.add(SPARSE_WORD_OFFSET).cast::<u64>().write(SparseWord::new(bytes).raw()) };
        Pointer::sparse(index)
    }

    /// Builds an array node with these children, in ascending order of their bytes, in blocks that
    /// have just been taken.
    pub(crate) fn array(
        &mut self,
        index: u32,
        layout: Layout,
        children: impl Iterator<Item = (u8, Pointer)>,
    ) -> Pointer {
        let pointer = layout.pointer(index);
        // SAFETY: only the writer knows the blocks, which lie side by side.
        unsafe { Array::new(&self.shared.blocks, pointer, layout).write(children) };
        pointer
    }

    /// Builds a wide node with these children, in blocks that have just been taken.
    pub(crate) fn wide(
        &mut self,
        index: u32,
        children: impl Iterator<Item = (u8, Pointer)>,
    ) -> Pointer {
        for block in index..index + WIDE_BLOCKS {
            self.clear_words(block, 0..8);
        }
        let pointer = Pointer::wide(index);
        // SAFETY: only the writer knows the blocks, which lie side by side, and all their words are
        // set.
        let wide = unsafe { wide(&self.shared.blocks, pointer) };
        children.for_each(|(byte, child)| wide.find(byte).publish(child));
        pointer
    }
}
