//! Iterates from partition to partition.

use espalier_mutation::{DecoratedKey, DeletionTime, KeyBound};
use espalier_trie::cursor::Direction;

use super::{Memtable, content::Content, path};
use crate::StorageError;

/// A partition that memtables have.
#[derive(Clone, Debug)]
pub(crate) struct NextInMemory {
    pub(crate) key: DecoratedKey,
    /// The partition's deletion.
    pub(crate) deletion: DeletionTime,
    /// Whether the memtables have nothing else of the partition.
    pub(crate) is_only_deletion: bool,
}

impl NextInMemory {
    /// Merges the state of the partition in another memtable.
    pub(crate) fn join(&mut self, other: &Self) {
        self.deletion = self.deletion.max(other.deletion);
        self.is_only_deletion &= other.is_only_deletion;
    }
}

impl Memtable {
    /// Returns the first partition behind a bound.
    pub(crate) fn next_partition(
        &self,
        bound: &KeyBound,
    ) -> Result<Option<NextInMemory>, StorageError> {
        let mut from = Vec::with_capacity(32);
        path::put_key_bound(bound, &mut from);
        let store = self.store.borrow();
        let mut entries = store.entries(Direction::Forward);
        entries.seek(&from);
        let Some((path, content)) = entries.next_entry() else { return Ok(None) };
        let Content::Partition(deletion) = *content else {
            let key = path::partition_key(path, false, "memtable")?;
            let deletion = DeletionTime::LIVE;
            return Ok(Some(NextInMemory { key, deletion, is_only_deletion: false }));
        };
        let key = path::partition_key(path, true, "memtable")?;
        let is_only_deletion = !deletion.is_live() && {
            let path = path.to_vec();
            entries.next_entry().is_none_or(|(next, _)| !next.starts_with(&path))
        };
        Ok(Some(NextInMemory { key, deletion, is_only_deletion }))
    }
}
