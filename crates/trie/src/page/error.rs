//! Errors of page-packed tries: damaged nodes, failed reads, refused keys.

use thiserror::Error;

/// A damaged node: the bytes at this position are not a valid node. Reading stops there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("corrupt trie node at position {position}: {fault}")]
pub struct CorruptNode {
    /// Position of the node's first byte in its file.
    pub position: u64,
    /// The fault of the node.
    pub fault: Fault,
}

/// A fault of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The node runs over the end of its page or of the file.
    #[error("it does not fit in its page")]
    PastPage,
    /// A child does not lie before its parent, or lies before the file.
    #[error("a child is {distance} bytes before it")]
    Distance {
        /// The distance read.
        distance: u64,
    },
    /// A node with neither payload nor child; no path may end there.
    #[error("it has neither payload nor children")]
    Empty,
    /// A dense node whose transitions go beyond 255, the greatest byte.
    #[error("its transitions go beyond 255")]
    Transitions,
    /// The path is longer than [`MAX_DEPTH`](super::layout::MAX_DEPTH).
    #[error("it lies deeper than any key is long")]
    TooDeep,
}

/// The reason why a trie could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReadError<E> {
    /// The source could not provide the page.
    #[error("{0}")]
    Source(E),
    /// The page holds something other than the trie.
    #[error(transparent)]
    Corrupt(#[from] CorruptNode),
}

/// The reason why a key was not added to a trie, or the trie not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The key is not above the previous key, from which it first differs at `depth`.
    #[error("key {number} is not above its predecessor (they part at byte {depth})")]
    OutOfOrder {
        /// Number of the key, from 0.
        number: u64,
        /// Length of the common prefix.
        depth: usize,
    },
    /// The key is longer than [`MAX_DEPTH`](super::layout::MAX_DEPTH).
    #[error("key of {length} bytes is too long for a trie")]
    KeyTooLong {
        /// The key's length, in bytes.
        length: usize,
    },
    /// The payload is longer than [`MAX_PAYLOAD_SIZE`](super::layout::MAX_PAYLOAD_SIZE), or its
    /// bits are not 1..=15.
    #[error("payload of {length} bytes with bits {bits} does not fit in a trie node")]
    Payload {
        /// The payload's length, in bytes.
        length: usize,
        /// The payload's bits.
        bits: u8,
    },
    /// A trie has at least one key.
    #[error("a trie without keys cannot be written")]
    NoKeys,
}
