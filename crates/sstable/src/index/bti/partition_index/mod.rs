//! Partitions.db: from a partition key to where its rows are.
//!
//! A trie of shortest unique prefixes of byte-comparable keys, then the first and the last key in full
//! and a footer of fixed size. Prefixes are unique and none is a prefix of another, so a payload is
//! always a leaf (or the root, if there is one partition), and whether a found leaf is the wanted key
//! or its neighbour is told by the real key alone; a hash byte in the payload rules out 255 of 256.

mod layout;
mod reader;
mod writer;

pub use layout::{Candidate, Footer, IndexPosition};
pub(super) use layout::{decode_payload, payload_size};
pub use reader::{PartitionCursor, PartitionIndexReader};
pub use writer::{PartitionIndexWriter, WrittenPartitionIndex};
