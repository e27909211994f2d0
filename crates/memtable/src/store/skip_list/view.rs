//! Views of the keys of a list below a prefix, at present or in a snapshot.

use espalier_trie::cursor::Direction;
use smallvec::SmallVec;

use super::{super::super::content::Content, ListEntries, SkipList, SnapshotVersion, history};

/// Holds the usual path without an allocation.
pub(super) type Path = SmallVec<[u8; 64]>;

#[derive(Clone, Copy)]
pub(crate) struct ListView<'a> {
    pub(super) list: &'a SkipList,
    pub(super) version: u64,
    prefix: &'a [u8],
    suffix: &'a [u8],
}

impl<'a> ListView<'a> {
    /// Creates a view of the present state.
    pub(crate) fn new(list: &'a SkipList, prefix: &'a [u8]) -> Self {
        Self { list, version: history::PRESENT, prefix, suffix: &[] }
    }

    /// Returns this view as of a snapshot.
    pub(crate) fn at(self, snapshot: &SnapshotVersion) -> Self {
        Self { version: snapshot.version, ..self }
    }

    /// Returns the part below `suffix` of a view that has no suffix yet.
    pub(crate) fn subtrie(self, suffix: &'a [u8]) -> Self {
        debug_assert!(self.suffix.is_empty());
        Self { suffix, ..self }
    }

    /// Returns the prefix of all keys.
    pub(super) fn path(self) -> Path {
        let mut path = Path::from_slice(self.prefix);
        path.extend_from_slice(self.suffix);
        path
    }

    pub(crate) fn get(self, suffix: &[u8]) -> Option<&'a Content> {
        let mut path = self.path();
        path.extend_from_slice(suffix);
        let slot = *self.list.list.get(path.as_slice(), &self.list.guard)?.value();
        self.list.content(slot, self.version)
    }

    pub(crate) fn entries(self, direction: Direction) -> ListEntries<'a> {
        ListEntries::new(self, direction)
    }
}
