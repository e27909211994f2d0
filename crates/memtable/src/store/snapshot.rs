//! Snapshots of the contents below a prefix.

use espalier_trie::memory::Snapshot;

use super::{super::content::Content, PartitionView, Store, skip_list::SnapshotVersion};

/// The keys with some prefix and their contents at the moment when the snapshot was taken. The
/// snapshot does not change, provided that writes to these keys are transactions below the same
/// prefix.
pub(crate) enum StoreSnapshot {
    Trie(Snapshot<Content>),
    /// The version, and the prefix.
    SkipList(SnapshotVersion, Box<[u8]>),
}

impl StoreSnapshot {
    /// Returns the view below the prefix. `store` must be the store of which the snapshot was
    /// taken.
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
