//! Parts of the commit log, from one place on to another.

use super::LogPosition;

/// The intervals in order, those that touch as one; without those whose segments, all older than `oldest_segment`, have no files, but for
/// the last `kept` of all: a segment that was removed may be there again after a crash.
pub(crate) fn joined(
    mut intervals: Vec<(LogPosition, LogPosition)>,
    oldest_segment: Option<u64>,
    kept: usize,
) -> Vec<(LogPosition, LogPosition)> {
    intervals.sort_unstable();
    let mut joined: Vec<(LogPosition, LogPosition)> = Vec::with_capacity(intervals.len());
    for (start, end) in intervals {
        match joined.last_mut().filter(|(_, last)| start <= *last) {
            Some((_, last)) => *last = end.max(*last),
            None => joined.push((start, end)),
        }
    }
    let oldest = oldest_segment.unwrap_or(0);
    let settled = joined.iter().take_while(|(_, end)| end.segment < oldest).count();
    let surplus = joined.len().saturating_sub(kept).min(settled);
    joined.split_off(surplus)
}

/// The parts of segments, each given by its id and its end, between two positions. One interval for each: segments of other shards lie
/// between the ids, so a single one would claim theirs too.
pub(crate) fn between(
    segments: impl Iterator<Item = (u64, u32)>,
    from: LogPosition,
    to: LogPosition,
) -> Vec<(LogPosition, LogPosition)> {
    let inside = segments.filter(|(id, _)| (from.segment..=to.segment).contains(id));
    let interval = |(segment, end)| {
        let at = |offset| LogPosition { segment, offset };
        let start = if segment == from.segment { from } else { at(0) };
        (start, if segment == to.segment { to } else { at(end) })
    };
    inside.map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_joined_and_old_ones_forgotten() {
        let at = |segment, offset| LogPosition { segment, offset };
        let touching = vec![(at(2, 5), at(2, 9)), (at(1, 0), at(1, 7)), (at(2, 1), at(2, 5))];
        assert_eq!(joined(touching, None, 256), [(at(1, 0), at(1, 7)), (at(2, 1), at(2, 9))]);
        let many: Vec<_> = (0..1000).map(|segment| (at(segment, 0), at(segment, 9))).collect();
        assert_eq!(joined(many.clone(), Some(2000), 256).len(), 256);
        assert_eq!(joined(many.clone(), Some(2000), 256).last(), many.last());
        assert_eq!(joined(many.clone(), Some(100), 256).len(), 900);
        assert_eq!(joined(many, Some(0), 256).len(), 1000);
    }
}
