//! What a partition is read and written as: a header, then rows and range tombstone markers in clustering order.

use bytes::Bytes;

use crate::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, DecoratedKey, DeletionTime,
    PositionRef, Row,
};

/// Which way a stream walks the clustering order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In clustering order.
    Forward,
    /// Against it.
    Reverse,
}

impl Direction {
    /// What comes first on the way and what comes last, of two in clustering order; or of two on the way, in clustering order.
    #[inline]
    pub fn order<T>(self, low: T, high: T) -> (T, T) {
        match self {
            Self::Forward => (low, high),
            Self::Reverse => (high, low),
        }
    }
}

/// What precedes the rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionHeader {
    /// The partition's key.
    pub key: DecoratedKey,
    /// Deletion of the whole partition.
    pub deletion: DeletionTime,
    /// The static row, if it holds anything.
    pub static_row: Option<Row>,
}

/// A row or a range tombstone marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfiltered {
    /// A row.
    Row(Row),
    /// A bound of range deletions.
    Marker(RangeTombstoneMarker),
}

/// The place where a range deletion ends, begins, or both (a boundary).
///
/// `before` is the deletion in force just before the position **in clustering order**, `after` the one just behind it,
/// whichever way the stream walks. At least one of them is not live. In a stream walked forward each marker's `before`
/// equals the preceding marker's `after`; in one walked in reverse its `after` equals the preceding marker's `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstoneMarker {
    /// Where: the kind says which side of equal prefixes.
    pub position: ClusteringBound,
    /// The deletion that ends here.
    pub before: DeletionTime,
    /// The deletion that begins here.
    pub after: DeletionTime,
}

impl Unfiltered {
    /// The position to compare by.
    pub fn position(&self) -> PositionRef<'_> {
        match self {
            Self::Row(row) => row.clustering.position(),
            Self::Marker(marker) => marker.position.position(),
        }
    }

    /// The clustering of a row.
    pub fn clustering(&self) -> Option<&Clustering> {
        match self {
            Self::Row(row) => Some(&row.clustering),
            Self::Marker(_) => None,
        }
    }

    /// Whether it is a row that a walk in `direction` meets before a bound.
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
    /// With `before` in force in front of a position, and `after` behind it, in clustering order. At least one is not live.
    pub fn new(position: PositionRef<'_>, before: DeletionTime, after: DeletionTime) -> Self {
        let values = position.values.into();
        Self::at(position.weight, values, before, after)
    }

    /// Where the deletion in force changes on the way in `direction`. Of the bound's kind only the side counts.
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

    /// At the same place, with other deletions before and behind it, of which at least one is not live.
    pub fn with_deletions(&self, before: DeletionTime, after: DeletionTime) -> Self {
        Self::new(self.position.position(), before, after)
    }

    /// The deletion that it leaves in force, on the way in `direction`.
    pub fn deletion_behind(&self, direction: Direction) -> DeletionTime {
        direction.order(self.before, self.after).1
    }
}

/// A partition being read: the header is known, the rest follows one by one.
///
/// Implementations: memtable, SSTable, merge of several. Rows and markers come in clustering order, or against it if the
/// stream was opened in reverse. Range tombstones that reach into a slice are opened and closed at the slice's bounds.
#[allow(async_fn_in_trait)]
pub trait UnfilteredStream {
    /// What can go wrong: an error that names file, offset and reason.
    type Error;

    /// Key, deletion and static row.
    fn header(&self) -> &PartitionHeader;

    /// The next row or marker; `None` at the end.
    async fn next(&mut self) -> Result<Option<Unfiltered>, Self::Error>;

    /// The caller needs no row before `position` any more, in the direction of the walk; of its kind only the side counts.
    ///
    /// A hint: the stream may leave out rows and markers before it, or give some or all of them. Either way what follows
    /// is in order, each position once, and the markers fit: where the range deletion in force at `position` is not the
    /// one that the markers given so far have left in force, a marker at `position`, or some before it, tell the change.
    /// (A marker that stands at `position` anyway becomes one with that.) Positions that the stream has passed, or that
    /// lie in front of an earlier one, are allowed and change nothing.
    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), Self::Error> {
        let _ = position;
        Ok(())
    }

    /// A bound such that the rows between the fragment given last and it, if there are any, hold nothing but tombstones,
    /// or only what deletions of this stream cover: no reader at any time sees them. `None`: not known. For reads of what
    /// is visible only, since flush and compaction write tombstones. Markers may lie in between: [`Self::skip_to`] the
    /// bound tells what they come to.
    fn dead_until(&self) -> Option<ClusteringBound> {
        None
    }

    /// No liveness, cell or deletion of the partition, as far as this stream gives it, was written later (µs).
    /// `i64::MAX` if that is not known.
    fn maximum_timestamp(&self) -> i64 {
        i64::MAX
    }
}
