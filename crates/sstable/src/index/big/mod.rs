//! This module reads and writes the index of `oa`, `nb`, `me` and older SSTables: Index.db and
//! Summary.db.
//!
//! Index.db has an entry for each partition, in the order of Data.db: the whole key and the
//! position. The entry of a wide partition also has a promoted index, which leads from a clustering
//! position to a block of rows. Index.db can only be read from front to back. Summary.db has
//! samples: the keys of some entries (by default of every 128th) and their positions in Index.db.
//! The index holds the samples in memory. A look-up searches the samples, and then the entries
//! between two samples. The content of Summary.db is a hint: the index compares it with Index.db as
//! far as an answer relies on it. The index rebuilds a summary that is missing or damaged, or that
//! contradicts Index.db.
//!
//! | module | content |
//! | --- | --- |
//! | [`partition_index`] | Index.db: entries |
//! | [`promoted_index`] | blocks of rows, inside an entry |
//! | [`summary`] | Summary.db |
//! | [`BigIndex`] | the whole index: one key, the first key of a range, all keys in order |
//!
//! Bytes come from an [`IndexFile`], by pages or in large pieces. Format: docs/formats/big-index.md
//! and docs/formats/partition-index.md.

mod big_index;
mod error;
mod file;
pub(crate) mod flat_page;
#[cfg(test)]
mod naive_page;
pub mod partition_index;
pub mod promoted_index;
pub mod summary;
mod window;

pub use big_index::BigIndex;
pub use error::BigIndexWriteError;
pub use file::{IndexFile, MemoryFile};
