//! Reads a partition of a scan in place: rows of the only source that has the partition go into
//! flat rows without becoming objects, and rows that are not visible leave nothing.
//!
//! The walk in place covers the rows up to the first one that it does not handle: a marker of a
//! range deletion, a row of a file with several cells in a column, or a row behind [`MAX_DROPPED`]
//! invisible rows. The merge reads the rest, as it reads partitions of several sources. Traced
//! reads are merged, too, because the trace counts fragments.
//!
//! Memory bound: that of the merge.

use std::ops::ControlFlow;

use espalier_memtable::{MemtableError, RowsWalked, StoredRow};
use espalier_mutation::{
    Clustering, DecoratedKey, DeletionTime, PartitionHeader, Row, RowContent, UnfilteredStream,
    Visibility, reconcile::merge_headers,
};
use espalier_runtime::{maybe_yield, trace};
use espalier_sstable::{Ahead, RawRow};
use espalier_types::collection::write_value;
use smallvec::SmallVec;

use super::{
    partition::{Ended, Remaining, Resumed, read_partition, visible_static_row},
    source::{FileSource, Source},
};
use crate::{
    FlatColumns, FlatRows, ReadCommand, ReadPosition, ReadResult, StorageError,
    empty_ranges::EmptyRangeRecorder,
};

/// Maximum rows between two yields: some microseconds.
const ROWS_AT_ONCE: usize = 128;
/// Bytes of values after which the walk yields before [`ROWS_AT_ONCE`] rows. Arbitrary: some
/// microseconds to copy them.
const BYTES_AT_ONCE: usize = 32 * 1024;
/// Invisible rows in sequence after which the merge continues, because the merge can skip whole
/// ranges of them.
const MAX_DROPPED: u32 = 16;

/// The values of a row, by their index in [`FlatColumns::regular`].
type Values<'r> = SmallVec<[Option<&'r [u8]>; 8]>;

/// Reads one partition from its streams into flat rows, as [`read_partition`] does, in place as far
/// as possible. The caller must not have waited since it opened a memtable's partition in place.
pub(super) async fn read_in_place(
    command: &ReadCommand,
    key: &DecoratedKey,
    mut sources: Vec<Source<'_>>,
    mut resumed: Resumed,
    remaining: &mut Remaining,
    recorder: &mut EmptyRangeRecorder<'_>,
    result: &mut ReadResult,
) -> Result<Option<ReadPosition>, StorageError> {
    // Earlier pages may have returned all rows that the limit for one partition allows.
    if resumed.rows_of_partition < command.limits.rows_per_partition
        && let [source] = sources.as_mut_slice()
        && let Some(columns) = &command.flat
        && let Some(above) = deletion_in_place(source)
    {
        let header = source_header(command, source);
        let static_row = header.and_then(|header| visible_static_row(&header, command));
        if static_row.is_some() {
            recorder.meet_static_row(key);
        }
        let mut walk = Walk {
            command,
            key,
            above,
            resumed,
            columns,
            remaining: &mut *remaining,
            flat: &mut result.flat,
            recorder: &mut *recorder,
            rows: resumed.rows_of_partition,
            batch_end: 0,
            dropped: 0,
            dropped_in_sequence: 0,
            stopped: None,
        };
        let end = walk.run(source).await;
        walk.flat.drop_unfinished();
        let (rows, dropped) = (walk.rows, walk.dropped);
        let end = end?;
        if let End::Merge = end {
            walk.remaining.drop_some(dropped);
            if rows > resumed.rows_of_partition {
                walk.flat.end_partition(key, static_row);
            }
            resumed = Resumed { has_rows: rows > 0, rows_of_partition: rows, is_begun: true };
        } else {
            return Ok(walk.finish(static_row, end));
        }
    }
    read_partition(command, key, sources, resumed, remaining, recorder, result).await
}

