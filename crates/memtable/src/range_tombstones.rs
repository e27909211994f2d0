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
    row_format::RowFormat,
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
        let comparator = self.table.comparator();
        let mut start = Vec::new();
        path::put_bound(comparator, &tombstone.start, &mut start);
        let mut end = Vec::new();
        path::put_bound(comparator, &tombstone.end, &mut end);
        if start >= end || tombstone.deletion.is_live() {
            return Ok(());
        }
        let Changes { put, gone } =
            changes(self.partition.subtrie(), self.memtable.format, tombstone, (&start, &end));
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
            let _ = self.cover(start, end);
        }
        Ok(())
    }
}

/// The changes of boundaries by which a range deletion enters a partition.
#[derive(Default)]
struct Changes {
    put: Vec<(Vec<u8>, Boundary)>,
    gone: Vec<Vec<u8>>,
}

/// Returns the changes for a deletion of the range from `start` to `end`. Boundaries that stay as
/// they are cost no memory.
fn changes(
    partition: PartitionView<'_>,
    format: RowFormat,
    tombstone: &RangeTombstone,
    (start, end): (&[u8], &[u8]),
) -> Changes {
    let before = deletion_before(partition, start, false);
    // The old deletion in force at the present step, and the new one behind the last boundary that
    // stays.
    let (mut old, mut last) = (before, before);
    let mut changes = Changes::default();
    let (mut is_first, mut end_stands) = (true, false);
    let mut entries = partition.subtrie(&[path::DELETIONS]).entries(Direction::Forward);
    entries.seek(start);
    loop {
        let entry = entries.next_entry().filter(|(key, _)| *key <= end);
        if is_first && entry.is_none_or(|(key, _)| key != start) {
            let after = old.followed_by(tombstone.deletion);
            if after != last {
                let kept_values = format.kept_values(&tombstone.start);
                changes.put.push((start.to_vec(), Boundary { after, kept_values }));
                last = after;
            }
        }
        is_first = false;
        let Some((key, content)) = entry else { break };
        let Content::Boundary(boundary) = content else { continue };
        old = boundary.after;
        end_stands = key == end;
        let after = if end_stands { old } else { old.followed_by(tombstone.deletion) };
        if after == last {
            changes.gone.push(key.to_vec());
        } else if after != old {
            changes.put.push((key.to_vec(), Boundary { after, ..boundary.clone() }));
        }
        last = after;
    }
    if !end_stands && old != last {
        let kept_values = format.kept_values(&tombstone.end);
        changes.put.push((end.to_vec(), Boundary { after: old, kept_values }));
    }
    changes
}
