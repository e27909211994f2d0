//! The fragments of a partition: a header, then rows and range tombstone markers in clustering
//! order.
//!
//! Readers and writers exchange partitions in this form. [`UnfilteredStream`] is the contract of
//! all readers.

use bytes::Bytes;

use crate::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, DecoratedKey, DeletionTime,
    PositionRef, Row,
};

/// The direction in which a stream walks the clustering order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In clustering order.
    Forward,
    /// Against clustering order.
    Reverse,
}

impl Direction {
    /// Orders two items by the direction of the walk.
    ///
    /// Turns (lower, higher) in clustering order into (first, last) on the walk, and (first, last)
    /// into (lower, higher).
    #[inline]
    pub fn order<T>(self, low: T, high: T) -> (T, T) {
        match self {
            Self::Forward => (low, high),
            Self::Reverse => (high, low),
        }
    }
}

/// The head of a partition, which precedes its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionHeader {
    /// The partition's key.
    pub key: DecoratedKey,
    /// The deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if it holds anything.
    pub static_row: Option<Row>,
}

/// A fragment of a partition: a row or a range tombstone marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// A bound of range deletions.
    Marker(RangeTombstoneMarker),
}

/// A place where a range deletion ends, begins, or both (a boundary).
///
/// `before` is the deletion in force just before the position **in clustering order**, `after` the
/// one just behind it, in both directions of the walk. At least one of them is not live. In a
/// forward stream each marker's `before` equals the preceding marker's `after`; in a reverse stream
/// its `after` equals the preceding marker's `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstoneMarker {
    /// The position. Its kind says on which side of the rows with these values it lies.
    pub position: ClusteringBound,
    /// The deletion that ends here.
    pub before: DeletionTime,
    /// The deletion that begins here.
    pub after: DeletionTime,
}

impl Unfiltered {
    /// Returns the position to compare by.
    pub fn position(&self) -> PositionRef<'_> {
        match self {
            Self::Row(row) => row.clustering.position(),
            Self::Marker(marker) => marker.position.position(),
        }
    }

    /// Returns the clustering of a row, `None` for a marker.
    pub fn clustering(&self) -> Option<&Clustering> {
        match self {
            Self::Row(row) => Some(&row.clustering),
            Self::Marker(_) => None,
        }
    }

    /// Returns whether the fragment is a row that a walk in `direction` meets before `bound`.
    pub fn is_row_before(
        &self,
        bound: &ClusteringBound,
        comparator: &ClusteringComparator,
        direction: Direction,
    ) -> bool {
        self.clustering().is_some_and(|clustering| {
            let order = comparator.compare(clustering.position(), bound.position());
            match direction {
                Direction::Forward => order.is_lt(),
                Direction::Reverse => order.is_gt(),
            }
        })
    }
}

impl RangeTombstoneMarker {
    /// Makes a marker: in clustering order, `before` is in force in front of the position, `after`
    /// behind it.
    ///
    /// At least one of them is not live.
    pub fn new(position: PositionRef<'_>, before: DeletionTime, after: DeletionTime) -> Self {
        let values = position.values.into();
        Self::at(position.weight, values, before, after)
    }

    /// Makes a marker where the deletion in force changes `from` one `to` another on a walk in
    /// `direction`.
    ///
    /// Only the side of the bound's kind counts.
    pub fn of_change(
        bound: ClusteringBound,
        from: DeletionTime,
        to: DeletionTime,
        direction: Direction,
    ) -> Self {
        let (before, after) = direction.order(from, to);
        Self::at(bound.kind.weight(), bound.values, before, after)
    }

    fn at(
        weight: i8,
        values: Box<[Option<Bytes>]>,
        before: DeletionTime,
        after: DeletionTime,
    ) -> Self {
        let kind = BoundKind::for_marker(weight, !before.is_live(), !after.is_live());
        Self { position: ClusteringBound { kind, values }, before, after }
    }

    /// Makes a marker at the same position with other deletions, at least one of which is not live.
    pub fn with_deletions(&self, before: DeletionTime, after: DeletionTime) -> Self {
        Self::new(self.position.position(), before, after)
    }

    /// Returns the deletion that is in force behind the marker on a walk in `direction`.
    pub fn deletion_behind(&self, direction: Direction) -> DeletionTime {
        direction.order(self.before, self.after).1
    }
}

