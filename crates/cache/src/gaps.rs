//! Reads the gaps of the cache from files, and fills them.
//!
//! One call reads a part of a gap: until the gap ends, the buffer is full or other tasks should
//! have their turn. The read returns the rows of the gap whether or not they are added to the
//! cache.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringBound, ClusteringComparator, ClusteringSlices, DeletionTime, Direction,
    PartitionHeader, Unfiltered, UnfilteredStream, path,
};
use espalier_runtime::{maybe_yield, should_yield, trace, trace_event};

use crate::{
    CacheError, CacheView,
    disk::{Disk, Gap},
    partition::{CachedPartition, MAX_FILL, Range},
    place::{are_adjacent, is_behind, is_row},
    populate::Filler,
};

/// The progress of a fill of a gap.
enum Outcome {
    /// The fill reached the end of the gap; the entry there, if there is one, is not buffered yet.
    Over(Gap),
    /// The fill reached the end of the gap and has buffered the row there.
    Given,
    /// The buffer is full, or the task must yield; the rest of the gap follows.
    More(Gap),
}

/// Returns the parts of the slices behind a bound in the direction of a read. There may be very
/// many slices, so the task may yield after each.
pub async fn slices_behind(
    slices: &ClusteringSlices,
    comparator: &ClusteringComparator,
    reached: &ClusteringBound,
    direction: Direction,
) -> ClusteringSlices {
    let mut behind = Vec::new();
    for slice in &slices.slices {
        behind.extend(slice.behind(comparator, reached, direction));
        maybe_yield().await;
    }
    ClusteringSlices { slices: behind }
}

impl<V: CacheView> CachedPartition<V> {
    /// Opens the partition in the files, because the cache has no header of it or the read's ticket
    /// is invalid. Returns `None` if no file has the partition.
    pub(super) async fn open_whole(&mut self) -> Result<Option<PartitionHeader>, V::Error> {
        let disk = Disk::open(&self.view, &self.header.key, &self.slices).await?;
        let header = disk.stream.as_ref().map(|stream| stream.header().clone());
        self.disk = Some(disk);
        if self.access.may_add() {
            self.access.cache.add_header(&self.prefix, header.as_ref());
            if header.is_none() {
                let comparator = self.view.table().comparator();
                for slice in &self.slices.slices {
                    let (mut low, mut high) = (Vec::new(), Vec::new());
                    path::put_bound(comparator, &slice.start, &mut low);
                    path::put_bound(comparator, &slice.end, &mut high);
                    let filler = Filler { direction: Direction::Forward, ..self.filler() };
                    filler.add_range(&low, &high, DeletionTime::LIVE).await;
                    maybe_yield().await;
                }
            }
        }
        Ok(header)
    }

    /// Reads the next part of the gap into the buffer, and adds it to the cache.
    pub(super) async fn read_gap(&mut self) -> Result<(), V::Error> {
        let (Some(gap), Some(mut range)) = (self.gap.take(), self.range.take()) else {
            return Ok(());
        };
        let wanted = self.fill.next.saturating_sub(1).max(1);
        self.fill.next = (self.fill.next * 4).min(MAX_FILL);
        self.fill.bytes = 0;
        let direction = self.view.direction();
        let position = self.bound_at(&range.at)?;
        let mut disk = match self.disk.take() {
            Some(disk) => disk,
            None => self.open_rest(&position).await?,
        };
        disk.skip_to(&position, &position_path(&range.at, direction), direction).await?;
        let outcome = loop {
            let is_at_end = match disk.look(self.view.table().comparator()).await? {
                None => true,
                Some(place)
                    if !is_behind(direction, place, &range.at)
                        || is_row(&range.at) && are_adjacent(&range.at, place) =>
                {
                    // A marker before the gap or at its start changes the deletion in force; a row
                    // there was returned already.
                    if let Some((_, Unfiltered::Marker(marker))) = disk.head.take() {
                        disk.open = marker.deletion_behind(direction);
                    }
                    continue;
                }
                Some(place) => {
                    is_behind(direction, place, &gap.end) || (*place == gap.end && !is_row(place))
                }
            };
            if is_at_end {
                self.trace_deletion(&mut range, disk.open)?;
                self.filler().add_range(&range.at, &gap.end, disk.open).await;
                break Outcome::Over(gap);
            }
            let Some((place, fragment)) = disk.head.take() else { continue };
            self.trace_deletion(&mut range, disk.open)?;
            match fragment {
                Unfiltered::Row(row) => {
                    self.rows.misses += 1;
                    self.filler().add_row(&range.at, &place, disk.open, &row).await;
                    // The row waits in the buffer whether or not it was added to the cache.
                    self.fill.bytes += row.page_bytes();
                    self.buffer.push_back(Unfiltered::Row(row));
                }
                Unfiltered::Marker(marker) => {
                    self.filler().add_range(&range.at, &place, disk.open).await;
                    disk.open = marker.deletion_behind(direction);
                }
            }
            range.at = place;
            if range.at == gap.end {
                break Outcome::Given;
            }
            if self.is_filled(wanted) || should_yield() {
                break Outcome::More(gap);
            }
        };
        self.disk = Some(disk);
        Ok(self.leave_gap(outcome, range)?)
    }

    /// Opens the rest of the partition in the files, from the first gap on.
    async fn open_rest(&self, position: &ClusteringBound) -> Result<Disk<V::Stream>, V::Error> {
        if trace::is_on() {
            trace_event!("Row cache lacks the rows that follow; reading them from sstables");
        }
        let (comparator, direction) = (self.view.table().comparator(), self.view.direction());
        let rest = slices_behind(&self.slices, comparator, position, direction).await;
        Disk::open(&self.view, &self.header.key, &Arc::new(rest)).await
    }

    /// Moves the position behind the gap, or keeps the rest of the gap for the next fill.
    fn leave_gap(&mut self, outcome: Outcome, mut range: Range) -> Result<(), CacheError> {
        match outcome {
            Outcome::Given => self.range = Some(range),
            Outcome::More(gap) => {
                self.gap = Some(gap);
                self.range = Some(range);
            }
            Outcome::Over(Gap { end, entry: Some(known) }) => {
                self.give_continuous(&mut range, end, known)?;
                self.range = Some(range);
            }
            Outcome::Over(_) => {
                self.range = Some(range);
                self.leave_slice();
            }
        }
        Ok(())
    }

    fn filler(&self) -> Filler<'_> {
        Filler { access: &self.access, prefix: &self.prefix, direction: self.view.direction() }
    }
}

/// Returns the path of the bound that follows a position in the direction of the walk.
fn position_path(at: &[u8], direction: Direction) -> Vec<u8> {
    match direction {
        Direction::Forward => super::place::behind(at),
        Direction::Reverse => super::place::before(at),
    }
}
