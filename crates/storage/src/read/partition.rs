//! Reads one partition: merges its sources, keeps live rows, stops at the limits.
//!
//! The limits hold for a whole read, so the read passes what is left of them ([`Remaining`]) from
//! partition to partition. A read that stops within a partition returns the position at which the
//! next page resumes.
//!
//! Memory bound: the rows that the limits allow, and one fragment of each source.

use espalier_mutation::{
    Clustering, DecoratedKey, PartitionHeader, Row, Unfiltered, UnfilteredStream,
    purge::purge_row,
    reconcile::{MergedPartition, StoppedAt},
    schema::TableMetadata,
};
use espalier_runtime::time::Instant;

use super::source::Source;
use crate::{
    ColumnSelection, FlatColumns, FlatRows, PartitionRows, ReadCommand, ReadLimits, ReadPosition,
    ReadResult, StorageError,
    command::{LONG_WALK, partition_bytes},
    empty_ranges::EmptyRangeRecorder,
};

/// The limits that are left for the rest of a read.
#[derive(Clone, Copy)]
pub(crate) struct Remaining {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    /// Rows of a window, and those that are left of the present one.
    window_rows: usize,
    rows_in_window: usize,
    /// Dropped fragments so far, and their maximum.
    dropped: u64,
    max_dropped: Option<u64>,
    /// Fragments dropped before the last returned row; later ones belong to the current walk over
    /// dead rows.
    dropped_before_walk: u64,
    /// Time of the first check of the tombstone limit in the current walk.
    walk_began: Option<Instant>,
}

/// Dropped fragments after which the merge checks the tombstone limit at the next row that it
/// drops.
const DROPS_BETWEEN_LOOKS: u64 = 256;

impl Remaining {
    pub(crate) fn of(limits: &ReadLimits) -> Self {
        let max_dropped = Some(limits.tombstones as u64).filter(|most| *most < usize::MAX as u64);
        Self {
            rows: limits.rows,
            bytes: limits.bytes,
            window_rows: limits.window_rows,
            rows_in_window: limits.window_rows,
            dropped: 0,
            max_dropped,
            dropped_before_walk: 0,
            walk_began: None,
        }
    }

