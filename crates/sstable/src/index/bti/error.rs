//! This module defines the errors of reading and writing a trie index.

use espalier_trie::page::{CorruptNode, ReadError, WriteError};
use thiserror::Error;

/// An error for bytes of an index that violate the format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed index at position {position}: {reason}")]
pub struct MalformedIndex {
    /// Position in the file.
    pub position: u64,
    /// The fault at that position.
    pub reason: &'static str,
}

/// An error of reading an index. `E` is the error of the page source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError<E> {
    /// The page source could not deliver a page.
    #[error("{0}")]
    Source(E),
    /// A node of a trie is corrupt.
    #[error(transparent)]
    Node(CorruptNode),
    /// Something else in the file is malformed.
    #[error(transparent)]
    Malformed(#[from] MalformedIndex),
}

impl<E> From<ReadError<E>> for IndexError<E> {
    fn from(error: ReadError<E>) -> Self {
        match error {
            ReadError::Source(error) => Self::Source(error),
            ReadError::Corrupt(node) => Self::Node(node),
        }
    }
}

/// An error of writing an index. The cause is a mistake of the caller, or a value that the format
/// cannot hold. After an error, the caller must add nothing to the index, which may be incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexWriteError {
    /// The trie's writer rejected a key.
    #[error(transparent)]
    Trie(#[from] WriteError),
    /// Keys or positions of blocks do not come in strictly increasing order, or a key is a prefix
    /// of the next key.
    #[error("key {number} does not come after its predecessor")]
    OutOfOrder {
        /// Number of the key or block, from 0.
        number: u64,
    },
    /// A partition key is longer than 65,535 bytes.
    #[error("partition key of {length} bytes; the format holds 65535")]
    KeyTooLong {
        /// Length of the key in bytes.
        length: usize,
    },
    /// A position or offset is greater than the format holds.
    #[error("position {position} is beyond what the index can hold")]
    PositionTooLarge {
        /// The rejected position.
        position: u64,
    },
    /// The deletion has a negative timestamp, which `da` cannot hold in Data.db or in Rows.db.
    /// (Cassandra 5.0.9 writes such deletions and cannot read them back.)
    #[error("deletion at timestamp {timestamp}: this version holds no negative ones")]
    NegativeDeletion {
        /// The deletion's `marked_for_delete_at` in µs.
        timestamp: i64,
    },
}
