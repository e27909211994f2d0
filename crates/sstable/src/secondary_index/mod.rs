//! SecondaryIndex_NAME.db: the entries of one secondary index for the rows of one SSTable.
//!
//! The component is Espalier's own; Cassandra and ScyllaDB copy it, and delete it with its SSTable.
//! Its pages have their checksums in Checksums.db. Format: docs/formats/secondary-index.md.
//!
//! Entries are byte strings to this module. They come in segments: each is a page trie that a
//! writer filled from sorted entries, and a reader unites the segments.

mod layout;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{EntryCursor, SecondaryIndex};
pub use writer::SecondaryIndexWriter;
