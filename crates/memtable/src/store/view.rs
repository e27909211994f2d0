//! Views of the contents below a prefix.

use espalier_trie::{cursor::Direction, memory::Subtrie};

use super::{super::content::Content, Entries, skip_list::ListView};

/// The keys that begin with some prefix, and their contents: at present, or in a snapshot.
#[derive(Clone, Copy)]
pub(crate) enum PartitionView<'a> {
    Trie(Subtrie<'a, Content>),
    SkipList(ListView<'a>),
}

impl<'a> PartitionView<'a> {
    /// Returns the content of prefix + `suffix`.
    #[inline]
    pub(crate) fn get(self, suffix: &[u8]) -> Option<&'a Content> {
        match self {
            Self::Trie(subtrie) => subtrie.get(suffix),
            Self::SkipList(view) => view.get(suffix),
        }
    }

    /// Returns the part of this view below `suffix`. This view must not be such a part itself.
    #[inline]
    pub(crate) fn subtrie(self, suffix: &'a [u8]) -> PartitionView<'a> {
        match self {
            Self::Trie(subtrie) => Self::Trie(subtrie.subtrie(suffix)),
            Self::SkipList(view) => Self::SkipList(view.subtrie(suffix)),
        }
    }

    /// Walks over all keys below the prefix, without the prefix, and their contents, in order.
    #[inline]
    pub(crate) fn entries(self, direction: Direction) -> Entries<'a> {
        match self {
            Self::Trie(subtrie) => Entries::Trie(subtrie.entries(direction)),
            Self::SkipList(view) => Entries::SkipList(view.entries(direction)),
        }
    }
}
