//! Merges the write of a row into the stored row.

use espalier_mutation::{DeletionTime, PackError, path, schema::TableMetadata};

use super::{
    Memtable, MemtableError, content::Content, merge, partition_writer::PartitionWriter,
    range_tombstones::deletion_before, row_format::split_stored, store::StoreFull, tombstone_runs,
};

impl<'a> PartitionWriter<'a> {
    /// Writes a row of a partition that may have several. `path` is the row's path in the
    /// partition.
    #[inline]
    pub(super) fn put_row(
        &mut self,
        path: &[u8],
        kept: &[u8],
        packed: &[u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let is_dead = tombstone_runs::is_dead(packed);
        if !is_dead {
            self.leave_run(path)?;
        }
        self.merge_row(path, kept, packed, merged)?;
        // Runs are hints: if there is no room for one, reads walk the tombstones.
        if is_dead {
            let _ = self.join_run(path);
        }
        Ok(())
    }

    /// Merges a row, or the static row, into the stored one.
    #[inline]
    pub(super) fn merge_row(
        &mut self,
        path: &[u8],
        kept: &[u8],
        packed: &[u8],
        merged: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let is_static = path == [path::STATIC];
        let target = self.target(path, is_static);
        let change =
            self.partition.put_with(path, |old| change_row(&target, old, kept, packed, merged))?;
        self.memtable.count(&change, !is_static);
        change.error.map_or(Ok(()), Err)?;
        Ok(())
    }

    /// Returns the context of the merge of a row that is written at `path`.
    #[inline]
    fn target(&self, path: &[u8], is_static: bool) -> Target<'a> {
        let (memtable, table, partition) = (self.memtable, self.table, &self.partition);
        let mut active = DeletionTime::LIVE;
        if table.is_counter() {
            active = partition_deletion(partition.get(&[]));
            if memtable.has_boundaries.get() && !is_static {
                active = active.max(deletion_before(partition.subtrie(), path, true));
            }
        }
        Target { table, is_exact: memtable.format.is_exact, active }
    }
}

/// The effect of a write on a row.
#[derive(Default)]
pub(super) struct Change {
    pub(super) is_new: bool,
    pub(super) heap_before: usize,
    pub(super) heap_after: usize,
    pub(super) error: Option<PackError>,
}

/// The context of a merge of two writes of a row.
pub(super) struct Target<'t> {
    pub(super) table: &'t TableMetadata,
    pub(super) is_exact: bool,
    /// The deletion over a counter's row. Rows of other tables are merged independently of the
    /// deletions over them.
    pub(super) active: DeletionTime,
}

pub(super) fn partition_deletion(content: Option<&Content>) -> DeletionTime {
    match content {
        Some(Content::Partition(deletion)) => *deletion,
        _ => DeletionTime::LIVE,
    }
}

/// Merges a packed row into a stored one. `kept` precedes the packed bytes of a new row.
#[inline]
pub(super) fn change_row(
    target: &Target<'_>,
    old: Option<&Content>,
    kept: &[u8],
    packed: &[u8],
    merged: &mut Vec<u8>,
) -> (Content, Change) {
    let Some(old) = old else {
        let content = Content::row(kept, packed);
        let heap_after = content.heap_bytes();
        return (content, Change { is_new: true, heap_after, ..Change::default() });
    };
    let bytes = old.row_bytes().unwrap_or_default();
    let table = target.table;
    let old_packed = split_stored(target.is_exact, bytes).1;
    let old_kept = &bytes[..bytes.len() - old_packed.len()];
    let mut change = Change { heap_before: old.heap_bytes(), ..Change::default() };
    let content = if merge::replaces(table, old_packed, packed) {
        Content::row(old_kept, packed)
    } else {
        match merge::merge_packed(table, old_packed, packed, target.active, merged) {
            Ok(()) => Content::row(old_kept, merged),
            Err(error) => {
                change.error = Some(error);
                old.clone()
            }
        }
    };
    change.heap_after = content.heap_bytes();
    (content, change)
}

/// The reason why a write was not applied.
pub(super) enum Failure {
    Full,
    Packed(PackError),
}

impl Failure {
    #[cold]
    pub(super) fn into_error(self, memtable: &Memtable, table: &TableMetadata) -> MemtableError {
        match self {
            Self::Full => MemtableError::Full { bytes: memtable.memory_bytes() },
            Self::Packed(source) => MemtableError::packed_row(table, source),
        }
    }
}

impl From<StoreFull> for Failure {
    fn from(_: StoreFull) -> Self {
        Self::Full
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        Self::Packed(error)
    }
}
