//! Checks that a trie is sound: every block and content is in exactly one place.

use super::node::{Inner, Node};
use super::pointer::{Kind, Pointer};
use super::trie::InMemoryTrie;

/// A defect of a trie, and so of this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Corruption {
    /// A block is in two places, or in none.
    #[error("block {index} is in {places} places: of the structure, the free ones and the retired")]
    Places {
        /// The index of the block.
        index: u32,
        /// The number of places in which it was found.
        places: u8,
    },
    /// A node is not as its type requires.
    #[error("{node}: {problem}")]
    Node {
        /// Type and block of the node.
        node: String,
        /// The rule that it breaks.
        problem: &'static str,
    },
}

/// For each block, the number of places in which it was found.
struct Tally(Vec<u8>);

impl Tally {
    fn add(&mut self, pointer: Pointer) {
        for index in pointer.index()..pointer.index() + pointer.kind().blocks() {
            match self.0.get_mut(index as usize) {
                Some(count) => *count = count.saturating_add(1),
                None => self.0.extend([0, 2]), // never used, so certainly wrong
            }
        }
    }
}

impl<C> InMemoryTrie<C> {
    /// Checks all nodes, and that all blocks and contents are either in the structure, or free, or
    /// retired. For tests; takes time in proportion to the size of the trie.
    ///
    /// # Errors
    /// Fails at the first defect.
    pub fn verify(&self) -> Result<(), Corruption> {
        let view = self.view();
        let mut tally = Tally(vec![0; self.space.blocks.used_range() as usize]);
        let mut pending = vec![view.root()];
        pending.retain(|pointer| !pointer.is_none());
        while let Some(pointer) = pending.pop() {
            check_node(&mut tally, &mut pending, pointer, view.open(pointer))
                .map_err(|problem| Corruption::Node { node: format!("{pointer:?}"), problem })?;
        }
        for block in self.space.blocks.free_units(&self.shared.blocks) {
            tally.add(Pointer::sparse(block));
        }
        self.space.retired().iter().for_each(|retired| tally.add(retired));
        let room = self.space.room_left_behind();
        room.flat_map(|room| room.first..room.first + room.blocks)
            .for_each(|block| tally.add(Pointer::sparse(block)));
        for (index, &places) in (0u32..).zip(&tally.0).skip(1) {
            if places != 1 {
                return Err(Corruption::Places { index, places });
            }
        }
        Ok(())
    }
}

fn check_node(
    tally: &mut Tally,
    pending: &mut Vec<Pointer>,
    pointer: Pointer,
    node: Node<'_>,
) -> Result<(), &'static str> {
    let shares_block =
        matches!(&node, Node::Prefix(prefix) if matches!(prefix.inner, Inner::Embedded(_)));
    if !shares_block {
        tally.add(pointer); // otherwise it is tallied with the node in the same block
    }
    let first = pending.len();
    match node {
        Node::Leaf => {}
        Node::Chain(chain) => pending.push(chain.child.get()),
        Node::Sparse(sparse) => {
            let word = sparse.load_word();
            let count = word.count();
            pending.extend(sparse.children[..count].iter().map(|child| child.get()));
            let mut bytes: Vec<u8> = (0..count).map(|index| word.byte(index)).collect();
            bytes.sort_unstable();
            bytes.dedup();
            if count < 2 || bytes.len() != count {
                return Err("a sparse node has two to six different transitions");
            }
            let mut order = word.order();
            for &byte in &bytes {
                if order & 7 == 7 || word.byte((order & 7) as usize) != byte {
                    return Err("the order word does not order the transitions");
                }
                order >>= 3;
            }
        }
        Node::Array(array) => {
            pending.extend(array.children().map(|(_, child)| child));
            if pending.len() - first < super::remove::SHRUNK_ARRAY {
                return Err("an array node has too few children");
            }
            if (1..array.count()).any(|index| array.byte(index - 1) >= array.byte(index)) {
                return Err("the transitions of an array node are not in order");
            }
        }
        Node::Wide(wide) => {
            pending.extend(wide.children().map(|(_, child)| child));
            if pending.len() - first < super::remove::SHRUNK_ARRAY {
                return Err("a wide node has too few children");
            }
        }
        Node::Prefix(prefix) => {
            let content = prefix.content.get();
            if !content.is_leaf() {
                return Err("a prefix has a content");
            }
            tally.add(content);
            let inner = prefix.inner.pointer();
            if inner.is_none() || inner.is_leaf() || inner.kind() == Kind::Prefix {
                return Err("a prefix augments a node with children");
            }
            pending.push(inner);
        }
    }
    if pending[first..].iter().any(|child| child.is_none()) {
        return Err("a child is none");
    }
    Ok(())
}
