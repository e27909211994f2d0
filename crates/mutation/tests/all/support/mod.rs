//! Makes streams of partitions in memory, which skip as a test demands.
#![allow(clippy::unwrap_used)]

use std::{
    cell::Cell as Counter,
    cmp::Ordering,
    future::Future,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use espalier_mutation::{
    BoundKind, Clustering, ClusteringBound, ColumnData, DecoratedKey, DeletionTime, Direction,
    PartitionHeader, PositionRef, RangeTombstoneMarker, Row, Unfiltered, UnfilteredStream,
    reconcile::MergedPartition,
    schema::{TableBuilder, TableId, TableMetadata},
};
use espalier_types::CqlType;

/// A stream that follows no hints.
pub struct Source {
    pub header: PartitionHeader,
    pub fragments: std::vec::IntoIter<Unfiltered>,
}

impl UnfilteredStream for Source {
    type Error = std::convert::Infallible;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, Self::Error> {
        Ok(self.fragments.next())
    }
}

/// The degree to which a stream follows hints, which are the calls of `skip_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obedience {
    /// Ignores all hints.
    None,
    /// Skips as far as it can.
    Full,
    /// Skips sometimes less than it could, depending on this seed.
    Moody(u64),
}

/// A stream over fragments in the order of the walk.
pub struct SkippingStream {
    table: Arc<TableMetadata>,
    direction: Direction,
    header: PartitionHeader,
    fragments: Vec<Unfiltered>,
    at: usize,
    /// A marker to be returned before the fragment at `at`.
    pending: Option<RangeTombstoneMarker>,
    reported: DeletionTime,
    obedience: Obedience,
    newest: i64,
    /// The number of calls of `next`.
    pub given: Rc<Counter<usize>>,
}

impl SkippingStream {
    /// Makes a stream of fragments that are in clustering order.
    pub fn new(
        table: &Arc<TableMetadata>,
        direction: Direction,
        deletion: DeletionTime,
        mut fragments: Vec<Unfiltered>,
        obedience: Obedience,
    ) -> Self {
        let newest = fragments.iter().map(newest).fold(deletion.marked_for_delete_at, i64::max);
        if direction == Direction::Reverse {
            fragments.reverse();
        }
        let key = DecoratedKey::new(Bytes::from_static(&[0, 0, 0, 1]));
        Self {
            table: table.clone(),
            direction,
            header: PartitionHeader { key, deletion, static_row: None },
            fragments,
            at: 0,
            pending: None,
            reported: DeletionTime::LIVE,
            obedience,
            newest,
            given: Rc::default(),
        }
    }

    fn order(&self, left: PositionRef<'_>, right: PositionRef<'_>) -> Ordering {
        let order = self.table.comparator().compare(left, right);
        if self.direction == Direction::Forward { order } else { order.reverse() }
    }

    fn behind(&self, marker: &RangeTombstoneMarker) -> DeletionTime {
        if self.direction == Direction::Forward { marker.after } else { marker.before }
    }

    fn last_marker(&self, end: usize) -> Option<&RangeTombstoneMarker> {
        self.fragments[..end].iter().rev().find_map(|fragment| match fragment {
            Unfiltered::Marker(marker) => Some(marker),
            Unfiltered::Row(_) => None,
        })
    }

    fn change(&self, at: &ClusteringBound, open: DeletionTime) -> Option<RangeTombstoneMarker> {
        let (before, after) = match self.direction {
            Direction::Forward => (self.reported, open),
            Direction::Reverse => (open, self.reported),
        };
        let weight = at.kind.weight();
        let kind = BoundKind::for_marker(weight, !before.is_live(), !after.is_live());
        let position = ClusteringBound { kind, values: at.values.clone() };
        (before != after).then_some(RangeTombstoneMarker { position, before, after })
    }

    /// Returns a number below `limit`; an obedient stream returns `limit - 1`.
    fn choose(&self, limit: usize) -> usize {
        match self.obedience {
            Obedience::Moody(seed) => {
                let mut mixed = seed ^ (self.at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                if mixed & 3 == 0 { limit - 1 } else { (mixed >> 7) as usize % limit }
            }
            _ => limit - 1,
        }
    }
}

impl UnfilteredStream for SkippingStream {
    type Error = std::convert::Infallible;

    fn header(&self) -> &PartitionHeader {
        &self.header
    }

    async fn next(&mut self) -> Result<Option<Unfiltered>, Self::Error> {
        let fragment = match self.pending.take() {
            Some(marker) => Some(Unfiltered::Marker(marker)),
            None => {
                self.at += 1;
                self.fragments.get(self.at - 1).cloned()
            }
        };
        if let Some(Unfiltered::Marker(marker)) = &fragment {
            self.reported = self.behind(marker);
        }
        self.given.set(self.given.get() + 1);
        Ok(fragment)
    }

