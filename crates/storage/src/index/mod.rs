//! Secondary indexes: each memtable and each SSTable has a trie of (value, primary key) for each
//! index.
//!
//! | module | contents |
//! | --- | --- |
//! | `entry` | the bytes of an entry |
//! | `component`, `vector_component` | the entries of an SSTable, which a flush writes |
//! | `search` | the terms that a read looks up |
//! | `source`, `union` | cursors over the entries, and their union in the order of the table |
//! | `candidates` | the places of one term |
//! | `range`, `kept` | the places of a range of values, sorted in passes |
//! | `nearest` | a search for the most similar vectors |
//! | `read` | a read of the rows that the entries name |
//! | `build`, `failures` | the background task that indexes SSTables without entries |
//!
//! Entries may be stale: an entry says that some write gave the row the value, not that the row
//! still has it. No entry is missing. The reader reads each row and drops the rows that do not have
//! the value (docs/decisions/0034-secondary-indexes.md).

mod build;
mod candidates;
mod component;
mod entry;
mod failures;
mod kept;
mod nearest;
mod range;
mod read;
mod search;
mod source;
mod union;
mod vector_component;

pub(crate) use build::{has_entries_of, run as run_builder};
pub(crate) use component::write_memtable;
pub(crate) use failures::IndexFailures;
pub(crate) use range::CostlyRanges;
pub(crate) use read::{Indexed, read_indexed};
pub use search::{FormBound, FoundPlaces, IndexSearch, IndexTerm, IndexValues, NearestBound};
