//! Positions in the commit log and intervals between them. Memtables and SSTables record which part
//! of the log they hold.

use std::fmt;

/// A position in the commit log: a segment and an offset in it. Segment ids grow over all shards
/// and restarts, so positions of one shard can be compared.
///
/// This is the pair that Statistics.db stores as a commit log position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// Id of the segment; 0 is never used.
    pub segment: u64,
    /// Offset in bytes from the segment's start.
    pub offset: u32,
}

impl LogPosition {
    /// The position before all records.
    pub const NONE: LogPosition = LogPosition { segment: 0, offset: 0 };

    /// Returns whether this is [`LogPosition::NONE`].
    pub const fn is_none(&self) -> bool {
        self.segment == 0
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} offset {}", self.segment, self.offset)
    }
}

/// Sorts the intervals and merges adjacent and overlapping ones.
///
/// Drops the intervals in segments older than `oldest_segment`, which have no files. The last
/// `kept` intervals always stay.
pub fn joined_intervals(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_joined_and_old_ones_forgotten() {
        let at = |segment, offset| LogPosition { segment, offset };
        let touching = vec![(at(2, 5), at(2, 9)), (at(1, 0), at(1, 7)), (at(2, 1), at(2, 5))];
        assert_eq!(
            joined_intervals(touching, None, 256),
            [(at(1, 0), at(1, 7)), (at(2, 1), at(2, 9))]
        );
        let many: Vec<_> = (0..1000).map(|segment| (at(segment, 0), at(segment, 9))).collect();
        assert_eq!(joined_intervals(many.clone(), Some(2000), 256).len(), 256);
        assert_eq!(joined_intervals(many.clone(), Some(2000), 256).last(), many.last());
        assert_eq!(joined_intervals(many.clone(), Some(100), 256).len(), 900);
        assert_eq!(joined_intervals(many, Some(0), 256).len(), 1000);
    }
}