/// Returns the partition deletion of a source whose rows can be read in place, and `None` for other
/// sources. The merge reads a partition that its deletion covers as a whole.
fn deletion_in_place(source: &Source<'_>) -> Option<DeletionTime> {
    let is_possible = match source {
        Source::Memtable(_) | Source::File(FileSource::Scanned(_)) => !trace::is_on(),
        _ => false,
    };
    let deletion = source.header().deletion;
    (is_possible && !deletion.deletes(source.maximum_timestamp())).then_some(deletion)
}

/// Returns the source's header, with the partition deletion applied to the static row; `None`
/// without a static row.
fn source_header(command: &ReadCommand, source: &Source<'_>) -> Option<PartitionHeader> {
    let header = source.header();
    header.static_row.as_ref()?;
    merge_headers(&command.table, std::iter::once(header))
}

/// The reason why a walk in place ended.
enum End {
    /// The partition is at its end.
    Partition,
    /// The limit of rows of one partition was reached.
    RowsPerPartition,
    /// A limit over all partitions was reached behind this row.
    Limit(Clustering),
    /// The merge continues.
    Merge,
}

struct Walk<'a, 'r> {
    command: &'a ReadCommand,
    key: &'a DecoratedKey,
    above: DeletionTime,
    resumed: Resumed,
    columns: &'a FlatColumns,
    remaining: &'a mut Remaining,
    flat: &'a mut FlatRows,
    recorder: &'a mut EmptyRangeRecorder<'r>,
    /// Rows returned of the partition, with those of earlier pages.
    rows: usize,
    /// The length of the values at which the present batch ends.
    batch_end: usize,
    dropped: u64,
    dropped_in_sequence: u32,
    /// The clustering of the row at which a limit was reached.
    stopped: Option<Clustering>,
}

impl Walk<'_, '_> {
    async fn run(&mut self, source: &mut Source<'_>) -> Result<End, StorageError> {
        loop {
            self.batch_end = self.flat.values.len() + BYTES_AT_ONCE;
            let step = match source {
                Source::Memtable(partition) => {
                    let mut take = |row: &StoredRow<'_>| self.take_stored(row);
                    match partition.walk_rows(ROWS_AT_ONCE, &mut take)? {
                        RowsWalked::More => None,
                        RowsWalked::Stopped => self.why_stopped(),
                        RowsWalked::Other => Some(End::Merge),
                        RowsWalked::End => Some(End::Partition),
                    }
                }
                Source::File(FileSource::Scanned(partition)) => {
                    // A deleted liveness does not show that the row exists.
                    let reads_all = !self.above.is_live();
                    let mut take = |row: &RawRow<'_>| self.take_raw(row);
                    match partition.walk_rows(ROWS_AT_ONCE, reads_all, &mut take) {
                        Some(ControlFlow::Continue(())) => None,
                        Some(ControlFlow::Break(())) => self.why_stopped(),
                        None => match partition.look().await? {
                            Ahead::Raw => None,
                            Ahead::Other => Some(End::Merge),
                            Ahead::End => Some(End::Partition),
                        },
                    }
                }
                _ => Some(End::Merge),
            };
            if let Some(end) = step {
                return Ok(end);
            }
            maybe_yield().await;
        }
    }

    /// Returns why the walk ended at a row; `None` if only the batch ended there.
    fn why_stopped(&mut self) -> Option<End> {
        match self.stopped.take() {
            Some(clustering) => Some(End::Limit(clustering)),
            None if self.dropped_in_sequence >= MAX_DROPPED => Some(End::Merge),
            None if self.rows >= self.command.limits.rows_per_partition => {
                Some(End::RowsPerPartition)
            }
            None => None,
        }
    }

    #[inline]
    fn take_stored(&mut self, row: &StoredRow<'_>) -> Result<ControlFlow<()>, MemtableError> {
        let (command, packed) = (self.command, &row.packed);
        let table = &command.table;
        let visibility = Visibility::of_packed(packed, self.above, command.now_s);
        let mut values: Values<'_> = SmallVec::from_elem(None, self.columns.regular().len());
        // A row that exists by its liveness needs no look at its cells, if no value is wanted.
        let exists = values.is_empty() && visibility.shows_liveness(&packed.liveness) || {
            let is_known = |id| table.column_by_id(id).is_some();
            let exists = visibility.visible_packed_cells(packed, is_known, |id, cell| {
                self.columns.put(id, cell.value, &mut values);
            });
            exists.map_err(|error| MemtableError::corrupt(table, &error))?
        };
        if !exists {
            return self.drop_row(|| row.clustering(table));
        }
        let start = self.flat.values.len();
        if self.columns.clustering() > 0 {
            row.append_clustering(table, &mut self.flat.values)?;
        }
        self.end_row(start, &values, || row.clustering(table))
    }

