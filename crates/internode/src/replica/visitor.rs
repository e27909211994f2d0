//! Turns the partitions that storage shows into those of the answer; [`super`] lists the steps.

use std::sync::Arc;

use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ColumnData, DeletionTime, Direction, PartitionHeader,
    RangeTombstoneMarker, Row, Unfiltered,
};
use espalier_runtime::time::Instant;
use espalier_storage::{FragmentVisitor, Visit};

use super::{
    AnswerBytes, ReadAnswer, ReadFailure, ReadTerms,
    columns::FetchedColumnSet,
    conditions::Conditions,
    limits::{Limits, Taken},
    output::{Head, Output, columns_of},
    purge::Purge,
    tombstones::Tombstones,
};
use crate::{
    message::{Parameter, ParameterKind},
    payload::{
        ClusteringFilter, ColumnList, FailureReason, ReadCommand, ReadResponse, SelectedRows,
        Selection, columns::named,
    },
};

/// Number of fragments after which the read checks the clock again. Arbitrary.
const FRAGMENTS_BETWEEN_LOOKS: u32 = 256;
/// Bytes that a row or a marker, and a cell, take in memory besides their values; estimates.
const ROW_BYTES: usize = 160;
const CELL_BYTES: usize = 96;
/// Bytes that a partition takes in memory besides its key, deletion and rows; an estimate.
const PARTITION_BYTES: usize = 400;

/// A read under way.
pub(super) struct ReplicaRead {
    command: Arc<ReadCommand>,
    direction: Direction,
    selected_by_filter: SelectedKind,
    selected: SelectedKind,
    statics: FetchedColumnSet,
    regulars: FetchedColumnSet,
    purge: Purge,
    tombstones: Tombstones,
    conditions: Conditions,
    limits: Limits,
    output: Output,
    bytes: AnswerBytes,
    /// The memory of the partitions that have ended.
    kept_bytes: usize,
    current: Option<Current>,
    failure: Option<ReadFailure>,
    deadline: Instant,
    tracks_warnings: bool,
    tracks_repaired: bool,
    until_look: u32,
}

/// The rows and columns that the command selects in each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectedKind {
    Rows,
    /// No rows, but the answer lists all fetched columns.
    NoRows,
    /// No rows, and the answer lists only the columns of the static row.
    NoColumns,
}

/// The partition that storage shows.
struct Current {
    head: Head,
    /// True once the partition was added to the answer.
    is_shown: bool,
    /// The last marker of the answer, until a row or another marker follows.
    held: Option<RangeTombstoneMarker>,
    /// The range deletion in force after the last marker of the answer.
    open: DeletionTime,
    last_row: Option<Clustering>,
    bytes: usize,
}

impl ReplicaRead {
    pub fn new(command: Arc<ReadCommand>, terms: ReadTerms) -> Result<Self, ReadFailure> {
        let table = &command.table;
        let filter = match &command.selection {
            Selection::Partition { filter, .. } => filter,
            Selection::Range(range) => &range.filter,
        };
        let (statics, regulars) = FetchedColumnSet::of(table, &command.columns);
        let conditions =
            Conditions::new(table, &command.filter, command.now_s, command.needs_reconciliation)?;
        let counts_statics = selects_whole(filter) && !conditions.concern_rows();
        Ok(Self {
            direction: filter.direction(),
            selected_by_filter: selected_kind(&command, filter),
            selected: SelectedKind::Rows,
            statics,
            regulars,
            purge: Purge::new(table, command.now_s),
            tombstones: Tombstones::new(command.now_s, terms.tombstones),
            conditions,
            limits: Limits::new(table, &command.limits, command.now_s, counts_statics),
            output: Output::new(&command),
            bytes: terms.budget.answer(),
            kept_bytes: 0,
            current: None,
            failure: None,
            deadline: terms.deadline,
            tracks_warnings: terms.tracks_warnings,
            tracks_repaired: terms.tracks_repaired,
            until_look: FRAGMENTS_BETWEEN_LOOKS,
            command,
        })
    }

    /// Sets whether the next part of the read selects rows. It selects none if the page begins
    /// after the last row of a partition.
    pub fn select_rows(&mut self, has_rows: bool) {
        self.selected = match self.selected_by_filter {
            SelectedKind::Rows if !has_rows => SelectedKind::NoColumns,
            kind => kind,
        };
    }

