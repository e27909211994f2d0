//! Statistics of a trie: its nodes by type, and how full its blocks are.

use super::node::{BLOCK_BYTES, Inner, Node, WIDE_BLOCKS};
use super::pointer::Pointer;
use super::trie::InMemoryTrie;
use std::fmt;

/// The numbers of nodes by type and of blocks, and how full the blocks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Contents without children.
    pub leaves: usize,
    /// Chain blocks, each a run of 1 to 26 single transitions.
    pub chains: usize,
    /// Transitions in all chain blocks.
    pub chain_bytes: usize,
    /// Nodes with two to six children in one block.
    pub sparse: usize,
    /// Children of all sparse nodes.
    pub sparse_children: usize,
    /// Nodes with a list of up to 48 children, of 4 or 8 blocks.
    pub arrays: usize,
    /// Blocks of all array nodes.
    pub array_blocks: usize,
    /// Children of all array nodes.
    pub array_children: usize,
    /// Nodes with a place for each byte, of 32 blocks.
    pub wides: usize,
    /// Children of all wide nodes.
    pub wide_children: usize,
    /// Contents with children, in the block of a chain.
    pub embedded_prefixes: usize,
    /// Contents with children, in a block of their own.
    pub standalone_prefixes: usize,
    /// Length of the longest key, in bytes.
    pub greatest_depth: usize,
}

impl Stats {
    /// Returns the number of all blocks in use for structure.
    pub fn blocks(&self) -> usize {
        self.chains
            + self.sparse
            + self.array_blocks
            + self.wides * WIDE_BLOCKS as usize
            + self.standalone_prefixes
    }

    /// Returns the number of all contents.
    pub fn contents(&self) -> usize {
        self.leaves + self.embedded_prefixes + self.standalone_prefixes
    }

    /// Returns the part of the blocks' bytes that carries transitions, pointers and order words.
    pub fn fill(&self) -> f64 {
        let bytes = self.chain_bytes
            + 4 * self.chains
            + 5 * self.sparse_children
            + 2 * self.sparse
            + 5 * self.array_children
            + self.arrays
            + 4 * self.wide_children
            + 5 * self.embedded_prefixes
            + 9 * self.standalone_prefixes;
        bytes as f64 / (self.blocks() * BLOCK_BYTES).max(1) as f64
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "contents  {} ({} leaves)", self.contents(), self.leaves)?;
        writeln!(f, "chains    {} with {} transitions", self.chains, self.chain_bytes)?;
        writeln!(f, "sparse    {} with {} children", self.sparse, self.sparse_children)?;
        writeln!(
            f,
            "array     {} of {} blocks with {} children",
            self.arrays, self.array_blocks, self.array_children
        )?;
        writeln!(f, "wide      {} with {} children", self.wides, self.wide_children)?;
        writeln!(
            f,
            "prefixes  {} embedded, {} standalone",
            self.embedded_prefixes, self.standalone_prefixes
        )?;
        write!(
            f,
            "blocks    {}, {:.1}% full; greatest depth {}",
            self.blocks(),
            100.0 * self.fill(),
            self.greatest_depth
        )
    }
}

impl<C> InMemoryTrie<C> {
    /// Counts the nodes. Takes time in proportion to the size of the trie.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        let view = self.view();
        let mut pending = vec![(view.root(), 0)];
        while let Some((pointer, depth)) = pending.pop() {
            if !pointer.is_none() {
                stats.greatest_depth = stats.greatest_depth.max(depth);
                count(&mut stats, &mut pending, view.open(pointer), depth);
            }
        }
        stats
    }
}

fn count(stats: &mut Stats, pending: &mut Vec<(Pointer, usize)>, node: Node<'_>, depth: usize) {
    match node {
        Node::Leaf => stats.leaves += 1,
        Node::Chain(chain) => {
            stats.chains += 1;
            stats.chain_bytes += chain.bytes.len();
            pending.push((chain.child.get(), depth + chain.bytes.len()));
        }
        Node::Sparse(sparse) => {
            let children = &sparse.children[..sparse.load_word().count()];
            stats.sparse += 1;
            stats.sparse_children += children.len();
            pending.extend(children.iter().map(|child| (child.get(), depth + 1)));
        }
        Node::Array(array) => {
            stats.arrays += 1;
            stats.array_blocks += array.layout().blocks as usize;
            for (_, child) in array.children() {
                stats.array_children += 1;
                pending.push((child, depth + 1));
            }
        }
        Node::Wide(wide) => {
            stats.wides += 1;
            for (_, child) in wide.children() {
                stats.wide_children += 1;
                pending.push((child, depth + 1));
            }
        }
        Node::Prefix(prefix) => {
            match prefix.inner {
                Inner::Embedded(_) => stats.embedded_prefixes += 1,
                Inner::Standalone(_) => stats.standalone_prefixes += 1,
            }
            pending.push((prefix.inner.pointer(), depth));
        }
    }
}
