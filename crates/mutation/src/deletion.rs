//! A deletion: everything written at or before `marked_for_delete_at` is gone.

/// When something was deleted. Source: reference 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeletionTime {
    /// Write timestamp in microseconds: data with a timestamp at or below it is deleted. `i64::MIN`: nothing is.
    pub marked_for_delete_at: i64,
    /// Wall clock of the deletion in seconds since 1970, for purging after `gc_grace_seconds`; `u32::MAX` if live.
    pub local_deletion_time: u32,
}

impl DeletionTime {
    /// No deletion.
    pub const LIVE: DeletionTime =
        DeletionTime { marked_for_delete_at: i64::MIN, local_deletion_time: u32::MAX };

    /// A deletion at `marked_for_delete_at` µs, done at `local_deletion_time` s.
    pub const fn new(marked_for_delete_at: i64, local_deletion_time: u32) -> Self {
        Self { marked_for_delete_at, local_deletion_time }
    }

    /// Whether nothing is deleted. Only the timestamp counts (CASSANDRA-21333).
    pub const fn is_live(&self) -> bool {
        self.marked_for_delete_at == i64::MIN
    }

    /// Whether data written at `timestamp` µs is deleted.
    pub const fn deletes(&self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.marked_for_delete_at
    }

    /// Whether this deletion wins over `other`: later timestamp, ties by the later wall clock.
    pub const fn supersedes(&self, other: &DeletionTime) -> bool {
        self.marked_for_delete_at > other.marked_for_delete_at
            || (self.marked_for_delete_at == other.marked_for_delete_at
                && !self.is_live()
                && self.local_deletion_time > other.local_deletion_time)
    }

    /// The one that wins.
    pub const fn max(self, other: DeletionTime) -> DeletionTime {
        if other.supersedes(&self) { other } else { self }
    }
}

impl Default for DeletionTime {
    fn default() -> Self {
        Self::LIVE
    }
}