    /// Returns whether the answer is complete.
    pub fn is_over(&self) -> bool {
        self.failure.is_some() || self.limits.are_reached()
    }

    /// Returns the answer. Yields between rows.
    pub async fn finish(self) -> Result<ReadAnswer, ReadFailure> {
        let Self { command, output, failure, tombstones, tracks_warnings, mut bytes, .. } = self;
        let is_conclusive = !self.tracks_repaired;
        let mut parameters = Vec::new();
        let parameter =
            |kind, count: u64| Parameter::of_i32(kind, i32::try_from(count).unwrap_or(i32::MAX));
        match failure {
            None => {}
            Some(ReadFailure::Refused(FailureReason::ReadTooManyTombstones, _))
                if tracks_warnings =>
            {
                let count = tombstones.too_many().unwrap_or_default();
                parameters.push(parameter(ParameterKind::TombstoneFail, count));
                let response = Output::new(&command).finish(&command, is_conclusive).await?;
                let many_tombstones = Some(count);
                return Ok(ReadAnswer { response, parameters, many_tombstones, bytes });
            }
            Some(failure) => return Err(failure),
        }
        let many_tombstones = tombstones.many();
        if let Some(count) = many_tombstones.filter(|_| tracks_warnings) {
            parameters.push(parameter(ParameterKind::TombstoneWarning, count));
        }
        let response = output.finish(&command, is_conclusive).await?;
        if let ReadResponse::Data { data, .. } = &response {
            let counted = bytes.set(data.len());
            counted.map_err(|text| ReadFailure::Refused(FailureReason::ReadSize, text.into()))?;
        }
        Ok(ReadAnswer { response, parameters, many_tombstones, bytes })
    }

    fn fail(&mut self, failure: ReadFailure) -> Visit {
        self.failure.get_or_insert(failure);
        Visit::End
    }

    /// Checks the number of tombstones.
    fn check(&self) -> Result<(), ReadFailure> {
        if let Some(count) = self.tombstones.too_many() {
            let text = format!("the read met {count} tombstones (see tombstone_failure_threshold)");
            return Err(ReadFailure::Refused(FailureReason::ReadTooManyTombstones, text));
        }
        Ok(())
    }

