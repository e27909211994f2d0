//! This module computes with intervals of the commit log.

use super::LogPosition;

/// An offset behind the end of every segment. Cassandra reads offsets as signed integers, so this
/// is the largest that it accepts; segments are smaller.
const LAST_OFFSET: u32 = i32::MAX as u32;

/// Sorts the intervals and merges adjacent and overlapping ones.
///
/// Drops the intervals in segments older than `oldest_segment`, which have no files. The last
/// `kept` intervals always stay, because a removed segment may reappear after a crash.
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
    let discarded = joined.iter().take_while(|(_, end)| end.segment < oldest).count();
    let score = joined.len().saturating_sub(kept).min(discarded);
    joined.split_off(score)
}

/// Returns the intervals between two positions of one log; `segments` yields the ids of the log's
/// segments. There is one interval for each segment: ids of other shards' segments lie between
/// them, and one interval over all would claim those too.
///
/// Every interval but the last extends to [`LAST_OFFSET`], wherever its records end. After a failed
/// write or a crash, whole records may follow the recorded end, and a replay would read them. Their
/// mutations were in the memtable too, because the log went on in a later segment.
pub(crate) fn between(
    segments: impl Iterator<Item = u64>,
    from: LogPosition,
    to: LogPosition,
) -> Vec<(LogPosition, LogPosition)> {
    let inside = segments.filter(|id| (from.segment..=to.segment).contains(id));
    let interval = |segment| {
        let at = |offset| LogPosition { segment, offset };
        let start = if segment == from.segment { from } else { at(0) };
        (start, if segment == to.segment { to } else { at(LAST_OFFSET) })
    };
    // Cassandra asserts that an interval does not end before it begins.
    inside.map(interval).filter(|(start, end)| start < end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_between_are_taken_to_their_very_end() {
        let at = |segment, offset| LogPosition { segment, offset };
        let all = || [3, 5, 6, 9].into_iter();
        assert_eq!(between(all(), at(5, 40), at(5, 70)), [(at(5, 40), at(5, 70))]);
        let whole = [
            (at(5, 600), at(5, LAST_OFFSET)),
            (at(6, 0), at(6, LAST_OFFSET)),
            (at(9, 0), at(9, 70)),
        ];
        assert_eq!(between(all(), at(5, 600), at(9, 70)), whole);
        // One after another they stay apart: other logs' segments may be between.
        assert_eq!(joined(whole.to_vec(), None, 256), whole);
        assert_eq!(between(all(), at(5, 40), at(5, 40)), []);
        assert_eq!(between(all(), at(5, 40), at(5, 30)), []);
    }

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