    /// Returns the number of dropped fragments so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn drop_some(&mut self, count: u64) {
        self.dropped += count;
    }

    /// Returns whether the page should end because of the tombstone limit, after `more` dropped
    /// fragments.
    pub(crate) fn has_dropped_enough(&mut self, more: u64) -> bool {
        let dropped = self.dropped + more;
        let walked = dropped.saturating_sub(self.dropped_before_walk);
        let Some(most) = self.max_dropped.filter(|_| dropped > 0) else { return false };
        if walked == 0 {
            return dropped >= most;
        }
        let began = *self.walk_began.get_or_insert_with(Instant::now);
        // The clock comes last, because this runs for each partition.
        let is_part = |part: u64, walks: u32| {
            walked >= (most / part).max(1) && began.elapsed() >= LONG_WALK * walks
        };
        dropped >= most || is_part(10, 1) || is_part(100, 2)
    }

    /// Ends the walk over dead rows at a returned row, before which `more` fragments were dropped.
    /// A page can end early only among dead rows at its end.
    fn end_walk(&mut self, more: u64) {
        self.dropped_before_walk = self.dropped + more;
        self.walk_began = None;
    }

    /// Subtracts a returned row. `dropped` fragments were dropped before this row and are not
    /// counted in `self.dropped` yet.
    #[inline]
    pub(super) fn take_row(&mut self, bytes: usize, dropped: u64) {
        self.rows -= 1;
        self.rows_in_window -= 1;
        if self.rows_in_window == 0 {
            self.rows_in_window = self.window_rows;
            if self.dropped + dropped > 0 {
                self.rows = 0;
            }
        }
        self.end_walk(dropped);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Subtracts the bytes of a partition's key and static row. A page counts them at the end of
    /// the partition.
    fn take_partition(&mut self, key: &DecoratedKey, static_row: Option<&Row>) {
        self.bytes = self.bytes.saturating_sub(partition_bytes(key, static_row));
    }

    /// Returns the number of dropped fragments at which the merge next checks the tombstone limit.
    /// In this partition, `so_far` were dropped.
    fn drops_to_look(&self, so_far: u64) -> u64 {
        self.max_dropped.map_or(u64::MAX, |most| {
            so_far + DROPS_BETWEEN_LOOKS.min(most.saturating_sub(self.dropped + so_far))
        })
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// The state of a partition of which an earlier page, or the walk in place, has read a part.
#[derive(Clone, Copy, Default)]
pub(crate) struct Resumed {
    /// True if rows of the partition were returned before, so that a static row alone does not
    /// count as a row.
    pub(crate) has_rows: bool,
    pub(crate) rows_of_partition: usize,
    /// True if the walk in place has read the beginning of the partition, with its static row.
    pub(crate) is_begun: bool,
}

impl Resumed {
    /// Returns the state at the position where an earlier read stopped.
    pub(super) fn at(position: &ReadPosition) -> Self {
        let rows_of_partition = position.rows_of_partition;
        Self { has_rows: rows_of_partition > 0, rows_of_partition, is_begun: false }
    }
}

/// Reads one partition from its streams, appends its rows to `result` in the form that the command
/// asks for, and subtracts them from `remaining`. Returns the position at which to resume if a
/// limit over all partitions was reached. `recorder` records empty ranges.
pub(crate) async fn read_partition(
    command: &ReadCommand,
    key: &DecoratedKey,
    sources: Vec<Source<'_>>,
    resumed: Resumed,
    remaining: &mut Remaining,
    recorder: &mut EmptyRangeRecorder<'_>,
    result: &mut ReadResult,
) -> Result<Option<ReadPosition>, StorageError> {
    let table = &command.table;
    let known = recorder.take_known();
    let merged = MergedPartition::of_visible_rows(table.clone(), command.direction, sources, known);
    let Some(mut merged) = merged.await? else {
        return Ok(None);
    };
    merged.drop_at_most(remaining.drops_to_look(0).min(recorder.left_to_walk()));
    if recorder.is_step() {
        merged.stop_at_markers();
    }
    let static_row = visible_static_row(merged.header(), command);
    if static_row.is_some() && !resumed.is_begun {
        recorder.meet_static_row(key);
    }
    let flat = command.flat.as_deref().map(|columns| (columns, &mut result.flat));
    let mut walk = RowWalk::new(command, key, resumed.rows_of_partition, flat);
    let stopped = walk.run(&mut merged, remaining, recorder).await?;
    let RowWalk { rows, rows_of_partition, expired, is_at_end, .. } = walk;
    let dropped = merged.dropped() + expired;
    let count = rows_of_partition - resumed.rows_of_partition;
    let ended = Ended { rows: count, dropped, stopped, is_at_end };
    let (has_result, stopped) =
        ended.finish(command, key, static_row.as_ref(), resumed, remaining, recorder);
    if has_result {
        if command.flat.is_some() {
            result.flat.end_partition(key, static_row);
        } else {
            result.partitions.push(PartitionRows { key: key.clone(), static_row, rows });
        }
    }
    Ok(stopped)
}

/// A partition from which a read takes no more rows.
pub(super) struct Ended {
    /// Rows that this read returns.
    pub(super) rows: usize,
    /// Dropped fragments that `remaining` does not count yet.
    pub(super) dropped: u64,
    /// The position at which a limit over all partitions was reached.
    pub(super) stopped: Option<ReadPosition>,
    pub(super) is_at_end: bool,
}

impl Ended {
    /// Records empty ranges, and counts dropped fragments and a static row without rows. Returns
    /// whether the partition has a result, and the position at which to resume if a limit over all
    /// partitions was reached.
    #[inline]
    pub(super) fn finish(
        mut self,
        command: &ReadCommand,
        key: &DecoratedKey,
        static_row: Option<&Row>,
        resumed: Resumed,
        remaining: &mut Remaining,
        recorder: &mut EmptyRangeRecorder<'_>,
    ) -> (bool, Option<ReadPosition>) {
        // A partition without a result counts as at least one dropped fragment.
        let is_nothing =
            self.rows == 0 && static_row.is_none() && !(resumed.is_begun && resumed.has_rows);
        if let Some(ReadPosition { clustering: Some(last), .. }) = &self.stopped {
            recorder.stop_behind(key, last);
        }
        if is_nothing {
            recorder.pass_empty(1, key, None);
        }
        recorder.leave(self.is_at_end);
        remaining.drop_some(self.dropped.max(is_nothing.into()));
        if self.rows > 0 {
            remaining.take_partition(key, static_row);
            if self.stopped.is_none() && remaining.is_used_up() {
                let (key, rows_of_partition) = (key.clone(), self.rows);
                self.stopped = Some(ReadPosition { key, clustering: None, rows_of_partition });
            }
            return (true, self.stopped);
        }
        // A partition with only static content counts as a row if the command selects the whole
        // partition, and only at the partition's end, because a later page may still find a row.
        let is_counted = command.slices.is_all() && !resumed.has_rows && self.stopped.is_none();
        let Some(static_row) = static_row.filter(|_| is_counted) else {
            return (false, self.stopped);
        };
        remaining.take_row(0, 0);
        remaining.take_partition(key, Some(static_row));
        if remaining.is_used_up() {
            let key = key.clone();
            self.stopped = Some(ReadPosition { key, clustering: None, rows_of_partition: 1 });
        }
        (true, self.stopped)
    }
}

/// A walk over the rows of a partition.
struct RowWalk<'a> {
    command: &'a ReadCommand,
    key: &'a DecoratedKey,
    /// The returned rows, if the command asks for objects.
    rows: Vec<Row>,
    /// The destination of the values of returned rows, if the command asks for flat rows.
    flat: Option<(&'a FlatColumns, &'a mut FlatRows)>,
    /// The clustering of the last flat row.
    last: Option<Clustering>,
    /// Number of returned rows of the partition, with those of earlier pages.
    rows_of_partition: usize,
    /// Dropped fragments that the walk has recorded.
    dropped: u64,
    expired: u64,
    is_at_end: bool,
}

impl<'a> RowWalk<'a> {
    #[inline]
    fn new(
        command: &'a ReadCommand,
        key: &'a DecoratedKey,
        rows_of_partition: usize,
        flat: Option<(&'a FlatColumns, &'a mut FlatRows)>,
    ) -> Self {
        let (rows, last, dropped, expired, is_at_end) = (Vec::new(), None, 0, 0, false);
        Self { command, key, rows, flat, last, rows_of_partition, dropped, expired, is_at_end }
    }

    fn push(&mut self, row: Row) {
        self.rows_of_partition += 1;
        match &mut self.flat {
            Some((columns, flat)) => {
                flat.push_row(columns, &row);
                self.last = Some(row.clustering);
            }
            None => self.rows.push(row),
        }
    }

    /// Collects live rows up to a limit or the end. Returns the position at which the next page
    /// resumes, if the partition is not over and a limit over all partitions was reached.
    #[inline]
    async fn run(
        &mut self,
        merged: &mut MergedPartition<Source<'_>>,
        remaining: &mut Remaining,
        recorder: &mut EmptyRangeRecorder<'_>,
    ) -> Result<Option<ReadPosition>, StorageError> {
        let (command, key) = (self.command, self.key);
        while self.rows_of_partition < command.limits.rows_per_partition {
            let fragment = merged.next().await?;
            let now_dropped = merged.dropped() + self.expired;
            if now_dropped > self.dropped {
                let last = self.rows.last().map_or(self.last.as_ref(), |row| Some(&row.clustering));
                recorder.pass_empty(now_dropped - self.dropped, key, last);
                self.dropped = now_dropped;
            }
            let Some(fragment) = fragment else {
                let place = merged.stopped_at();
                if place.is_some()
                    && !recorder.has_walked_enough()
                    && !remaining.has_dropped_enough(now_dropped)
                {
                    merged.drop_at_most(remaining.drops_to_look(now_dropped) - self.expired);
                    continue;
                }
                self.is_at_end = place.is_none();
                return Ok(place.map(|place| match place {
                    StoppedAt::Row(clustering) => self.stop_at(clustering),
                    StoppedAt::Marker(bound) => {
                        recorder.stop_at(key, &bound);
                        // Only a step of the prefetcher stops at markers. It continues at the place
                        // in its `EmptyRangeAccess`; this position names the partition only.
                        self.stop_at(Clustering::empty())
                    }
                }));
            };
            let Unfiltered::Row(mut row) = fragment else { continue };
            if !keep_live(&mut row, &command.table, &command.columns, command.now_s) {
                self.expired += 1;
                if recorder.has_walked_enough()
                    || remaining.has_dropped_enough(merged.dropped() + self.expired)
                {
                    return Ok(Some(self.stop_at(row.clustering)));
                }
                continue;
            }
            recorder.meet_row(key, &row.clustering);
            remaining.take_row(row.page_bytes(), now_dropped);
            let stop = remaining.is_used_up().then(|| row.clustering.clone());
            self.push(row);
            if let Some(clustering) = stop {
                return Ok(Some(self.stop_at(clustering)));
            }
        }
        Ok(None)
    }

    #[inline]
    fn stop_at(&self, clustering: Clustering) -> ReadPosition {
        let (key, clustering) = (self.key.clone(), Some(clustering));
        ReadPosition { key, clustering, rows_of_partition: self.rows_of_partition }
    }
}

/// Returns the static row, if some of it is visible.
#[inline]
pub(super) fn visible_static_row(header: &PartitionHeader, command: &ReadCommand) -> Option<Row> {
    let mut row = header.static_row.clone()?;
    keep_live(&mut row, &command.table, &command.columns, command.now_s).then_some(row)
}

/// Removes everything dead from a row, for a reader. Returns whether the row exists; if it does,
/// only the selected columns are left.
pub(crate) fn keep_live(
    row: &mut Row,
    table: &TableMetadata,
    selection: &ColumnSelection,
    now_s: u32,
) -> bool {
    purge_row(row, now_s, &mut |_, _| true);
    row.columns.retain(|(id, _)| table.column_by_id(*id).is_some());
    let exists = !row.liveness.is_none() || !row.columns.is_empty();
    if exists && let ColumnSelection::Only(_) = selection {
        row.columns.retain(|(id, _)| selection.contains(*id));
    }
    exists
}

#[cfg(test)]
mod tests {
    use espalier_runtime::{block_on, time::ManualClock};

    use super::*;

    #[test]
    fn a_page_ends_early_among_dead_rows_and_not_among_others() {
        let clock = ManualClock::new(0);
        let _installed = clock.install();
        block_on(async move {
            let limits = ReadLimits { tombstones: 10_000, ..ReadLimits::NONE };
            // A hundred rows, each behind ten dead ones and a millisecond after the previous one.
            let mut remaining = Remaining::of(&limits);
            for _ in 0..100 {
                assert!(!remaining.has_dropped_enough(10));
                clock.advance(LONG_WALK);
                assert!(!remaining.has_dropped_enough(10));
                remaining.end_walk(10);
                remaining.drop_some(10);
            }
            assert!(!remaining.has_dropped_enough(1));
            clock.advance(LONG_WALK);
            assert!(!remaining.has_dropped_enough(999));
            assert!(remaining.has_dropped_enough(1000));
            clock.advance(LONG_WALK);
            assert!(!remaining.has_dropped_enough(99));
            assert!(remaining.has_dropped_enough(100));
            // The number of dropped fragments is at its maximum.
            let mut remaining = Remaining::of(&limits);
            remaining.drop_some(9000);
            remaining.end_walk(999);
            assert!(!remaining.has_dropped_enough(999) && remaining.has_dropped_enough(1000));
        });
    }
}
