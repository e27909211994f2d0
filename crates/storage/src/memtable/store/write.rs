//! Several changes below one prefix.

use espalier_trie::memory::Transaction;

use super::{super::content::Content, PartitionView, StoreFull};

/// Changes below a prefix, which become visible together when this is dropped. When there is no room, what was changed
/// before stays and becomes visible.
pub(in super::super) enum StorePartition<'a> {
    Trie(Transaction<'a, Content>),
}

impl StorePartition<'_> {
    /// What is below the prefix, with these changes.
    #[inline]
    pub(in super::super) fn subtrie(&self) -> PartitionView<'_> {
        match self {
            Self::Trie(transaction) => PartitionView::Trie(transaction.subtrie()),
        }
    }

    /// The content of prefix + `suffix`.
    #[inline]
    pub(in super::super) fn get(&self, suffix: &[u8]) -> Option<&Content> {
        self.subtrie().get(suffix)
    }

    /// Maps prefix + `suffix` to what `change` makes of its present content.
    #[inline]
    pub(in super::super) fn put_with<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        match self {
            Self::Trie(transaction) => Ok(transaction.put_with(suffix, change)?),
        }
    }

    /// Maps prefix + `suffix` to `content`. Returns whether there was a content before.
    pub(in super::super) fn put(
        &mut self,
        suffix: &[u8],
        content: Content,
    ) -> Result<bool, StoreFull> {
        self.put_with(suffix, |old| (content, old.is_some()))
    }

    /// Removes the content of prefix + `suffix`. Returns whether that was done: a trie does not remove the only key with
    /// the prefix this way.
    pub(in super::super) fn remove(&mut self, suffix: &[u8]) -> Result<bool, StoreFull> {
        match self {
            Self::Trie(transaction) => Ok(transaction.remove(suffix)?),
        }
    }
}
