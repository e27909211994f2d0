//! This module reads and writes the trie index of `da`, `ms` and `mt` SSTables: Partitions.db and
//! Rows.db.
//!
//! Partitions.db leads from a partition key to its position in Data.db. If the partition is wide,
//! it leads to the partition's entry in Rows.db. The entry has a trie of its own, which leads from
//! a clustering position to a block of rows. Keys are byte-comparable and cut short, so a match in
//! a trie is only a candidate: the reader always compares the real key at the candidate's position.
//!
//! Except for [`survey`], this module uses neither types nor files: callers encode the keys, pages
//! come from a [`PageSource`](espalier_trie::page::PageSource), and written bytes go to a
//! [`Sink`](espalier_trie::page::Sink).
//!
//! The format is Cassandra's BTI (CASSANDRA-18398). `ms` and `mt` are ScyllaDB's versions of it.
//! Format: docs/formats/partition-index.md and docs/formats/row-index.md.

mod error;
pub mod partition_index;
pub mod row_index;
pub mod survey;

pub use error::{IndexError, IndexWriteError, MalformedIndex};
