//! The files' part of a partition, from the first gap of the cache on.

use std::sync::Arc;

use espalier_mutation::{
    ClusteringBound, ClusteringComparator, ClusteringSlices, DecoratedKey, DeletionTime, Direction,
    Row, Unfiltered, UnfilteredStream, path, reconcile::MergedPartition,
};

use crate::{CacheView, place::is_behind};

/// A range that is not continuous: from the position reached to `end`, where either the cache has
/// an entry (with a deletion and perhaps a row) or the slice ends.
pub(super) struct Gap {
    pub(super) end: Vec<u8>,
    pub(super) entry: Option<(DeletionTime, Option<Row>)>,
}

/// The rest of a partition in the files, from the first gap on.
pub(super) struct Disk<S> {
    /// `None` if no file has data of the partition, or the stream is at its end.
    pub(super) stream: Option<MergedPartition<S>>,
    /// The next fragment and its position, if it was peeked at.
    pub(super) head: Option<(Vec<u8>, Unfiltered)>,
    /// The deletion in force at the stream's position.
    pub(super) open: DeletionTime,
    /// The path up to which the stream has skipped.
    skipped_to: Vec<u8>,
}

impl<S: UnfilteredStream> Disk<S> {
    pub(super) async fn open<V: CacheView<Stream = S>>(
        view: &V,
        key: &DecoratedKey,
        slices: &Arc<ClusteringSlices>,
    ) -> Result<Self, V::Error>
    where
        S: UnfilteredStream<Error = V::Error>,
    {
        let sources = view.open_files(key, slices).await?;
        let stream = MergedPartition::new(view.table().clone(), view.direction(), sources).await?;
        let (head, open, skipped_to) = (None, DeletionTime::LIVE, Vec::new());
        Ok(Self { stream, head, open, skipped_to })
    }

    /// Returns the position of the next fragment.
    pub(super) async fn look(
        &mut self,
        comparator: &ClusteringComparator,
    ) -> Result<Option<&Vec<u8>>, S::Error> {
        if self.head.is_none()
            && let Some(stream) = &mut self.stream
        {
            match stream.next().await? {
                Some(fragment) => self.head = Some((place_of(comparator, &fragment), fragment)),
                None => self.stream = None,
            }
        }
        Ok(self.head.as_ref().map(|(place, _)| place))
    }

    /// Skips fragments before `position`, of which `target` is the path.
    pub(super) async fn skip_to(
        &mut self,
        position: &ClusteringBound,
        target: &[u8],
        direction: Direction,
    ) -> Result<(), S::Error> {
        let is_ahead = |place: &Vec<u8>| is_behind(direction, target, place);
        let is_needed = self.head.as_ref().is_none_or(|(place, _)| is_ahead(place))
            && (self.skipped_to.is_empty() || is_ahead(&self.skipped_to));
        if is_needed && let Some(stream) = &mut self.stream {
            Box::pin(stream.skip_to(position)).await?;
            self.skipped_to = target.to_vec();
        }
        Ok(())
    }
}

/// Returns the path of a fragment within its partition.
fn place_of(comparator: &ClusteringComparator, fragment: &Unfiltered) -> Vec<u8> {
    let mut place = Vec::new();
    match fragment {
        Unfiltered::Row(row) => path::put_row(comparator, &row.clustering.values, &mut place),
        Unfiltered::Marker(marker) => path::put_bound(comparator, &marker.position, &mut place),
    }
    place
}