    /// Counts a fragment that storage shows, and checks the clock from time to time. Fragments that
    /// the answer leaves out count, too.
    fn look(&mut self) -> Result<(), ReadFailure> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = FRAGMENTS_BETWEEN_LOOKS;
            if Instant::now() >= self.deadline {
                return Err(ReadFailure::Expired);
            }
        }
        Ok(())
    }

    /// Returns the static row of the answer.
    fn static_row(&self, header: &PartitionHeader) -> Option<(ColumnList, Row)> {
        if self.statics.is_empty() {
            return None;
        }
        let mut row = header.static_row.clone()?;
        let table = &self.command.table;
        if !self.statics.cut(table, &mut row) {
            return None;
        }
        let columns = match self.selected {
            SelectedKind::NoColumns => columns_of(table, &row),
            _ => self.command.columns.fetched().map(|(statics, _)| statics.clone())?,
        };
        self.purge.row(&mut row).then_some((columns, row))
    }

    /// Adds the current partition to the answer.
    fn show(&mut self, current: &mut Current) {
        current.is_shown = true;
        let head = &mut current.head;
        let static_row = head.static_row.as_ref().map(|(_, row)| row);
        if self.limits.begin(&head.key, static_row) == Taken::No {
            head.static_row = None;
        }
        current.bytes += head.static_row.as_ref().map_or(0, |(_, row)| bytes_of(row));
        self.output.begin(head, self.direction == Direction::Reverse);
    }

    fn add(&mut self, current: &mut Current, fragment: Unfiltered) -> Result<(), ReadFailure> {
        if let Some(held) = current.held.take() {
            self.output.take(Unfiltered::Marker(held), &current.head);
        }
        match fragment {
            Unfiltered::Row(row) => {
                current.last_row = Some(row.clustering.clone());
                current.bytes += bytes_of(&row);
                self.output.take(Unfiltered::Row(row), &current.head);
            }
            Unfiltered::Marker(marker) => {
                current.open = marker.deletion_behind(self.direction);
                current.bytes += ROW_BYTES;
                current.held = Some(marker);
            }
        }
        if self.output.keeps_fragments() {
            self.count_bytes(self.kept_bytes + current.bytes)?;
        }
        Ok(())
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), ReadFailure> {
        let counted = self.bytes.set(bytes);
        counted.map_err(|text| ReadFailure::Refused(FailureReason::ReadSize, text.into()))
    }

    fn take_row(&mut self, current: &mut Current, mut row: Row) -> Result<Visit, ReadFailure> {
        let command = Arc::clone(&self.command);
        let table = &command.table;
        if !self.regulars.cut(table, &mut row) || !self.purge.row(&mut row) {
            return Ok(Visit::Continue);
        }
        self.tombstones.add_row(&row);
        self.check()?;
        // If there are conditions on rows, the partition belongs to the answer only if a row meets
        // them. The conditions on the partition were tested at its head.
        if !current.is_shown && !self.conditions.concern_rows() {
            self.show(current);
        }
        if !self.conditions.hold_for_row(table, &row) {
            return Ok(if current.is_shown { self.behind_limit() } else { Visit::Continue });
        }
        // The first fragment of a partition belongs to the answer even if the partition's limits
        // are reached: Cassandra takes the fragment before it checks the limits.
        if !current.is_shown {
            self.show(current);
        }
        if self.limits.take(&row) == Taken::Yes {
            self.add(current, Unfiltered::Row(row))?;
        }
        Ok(self.behind_limit())
    }

    fn take_marker(
        &mut self,
        current: &mut Current,
        marker: RangeTombstoneMarker,
    ) -> Result<Visit, ReadFailure> {
        let Some(marker) = self.purge.marker(marker) else { return Ok(Visit::Continue) };
        self.tombstones.add_marker();
        self.check()?;
        if !current.is_shown {
            self.show(current);
        }
        self.add(current, Unfiltered::Marker(marker))?;
        Ok(self.behind_limit())
    }

    fn behind_limit(&self) -> Visit {
        if self.limits.are_reached() {
            Visit::End
        } else if self.limits.are_reached_here() {
            Visit::NextPartition
        } else {
            Visit::Continue
        }
    }

    fn finish_partition(&mut self, mut current: Current) -> Result<(), ReadFailure> {
        // A limit may have ended the partition within a range deletion.
        let marker = match current.held.take() {
            Some(held) if current.open.is_live() => Some(held),
            Some(held) => without_opening(held, self.direction),
            None if current.open.is_live() => None,
            None => {
                let row = current.last_row.take();
                row.map(|row| closing_marker(row, current.open, self.direction))
            }
        };
        if let Some(marker) = marker {
            self.output.take(Unfiltered::Marker(marker), &current.head);
        }
        self.limits.end();
        if self.output.keeps_fragments() {
            self.kept_bytes += PARTITION_BYTES + current.head.key.len() + current.bytes;
        }
        self.output.end(current.head, self.direction == Direction::Reverse);
        self.count_bytes(self.kept_bytes)
    }
}

impl FragmentVisitor for ReplicaRead {
    fn begin(&mut self, header: &PartitionHeader) -> Visit {
        if let Err(failure) = self.look().and_then(|()| self.check()) {
            return self.fail(failure);
        }
        let command = Arc::clone(&self.command);
        let static_row = self.static_row(header);
        if let Some((_, row)) = &static_row {
            self.tombstones.add_row(row);
        }
        let (key, row) = (header.key.key.clone(), static_row.as_ref().map(|(_, row)| row));
        if !self.conditions.hold_for_partition(&command.table, &key, row) {
            return Visit::NextPartition;
        }
        let regulars = match self.selected {
            SelectedKind::NoColumns => ColumnList::default(),
            _ => command.columns.fetched().map(|(_, list)| list.clone()).unwrap_or_default(),
        };
        let deletion = self.purge.deletion(header.deletion);
        let has_content = static_row.is_some() || !deletion.is_live();
        let head = Head { key, deletion, static_row, regulars };
        let mut current = Current {
            head,
            is_shown: false,
            held: None,
            open: DeletionTime::LIVE,
            last_row: None,
            bytes: 0,
        };
        let mut wanted = Visit::Continue;
        if has_content && !self.conditions.concern_rows() {
            self.show(&mut current);
            wanted = self.behind_limit();
        }
        self.current = Some(current);
        let selects_rows = self.selected == SelectedKind::Rows;
        if wanted == Visit::Continue && !selects_rows { Visit::NextPartition } else { wanted }
    }

