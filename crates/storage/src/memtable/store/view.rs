//! Reading below a prefix.

use espalier_trie::{cursor::Direction, memory::Subtrie};

use super::{super::content::Content, Entries};

/// The keys that begin with some prefix, and their contents: as they are, or as a snapshot has them.
#[derive(Clone, Copy)]
pub(in super::super) enum PartitionView<'a> {
    Trie(Subtrie<'a, Content>),
}

impl<'a> PartitionView<'a> {
    /// The content of prefix + `suffix`.
    #[inline]
    pub(in super::super) fn get(self, suffix: &[u8]) -> Option<&'a Content> {
        match self {
            Self::Trie(subtrie) => subtrie.get(suffix),
        }
    }

    /// The part below `suffix` of this one, which is not a part itself.
    #[inline]
    pub(in super::super) fn subtrie(self, suffix: &'a [u8]) -> PartitionView<'a> {
        match self {
            Self::Trie(subtrie) => Self::Trie(subtrie.subtrie(suffix)),
        }
    }

    /// What follows the prefix in all keys that begin with it, and their contents, in order.
    #[inline]
    pub(in super::super) fn entries(self, direction: Direction) -> Entries<'a> {
        match self {
            Self::Trie(subtrie) => Entries::Trie(subtrie.entries(direction)),
        }
    }
}
