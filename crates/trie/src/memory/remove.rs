//! Taking contents and branches out, and with them the nodes that lead nowhere else.
//!
//! A removal takes a branch off the lowest node that has something else to lead to, its *anchor*.
//! A sparse node left with one child becomes part of a chain; a split node shrinks to a sparse one
//! at [`SHRUNK_SPLIT`] children, well below the number that made it split, so that a key that comes
//! and goes does not rebuild the node each time.

use super::build::Writer;
use super::node::{Chain, Inner, Node, Prefix, Sparse, Split, split_path};
use super::place::common_length;
use super::pointer::{CHAIN_LENGTH, Link, Pointer};

/// Children at which a split node becomes a sparse one.
const SHRUNK_SPLIT: u32 = 4;

/// Blocks that a removal takes at most: a sparse node and a prefix for a split node.
pub(crate) const BLOCKS_PER_REMOVAL: usize = 2;

/// The lowest node on the path that stays when what is below the path is taken out. `link` leads
/// to the node (to its prefix, when that shares its block).
enum Anchor<'a> {
    Root { link: &'a Link },
    Prefix { link: &'a Link, node: Pointer, prefix: Prefix<'a> },
    Sparse { link: &'a Link, node: Pointer, sparse: Sparse<'a>, byte: u8, above: Option<Above<'a>> },
    Split { link: &'a Link, node: Pointer, split: Split<'a>, byte: u8 },
}

/// A chain without content that leads to the anchor, and the link that leads to the chain.
#[derive(Clone, Copy)]
struct Above<'a> {
    link: &'a Link,
    node: Pointer,
    chain: Chain<'a>,
}

/// What is at the end of a path.
enum Target<'a> {
    Nothing,
    /// A node with content and children.
    Prefix {
        link: &'a Link,
        node: Pointer,
        prefix: Prefix<'a>,
    },
    /// A leaf, or the node of a branch: with it, all below the anchor on this path goes.
    Branch(Anchor<'a>),
}

