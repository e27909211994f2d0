//! This module finds the first partition of a memtable behind a bound.

use espalier_mutation::{DecoratedKey, DeletionTime, KeyBound, path};
use espalier_trie::cursor::Direction;

use super::{Memtable, content::Content, error::partition_key};
use crate::MemtableError;

/// A partition that memtables have.
#[derive(Clone, Debug)]
pub struct NextInMemory {
    /// Its key.
    pub key: DecoratedKey,
    /// The partition's deletion.
    pub deletion: DeletionTime,
    /// True if the memtables have nothing else of the partition.
    pub is_only_deletion: bool,
    /// The number of memtables that have the partition.
    pub holders: usize,
}

impl NextInMemory {
    /// Merges the state of the partition in another memtable.
    pub fn join(&mut self, other: &Self) {
        self.deletion = self.deletion.max(other.deletion);
        self.is_only_deletion &= other.is_only_deletion;
        self.holders += other.holders;
    }
}

impl Memtable {
    /// Returns the first partition behind a bound.
    ///
    /// # Errors
    ///
    /// Fails if its key is damaged.
    pub fn next_partition(&self, bound: &KeyBound) -> Result<Option<NextInMemory>, MemtableError> {
        let mut from = Vec::with_capacity(32);
        path::put_key_bound(bound, &mut from);
        let store = self.store.borrow();
        let mut entries = store.entries(Direction::Forward);
        entries.seek(&from);
        let Some((path, content)) = entries.next_entry() else { return Ok(None) };
        let Content::Partition(deletion) = *content else {
            let key = partition_key(path, false)?;
            let deletion = DeletionTime::LIVE;
            return Ok(Some(NextInMemory { key, deletion, is_only_deletion: false, holders: 1 }));
        };
        let key = partition_key(path, true)?;
        let is_only_deletion = !deletion.is_live() && {
            let path = path.to_vec();
            entries.next_entry().is_none_or(|(next, _)| !next.starts_with(&path))
        };
        Ok(Some(NextInMemory { key, deletion, is_only_deletion, holders: 1 }))
    }
}
