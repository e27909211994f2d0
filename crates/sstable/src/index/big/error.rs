//! What cannot be written to an index.

use thiserror::Error;

/// Why something could not be written to an index. Only callers' mistakes and values beyond what the format can hold end
/// here; the index is not to be continued then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BigIndexWriteError {
    /// A partition key is longer than 65,535 bytes.
    #[error("partition key of {length} bytes; the format holds 65535")]
    KeyTooLong {
        /// Its length.
        length: usize,
    },
    /// Positions in Data.db do not increase from entry to entry, or those of blocks inside of a partition.
    #[error("position {position} does not come after {previous}")]
    OutOfOrder {
        /// The position.
        position: u64,
        /// The one before.
        previous: u64,
    },
    /// The promoted index of one partition has 2 GiB.
    #[error("the index of a partition's rows is longer than {limit} bytes")]
    TooManyBlocks {
        /// The most that the format holds.
        limit: usize,
    },
    /// A clustering value does not have its type's length.
    #[error("clustering position: {0}")]
    Position(String),
}