    fn take(&mut self, fragment: Unfiltered) -> Visit {
        if let Err(failure) = self.look() {
            return self.fail(failure);
        }
        let Some(mut current) = self.current.take() else { return Visit::NextPartition };
        let taken = match fragment {
            Unfiltered::Row(row) => self.take_row(&mut current, row),
            Unfiltered::Marker(marker) => self.take_marker(&mut current, marker),
        };
        self.current = Some(current);
        taken.unwrap_or_else(|failure| self.fail(failure))
    }

    fn end(&mut self) -> Visit {
        let Some(current) = self.current.take() else { return Visit::Continue };
        if self.failure.is_some() || !current.is_shown {
            return Visit::Continue;
        }
        match self.finish_partition(current) {
            Ok(()) if self.limits.are_reached() => Visit::End,
            Ok(()) => Visit::Continue,
            Err(failure) => self.fail(failure),
        }
    }
}

/// Returns the marker that ends a range deletion after the last row of the answer.
fn closing_marker(
    row: Clustering,
    open: DeletionTime,
    direction: Direction,
) -> RangeTombstoneMarker {
    let kind = direction.order(BoundKind::InclusiveEnd, BoundKind::InclusiveStart).0;
    let bound = ClusteringBound { kind, values: row.values };
    RangeTombstoneMarker::of_change(bound, open, DeletionTime::LIVE, direction)
}

/// Returns the part of the last marker that ends a range deletion. The deletion that the marker
/// begins covers nothing of the answer.
fn without_opening(
    marker: RangeTombstoneMarker,
    direction: Direction,
) -> Option<RangeTombstoneMarker> {
    let ended = direction.order(marker.before, marker.after).0;
    let (before, after) = direction.order(ended, DeletionTime::LIVE);
    (!ended.is_live()).then(|| marker.with_deletions(before, after))
}

/// Returns whether a filter selects all rows of a partition. An empty list of names selects the
/// static row, and counts as all rows.
fn selects_whole(filter: &ClusteringFilter) -> bool {
    match &filter.rows {
        SelectedRows::Slices(slices) => {
            matches!(&slices[..], [one] if one.start.is_unbounded() && one.end.is_unbounded())
        }
        SelectedRows::Names(names) => names.is_empty(),
    }
}

/// Returns the selected rows and columns. They depend on the way in which Cassandra would read.
fn selected_kind(command: &ReadCommand, filter: &ClusteringFilter) -> SelectedKind {
    match &filter.rows {
        SelectedRows::Slices(slices) if slices.is_empty() => SelectedKind::NoColumns,
        SelectedRows::Names(names) if names.is_empty() => {
            if let Selection::Range(_) = &command.selection {
                return SelectedKind::NoColumns;
            }
            let table = &command.table;
            let queried = command.columns.queried.as_ref().or(command.columns.fetched());
            let mut names = queried
                .into_iter()
                .flat_map(|(statics, regulars)| statics.names().iter().chain(regulars.names()));
            let is_complex =
                |name: &bytes::Bytes| named(table, name).is_some_and(|column| column.is_complex());
            if names.any(is_complex) { SelectedKind::NoColumns } else { SelectedKind::NoRows }
        }
        _ => SelectedKind::Rows,
    }
}

/// Returns the bytes that a row takes in memory; an estimate.
fn bytes_of(row: &Row) -> usize {
    let clustering: usize = row.clustering.values.iter().flatten().map(bytes::Bytes::len).sum();
    let columns = row.columns.iter().map(|(_, data)| match data {
        ColumnData::Simple(cell) => CELL_BYTES + cell.value.len(),
        ColumnData::Complex(column) => {
            let cells = column.cells.iter();
            let cells = cells.map(|(path, cell)| CELL_BYTES + path.len() + cell.value.len());
            CELL_BYTES + cells.sum::<usize>()
        }
    });
    ROW_BYTES + clustering + columns.sum::<usize>()
}
