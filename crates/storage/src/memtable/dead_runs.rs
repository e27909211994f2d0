//! Runs of dead rows: stretches of a partition in which the memtable has nothing that a reader could see.
//!
//! A queue's consumer deletes what it has read, and then each look for the first row would walk all tombstones. So the
//! partition has a branch that tells runs: path of the first row (or of a bound) to path of the last one. A read that
//! comes into a run may seek past it (`UnfilteredStream::dead_until`). Whether a row is dead does not depend on the
//! clock: it has tombstones only, or lies under a range deletion that came after everything the memtable held.
//!
//! **Invariants.** No row in a run, bounds included, shows anything to a reader of this memtable alone. Runs do not
//! overlap. A run is a hint: there may be dead rows outside of runs, and where the trie is full there will be. A run is
//! split before a row in it comes alive, in the same transaction.
//!
//! **Memory bound.** One key for two dead rows side by side or more. Costs a write of a tombstone three seeks, any other
//! write one, if its partition has runs.

use espalier_mutation::{Direction, PackedRow};

use super::{
    Memtable,
    content::Content,
    path,
    store::{Entries, PartitionView, StoreFull, StorePartition},
    walk::walk_direction,
};

/// A range deletion becomes a run if it covers so many rows: seeking costs as much as walking a few.
const FEWEST_COVERED_ROWS: usize = 8;

/// And if it takes the place of at most so many runs, so that it holds the core for some microseconds only.
const MOST_ABSORBED_RUNS: usize = 64;

/// The paths of the first and the last place of a run.
pub(super) type Run = (Vec<u8>, Vec<u8>);

/// [`PackedRow::is_dead_for_ever`] of what may be malformed: that is for others to find.
#[inline]
pub(crate) fn is_dead(packed: &[u8]) -> bool {
    PackedRow::new(packed).is_ok_and(|row| row.is_dead_for_ever())
}

/// The run with the greatest start that is at most `at`.
fn run_before(partition: PartitionView<'_>, at: &[u8]) -> Option<Run> {
    runs_from(partition, Direction::Reverse, at).next_entry().and_then(run)
}

/// The run with the least start that is at least `at`.
fn run_behind(partition: PartitionView<'_>, at: &[u8]) -> Option<Run> {
    runs_from(partition, Direction::Forward, at).next_entry().and_then(run)
}

fn runs_from<'a>(partition: PartitionView<'a>, direction: Direction, at: &[u8]) -> Entries<'a> {
    let mut runs = partition.subtrie(&[path::DEAD_RUNS]).entries(walk_direction(direction));
    runs.seek(at);
    runs
}

fn run((start, content): (&[u8], &Content)) -> Option<Run> {
    Some((start.to_vec(), content.row_bytes()?.to_vec()))
}

/// The first run that a walk from `at` comes into or begins in.
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

/// The row next to `at` in a direction.
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

impl Memtable {
    /// A row that is not dead is about to be written at `at`.
    #[inline]
    pub(super) fn leave_run(
        &self,
        partition: &mut StorePartition<'_>,
        at: &[u8],
    ) -> Result<(), StoreFull> {
        match self.has_runs.get() {
            true => self.split_run(partition, at),
            false => Ok(()),
        }
    }

    fn split_run(&self, partition: &mut StorePartition<'_>, at: &[u8]) -> Result<(), StoreFull> {
        let Some((start, end)) = run_before(partition.subtrie(), at) else { return Ok(()) };
        if end.as_slice() < at {
            return Ok(());
        }
        let before = neighbour(partition.subtrie(), Direction::Reverse, at);
        match before {
            Some((before, _)) if before > start => self.put_run(partition, &start, &before)?,
            _ => self.remove_run(partition, &start)?,
        }
        // From here on nothing is wrong, whatever fails.
        let behind = neighbour(partition.subtrie(), Direction::Forward, at);
        if let Some((behind, _)) = behind
            && behind < end
        {
            let _ = self.put_run(partition, &behind, &end);
        }
        Ok(())
    }

    /// A row of tombstones was written at `at`.
    #[cold]
    pub(super) fn join_run(
        &self,
        partition: &mut StorePartition<'_>,
        at: &[u8],
    ) -> Result<(), StoreFull> {
        let is_exact = self.format.is_exact;
        let is_dead = |content: &Content| {
            let bytes = content.row_bytes().unwrap_or_default();
            is_dead(super::write::split_stored(is_exact, bytes).1)
        };
        let view = partition.subtrie();
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
            self.remove_run(partition, &absorbed)?;
        }
        self.put_run(partition, &start, &end)
    }

    /// A deletion that is at least as new as all that the memtable holds was written from `start` to `end`.
    pub(super) fn cover(
        &self,
        partition: &mut StorePartition<'_>,
        mut start: Vec<u8>,
        mut end: Vec<u8>,
    ) -> Result<(), StoreFull> {
        let view = partition.subtrie();
        let mut rows = view.entries(walk_direction(Direction::Forward));
        rows.seek(start.as_slice().max(&[path::FIRST_ROW]));
        for _ in 0..FEWEST_COVERED_ROWS {
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
            if absorbed.len() == MOST_ABSORBED_RUNS {
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
            self.remove_run(partition, gone)?;
        }
        self.put_run(partition, &start, &end)
    }

    fn put_run(
        &self,
        partition: &mut StorePartition<'_>,
        start: &[u8],
        end: &[u8],
    ) -> Result<(), StoreFull> {
        self.put_counted(partition, &run_key(start), Content::row(&[], end))?;
        self.has_runs.set(true);
        Ok(())
    }

    fn remove_run(
        &self,
        partition: &mut StorePartition<'_>,
        start: &[u8],
    ) -> Result<(), StoreFull> {
        self.remove_counted(partition, &run_key(start))
    }
}

fn run_key(start: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(start.len() + 1);
    key.push(path::DEAD_RUNS);
    key.extend_from_slice(start);
    key
}