    #[inline]
    fn take_raw(&mut self, row: &RawRow<'_>) -> ControlFlow<()> {
        if row.is_empty() {
            return ControlFlow::Continue(()); // All its cells belong to dropped columns.
        }
        let command = self.command;
        let visibility = Visibility::new(row, self.above, command.now_s);
        let mut values: Values<'_> = SmallVec::from_elem(None, self.columns.regular().len());
        let exists = values.is_empty() && visibility.shows_liveness(&row.liveness()) || {
            let is_known = |id| command.table.column_by_id(id).is_some();
            visibility.visible_cells(row, is_known, |id, cell| {
                self.columns.put(id, cell.value, &mut values);
            })
        };
        let clustering = || Ok::<_, std::convert::Infallible>(row.owned_clustering());
        let flow = if exists {
            let start = self.flat.values.len();
            if self.columns.clustering() > 0 {
                let values = row.clustering();
                values.for_each(|value| write_value(value, &mut self.flat.values));
            }
            self.end_row(start, &values, clustering)
        } else {
            self.drop_row(clustering)
        };
        let Ok(flow) = flow;
        flow
    }

    /// Appends the values of the visible row whose clustering was appended from `start` on.
    #[inline]
    fn end_row<E>(
        &mut self,
        start: usize,
        values: &Values<'_>,
        clustering: impl Fn() -> Result<Clustering, E>,
    ) -> Result<ControlFlow<()>, E> {
        values.iter().for_each(|value| write_value(*value, &mut self.flat.values));
        if self.recorder.is_in_run() {
            self.recorder.meet_row(self.key, &clustering()?);
        } else {
            self.recorder.pass_row();
        }
        self.flat.end_row();
        self.rows += 1;
        self.dropped_in_sequence = 0;
        self.remaining.take_row(self.flat.values.len() - start, self.dropped);
        if self.remaining.is_used_up() {
            self.stopped = Some(clustering()?);
            return Ok(ControlFlow::Break(()));
        }
        let is_over = self.rows >= self.command.limits.rows_per_partition
            || self.flat.values.len() >= self.batch_end;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    #[cold]
    fn drop_row<E>(
        &mut self,
        clustering: impl Fn() -> Result<Clustering, E>,
    ) -> Result<ControlFlow<()>, E> {
        self.dropped += 1;
        self.dropped_in_sequence += 1;
        // The place behind the last visible row is not known. A run of invisible rows behind it is
        // recorded by the next read that is not in place.
        self.recorder.pass_empty(1, self.key, None);
        if self.remaining.has_dropped_enough(self.dropped) {
            self.stopped = Some(clustering()?);
            return Ok(ControlFlow::Break(()));
        }
        let is_over = self.dropped_in_sequence >= MAX_DROPPED;
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Ends a partition that the walk has read.
    fn finish(self, static_row: Option<Row>, end: End) -> Option<ReadPosition> {
        let Walk { command, key, resumed, remaining, flat, recorder, rows, dropped, .. } = self;
        let is_at_end = matches!(end, End::Partition);
        let stopped = match end {
            End::Limit(clustering) => Some(ReadPosition {
                key: key.clone(),
                clustering: Some(clustering),
                rows_of_partition: rows,
            }),
            _ => None,
        };
        let ended = Ended { rows: rows - resumed.rows_of_partition, dropped, stopped, is_at_end };
        let static_content = static_row.as_ref();
        let (has_result, stopped) =
            ended.finish(command, key, static_content, resumed, remaining, recorder);
        if has_result {
            flat.end_partition(key, static_row);
        }
        stopped
    }
}
