//! Taking contents and branches out, and with them the nodes that lead nowhere else.
//!
//! A removal takes a branch off the lowest node that has something else to lead to, its *anchor*.
//! A sparse node left with one child becomes part of a chain; a split node shrinks to a sparse one
//! at [`SHRUNK_SPLIT`] children, well below the number that made it split, so that a key that comes
//! and goes does not rebuild the node each time.

use super::build::{EMBEDDED_CHAIN_LENGTH, Writer};
use super::node::{Chain, Inner, Node, Prefix, Sparse, Split, Wide, split_path};
use super::place::common_length;
use super::pointer::{CHAIN_LENGTH, Link, Pointer};

/// Children at which a split node becomes a sparse one.
pub(super) const SHRUNK_SPLIT: u32 = 4;

/// Children at which a wide node becomes a split one, if there is room for that.
const SHRUNK_WIDE: u32 = 16;

/// Blocks that a removal takes at most: a sparse node and a prefix for a split node.
pub(crate) const BLOCKS_PER_REMOVAL: usize = 2;

/// The lowest node on the path that stays when what is below the path is taken out. `link` leads
/// to the node (to its prefix, when that shares its block).
enum Anchor<'a> {
    Root { link: &'a Link },
    Prefix { link: &'a Link, node: Pointer, prefix: Prefix<'a> },
    Sparse { link: &'a Link, node: Pointer, sparse: Sparse<'a>, byte: u8, above: Option<Above<'a>> },
    Split { link: &'a Link, node: Pointer, split: Split<'a>, byte: u8 },
    Wide { link: &'a Link, node: Pointer, wide: Wide<'a>, byte: u8 },
}

/// A chain that leads to where something is removed. `link` leads to the chain, or to the prefix
/// that shares its block, of which `content` is the content, else none.
#[derive(Clone, Copy)]
struct Above<'a> {
    link: &'a Link,
    node: Pointer,
    chain: Chain<'a>,
    content: Pointer,
}

impl Above<'_> {
    /// How many transitions one block can hold that also holds the content.
    fn room(&self) -> usize {
        if self.content.is_none() { CHAIN_LENGTH } else { EMBEDDED_CHAIN_LENGTH }
    }
}

/// What is at the end of a path.
enum Target<'a> {
    Nothing,
    /// A node with content and children.
    Prefix {
        link: &'a Link,
        node: Pointer,
        prefix: Prefix<'a>,
        above: Option<Above<'a>>,
    },
    /// A leaf, or the node of a branch: with it, all below the anchor on this path goes.
    Branch(Anchor<'a>),
}

impl<'a, C> Writer<'a, C> {
    /// Removes the content of a key. False if it has none.
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

    /// Removes all keys that begin with `prefix`. False if there is none.
    pub(crate) fn remove_branch(&mut self, prefix: &[u8]) -> bool {
        match self.find_target(&self.shared.root, prefix, 0, true) {
            Target::Branch(anchor) => {
                self.detach(anchor);
                true
            }
            Target::Nothing | Target::Prefix { .. } => false,
        }
    }

    /// Removes the content of a key of which the first `depth` bytes lead to `link`. False if it has
    /// none, or if there is no other key below the link.
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
                Node::Split(split) => {
                    let Some(child) = split.find(byte) else {
                        return Target::Nothing;
                    };
                    anchor = Anchor::Split { link, node, split, byte };
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
                    self.publish_joined(link, above, &bytes[..1], children[0]);
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

    /// Publishes `bytes` (one or none) and then `child` where `link` leads to, in one chain block
    /// with the chains above and below if they fit: else what keys once made would stay in pieces.
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
        // Where there are neither bytes nor a chain below, there is nothing to join.
        let all = above.filter(|_| bytes.len() + below_length > 0);
        let all = all.filter(fits(bytes.len() + below_length));
        let takes_below =
            all.is_some() || !bytes.is_empty() && bytes.len() + below_length <= CHAIN_LENGTH;
        let above = match takes_below {
            true => all,
            false => above.filter(|_| !bytes.is_empty()).filter(fits(bytes.len())),
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

    /// What a wide node becomes without the child for `byte`; `None` if it stays.
    fn narrower(&mut self, wide: Wide<'a>, byte: u8) -> Option<Pointer> {
        let others = || wide.children().filter(move |(other, _)| *other != byte);
        let count = others().count() as u32;
        if count == SHRUNK_SPLIT {
            let (bytes, children): (Vec<_>, Vec<_>) = others().unzip();
            return Some(self.sparse(&bytes, &children));
        }
        let blocks = 1 + 4 + count;
        if count > SHRUNK_WIDE || !self.space.blocks.reserve(&self.shared.blocks, blocks) {
            return None;
        }
        let (first, _) = others().next()?;
        let (narrower, split) = self.empty_split(split_path(first)[0]);
        for (other, child) in others() {
            self.add_to_split(split, other, child);
        }
        Some(narrower)
    }

    pub(super) fn retire_split_blocks(&mut self, node: Pointer, split: Split<'a>) {
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
