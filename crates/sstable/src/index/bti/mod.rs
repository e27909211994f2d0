//! The trie index of `da`, `ms` and `mt` SSTables: Partitions.db and Rows.db.
//!
//! Partitions.db leads from a partition key to its place in Data.db, or, if the partition is wide, to
//! its entry in Rows.db, whose own trie leads from a clustering position to a block of rows. Keys are
//! byte-comparable and cut short: the tries prove nothing by themselves, the real key is always
//! compared where they lead.
//!
//! Nothing here knows types or files: keys come encoded, pages from a
//! [`PageSource`](espalier_trie::page::PageSource), and written bytes go to a
//! [`Sink`](espalier_trie::page::Sink).
//!
//! The format is Cassandra's BTI (CASSANDRA-18398); `ms` and `mt` are ScyllaDB's use of it.

mod error;
pub mod partition_index;
pub mod row_index;
pub mod survey;

pub use error::{IndexError, IndexWriteError, MalformedIndex};
