//! Defines the time of a deletion: data written at or before `marked_for_delete_at` is gone.

/// The time of a deletion. Source: docs/formats/README.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeletionTime {
    /// Write timestamp in µs; data with a timestamp at or below it is deleted. `i64::MIN` deletes
    /// nothing.
    pub marked_for_delete_at: i64,
    /// Wall clock of the deletion in seconds since 1970, by which it is purged after
    /// `gc_grace_seconds`; `u32::MAX` if live.
    pub local_deletion_time: u32,
}

impl DeletionTime {
    /// The absence of a deletion.
    pub const LIVE: DeletionTime =
        DeletionTime { marked_for_delete_at: i64::MIN, local_deletion_time: u32::MAX };

    /// Makes a deletion with write timestamp `marked_for_delete_at` in µs, done at second
    /// `local_deletion_time`.
    pub const fn new(marked_for_delete_at: i64, local_deletion_time: u32) -> Self {
        Self { marked_for_delete_at, local_deletion_time }
    }

    /// Returns whether nothing is deleted. Only the timestamp counts (CASSANDRA-21333).
    pub const fn is_live(&self) -> bool {
        self.marked_for_delete_at == i64::MIN
    }

    /// Returns whether the deletion covers data written at `timestamp`, in µs.
    pub const fn deletes(&self, timestamp: i64) -> bool {
        !self.is_live() && timestamp <= self.marked_for_delete_at
    }

    /// Returns whether this deletion wins over `other`: the later timestamp wins, at equal
    /// timestamps the later wall clock.
    pub const fn supersedes(&self, other: &DeletionTime) -> bool {
        self.marked_for_delete_at > other.marked_for_delete_at
            || (self.marked_for_delete_at == other.marked_for_delete_at
                && !self.is_live()
                && self.local_deletion_time > other.local_deletion_time)
    }

    /// Returns the deletion that wins.
    pub const fn max(self, other: DeletionTime) -> DeletionTime {
        if other.supersedes(&self) { other } else { self }
    }

    /// Returns the deletion in force in a memtable after the range deletion `new` arrives over this
    /// one: `new` if its timestamp is later. At equal timestamps the first range stays, whatever
    /// its wall clock, as in Cassandra's `RangeTombstoneList`; digests include the wall clock.
    #[must_use]
    pub const fn followed_by(self, new: DeletionTime) -> DeletionTime {
        if new.marked_for_delete_at > self.marked_for_delete_at { new } else { self }
    }
}

impl Default for DeletionTime {
    fn default() -> Self {
        Self::LIVE
    }
}
