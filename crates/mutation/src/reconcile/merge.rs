//! Merges several streams of one partition, such as memtables, the row cache and SSTables.
//!
//! Each step moves all streams whose heads lie at the least position (the greatest in reverse).
//! Rows there are reconciled, and cleared of data that the deletions in force cover. A marker
//! changes the deletion that its stream has in force, and the merge returns a marker where the
//! strongest deletion of all streams changes. After a number of consecutive dropped fragments the
//! merge looks for a [`leap`](super::leap). Memory: one head for each stream.

use std::{cmp::Ordering, sync::Arc};

use super::{
    apply_deletion,
    leap::{DROPS_BEFORE_LEAP, KnownEmpty, Wanted},
    merge_rows,
    rows::{merge_counters, remove_deleted_counters},
};
use crate::{
    Clustering, ClusteringBound, DeletionTime, Direction, PartitionHeader, RangeTombstoneMarker,
    Row, Unfiltered, UnfilteredStream, schema::TableMetadata,
};

pub(super) struct Source<S> {
    pub(super) stream: S,
    pub(super) head: Option<Unfiltered>,
    /// The range deletion of this stream that is in force at the merge's position.
    pub(super) open: DeletionTime,
}

/// One reconciled partition, itself an [`UnfilteredStream`].
pub struct MergedPartition<S> {
    pub(super) header: PartitionHeader,
    pub(super) table: Arc<TableMetadata>,
    pub(super) direction: Direction,
    pub(super) wanted: Wanted,
    pub(super) sources: Vec<Source<S>>,
    pub(super) known_empty: Option<Box<dyn KnownEmpty>>,
    /// The number of steps that returned nothing, and of heads that a leap dropped.
    pub(super) dropped: u64,
    /// Once `dropped` reaches this, the merge ends at the next place at which it may end, and keeps
    /// the place in `stopped_at`.
    max_dropped: u64,
    /// True if the merge may end at a dropped marker, too.
    stops_at_markers: bool,
    stopped_at: Option<StoppedAt>,
    /// The strongest range deletion that the merge has open; live if the partition deletion covers
    /// it.
    open: DeletionTime,
}

/// The place at which a merge ended early.
#[derive(Clone, Debug)]
pub enum StoppedAt {
    /// The row that the merge dropped last.
    Row(Clustering),
    /// The position of the marker that the merge dropped last.
    Marker(ClusteringBound),
}

impl<S: UnfilteredStream> MergedPartition<S> {
    /// Merges streams of the same partition that were opened in `direction`. Reads the first
    /// fragment of each stream that the partition deletion does not cover. The result is `None` if
    /// there is no stream.
    ///
    /// # Errors
    ///
    /// Returns the error of a stream's first fragment.
    pub fn new(
        table: Arc<TableMetadata>,
        direction: Direction,
        streams: Vec<S>,
    ) -> impl Future<Output = Result<Option<Self>, S::Error>> {
        Self::open(table, direction, streams, Wanted::Everything, None)
    }

    /// Merges streams for a reader of visible rows.
    ///
    /// Returns no markers, and drops rows that hold only tombstones. Skips ranges that
    /// `known_empty` reports. The header is the same as that of [`Self::new`].
    ///
    /// # Errors
    ///
    /// Returns the error of a stream's first fragment.
    pub fn of_visible_rows(
        table: Arc<TableMetadata>,
        direction: Direction,
        streams: Vec<S>,
        known_empty: Option<Box<dyn KnownEmpty>>,
    ) -> impl Future<Output = Result<Option<Self>, S::Error>> {
        Self::open(table, direction, streams, Wanted::VisibleRows, known_empty)
    }

    /// Returns the number of fragments that the merge has dropped so far. Rows or markers of
    /// several streams at one position count once, unless a leap drops them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Makes the merge end at a dropped row once it has dropped `most` fragments; see
    /// [`Self::stopped_at`].
    pub fn drop_at_most(&mut self, most: u64) {
        self.max_dropped = most;
    }

    /// Makes the merge end at a dropped marker, too, once it has dropped as many fragments as
    /// [`Self::drop_at_most`] allows.
    pub fn stop_at_markers(&mut self) {
        self.stops_at_markers = true;
    }

    /// Returns the place at which the merge ended early, and forgets it. Call it when `next`
    /// returned `None`.
    ///
    /// Fragments behind the place were not returned. The next call of `next` continues there.
    pub fn stopped_at(&mut self) -> Option<StoppedAt> {
        self.stopped_at.take()
    }

    async fn open(
        table: Arc<TableMetadata>,
        direction: Direction,
        streams: Vec<S>,
        wanted: Wanted,
        known_empty: Option<Box<dyn KnownEmpty>>,
    ) -> Result<Option<Self>, S::Error> {
        let headers = streams.iter().map(UnfilteredStream::header);
        let Some(header) = merge_headers(&table, headers) else { return Ok(None) };
        let mut sources = Vec::with_capacity(streams.len());
        for mut stream in streams {
            let is_covered = wanted.is_covered(stream.maximum_timestamp(), header.deletion);
            let head = if is_covered { None } else { stream.next().await? };
            sources.push(Source { stream, head, open: DeletionTime::LIVE });
        }
        Ok(Some(Self {
            header,
            table,
            direction,
            wanted,
            sources,
            known_empty,
            dropped: 0,
            max_dropped: u64::MAX,
            stops_at_markers: false,
            stopped_at: None,
            open: DeletionTime::LIVE,
        }))
    }

    /// Returns the place of a source's head, if the merge may end there.
    fn stop_ahead(&self, source: usize) -> Option<StoppedAt> {
        match self.sources[source].head.as_ref()? {
            Unfiltered::Row(row) => Some(StoppedAt::Row(row.clustering.clone())),
            head if self.stops_at_markers => {
                Some(StoppedAt::Marker(self.bound_at(head.position())))
            }
            Unfiltered::Marker(_) => None,
        }
    }

