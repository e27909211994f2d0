//! Keys and contents in order, with a seek.

use espalier_trie::{cursor::Entries as TrieEntries, memory::MemoryCursor};

use super::super::content::Content;

/// A walk over keys and contents. Not an `Iterator`, as it lends the key.
pub(in super::super) enum Entries<'a> {
    Trie(TrieEntries<MemoryCursor<'a, Content>>),
}

impl<'a> Entries<'a> {
    /// The next key and its content, in the direction of the walk; `None` at the end.
    #[inline]
    pub(in super::super) fn next_entry(&mut self) -> Option<(&[u8], &'a Content)> {
        match self {
            Self::Trie(entries) => entries.next_entry(),
        }
    }

    /// Skips to the first key that is not before `key` in the direction of the walk: the next entry has a key >= `key` in
    /// a forward walk, <= `key` in a reverse one. Never goes back.
    #[inline]
    pub(in super::super) fn seek(&mut self, key: &[u8]) {
        match self {
            Self::Trie(entries) => entries.seek(key),
        }
    }
}
