//! Walks over keys and contents in order, with a seek.

use espalier_trie::{cursor::Entries as TrieEntries, memory::MemoryCursor};

use super::{super::content::Content, sharded::ShardedEntries, skip_list::ListEntries};

/// A walk over keys and contents. It is no `Iterator`, because it lends the key.
pub(crate) enum Entries<'a> {
    Trie(TrieEntries<MemoryCursor<'a, Content>>),
    SkipList(ListEntries<'a>),
    Sharded(Box<ShardedEntries<'a>>),
}

impl<'a> Entries<'a> {
    /// Returns the next key and its content, in the direction of the walk; `None` at the end.
    #[inline]
    pub(crate) fn next_entry(&mut self) -> Option<(&[u8], &'a Content)> {
        match self {
            Self::Trie(entries) => entries.next_entry(),
            Self::SkipList(entries) => entries.next_entry(),
            Self::Sharded(entries) => entries.next_entry(),
        }
    }

    /// Returns the key of the last entry.
    pub(super) fn key(&self) -> &[u8] {
        match self {
            Self::Trie(entries) => entries.key(),
            Self::SkipList(entries) => entries.key(),
            Self::Sharded(entries) => entries.key(),
        }
    }

    /// Skips to the first key that is not before `key` in the direction of the walk: the next entry
    /// has a key >= `key` in a forward walk, <= `key` in a reverse one. Never goes back.
    #[inline]
    pub(crate) fn seek(&mut self, key: &[u8]) {
        match self {
            Self::Trie(entries) => entries.seek(key),
            Self::SkipList(entries) => entries.seek(key),
            Self::Sharded(entries) => entries.seek(key),
        }
    }
}
