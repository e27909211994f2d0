//! The legacy index of `oa`, `nb` and `me` SSTables, and of older ones: Index.db and Summary.db.
//!
//! Index.db has an entry for each partition, in the order of Data.db: the whole key, the position, and for a wide partition a
//! promoted index, which leads from a clustering position to a block of rows. It can only be read from front to back.
//! Summary.db has every 128th entry's key and its position in Index.db, and is held in memory: a look-up searches it by
//! halves, then reads entries up to the next sample. What Summary.db says is a hint: everything is compared with Index.db,
//! and a summary that is missing, damaged or contradicts is made anew.
//!
//! | module | what |
//! | --- | --- |
//! | [`partition_index`] | Index.db: entries |
//! | [`promoted_index`] | blocks of rows, inside an entry |
//! | [`summary`] | Summary.db |
//! | [`BigIndex`] | all of it together: one key, the first key of a range, all keys in order |
//!
//! Bytes come from an [`IndexFile`], by pages or in large pieces. Source: reference 11 and 16.

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
