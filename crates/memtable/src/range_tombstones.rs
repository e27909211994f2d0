//! Range deletions in the deletion branch of a partition: each boundary holds the deletion in force
//! behind it.
//!
//! The normal form is that of `RangeTombstoneList`: boundaries ascend, neighbours differ, and the
//! deletion before the first and behind the last is live. A new range adds boundaries at its two
//! ends and raises the deletions between them.

use bytes::Bytes;
use espalier_mutation::{
    ClusteringBound, DeletionTime, RangeTombstone, encoding::body::put_values, path,
    schema::TableMetadata,
};
use espalier_trie::cursor::Direction;

use super::{
    Memtable,
    content::{Boundary, Content},
    store::{PartitionView, StoreFull, StorePartition},
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

impl Memtable {
    pub(super) fn add_range_tombstone(
        &self,
        table: &TableMetadata,
        partition: &mut StorePartition<'_>,
        tombstone: &RangeTombstone,
    ) -> Result<(), StoreFull> {
        let mut start = Vec::new();
        path::put_bound(table.comparator(), &tombstone.start, &mut start);
        let mut end = Vec::new();
        path::put_bound(table.comparator(), &tombstone.end, &mut end);
        if start >= end || tombstone.deletion.is_live() {
            return Ok(());
        }
        let range = (start.clone(), end.clone());
        let before = deletion_before(partition.subtrie(), &start, false);
        let within = within(partition.subtrie(), &start, &end);
        // The old deletion in force at the present step, and the new one behind the last boundary
        // that stays.
        let (mut old, mut last) = (before, before);
        let mut put: Vec<(Vec<u8>, Boundary)> = Vec::new();
        let mut gone: Vec<Vec<u8>> = Vec::new();
        if within.first().is_none_or(|(key, _)| *key != start) {
            let after = old.max(tombstone.deletion);
            if after != last {
                let kept_values = self.kept_values(&tombstone.start);
                put.push((start, Boundary { after, kept_values }));
                last = after;
            }
        }
        let mut end_stands = false;
        for (key, boundary) in within {
            old = boundary.after;
            end_stands = key == end;
            let after = if end_stands { old } else { old.max(tombstone.deletion) };
            if after == last {
                gone.push(key);
            } else if after != old {
                put.push((key, Boundary { after, ..boundary }));
            }
            last = after;
        }
        if !end_stands && old != last {
            put.push((end, Boundary { after: old, kept_values: self.kept_values(&tombstone.end) }));
        }
        // If the trie becomes full half-way, a part of this deletion is in place and no older one
        // is lost: each step, from the end to the start, raises the deletion behind one boundary.
        // Boundaries that say the same as the one before them are removed only after that.
        self.has_boundaries.set(true);
        let mut key = vec![path::DELETIONS];
        for (path, boundary) in put.into_iter().rev() {
            key.truncate(1);
            key.extend_from_slice(&path);
            self.put_counted(partition, &key, Content::Boundary(boundary))?;
        }
        for path in &gone {
            key.truncate(1);
            key.extend_from_slice(path);
            self.remove_counted(partition, &key)?;
        }
        if self.covers(tombstone.deletion) {
            let _ = self.cover(partition, range.0, range.1);
        }
        Ok(())
    }

    /// Returns the bound's values as written, if its path does not preserve them.
    fn kept_values(&self, bound: &ClusteringBound) -> Option<Box<Bytes>> {
        if self.format.is_exact || bound.values.is_empty() {
            return None;
        }
        let mut bytes = Vec::new();
        put_values(&bound.values, &mut bytes);
        Some(Box::new(bytes.into()))
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
