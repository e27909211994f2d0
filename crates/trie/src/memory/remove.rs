//! Removes contents and branches, together with the nodes that lead nowhere else.
//!
//! A removal takes a branch off its *anchor*: the lowest node on the path that leads to something
//! else, too. A sparse node left with one child becomes part of a chain. An array or wide node
//! becomes a sparse node at [`SHRUNK_ARRAY`] children, a long array node becomes an array node at
//! [`SHRUNK_LONG_ARRAY`], and a wide node becomes a long array node at [`SHRUNK_WIDE`]. These
//! numbers are well below those at which the nodes grow, so that a key that comes and goes does not
//! rebuild the node each time.

#![allow(unsafe_code)]

use super::array::{ARRAY, Array, LONG_ARRAY, Layout};
use super::build::{EMBEDDED_CHAIN_LENGTH, Writer};
use super::node::{Chain, Inner, Node, Prefix, Sparse, Wide};
use super::place::common_length;
use super::pointer::{CHAIN_LENGTH, Link, Pointer};

/// Children at which an array or wide node becomes a sparse one.
pub(super) const SHRUNK_ARRAY: usize = 4;

/// Children at which a long array node becomes an array node, if there is room for that.
const SHRUNK_LONG_ARRAY: usize = 16;

/// Children at which a wide node becomes a long array node, if there is room for that.
const SHRUNK_WIDE: usize = 32;

/// The number of single blocks that are reserved for a removal. A removal takes at most one: for a
/// sparse node or a chain.
pub(crate) const BLOCKS_PER_REMOVAL: usize = 2;

/// The lowest node on the path that stays when the structure below the path is removed. `link`
/// leads to the node (to its prefix, if that shares its block).
enum Anchor<'a> {
    Root { link: &'a Link },
    Prefix { link: &'a Link, node: Pointer, prefix: Prefix<'a> },
    Sparse { link: &'a Link, node: Pointer, sparse: Sparse<'a>, byte: u8, above: Option<Above<'a>> },
    Array { link: &'a Link, node: Pointer, array: Array<'a>, byte: u8 },
    Wide { link: &'a Link, node: Pointer, wide: Wide<'a>, byte: u8 },
}

/// A chain that leads to the removed branch or content. `link` leads to the chain, or to the prefix
/// that shares its block; `content` is the content of that prefix, or none.
#[derive(Clone, Copy)]
struct Above<'a> {
    link: &'a Link,
    node: Pointer,
    chain: Chain<'a>,
    content: Pointer,
}

impl Above<'_> {
    /// Returns the number of transitions for which one block has room, besides the content.
    fn room(&self) -> usize {
        if self.content.is_none() { CHAIN_LENGTH } else { EMBEDDED_CHAIN_LENGTH }
    }
}

/// The end of a path.
enum Target<'a> {
    Nothing,
    /// A node with content and children.
    Prefix {
        link: &'a Link,
        node: Pointer,
        prefix: Prefix<'a>,
        above: Option<Above<'a>>,
    },
    /// A leaf, or the top node of a branch. The removal takes everything below the anchor on this
    /// path.
    Branch(Anchor<'a>),
}

