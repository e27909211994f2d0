//! Defines cells (a value or a tombstone, with a write timestamp) and the liveness of a row.

use bytes::Bytes;

/// The `local_deletion_time` of a cell that neither expires nor is a tombstone.
pub const NO_DELETION_TIME: u32 = u32::MAX;
/// The `timestamp` of a row without liveness.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The ttl of a liveness that is only a deletion (a dead row marker of a view).
pub const EXPIRED_LIVENESS_TTL: u32 = i32::MAX as u32;
/// The longest TTL that CQL accepts: 20 years, in seconds.
pub const MAX_TTL_SECONDS: u32 = 630_720_000;

/// A cell: a live value, an expiring value or a tombstone.
///
/// With `ttl > 0` it expires at second `local_deletion_time`. With `ttl == 0` and a deletion time
/// it is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Write timestamp in µs.
    pub timestamp: i64,
    /// Time to live in seconds, 0 for none.
    pub ttl: u32,
    /// Second at which the cell expires or was deleted; [`NO_DELETION_TIME`] if neither applies.
    pub local_deletion_time: u32,
    /// The serialised value; empty for a tombstone.
    pub value: Bytes,
}

impl Cell {
    /// Makes a cell that does not expire.
    pub fn live(timestamp: i64, value: Bytes) -> Self {
        Self { timestamp, ttl: 0, local_deletion_time: NO_DELETION_TIME, value }
    }

    /// Makes a cell that expires at second `local_expiration`.
    pub fn expiring(timestamp: i64, ttl: u32, local_expiration: u32, value: Bytes) -> Self {
        debug_assert!(ttl > 0);
        Self { timestamp, ttl, local_deletion_time: local_expiration, value }
    }

    /// Makes a tombstone of a deletion at second `local_deletion_time`.
    pub fn tombstone(timestamp: i64, local_deletion_time: u32) -> Self {
        Self { timestamp, ttl: 0, local_deletion_time, value: Bytes::new() }
    }

    /// Returns whether the cell is a deletion, whatever the clock says.
    pub fn is_tombstone(&self) -> bool {
        self.ttl == 0 && self.local_deletion_time != NO_DELETION_TIME
    }

    /// Returns whether the cell has a time to live.
    pub fn is_expiring(&self) -> bool {
        self.ttl != 0
    }

    /// Returns whether a reader at second `now_s` sees the value.
    pub fn is_live(&self, now_s: u32) -> bool {
        self.local_deletion_time == NO_DELETION_TIME
            || (self.ttl != 0 && now_s < self.local_deletion_time)
    }
}

/// A cell that borrows its value from a packed row, from a [`Cell`], or from the bound values of a
/// statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRef<'a> {
    /// Write timestamp in µs.
    pub timestamp: i64,
    /// Time to live in seconds, 0 for none.
    pub ttl: u32,
    /// Second at which the cell expires or was deleted; [`NO_DELETION_TIME`] if neither applies.
    pub local_deletion_time: u32,
    /// The serialised value; empty for a tombstone.
    pub value: &'a [u8],
}

impl CellRef<'_> {
    /// Returns whether the cell is a deletion, whatever the clock says.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.ttl == 0 && self.local_deletion_time != NO_DELETION_TIME
    }

    /// Returns whether the cell has a time to live.
    #[inline]
    pub fn is_expiring(&self) -> bool {
        self.ttl != 0
    }

    /// Returns whether the cell has the timestamp, TTL and expiry of the row and is no tombstone,
    /// as a cell that was written together with the row.
    #[inline]
    pub fn is_like(&self, liveness: &Liveness) -> bool {
        self.timestamp == liveness.timestamp
            && self.ttl == liveness.ttl
            && self.local_deletion_time == liveness.local_expiration
            && !self.is_tombstone()
    }

    /// Returns whether a reader at second `now_s` sees the value.
    #[inline]
    pub fn is_live(&self, now_s: u32) -> bool {
        self.local_deletion_time == NO_DELETION_TIME
            || (self.ttl != 0 && now_s < self.local_deletion_time)
    }
}

impl<'a> From<&'a Cell> for CellRef<'a> {
    #[inline]
    fn from(cell: &'a Cell) -> Self {
        let Cell { timestamp, ttl, local_deletion_time, ref value } = *cell;
        Self { timestamp, ttl, local_deletion_time, value }
    }
}

/// The liveness of a row's primary key. An INSERT writes it, so that the row exists without a
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Write timestamp in µs; [`NO_TIMESTAMP`] if the row has no liveness.
    pub timestamp: i64,
    /// Time to live in seconds, 0 for none.
    pub ttl: u32,
    /// Second of expiry; [`NO_DELETION_TIME`] if the liveness does not expire.
    pub local_expiration: u32,
}

impl Liveness {
    /// The absence of a liveness.
    pub const NONE: Liveness =
        Liveness { timestamp: NO_TIMESTAMP, ttl: 0, local_expiration: NO_DELETION_TIME };

    /// Makes a liveness that does not expire.
    pub const fn live(timestamp: i64) -> Self {
        Self { timestamp, ttl: 0, local_expiration: NO_DELETION_TIME }
    }

    /// Returns whether the row has no liveness.
    pub const fn is_none(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Returns whether the liveness has a time to live.
    pub const fn is_expiring(&self) -> bool {
        self.ttl != 0
    }

    /// Returns whether the liveness makes the row visible to a reader at second `now_s`.
    pub const fn is_live(&self, now_s: u32) -> bool {
        !self.is_none()
            && (self.local_expiration == NO_DELETION_TIME
                || (self.ttl != EXPIRED_LIVENESS_TTL && now_s < self.local_expiration))
    }

    /// Returns whether this liveness wins over `other`.
    ///
    /// The later timestamp wins. At equal timestamps an expired liveness wins over others, then an
    /// expiring one over one that does not expire, then the later expiry.
    pub const fn supersedes(&self, other: &Liveness) -> bool {
        if self.timestamp != other.timestamp {
            return self.timestamp > other.timestamp;
        }
        let (expired, other_expired) =
            (self.ttl == EXPIRED_LIVENESS_TTL, other.ttl == EXPIRED_LIVENESS_TTL);
        if expired != other_expired {
            return expired;
        }
        if self.is_expiring() == other.is_expiring() {
            return self.local_expiration > other.local_expiration;
        }
        self.is_expiring()
    }
}
