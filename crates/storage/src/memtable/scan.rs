//! Going from partition to partition.

use espalier_mutation::{DecoratedKey, KeyBound};
use espalier_trie::cursor::Direction;

use super::{Memtable, content::Content, path};
use crate::StorageError;

impl Memtable {
    /// The first partition behind a bound.
    pub(crate) fn next_partition(
        &self,
        bound: &KeyBound,
    ) -> Result<Option<DecoratedKey>, StorageError> {
        let mut from = Vec::with_capacity(32);
        path::put_key_bound(bound, &mut from);
        let store = self.store.borrow();
        let mut entries = store.entries(Direction::Forward);
        entries.seek(&from);
        let Some((key, content)) = entries.next_entry() else { return Ok(None) };
        path::partition_key(key, matches!(content, Content::Partition(_)), "memtable").map(Some)
    }
}
