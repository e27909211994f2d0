//! Copying the way to a key, so that it can be changed unseen.

#![allow(unsafe_code)]

use super::build::Writer;
use super::node::{BLOCK_BYTES, Inner, LAST_WORD, Node, word};
use super::pointer::{Kind, Link, Pointer};
use super::space::TrieFull;

impl<'a, C> Writer<'a, C> {
    /// Copies the nodes on the path of `key` below `link` that this transaction has not copied yet; the first `depth`
    /// bytes lead to the link, and nobody else follows it. What is left of them where they were is retired. From then
    /// on an operation on `key` below `link` changes nothing that is reached from elsewhere: it
    /// changes nodes on the path in place, and reads others.
    pub(crate) fn unshare(
        &mut self,
        link: &'a Link,
        key: &[u8],
        depth: usize,
    ) -> Result<(), TrieFull> {
        self.space.own.next_change();
        let (mut link, mut rest) = (link, &key[depth..]);
        loop {
            let node = link.get();
            if node.is_none() {
                return Ok(());
            }
            let inner = match self.view().open(node) {
                Node::Prefix(prefix) => match prefix.inner {
                    Inner::Standalone(_) => {
                        let copy = self.own(link, node)?;
                        // SAFETY: a copy of a standalone prefix, which has this word.
                        link = unsafe { word(&self.shared.blocks, copy, LAST_WORD) };
                        continue;
                    }
                    Inner::Embedded(inner) => inner,
                },
                _ => node,
            };
            link = match self.view().open(inner) {
                Node::Leaf | Node::Prefix(_) => return Ok(()),
                Node::Chain(chain) => {
                    let Some(after) = rest.strip_prefix(chain.bytes) else {
                        // The path leaves it, or ends in it: it is not changed, but for a content
                        // that shares its block.
                        if node != inner {
                            self.own(link, node)?;
                        }
                        return Ok(());
                    };
                    rest = after;
                    let copy = self.own(link, node)?;
                    // SAFETY: a copy of a chain, which has this word.
                    unsafe { word(&self.shared.blocks, copy, LAST_WORD) }
                }
                Node::Sparse(sparse) => {
                    let index = rest.first().and_then(|&byte| sparse.load_word().find(byte));
                    let copy = self.own(link, node)?;
                    let Some(index) = index else { return Ok(()) };
                    rest = &rest[1..];
                    // SAFETY: a copy of a sparse node, which has this child.
                    unsafe { word(&self.shared.blocks, copy, index) }
                }
                Node::Array(_) | Node::Wide(_) => {
                    let copy = self.own(link, node)?;
                    let Some((&byte, after)) = rest.split_first() else { return Ok(()) };
                    rest = after;
                    let child = match self.view().open(copy) {
                        Node::Wide(wide) => Some(wide.find(byte)),
                        Node::Array(array) => array.find(byte),
                        _ => None,
                    };
                    let Some(child) = child else { return Ok(()) };
                    child
                }
            };
        }
    }

    /// The node that `link` leads to, if this transaction has made it, or else a copy, to which the link leads from now
    /// on. A prefix keeps its own type, whatever shares its block.
    #[inline]
    fn own(&mut self, link: &Link, node: Pointer) -> Result<Pointer, TrieFull> {
        if self.space.own.contains(node.index()) {
            return Ok(node);
        }
        let index = match node.kind() {
            Kind::Array | Kind::LongArray | Kind::Wide => self.copy_run(node)?,
            Kind::Chain | Kind::Sparse | Kind::Prefix | Kind::Leaf => {
                self.space.reserve(self.shared, 1)?;
                let index = self.space.blocks.take(&self.shared.blocks);
                self.copy_bytes(node.index(), index);
                index
            }
        };
        self.retire(node);
        self.space.own.add(index);
        let copy = Pointer::sparse(index).with_offset(node.offset());
        link.publish(copy);
        Ok(copy)
    }

    /// A copy of the blocks of a node of several.
    fn copy_run(&mut self, node: Pointer) -> Result<u32, TrieFull> {
        let blocks = node.kind().blocks();
        let index = self.space.take_run(self.shared, blocks)?;
        for block in 0..blocks {
            self.copy_bytes(node.index() + block, index + block);
        }
        Ok(index)
    }

    /// Copies what is in a block. Its links may be changed by the writer only.
    fn copy_bytes(&mut self, from: u32, to: u32) {
        // SAFETY: the new block is ours alone. The old one is in the structure: the writer, who is
        // the only one to change it, is here, so that plain reads race with nothing. Bytes that
        // were never written are copied as such.
        unsafe {
            let from = self.shared.blocks.unit(from).cast::<std::mem::MaybeUninit<u8>>();
            let to = self.shared.blocks.unit(to).cast::<std::mem::MaybeUninit<u8>>();
            to.copy_from_nonoverlapping(from, BLOCK_BYTES);
        }
    }
}
