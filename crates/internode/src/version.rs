//! Versions of the messages between nodes.

/// A version of the messages, by Cassandra's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessagingVersion {
    /// Cassandra 4.0 and 4.1, and 5.0 in its default compatibility mode.
    V12 = 12,
    /// Cassandra 5.0 with `storage_compatibility_mode: NONE`: seconds are unsigned, and a shutdown
    /// message carries the state of its node.
    V13 = 13,
}

impl MessagingVersion {
    /// All versions, in ascending order.
    pub const ALL: [Self; 2] = [Self::V12, Self::V13];

    /// Returns the version of this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.number() == number)
    }

    /// Returns Cassandra's number.
    pub fn number(self) -> u8 {
        self as u8
    }
}
