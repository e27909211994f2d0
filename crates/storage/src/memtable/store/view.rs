//! Reading below a prefix.

use espalier_trie::{cursor::Direction, memory::Subtrie};

use super::{super::content::Content, Entries, skip_list::ListView};

/// The keys that begin with some prefix, and their contents: as they are, or as a snapshot has them.
#[derive(Clone, Copy)]
pub(crate) enum PartitionView<'a> {
    Trie(Subtrie<'a, Content>),
    SkipList(ListView<'a>),
}

impl<'a> PartitionView<'a> {
    /// The content of prefix + `suffix`.
    #[inline]
    pub(crate) fn get(self, suffix: &[u8]) -> Option<&'a Content> {
        match self {
            Self::Trie(subtrie) => subtrie.get(suffix),
            Self::SkipList(view) => view.get(suffix),
        }
    }

    /// The part below `suffix` of this one, which is not a part itself.
    #[inline]
    pub(crate) fn subtrie(self, suffix: &'a [u8]) -> PartitionView<'a> {
        match self {
            Self::Trie(subtrie) => Self::Trie(subtrie.subtrie(suffix)),
            Self::SkipList(view) => Self::SkipList(view.subtrie(suffix)),
        }
    }

    /// What follows the prefix in all keys that begin with it, and their contents, in order.
    #[inline]
    pub(crate) fn entries(self, direction: Direction) -> Entries<'a> {
        match self {
            Self::Trie(subtrie) => Entries::Trie(subtrie.entries(direction)),
            Self::SkipList(view) => Entries::SkipList(view.entries(direction)),
        }
    }
}
