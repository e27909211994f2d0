//! This module computes the intervals of a log between two positions.

use espalier_mutation::LogPosition;

/// An offset behind the end of every segment. Cassandra reads offsets as signed integers, so this
/// is the largest that it accepts; segments are smaller.
const LAST_OFFSET: u32 = i32::MAX as u32;

/// Returns the intervals between two positions of one log; `segments` yields the ids of the log's
/// segments. There is one interval for each segment, because one interval over all of them would
/// include segments of other shards, whose ids lie between.
///
/// Every interval but the last extends behind the end of its segment, wherever the segment's
/// records end. After a failed write or a crash, whole records may follow the recorded end, and a
/// replay would read them. The intervals cover these records rightly, because the log appended them
/// before `to`, which is in a later segment.
pub fn between(
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
    use espalier_mutation::joined_intervals;

    use super::*;

    #[test]
    fn intervals_cover_whole_segments_between_two_positions() {
        let at = |segment, offset| LogPosition { segment, offset };
        let all = || [3, 5, 6, 9].into_iter();
        assert_eq!(between(all(), at(5, 40), at(5, 70)), [(at(5, 40), at(5, 70))]);
        let whole = [
            (at(5, 600), at(5, LAST_OFFSET)),
            (at(6, 0), at(6, LAST_OFFSET)),
            (at(9, 0), at(9, 70)),
        ];
        assert_eq!(between(all(), at(5, 600), at(9, 70)), whole);
        // Intervals of successive segments stay apart: segments of other logs may be between.
        assert_eq!(joined_intervals(whole.to_vec(), None, 256), whole);
        assert_eq!(between(all(), at(5, 40), at(5, 40)), []);
        assert_eq!(between(all(), at(5, 40), at(5, 30)), []);
    }
}
