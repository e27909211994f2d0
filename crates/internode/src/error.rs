//! The reasons why the node cannot decode the bytes of a peer.

use espalier_mutation::{encoding::input::Malformed, schema::TableId};

/// The reason why a message, or a part of it, cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the part does.
    #[error("the message ends too early")]
    Ended,
    /// The bytes do not follow the format.
    #[error("{0}")]
    Malformed(&'static str),
    /// Bytes follow where the payload must end.
    #[error("{0} bytes follow the payload")]
    Trailing(usize),
    /// The schema has no such table.
    #[error(
        "Couldn't find table with id {0}. If a table was just created, this is likely due to the \
         schema not being fully propagated.  Please wait for schema agreement on table creation."
    )]
    UnknownTable(TableId),
    /// The table has no column of this name, and has dropped none.
    #[error("Unknown column {column} during deserialization: table {table}")]
    UnknownColumn {
        /// The column, with bytes that are not UTF-8 replaced.
        column: String,
        /// The table with its keyspace.
        table: String,
    },
    /// The bytes follow a format that is not implemented here.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// A checksum does not match.
    #[error("Read {read}, Computed {computed}")]
    Checksum {
        /// The checksum in the bytes.
        read: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A frame is broken.
    #[error(transparent)]
    Frame(#[from] espalier_server::protocol::DecodeError),
    /// A message is longer than the limit.
    #[error("a message of {length} bytes exceeds the limit of {limit} bytes")]
    Oversized {
        /// The length that the message announces, in bytes.
        length: u64,
        /// The limit in bytes.
        limit: usize,
    },
}

/// The outcome of decoding.
pub(crate) type Result<T, E = DecodeError> = std::result::Result<T, E>;

impl From<Malformed> for DecodeError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Ended => Self::Ended,
            Malformed::Wrong(reason) => Self::Malformed(reason),
        }
    }
}
