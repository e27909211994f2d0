//! The reason of a request's failure.

/// The reason of a failure, with Cassandra's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are Cassandra's")]
pub enum FailureReason {
    Unknown = 0,
    ReadTooManyTombstones = 1,
    Timeout = 2,
    IncompatibleSchema = 3,
    ReadSize = 4,
    NodeDown = 5,
    IndexNotAvailable = 6,
    ReadTooManyIndexes = 7,
}

impl FailureReason {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::ReadTooManyTombstones,
        Self::Timeout,
        Self::IncompatibleSchema,
        Self::ReadSize,
        Self::NodeDown,
        Self::IndexNotAvailable,
        Self::ReadTooManyIndexes,
    ];

    /// Returns the reason with a number. An unknown number gives [`FailureReason::Unknown`], as in
    /// Cassandra.
    pub fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Unknown)
    }
}
