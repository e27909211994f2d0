//! A snapshot: the content below a prefix at one moment.

#![allow(unsafe_code)]

use super::pointer::Pointer;
use super::reader::Reader;
use super::subtrie::Subtrie;
use super::trie::InMemoryTrie;

/// The keys with some prefix and their contents, at the moment when the snapshot was made. The
/// snapshot stays as it is if the writer changes these keys only by
/// [transactions](InMemoryTrie::transaction) below the same prefix or a shorter one. The writer
/// cannot recycle the blocks of a snapshot. A snapshot may be sent to another thread.
pub struct Snapshot<C> {
    /// Pinned from before the root was read.
    reader: Reader<C>,
    root: Pointer,
}

impl<C> Snapshot<C> {
    fn new(reader: Reader<C>, prefix: &[u8]) -> Snapshot<C> {
        reader.pin_for_good();
        // SAFETY: it is pinned.
        let root = unsafe { reader.view() }.find(prefix);
        Snapshot { reader, root }
    }

    /// Returns the part of the trie below the prefix.
    pub fn subtrie(&self) -> Subtrie<'_, C> {
        // SAFETY: pinned since before the root was read.
        Subtrie::below(unsafe { self.reader.view() }, self.root)
    }
}

impl<C> InMemoryTrie<C> {
    /// Takes a snapshot of the keys below `prefix`.
    pub fn snapshot(&self, prefix: &[u8]) -> Snapshot<C> {
        Snapshot::new(self.reader(), prefix)
    }
}

impl<C> Reader<C> {
    /// Takes a snapshot of the keys below `prefix`.
    pub fn snapshot(&self, prefix: &[u8]) -> Snapshot<C> {
        Snapshot::new(self.clone(), prefix)
    }
}
