//! Tombstone runs: parts of a partition in which the memtable has nothing visible.
//!
//! A consumer of a queue deletes the rows that it has read. Without runs, each read of the first
//! row would then walk all tombstones. So a partition has a branch of runs, which maps the path of
//! a run's first row (or of a bound) to the path of its last one. A read that comes into a run may
//! seek past it (`UnfilteredStream::empty_until`). Whether a row is dead does not depend on the
//! clock: a dead row has only tombstones, or is under a deletion that is at least as new as
//! everything that the memtable held.
//!
//! **Invariants.** No row in a run, bounds included, is visible to a reader that reads only this
//! memtable. Runs do not overlap. A run is a hint: there may be dead rows outside of runs, and if
//! the trie is full there will be. A run is split before a row in it becomes live, in the same
//! transaction.
//!
//! **Memory bound.** One key for each run, which has at least two adjacent dead rows. Cost: a write
//! of a tombstone takes up to four more seeks. Any other write takes one more, if the memtable has
//! ever had a run.

use espalier_mutation::{Direction, PackedRow, path};

use super::{
    content::Content,
    partition_writer::PartitionWriter,
    store::{Entries, PartitionView, StoreFull},
    walk::walk_direction,
};

/// A range deletion becomes a run if it covers at least this many rows: a seek costs as much as
/// walking a few.
const MIN_COVERED_ROWS: usize = 8;

/// A range deletion becomes a run if it replaces at most this many runs, so that it holds the core
/// for some microseconds only.
const MAX_ABSORBED_RUNS: usize = 64;

/// The paths of the first and the last position of a run.
pub(super) type Run = (Vec<u8>, Vec<u8>);

/// Returns [`PackedRow::is_dead_for_ever`], or `false` for a malformed row, which the decoder will
/// report.
#[inline]
pub fn is_dead(packed: &[u8]) -> bool {
    PackedRow::new(packed).is_ok_and(|row| row.is_dead_for_ever())
}

/// Returns the run with the greatest start that is at most `at`.
fn run_before(partition: PartitionView<'_>, at: &[u8]) -> Option<Run> {
    runs_from(partition, Direction::Reverse, at).next_entry().and_then(run)
}

/// Returns the run with the least start that is at least `at`.
fn run_behind(partition: PartitionView<'_>, at: &[u8]) -> Option<Run> {
    runs_from(partition, Direction::Forward, at).next_entry().and_then(run)
}

fn runs_from<'a>(partition: PartitionView<'a>, direction: Direction, at: &[u8]) -> Entries<'a> {
    let mut runs = partition.subtrie(&[path::TOMBSTONE_RUNS]).entries(walk_direction(direction));
    runs.seek(at);
    runs
}

fn run((start, content): (&[u8], &Content)) -> Option<Run> {
    Some((start.to_vec(), content.row_bytes()?.to_vec()))
}

/// Returns the first run that a walk from `at` enters, or begins in.
pub(super) fn next_run(
    partition: PartitionView<'_>,
    direction: Direction,
    at: &[u8],
) -> Option<Run> {
    let before = run_before(partition, at);
    match direction {
        Direction::Reverse => before,
        Direction::Forward => match before {
            Some(run) if run.1.as_slice() >= at => Some(run),
            _ => run_behind(partition, at),
        },
    }
}

/// Returns the row next to `at` in a direction.
fn neighbour<'a>(
    partition: PartitionView<'a>,
    direction: Direction,
    at: &[u8],
) -> Option<(Vec<u8>, &'a Content)> {
    let mut rows = partition.entries(walk_direction(direction));
    rows.seek(at);
    loop {
        let (key, content) = rows.next_entry()?;
        if key.first().is_none_or(|first| *first < path::FIRST_ROW) {
            return None;
        }
        if key != at {
            return Some((key.to_vec(), content));
        }
    }
}

