//! This module computes the expected result of a slice from all rows and markers of a partition,
//! without using the reader.

use espalier_mutation::{
    BoundKind, ClusteringBound, ClusteringComparator, ClusteringSlice, ClusteringSlices,
    DeletionTime, Direction, RangeTombstoneMarker, Unfiltered,
};

/// A range under one deletion.
struct Segment {
    start: ClusteringBound,
    end: ClusteringBound,
    deletion: DeletionTime,
}

fn segments(all: &[Unfiltered]) -> Vec<Segment> {
    let markers = all.iter().filter_map(|unfiltered| match unfiltered {
        Unfiltered::Marker(marker) => Some(marker),
        Unfiltered::Row(_) => None,
    });
    let mut segments = Vec::new();
    let mut open: Option<(ClusteringBound, DeletionTime)> = None;
    for marker in markers {
        if let Some((start, deletion)) = open.take() {
            assert_eq!(deletion, marker.before);
            segments.push(Segment { start, end: marker.position.clone(), deletion });
        }
        if !marker.after.is_live() {
            open = Some((marker.position.clone(), marker.after));
        }
    }
    assert!(open.is_none());
    segments
}

fn later<'a>(
    comparator: &ClusteringComparator,
    a: &'a ClusteringBound,
    b: &'a ClusteringBound,
) -> &'a ClusteringBound {
    if comparator.compare(a.position(), b.position()).is_ge() { a } else { b }
}

/// Returns the slices of a partition that holds `all`, in `direction`.
pub fn slice(
    comparator: &ClusteringComparator,
    all: &[Unfiltered],
    slices: &ClusteringSlices,
    direction: Direction,
) -> Vec<Unfiltered> {
    let segments = segments(all);
    let mut result = Vec::new();
    for slice in &slices.slices {
        let mut found: Vec<Unfiltered> = all
            .iter()
            .filter(|unfiltered| {
                matches!(unfiltered, Unfiltered::Row(_))
                    && slice.contains(comparator, unfiltered.position())
            })
            .cloned()
            .collect();
        found.extend(markers(comparator, &segments, slice).into_iter().map(Unfiltered::Marker));
        found.sort_by(|a, b| comparator.compare(a.position(), b.position()));
        result.extend(found);
    }
    if direction == Direction::Reverse {
        result.reverse();
    }
    result
}

fn markers(
    comparator: &ClusteringComparator,
    segments: &[Segment],
    slice: &ClusteringSlice,
) -> Vec<RangeTombstoneMarker> {
    // Changes of the deletion in force: position, before, after.
    let mut changes: Vec<(ClusteringBound, DeletionTime, DeletionTime)> = Vec::new();
    for segment in segments {
        let start = later(comparator, &segment.start, &slice.start);
        let end_is_segments =
            comparator.compare(segment.end.position(), slice.end.position()).is_le();
        let end = if end_is_segments { &segment.end } else { &slice.end };
        if comparator.compare(start.position(), end.position()).is_ge() {
            continue;
        }
        match changes.last_mut() {
            Some((position, _, after))
                if comparator.compare(position.position(), start.position()).is_eq() =>
            {
                *after = segment.deletion;
            }
            _ => changes.push((start.clone(), DeletionTime::LIVE, segment.deletion)),
        }
        changes.push((end.clone(), segment.deletion, DeletionTime::LIVE));
    }
    changes
        .into_iter()
        .map(|(bound, before, after)| {
            let kind =
                BoundKind::for_marker(bound.kind.weight(), !before.is_live(), !after.is_live());
            let position = ClusteringBound { kind, values: bound.values };
            RangeTombstoneMarker { position, before, after }
        })
        .collect()
}

/// A generator of pseudo-random numbers that are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Returns one to four slices that begin and end at or near existing fragments.
pub fn random_slices(
    comparator: &ClusteringComparator,
    all: &[Unfiltered],
    random: &mut Random,
) -> ClusteringSlices {
    let count = 1 + random.below(4);
    let mut slices = Vec::new();
    for _ in 0..count {
        let width = [1, 2, 5, 20, 100, 1000][random.below(6)];
        let first = random.below(all.len());
        let last = (first + random.below(width)).min(all.len() - 1);
        let mut bound = |at: usize, start: bool| {
            if random.chance(8) {
                return if start { ClusteringBound::bottom() } else { ClusteringBound::top() };
            }
            let mut values = all[at].position().values.to_vec();
            if random.chance(4) {
                values.truncate(random.below(values.len() + 1));
            }
            let kind = match (start, random.chance(2)) {
                (true, true) => BoundKind::InclusiveStart,
                (true, false) => BoundKind::ExclusiveStart,
                (false, true) => BoundKind::InclusiveEnd,
                (false, false) => BoundKind::ExclusiveEnd,
            };
            match values.is_empty() {
                true if start => ClusteringBound::bottom(),
                true => ClusteringBound::top(),
                false => ClusteringBound { kind, values: values.into() },
            }
        };
        let (start, end) = (bound(first, true), bound(last, false));
        slices.push(ClusteringSlice { start, end });
    }
    ClusteringSlices::normalise(slices, comparator)
}