impl<'a, C> Writer<'a, C> {
    /// Removes the content of a key. False if it has none.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        match self.find_target(key, false) {
            Target::Nothing => return false,
            Target::Prefix { link, node, prefix } => self.strip(link, node, prefix),
            Target::Branch(anchor) => self.detach(anchor),
        }
        true
    }

    /// Removes all keys that begin with `prefix`. False if there is none.
    pub(crate) fn remove_branch(&mut self, prefix: &[u8]) -> bool {
        match self.find_target(prefix, true) {
            Target::Branch(anchor) => {
                self.detach(anchor);
                true
            }
            Target::Nothing | Target::Prefix { .. } => false,
        }
    }

    fn find_target(&self, key: &[u8], branch: bool) -> Target<'a> {
        let mut link = &self.shared.root;
        let mut anchor = Anchor::Root { link };
        let mut above = None;
        let mut depth = 0;
        loop {
            let node = link.get();
            if node.is_none() {
                return Target::Nothing;
            }
            let at_end = depth == key.len();
            if at_end && (branch || node.is_leaf()) {
                return Target::Branch(anchor);
            }
            let inner = match self.view().open(node) {
                Node::Prefix(prefix) => {
                    if at_end {
                        return Target::Prefix { link, node, prefix };
                    }
                    anchor = Anchor::Prefix { link, node, prefix };
                    above = None;
                    match prefix.inner {
                        Inner::Standalone(inner) => {
                            link = inner;
                            continue;
                        }
                        Inner::Embedded(inner) => self.view().open(inner),
                    }
                }
                other => other,
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
                    let embedded = matches!(anchor, Anchor::Prefix { node: prefix, .. }
                        if prefix == node);
                    above = (!embedded).then_some(Above { link, node, chain });
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
                Node::Split(split) => {
                    let Some(child) = split.find(byte) else {
                        return Target::Nothing;
                    };
                    anchor = Anchor::Split { link, node, split, byte };
                    above = None;
                    depth += 1;
                    link = child;
                }
            }
        }
    }

    /// Removes the content of a node that has children.
    fn strip(&mut self, link: &Link, node: Pointer, prefix: Prefix<'a>) {
        let content = prefix.content.get();
        match prefix.inner {
            Inner::Embedded(inner) => link.publish(inner),
            Inner::Standalone(inner) => {
                link.publish(inner.get());
                self.retire(node);
            }
        }
        self.retire(content);
    }

    /// Takes the branch off that the path through `anchor` leads to.
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
                    self.publish_single(link, above, bytes[0], children[0]);
                } else {
                    let narrower = self.sparse(&bytes[..count], &children[..count]);
                    link.publish(narrower);
                }
                self.retire(node);
                self.retire_branch(branch);
            }
            Anchor::Split { link, node, split, byte } => {
                self.detach_from_split(link, node, split, byte);
            }
        }
    }

    /// Puts the only child that is left in place of a sparse node, in one chain block with the
    /// chains above and below where they fit.
    fn publish_single(&mut self, link: &Link, above: Option<Above<'a>>, byte: u8, child: Pointer) {
        let mut buffer = [0; 2 * CHAIN_LENGTH + 1];
        let above_length = above.map_or(0, |above| above.chain.bytes.len());
        if let Some(above) = above {
            buffer[..above_length].copy_from_slice(above.chain.bytes);
        }
        buffer[above_length] = byte;
        let (mut end, mut below) = (above_length + 1, child);
        if !child.is_none()
            && let Node::Chain(chain) = self.view().open(child)
            && chain.bytes.len() < CHAIN_LENGTH
        {
            let length = chain.bytes.len();
            buffer[end..end + length].copy_from_slice(chain.bytes);
            end += length;
            below = chain.child.get();
            self.retire(child);
        }
        match above {
            Some(above) if end <= CHAIN_LENGTH => {
                let whole = self.chain(&buffer[..end], below, Pointer::NONE);
                above.link.publish(whole);
                self.retire(above.node);
            }
            _ => {
                let tail = self.chain(&buffer[above_length..end], below, Pointer::NONE);
                link.publish(tail);
            }
        }
    }

    fn detach_from_split(&mut self, link: &Link, node: Pointer, split: Split<'a>, byte: u8) {
        let [lead, mid, bottom] = split_path(byte);
        let mids = split.mids[lead].get();
        let bottoms = split.part(mids)[mid].get();
        let branch = split.part(bottoms)[bottom].get();
        let count = split.count.number() - 1;
        if count == SHRUNK_SPLIT {
            self.shrink(link, node, split, byte);
        } else {
            split.count.set_number(count);
            split.part(bottoms)[bottom].publish(Pointer::NONE);
            if split.part(bottoms).iter().all(|child| child.get().is_none()) {
                split.part(mids)[mid].publish(Pointer::NONE);
                self.retire(bottoms);
                if split.part(mids).iter().all(|part| part.get().is_none()) {
                    split.mids[lead].publish(Pointer::NONE);
                    self.retire(mids);
                }
            }
        }
        self.retire_branch(branch);
    }

    /// Replaces a split node by a sparse one, without the child for `byte`.
    fn shrink(&mut self, link: &Link, node: Pointer, split: Split<'a>, byte: u8) {
        let mut bytes = Vec::with_capacity(SHRUNK_SPLIT as usize);
        let mut children = Vec::with_capacity(SHRUNK_SPLIT as usize);
        split.for_each_child(|other, child| {
            if other != byte {
                bytes.push(other);
                children.push(child);
            }
        });
        let mut narrower = self.sparse(&bytes, &children);
        if let Node::Prefix(prefix) = self.view().open(node) {
            narrower = self.add_content(prefix.content.get(), narrower);
        }
        link.publish(narrower);
        self.retire_split_blocks(node, split);
    }

    fn retire_split_blocks(&mut self, node: Pointer, split: Split<'a>) {
        split.for_each_part(|part| self.retire(part));
        self.retire(node);
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
                Node::Split(split) => {
                    split.for_each_child(|_, child| pending.push(child));
                    self.retire_split_blocks(node, split);
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