impl PartitionWriter<'_> {
    /// Splits the run around `at`, because a row that is not dead is about to be written there.
    #[inline]
    pub(super) fn leave_run(&mut self, at: &[u8]) -> Result<(), StoreFull> {
        if self.memtable.has_runs.get() { self.split_run(at) } else { Ok(()) }
    }

    fn split_run(&mut self, at: &[u8]) -> Result<(), StoreFull> {
        let Some((start, end)) = run_before(self.partition.subtrie(), at) else { return Ok(()) };
        if end.as_slice() < at {
            return Ok(());
        }
        let before = neighbour(self.partition.subtrie(), Direction::Reverse, at);
        match before {
            Some((before, _)) if before > start => self.put_run(&start, &before)?,
            _ => self.remove_run(&start)?,
        }
        // From here on a failure leaves no wrong run, only a missing one.
        let behind = neighbour(self.partition.subtrie(), Direction::Forward, at);
        if let Some((behind, _)) = behind
            && behind < end
        {
            let _ = self.put_run(&behind, &end);
        }
        Ok(())
    }

    /// Adds a dead row that was written at `at` to a run, or makes a run of it and its dead
    /// neighbours.
    #[cold]
    pub(super) fn join_run(&mut self, at: &[u8]) -> Result<(), StoreFull> {
        let is_exact = self.memtable.format.is_exact;
        let is_dead = |content: &Content| {
            let bytes = content.row_bytes().unwrap_or_default();
            is_dead(super::row_format::split_stored(is_exact, bytes).1)
        };
        let view = self.partition.subtrie();
        if !view.get(at).is_some_and(is_dead) {
            return Ok(());
        }
        let before = run_before(view, at);
        if before.as_ref().is_some_and(|(_, end)| end.as_slice() >= at) {
            return Ok(());
        }
        let (mut start, mut end) = (at.to_vec(), at.to_vec());
        let row = neighbour(view, Direction::Reverse, at);
        match (before, row) {
            (Some(run), row) if row.as_ref().is_none_or(|(row, _)| *row <= run.1) => start = run.0,
            (_, Some((row, content))) if is_dead(content) => start = row,
            _ => {}
        }
        let behind = run_behind(view, at);
        let row = neighbour(view, Direction::Forward, at);
        let mut absorbed = None;
        match (behind, row) {
            (Some(run), row) if row.as_ref().is_none_or(|(row, _)| *row >= run.0) => {
                (absorbed, end) = (Some(run.0), run.1);
            }
            (_, Some((row, content))) if is_dead(content) => end = row,
            _ => {}
        }
        if start == end {
            return Ok(());
        }
        if let Some(absorbed) = absorbed {
            self.remove_run(&absorbed)?;
        }
        self.put_run(&start, &end)
    }

    /// Makes a run of the range from `start` to `end`, over which a deletion was written that is at
    /// least as new as everything in the memtable.
    pub(super) fn cover(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) -> Result<(), StoreFull> {
        let view = self.partition.subtrie();
        let mut rows = view.entries(walk_direction(Direction::Forward));
        rows.seek(start.as_slice().max(&[path::FIRST_ROW]));
        for _ in 0..MIN_COVERED_ROWS {
            if rows.next_entry().is_none_or(|(key, _)| key > end.as_slice()) {
                return Ok(());
            }
        }
        let before = run_before(view, &start).filter(|(_, last)| *last >= start);
        let mut absorbed = Vec::new();
        let mut runs = runs_from(view, Direction::Forward, &start);
        while let Some((first, last)) = runs.next_entry().and_then(run)
            && first <= end
        {
            if absorbed.len() == MAX_ABSORBED_RUNS {
                return Ok(());
            }
            end = end.max(last);
            absorbed.push(first);
        }
        if let Some((first, last)) = before {
            start = first;
            end = end.max(last);
        }
        for gone in absorbed.iter().filter(|gone| **gone != start) {
            self.remove_run(gone)?;
        }
        self.put_run(&start, &end)
    }

    fn put_run(&mut self, start: &[u8], end: &[u8]) -> Result<(), StoreFull> {
        self.put(&run_key(start), Content::row(&[], end))?;
        self.memtable.has_runs.set(true);
        Ok(())
    }

    fn remove_run(&mut self, start: &[u8]) -> Result<(), StoreFull> {
        self.remove(&run_key(start))
    }
}

fn run_key(start: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(start.len() + 1);
    key.push(path::TOMBSTONE_RUNS);
    key.extend_from_slice(start);
    key
}
