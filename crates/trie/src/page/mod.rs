//! The trie on disk: nodes packed into 4 KiB pages, written bottom-up, read in place.
//!
//! Invariants of a file: a node with its payload lies within one page, and a child lies before its
//! parent. The file has no other structure. Several tries, and bytes of other kinds, may follow one
//! another in it; the position of its root identifies a trie.
//!
//! Writing ([`PageTrieWriter`]) takes keys in order and needs memory for one path and its pending
//! branches, not for the keys. Reading ([`Walker`] for look-ups, [`Cursor`] for iteration) takes
//! pages from a [`PageSource`] and holds one at a time.
//!
//! The format is Apache Cassandra's BTI (CASSANDRA-18398), also written by ScyllaDB.

mod chain;
mod cursor;
mod encode;
mod error;
pub mod layout;
mod node;
mod pending;
mod search;
mod sink;
mod source;
#[cfg(test)]
mod testing;
mod walker;
mod writer;

pub use cursor::Cursor;
pub use error::{CorruptNode, Fault, ReadError, WriteError};
pub use layout::PAGE_SIZE;
pub use node::{Node, Search};
pub use search::{Descent, FloorSearch, PrefixSearch};
pub use sink::Sink;
pub use source::{MemoryPages, PageSource, read_bytes};
pub use walker::Walker;
pub use writer::{PageTrieWriter, common_prefix_length};
