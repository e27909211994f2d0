//! Copies the path to a key, so that the writer can change it unseen (copy on write).

#![allow(unsafe_code)]

use super::build::Writer;
use super::node::{BLOCK_BYTES, Inner, LAST_WORD, Node, word};
use super::pointer::{Kind, Link, Pointer};
use super::space::TrieFull;

impl<'a, C> Writer<'a, C> {
    /// Copies the nodes on the path of `key` below `link` that this transaction has not copied yet,
    /// and retires the originals. The first `depth` bytes lead to the link, and only this
    /// transaction follows the link. After this, an operation on `key` below `link` changes nothing
    /// that is reached from elsewhere: it changes nodes on the path in place, and only reads
    /// others.
    pub(crate) fn copy_on_write(
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
                        // The path leaves the chain or ends in it: the chain does not change, but a
                        // content that shares its block may.
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

    /// Returns the node at `link` if this transaction has made it; otherwise copies it and links
    /// the copy. A prefix keeps its own type, whatever shares its block.
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

    /// Copies the blocks of a node that has several.
    fn copy_run(&mut self, node: Pointer) -> Result<u32, TrieFull> {
        let blocks = node.kind().blocks();
        let index = self.space.take_run(self.shared, blocks)?;
        for block in 0..blocks {
            self.copy_bytes(node.index() + block, index + block);
        }
        Ok(index)
    }

    /// Copies the bytes of a block. Only the writer may change its links.
    fn copy_bytes(&mut self, from: u32, to: u32) {
        // SAFETY: only the writer knows the new block. The old one is in the structure; only the
        // writer changes it, and this is the writer, so that plain reads race with nothing. Bytes
        // that were never written are copied as such.
        unsafe {
            let from = self.shared.blocks.unit(from).cast::<std::mem::MaybeUninit<u8>>();
            let to = self.shared.blocks.unit(to).cast::<std::mem::MaybeUninit<u8>>();
            to.copy_from_nonoverlapping(from, BLOCK_BYTES);
        }
    }
}
