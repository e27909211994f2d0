//! What was below a prefix at one moment.

use espalier_trie::memory::Snapshot;

use super::{super::content::Content, PartitionView, Store};

/// The keys with some prefix and their contents, as they were when this was made. It stays so as long as they are changed
/// by transactions below the same prefix.
pub(in super::super) enum StoreSnapshot {
    Trie(Snapshot<Content>),
}

impl StoreSnapshot {
    /// What was below the prefix. `store` is the one that this was made of.
    pub(in super::super) fn subtrie<'a>(&'a self, _store: &'a Store) -> PartitionView<'a> {
        match self {
            Self::Trie(snapshot) => PartitionView::Trie(snapshot.subtrie()),
        }
    }
}
