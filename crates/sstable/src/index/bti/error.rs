//! What can go wrong with a trie index.

use espalier_trie::page::{CorruptNode, ReadError, WriteError};
use thiserror::Error;

/// Bytes of an index that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed {component} at position {position}: {reason}")]
pub struct MalformedIndex {
    /// The component: `Partitions.db` or `Rows.db`.
    pub component: &'static str,
    /// Position in that file.
    pub position: u64,
    /// What is wrong there.
    pub reason: &'static str,
}

/// Why an index could not be read; `E` is the page source's error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexError<E> {
    /// A page could not be had.
    #[error("{0}")]
    Source(E),
    /// A node of a trie is corrupt.
    #[error("{component}: {node}")]
    Node {
        /// The component: `Partitions.db` or `Rows.db`.
        component: &'static str,
        /// The node and its fault.
        node: CorruptNode,
    },
    /// Something else in the file is malformed.
    #[error(transparent)]
    Malformed(#[from] MalformedIndex),
}

impl<E> IndexError<E> {
    pub(super) fn of(component: &'static str) -> impl Fn(ReadError<E>) -> IndexError<E> {
        move |error| match error {
            ReadError::Source(error) => IndexError::Source(error),
            ReadError::Corrupt(node) => IndexError::Node { component, node },
        }
    }
}

/// Why something could not be written to an index. Only callers' mistakes and values beyond what the
/// format can hold end here; nothing is written in that case, and the index is not to be continued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IndexWriteError {
    /// The trie refused a key.
    #[error(transparent)]
    Trie(#[from] WriteError),
    /// Keys do not come in strictly increasing order, or one is a prefix of the next.
    #[error("key {number} does not come after its predecessor")]
    OutOfOrder {
        /// Number of the key or block, from 0.
        number: u64,
    },
    /// A partition key is longer than 65,535 bytes.
    #[error("partition key of {length} bytes; the format holds 65535")]
    KeyTooLong {
        /// Its length.
        length: usize,
    },
    /// A position or offset is greater than the format holds.
    #[error("position {position} is beyond what the index can hold")]
    PositionTooLarge {
        /// The position.
        position: u64,
    },
    /// `da` has no room for deletions with negative timestamps, in Data.db as in Rows.db (Cassandra
    /// 5.0.9 writes them and cannot read them back).
    #[error("deletion at timestamp {timestamp}: this version holds no negative ones")]
    NegativeDeletion {
        /// Its `marked_for_delete_at`, in µs.
        timestamp: i64,
    },
}
