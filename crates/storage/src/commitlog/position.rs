//! This module defines a position in the commit log.

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