/// A partition being read: the header is known, rows and markers follow one by one.
///
/// Memtables, SSTables, the row cache and the merge of several streams implement it. A stream is
/// opened for one direction and for slices of the partition, and shows its source as of that
/// moment: later writes do not appear.
///
/// # Order of fragments
///
/// - [`next`](Self::next) returns rows and markers in clustering order, or against it if the stream
///   was opened in [`Direction::Reverse`]. No two fragments have the same position.
/// - Markers form a chain. On the walk no range deletion is in force before the first marker or
///   behind the last one, and each marker begins with the deletion that the preceding marker left
///   in force.
/// - A range deletion that reaches into a slice opens at the slice's near bound and closes at its
///   far bound, so that the chain is complete within each slice.
/// - A single memtable or SSTable does not apply deletions: its rows may hold data that the
///   header's deletion or an open range deletion covers. A merge applies them. A merge of visible
///   rows returns no markers.
///
/// # Skips and tombstone runs
///
/// - [`skip_to`](Self::skip_to) is a hint of the caller. It compares the positions of fragments
///   with its bound in the direction of the walk: the caller needs no row before the bound.
/// - [`empty_until`](Self::empty_until) is a promise of the stream. It concerns the rows between
///   the fragment returned last and the bound that it returns, in the direction of the walk.
/// - Of both bounds only the side of the kind counts, and neither needs to lie inside the slices.
/// - A caller of `empty_until` passes its bound to `skip_to`. Markers may lie in between; the
///   marker that the skip produces sums up their changes.
///
/// # End, errors and cancellation
///
/// - After the end `next` returns `None` again, and `skip_to` has no effect. One exception: a merge
///   that ended early because of [`drop_at_most`] continues with the next call.
/// - After an error of `next` or `skip_to` the caller may only drop the stream. The position is
///   undefined, and a further call can return a wrong result without an error: a merge has lost the
///   fragment that it was moving, an SSTable's stream may report the end, and the row cache's
///   stream may begin its slice again.
/// - `next` and `skip_to` are not cancel safe. A future that was dropped before it completed leaves
///   the stream as an error does: a head was taken from a merge, a file's position was moved, a gap
///   of the cache was taken. A caller with a deadline must drop the stream together with the
///   future, and open a new one.
/// - Dropping a stream before its end is always allowed. It releases the stream's snapshots.
///
/// [`drop_at_most`]: crate::reconcile::MergedPartition::drop_at_most
#[allow(async_fn_in_trait)]
pub trait UnfilteredStream {
    /// The error of a read. It names file, offset and reason.
    type Error;

    /// Returns key, partition deletion and static row.
    fn header(&self) -> &PartitionHeader;

    /// Returns the next row or marker; `None` at the end.
    ///
    /// May read files and may yield. See the trait for the order, and for the state after an error
    /// or a dropped future.
    ///
    /// # Errors
    ///
    /// Returns an error if the source is damaged or cannot be read. The stream must not be used
    /// afterwards.
    async fn next(&mut self) -> Result<Option<Unfiltered>, Self::Error>;

    /// Hints that the caller needs no row before `position`, in the direction of the walk.
    ///
    /// The stream may leave out any rows and markers before `position`, or return some or all of
    /// them; the default implementation ignores the hint. It never leaves out a row behind
    /// `position`. The fragments that follow keep their order and the chain of markers: if the
    /// returned markers left another range deletion in force than the one at `position`, a marker
    /// at `position` or markers before it account for the change. If the source has a
    /// marker at `position` itself, the stream merges both into one.
    ///
    /// Positions that the stream has passed, or that lie before an earlier target, are allowed and
    /// change nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if an index or the data that the skip reads is damaged or cannot be read.
    /// The stream must not be used afterwards.
    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), Self::Error> {
        let _ = position;
        Ok(())
    }

    /// Returns a bound such that the stream's rows before it and behind the fragment returned last
    /// are invisible to all readers at any time.
    ///
    /// Each such row holds nothing but tombstones, or only data that deletions of this stream
    /// cover. Rows that merely expire do not count, because whether they are visible depends on the
    /// clock. The promise does not include the fragment returned last, which the caller judges
    /// itself. Markers may lie before the bound. It holds until the next call of
    /// [`next`](Self::next) or [`skip_to`](Self::skip_to). `None` means that no such bound is
    /// known.
    ///
    /// The call does no I/O. It is only for reads of visible rows, because flush and compaction
    /// write tombstones and must not skip them.
    fn empty_until(&self) -> Option<ClusteringBound> {
        None
    }

    /// Returns an upper bound, in µs, of the timestamps of all liveness, cells and deletions that
    /// the stream and its header hold; `i64::MAX` if none is known.
    ///
    /// The bound may exceed the greatest timestamp of the partition, because memtables and SSTables
    /// record only the greatest timestamp of all their partitions.
    fn maximum_timestamp(&self) -> i64 {
        i64::MAX
    }
}
