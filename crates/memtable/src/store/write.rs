//! Several changes below one prefix.

use espalier_trie::memory::Transaction;

use super::{
    super::content::Content,
    PartitionView, StoreFull,
    skip_list::{ListView, SkipList},
};

/// Changes below a prefix, which become visible together when this is dropped. If there is no room,
/// the earlier changes stay and become visible.
pub(crate) enum StorePartition<'a> {
    Trie(Transaction<'a, Content>),
    SkipList(ListPartition<'a>),
}

/// Changes of a skip list. They are visible at once, but there is no reader before this is dropped,
/// because this borrows the list mutably.
pub(crate) struct ListPartition<'a> {
    list: &'a mut SkipList,
    /// The path, which begins with the prefix. It is the list's buffer.
    path: Vec<u8>,
    prefix_length: usize,
}

impl StorePartition<'_> {
    /// Returns the view below the prefix, with these changes.
    #[inline]
    pub(crate) fn subtrie(&self) -> PartitionView<'_> {
        match self {
            Self::Trie(transaction) => PartitionView::Trie(transaction.subtrie()),
            Self::SkipList(partition) => {
                let prefix = &partition.path[..partition.prefix_length];
                PartitionView::SkipList(ListView::new(partition.list, prefix))
            }
        }
    }

    /// Returns the content of prefix + `suffix`.
    #[inline]
    pub(crate) fn get(&self, suffix: &[u8]) -> Option<&Content> {
        self.subtrie().get(suffix)
    }

    /// Maps prefix + `suffix` to the content that `change` makes of the present one.
    #[inline]
    pub(crate) fn put_with<R>(
        &mut self,
        suffix: &[u8],
        change: impl FnOnce(Option<&Content>) -> (Content, R),
    ) -> Result<R, StoreFull> {
        match self {
            Self::Trie(transaction) => Ok(transaction.put_with(suffix, change)?),
            Self::SkipList(partition) => {
                partition.set_suffix(suffix);
                partition.list.put_with(&partition.path, change)
            }
        }
    }

    /// Maps prefix + `suffix` to `content`. Returns whether there was a content before.
    pub(crate) fn put(&mut self, suffix: &[u8], content: Content) -> Result<bool, StoreFull> {
        self.put_with(suffix, |old| (content, old.is_some()))
    }

    /// Removes the content of prefix + `suffix`. Returns `false` if nothing was removed: the key
    /// has no content, or it is the only key with the prefix, which a trie cannot remove this way.
    pub(crate) fn remove(&mut self, suffix: &[u8]) -> Result<bool, StoreFull> {
        match self {
            Self::Trie(transaction) => Ok(transaction.remove(suffix)?),
            Self::SkipList(partition) => {
                partition.set_suffix(suffix);
                Ok(partition.list.remove(&partition.path))
            }
        }
    }
}

impl<'a> ListPartition<'a> {
    pub(super) fn new(list: &'a mut SkipList, prefix: &[u8]) -> Self {
        let mut path = std::mem::take(&mut list.path);
        path.clear();
        path.extend_from_slice(prefix);
        Self { list, path, prefix_length: prefix.len() }
    }

    fn set_suffix(&mut self, suffix: &[u8]) {
        self.path.truncate(self.prefix_length);
        self.path.extend_from_slice(suffix);
    }
}

impl Drop for ListPartition<'_> {
    fn drop(&mut self) {
        self.list.path = std::mem::take(&mut self.path);
        self.list.settle();
    }
}
