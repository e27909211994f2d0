//! Partitions.db leads from a partition key to the location of its rows.
//!
//! The file has a trie of the shortest unique prefixes of byte-comparable keys, then the first and
//! the last key in full, and a footer of fixed size. The prefixes are unique and none is a prefix
//! of another, so each payload is in a leaf (or in the root, if there is only one partition). A
//! leaf that a look-up finds may belong to a neighbour of the wanted key, so the reader compares
//! the real key. A hash byte in the payload excludes 255 of 256 wrong leaves before that. Format:
//! docs/formats/partition-index.md.

mod layout;
mod reader;
mod writer;

pub use layout::{Candidate, Footer, IndexPosition};
pub(super) use layout::{decode_payload, payload_size};
pub use reader::{PartitionCursor, PartitionIndexReader};
pub use writer::{PartitionIndexWriter, WrittenPartitionIndex};