impl<'a, C> Writer<'a, C> {
    /// Removes the content of a key. Returns false if the key has none.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        match self.find_target(&self.shared.root, key, 0, false) {
            Target::Nothing => return false,
            Target::Prefix { link, node, prefix, above } => {
                self.strip(link, node, prefix, above);
            }
            Target::Branch(anchor) => self.detach(anchor),
        }
        true
    }

    /// Removes all keys that begin with `prefix`. Returns false if there is none.
    pub(crate) fn remove_branch(&mut self, prefix: &[u8]) -> bool {
        match self.find_target(&self.shared.root, prefix, 0, true) {
            Target::Branch(anchor) => {
                self.detach(anchor);
                true
            }
            Target::Nothing | Target::Prefix { .. } => false,
        }
    }

    /// Removes the content of a key whose first `depth` bytes lead to `link`. Returns false if the
    /// key has none, or if there is no other key below the link.
    pub(crate) fn remove_below(&mut self, link: &'a Link, key: &[u8], depth: usize) -> bool {
        match self.find_target(link, key, depth, false) {
            Target::Nothing | Target::Branch(Anchor::Root { .. }) => return false,
            Target::Prefix { link, node, prefix, above } => {
                self.strip(link, node, prefix, above);
            }
            Target::Branch(anchor) => self.detach(anchor),
        }
        true
    }

    fn find_target(&self, link: &'a Link, key: &[u8], depth: usize, branch: bool) -> Target<'a> {
        let (mut link, mut depth) = (link, depth);
        let mut anchor = Anchor::Root { link };
        let mut above = None;
        loop {
            let node = link.get();
            if node.is_none() {
                return Target::Nothing;
            }
            let at_end = depth == key.len();
            if at_end && (branch || node.is_leaf()) {
                return Target::Branch(anchor);
            }
            let (inner, content) = match self.view().open(node) {
                Node::Prefix(prefix) => {
                    if at_end {
                        return Target::Prefix { link, node, prefix, above };
                    }
                    anchor = Anchor::Prefix { link, node, prefix };
                    above = None;
                    match prefix.inner {
                        Inner::Standalone(inner) => {
                            link = inner;
                            continue;
                        }
                        Inner::Embedded(inner) => (self.view().open(inner), prefix.content.get()),
                    }
                }
                other => (other, Pointer::NONE),
            };
            let Some(&byte) = key.get(depth) else {
                return Target::Nothing;
            };
            match inner {
                Node::Leaf | Node::Prefix(_) => return Target::Nothing,
                Node::Chain(chain) => {
                    let matched = common_length(chain.bytes, &key[depth..]);
                    if matched < chain.bytes.len() {
                        if branch && depth + matched == key.len() {
                            return Target::Branch(anchor);
                        }
                        return Target::Nothing;
                    }
                    above = Some(Above { link, node, chain, content });
                    depth += matched;
                    link = chain.child;
                }
                Node::Sparse(sparse) => {
                    let Some(child) = sparse.find(byte) else {
                        return Target::Nothing;
                    };
                    anchor = Anchor::Sparse { link, node, sparse, byte, above: above.take() };
                    depth += 1;
                    link = child;
                }
                Node::Array(array) => {
                    let Some(child) = array.find(byte) else {
                        return Target::Nothing;
                    };
                    anchor = Anchor::Array { link, node, array, byte };
                    above = None;
                    depth += 1;
                    link = child;
                }
                Node::Wide(wide) => {
                    anchor = Anchor::Wide { link, node, wide, byte };
                    above = None;
                    depth += 1;
                    link = wide.find(byte);
                }
            }
        }
    }

    /// Removes the content of a node that has children.
    fn strip(&mut self, link: &Link, node: Pointer, prefix: Prefix<'a>, above: Option<Above<'a>>) {
        if let Inner::Standalone(_) = prefix.inner {
            self.retire(node);
        }
        self.retire(prefix.content.get());
        self.publish_joined(link, above, &[], prefix.inner.pointer());
    }

    /// Removes the branch to which the path through `anchor` leads.
    fn detach(&mut self, anchor: Anchor<'a>) {
        match anchor {
            Anchor::Root { link } => {
                let branch = link.get();
                link.publish(Pointer::NONE);
                self.retire_branch(branch);
            }
            Anchor::Prefix { link, node, prefix } => {
                let branch = prefix.inner.pointer();
                link.publish(prefix.content.get());
                if let Inner::Standalone(_) = prefix.inner {
                    self.retire(node);
                }
                self.retire_branch(branch);
            }
            Anchor::Sparse { link, node, sparse, byte, above } => {
                let word = sparse.load_word();
                let mut bytes = [0; 6];
                let mut children = [Pointer::NONE; 6];
                let (mut count, mut branch) = (0, Pointer::NONE);
                for index in 0..word.count() {
                    let child = sparse.children[index].get();
                    if word.byte(index) == byte {
                        branch = child;
                    } else {
                        bytes[count] = word.byte(index);
                        children[count] = child;
                        count += 1;
                    }
                }
                if count == 1 {
                    self.publish_joined(link, above, &bytes[..1], children[0]);
                } else {
                    let narrower = self.sparse(&bytes[..count], &children[..count]);
                    link.publish(narrower);
                }
                self.retire(node);
                self.retire_branch(branch);
            }
            Anchor::Array { link, node, array, byte } => {
                self.detach_from_array(link, node, array, byte);
            }
            Anchor::Wide { link, node, wide, byte } => {
                let place = wide.find(byte);
                let branch = place.get();
                match self.narrower(wide, byte) {
                    Some(narrower) => {
                        link.publish(narrower);
                        self.retire(node);
                    }
                    None => place.publish(Pointer::NONE),
                }
                self.retire_branch(branch);
            }
        }
    }

    /// Publishes `bytes` (one or none) and then `child` at `link`, in one chain block with the
    /// chains above and below if they fit. Without this, chains that keys have split would stay in
    /// pieces.
    fn publish_joined(
        &mut self,
        link: &Link,
        above: Option<Above<'a>>,
        bytes: &[u8],
        child: Pointer,
    ) {
        let below = match self.view().open(child) {
            Node::Chain(chain) => Some(chain),
            _ => None,
        };
        let below_length = below.map_or(0, |chain| chain.bytes.len());
        let fits =
            |length| move |above: &Above<'_>| above.chain.bytes.len() + length <= above.room();
        // Without bytes and without a chain below, there is nothing to join.
        let all = above.filter(|_| bytes.len() + below_length > 0);
        let all = all.filter(fits(bytes.len() + below_length));
        let takes_below =
            all.is_some() || !bytes.is_empty() && bytes.len() + below_length <= CHAIN_LENGTH;
        let above = if takes_below {
            all
        } else {
            above.filter(|_| !bytes.is_empty()).filter(fits(bytes.len()))
        };
        let mut buffer = [0; CHAIN_LENGTH];
        let (mut end, mut rest) = (0, child);
        let mut add = |bytes: &[u8]| {
            buffer[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
        };
        add(above.map_or(&[], |above| above.chain.bytes));
        add(bytes);
        if let Some(chain) = below.filter(|_| takes_below) {
            add(chain.bytes);
            rest = chain.child.get();
            self.retire(child);
        }
        let (link, content) =
            above.map_or((link, Pointer::NONE), |above| (above.link, above.content));
        let whole = self.chain(&buffer[..end], rest, content);
        link.publish(whole);
        if let Some(above) = above {
            self.retire(above.node);
        }
    }

    fn detach_from_array(&mut self, link: &Link, node: Pointer, array: Array<'a>, byte: u8) {
        let Some(place) = array.find(byte) else { return };
        let branch = place.get();
        let others = || array.children().filter(move |(other, _)| *other != byte);
        let count = others().count();
        let is_long = array.layout() == LONG_ARRAY;
        let narrower = match count {
            SHRUNK_ARRAY => Some(self.sparse_of(others())),
            ..=SHRUNK_LONG_ARRAY if is_long => self.try_array(ARRAY, others()),
            _ => None,
        };
        match narrower {
            Some(narrower) => {
                link.publish(narrower);
                self.retire(node);
            }
            None if self.shared.epochs.has_readers() => place.publish(Pointer::NONE),
            // SAFETY: there are no readers.
            None => unsafe { array.remove(byte) },
        }
        self.retire_branch(branch);
    }

    /// Builds a sparse node with [`SHRUNK_ARRAY`] children.
    fn sparse_of(&mut self, children: impl Iterator<Item = (u8, Pointer)>) -> Pointer {
        let (bytes, children): (Vec<_>, Vec<_>) = children.unzip();
        self.sparse(&bytes, &children)
    }

    /// Builds an array node, if there are blocks for it.
    fn try_array(
        &mut self,
        layout: Layout,
        children: impl Iterator<Item = (u8, Pointer)>,
    ) -> Option<Pointer> {
        let index = self.space.blocks.take_run(&self.shared.blocks, layout.blocks)?;
        Some(self.array(index, layout, children))
    }

    /// Returns the node that replaces a wide node without the child for `byte`; `None` if the wide
    /// node stays.
    fn narrower(&mut self, wide: Wide<'a>, byte: u8) -> Option<Pointer> {
        let others = || wide.children().filter(move |(other, _)| *other != byte);
        match others().count() {
            SHRUNK_ARRAY => Some(self.sparse_of(others())),
            ..=SHRUNK_WIDE => self.try_array(LONG_ARRAY, others()),
            _ => None,
        }
    }

    /// Retires all blocks and contents of a branch that has been taken out.
    fn retire_branch(&mut self, branch: Pointer) {
        if branch.is_leaf() {
            return self.retire(branch);
        }
        let mut pending = vec![branch];
        while let Some(node) = pending.pop() {
            if node.is_none() {
                continue;
            }
            match self.view().open(node) {
                Node::Leaf => self.retire(node),
                Node::Chain(chain) => {
                    pending.push(chain.child.get());
                    self.retire(node);
                }
                Node::Sparse(sparse) => {
                    let count = sparse.load_word().count();
                    pending.extend(sparse.children[..count].iter().map(Link::get));
                    self.retire(node);
                }
                Node::Array(array) => {
                    pending.extend(array.children().map(|(_, child)| child));
                    self.retire(node);
                }
                Node::Wide(wide) => {
                    pending.extend(wide.children().map(|(_, child)| child));
                    self.retire(node);
                }
                Node::Prefix(prefix) => {
                    self.retire(prefix.content.get());
                    pending.push(prefix.inner.pointer());
                    if let Inner::Standalone(_) = prefix.inner {
                        self.retire(node);
                    }
                }
            }
        }
    }
}
