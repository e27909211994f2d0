//! What was below a prefix at one moment.

use espalier_trie::memory::Snapshot;

use super::{super::content::Content, PartitionView, Store, skip_list::SnapshotVersion};

/// The keys with some prefix and their contents, as they were when this was made. It stays so as long as they are changed
/// by transactions below the same prefix.
pub(crate) enum StoreSnapshot {
    Trie(Snapshot<Content>),
    /// With the prefix.
    SkipList(SnapshotVersion, Box<[u8]>),
}

impl StoreSnapshot {
    /// What was below the prefix. `store` is the one that this was made of.
    pub(crate) fn subtrie<'a>(&'a self, store: &'a Store) -> PartitionView<'a> {
        match self {
            Self::Trie(snapshot) => PartitionView::Trie(snapshot.subtrie()),
            Self::SkipList(snapshot, prefix) => match store.subtrie(prefix) {
                PartitionView::SkipList(view) => PartitionView::SkipList(view.at(snapshot)),
                other => other,
            },
        }
    }
}
