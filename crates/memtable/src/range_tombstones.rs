//! Range deletions in the deletion branch of a partition: each boundary holds the deletion in force
//! behind it.
//!
//! The normal form is that of `RangeTombstoneList`: boundaries ascend, neighbours differ, and the
//! deletion before the first and behind the last is live. A new range adds boundaries at its two
//! ends and raises the deletions between them.

use espalier_mutation::{DeletionTime, RangeTombstone, path};
use espalier_trie::cursor::Direction;

use super::{
    content::{Boundary, Content},
    partition_writer::PartitionWriter,
    store::{PartitionView, StoreFull},
};

/// Returns the deletion in force behind the last boundary of a partition before `at` (or at it, if
/// `inclusive`).
pub(super) fn deletion_before(
    partition: PartitionView<'_>,
    at: &[u8],
    inclusive: bool,
) -> DeletionTime {
    let mut entries = partition.subtrie(&[path::DELETIONS]).entries(Direction::Reverse);
    entries.seek(at);
    while let Some((key, content)) = entries.next_entry() {
        if let Content::Boundary(boundary) = content
            && (inclusive || key != at)
        {
            return boundary.after;
        }
    }
    DeletionTime::LIVE
}

impl PartitionWriter<'_> {
    pub(super) fn add_range_tombstone(
        &mut self,
        tombstone: &RangeTombstone,
    ) -> Result<(), StoreFull> {
        let (comparator, format) = (self.table.comparator(), self.memtable.format);
        let mut start = Vec::new();
        path::put_bound(comparator, &tombstone.start, &mut start);
        let mut end = Vec::new();
        path::put_bound(comparator, &tombstone.end, &mut end);
        if start >= end || tombstone.deletion.is_live() {
            return Ok(());
        }
        let range = (start.clone(), end.clone());
        let before = deletion_before(self.partition.subtrie(), &start, false);
        let within = within(self.partition.subtrie(), &start, &end);
        // The old deletion in force at the present step, and the new one behind the last boundary
        // that stays.
        let (mut old, mut last) = (before, before);
        let mut put: Vec<(Vec<u8>, Boundary)> = Vec::new();
        let mut gone: Vec<Vec<u8>> = Vec::new();
        if within.first().is_none_or(|(key, _)| *key != start) {
            let after = old.followed_by(tombstone.deletion);
            if after != last {
                let kept_values = format.kept_values(&tombstone.start);
                put.push((start, Boundary { after, kept_values }));
                last = after;
            }
        }
        let mut end_stands = false;
        for (key, boundary) in within {
            old = boundary.after;
            end_stands = key == end;
            let after = if end_stands { old } else { old.followed_by(tombstone.deletion) };
            if after == last {
                gone.push(key);
            } else if after != old {
                put.push((key, Boundary { after, ..boundary }));
            }
            last = after;
        }
        if !end_stands && old != last {
            put.push((
                end,
                Boundary { after: old, kept_values: format.kept_values(&tombstone.end) },
            ));
        }
        // If the trie becomes full half-way, a part of this deletion is in place and no older one
        // is lost: each step, from the end to the start, raises the deletion behind one boundary.
        // Boundaries that say the same as the one before them are removed only after that.
        self.memtable.has_boundaries.set(true);
        let mut key = vec![path::DELETIONS];
        for (path, boundary) in put.into_iter().rev() {
            key.truncate(1);
            key.extend_from_slice(&path);
            self.put(&key, Content::Boundary(boundary))?;
        }
        for path in &gone {
            key.truncate(1);
            key.extend_from_slice(path);
            self.remove(&key)?;
        }
        if self.memtable.statistics.borrow().is_covered_by(tombstone.deletion) {
            let _ = self.cover(range.0, range.1);
        }
        Ok(())
    }
}

/// Returns the boundaries of a partition from `start` to `end`, both included.
fn within(partition: PartitionView<'_>, start: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Boundary)> {
    let mut entries = partition.subtrie(&[path::DELETIONS]).entries(Direction::Forward);
    entries.seek(start);
    let mut boundaries = Vec::new();
    while let Some((key, content)) = entries.next_entry()
        && key <= end
    {
        if let Content::Boundary(boundary) = content {
            boundaries.push((key.to_vec(), boundary.clone()));
        }
    }
    boundaries
}