    async fn skip_to(&mut self, position: &ClusteringBound) -> Result<(), Self::Error> {
        let to = position.position();
        let is_passed = self
            .pending
            .as_ref()
            .is_some_and(|pending| self.order(to, pending.position.position()).is_le());
        if self.obedience == Obedience::None || is_passed || self.at > self.fragments.len() {
            return Ok(());
        }
        let rest = &self.fragments[self.at..];
        let before = rest.iter().take_while(|f| self.order(f.position(), to).is_lt()).count();
        if before == 0 {
            return Ok(());
        }
        let skipped = self.choose(before + 1);
        self.at += skipped;
        let open = self.last_marker(self.at).map_or(DeletionTime::LIVE, |m| self.behind(m));
        if skipped < before {
            // The stream stops before `position`, so the change is at the last marker that it
            // skipped.
            let at = self.last_marker(self.at).map(|marker| marker.position.clone());
            self.pending = at.and_then(|at| self.change(&at, open));
            return Ok(());
        }
        match self.fragments.get(self.at) {
            Some(Unfiltered::Marker(marker))
                if self.order(marker.position.position(), to).is_eq() =>
            {
                let open = self.behind(marker);
                self.pending = self.change(position, open);
                self.at += 1;
            }
            _ => self.pending = self.change(position, open),
        }
        Ok(())
    }

    fn empty_until(&self) -> Option<ClusteringBound> {
        if self.obedience == Obedience::None {
            return None;
        }
        let rest = self.fragments.get(self.at..)?;
        let dead = rest
            .iter()
            .take_while(|f| !matches!(f, Unfiltered::Row(row) if !row.is_dead_for_ever()))
            .count();
        let dead = self.choose(dead + 1);
        let is_forward = self.direction == Direction::Forward;
        Some(match rest.get(dead) {
            Some(Unfiltered::Marker(marker)) => marker.position.clone(),
            Some(Unfiltered::Row(row)) => {
                let kind =
                    if is_forward { BoundKind::InclusiveStart } else { BoundKind::InclusiveEnd };
                ClusteringBound { kind, values: row.clustering.values.clone() }
            }
            None if is_forward => ClusteringBound::top(),
            None => ClusteringBound::bottom(),
        })
    }

    fn maximum_timestamp(&self) -> i64 {
        match self.obedience {
            Obedience::None => i64::MAX,
            _ => self.newest,
        }
    }
}

fn newest(fragment: &Unfiltered) -> i64 {
    match fragment {
        Unfiltered::Marker(marker) => {
            marker.before.marked_for_delete_at.max(marker.after.marked_for_delete_at)
        }
        Unfiltered::Row(row) => {
            let cells = row.columns.iter().map(|(_, data)| match data {
                ColumnData::Simple(cell) => cell.timestamp,
                ColumnData::Complex(_) => unreachable!("the table has none"),
            });
            cells.fold(row.liveness.timestamp.max(row.deletion.marked_for_delete_at), i64::max)
        }
    }
}

/// Makes a table with a clustering column of bytes and two other columns.
pub fn table() -> Arc<TableMetadata> {
    let id = TableId(uuid::Uuid::from_u128(1));
    let table = TableBuilder::new("ks", "t", id)
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Blob, false)
        .regular("a", CqlType::Blob)
        .regular("b", CqlType::Blob);
    Arc::new(table.build())
}

/// Makes a row that holds nothing.
pub fn empty_row(clustering: &[u8]) -> Row {
    Row::empty(Clustering::new([Bytes::copy_from_slice(clustering)]))
}

/// Runs a future that never waits.
pub fn run<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future must not wait"),
    }
}

/// Returns all fragments of a merge, up to `limit` rows.
pub fn merge(
    table: &Arc<TableMetadata>,
    direction: Direction,
    streams: Vec<SkippingStream>,
    is_visible_only: bool,
    limit: usize,
) -> Vec<Unfiltered> {
    run(async {
        let merged = if is_visible_only {
            MergedPartition::of_visible_rows(table.clone(), direction, streams, None).await
        } else {
            MergedPartition::new(table.clone(), direction, streams).await
        };
        let mut merged = merged.unwrap().unwrap();
        let (mut all, mut rows) = (Vec::new(), 0);
        while rows < limit {
            let Some(fragment) = merged.next().await.unwrap() else { break };
            rows += usize::from(matches!(fragment, Unfiltered::Row(_)));
            all.push(fragment);
        }
        all
    })
}
