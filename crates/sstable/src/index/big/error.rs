//! This module defines the errors of writing an index in the `big` format.

use thiserror::Error;

/// An error of writing an index. The cause is a mistake of the caller, or a value that the format
/// cannot hold. After an error, the caller must add nothing to the index.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BigIndexWriteError {
    /// A partition key is longer than 65,535 bytes.
    #[error("partition key of {length} bytes; the format holds 65535")]
    KeyTooLong {
        /// Length of the key in bytes.
        length: usize,
    },
    /// Positions do not increase: positions in Data.db from entry to entry, or positions of blocks
    /// inside a partition.
    #[error("position {position} does not come after {previous}")]
    OutOfOrder {
        /// The rejected position.
        position: u64,
        /// The position of the entry or block before it.
        previous: u64,
    },
    /// The promoted index of one partition reaches 2 GiB.
    #[error("the index of a partition's rows is longer than {limit} bytes")]
    TooManyBlocks {
        /// Maximum length of the blocks in bytes.
        limit: usize,
    },
    /// A clustering value does not have the length of its type.
    #[error("clustering position: {0}")]
    Position(String),
}
