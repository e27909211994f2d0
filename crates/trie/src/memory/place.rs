//! Finds the place of a key: follows the key from a link down, as far as the structure has it.

use super::array::Array;
use super::build::Writer;
use super::node::{Chain, Inner, Node, Sparse};
use super::pointer::{Link, Pointer};

/// The node at which the path of a key ends, or leaves the structure. `link` holds the pointer that
/// a new node is to replace; `depth` is the number of bytes of the key that lead to the node.
pub(crate) enum Place<'a> {
    /// The key exists; the link holds its content.
    Existing(&'a Link),
    /// The trie is empty: the link, which is the root or a transaction's copy of it, holds none.
    Vacant { link: &'a Link, depth: usize },
    /// The path continues below a leaf.
    BelowLeaf { link: &'a Link, leaf: Pointer, depth: usize },
    /// The path ends in a chain, or leaves it, after `matched` of its bytes. `content` is none, or
    /// the content of the chain's first node, in the chain's block.
    InChain {
        link: &'a Link,
        node: Pointer,
        chain: Chain<'a>,
        matched: usize,
        content: Pointer,
        depth: usize,
    },
    /// The path ends at a node of several children that has no content.
    AtNode { link: &'a Link, node: Pointer },
    /// The node has no child for the next byte.
    InSparse { link: &'a Link, node: Pointer, sparse: Sparse<'a>, depth: usize },
    /// The node has no transition for the next byte.
    InArray { link: &'a Link, node: Pointer, array: Array<'a>, depth: usize },
    /// The node has no child for the next byte; `vacant` is the place for it.
    AtVacant { vacant: &'a Link, depth: usize },
}

impl<'a, C> Writer<'a, C> {
    /// Follows `key`, of which the first `depth` bytes lead to `link`.
    pub(crate) fn locate(&self, link: &'a Link, key: &[u8], depth: usize) -> Place<'a> {
        let view = self.view();
        let (mut link, mut depth) = (link, depth);
        loop {
            let node = link.get();
            if node.is_none() {
                return Place::Vacant { link, depth };
            }
            let (inner, content) = match view.open(node) {
                Node::Prefix(prefix) => {
                    if depth == key.len() {
                        return Place::Existing(prefix.content);
                    }
                    match prefix.inner {
                        Inner::Standalone(inner) => {
                            link = inner;
                            continue;
                        }
                        Inner::Embedded(inner) => (view.open(inner), prefix.content.get()),
                    }
                }
                other => (other, Pointer::NONE),
            };
            match inner {
                Node::Leaf if depth == key.len() => return Place::Existing(link),
                Node::Leaf => return Place::BelowLeaf { link, leaf: node, depth },
                Node::Chain(chain) => {
                    let matched = common_length(chain.bytes, &key[depth..]);
                    if matched < chain.bytes.len() {
                        let node = node.with_offset(super::pointer::CHAIN_END - chain.bytes.len());
                        return Place::InChain { link, node, chain, matched, content, depth };
                    }
                    depth += matched;
                    link = chain.child;
                }
                Node::Sparse(sparse) => {
                    let Some(&byte) = key.get(depth) else {
                        return Place::AtNode { link, node };
                    };
                    let Some(child) = sparse.find(byte) else {
                        return Place::InSparse { link, node, sparse, depth };
                    };
                    depth += 1;
                    link = child;
                }
                Node::Array(array) => {
                    let Some(&byte) = key.get(depth) else {
                        return Place::AtNode { link, node };
                    };
                    let Some(child) = array.find(byte) else {
                        return Place::InArray { link, node, array, depth };
                    };
                    if child.get().is_none() {
                        return Place::AtVacant { vacant: child, depth };
                    }
                    depth += 1;
                    link = child;
                }
                Node::Wide(wide) => {
                    let Some(&byte) = key.get(depth) else {
                        return Place::AtNode { link, node };
                    };
                    let child = wide.find(byte);
                    if child.get().is_none() {
                        return Place::AtVacant { vacant: child, depth };
                    }
                    depth += 1;
                    link = child;
                }
                Node::Prefix(_) => unreachable!("a prefix embeds chains only"),
            }
        }
    }
}

/// Returns the length of the longest common prefix of two strings.
#[inline]
pub(crate) fn common_length(left: &[u8], right: &[u8]) -> usize {
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let mut common = 0;
    for (left, right) in left_words.iter().zip(right_words) {
        let difference = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if difference != 0 {
            return common + difference.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    common + left[common..].iter().zip(&right[common..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::common_length;

    #[test]
    fn the_common_length_is_where_the_first_difference_is() {
        let all: Vec<u8> = (0..30).collect();
        for length in 0..30 {
            for shorter in 0..=length {
                assert_eq!(common_length(&all[..shorter], &all[..length]), shorter);
                assert_eq!(common_length(&all[..length], &all[..shorter]), shorter);
            }
            for at in 0..length {
                let mut other = all[..length].to_vec();
                other[at] ^= 0x80;
                assert_eq!(common_length(&all, &other), at);
            }
        }
    }
}