    fn least_source(&self) -> Option<usize> {
        let mut least: Option<(usize, &Unfiltered)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(head) = &source.head else { continue };
            match least {
                Some((_, other)) if self.compare(head, other).is_ge() => {}
                _ => least = Some((index, head)),
            }
        }
        least.map(|(index, _)| index)
    }

    fn compare(&self, left: &Unfiltered, right: &Unfiltered) -> Ordering {
        self.order(left.position(), right.position())
    }

    /// Moves all sources that are at the position of source `least`.
    async fn step(&mut self, least: usize) -> Result<Option<Unfiltered>, S::Error> {
        let Some(first) = self.sources[least].head.take() else { return Ok(None) };
        let single = self.sources.len() == 1;
        self.sources[least].head = self.sources[least].stream.next().await?;
        match first {
            Unfiltered::Row(mut row) => {
                let active = self.header.deletion.max(self.open);
                if !single {
                    let is_counter = self.table.is_counter();
                    let mut counted = Vec::new();
                    let at = Unfiltered::Row(Row::empty(row.clustering.clone()));
                    for index in least + 1..self.sources.len() {
                        let same = matches!(&self.sources[index].head,
                            Some(head @ Unfiltered::Row(_)) if self.compare(head, &at).is_eq());
                        if !same {
                            continue;
                        }
                        if let Some(Unfiltered::Row(other)) = self.sources[index].head.take() {
                            if is_counter {
                                counted.push(other)
                            } else {
                                row = merge_rows(&self.table, row, other)
                            }
                        }
                        let source = &mut self.sources[index];
                        source.head = source.stream.next().await?;
                    }
                    if !counted.is_empty() {
                        row = merge_counters(&self.table, row, counted, active);
                    }
                }
                let is_kept = apply_deletion(&mut row, active) && !self.wanted.drops(&row);
                Ok(is_kept.then_some(Unfiltered::Row(row)))
            }
            Unfiltered::Marker(at) => {
                self.sources[least].open = at.deletion_behind(self.direction);
                let at = Unfiltered::Marker(at);
                for index in least + 1..self.sources.len() {
                    let same = matches!(&self.sources[index].head,
                        Some(head @ Unfiltered::Marker(_)) if self.compare(head, &at).is_eq());
                    if !same {
                        continue;
                    }
                    if let Some(Unfiltered::Marker(other)) = self.sources[index].head.take() {
                        self.sources[index].open = other.deletion_behind(self.direction);
                    }
                    let source = &mut self.sources[index];
                    source.head = source.stream.next().await?;
                }
                Ok(self.change_of_deletion(&at))
            }
        }
    }

    fn change_of_deletion(&mut self, at: &Unfiltered) -> Option<Unfiltered> {
        let previous = self.open;
        self.settle_open();
        if self.open == previous || self.wanted == Wanted::VisibleRows {
            return None;
        }
        let (before, after) = self.direction.order(previous, self.open);
        let marker = RangeTombstoneMarker::new(at.position(), before, after);
        Some(Unfiltered::Marker(marker))
    }

    /// Sets `open` to the strongest deletion of the streams, unless the partition deletion covers
    /// it.
    pub(super) fn settle_open(&mut self) {
        let deletions = self.sources.iter().map(|source| source.open);
        let strongest = deletions.fold(DeletionTime::LIVE, DeletionTime::max);
        self.open = if strongest.supersedes(&self.header.deletion) {
            strongest
        } else {
            DeletionTime::LIVE
        };
    }
}

/// Merges the headers of a partition's streams; returns `None` if there is none.
pub fn merge_headers<'a>(
    table: &TableMetadata,
    headers: impl Iterator<Item = &'a PartitionHeader> + Clone,
) -> Option<PartitionHeader> {
    let key = headers.clone().next()?.key.clone();
    let deletions = headers.clone().map(|header| header.deletion);
    let deletion = deletions.fold(DeletionTime::LIVE, DeletionTime::max);
    let mut static_row: Option<Row> = None;
    for mut row in headers.filter_map(|header| header.static_row.clone()) {
        remove_deleted_counters(table, &mut row, deletion);
        static_row = Some(match static_row {
            Some(merged) => merge_rows(table, merged, row),
            None => row,
        });
    }
    let static_row =
        static_row.and_then(|mut row| apply_deletion(&mut row, deletion).then_some(row));
    Some(PartitionHeader { key, deletion, static_row })
}

impl<S: UnfilteredStream> UnfilteredStream for MergedPartition<S> {
    type Error = S::Error;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, S::Error> {
        let mut dropped = 0;
        while let Some(least) = self.least_source() {
            let may_stop = self.dropped >= self.max_dropped;
            let place = may_stop.then(|| self.stop_ahead(least)).flatten();
            if let Some(merged) = self.step(least).await? {
                return Ok(Some(merged));
            }
            dropped += 1;
            self.dropped += 1;
            if place.is_some() {
                self.stopped_at = place;
                return Ok(None);
            }
            if dropped == DROPS_BEFORE_LEAP {
                dropped = 0;
                // A leap is rare and its future large; the box keeps the future of each step small.
                Box::pin(self.leap()).await?;
            }
        }
        Ok(None)
    }

    /// Makes the sources that are before a position skip to it. Their heads are returned
    /// nevertheless.
    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), S::Error> {
        for index in 0..self.sources.len() {
            let head = self.sources[index].head.as_ref();
            let is_before =
                head.is_some_and(|head| self.order(head.position(), position.position()).is_lt());
            if is_before {
                self.sources[index].stream.skip_to(position).await?;
            }
        }
        Ok(())
    }
}
